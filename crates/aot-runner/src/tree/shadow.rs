//! Work in place, one attempt at a time. A shadow repository beside the state file holds the project as it was before,
//! and what landed. Never touches the repository that the project may be in.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use aot_core::state::AtomId;
use jiff::Timestamp;

use super::aside::{self, told};
use super::drivers::Configured;
use super::error::{GroundError, named};
use super::git::{Git, records, text};
use super::history::{
    Difference, MergeOutcome, commit, commit_of, differences, found, is_id, is_reverted, landed_work,
    standing, three_way, tree_of,
};
use super::intents::{self, InPlaceIntent};
use super::kept::{drop_old, keep};
use super::landing::revert_message;
use super::refs;
use super::slots::remove_folder;
use super::snapshot::{IgnoredFiles, Layout, NotWork, Snapshot, pattern, restore, set, take};
use super::undo::{self, Undoing, reverting};
use super::walk::{Pipes, remove_pipes};
use super::worktrees::locked;
use super::{
    CommitMessage, End, FoundCommit, KnownRepository, LandedWork, Landing, Lent, Loan, OpenedFor, Project,
    ProjectRepository, Reverted, Sealed, Work,
};
use crate::process::Guard;

/// The branch of snapshots and landings.
const LINE: &str = "refs/heads/aot";

/// Content is stored byte for byte, without conversion.
const ATTRIBUTES: &str = "* -text !eol !filter !ident !working-tree-encoding\n";

/// The settings of the shadow repository, all of them.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";

/// The record of an attempt, within the shadow repository.
const UNDER_WAY: &str = "aot-under-way.json";

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
    around: Option<KnownRepository>,
    note: PathBuf,
    loop_id: String,
    /// The files of a tree, by its id.
    listed: Mutex<Option<(String, Vec<u8>)>>,
    lent: Mutex<Option<InPlaceLoan>>,
    /// What a person should know, until it is told.
    notes: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct InPlaceLoan {
    intent: InPlaceIntent,
    /// The work as it was when the worker had ended.
    sealed: Option<Snapshot>,
    /// How the attempt ended, if the project could not be given back then: that is made up for before the next one.
    owed: Option<(Work, End)>,
}

impl InPlaceLoan {
    fn of(intent: InPlaceIntent) -> InPlaceLoan {
        InPlaceLoan { intent, sealed: None, owed: None }
    }
}

/// Where the shadow repository of a project lies.
pub(super) fn repository(project: &Project) -> PathBuf {
    project.sidecar.join("shadow.git")
}

/// Whether an attempt is under way, or was when a run died, that began without any `.git` in the project's folder.
pub(super) fn is_outside(project: &Project) -> Result<bool, GroundError> {
    let intent = intents::read::<InPlaceIntent>(&repository(project).join(UNDER_WAY))?;
    Ok(intent.is_some_and(|intent| !intent.had_git))
}

impl Shadow {
    pub fn open(
        project: &Project,
        loop_id: &str,
        around: Option<KnownRepository>,
        guard: &Guard,
        entry: OpenedFor,
    ) -> Result<Shadow, GroundError> {
        let git_dir = repository(project);
        let plain = Git::pinned(&git_dir, &project.root, guard);
        // The shadow repository is ours, so one that git cannot open is made anew; but not while it holds the only copy of a
        // project in which an attempt was under way. Git may be what does not work.
        let opened = plain.query(["rev-parse", "--git-dir"])?;
        if opened.code != 0 {
            if git_dir.join(UNDER_WAY).try_exists().map_err(GroundError::io("read", &git_dir))? {
                return Err(plain.refused(&["rev-parse".into()], opened.code, opened.stderr).into());
            }
            remove_folder(&git_dir)?;
            let words = ["init", "-q", "--bare", "--template=", "--object-format=sha1"].map(OsStr::new);
            let git = Git::searched(&project.sidecar, guard);
            git.write(words.into_iter().chain([git_dir.as_os_str()]))?;
        }
        let configured = Configured::read(&plain)?;
        let shadow = Shadow {
            root: project.root.clone(),
            git: plain.with_identity(&configured)?,
            layout: Layout::of(project, &project.root, b""),
            around,
            note: git_dir.join(UNDER_WAY),
            git_dir,
            loop_id: loop_id.to_owned(),
            listed: Mutex::default(),
            lent: Mutex::new(None),
            notes: Mutex::new(Vec::new()),
        };
        shadow.make_ours()?;
        if entry == OpenedFor::Again {
            *locked(&shadow.lent) = intents::read(&shadow.note)?.map(InPlaceLoan::of);
            return Ok(shadow);
        }
        shadow.clear_locks()?;
        shadow.recover()?;
        let nested = shadow.take_from("HEAD", true)?.nested;
        if !nested.is_empty() {
            let paths = shadow.layout.all_seen(nested.iter().map(Vec::as_slice));
            return Err(GroundError::Nested { root: shadow.root, paths });
        }
        drop_old(&shadow.git, Timestamp::now())?;
        Ok(shadow)
    }

