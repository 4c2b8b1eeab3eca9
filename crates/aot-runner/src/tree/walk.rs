//! Walks a tree that a worker has written, without following links and without opening anything. Knows no git.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, FileType};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Files that git opens wherever it finds them, and waits for ever if they are pipes.
const READ_BY_GIT: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Which pipes and sockets are removed from a tree. They have no content that could be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pipes {
    /// All of them: git refuses a tree that has one in the place of a file.
    All,
    /// Those that git would wait for; others may be a person's own.
    ReadByGit,
}

/// Removes pipes and sockets, so that no git command waits for somebody to write into them. What cannot be removed is
/// left to git, whose time is limited.
pub(super) fn remove_pipes(top: &Path, which: Pipes) {
    each(top, &mut |entry, kind| {
        let is_read = || READ_BY_GIT.iter().any(|name| entry.file_name() == *name);
        if (kind.is_fifo() || kind.is_socket()) && (which == Pipes::All || is_read()) {
            let _ = fs::remove_file(entry.path());
        }
    });
}

/// Tells whether anything below these paths has been touched: two of them are equal if no file was made, removed,
/// written, moved, or had its mode or times changed. No content is read.
pub(super) fn fingerprint<'p>(top: &Path, paths: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut add = |path: &Path| {
        let Ok(meta) = fs::symlink_metadata(path) else { return };
        let numbers = [
            u64::from(meta.mode()),
            meta.ino(),
            // The size and the times of a folder say no more than the names in it.
            if meta.is_dir() { 0 } else { meta.size() },
        ];
        let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
        let times = if meta.is_dir() { [0; 4] } else { times };
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.extend(format!("\0{numbers:?} {times:?}").into_bytes());
        lines.push(line);
    };
    for path in paths {
        let full = top.join(OsStr::from_bytes(path));
        add(&full);
        if fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_dir()) {
            each(&full, &mut |entry, _| add(&entry.path()));
        }
    }
    lines.sort();
    let mut hasher = blake3::Hasher::new();
    for line in lines {
        hasher.update(&(line.len() as u64).to_le_bytes());
        hasher.update(&line);
    }
    hasher.finalize().to_hex().to_string()
}

/// Everything below a folder.
fn each(folder: &Path, on: &mut dyn FnMut(&DirEntry, FileType)) {
    let mut open: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            on(&entry, kind);
            if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
}
