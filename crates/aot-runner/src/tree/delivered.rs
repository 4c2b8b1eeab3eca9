//! What a loop has landed, for whoever takes the work over: its commits that stand, with bounded differences, and a branch that
//! ends with them. Moves no branch that is there for something else, and no checkout.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use serde::Serialize;

use super::error::GroundError;
use super::git::{Git, GitError, records, text};
use super::history::{Difference, LoopCommit, commit_of, read_raw, standing};
use super::{Project, open};
use crate::process::Guard;

/// So many commits are described, the newest.
const MOST_COMMITS: usize = 300;

/// So many of them, the oldest of those described, have their differences.
const MOST_DIFFERENCES: usize = 100;

/// So many files of a commit are named.
const MOST_FILES: usize = 40;

/// A larger file is only named, in bytes.
const LARGEST_FILE: u64 = 128 << 10;

/// Bytes of the differences of one commit, and of all.
const DIFFERENCE_KEPT: usize = 24 << 10;
const DIFFERENCES_KEPT: usize = 600 << 10;

/// The work of a loop on a branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delivery {
    pub branch: String,
    /// The commit before the first of them; nothing where the first has no parent.
    pub base: Option<String>,
    /// The last of them.
    pub tip: String,
    /// Nothing but them is on the branch behind `base`.
    pub is_alone: bool,
    /// How many there are.
    pub count: usize,
    /// Those that are described, the oldest first.
    pub commits: Vec<DeliveredCommit>,
    pub files: usize,
    pub insertions: u64,
    pub deletions: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeliveredCommit {
    pub commit: String,
    pub atom: String,
    pub subject: String,
    /// The first of its files.
    pub files: Vec<DeliveredFile>,
    pub further_files: usize,
    pub insertions: u64,
    pub deletions: u64,
    /// What it changed, as `git show` has it; empty where there is no room for it.
    pub difference: String,
    /// Why not all of it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeliveredFile {
    pub path: String,
    /// Absent where git counts no lines.
    pub insertions: Option<u64>,
    pub deletions: Option<u64>,
}

/// What the loop has landed: on the branch that it names, or else on the one that is checked out. Nothing where there are no
/// commits of it.
pub fn delivered(
    project: &Project,
    branch: Option<&str>,
    loop_id: &str,
    guard: &Guard,
) -> Result<Option<Delivery>, GroundError> {
    let Some(git) = open::to_read(project, guard)? else { return Ok(None) };
    let here = git.find(["symbolic-ref", "-q", "HEAD"])?.map(|found| text(&found));
    for reference in branch.map(|name| format!("refs/heads/{name}")).into_iter().chain(here) {
        if commit_of(&git, &reference)?.is_none() {
            continue;
        }
        let mut commits = standing(&git, &reference, loop_id, None)?;
        if !commits.is_empty() {
            commits.reverse();
            return Ok(Some(described(&git, &reference, &commits)?));
        }
    }
    Ok(None)
}

