//! Work in place, one attempt at a time. A shadow repository beside the state file holds the project as it was before,
//! and what landed. Never touches the repository that the project may be in.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use aot_core::state::AtomId;
use jiff::Timestamp;

use super::error::{GroundError, named};
use super::git::{Git, records};
use super::history::{MergeOutcome, commit, commit_of, differences, found, is_reverted, three_way, tree_of};
use super::intents::{self, InPlaceIntent};
use super::kept::{drop_old, keep};
use super::landing::revert_message;
use super::slots::remove_folder;
use super::snapshot::{Layout, NotWork, Snapshot, take};
use super::worktrees::locked;
use super::{CommitMessage, End, FoundCommit, Landing, Lent, Loan, OpenedFor, Project, Reverted, Work};
use crate::process::Guard;

/// The branch of snapshots and landings.
const LINE: &str = "refs/heads/aot";

/// Content is stored byte for byte, without conversion.
const ATTRIBUTES: &str = "* -text !eol !filter !ident !working-tree-encoding\n";

/// A rollback may restore ignore rules that reveal more to roll back, so it is repeated up to this often.
const ROUNDS: usize = 8;

/// The bits of a mode that a rollback restores.
const PERMISSIONS: u32 = 0o7777;

#[derive(Debug)]
pub(super) struct Shadow {
    root: PathBuf,
    git_dir: PathBuf,
    git: Git,
    layout: Layout,
    /// The user's repository around the project, which knows what is ignored.
    around: Option<Git>,
    note: PathBuf,
    loop_id: String,
    lent: Mutex<Option<InPlaceIntent>>,
}

/// Where the shadow repository of a project lies.
pub(super) fn repository(project: &Project) -> PathBuf {
    project.sidecar.join("shadow.git")
}

