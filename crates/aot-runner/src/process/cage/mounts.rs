//! A view of the mounts for a superuser's job. The superuser owns the system's files and devices, and neither landlock
//! nor a given-up capability keeps an owner from changing mode, owner and times; only a read-only mount does.
//!
//! Nothing here holds for anybody else, who does not own them and may not mount.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};
use rustix::thread::{CapabilitySet, capabilities};

use super::{Cage, doors};

/// Those that a cage of bwrap shares with the system.
const SHARED_DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

const SHARED_MEMORY: &str = "/dev/shm";
const TERMINALS: &str = "/dev/pts";

/// Whether we are the superuser and may mount. A superuser in a container often may not.
pub fn can_mount() -> bool {
    let may = || capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    rustix::process::geteuid().is_root() && may()
}

/// For what this process starts from now on, mode, owner and times of the shared devices stay as they are.
pub fn protect_devices() -> io::Result<()> {
    own_view(CloneFlags::CLONE_NEWNS)?;
    for device in SHARED_DEVICES.map(Path::new).into_iter().filter(|device| device.exists()) {
        mount_bind(device, device)?;
        make_read_only(device, MountFlags::NOSUID | MountFlags::NOEXEC)?;
    }
    Ok(())
}

/// For what this thread starts from now on, everything but what is writable is read-only, shared memory and terminals
/// are its own, and programs that run anything for whoever asks cannot be asked.
pub fn close_outside(cage: &Cage, folder: &Path) -> io::Result<()> {
    own_view(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)?;
    for path in &cage.writable {
        mount_bind_recursive(path, path)?;
    }
    for (point, flags) in mounted()? {
        if !cage.writable.iter().any(|path| point.starts_with(path)) {
            // One that lies under another cannot be reached, neither by us nor by the job.
            let _ = make_read_only(&point, flags);
        }
    }
    for path in &cage.read_only {
        mount_bind_recursive(path, path)?;
        make_read_only(path, MountFlags::empty())?;
    }
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    for folder in &cage.covered {
        mount("tmpfs", folder, "tmpfs", plain | MountFlags::RDONLY, c"mode=755")?;
    }
    if !cage.lives_in(folder, SHARED_MEMORY) && Path::new(SHARED_MEMORY).is_dir() {
        mount("tmpfs", SHARED_MEMORY, "tmpfs", plain, c"mode=1777")?;
    }
    if Path::new(TERMINALS).is_dir() {
        let options = c"newinstance,ptmxmode=0666,mode=620";
        mount("devpts", TERMINALS, "devpts", MountFlags::NOSUID | MountFlags::NOEXEC, options)?;
    }
    for door in doors::closed_to(cage, folder) {
        match door.is_dir() {
            true => mount("tmpfs", &door, "tmpfs", plain | MountFlags::RDONLY, c"mode=755")?,
            false => mount_bind("/dev/null", &door)?,
        }
    }
    // The folder in which we stand lies below the mounts that were just made.
    std::env::set_current_dir(folder)
}

/// Changes of the system's mounts still reach it; its own stay with it.
fn own_view(flags: CloneFlags) -> io::Result<()> {
    unshare(flags)?;
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?)
}

fn make_read_only(point: &Path, flags: MountFlags) -> io::Result<()> {
    Ok(mount_remount(point, MountFlags::BIND | MountFlags::RDONLY | flags, c"")?)
}

/// Where something is mounted, and how.
fn mounted() -> io::Result<Vec<(PathBuf, MountFlags)>> {
    let lines = fs::read("/proc/thread-self/mountinfo")?;
    Ok(lines.split(|byte| *byte == b'\n').filter_map(mount_line).collect())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime …`: the fifth field is the place, with odd bytes as octal numbers.
fn mount_line(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let place = unescaped(fields.next()?);
    let flags = fields.next()?.split(|byte| *byte == b',').map(|word| match word {
        b"nosuid" => MountFlags::NOSUID,
        b"nodev" => MountFlags::NODEV,
        b"noexec" => MountFlags::NOEXEC,
        b"noatime" => MountFlags::NOATIME,
        b"nodiratime" => MountFlags::NODIRATIME,
        b"relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    });
    Some((place, flags.fold(MountFlags::empty(), MountFlags::union)))
}

fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        bytes.push(octal.unwrap_or(first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let odd = br"36 35 98:0 / /mnt\040a\134b rw,nosuid,relatime shared:1 - ext4 /dev/x rw";
        let flags = MountFlags::NOSUID | MountFlags::RELATIME;
        assert_eq!(mount_line(odd), Some((PathBuf::from(r"/mnt a\b"), flags)));
        assert_eq!(mount_line(b"36 35 98:0 /"), None);
        assert_eq!(unescaped(br"\04"), PathBuf::from(r"\04"));
    }
}
