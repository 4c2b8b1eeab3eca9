//! Commits with our trailers, differences between trees, and three-way merges without a checkout. Knows no folders.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use aot_core::state::AtomId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::git::{Git, GitError, records, text};
use super::{CommitMessage, FoundCommit, LandedWork, Work};

/// The subject of a commit is cut at this many characters; the whole text follows below it.
const SUBJECT: usize = 72;

pub(super) const GITLINK: &str = "160000";

/// The mode of a file and the id of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileVersion {
    pub mode: String,
    pub id: String,
}

/// One path in which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Difference {
    pub path: Vec<u8>,
    pub old: Option<FileVersion>,
    pub new: Option<FileVersion>,
}

#[derive(Debug)]
pub(super) enum MergeOutcome {
    Clean(String),
    Conflicts(Vec<Vec<u8>>),
}

/// The commit that a reference or a name means, if there is one.
pub(super) fn commit_of(git: &Git, name: &str) -> Result<Option<String>, GitError> {
    let found =
        git.find(["rev-parse", "-q", "--verify", "--end-of-options", &format!("{name}^{{commit}}")])?;
    Ok(found.map(|found| text(&found)))
}

/// Commits and their trees, the newest last: none ever has another one.
static KNOWN_TREES: Mutex<VecDeque<(String, String)>> = Mutex::new(VecDeque::new());

/// So many are remembered: workers begin at a few of the newest commits.
const TREES_REMEMBERED: usize = 32;

fn remember_tree(commit: &str, tree: &str) {
    let mut known = KNOWN_TREES.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= TREES_REMEMBERED {
        known.pop_front();
    }
    known.push_back((commit.to_owned(), tree.to_owned()));
}

