//! What a repository's history is asked and told: commits with our trailers, differences of trees, three-way merges
//! without a checkout. Knows no folders.

use std::collections::HashSet;

use aot_core::state::AtomId;

use serde::{Deserialize, Serialize};

use super::git::{Git, GitError, records, text};
use super::{FoundCommit, Message};

/// A line of a commit message is cut here; the whole text follows below.
const SUBJECT: usize = 72;

pub(super) const GITLINK: &str = "160000";

/// What one path holds: its mode and the id of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub mode: String,
    pub id: String,
}

/// One path in which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Difference {
    pub path: Vec<u8>,
    pub old: Option<Held>,
    pub new: Option<Held>,
}

#[derive(Debug)]
pub(super) enum Merged {
    Clean(String),
    Conflicts(Vec<Vec<u8>>),
}

/// The commit that a reference or a name means, if there is one.
pub(super) fn commit_of(git: &Git, name: &str) -> Result<Option<String>, GitError> {
    let said = git.ask(["rev-parse", "-q", "--verify", "--end-of-options", &format!("{name}^{{commit}}")])?;
    Ok((said.code == 0).then(|| text(&said.out)))
}

pub(super) fn tree_of(git: &Git, commit: &str) -> Result<String, GitError> {
    git.line(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])
}

pub(super) fn commit(git: &Git, tree: &str, parents: &[&str], message: &str) -> Result<String, GitError> {
    let mut words = vec!["commit-tree", tree];
    parents.iter().for_each(|parent| words.extend(["-p", parent]));
    words.extend(["-F", "-"]);
    Ok(text(&git.change_with(words, message.as_bytes())?))
}

/// The differences between two trees, or commits.
pub(super) fn differences(git: &Git, old: &str, new: &str) -> Result<Vec<Difference>, GitError> {
    let raw = git.look(["diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", old, new])?;
    Ok(read_raw(&raw))
}

/// `:MODE MODE ID ID STATUS NUL PATH NUL`, as all of git's raw differences are written.
pub(super) fn read_raw(raw: &[u8]) -> Vec<Difference> {
    let mut records = records(raw);
    let mut found = Vec::new();
    while let (Some(head), Some(path)) = (records.next(), records.next()) {
        let head = String::from_utf8_lossy(head);
        let mut fields = head.trim_start_matches(':').split(' ');
        let mut next = || fields.next().unwrap_or_default().to_owned();
        let (old_mode, new_mode, old_id, new_id) = (next(), next(), next(), next());
        let held = |mode: String, id: String| (mode != "000000").then_some(Held { mode, id });
        found.push(Difference {
            path: path.to_vec(),
            old: held(old_mode, old_id),
            new: held(new_mode, new_id),
        });
    }
    found
}

/// Applies what lies between `base` and `theirs` to `ours`. All are trees: a history that was rewritten meanwhile has
/// no say in what the base is, so three commits are made that have no other ancestor.
pub(super) fn three_way(git: &Git, base: &str, ours: &str, theirs: &str) -> Result<Merged, GitError> {
    let base = commit(git, base, &[], "base")?;
    let ours = commit(git, ours, &[&base], "ours")?;
    let theirs = commit(git, theirs, &[&base], "theirs")?;
    let words = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", &ours, &theirs];
    let said = git.attempt(words)?;
    let mut lines = records(&said.out);
    let tree = lines.next().map(text).unwrap_or_default();
    match said.code {
        0 => Ok(Merged::Clean(tree)),
        1 => Ok(Merged::Conflicts(lines.map(<[u8]>::to_vec).collect())),
        code => Err(git.refused(&["merge-tree".into()], code, said.err)),
    }
}

/// Commits of this loop for these atoms and attempts, and not reverted since.
pub(super) fn found(
    git: &Git,
    reference: &str,
    loop_id: &str,
    wanted: &[(AtomId, u32)],
) -> Result<Vec<FoundCommit>, GitError> {
    if wanted.is_empty() || loop_id.is_empty() {
        return Ok(Vec::new());
    }
    let mut found: Vec<FoundCommit> = Vec::new();
    for told in told(git, reference, loop_id)?.iter().filter(|told| !told.is_reverted) {
        let Some((atom, attempt)) = wanted
            .iter()
            .find(|(atom, attempt)| told.of == Some((loop_id, atom.as_str(), &attempt.to_string()).into()))
        else {
            continue;
        };
        let parent = commit_of(git, &format!("{}^", told.commit))?;
        let paths = match parent {
            Some(parent) => differences(git, &parent, &told.commit)?,
            None => Vec::new(),
        };
        // The newest is told first, and the only one that counts.
        if found.iter().all(|other| other.atom != *atom) {
            let paths = paths.iter().map(|path| String::from_utf8_lossy(&path.path).into_owned()).collect();
            found.push(FoundCommit {
                atom: atom.clone(),
                attempt: *attempt,
                commit: told.commit.clone(),
                summary: told.summary(),
                paths,
            });
        }
    }
    Ok(found)
}

