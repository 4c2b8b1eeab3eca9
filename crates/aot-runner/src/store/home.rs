//! Paths: the state file, and the sidecar folder with everything else. Reads no text.
//!
//! A clone can bring both. A state file is not used where links lead out of the project; a sidecar counts only if this
//! machine made it, which a mark in it says. One that came with the project is never opened: whoever looks finds nothing,
//! and whoever writes sets it aside first ([`Home::claim`]).

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::atomic_file::{self, Durability};
use crate::machine::{self, IfNone};
use crate::plain_file;
use crate::store::error::FileError;

/// The state file's usual name; its sidecar folder is `aot/` itself.
pub const STATE_FILE: &str = "aot-loop-state.md";

const SIDECAR: &str = "aot";
const LINKS_FOLLOWED: usize = 40;

/// The file in the sidecar that says which machine made it.
const MARK: &str = "made-here";
const MARK_BYTES: u64 = 1 << 10;
const IGNORE: &str = ".gitignore";
/// What came with a project is kept here, numbered.
const SET_ASIDE: &str = "set-aside";
/// More of them than this are a mistake of a script.
const MOST_SET_ASIDE: usize = 1_000;

/// The state file with its symbolic links resolved, and its sidecar folder.
///
/// The folder is found from the resolved file, so that two links to one file share one lock. A state file with
/// a name of its own has `aot/of/NAME/`, so that two state files in one folder never share a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    state: PathBuf,
    folder: PathBuf,
    sidecar: PathBuf,
    /// There is a sidecar that this machine did not make.
    is_foreign: bool,
}

impl Home {
    /// Finds the home of a state file, which need not exist yet. Changes nothing.
    pub fn of(state: &Path) -> Result<Home, FileError> {
        let state = resolved(state)?;
        let (Some(folder), Some(name)) = (state.parent(), state.file_name()) else {
            return Err(FileError::NotAFile { path: state, what: "a folder" });
        };
        let folder = folder.to_path_buf();
        let whole = folder.join(SIDECAR);
        let is_foreign = !is_made_here(&whole) && !is_free(&whole) && !is_made_here(&whole);
        let sidecar = match (is_foreign, name == STATE_FILE) {
            // A name that no clone can have guessed, so that nothing is found.
            (true, _) => folder.join(machine::stamp(&[b"nowhere"], IfNone::DoWithout)),
            (false, true) => whole,
            (false, false) => whole.join("of").join(name),
        };
        Ok(Home { folder, sidecar, state, is_foreign })
    }

    /// The same for whoever is going to write: a sidecar that came with the project is set aside, and its new place is
    /// returned.
    pub fn claim(state: &Path) -> Result<(Home, Option<PathBuf>), FileError> {
        let home = Home::of(state)?;
        if !home.is_foreign {
            return Ok((home, None));
        }
        let kept = home.set_aside()?;
        Ok((Home::of(state)?, kept))
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

    /// Makes a folder in the sidecar.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<(), FileError> {
        plain_file::folder(&self.folder, folder).map_err(|e| FileError::of("make the folder", folder, e))
    }

    /// Makes the sidecar folder, ignored by git and marked as this machine's, if it is not there.
    pub fn ready(&self) -> Result<(), FileError> {
        let whole = self.folder.join(SIDECAR);
        if self.is_foreign {
            return Err(FileError::NotMadeHere { path: whole });
        }
        if is_made_here(&whole) && self.sidecar.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(|e| FileError::of("make the folder", &self.folder, e))?;
        self.make_folder(&whole)?;
        if !is_made_here(&whole) {
            // Also where the folder has come to be something else since it was looked at.
            if !is_free(&whole) && !is_made_here(&whole) {
                return Err(FileError::NotMadeHere { path: whole });
            }
            let mark = whole.join(MARK);
            atomic_file::write(
                &mark,
                &[marks(&whole, IfNone::Make).join("\n").as_bytes()],
                Durability::Unsynced,
            )
            .map_err(|e| FileError::of("write", &mark, e))?;
        }
        let ignore = whole.join(IGNORE);
        let made = plain_file::open(&ignore, File::options().write(true).create_new(true));
        match made.and_then(|mut file| file.write_all(b"*\n")) {
            Err(_) if ignore.symlink_metadata().is_ok_and(|found| found.is_file()) => {}
            Err(e) => return Err(FileError::of("write", &ignore, e)),
            Ok(()) => {}
        }
        self.make_folder(&self.sidecar)
    }

