//! Copies files and folders of the project into a tree. Where the file system shares blocks, a copy costs no room and no time.
//! Knows neither git nor why.

use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// More entries are not copied: what is so large is shared, or made by `setup`.
const MOST: usize = 200_000;

/// Copies `from` to `to`, whether it is a file, a link or a folder. Modes and times are those of the original; pipes, sockets
/// and devices are left out. What is at `to` already stays.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut left = MOST;
    let mut folders: Vec<(PathBuf, Metadata)> = Vec::new();
    let mut open = vec![(from.to_path_buf(), to.to_path_buf())];
    while let Some((from, to)) = open.pop() {
        left = left.checked_sub(1).ok_or_else(|| io::Error::other(format!("more than {MOST} files")))?;
        let meta = fs::symlink_metadata(&from)?;
        let kind = meta.file_type();
        if kind.is_symlink() {
            ignore_existing(std::os::unix::fs::symlink(fs::read_link(&from)?, &to))?;
        } else if kind.is_dir() {
            ignore_existing(fs::create_dir(&to))?;
            for entry in fs::read_dir(&from)? {
                let name = entry?.file_name();
                open.push((from.join(&name), to.join(name)));
            }
            folders.push((to, meta));
        } else if kind.is_file() {
            ignore_existing(copy_file(&from, &to, &meta))?;
        }
    }
    // Only now, because a folder may be write-protected, and its time changes with what comes into it.
    for (folder, meta) in folders.iter().rev() {
        fs::set_permissions(folder, meta.permissions())?;
        File::open(folder)?.set_times(times(meta)?)?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, meta: &Metadata) -> io::Result<()> {
    let source = File::open(from)?;
    let mut target = File::options().write(true).create_new(true).open(to)?;
    if !shares_blocks(&target, &source) {
        io::copy(&mut &source, &mut target)?;
    }
    target.set_permissions(fs::Permissions::from_mode(meta.permissions().mode()))?;
    target.set_times(times(meta)?)
}

#[cfg(target_os = "linux")]
fn shares_blocks(target: &File, source: &File) -> bool {
    rustix::fs::ioctl_ficlone(target, source).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn shares_blocks(_: &File, _: &File) -> bool {
    false
}

fn times(meta: &Metadata) -> io::Result<FileTimes> {
    Ok(FileTimes::new().set_modified(meta.modified()?))
}

fn ignore_existing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_with_links_modes_and_times() {
        let place = tempfile::tempdir().expect("a folder");
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join("bin")).expect("folders");
        fs::write(from.join("bin/tool"), "#!/bin/sh\n").expect("a file");
        fs::set_permissions(from.join("bin/tool"), fs::Permissions::from_mode(0o755)).expect("it is ours");
        std::os::unix::fs::symlink("bin/tool", from.join("link")).expect("a link");
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        for path in ["bin/tool", "bin"] {
            let file = File::open(from.join(path)).expect("it is there");
            file.set_times(FileTimes::new().set_modified(old)).expect("it is ours");
        }
        fs::set_permissions(from.join("bin"), fs::Permissions::from_mode(0o555)).expect("it is ours");
        copy(&from, &to).expect("copied");
        assert_eq!(fs::read_to_string(to.join("link")).expect("it leads there"), "#!/bin/sh\n");
        assert_eq!(fs::read_link(to.join("link")).expect("a link"), Path::new("bin/tool"));
        for (path, mode) in [("bin/tool", 0o755), ("bin", 0o555)] {
            let meta = fs::metadata(to.join(path)).expect("it is there");
            assert_eq!(meta.permissions().mode() & 0o777, mode, "{path}");
            assert_eq!(meta.modified().expect("a time"), old, "{path}");
        }
        fs::write(to.join("own"), "1").expect("a file");
        copy(&from, &to).expect("what is there stays");
        assert_eq!(fs::read_to_string(to.join("own")).expect("it stays"), "1");
        for folder in [&from, &to] {
            fs::set_permissions(folder.join("bin"), fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
    }
}