/// Makes a branch that ends with this commit, under this name or the next that is free, and says which. One that lies behind
/// the commit goes on to it, unless it is checked out.
pub fn branch_at(
    project: &Project,
    name: &str,
    commit: &str,
    guard: &Guard,
) -> Result<Option<String>, GroundError> {
    let Some(git) = open::to_read(project, guard)? else { return Ok(None) };
    let listed = text(&git.read(["worktree", "list", "--porcelain"])?);
    for number in 1_u32..=99 {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let reference = format!("refs/heads/{name}");
        let Some(old) = commit_of(&git, &reference)? else {
            git.write(["update-ref", "-m", "aot: pr", &reference, commit, ""])?;
            return Ok(Some(name));
        };
        if old == commit {
            return Ok(Some(name));
        }
        let is_behind = git.find(["merge-base", "--is-ancestor", &old, commit])?.is_some();
        if is_behind && !listed.lines().any(|line| line == format!("branch {reference}")) {
            git.write(["update-ref", "-m", "aot: pr", &reference, commit, &old])?;
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn described(git: &Git, reference: &str, commits: &[LoopCommit]) -> Result<Delivery, GroundError> {
    let id = |one: Option<&LoopCommit>| one.map(|one| one.commit.clone()).unwrap_or_default();
    let base = commit_of(git, &format!("{}^", id(commits.first())))?;
    let range = base.as_ref().map_or(reference.to_owned(), |base| format!("{base}..{reference}"));
    let above = text(&git.read(["rev-list", "--count", &range, "--"])?);
    let all: Vec<&str> = commits.iter().map(|one| one.commit.as_str()).collect();
    let counted = counts(git, &all)?;
    let files: HashSet<&[u8]> = counted.values().flatten().map(|counted| counted.path.as_slice()).collect();
    let sum = |of: fn(&CountedFile) -> Option<u64>| counted.values().flatten().filter_map(of).sum::<u64>();
    let described = &commits[commits.len().saturating_sub(MOST_COMMITS)..];
    let mut delivery = Delivery {
        branch: reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned(),
        tip: id(commits.last()),
        is_alone: above.trim().parse() == Ok(commits.len()),
        count: commits.len(),
        commits: described.iter().map(|one| told(one, counted.get(&one.commit))).collect(),
        files: files.len(),
        insertions: sum(|counted| counted.insertions),
        deletions: sum(|counted| counted.deletions),
        base,
    };
    differ(git, &mut delivery.commits)?;
    Ok(delivery)
}

fn told(one: &LoopCommit, counted: Option<&Vec<CountedFile>>) -> DeliveredCommit {
    let counted = counted.map(Vec::as_slice).unwrap_or_default();
    let shown = |file: &CountedFile| DeliveredFile {
        path: String::from_utf8_lossy(&file.path).into_owned(),
        insertions: file.insertions,
        deletions: file.deletions,
    };
    DeliveredCommit {
        commit: one.commit.clone(),
        atom: one.of.as_ref().map(|of| of.atom.clone()).unwrap_or_default(),
        subject: one.body.lines().next().unwrap_or_default().to_owned(),
        files: counted.iter().take(MOST_FILES).map(shown).collect(),
        further_files: counted.len().saturating_sub(MOST_FILES),
        insertions: counted.iter().filter_map(|file| file.insertions).sum(),
        deletions: counted.iter().filter_map(|file| file.deletions).sum(),
        ..DeliveredCommit::default()
    }
}

struct CountedFile {
    path: Vec<u8>,
    insertions: Option<u64>,
    deletions: Option<u64>,
}

/// What git is told of every difference: none of the user's programs, and no setting of the tree, has a say in it.
const PLAIN: [&str; 6] = ["--root", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"];

/// The files of each of these commits with their lines.
fn counts(git: &Git, commits: &[&str]) -> Result<HashMap<String, Vec<CountedFile>>, GitError> {
    let mut found: HashMap<String, Vec<CountedFile>> = HashMap::new();
    let listed = of_each(git, commits, "--numstat")?;
    let mut current = None;
    for record in records(&listed) {
        let mut fields = record.splitn(3, |byte| *byte == b'\t');
        match (fields.next(), fields.next(), fields.next()) {
            (Some(more), Some(less), Some(path)) => {
                let lines = |field| text(field).parse::<u64>().ok();
                let (insertions, deletions) = (lines(more), lines(less));
                let of = current.as_ref().and_then(|commit| found.get_mut(commit));
                of.into_iter()
                    .for_each(|of| of.push(CountedFile { path: path.to_vec(), insertions, deletions }));
            }
            (Some(commit), ..) => {
                let commit = text(commit);
                found.entry(commit.clone()).or_default();
                current = Some(commit);
            }
            (None, ..) => {}
        }
    }
    Ok(found)
}

fn of_each(git: &Git, commits: &[&str], form: &str) -> Result<Vec<u8>, GitError> {
    let ids: String = commits.iter().map(|one| format!("{one}\n")).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let words = ["diff-tree", "--stdin", "-z", "--full-index", form].into_iter().chain(PLAIN);
    git.read_with_input(words, ids.as_bytes())
}

/// Adds what each commit changed, as far as there is room.
fn differ(git: &Git, commits: &mut [DeliveredCommit]) -> Result<(), GitError> {
    let shown = commits.len().min(MOST_DIFFERENCES);
    let ids: Vec<&str> = commits[..shown].iter().map(|one| one.commit.as_str()).collect();
    let mut changed = changed(git, &ids)?;
    let sizes = sizes(git, changed.values().flatten())?;
    let mut room = DIFFERENCES_KEPT;
    for (place, one) in commits.iter_mut().enumerate() {
        if place >= shown || room == 0 {
            one.cut = Some("there is no room for more differences".into());
            continue;
        }
        let all = changed.remove(&one.commit).unwrap_or_default();
        // What git does not know is the commit of a submodule.
        let is_large = |path: &Difference| {
            let mut versions = [&path.old, &path.new].into_iter().flatten();
            versions.any(|version| sizes.get(&version.id).is_some_and(|size| *size > LARGEST_FILE))
        };
        let (large, small): (Vec<Difference>, Vec<Difference>) = all.into_iter().partition(is_large);
        let mut cut = Vec::new();
        if !large.is_empty() {
            let named = large.iter().take(MOST_FILES).map(|path| String::from_utf8_lossy(&path.path));
            cut.push(format!("too large to be shown: {}", named.collect::<Vec<_>>().join(", ")));
        }
        if small.len() > MOST_FILES {
            cut.push(format!("only the first {MOST_FILES} files are shown"));
        }
        let mut difference = patch(git, &one.commit, &small)?;
        if difference.contains(&0) {
            difference = without_binary(&difference);
            cut.push("content that is not text is left out".into());
        }
        let most = DIFFERENCE_KEPT.min(room);
        if difference.len() > most {
            cut.push(format!("the first {most} of {} bytes", difference.len()));
            let end = difference[..most].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            difference.truncate(end);
        }
        room -= difference.len();
        one.difference = String::from_utf8_lossy(&difference).into_owned();
        one.cut = (!cut.is_empty()).then(|| cut.join("; "));
    }
    Ok(())
}

/// What a commit changed in the first of these files. Attributes are the work's own: they do not decide what a reviewer sees.
fn patch(git: &Git, commit: &str, paths: &[Difference]) -> Result<Vec<u8>, GitError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let words =
        ["diff-tree", "--no-commit-id", "-p", "--text"].into_iter().chain(PLAIN).chain([commit, "--"]);
    let literal = |one: &Difference| OsString::from_vec([b":(top,literal)", one.path.as_slice()].concat());
    git.read(words.map(OsString::from).chain(paths.iter().take(MOST_FILES).map(literal)))
}

/// The files of each of these commits with both versions.
fn changed(git: &Git, commits: &[&str]) -> Result<HashMap<String, Vec<Difference>>, GitError> {
    let listed = of_each(git, commits, "--raw")?;
    let mut found: HashMap<String, Vec<Difference>> = HashMap::new();
    let mut records = records(&listed);
    let mut current = String::new();
    while let Some(record) = records.next() {
        match record.first() {
            Some(b':') => {
                let path = records.next().unwrap_or_default();
                found.entry(current.clone()).or_default().extend(read_raw(&[record, path].join(&0)));
            }
            Some(_) | None => current = text(record),
        }
    }
    Ok(found)
}

/// How long each version is, in bytes.
fn sizes<'d>(
    git: &Git,
    changed: impl Iterator<Item = &'d Difference>,
) -> Result<HashMap<String, u64>, GitError> {
    let versions = changed.flat_map(|one| [&one.old, &one.new]).flatten();
    let ids: String = versions.map(|version| format!("{}\n", version.id)).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let asked =
        git.read_with_input(["cat-file", "--batch-check=%(objectname) %(objectsize)"], ids.as_bytes())?;
    let size = |line: &str| {
        let (id, size) = line.split_once(' ')?;
        Some((id.to_owned(), size.parse::<u64>().ok()?))
    };
    Ok(text(&asked).lines().filter_map(size).collect())
}

/// A difference without the parts that have bytes of no text in them; the lines that name the file stay.
fn without_binary(difference: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::new();
    let mut part: Vec<&[u8]> = Vec::new();
    let mut close = |part: &mut Vec<&[u8]>| {
        let is_text = !part.iter().any(|line| line.contains(&0));
        for line in part.drain(..) {
            let is_head = !line.starts_with(b"@@");
            if !is_text && !is_head {
                kept.extend_from_slice(b"(not text)\n");
                break;
            }
            kept.extend_from_slice(line);
        }
    };
    for line in difference.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"diff --git ") {
            close(&mut part);
        }
        part.push(line);
    }
    close(&mut part);
    kept
}

#[cfg(test)]
mod tests {
    use super::without_binary;

    #[test]
    fn what_is_no_text_is_only_named() {
        let text = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n";
        let binary =
            "diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+\0\u{1}\n";
        let expected = format!(
            "{text}diff --git a/b b/b\nnew file mode 100644\n--- /dev/null\n+++ b/b\n(not text)\n{text}"
        );
        let all = format!("{text}{binary}{text}");
        assert_eq!(String::from_utf8_lossy(&without_binary(all.as_bytes())), expected);
    }
}
