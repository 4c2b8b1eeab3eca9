//! What a job in a cage cannot do.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;

use aot_runner::process::How;
use aot_runner::process::cage::{Cage, Choice, Expected, Holds, Kind, Network, find, prove};

use super::kit::{Yard, guard, kinds};

#[test]
fn nothing_outside_can_be_written() {
    for &kind in kinds() {
        for script in [
            "echo x > $OUT/file",
            "echo x >> $OUT/file",
            "echo x > $OUT/new",
            "echo x > ../out/file",
            "cd $IN/.. && echo x > out/file",
            "ln -s $OUT way && echo x > way/file",
            "ln -s $OUT/file link && echo x > link",
            "ln $OUT/file hard && echo x > hard",
            "echo x > inside && mv -f inside $OUT/file",
            "mv $OUT/file .",
            "mv $OUT elsewhere",
            "rm -f $OUT/file && test ! -e $OUT/file",
            "rm -rf $OUT; test ! -e $OUT",
            "truncate -s 0 $OUT/file",
            "mkdir $OUT/new",
            "ln -s / $OUT/new",
            "mkfifo $OUT/new",
            "cp /bin/true $OUT/new",
            "dd if=/dev/zero of=$OUT/file count=1 conv=notrunc",
            "echo x > /proc/$PPID/root$OUT/file",
            "echo x > /proc/1/root$OUT/file",
            "echo x > /proc/$PPID/cwd/../out/file",
            "touch /tmp/aot-cage-$$",
            "touch /var/tmp/aot-cage-$$",
            "touch ~/aot-cage-$$",
            // What a superuser would try.
            "mount -o remount,rw / && echo x > $OUT/file",
            "mount --bind $OUT $IN/tmp && echo x > tmp/file",
            "umount -l $IN && echo x > $OUT/file",
            "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo x > $OUT/file'",
            "nsenter -t 1 -m sh -c 'echo x > $OUT/file'",
            // Opened for writing is enough of a hole; nothing is written, in case there is one.
            ": >> /proc/sys/kernel/core_pattern",
            ": >> /proc/sysrq-trigger",
            "mknod disk b $(stat -c '%Hd %Ld' $OUT) && dd if=disk of=/dev/null count=1",
        ] {
            let yard = Yard::of(kind);
            let (how, said) = yard.sh(script);
            assert!(matches!(how, How::Exited(code) if code != 0), "{kind}: {script}: {how:?} {said}");
            assert_eq!(
                fs::read(yard.path("out/file")).expect("it is there"),
                b"as it was",
                "{kind}: {script}"
            );
            assert_eq!(fs::read_dir(yard.path("out")).expect("it is there").count(), 1, "{kind}: {script}");
        }
    }
}

#[test]
fn a_way_that_was_laid_beforehand_leads_nowhere() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        symlink(yard.path("out"), yard.path("in/folder")).expect("a link");
        symlink(yard.path("out/file"), yard.path("in/link")).expect("a link");
        for script in ["echo x > folder/file", "echo x > link", "echo x > folder/new", "rm folder/file"] {
            assert!(matches!(yard.sh(script).0, How::Exited(code) if code != 0), "{kind}: {script}");
        }
        assert_eq!(fs::read(yard.path("out/file")).expect("it is there"), b"as it was");
    }
}

/// Two names of one file: no cage can tell. The documentation says so; if this changes, it should too.
#[test]
fn a_hard_link_that_was_there_beforehand_is_a_hole() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        fs::hard_link(yard.path("out/file"), yard.path("in/hard")).expect("a link");
        assert_eq!(yard.sh("echo x > hard").0, How::Exited(0));
        assert_eq!(fs::read(yard.path("out/file")).expect("it is there"), b"x\n");
    }
}

/// The guard outside and the supervisor: neither can be ended, spoken to or looked into.
#[test]
fn whoever_keeps_the_cage_is_out_of_reach() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        let us = std::process::id();
        for script in [
            format!("kill -0 {us}"),
            format!("kill -STOP {us}"),
            format!("cat /proc/{us}/environ"),
            "kill -9 $PPID; exit 3".to_owned(),
            "echo 'exit 0 0' > /proc/$PPID/fd/0".to_owned(),
            "cat /proc/$PPID/mem > /dev/null".to_owned(),
            "gdb -p $PPID -batch".to_owned(),
        ] {
            let (how, said) = yard.sh(&script);
            assert!(matches!(how, How::Exited(code) if code != 0), "{kind}: {script}: {how:?} {said}");
        }
    }
}

#[test]
fn the_network_is_as_it_was_asked_for() {
    for &kind in kinds() {
        for (network, works) in [(Network::On, true), (Network::Off, false)] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("it has one").port();
            let mut yard = Yard::of(kind);
            yard.network = network.clone();
            let (how, said) = yard.sh(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"));
            assert_eq!(how == How::Exited(0), works, "{kind} {network:?}: {said}");
        }
    }
}

