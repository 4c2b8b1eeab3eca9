//! Paths: the state file, and the sidecar folder with everything else. Reads no text.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::store::error::FileError;

/// The state file's usual name; its sidecar folder is `aot/` itself.
pub const STATE_FILE: &str = "aot-loop-state.md";

const SIDECAR: &str = "aot";
const LINKS_FOLLOWED: usize = 40;

/// The state file with its symbolic links resolved, and its sidecar folder.
///
/// The folder is found from the resolved file, so that two links to one file share one lock. A state file with
/// a name of its own has `aot/of/NAME/`, so that two state files in one folder never share a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    state: PathBuf,
    folder: PathBuf,
    sidecar: PathBuf,
}

impl Home {
    /// Finds the home of a state file, which need not exist yet.
    pub fn of(state: &Path) -> Result<Home, FileError> {
        let state = resolved(state)?;
        let (Some(folder), Some(name)) = (state.parent(), state.file_name()) else {
            return Err(FileError::NotAFile { path: state, what: "a folder" });
        };
        let folder = folder.to_path_buf();
        let sidecar = match name == STATE_FILE {
            true => folder.join(SIDECAR),
            false => folder.join(SIDECAR).join("of").join(name),
        };
        Ok(Home { folder, sidecar, state })
    }

    /// The state file.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The folder that holds the state file.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder for everything but the state file. It may not exist; see [`Home::ready`].
    pub fn sidecar(&self) -> &Path {
        &self.sidecar
    }

    /// Both texts of each conflict are kept in a numbered folder here.
    pub fn conflicts(&self) -> PathBuf {
        self.sidecar.join("conflicts")
    }

    /// Makes the sidecar folder, ignored by git, if it is not there.
    pub fn ready(&self) -> Result<(), FileError> {
        let ignore = self.folder.join(SIDECAR).join(".gitignore");
        if self.sidecar.is_dir() && ignore.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.sidecar).map_err(|e| FileError::of("make the folder", &self.sidecar, e))?;
        let made = fs::OpenOptions::new().write(true).create_new(true).open(&ignore);
        match made.and_then(|mut file| file.write_all(b"*\n")) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(FileError::of("write", &ignore, e)),
            _ => Ok(()),
        }
    }
}

/// Follows the links of the last component by hand, since the file at their end may not exist yet.
fn resolved(state: &Path) -> Result<PathBuf, FileError> {
    let mut path = std::path::absolute(state).map_err(|e| FileError::of("find", state, e))?;
    for _ in 0..LINKS_FOLLOWED {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(in_real_folder(path)),
        }
    }
    Err(FileError::LinksInCircle { path: state.to_path_buf(), limit: LINKS_FOLLOWED })
}

fn in_real_folder(path: PathBuf) -> PathBuf {
    let real = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (real, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: &str, sidecar: &str) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().canonicalize().expect("it exists");
        fs::create_dir_all(root.join("p/.claude")).expect("folders");
        fs::create_dir_all(root.join("q")).expect("folders");
        #[cfg(unix)]
        for (to, at) in
            [("../../q/aot-loop-state.md", "p/.claude/link.md"), ("link.md", "p/.claude/twice.md")]
        {
            std::os::unix::fs::symlink(to, root.join(at)).expect("a link");
        }
        let home = Home::of(&root.join(state)).expect("a home");
        assert_eq!(home.sidecar(), root.join(sidecar), "of {state}");
        home.ready().expect("a sidecar");
        home.ready().expect("a sidecar that is there already");
        let ignore = home.folder().join("aot/.gitignore");
        assert_eq!(fs::read_to_string(ignore).expect("a .gitignore"), "*\n");
    }

    #[test]
    fn the_sidecar_is_beside_the_file_that_the_links_lead_to() {
        check("p/.claude/aot-loop-state.md", "p/.claude/aot");
        check("p/.claude/../.claude/aot-loop-state.md", "p/.claude/aot");
        check("p/not/yet/aot-loop-state.md", "p/not/yet/aot");
        check("p/other.md", "p/aot/of/other.md");
        #[cfg(unix)]
        check("p/.claude/link.md", "q/aot");
        #[cfg(unix)]
        check("p/.claude/twice.md", "q/aot");
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_are_named() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let a = dir.path().join("a.md");
        std::os::unix::fs::symlink("b.md", &a).expect("a link");
        std::os::unix::fs::symlink("a.md", dir.path().join("b.md")).expect("a link");
        assert!(matches!(Home::of(&a), Err(FileError::LinksInCircle { .. })));
    }
}