    /// Whose repository the project is in.
    pub fn around(&self) -> ProjectRepository {
        match &self.around {
            Some(known) => ProjectRepository::Known(known.clone()),
            None => ProjectRepository::Outside,
        }
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.notes))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn tip(&self) -> Result<Option<String>, GroundError> {
        Ok(refs::tip(&self.git, (&self.git_dir, &self.git_dir), LINE)?)
    }

    pub fn lend(&self, work: &Work) -> Result<Lent, GroundError> {
        self.pay_what_is_owed()?;
        let mut lent = locked(&self.lent);
        if let Some(other) = &*lent {
            return Err(GroundError::Lent { root: self.root.clone(), holder: other.intent.atom.clone() });
        }
        let intent = self.intent(self.snapshot()?, &work.atom, work.attempt);
        intents::write(&self.note, &intent)?;
        *lent = Some(InPlaceLoan::of(intent));
        let (top, root) = (self.root.clone(), self.root.clone());
        Ok(Lent { work: work.clone(), number: 1, top, root, loan: Loan::InPlace })
    }

    /// A lease of an earlier process that has not been released.
    pub fn lent_before(&self, work: &Work) -> Option<Lent> {
        let lent = locked(&self.lent);
        let same = |lent: &&InPlaceLoan| {
            lent.intent.atom == work.atom.as_str() && lent.intent.attempt == work.attempt
        };
        lent.as_ref().filter(same)?;
        let (top, root) = (self.root.clone(), self.root.clone());
        Some(Lent { work: work.clone(), number: 1, top, root, loan: Loan::InPlace })
    }

    pub fn changed(&self) -> Result<Vec<String>, GroundError> {
        match self.intent_of_loan() {
            Some(intent) => Ok(self.take_from(&intent.before, intent.had_git)?.changed(&self.layout)),
            None => Ok(Vec::new()),
        }
    }

    /// Takes the work as it is now; nothing that is written later is part of it.
    pub fn seal(&self) -> Result<Sealed, GroundError> {
        let Some(intent) = self.intent_of_loan() else { return Ok(Sealed::default()) };
        let snapshot = self.take_from(&intent.before, intent.had_git)?;
        let told = Sealed {
            changed: snapshot.changed(&self.layout),
            content: Some(snapshot.tree.clone()),
            cannot_land: snapshot.cannot_land(&self.layout),
            // What is ignored stays where it is, and the next worker finds it there.
            ignored: Vec::new(),
        };
        if let Some(lent) = &mut *locked(&self.lent) {
            lent.sealed = Some(snapshot);
        }
        Ok(told)
    }

    /// Takes back what was changed since the work was sealed. A person may have edited at the same time, so it is kept.
    pub fn undo_since_sealed(&self, work: &Work) -> Result<Vec<String>, GroundError> {
        let lent = locked(&self.lent);
        let Some(InPlaceLoan { intent, sealed: Some(sealed), .. }) = &*lent else { return Ok(Vec::new()) };
        let now = self.take_from(&intent.before, intent.had_git)?;
        let since = differences(&self.git, &sealed.tree, &now.tree)?;
        let nested = now.nested.iter().filter(|path| !sealed.nested.contains(path));
        for path in nested {
            self.set_aside(path, work)?;
        }
        if since.is_empty() {
            return Ok(Vec::new());
        }
        let reason = "changed while its check ran";
        let kept = keep(&self.git, &intent.loop_id, work, &now.tree, &intent.before, reason)?;
        restore(&self.git, &self.root, &since)?;
        let paths = self.layout.all_seen(since.iter().map(|one| one.path.as_slice()));
        self.note(format!(
            "{} changed while the check of {} ran, and {} taken back; if you edited there, your version is kept: {}",
            named(&paths),
            work.atom,
            if paths.len() == 1 { "was" } else { "were" },
            self.show_kept(&kept)
        ));
        Ok(paths)
    }

    pub fn land(&self, message: &CommitMessage) -> Result<Landing, GroundError> {
        let nothing = Landing::Landed { commit: None, paths: Vec::new() };
        let Some(InPlaceIntent { before, had_git, .. }) = self.intent_of_loan() else { return Ok(nothing) };
        let sealed = locked(&self.lent).as_mut().and_then(|lent| lent.sealed.take());
        let snapshot = match sealed {
            Some(sealed) => sealed,
            None => self.take_from(&before, had_git)?,
        };
        if let Some(reason) = snapshot.cannot_land(&self.layout) {
            return Ok(Landing::Conflict { reason });
        }
        if snapshot.differences.is_empty() {
            return Ok(nothing);
        }
        let old = tree_of(&self.git, &before)?;
        let commit = commit(&self.git, &snapshot.tree, &[&before], &message.text())?;
        self.git.write(["update-ref", LINE, &commit, &before])?;
        self.carry_list(&old, &snapshot);
        let paths = self.layout.all_seen(snapshot.differences.iter().map(|one| one.path.as_slice()));
        Ok(Landing::Landed { commit: Some(commit), paths })
    }

    pub fn give_back(&self, work: &Work, end: End) -> Result<Option<String>, GroundError> {
        let mut lent = locked(&self.lent);
        let Some(loan) = lent.as_mut() else { return Ok(None) };
        let InPlaceLoan { intent, sealed, .. } = &*loan;
        let kept = match &end {
            End::Landed => Ok(None),
            End::Failed { reason } | End::Discarded { reason } => {
                self.roll_back(intent, sealed.as_ref(), work, reason)
            }
        };
        let kept = kept.and_then(|kept| intents::remove(&self.note).map(|()| kept));
        match kept {
            Ok(_) => *lent = None,
            Err(_) => loan.owed = Some((work.clone(), end)),
        }
        kept
    }

    /// Gives back what could not be given back when its attempt ended: a full disk or a killed git must not keep the project
    /// from everybody else for ever.
    fn pay_what_is_owed(&self) -> Result<(), GroundError> {
        let owed = locked(&self.lent).as_ref().and_then(|loan| loan.owed.clone());
        if let Some((work, end)) = owed {
            self.give_back(&work, end)?;
        }
        Ok(())
    }

    pub fn revert(&self, atom: &AtomId, landed: &str) -> Result<Reverted, GroundError> {
        self.pay_what_is_owed()?;
        let lent = locked(&self.lent);
        if let Some(other) = &*lent {
            return Err(GroundError::Lent { root: self.root.clone(), holder: other.intent.atom.clone() });
        }
        let git = &self.git;
        let Some(landed) = commit_of(git, landed)? else { return Ok(Reverted::NotThere) };
        let before = self.snapshot()?;
        let is_there = git.find(["merge-base", "--is-ancestor", &landed, &before])?.is_some();
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
        let paths = self.in_the_way(&before, &commit)?;
        if !paths.is_empty() {
            return Ok(Reverted::NotClean { paths });
        }
        self.move_to(&before, &commit, atom)?;
        Ok(Reverted::Reverted { commit })
    }

    /// What takes back all that this loop did, from the project as it is now. Changes no file of the project.
    pub fn undoing(&self) -> Result<Undoing, GroundError> {
        let git = &self.git;
        let commits = match self.tip()? {
            Some(_) => standing(git, LINE, &self.loop_id, None)?,
            None => Vec::new(),
        };
        let nothing = || GroundError::NothingInPlace { root: self.root.clone() };
        if commits.is_empty() {
            return Err(nothing());
        }
        let tip = self.snapshot()?;
        let target =
            reverting(git, &self.layout, (&self.loop_id, &tip), &commits)?.map_err(|(one, paths)| {
                GroundError::ChangedSince {
                    atom: undo::atom(&one).to_owned(),
                    paths,
                    git_dir: self.git_dir.clone(),
                }
            })?;
        if target == tip {
            return Err(nothing());
        }
        let in_the_way = self.in_the_way(&tip, &target)?;
        if !in_the_way.is_empty() {
            let reason = format!("ignored files are in the way: {}", named(&in_the_way));
            return Err(GroundError::NotUndone { reason });
        }
        Ok(Undoing { commits, tip, target })
    }

    /// Brings the project from one of these commits to the other, if it is still as it was.
    pub fn undo(&self, tip: &str, target: &str) -> Result<(), GroundError> {
        if self.snapshot()? != tip {
            return Err(GroundError::NotUndone { reason: "the project was changed meanwhile".into() });
        }
        self.move_to(tip, target, &AtomId::new("undo"))
    }

    /// If this process dies in between, the project is brought back by whoever opens it next.
    fn move_to(&self, before: &str, after: &str, atom: &AtomId) -> Result<(), GroundError> {
        intents::write(&self.note, &self.intent(before.to_owned(), atom, 0))?;
        self.git.write(["read-tree", "-m", "-u", before, after])?;
        self.git.write(["update-ref", LINE, after, before])?;
        intents::remove(&self.note)
    }

    /// Ignored files where the older content was.
    fn in_the_way(&self, before: &str, after: &str) -> Result<Vec<String>, GroundError> {
        let back = differences(&self.git, before, after)?.into_iter().filter(|one| one.old.is_none());
        let found: Vec<Vec<u8>> =
            back.map(|one| one.path).filter(|path| fs::symlink_metadata(self.full(path)).is_ok()).collect();
        Ok(self.layout.all_seen(found.iter().map(Vec::as_slice)))
    }

    pub fn found(&self, in_progress: &[(AtomId, u32)]) -> Result<Vec<FoundCommit>, GroundError> {
        match self.tip()? {
            Some(_) => Ok(found(&self.git, LINE, &self.loop_id, in_progress)?),
            None => Ok(Vec::new()),
        }
    }

    pub fn landed_work(&self, since: Option<Timestamp>) -> Result<LandedWork, GroundError> {
        match self.tip()? {
            Some(_) => Ok(landed_work(&self.git, LINE, &self.loop_id, since)?),
            None => Ok(LandedWork::default()),
        }
    }

    pub fn close(&self) -> Result<(), GroundError> {
        // The repository grows with every attempt; failing to pack it does no harm.
        let _ = self.git.query(["gc", "--auto", "--quiet"]);
        Ok(())
    }

    fn intent_of_loan(&self) -> Option<InPlaceIntent> {
        locked(&self.lent).as_ref().map(|lent| lent.intent.clone())
    }

    fn intent(&self, before: String, atom: &AtomId, attempt: u32) -> InPlaceIntent {
        let had_git = fs::symlink_metadata(self.root.join(".git")).is_ok();
        InPlaceIntent { before, loop_id: self.loop_id.clone(), atom: atom.to_string(), attempt, had_git }
    }

    fn note(&self, text: String) {
        locked(&self.notes).push(text);
    }

    /// The command that shows a version that was kept.
    fn show_kept(&self, reference: &str) -> String {
        format!("git --git-dir={} show {reference}:PATH", self.git_dir.display())
    }

    /// Finishes or undoes what a killed run had begun. What is undone is kept, because the user may have gone on with it.
    fn recover(&self) -> Result<(), GroundError> {
        let Some(intent) = intents::read::<InPlaceIntent>(&self.note)? else {
            return intents::remove(&self.note);
        };
        if commit_of(&self.git, &intent.before)?.is_some() {
            let is_through = self.tip()?.as_ref() != Some(&intent.before);
            if !is_through {
                let work = Work { atom: AtomId::new(&intent.atom), attempt: intent.attempt };
                self.roll_back(&intent, None, &work, "the run was interrupted")?;
            }
        }
        intents::remove(&self.note)
    }

    /// Commits the project as it is now to the branch of snapshots.
    fn snapshot(&self) -> Result<String, GroundError> {
        let tip = self.tip()?;
        intents::remove(&self.git_dir.join("aot-ignored"))?;
        let snapshot = self.take_from(tip.as_deref().unwrap_or("HEAD"), true)?;
        if !snapshot.nested.is_empty() {
            let paths = self.layout.all_seen(snapshot.nested.iter().map(Vec::as_slice));
            return Err(GroundError::Nested { root: self.root.clone(), paths });
        }
        self.note_permissions(&snapshot.tree)?;
        let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
        let ignored = match snapshot.ignored {
            IgnoredFiles::None => Vec::new(),
            IgnoredFiles::Unknown => self.git.read(words)?,
        };
        write(&self.git_dir.join("aot-ignored"), &ignored)?;
        if let Some(tip) = tip.filter(|_| snapshot.differences.is_empty()) {
            return Ok(tip);
        }
        let tip = self.tip()?;
        let parents: Vec<&str> = tip.iter().map(String::as_str).collect();
        let snapshot = commit(&self.git, &snapshot.tree, &parents, "the project, as it was found\n")?;
        self.git.write(["update-ref", LINE, &snapshot, tip.as_deref().unwrap_or("")])?;
        Ok(snapshot)
    }

    /// Restores the project to the byte and the permission; returns the name under which the undone work is kept. What
    /// was changed after the work was sealed is not the worker's, and stays. Until then nothing tells a person's edit
    /// from a worker's, so what is undone is named, with the command that brings it back.
    fn roll_back(
        &self,
        intent: &InPlaceIntent,
        sealed: Option<&Snapshot>,
        work: &Work,
        reason: &str,
    ) -> Result<Option<String>, GroundError> {
        let before = intent.before.as_str();
        let mut snapshot = self.take_from(before, intent.had_git)?;
        let later = match sealed {
            Some(sealed) => differences(&self.git, &sealed.tree, &snapshot.tree)?,
            None => Vec::new(),
        };
        let is_later = |path: &[u8]| later.iter().any(|one| one.path == path);
        let undone = snapshot.differences.iter().map(|one| one.path.as_slice());
        let undone = self.layout.all_seen(undone.filter(|path| !is_later(path)));
        let kept = match snapshot.differences.is_empty() {
            true => None,
            false => Some(keep(&self.git, &intent.loop_id, work, &snapshot.tree, before, reason)?),
        };
        let target = match later.is_empty() {
            true => before.to_owned(),
            false => self.with_later(before, &later)?,
        };
        // The first round restores the ignore rules; the next sees what the changed rules had hidden.
        for _ in 0..ROUNDS {
            for path in &snapshot.nested {
                // It was not there before: a project with nested repositories is refused.
                self.set_aside(path, work)?;
            }
            self.git.write(["read-tree", "--reset", "-u", &target])?;
            snapshot = self.take_from(&target, intent.had_git)?;
            if snapshot.differences.is_empty() && snapshot.nested.is_empty() {
                break;
            }
        }
        self.put_permissions_back(&is_later)?;
        if let Some(kept) = kept.as_ref().filter(|_| !undone.is_empty()) {
            self.note(format!(
                "rolled back with {}: {}; if an edit of yours was among them, it is kept: {}",
                work.atom,
                named(&undone),
                self.show_kept(kept)
            ));
        }
        if !later.is_empty() {
            let later = self.layout.all_seen(later.iter().map(|one| one.path.as_slice()));
            self.note(format!("left as you edited it after {} had ended: {}", work.atom, named(&later)));
        }
        Ok(kept)
    }

    /// The tree of `before`, with what was changed later.
    fn with_later(&self, before: &str, later: &[Difference]) -> Result<String, GroundError> {
        let index = self.git_dir.join("aot-target");
        remove_folder(&index)?;
        let git = self.git.with_index(&index);
        git.write(["read-tree", before])?;
        set(&git, later.iter().map(|one| (one.path.as_slice(), one.new.as_ref())), before.len())?;
        Ok(text(&git.write(["write-tree"])?))
    }

    /// Moves a repository out of the project, because nothing of a worker's may be left for git to find.
    fn set_aside(&self, path: &[u8], work: &Work) -> Result<(), GroundError> {
        let name = format!("{}-{}-{}", work.atom, work.attempt, String::from_utf8_lossy(path));
        if let Some(aside) = aside::set_aside(self.sidecar(), &self.full(path), &name)? {
            self.note(told(work.atom.as_str(), &self.layout.seen(path), &aside));
        }
        Ok(())
    }

    fn sidecar(&self) -> &Path {
        self.git_dir.parent().unwrap_or(&self.git_dir)
    }

    /// The project compared with a commit or a tree. `had_git` as it was before a worker came.
    fn take_from(&self, base: &str, had_git: bool) -> Result<Snapshot, GroundError> {
        remove_pipes(&self.root, Pipes::ReadByGit);
        self.make_ours()?;
        self.exclude()?;
        self.taken(base, had_git).or_else(|_| {
            // A git that ran out of descriptors or space while it moved new objects into place (`core.fsyncMethod=batch`)
            // reports success, and its index names objects that do not exist. Without it all files are read again.
            remove_folder(&self.git_dir.join("index"))?;
            self.taken(base, had_git)
        })
    }

    fn taken(&self, base: &str, had_git: bool) -> Result<Snapshot, GroundError> {
        let base = match is_id(base) {
            true => base.to_owned(),
            false => match self.git.find(["rev-parse", "-q", "--verify", &format!("{base}^{{tree}}")])? {
                Some(found) => text(&found),
                None => self.git.read_line(["hash-object", "-w", "-t", "tree", "/dev/null"])?,
            },
        };
        if let Some(around) = &self.around {
            // Files that the user tracks count, even where a rule would ignore them.
            let words = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"];
            let tracked = around.0.in_folder(&self.root).read(words)?;
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
        let not_work = NotWork { shared, ..NotWork::default() };
        let mut snapshot = take(&self.git, &self.root, &base, &self.layout, &not_work)?;
        if !had_git && fs::symlink_metadata(self.root.join(".git")).is_ok() {
            snapshot.nested.push(b".git".to_vec());
        }
        Ok(snapshot)
    }

    /// Writes the settings of the shadow repository. Not every cage keeps a worker in place from writing there.
    fn make_ours(&self) -> Result<(), GroundError> {
        remove_folder(&self.git_dir.join("commondir"))?;
        write(&self.git_dir.join("config"), CONFIG.as_bytes())?;
        write(&self.git_dir.join("HEAD"), format!("ref: {LINE}\n").as_bytes())?;
        write(&self.git_dir.join("info").join("attributes"), ATTRIBUTES.as_bytes())
    }

    /// Excludes the state file, its folder, and what the repository around ignores. The project's own `.gitignore` files
    /// count in any case.
    fn exclude(&self) -> Result<(), GroundError> {
        let mut lines = Vec::new();
        let ours = self.layout.ours().iter().map(Vec::as_slice);
        ours.for_each(|path| lines.extend(pattern(path)));
        if let Some(around) = &self.around {
            let words = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
            let ignored = around.0.in_folder(&self.root).read(words)?;
            records(&ignored).for_each(|path| lines.extend(pattern(path)));
        }
        write(&self.git_dir.join("info").join("exclude"), &lines)
    }

    /// `tree` is what the index holds.
    fn note_permissions(&self, tree: &str) -> Result<(), GroundError> {
        let mut lines = Vec::new();
        let mut listed = locked(&self.listed);
        let listed = match &mut *listed {
            Some((known, listed)) if known == tree => listed,
            other => &mut other.insert((tree.to_owned(), self.git.read(["ls-files", "-z"])?)).1,
        };
        for path in records(listed) {
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

    /// The files of a tree that differs from another in these paths.
    fn carry_list(&self, old: &str, snapshot: &Snapshot) {
        let mut listed = locked(&self.listed);
        let Some((tree, files)) = listed.as_mut().filter(|(tree, _)| tree == old) else { return };
        let gone: HashSet<&[u8]> = snapshot.differences.iter().map(|one| one.path.as_slice()).collect();
        let there = snapshot.differences.iter().filter(|one| one.new.is_some());
        let there: Vec<&[u8]> = there.map(|one| one.path.as_slice()).collect();
        let kept = records(files).filter(|path| !gone.contains(path)).chain(there);
        *files = kept.flat_map(|path| [path, b"\0"].concat()).collect();
        *tree = snapshot.tree.clone();
    }

    fn put_permissions_back(&self, is_excepted: &dyn Fn(&[u8]) -> bool) -> Result<(), GroundError> {
        let noted = fs::read(self.git_dir.join("aot-permissions")).unwrap_or_default();
        for record in records(&noted) {
            let Some(space) = record.iter().position(|byte| *byte == b' ') else { continue };
            let mode =
                std::str::from_utf8(&record[..space]).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
            if is_excepted(&record[space + 1..]) {
                continue;
            }
            let path = self.full(&record[space + 1..]);
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
        // Nobody else works in this repository, and whoever did for a killed run is dead with it.
        for name in ["index.lock", "HEAD.lock", "packed-refs.lock", "config.lock"] {
            intents::remove(&self.git_dir.join(name))?;
        }
        intents::remove_locks(&self.git_dir.join("refs"))
    }
}

/// Writes a file of the shadow repository, never through a link.
fn write(path: &Path, content: &[u8]) -> Result<(), GroundError> {
    let is = |path: &Path, wanted: fn(&fs::FileType) -> bool| {
        fs::symlink_metadata(path).is_ok_and(|meta| wanted(&meta.file_type()))
    };
    if is(path, fs::FileType::is_file) && fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    if !is(folder, fs::FileType::is_dir) {
        remove_folder(folder)?;
        fs::create_dir_all(folder).map_err(GroundError::io("make the folder", folder))?;
    }
    remove_folder(path)?;
    let written = fs::File::create_new(path).and_then(|mut file| file.write_all(content));
    written.map_err(GroundError::io("write", path))
}
