//! The cage that bubblewrap builds: a view of the file system in which only some places can be written, and a world of
//! processes of its own whose first is a second guard.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::{BWRAP, Cage, CageError, Network};

const SHARED_MEMORY: &str = "/dev/shm";

/// What a superuser keeps; see the other cage. Anybody else has nothing to give up.
const KEPT: [&str; 8] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_NET_BIND_SERVICE",
];

/// Where programs listen that run anything for whoever asks. They are covered unless they were named as writable.
const DOORS: [&str; 6] = [
    "/run/docker.sock",
    "/run/podman",
    "/run/containerd",
    "/run/user",
    "/run/screen",
    "/run/systemd/private",
];

/// A command that starts a guard within the cage, and the files that it needs open until it was spawned.
#[derive(Debug)]
pub struct Caged {
    pub command: Command,
    _words: File,
    _program: File,
}

/// Wraps this very program, started with what `words` makes of the number of its own file.
///
/// Two files are inherited by number. Nothing else may be started at the same time, and nothing is: a guard calls this
/// before it has a second thread.
pub fn caged(cage: &Cage, folder: &Path, words: impl FnOnce(i32) -> Vec<OsString>) -> io::Result<Caged> {
    let bwrap = BWRAP.iter().find(|path| Path::new(path).is_file());
    let bwrap = bwrap.ok_or_else(|| io::Error::other(CageError::NoBwrap))?;
    // By its number and not by its name: it may have been replaced or deleted since it was started.
    let program = File::open("/proc/self/exe")?;
    fcntl_setfd(&program, FdFlags::empty())?;
    let mut options = File::from(memfd_create("bwrap", MemfdFlags::empty())?);
    for option in self::options(cage, folder, &doors()) {
        options.write_all(option.as_bytes())?;
        options.write_all(&[0])?;
    }
    options.rewind()?;
    let mut command = Command::new(bwrap);
    command.arg("--args").arg(options.as_raw_fd().to_string()).arg("--");
    let number = program.as_raw_fd();
    command.arg(format!("/proc/self/fd/{number}")).args(words(number));
    Ok(Caged { command, _words: options, _program: program })
}

fn options(cage: &Cage, folder: &Path, doors: &[PathBuf]) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| {
        options.extend(words.iter().map(|word| word.as_ref().to_os_string()));
    };
    add(&[&"--unshare-pid", &"--as-pid-1", &"--die-with-parent", &"--unshare-ipc"]);
    match cage.network {
        Network::On => {}
        Network::Off => add(&[&"--unshare-net"]),
    }
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        add(&[&"--cap-drop", &"ALL"]);
        KEPT.iter().for_each(|kept| add(&[&"--cap-add", kept]));
    }
    add(&[&"--ro-bind", &"/", &"/", &"--dev", &"/dev", &"--proc", &"/proc"]);
    if is_root {
        knobs().iter().for_each(|knob| add(&[&"--ro-bind", knob, knob]));
    }
    add(&[&"--chdir", &folder]);
    if cage.lives_in(folder, SHARED_MEMORY) {
        add(&[&"--ro-bind", &SHARED_MEMORY, &SHARED_MEMORY]);
    }
    for door in doors {
        let is_wanted = |path: &PathBuf| path.starts_with(door) || door.starts_with(path);
        if cage.writable.iter().any(is_wanted) || folder.starts_with(door) {
            continue;
        }
        match door.is_dir() {
            true => add(&[&"--tmpfs", door]),
            false => add(&[&"--ro-bind", &"/dev/null", door]),
        }
    }
    // What holds something that is read_only comes first; the scratch folder may lie in what is read_only.
    let holds = |path: &&PathBuf| cage.read_only.iter().any(|read_only| read_only.starts_with(path));
    for path in cage.writable.iter().filter(holds) {
        add(&[&"--bind", path, path]);
    }
    for path in &cage.read_only {
        add(&[&"--ro-bind", path, path]);
    }
    for path in cage.writable.iter().filter(|path| !holds(path)) {
        add(&[&"--bind", path, path]);
    }
    options
}

/// What in `/proc` belongs to the system and not to a process. The kernel lets the superuser write there without any
/// capability, and `core_pattern` alone would be a way out; bwrap 0.8 covers only some of it.
fn knobs() -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_knob = |entry: &fs::DirEntry| {
        let is_process = entry.file_name().as_bytes().first().is_some_and(u8::is_ascii_digit);
        // Not through links: those lead to whoever looks.
        let can_be_written =
            entry.metadata().is_ok_and(|meta| meta.is_dir() || (meta.is_file() && meta.mode() & 0o222 != 0));
        !is_process && can_be_written
    };
    entries.filter(is_knob).map(|entry| entry.path()).collect()
}

/// Those that are here, as the kernel sees them. A terminal's server listens below /tmp, one folder per user.
fn doors() -> Vec<PathBuf> {
    let tmux = format!("/tmp/tmux-{}", rustix::process::getuid().as_raw());
    let all = DOORS.into_iter().map(PathBuf::from).chain([PathBuf::from(tmux)]);
    all.filter_map(|path| path.canonicalize().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn check(writable: &[&str], network: Network, folder: &str, expected: &str) {
        let writable = writable.iter().map(PathBuf::from).collect();
        let cage = Cage { kind: Kind::Bwrap, writable, read_only: Vec::new(), network };
        let words = options(&cage, Path::new(folder), &["/etc".into(), "/etc/passwd".into()]);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let said = words.join(" ");
        let (_, after) = said.split_once("--chdir /w").expect("the root is bound");
        let off = if said.contains("--unshare-net") { " off" } else { "" };
        assert_eq!(format!("{}{off}", after.trim()), expected);
    }

    #[test]
    fn only_what_was_named_is_bound_for_writing() {
        let covered = "--tmpfs /etc --ro-bind /dev/null /etc/passwd";
        check(&[], Network::On, "/w", covered);
        check(&["/a", "/b"], Network::Off, "/w", &format!("{covered} --bind /a /a --bind /b /b off"));
        // A door that was asked for is open, and so is what leads to it.
        check(&["/etc/passwd"], Network::On, "/w", "--bind /etc/passwd /etc/passwd");
        check(&["/etc/x"], Network::On, "/w", "--ro-bind /dev/null /etc/passwd --bind /etc/x /etc/x");
        // A project in shared memory is still read, but not written, as a whole.
        let shared = "--ro-bind /dev/shm /dev/shm";
        check(
            &["/dev/shm/a"],
            Network::On,
            "/w",
            &format!("{shared} {covered} --bind /dev/shm/a /dev/shm/a"),
        );
    }
}