pub(super) fn is_reverted(git: &Git, reference: &str, commit: &str) -> Result<bool, GitError> {
    let log = git.look(["log", "-z", LOG, "-F", "--grep", REVERTS, &format!("{commit}..{reference}")])?;
    let reverts: Vec<Told> = read_log(&log);
    let standing = |told: &&Told| !reverts.iter().any(|other| other.reverts(&told.commit));
    Ok(reverts.iter().filter(standing).any(|told| told.reverts(commit)))
}

/// What a worker says stands behind this, so that it is never taken for anything else.
const SUMMARY: &str = "Aot-Summary: ";

const REVERTS: &str = "This reverts commit ";

const LOG: &str = "--format=%H%n%(trailers:key=Aot-Loop,valueonly,separator=%x20)%n%(trailers:key=Aot-Atom,valueonly,\
                   separator=%x20)%n%(trailers:key=Aot-Attempt,valueonly,separator=%x20)%n%B";

#[derive(Debug, PartialEq, Eq)]
struct Trailers {
    loop_id: String,
    atom: String,
    attempt: String,
}

impl From<(&str, &str, &String)> for Trailers {
    fn from((loop_id, atom, attempt): (&str, &str, &String)) -> Trailers {
        Trailers { loop_id: loop_id.to_owned(), atom: atom.to_owned(), attempt: attempt.clone() }
    }
}

struct Told {
    commit: String,
    of: Option<Trailers>,
    body: String,
    is_reverted: bool,
}

impl Told {
    fn summary(&self) -> String {
        let summary = self.body.lines().find_map(|line| line.strip_prefix(SUMMARY));
        summary.or(self.body.lines().next()).unwrap_or_default().to_owned()
    }

    fn reverts(&self, commit: &str) -> bool {
        self.body.lines().any(|line| line.strip_prefix(REVERTS).is_some_and(|rest| rest.starts_with(commit)))
    }
}

/// All commits of a loop and all reverts, the newest first.
fn told(git: &Git, reference: &str, loop_id: &str) -> Result<Vec<Told>, GitError> {
    let of_loop = format!("Aot-Loop: {loop_id}");
    let log = git.look(["log", "-z", LOG, "-F", "--grep", &of_loop, "--grep", REVERTS, reference, "--"])?;
    let mut told = read_log(&log);
    let mut reverted: HashSet<String> = HashSet::new();
    for one in &mut told {
        // A revert that was reverted takes nothing back.
        one.is_reverted = reverted.contains(&one.commit);
        if !one.is_reverted {
            let named = one.body.lines().filter_map(|line| line.strip_prefix(REVERTS));
            let id = |rest: &str| rest.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
            reverted.extend(named.map(id));
        }
    }
    Ok(told)
}

fn read_log(log: &[u8]) -> Vec<Told> {
    let one = |record: &[u8]| {
        let text = String::from_utf8_lossy(record).into_owned();
        let mut lines = text.splitn(5, '\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        let (commit, loop_id, atom, attempt, body) = (next(), next(), next(), next(), next());
        // A revert of ours names the loop, but no attempt: it is nobody's work.
        let of = (!attempt.is_empty()).then_some(Trailers { loop_id, atom, attempt });
        Told { commit, of, body, is_reverted: false }
    };
    records(log).map(one).collect()
}

impl Message {
    /// A subject, the whole description if it is longer, and the trailers by which the commit is known again.
    pub(super) fn text(&self) -> String {
        let whole = one_line(&self.subject);
        let subject = shortened(&whole);
        let more = if subject == whole { String::new() } else { format!("{whole}\n\n") };
        format!("{subject}\n\n{more}{}", self.trailers())
    }

    pub(super) fn trailers(&self) -> String {
        let summary = match one_line(&self.summary) {
            empty if empty.is_empty() => String::new(),
            summary => format!("{SUMMARY}{summary}\n"),
        };
        format!(
            "{summary}Aot-Loop: {}\nAot-Atom: {}\nAot-Attempt: {}\n",
            self.loop_id, self.atom, self.attempt
        )
    }
}

pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn shortened(line: &str) -> String {
    match line.char_indices().nth(SUBJECT) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}
