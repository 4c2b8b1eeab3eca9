//! Work that did not land, kept as a reference for a week so that a person can look at it. Knows no trees.

use std::path::PathBuf;

use aot_core::state::AtomId;
use jiff::Timestamp;

use super::content::{KnownRepository, ProjectRepository};
use super::git::{Git, GitError, text};
use super::history::{commit, commit_of, one_line, shortened};
use super::shadow;
use super::{CommitMessage, GroundError, Project, Work};
use crate::checks::quoted;
use crate::process::Guard;

/// References below this prefix are neither shown nor pushed by the user's tools.
pub(super) const KEPT: &str = "refs/aot/kept";

/// How long it is kept.
pub(super) const A_WEEK: i64 = 7 * 24 * 60 * 60;

/// Work that did not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWork {
    pub atom: AtomId,
    pub attempt: u32,
    pub reference: String,
    pub at: Timestamp,
    pub reason: String,
    /// The repository that has it, where that is not the project's own.
    pub git_dir: Option<PathBuf>,
}

impl KeptWork {
    /// What to type to look at it.
    pub fn command(&self) -> String {
        match &self.git_dir {
            Some(git_dir) => {
                format!("git --git-dir={} show {}", quoted(&git_dir.to_string_lossy()), self.reference)
            }
            None => format!("git show {}", self.reference),
        }
    }
}

/// What is kept of this project's work, or of one loop, the oldest first.
pub fn kept(project: &Project, loop_id: Option<&str>, guard: &Guard) -> Result<Vec<KeptWork>, GroundError> {
    let mut found = Vec::new();
    for (git, git_dir) in repositories(project, guard) {
        // Outside of git there is nothing to list.
        if git.query(["rev-parse", "--git-dir"])?.code == 0 {
            let listed = list(&git, loop_id)?.into_iter();
            found.extend(listed.map(|(_, work)| KeptWork { git_dir: git_dir.clone(), ..work }));
        }
    }
    found.sort_by_key(|work| work.at);
    Ok(found)
}

/// Where work of this project lies: its own repository, and the one that we have for it, whose place is named.
pub(super) fn repositories(project: &Project, guard: &Guard) -> Vec<(Git, Option<PathBuf>)> {
    let git_dir = Some(shadow::repository(project)).filter(|git_dir| git_dir.is_dir());
    let own = git_dir.map(|git_dir| (Git::pinned(&git_dir, &project.root, guard), Some(git_dir)));
    let around = match &project.repository {
        ProjectRepository::Searched => Some(Git::searched(&project.root, guard)),
        ProjectRepository::Known(KnownRepository(git)) => Some(git.clone()),
        ProjectRepository::Outside => None,
    };
    around.map(|git| (git, None)).into_iter().chain(own).collect()
}

/// Keeps a tree, and says under which name.
pub(super) fn keep(
    git: &Git,
    loop_id: &str,
    work: &Work,
    tree: &str,
    base: &str,
    reason: &str,
) -> Result<String, GitError> {
    let message = CommitMessage {
        subject: reason.to_owned(),
        summary: String::new(),
        loop_id: loop_id.to_owned(),
        atom: work.atom.clone(),
        attempt: work.attempt,
    };
    let whole = one_line(reason);
    let text = format!(
        "kept: {}\n\n{}\n\n{}",
        shortened(&whole),
        if whole.is_empty() { "-" } else { &whole },
        message.trailers()
    );
    let name = format!("{KEPT}/{}/{}/{}", component(loop_id), component(work.atom.as_str()), work.attempt);
    // What was kept of the same attempt before stays behind it.
    let earlier = commit_of(git, &name)?;
    let parents: Vec<&str> = [base].into_iter().chain(earlier.as_deref()).collect();
    let commit = commit(git, tree, &parents, &text)?;
    git.write(["update-ref", &name, &commit])?;
    Ok(name)
}

/// Deletes references that are older than a week.
pub(super) fn drop_old(git: &Git, now: Timestamp) -> Result<(), GitError> {
    let old = list(git, None)?;
    let old = old.iter().filter(|(_, work)| now.as_second() - work.at.as_second() > A_WEEK);
    let lines: String = old.map(|(id, work)| format!("delete {} {id}\n", work.reference)).collect();
    if !lines.is_empty() {
        git.write_with_input(["update-ref", "--stdin"], lines.as_bytes())?;
    }
    Ok(())
}

fn list(git: &Git, loop_id: Option<&str>) -> Result<Vec<(String, KeptWork)>, GitError> {
    let place = match loop_id {
        Some(loop_id) => format!("{KEPT}/{}/", component(loop_id)),
        None => format!("{KEPT}/"),
    };
    let format = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(trailers:key=Aot-Atom,valueonly)\
                  %00%(contents:body)%00%01";
    let listed = text(&git.read(["for-each-ref", format, &place])?);
    let one = |record: &str| {
        let mut fields = record.trim_start_matches('\n').split('\0');
        let mut next = || fields.next().unwrap_or_default().trim();
        let (reference, id, at, atom, body) = (next(), next(), next(), next(), next());
        let reason = body.lines().next().unwrap_or_default().to_owned();
        let work = KeptWork {
            atom: AtomId::new(atom),
            attempt: reference.rsplit('/').next()?.parse().ok()?,
            reference: reference.to_owned(),
            at: Timestamp::from_second(at.parse().ok()?).ok()?,
            reason,
            git_dir: None,
        };
        Some((id.to_owned(), work))
    };
    Ok(listed.split('\u{1}').filter_map(one).collect())
}

/// Escapes a name so that it is one component of a reference.
fn component(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let name: String = name.bytes().map(one).collect();
    if name.is_empty() { "%".to_owned() } else { name }
}