    /// Moves what came with the project into a new sidecar, unless a process of another user works with it.
    fn set_aside(&self) -> Result<Option<PathBuf>, FileError> {
        let whole = self.folder.join(SIDECAR);
        let failed = |e| FileError::of("set aside", &whole, e);
        // Two processes that both want to set it aside go one after the other.
        let _one =
            File::open(&self.folder).and_then(|folder| folder.lock().map(|()| folder)).map_err(failed)?;
        if is_made_here(&whole) || is_free(&whole) {
            return Ok(None);
        }
        for lock in ["lock", "driver.lock", "step.lock"].map(|name| whole.join(name)) {
            let held = is_folder(&whole)
                && plain_file::open_to_read(&lock)
                    .is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)));
            if held {
                return Err(FileError::UsedByAnother { path: whole });
            }
        }
        let aside = self.folder.join(format!("{SIDECAR}.{SET_ASIDE}-{}", std::process::id()));
        fs::rename(&whole, &aside).map_err(failed)?;
        let own = Home { sidecar: whole.clone(), is_foreign: false, ..self.clone() };
        own.ready()?;
        let all = whole.join(SET_ASIDE);
        own.make_folder(&all)?;
        for number in 1..=MOST_SET_ASIDE {
            let place = all.join(number.to_string());
            if place.symlink_metadata().is_err() {
                fs::rename(&aside, &place).map_err(failed)?;
                return Ok(Some(place));
            }
        }
        Ok(Some(aside))
    }
}

/// Whether this machine made the sidecar: in this folder, or before it was moved here.
fn is_made_here(sidecar: &Path) -> bool {
    if !is_folder(sidecar) {
        return false;
    }
    let Ok(mark) = plain_file::read(&sidecar.join(MARK), MARK_BYTES) else { return false };
    let wanted = marks(sidecar, IfNone::DoWithout);
    mark.split(|byte| *byte == b'\n').any(|line| wanted.iter().any(|wanted| wanted.as_bytes() == line))
}

/// Whether nothing is there that could be believed.
fn is_free(sidecar: &Path) -> bool {
    match fs::symlink_metadata(sidecar) {
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        Ok(found) if !found.is_dir() => false,
        Ok(_) => fs::read_dir(sidecar).is_ok_and(|mut entries| {
            entries.all(|entry| {
                let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
                // Another process may be making it just now.
                name == IGNORE || name.to_str().is_some_and(|name| name.starts_with(MARK))
            })
        }),
    }
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Lines of which one suffices. A folder that was moved is known by its inode, one on a file system whose inodes change by
/// its path; a copy elsewhere is another one.
fn marks(sidecar: &Path, if_none: IfNone) -> [String; 2] {
    #[cfg(unix)]
    let inode = fs::symlink_metadata(sidecar).map_or(0, |found| std::os::unix::fs::MetadataExt::ino(&found));
    #[cfg(not(unix))]
    let inode = 0_u64;
    [
        machine::stamp(&[b"inode", &inode.to_le_bytes()], if_none),
        machine::stamp(&[b"path", sidecar.as_os_str().as_encoded_bytes()], if_none),
    ]
}

/// Follows the links of the last component by hand, since the file at their end may not exist yet. No link may lead out
/// of the project: whoever wrote a clone would choose which file is written.
fn resolved(state: &Path) -> Result<PathBuf, FileError> {
    let given = std::path::absolute(state).map_err(|e| FileError::of("find", state, e))?;
    let root = real(&root_of(&given));
    let mut path = given.clone();
    for _ in 0..LINKS_FOLLOWED {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path) };
        let folder = real(folder);
        if !folder.starts_with(&root) || folder.is_symlink() {
            return Err(FileError::LeavesProject { path: given, to: folder });
        }
        let whole = folder.join(name);
        match fs::read_link(&whole) {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(whole),
        }
    }
    Err(FileError::LinksInCircle { path: state.to_path_buf(), limit: LINKS_FOLLOWED })
}

/// The project's root: the folder that holds `.claude`, or the state file's own folder.
pub fn root_of(state: &Path) -> PathBuf {
    let folder = state.parent().unwrap_or(Path::new("/"));
    match folder.file_name().is_some_and(|name| name == ".claude") {
        true => folder.parent().unwrap_or(folder).to_path_buf(),
        false => folder.to_path_buf(),
    }
}

