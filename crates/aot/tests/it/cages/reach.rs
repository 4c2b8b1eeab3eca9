//! What a job in a cage cannot reach although it lies in no file that it could write: processes, keyrings, sockets,
//! devices, modes and times.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio};

use aot_runner::process::How;

use super::kit::{Yard, kinds};

/// A process outside of the same user: neither ended nor slowed down nor looked into, by whatever call.
#[test]
fn processes_outside_are_out_of_reach() {
    let mut victim = Command::new("sleep").arg("120").stdin(Stdio::null()).spawn().expect("sleep is here");
    let proc = format!("/proc/{}", victim.id());
    // Its nice value, its policy and where it may run; the times between them change by themselves.
    let seen = || {
        let stat = fs::read_to_string(format!("{proc}/stat")).expect("it lives");
        let fields: Vec<&str> = stat.split(' ').collect();
        let status = fs::read_to_string(format!("{proc}/status")).expect("it lives");
        let processors = status.lines().find(|line| line.starts_with("Cpus_allowed:")).expect("it is told");
        let limits = fs::read_to_string(format!("{proc}/limits")).expect("it lives");
        (fields[18].to_owned(), fields[40].to_owned(), processors.to_owned(), limits)
    };
    let before = seen();
    let call = |words: &str| {
        format!(
            "import ctypes,os,sys; v=$VICTIM; c=ctypes.CDLL(None).syscall; r={words}; print(r); sys.exit(0 if r >= 0 else 1)"
        )
    };
    for &kind in kinds() {
        for script in [
            "prlimit --pid $VICTIM --cpu=1".to_owned(),
            "prlimit --pid $VICTIM --core=0".to_owned(),
            "renice -n 5 -p $VICTIM".to_owned(),
            "ionice -c 3 -p $VICTIM".to_owned(),
            "chrt -i -p 0 $VICTIM".to_owned(),
            "taskset -p 1 $VICTIM".to_owned(),
            "gdb -p $VICTIM -batch -ex 'call (int)getpid()' 2>&1 | grep -q '^\\$1'".to_owned(),
            "cat /proc/$VICTIM/environ".to_owned(),
            "readlink /proc/$VICTIM/exe".to_owned(),
            // process_vm_readv, pidfd_getfd over pidfd_open, kcmp
            format!("python3 -c \"{}\"", call("c(310, v, i, 1, i, 1, 0)")),
            format!("python3 -c \"{}\"", call("c(438, os.pidfd_open(v), 0, 0)")),
            format!("python3 -c \"{}\"", call("c(312, v, v, 0, 0, 0)")),
        ] {
            let yard = Yard::of(kind);
            let script = script.replace("$VICTIM", &victim.id().to_string());
            let (how, said) = yard.sh(&script);
            assert!(matches!(how, How::Exited(code) if code != 0), "{kind}: {script}: {how:?} {said}");
        }
        // These mean its own there, and are no failure.
        let yard = Yard::of(kind);
        yard.sh("renice -n 5 -u $(id -u); renice -n 5 -g 0; kill -9 -1");
        assert_eq!(seen(), before, "{kind}");
    }
    assert!(victim.try_wait().expect("it is ours").is_none(), "it lives");
    victim.kill().expect("it is ours");
    victim.wait().expect("it is ours");
}

/// What a job does to itself and to its own processes stays possible.
#[test]
fn its_own_processes_are_its_own() {
    for &kind in kinds() {
        for script in [
            "ulimit -n 100 && prlimit --nofile=50 true",
            "nice -n 5 true && ionice -c 3 true && chrt -i 0 true && taskset 1 true",
            "sleep 60 & kill -9 $!",
            "sleep 60 & gdb -p $! -batch 2>&1 | grep -q nanosleep; kill -9 $!",
        ] {
            let (how, said) = Yard::of(kind).sh(script);
            assert_eq!(how, How::Exited(0), "{kind}: {script}: {said}");
        }
    }
}

/// The keys of the session lie in the kernel, where no file leads.
#[test]
fn keyrings_cannot_be_asked() {
    let call = if cfg!(target_arch = "x86_64") { 250 } else { 219 };
    let script =
        format!("python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall({call}, 0, -4, 0) < 0)'");
    assert!(
        Command::new("sh").args(["-c", &script]).status().expect("it runs").success(),
        "it works outside"
    );
    for &kind in kinds() {
        let (how, said) = Yard::of(kind).sh(&script);
        assert_eq!(how, How::Exited(1), "{kind}: {said}");
    }
}