#[test]
fn what_may_be_written_is_named_exactly() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        let odd = yard.path("").join(OsString::from_vec(b"odd \xff\n".to_vec()));
        fs::create_dir(&odd).expect("a folder");
        symlink(yard.path("out"), yard.path("link")).expect("a link");
        let also = |paths: &[std::path::PathBuf], script: &str| {
            let mut job = yard.job(script);
            job.cage = Some(Cage { writable: paths.to_vec(), ..yard.cage() });
            yard.run(job).how
        };
        assert_eq!(also(std::slice::from_ref(&odd), "cd ../odd* && echo x > x"), How::Exited(0));
        assert_eq!(also(&[], "echo x > x"), How::Exited(1));
        // One file alone, and a folder under another name.
        assert_eq!(also(&[yard.path("out/file")], "echo x > $OUT/file"), How::Exited(0));
        assert_eq!(also(&[yard.path("out/file")], "echo x > $OUT/other"), How::Exited(1));
        assert_eq!(also(&[yard.path("link")], "echo x > $OUT/other; echo x > ../link/more"), How::Exited(0));
        let mut job = yard.job("true");
        job.cage = Some(Cage { writable: vec![yard.path("gone")], ..yard.cage() });
        let error = guard().run(&job).expect_err("it is missing").to_string();
        assert!(error.contains(&yard.path("gone").display().to_string()), "{error}");
    }
}

#[test]
fn a_project_in_shared_memory_does_not_open_all_of_it() {
    for &kind in kinds() {
        let Ok(place) = tempfile::tempdir_in("/dev/shm") else { continue };
        for folder in ["in", "out"] {
            fs::create_dir(place.path().join(folder)).expect("a folder");
        }
        let yard = Yard::of(kind);
        let mut job = yard.job("echo x > x && test -d ../out && ! echo y > ../out/y");
        job.folder = place.path().join("in");
        job.cage = Some(Cage { writable: vec![job.folder.clone()], ..yard.cage() });
        assert_eq!(yard.run(job).how, How::Exited(0), "{kind}");
        assert!(place.path().join("in/x").exists(), "{kind}");
        assert!(!place.path().join("out/y").exists(), "{kind}");
    }
}

#[test]
fn what_is_claimed_holds() {
    let scratch = tempfile::tempdir().expect("a folder");
    for &kind in kinds() {
        let trials = prove(&guard(), kind, scratch.path(), &[]);
        assert!(trials.len() > 20, "{trials:#?}");
        for trial in &trials {
            assert_ne!(trial.holds, Holds::No, "{kind}: {trial:?}");
        }
        let told = |holds: Holds| trials.iter().filter(|trial| trial.holds == holds).count();
        // Nothing is excused that need not be: hard links and sockets, and without mounts of its own mode and times.
        let excused = if kind.has_own_view() { 2 } else { 4 };
        assert_eq!(told(Holds::NotClaimed), excused, "{kind}: {trials:#?}");
    }
    assert_eq!(fs::read_dir(scratch.path()).expect("it is there").count(), 0, "trials leave nothing");
}

/// The trials can fail: without a cage nearly all of them do.
#[test]
fn without_a_cage_nothing_holds() {
    let scratch = tempfile::tempdir().expect("a folder");
    let trials = prove(&guard(), Kind::None, scratch.path(), &[]);
    for trial in &trials {
        let is_job = trial.what.starts_with("leave a process");
        let expected = match trial.wanted {
            Expected::Refused if !is_job => Holds::NotClaimed,
            Expected::Refused | Expected::Works | Expected::Known => Holds::Yes,
        };
        assert_eq!(trial.holds, expected, "{trial:?}");
    }
}

#[test]
fn the_ladder_is_climbed_from_the_top() {
    let scratch = tempfile::tempdir().expect("a folder");
    let best = find(&guard(), Choice::Auto, scratch.path());
    assert_eq!(best.kind, kinds()[0]);
    assert_eq!(best.refused.is_empty(), kinds()[0] == Kind::Bwrap, "{best:?}");
    let none = find(&guard(), Choice::Only(Kind::None), scratch.path());
    assert_eq!(none.as_wanted(), Ok(Kind::None));
    // A scratch folder that is not there: nothing can be tried, and nothing is believed.
    let blind = find(&guard(), Choice::Only(Kind::Landlock), &scratch.path().join("gone"));
    assert_eq!(blind.kind, Kind::None);
    assert!(blind.as_wanted().is_err_and(|why| why.contains("cannot be tried")), "{blind:?}");
}