/// The folder without links, as far as it exists.
pub(crate) fn real(folder: &Path) -> PathBuf {
    for ancestor in folder.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            return real.join(folder.strip_prefix(ancestor).unwrap_or(Path::new("")));
        }
    }
    folder.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(state: &str, sidecar: &str) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().canonicalize().expect("it exists");
        fs::create_dir_all(root.join("p/.claude")).expect("folders");
        fs::create_dir_all(root.join("p/q")).expect("folders");
        #[cfg(unix)]
        for (to, at) in [("../q/aot-loop-state.md", "p/.claude/link.md"), ("link.md", "p/.claude/twice.md")] {
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
        check("p/.claude/link.md", "p/q/aot");
        #[cfg(unix)]
        check("p/.claude/twice.md", "p/q/aot");
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

    /// A project whose `.claude` holds a sidecar with these files, and what becomes of it when it is claimed.
    #[cfg(unix)]
    fn clone_with(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = dir.path().canonicalize().expect("it exists").join(".claude");
        for file in files {
            let path = folder.join("aot").join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, "brought").expect("written");
        }
        (dir, folder)
    }

    #[cfg(unix)]
    #[test]
    fn a_sidecar_that_came_with_the_project_is_not_found_and_is_set_aside_by_a_writer() {
        for files in [&["journal.jsonl"][..], &["made-here", "last"], &["of/x.md/journal.jsonl"], &["lock"]] {
            let (_dir, folder) = clone_with(files);
            let state = folder.join(STATE_FILE);
            let looking = Home::of(&state).expect("a home");
            assert!(!looking.sidecar().exists(), "{files:?}");
            assert!(matches!(looking.ready(), Err(FileError::NotMadeHere { .. })), "{files:?}");
            let (home, kept) = Home::claim(&state).expect("claimed");
            let kept = kept.expect("set aside");
            assert_eq!(fs::read(kept.join(files[0])).expect("kept"), b"brought");
            home.ready().expect("a sidecar");
            assert_eq!(Home::of(&state).expect("a home").sidecar(), folder.join("aot"), "{files:?}");
            assert_eq!(Home::claim(&state).expect("claimed").1, None, "only once: {files:?}");
        }
        let (_dir, folder) = clone_with(&[".gitignore"]);
        assert_eq!(Home::claim(&folder.join(STATE_FILE)).expect("claimed").1, None, "nothing to believe");
    }

    #[cfg(unix)]
    #[test]
    fn a_sidecar_stays_ours_when_the_project_is_moved_and_not_when_it_is_copied() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| dir.path().join(name).join(".claude").join(STATE_FILE);
        Home::of(&at("a")).expect("a home").ready().expect("a sidecar");
        fs::write(at("a").with_file_name("aot/journal.jsonl"), "ours").expect("written");
        fs::rename(dir.path().join("a"), dir.path().join("b")).expect("moved");
        assert!(Home::of(&at("b")).expect("a home").sidecar().join("journal.jsonl").exists());
        fs::create_dir_all(at("c").with_file_name("aot")).expect("made");
        for file in ["made-here", "journal.jsonl"] {
            let from = at("b").with_file_name("aot").join(file);
            fs::copy(from, at("c").with_file_name("aot").join(file)).expect("copied");
        }
        assert!(
            !Home::of(&at("c")).expect("a home").sidecar().exists(),
            "a clone of a sidecar that was committed"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_sidecar_that_another_user_works_with_is_left_alone() {
        let (_dir, folder) = clone_with(&["driver.lock"]);
        let lock = File::open(folder.join("aot/driver.lock")).expect("there");
        lock.lock().expect("free");
        let error = Home::claim(&folder.join(STATE_FILE)).expect_err("it is used");
        assert!(matches!(error, FileError::UsedByAnother { .. }), "{error}");
        assert!(folder.join("aot/driver.lock").exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_project_are_refused() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| dir.path().join(name);
        for folder in ["out", "a", "b/.claude", "c/.claude", "d/.claude", "e/own", "f/.claude"] {
            fs::create_dir_all(at(folder)).expect("made");
        }
        symlink(at("out"), at("a/.claude")).expect("a link");
        symlink("../../out/file", at("b/.claude/aot-loop-state.md")).expect("a link");
        symlink("../out-of-it", at("c/.claude/aot-loop-state.md")).expect("a link");
        symlink("/nowhere/at/all", at("d/.claude/aot-loop-state.md")).expect("a link");
        symlink("own", at("e/.claude")).expect("a link");
        let check = |project: &str, is_refused: bool| {
            let found = Home::of(&at(project).join(".claude/aot-loop-state.md"));
            let refused = matches!(found, Err(FileError::LeavesProject { .. }));
            assert_eq!(refused, is_refused, "{project}: {found:?}");
        };
        check("a", true);
        check("b", true);
        check("c", false);
        check("d", true);
        check("e", false);
        fs::remove_file(at("a/.claude")).expect("removed");
        symlink(at("not-there"), at("a/.claude")).expect("a link");
        check("a", true);
        // The sidecar itself is a link: it is taken away, and what it leads to is left alone.
        symlink(at("out"), at("f/.claude/aot")).expect("a link");
        fs::write(at("out/journal.jsonl"), "theirs").expect("written");
        let (home, kept) = Home::claim(&at("f/.claude/aot-loop-state.md")).expect("claimed");
        assert!(kept.expect("set aside").is_symlink());
        home.ready().expect("a sidecar");
        assert_eq!(fs::read_dir(at("out")).expect("there").count(), 1);
    }
}