impl Shadow {
    pub fn open(
        project: &Project,
        loop_id: &str,
        around: Option<&Path>,
        guard: &Guard,
        entry: OpenedFor,
    ) -> Result<Shadow, GroundError> {
        let git_dir = repository(project);
        let plain = Git::pinned(&git_dir, &project.root, guard);
        // The shadow repository is ours, so one that git cannot open is made anew.
        if plain.query(["rev-parse", "--git-dir"])?.code != 0 {
            remove_folder(&git_dir)?;
            let place = git_dir.as_os_str();
            let git = Git::at(&project.sidecar, guard);
            git.write(["init".as_ref(), "-q".as_ref(), "--bare".as_ref(), place])?;
        }
        let shadow = Shadow {
            root: project.root.clone(),
            git: plain.with_identity()?,
            layout: Layout::of(project, &project.root, b""),
            around: around.map(|_| Git::at(&project.root, guard)),
            note: git_dir.join("aot-under-way.json"),
            git_dir,
            loop_id: loop_id.to_owned(),
            lent: Mutex::new(None),
        };
        if entry == OpenedFor::Again {
            *locked(&shadow.lent) = intents::read(&shadow.note);
            return Ok(shadow);
        }
        shadow.clear_locks()?;
        let attributes = shadow.git_dir.join("info").join("attributes");
        write(&attributes, ATTRIBUTES.as_bytes())?;
        shadow.recover()?;
        let nested = shadow.take_now("HEAD")?.nested;
        if !nested.is_empty() {
            let paths = shadow.layout.all_seen(nested.iter().map(Vec::as_slice));
            return Err(GroundError::Nested { root: shadow.root, paths });
        }
        drop_old(&shadow.git, Timestamp::now())?;
        Ok(shadow)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn tip(&self) -> Result<Option<String>, GroundError> {
        Ok(commit_of(&self.git, LINE)?)
    }

    pub fn lend(&self, work: &Work) -> Result<Lent, GroundError> {
        let mut lent = locked(&self.lent);
        if let Some(other) = &*lent {
            return Err(GroundError::Lent { root: self.root.clone(), holder: other.atom.clone() });
        }
        let intent = InPlaceIntent {
            before: self.snapshot()?,
            loop_id: self.loop_id.clone(),
            atom: work.atom.to_string(),
            attempt: work.attempt,
        };
        intents::write(&self.note, &intent)?;
        *lent = Some(intent);
        let (top, root) = (self.root.clone(), self.root.clone());
        Ok(Lent { work: work.clone(), top, root, loan: Loan::InPlace })
    }

    /// A lease of an earlier process that has not been released.
    pub fn lent_before(&self, work: &Work) -> Option<Lent> {
        let lent = locked(&self.lent);
        let same = |note: &&InPlaceIntent| note.atom == work.atom.as_str() && note.attempt == work.attempt;
        lent.as_ref().filter(same)?;
        let (top, root) = (self.root.clone(), self.root.clone());
        Some(Lent { work: work.clone(), top, root, loan: Loan::InPlace })
    }

    pub fn changed(&self) -> Result<Vec<String>, GroundError> {
        let Some(before) = self.before() else { return Ok(Vec::new()) };
        let snapshot = self.take_now(&before)?;
        let paths = snapshot.differences.iter().map(|one| one.path.as_slice());
        let mut paths = self.layout.all_seen(paths.chain(snapshot.nested.iter().map(Vec::as_slice)));
        paths.sort();
        Ok(paths)
    }

    pub fn land(&self, message: &CommitMessage) -> Result<Landing, GroundError> {
        let nothing = Landing::Landed { commit: None, paths: Vec::new() };
        let Some(before) = self.before() else { return Ok(nothing) };
        let snapshot = self.take_now(&before)?;
        if !snapshot.nested.is_empty() {
            let paths = self.layout.all_seen(snapshot.nested.iter().map(Vec::as_slice));
            let reason = format!(
                "a snapshot cannot hold repositories within the project: {}; remove their `.git`, or ignore them",
                named(&paths)
            );
            return Ok(Landing::Conflict { reason });
        }
        if snapshot.differences.is_empty() {
            return Ok(nothing);
        }
        let commit = commit(&self.git, &snapshot.tree, &[&before], &message.text())?;
        self.git.write(["update-ref", LINE, &commit, &before])?;
        let paths = self.layout.all_seen(snapshot.differences.iter().map(|one| one.path.as_slice()));
        Ok(Landing::Landed { commit: Some(commit), paths })
    }

    pub fn give_back(&self, work: &Work, end: End) -> Result<Option<String>, GroundError> {
        let mut lent = locked(&self.lent);
        let Some(intent) = lent.as_ref() else { return Ok(None) };
        let kept = match end {
            End::Landed => None,
            End::Failed { reason } | End::Discarded { reason } => {
                self.roll_back(&intent.before, &intent.loop_id, work, &reason)?
            }
        };
        intents::remove(&self.note)?;
        *lent = None;
        Ok(kept)
    }

    pub fn revert(&self, atom: &AtomId, landed: &str) -> Result<Reverted, GroundError> {
        let lent = locked(&self.lent);
        if let Some(other) = &*lent {
            return Err(GroundError::Lent { root: self.root.clone(), holder: other.atom.clone() });
        }
        let git = &self.git;
        let Some(landed) = commit_of(git, landed)? else { return Ok(Reverted::NotThere) };
        let before = self.snapshot()?;
        let is_there = git.query(["merge-base", "--is-ancestor", &landed, &before])?.code == 0;
        let parent = commit_of(git, &format!("{landed}^"))?;
        let (true, Some(parent)) = (is_there, parent) else { return Ok(Reverted::NotThere) };
        if is_reverted(git, &before, &landed)? {
            return Ok(Reverted::NotThere);
        }
        let now = tree_of(git, &before)?;
        let tree = match three_way(git, &tree_of(git, &landed)?, &now, &tree_of(git, &parent)?)? {
            MergeOutcome::Clean(tree) if tree == now => return Ok(Reverted::NotThere),
            MergeOutcome::Clean(tree) => tree,
            MergeOutcome::Conflicts(paths) => {
                let paths = self.layout.all_seen(paths.iter().map(Vec::as_slice));
                return Ok(Reverted::NotClean { paths });
            }
        };
        let message = revert_message(
            &git.read_line(["show", "-s", "--format=%s", &landed])?,
            &landed,
            &self.loop_id,
            atom,
        );
        let commit = commit(git, &tree, &[&before], &message)?;
        // An ignored file may be where the older content was.
        let back = differences(git, &before, &commit)?.into_iter().filter(|one| one.old.is_none());
        let in_the_way: Vec<Vec<u8>> =
            back.map(|one| one.path).filter(|path| fs::symlink_metadata(self.full(path)).is_ok()).collect();
        if !in_the_way.is_empty() {
            let paths = self.layout.all_seen(in_the_way.iter().map(Vec::as_slice));
            return Ok(Reverted::NotClean { paths });
        }
        let (loop_id, atom) = (self.loop_id.clone(), atom.to_string());
        intents::write(&self.note, &InPlaceIntent { before: before.clone(), loop_id, atom, attempt: 0 })?;
        git.write(["read-tree", "-m", "-u", &before, &commit])?;
        git.write(["update-ref", LINE, &commit, &before])?;
        intents::remove(&self.note)?;
        Ok(Reverted::Reverted { commit })
    }

    pub fn found(&self, in_progress: &[(AtomId, u32)]) -> Result<Vec<FoundCommit>, GroundError> {
        match self.tip()? {
            Some(_) => Ok(found(&self.git, LINE, &self.loop_id, in_progress)?),
            None => Ok(Vec::new()),
        }
    }

    pub fn close(&self) -> Result<(), GroundError> {
        // The repository grows with every attempt; failing to pack it does no harm.
        let _ = self.git.query(["gc", "--auto", "--quiet"]);
        Ok(())
    }

    fn before(&self) -> Option<String> {
        locked(&self.lent).as_ref().map(|intent| intent.before.clone())
    }

    /// Finishes or undoes what a killed run had begun. What is undone is kept, because the user may have gone on with it.
    fn recover(&self) -> Result<(), GroundError> {
        let Some(intent) = intents::read::<InPlaceIntent>(&self.note) else {
            return intents::remove(&self.note);
        };
        if commit_of(&self.git, &intent.before)?.is_some() {
            let is_through = self.tip()?.as_ref() != Some(&intent.before);
            if !is_through {
                let work = Work { atom: AtomId::new(&intent.atom), attempt: intent.attempt };
                self.roll_back(&intent.before, &intent.loop_id, &work, "the run was interrupted")?;
            }
        }
        intents::remove(&self.note)
    }

    /// Commits the project as it is now to the branch of snapshots.
    fn snapshot(&self) -> Result<String, GroundError> {
        let tip = self.tip()?;
        intents::remove(&self.git_dir.join("aot-ignored"))?;
        let snapshot = self.take_now(tip.as_deref().unwrap_or("HEAD"))?;
        if !snapshot.nested.is_empty() {
            let paths = self.layout.all_seen(snapshot.nested.iter().map(Vec::as_slice));
            return Err(GroundError::Nested { root: self.root.clone(), paths });
        }
        self.note_permissions()?;
        let ignored = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        write(&self.git_dir.join("aot-ignored"), &self.git.read(ignored)?)?;
        if let Some(tip) = tip.filter(|_| snapshot.differences.is_empty()) {
            return Ok(tip);
        }
        let tip = self.tip()?;
        let parents: Vec<&str> = tip.iter().map(String::as_str).collect();
        let snapshot = commit(&self.git, &snapshot.tree, &parents, "the project, as it was found\n")?;
        self.git.write(["update-ref", LINE, &snapshot, tip.as_deref().unwrap_or("")])?;
        Ok(snapshot)
    }

    /// Restores the project to the byte and the permission; returns the name under which the undone work is kept.
    fn roll_back(
        &self,
        before: &str,
        loop_id: &str,
        work: &Work,
        reason: &str,
    ) -> Result<Option<String>, GroundError> {
        let mut snapshot = self.take_now(before)?;
        let kept = match snapshot.differences.is_empty() {
            true => None,
            false => Some(keep(&self.git, loop_id, work, &snapshot.tree, before, reason)?),
        };
        // The first round restores the ignore rules; the next sees what the changed rules had hidden.
        for _ in 0..ROUNDS {
            for path in &snapshot.nested {
                // It was not there before: a project with nested repositories is refused.
                remove_folder(&self.full(path))?;
            }
            self.git.write(["read-tree", "--reset", "-u", before])?;
            snapshot = self.take_now(before)?;
            if snapshot.differences.is_empty() && snapshot.nested.is_empty() {
                break;
            }
        }
        self.put_permissions_back()?;
        Ok(kept)
    }

    fn take_now(&self, base: &str) -> Result<Snapshot, GroundError> {
        self.exclude()?;
        let base = match commit_of(&self.git, base)? {
            Some(base) => base,
            None => self.git.read_line(["hash-object", "-w", "-t", "tree", "/dev/null"])?,
        };
        if let Some(around) = &self.around {
            // Files that the user tracks count, even where a rule would ignore them.
            let tracked = around.read(["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"])?;
            let there = |path: &&[u8]| fs::symlink_metadata(self.full(path)).is_ok();
            let lines: Vec<u8> =
                records(&tracked).filter(there).flat_map(|path| [path, b"\0"].concat()).collect();
            if !lines.is_empty() {
                self.git.write_with_input(["update-index", "--add", "--remove", "-z", "--stdin"], &lines)?;
            }
        }
        // What was ignored when the work began is not part of it, even if the work changed the rules.
        let ignored = fs::read(self.git_dir.join("aot-ignored")).unwrap_or_default();
        let shared = records(&ignored).map(|path| path.strip_suffix(b"/").unwrap_or(path).to_vec()).collect();
        take(&self.git, &base, &self.layout, &NotWork { shared, left_by_setup: Vec::new() })
    }

    /// Excludes the state file, its folder, and what the repository around ignores. The project's own `.gitignore` files
    /// count in any case.
    fn exclude(&self) -> Result<(), GroundError> {
        let mut lines = Vec::new();
        let ours = self.layout.ours().iter().map(Vec::as_slice);
        ours.for_each(|path| lines.extend(pattern(path)));
        if let Some(around) = &self.around {
            let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
            records(&around.read(words)?).for_each(|path| lines.extend(pattern(path)));
        }
        write(&self.git_dir.join("info").join("exclude"), &lines)
    }

    fn note_permissions(&self) -> Result<(), GroundError> {
        let mut lines = Vec::new();
        for path in records(&self.git.read(["ls-files", "-z"])?) {
            let full = self.full(path);
            if let Ok(meta) = fs::symlink_metadata(&full).map(|meta| meta.permissions().mode() & PERMISSIONS)
            {
                lines.extend(format!("{meta:o} ").into_bytes());
                lines.extend(path);
                lines.push(0);
            }
        }
        write(&self.git_dir.join("aot-permissions"), &lines)
    }

    fn put_permissions_back(&self) -> Result<(), GroundError> {
        let noted = fs::read(self.git_dir.join("aot-permissions")).unwrap_or_default();
        for record in records(&noted) {
            let Some(space) = record.iter().position(|byte| *byte == b' ') else { continue };
            let mode =
                std::str::from_utf8(&record[..space]).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
            let path = self.root.join(OsString::from_vec(record[space + 1..].to_vec()));
            let (Some(mode), Ok(meta)) = (mode, fs::symlink_metadata(&path)) else { continue };
            if !meta.is_symlink() && meta.permissions().mode() & PERMISSIONS != mode {
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))
                    .map_err(GroundError::io("set the permissions of", &path))?;
            }
        }
        Ok(())
    }

    fn full(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    /// Waits for a git command that outlived a killed run, and removes the lock that a killed one left.
    fn clear_locks(&self) -> Result<(), GroundError> {
        let lock = self.git_dir.join("index.lock");
        let began = std::time::Instant::now();
        // Whoever held it died with the run before, unless that was the person's own git.
        let interrupt = self.git.guard().interrupt();
        while lock.exists() && began.elapsed() < super::git::LOCK_PATIENCE && !interrupt.is_asked() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        for lock in [lock, self.git_dir.join(format!("{LINE}.lock"))] {
            if lock.exists() {
                fs::remove_file(&lock).map_err(GroundError::io("remove", &lock))?;
            }
        }
        Ok(())
    }
}

/// An ignore rule that matches exactly this path.
fn pattern(path: &[u8]) -> Vec<u8> {
    let mut line = vec![b'/'];
    for byte in path {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b' ' | b'!' | b'#') {
            line.push(b'\\');
        }
        line.push(*byte);
    }
    line.push(b'\n');
    line
}

fn write(path: &Path, content: &[u8]) -> Result<(), GroundError> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(GroundError::io("make the folder", folder))?;
    let written = fs::File::create(path).and_then(|mut file| file.write_all(content));
    written.map_err(GroundError::io("write", path))
}
