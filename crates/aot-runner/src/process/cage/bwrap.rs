//! The cage that bubblewrap builds: a view of the file system in which only some places can be written, and a world of
//! processes of its own whose first is a second guard.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::{BWRAP, Cage, CageError, Network, doors};

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

/// A command that starts a guard within the cage, and the files that it needs open until it was spawned.
#[derive(Debug)]
pub struct Caged {
    pub command: Command,
    _inherited: Vec<File>,
}

/// Wraps this very program, started with what `words` makes of the number of its own file.
///
/// Files are inherited by number. Nothing else may be started at the same time, and nothing is: a guard calls this
/// before it has a second thread.
pub fn caged(cage: &Cage, folder: &Path, words: impl FnOnce(i32) -> Vec<OsString>) -> io::Result<Caged> {
    let bwrap = BWRAP.iter().find(|path| Path::new(path).is_file());
    let bwrap = bwrap.ok_or_else(|| io::Error::other(CageError::NoBwrap))?;
    // By its number and not by its name: it may have been replaced or deleted since it was started.
    let program = File::open("/proc/self/exe")?;
    fcntl_setfd(&program, FdFlags::empty())?;
    let mut stubs = Vec::new();
    for path in cage.hidden.iter().filter(|path| !path.is_dir()) {
        stubs.push((path.clone(), inherited(nothing_in(path).as_bytes())?));
    }
    let mut stub = |path: &Path| {
        let file = stubs.iter().find(|(hidden, _)| hidden == path).map(|(_, file)| file.as_raw_fd());
        file.expect("each hidden file has one").to_string()
    };
    let mut text = Vec::new();
    for option in self::options(cage, folder, &doors::closed_to(cage, folder), &mut stub) {
        text.extend(option.as_bytes());
        text.push(0);
    }
    let options = inherited(&text)?;
    let mut command = Command::new(bwrap);
    command.arg("--args").arg(options.as_raw_fd().to_string()).arg("--");
    let number = program.as_raw_fd();
    command.arg(format!("/proc/self/fd/{number}")).args(words(number));
    let inherited = stubs.into_iter().map(|(_, file)| file).chain([options, program]).collect();
    Ok(Caged { command, _inherited: inherited })
}

/// A file in memory that what is started next finds open under its number.
fn inherited(text: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("aot", MemfdFlags::empty())?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

/// `stub` gives the number of an open file that holds what stands in for a hidden one.
fn options(
    cage: &Cage,
    folder: &Path,
    doors: &[PathBuf],
    stub: &mut dyn FnMut(&Path) -> String,
) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| {
        options.extend(words.iter().map(|word| word.as_ref().to_os_string()));
    };
    add(&[&"--unshare-pid", &"--as-pid-1", &"--die-with-parent", &"--unshare-ipc"]);
    match cage.network {
        Network::On => {}
        Network::Off | Network::Hosts(_) => add(&[&"--unshare-net"]),
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
        match door.is_dir() {
            true => add(&[&"--tmpfs", door]),
            false => add(&[&"--ro-bind", &"/dev/null", door]),
        }
    }
    // What lies in something else comes after it.
    let writable = cage.writable.iter().map(|path| (path, Bound::Write));
    let read_only = cage.read_only.iter().map(|path| (path, Bound::Read));
    let hidden = cage.hidden.iter().chain(&cage.covered).map(|path| (path, Bound::None));
    // A folder on the way to a hidden file could be moved, and the next job would find the file elsewhere; one on which
    // something is mounted cannot.
    let ways = cage.writable.iter().flat_map(|top| {
        let within = cage.hidden.iter().filter(move |path| path.starts_with(top));
        within.flat_map(move |path| path.ancestors().skip(1).take_while(move |way| *way != top))
    });
    let is_spared = |way: &&Path| cage.read_only.iter().any(|read_only| way.starts_with(read_only));
    let ways = ways.filter(|way| !is_spared(way)).map(|way| (way, Bound::Write));
    let all = writable.chain(read_only).chain(hidden).map(|(path, bound)| (path.as_path(), bound));
    let mut places: Vec<(&Path, Bound)> = all.chain(ways).collect();
    places.sort_by_key(|(path, _)| path.components().count());
    for (path, access) in &places {
        match access {
            Bound::Write => add(&[&"--bind", path, path]),
            Bound::Read => add(&[&"--ro-bind", path, path]),
            Bound::None if path.is_dir() => add(&[&"--tmpfs", path]),
            Bound::None => add(&[&"--ro-bind-data", &stub(path), path]),
        }
    }
    for (path, _) in places.iter().filter(|(path, access)| *access == Bound::None && path.is_dir()) {
        add(&[&"--remount-ro", path]);
    }
    options
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    None,
    Read,
    Write,
}

/// What a hidden file holds instead: as little as its readers take for settings.
fn nothing_in(path: &Path) -> &'static str {
    match path.extension().and_then(OsStr::to_str) {
        Some("json") => "{}\n",
        Some("xml") => "<settings/>\n",
        Some("Config") => "<configuration/>\n",
        Some(_) | None => "",
    }
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

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn check(writable: &[&str], network: Network, folder: &str, expected: &str) {
        let writable = writable.iter().map(PathBuf::from).collect();
        let (read_only, hidden, covered) = (Vec::new(), Vec::new(), Vec::new());
        let cage = Cage { kind: Kind::Bwrap, writable, read_only, hidden, covered, network };
        let doors = ["/etc", "/etc/passwd"].map(PathBuf::from).into_iter();
        let doors: Vec<_> = doors.filter(|door| doors::is_closed(door, &cage, Path::new(folder))).collect();
        let words = options(&cage, Path::new(folder), &doors, &mut |_| "7".into());
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

    #[test]
    fn what_lies_in_something_else_comes_after_it() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let cage = Cage {
            kind: Kind::Bwrap,
            writable: paths(&["/usr/lib/own/deep", "/usr"]),
            read_only: paths(&["/usr/share"]),
            hidden: paths(&["/usr/lib", "/etc/passwd", "/usr/x/y/key", "/usr/share/x/key"]),
            covered: paths(&["/usr/bin"]),
            network: Network::On,
        };
        let words = options(&cage, Path::new("/w"), &[], &mut |_| "7".into());
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let said = words.join(" ");
        let (_, after) = said.split_once("--chdir /w ").expect("the root is bound");
        let expected = "--bind /usr /usr --ro-bind /usr/share /usr/share --tmpfs /usr/lib \
                        --ro-bind-data 7 /etc/passwd --tmpfs /usr/bin --bind /usr/x /usr/x --bind /usr/x/y /usr/x/y \
                        --bind /usr/lib/own/deep /usr/lib/own/deep --ro-bind-data 7 /usr/x/y/key \
                        --ro-bind-data 7 /usr/share/x/key --remount-ro /usr/lib --remount-ro /usr/bin";
        assert_eq!(after, expected);
    }
}
