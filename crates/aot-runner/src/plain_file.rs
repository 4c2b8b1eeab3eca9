//! Opens and writes what is there as a file: never through a link, never a pipe or a device that would make us wait. Knows
//! nothing of the content.
//!
//! A cloned project can bring any of these under a name that the program uses. The folders above a file are the caller's
//! concern: see [`folder`], and `store::home` for the sidecar.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path};

/// What is at the path cannot be used as a file or a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0}")]
pub struct WrongKind(pub &'static str);

const LINK: WrongKind = WrongKind("a symbolic link");

/// Opens a regular file with these options.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without NONBLOCK, opening a pipe would wait for its other end.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits() as i32);
    }
    let file = options.open(path).map_err(|error| explained(path, error))?;
    match wrong_kind(&file.metadata()?) {
        Some(wrong) => Err(io::Error::new(ErrorKind::InvalidInput, wrong)),
        None => Ok(file),
    }
}

/// Opens a regular file for reading.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// The whole content of a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open_to_read(path)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it has more than {limit} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Makes or overwrites a regular file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    open(path, OpenOptions::new().write(true).create(true).truncate(true))?.write_all(bytes)
}

/// Makes the folders of `path` below `root` that are missing. None of them may be a link; the root is the caller's.
pub fn folder(root: &Path, path: &Path) -> io::Result<()> {
    if !root.is_dir() {
        fs::create_dir_all(root)?;
    }
    let inside = path.strip_prefix(root).map_err(|_| ErrorKind::InvalidInput)?;
    let mut folder = root.to_path_buf();
    for part in inside.components() {
        let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
        folder.push(name);
        match fs::create_dir(&folder) {
            Ok(()) => continue,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let found = fs::symlink_metadata(&folder)?;
        if !found.is_dir() {
            let wrong = if found.is_symlink() { LINK } else { WrongKind("no folder") };
            return Err(io::Error::new(ErrorKind::InvalidInput, wrong));
        }
    }
    Ok(())
}

/// Removes all but the newest of the files in a folder, if there are more than these and `spare` ones.
pub fn keep_newest(folder: &Path, kept: usize, spare: usize) {
    let entries = || fs::read_dir(folder).into_iter().flatten().flatten();
    if entries().count() <= kept + spare {
        return;
    }
    let mut all: Vec<_> =
        entries().filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    all.sort();
    let older = all.len().saturating_sub(kept);
    for (_, path) in &all[..older] {
        // One that stays is removed the next time.
        let _ = fs::remove_file(path);
    }
}

/// What a path or an open file is, if it is no regular file.
pub fn wrong_kind(found: &fs::Metadata) -> Option<WrongKind> {
    match found.file_type() {
        kind if kind.is_file() => None,
        kind if kind.is_symlink() => Some(LINK),
        kind if kind.is_dir() => Some(WrongKind("a folder")),
        _ => Some(WrongKind("a device, a pipe or a socket")),
    }
}

/// The system's answer to a link, or to a pipe without a reader, says little.
fn explained(path: &Path, error: io::Error) -> io::Error {
    match fs::symlink_metadata(path).ok().and_then(|found| wrong_kind(&found)) {
        Some(wrong) => io::Error::new(ErrorKind::InvalidInput, wrong),
        None => error,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A file, links, a pipe, a folder and a device, each under its name.
    fn place() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").expect("written");
        fs::create_dir(at("folder")).expect("made");
        for (to, name) in
            [("file", "link"), ("nothing", "dangling"), ("/dev/null", "device"), ("folder", "way")]
        {
            std::os::unix::fs::symlink(to, at(name)).expect("a link");
        }
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        dir
    }

    #[test]
    fn only_files_are_opened_and_nothing_is_waited_for() {
        let dir = place();
        let check = |name: &str, expected: &str| {
            let path = dir.path().join(name);
            let told = |result: io::Result<()>| result.map_or_else(|e| e.to_string(), |()| "ok".into());
            let read = told(read(&path, 10).map(drop));
            let written = told(open(&path, OpenOptions::new().append(true).create(true)).map(drop));
            assert_eq!((read.as_str(), written.as_str()), (expected, expected), "{name}");
        };
        check("file", "ok");
        check("link", "it is a symbolic link");
        check("dangling", "it is a symbolic link");
        check("device", "it is a symbolic link");
        check("pipe", "it is a device, a pipe or a socket");
        check("folder", "it is a folder");
        assert!(!dir.path().join("nothing").exists(), "nothing was made at the end of a link");
        assert_eq!(read(&dir.path().join("file"), 3).expect_err("too long").kind(), ErrorKind::FileTooLarge);
        write(&dir.path().join("link"), b"x").expect_err("a link is not written");
        assert_eq!(fs::read(dir.path().join("file")).expect("there"), b"text");
    }

    #[test]
    fn folders_are_made_below_the_root_and_not_through_links() {
        let dir = place();
        let check = |path: &str, is_made: bool| {
            assert_eq!(folder(dir.path(), &dir.path().join(path)).is_ok(), is_made, "{path}");
        };
        check("a/b/c", true);
        check("a/b/c", true);
        check("folder/new", true);
        check("way/new-through-a-link", false);
        check("dangling/x", false);
        check("file/x", false);
        check("a/../../x", false);
        assert!(!dir.path().join("folder/new-through-a-link").exists());
        folder(dir.path(), Path::new("/elsewhere")).expect_err("not below the root");
    }
}
