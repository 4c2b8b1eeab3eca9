//! Where programs listen that run anything for whoever asks: container engines, the system's and the session's buses,
//! terminals that others can type into. A cage that has a view of the mounts of its own covers them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Cage, Network};

const DOORS: [&str; 21] = [
    "/run/buildkit",
    "/run/containerd",
    "/run/crio",
    "/run/dbus",
    "/run/docker.sock",
    "/run/incus",
    "/run/k3s",
    "/run/libvirt",
    "/run/lxd",
    "/run/podman",
    "/run/screen",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/systemd/io.systemd.Manager",
    "/run/systemd/private",
    "/run/udev/control",
    "/run/user",
    "/run/uscreens",
    "/var/lib/incus/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
];

/// Who listens here looks names up in the internet: a way out for a job that has no network, or a part of it.
const NAME_SERVICES: [&str; 3] = ["/run/avahi-daemon", "/run/nscd", "/run/systemd/resolve"];

/// Displays, terminals, editors and key agents of a session listen here, in files or folders that begin so. Whoever
/// speaks to a display types into every window.
const TEMPORARY: &str = "/tmp";
const SESSION: [&str; 9] =
    [".X11-unix", ".ICE-unix", "dbus-", "emacs", "gpg-", "nvim", "ssh-", "tmux-", "vscode-"];

/// So many entries of the folder for temporary files are looked at.
const MOST: usize = 10_000;

/// Those that are here and that the job was not given, as the kernel sees them.
pub fn closed_to(cage: &Cage, folder: &Path) -> Vec<PathBuf> {
    let name_services: &[&str] = match cage.network {
        Network::On => &[],
        Network::Off | Network::Hosts(_) => &NAME_SERVICES,
    };
    let known = DOORS.iter().chain(name_services).filter_map(|path| Path::new(path).canonicalize().ok());
    let mut all: Vec<PathBuf> = known.chain(in_temporary()).collect();
    all.sort();
    all.dedup();
    all.retain(|door| is_closed(door, cage, folder));
    all
}

/// One that leads to what was named as writable is open.
pub(super) fn is_closed(door: &Path, cage: &Cage, folder: &Path) -> bool {
    let is_wanted = |path: &PathBuf| path.starts_with(door) || door.starts_with(path);
    !cage.writable.iter().any(is_wanted) && !folder.starts_with(door)
}

fn in_temporary() -> Vec<PathBuf> {
    let entries = fs::read_dir(TEMPORARY).into_iter().flatten().flatten().take(MOST);
    let is_session = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        SESSION.iter().any(|beginning| name.as_bytes().starts_with(beginning.as_bytes()))
    };
    // Not through links: what they lead to is no folder for temporary files.
    let is_real = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| !kind.is_symlink());
    entries.filter(|entry| is_session(entry) && is_real(entry)).map(|entry| entry.path()).collect()
}