#[test]
fn abstract_sockets_outside_are_closed_and_its_own_are_not() {
    let name = format!("aot-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("a socket");
    let connect = |name: &str| format!("s=socket.socket(socket.AF_UNIX); s.connect('\\0{name}')");
    for &kind in kinds() {
        let yard = Yard::of(kind);
        let (how, said) = yard.sh(&format!("python3 -c \"import socket; {}\"", connect(&name)));
        assert_eq!(how, How::Exited(1), "{kind}: {said}");
        assert!(said.contains("PermissionError"), "{kind}: {said}");
        let own =
            format!("l=socket.socket(socket.AF_UNIX); l.bind('\\0own'); l.listen(); {}", connect("own"));
        let (how, said) = yard.sh(&format!("python3 -c \"import socket; {own}\""));
        assert_eq!(how, How::Exited(0), "{kind}: {said}");
    }
}

/// The superuser owns the system's devices, which every cage has to share.
#[test]
fn devices_stay_as_they_are() {
    let seen = || {
        let meta = fs::metadata("/dev/null").expect("it is there");
        (meta.mode(), meta.uid(), meta.gid())
    };
    let before = seen();
    for &kind in kinds() {
        for script in [
            // To what it is, in case there is a hole.
            "chmod 666 /dev/null",
            "chmod 666 /dev/zero",
            "chown 0:0 /dev/null",
            "chmod --reference=/dev/null /dev/tty",
            "setfattr -n user.x -v y /dev/null",
            "rm -f /dev/null && test -e /dev/null",
        ] {
            let (how, said) = Yard::of(kind).sh(script);
            assert!(matches!(how, How::Exited(code) if code != 0), "{kind}: {script}: {how:?} {said}");
        }
        if kind.has_own_view() {
            let (how, said) = Yard::of(kind).sh("echo x > x && cp -p x /dev/null; stat -c %a /dev/null");
            assert_eq!(how, How::Exited(0), "{kind}: {said}");
        }
        assert_eq!(seen(), before, "{kind}");
        let (how, said) =
            Yard::of(kind).sh("echo x > /dev/null && head -c 1 /dev/zero | wc -c && : < /dev/full");
        assert_eq!((how, said.trim()), (How::Exited(0), "1"), "{kind}");
    }
}

#[test]
fn mode_owner_and_times_outside_stay_where_mounts_are_its_own() {
    for &kind in kinds().iter().filter(|kind| kind.has_own_view()) {
        for script in [
            "chmod 777 $OUT/file",
            "touch $OUT/file",
            "chmod 700 $OUT",
            "chown $(id -u) $OUT/file",
            "setfattr -n user.x -v y $OUT/file",
            "chmod 700 /tmp/..",
        ] {
            let yard = Yard::of(kind);
            let before = fs::metadata(yard.path("out/file")).expect("it is there");
            let (how, said) = yard.sh(script);
            assert!(matches!(how, How::Exited(code) if code != 0), "{kind}: {script}: {how:?} {said}");
            let after = fs::metadata(yard.path("out/file")).expect("it is there");
            assert_eq!(
                (after.mode(), after.mtime_nsec()),
                (before.mode(), before.mtime_nsec()),
                "{kind}: {script}"
            );
        }
    }
}

/// What lies in something writable and is not to be written: the state file and the repository of a job in place.
#[test]
fn a_part_of_what_is_writable_is_spared_where_mounts_are_its_own() {
    for &kind in kinds().iter().filter(|kind| kind.has_own_view()) {
        let yard = Yard::of(kind);
        fs::create_dir(yard.path("in/spared")).expect("a folder");
        fs::write(yard.path("in/spared/file"), "as it was").expect("a file");
        let mut job = yard.job("echo x > y; echo x > spared/file; rm -f spared/file; mv spared gone; true");
        job.cage.as_mut().expect("it has one").read_only = vec![yard.path("in/spared")];
        assert_eq!(yard.run(job).how, How::Exited(0), "{kind}");
        assert!(yard.path("in/y").exists(), "{kind}");
        assert_eq!(fs::read(yard.path("in/spared/file")).expect("it is there"), b"as it was", "{kind}");
    }
}