/// The tree of a commit.
pub(super) fn tree_of(git: &Git, commit: &str) -> Result<String, GitError> {
    let known = || {
        let known = KNOWN_TREES.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(known, _)| known == commit).map(|(_, tree)| tree.clone())
    };
    if let Some(tree) = known() {
        return Ok(tree);
    }
    let found = git.read_line(["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?;
    if is_id(commit) {
        remember_tree(commit, &found);
    }
    Ok(found)
}

/// Whether this is the whole id of an object, and no name that may mean another one tomorrow.
pub(super) fn is_id(name: &str) -> bool {
    matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn commit(git: &Git, tree: &str, parents: &[&str], message: &str) -> Result<String, GitError> {
    let mut words = vec!["commit-tree", tree];
    parents.iter().for_each(|parent| words.extend(["-p", parent]));
    words.extend(["-F", "-"]);
    let commit = text(&git.write_with_input(words, message.as_bytes())?);
    if is_id(tree) {
        remember_tree(&commit, tree);
    }
    Ok(commit)
}

/// The differences between two trees, or commits.
pub(super) fn differences(git: &Git, old: &str, new: &str) -> Result<Vec<Difference>, GitError> {
    let raw = git.read(["diff-tree", "-r", "-z", "--raw", "--full-index", "--no-renames", old, new])?;
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
        let held = |mode: String, id: String| (mode != "000000").then_some(FileVersion { mode, id });
        found.push(Difference {
            path: path.to_vec(),
            old: held(old_mode, old_id),
            new: held(new_mode, new_id),
        });
    }
    found
}

/// Applies what lies between `base` and `theirs` to `ours`. All are trees: a history that was rewritten meanwhile has
/// no say in what the base is.
pub(super) fn three_way(git: &Git, base: &str, ours: &str, theirs: &str) -> Result<MergeOutcome, GitError> {
    match merge(git, &[&format!("--merge-base={base}"), ours, theirs]) {
        Err(error @ GitError::Refused { .. }) if !error.is_death() => {
            three_way_by_commits(git, base, ours, theirs)
        }
        merged => merged,
    }
}

/// The same for a git before 2.45, which merges no trees: three commits are made that have no other ancestor.
fn three_way_by_commits(git: &Git, base: &str, ours: &str, theirs: &str) -> Result<MergeOutcome, GitError> {
    let base = commit(git, base, &[], "base")?;
    let ours = commit(git, ours, &[&base], "ours")?;
    let theirs = commit(git, theirs, &[&base], "theirs")?;
    merge(git, &[&ours, &theirs])
}

fn merge(git: &Git, what: &[&str]) -> Result<MergeOutcome, GitError> {
    let words = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
    let output = git.try_write(words.iter().chain(what))?;
    let mut lines = records(&output.stdout);
    let tree = lines.next().map(text).unwrap_or_default();
    match output.code {
        0 => Ok(MergeOutcome::Clean(tree)),
        1 => Ok(MergeOutcome::Conflicts(lines.map(<[u8]>::to_vec).collect())),
        code => Err(git.refused(&["merge-tree".into()], code, output.stderr)),
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
    for loop_commits in
        loop_commits(git, reference, loop_id, None)?.iter().filter(|loop_commits| !loop_commits.is_reverted)
    {
        let Some((atom, attempt)) = wanted.iter().find(|(atom, attempt)| {
            loop_commits.of == Some((loop_id, atom.as_str(), &attempt.to_string()).into())
        }) else {
            continue;
        };
        let parent = commit_of(git, &format!("{}^", loop_commits.commit))?;
        let paths = match parent {
            Some(parent) => differences(git, &parent, &loop_commits.commit)?,
            None => Vec::new(),
        };
        // The log begins with the newest commit, and only that one counts.
        if found.iter().all(|other| other.atom != *atom) {
            let paths = paths.iter().map(|path| String::from_utf8_lossy(&path.path).into_owned()).collect();
            found.push(FoundCommit {
                atom: atom.clone(),
                attempt: *attempt,
                commit: loop_commits.commit.clone(),
                summary: loop_commits.summary(),
                paths,
            });
        }
    }
    Ok(found)
}

/// What a loop has landed on a branch and not taken back since, counted.
pub(super) fn landed_work(
    git: &Git,
    reference: &str,
    loop_id: &str,
    since: Option<Timestamp>,
) -> Result<LandedWork, GitError> {
    let commits = standing(git, reference, loop_id, since)?;
    let ids: String = commits.iter().map(|one| format!("{}\n", one.commit)).collect();
    let words = ["diff-tree", "--stdin", "--no-commit-id", "--root", "-r", "-z", "--numstat", "--no-renames"];
    let words = words.into_iter().chain(["--no-ext-diff", "--no-textconv"]);
    let counted = if ids.is_empty() { Vec::new() } else { git.read_with_input(words, ids.as_bytes())? };
    let mut work = LandedWork { commits: commits.len(), ..LandedWork::default() };
    let mut files = HashSet::new();
    for record in records(&counted) {
        let mut fields = record.splitn(3, |byte| *byte == b'\t');
        // Of a file that is no text, git counts no lines.
        let mut lines = || fields.next().and_then(|field| text(field).parse::<u64>().ok()).unwrap_or(0);
        work.insertions += lines();
        work.deletions += lines();
        files.extend(fields.next());
    }
    work.files = files.len();
    Ok(work)
}

/// The commits of a loop on a branch that are not reverted, the newest first.
pub(super) fn standing(
    git: &Git,
    reference: &str,
    loop_id: &str,
    since: Option<Timestamp>,
) -> Result<Vec<LoopCommit>, GitError> {
    if loop_id.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = loop_commits(git, reference, loop_id, since)?;
    all.retain(|one| !one.is_reverted && one.of.as_ref().is_some_and(|of| of.loop_id == loop_id));
    Ok(all)
}

pub(super) fn is_reverted(git: &Git, reference: &str, commit: &str) -> Result<bool, GitError> {
    let log = git.read(["log", "-z", LOG, "-F", "--grep", REVERTS, &format!("{commit}..{reference}")])?;
    let reverts: Vec<LoopCommit> = read_log(&log);
    let standing =
        |loop_commits: &&LoopCommit| !reverts.iter().any(|other| other.reverts(&loop_commits.commit));
    Ok(reverts.iter().filter(standing).any(|loop_commits| loop_commits.reverts(commit)))
}

/// Whose work a commit is, by its trailers: the loop, the atom and the attempt. `None` for a revert.
pub(super) fn work_of(git: &Git, commit: &str) -> Result<Option<(String, Work)>, GitError> {
    let log = git.read(["log", "-z", LOG, "-1", commit, "--"])?;
    Ok(read_log(&log).into_iter().find_map(|one| one.of).map(|Trailers { loop_id, atom, attempt }| {
        (loop_id, Work { atom: AtomId::new(&atom), attempt: attempt.parse().unwrap_or_default() })
    }))
}

/// Prefixes a worker's own words, so that they are never read as a trailer.
const SUMMARY: &str = "Aot-Summary: ";

const REVERTS: &str = "This reverts commit ";

const LOG: &str = "--format=%H%n%(trailers:key=Aot-Loop,valueonly,separator=%x20)%n%(trailers:key=Aot-Atom,valueonly,\
                   separator=%x20)%n%(trailers:key=Aot-Attempt,valueonly,separator=%x20)%n%B";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trailers {
    pub loop_id: String,
    pub atom: String,
    pub attempt: String,
}

impl From<(&str, &str, &String)> for Trailers {
    fn from((loop_id, atom, attempt): (&str, &str, &String)) -> Trailers {
        Trailers { loop_id: loop_id.to_owned(), atom: atom.to_owned(), attempt: attempt.clone() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct LoopCommit {
    pub commit: String,
    pub of: Option<Trailers>,
    pub body: String,
    is_reverted: bool,
}

impl LoopCommit {
    fn summary(&self) -> String {
        let summary = self.body.lines().find_map(|line| line.strip_prefix(SUMMARY));
        summary.or(self.body.lines().next()).unwrap_or_default().to_owned()
    }

    fn reverts(&self, commit: &str) -> bool {
        self.body.lines().any(|line| line.strip_prefix(REVERTS).is_some_and(|rest| rest.starts_with(commit)))
    }
}

/// All commits of a loop and all reverts, the newest first. With `since`, git need not read a long history to its end.
fn loop_commits(
    git: &Git,
    reference: &str,
    loop_id: &str,
    since: Option<Timestamp>,
) -> Result<Vec<LoopCommit>, GitError> {
    let of_loop = format!("Aot-Loop: {loop_id}");
    let since = since.map(|since| format!("--since={}", since.as_second()));
    let mut words = vec!["log", "-z", LOG, "-F", "--grep", &of_loop, "--grep", REVERTS];
    words.extend(since.as_deref());
    let log = git.read(words.into_iter().chain([reference, "--"]))?;
    let mut loop_commits = read_log(&log);
    let mut reverted: HashSet<String> = HashSet::new();
    for one in &mut loop_commits {
        // A revert that was itself reverted has no effect.
        one.is_reverted = reverted.contains(&one.commit);
        if !one.is_reverted {
            let named = one.body.lines().filter_map(|line| line.strip_prefix(REVERTS));
            let id = |rest: &str| rest.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
            reverted.extend(named.map(id));
        }
    }
    Ok(loop_commits)
}

fn read_log(log: &[u8]) -> Vec<LoopCommit> {
    let one = |record: &[u8]| {
        let text = String::from_utf8_lossy(record).into_owned();
        let mut lines = text.splitn(5, '\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        let (commit, loop_id, atom, attempt, body) = (next(), next(), next(), next(), next());
        // A revert by aot names the loop but no attempt, because it is not the work of one.
        let of = (!attempt.is_empty()).then_some(Trailers { loop_id, atom, attempt });
        LoopCommit { commit, of, body, is_reverted: false }
    };
    records(log).map(one).collect()
}

impl CommitMessage {
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
