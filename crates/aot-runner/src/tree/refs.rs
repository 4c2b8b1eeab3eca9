//! What the files of a repository say of its references, read as git reads them. What is not plain there, or kept in another
//! way, is left to git: whoever gets no answer asks it. Changes nothing.

use std::fs;
use std::io;
use std::path::Path;

use super::git::{Git, GitError};
use super::history::{commit_of, is_id};
use crate::plain_file;

/// A longer file is no reference.
const MOST_REFERENCE: u64 = 4 << 10;

/// Longer packed references are left to git.
const MOST_PACKED: u64 = 16 << 20;

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// `refs/heads/…`, whether it has a commit or not.
    Branch(String),
    Commit(String),
}

/// What the `HEAD` of a work tree says, if it is plain.
pub(super) fn head(git_dir: &Path) -> Option<Head> {
    let text = read(&git_dir.join("HEAD"))?;
    match text.strip_prefix("ref: ") {
        // A repository that keeps its references in another way has this name there for those who look for files.
        Some("refs/heads/.invalid") => None,
        Some(name) => {
            Some(name.trim()).filter(|name| is_branch(name)).map(|name| Head::Branch(name.to_owned()))
        }
        None => Some(text).filter(|text| is_id(text)).map(Head::Commit),
    }
}

/// The commit of `HEAD` or of a branch, if there is one.
pub(super) fn tip(
    git: &Git,
    (git_dir, common_dir): (&Path, &Path),
    name: &str,
) -> Result<Option<String>, GitError> {
    let written = match name {
        "HEAD" => match head(git_dir) {
            Some(Head::Branch(branch)) => commit(common_dir, &branch),
            Some(Head::Commit(commit)) => Some(commit),
            None => None,
        },
        branch => commit(common_dir, branch),
    };
    match written {
        Some(commit) => Ok(Some(commit)),
        None => commit_of(git, name),
    }
}

/// Whether surely no reference lies below this name. It may be so without being sure.
pub(super) fn are_none_below(common_dir: &Path, prefix: &str) -> bool {
    let are_files = matches!(fs::symlink_metadata(common_dir.join("reftable")), Err(error) if error.kind() == io::ErrorKind::NotFound);
    are_files && has_no_file(&common_dir.join(prefix)) && !has_packed(common_dir, prefix)
}

/// Whether surely no work tree has this branch checked out, besides the one of this git folder.
pub(super) fn is_in_no_tree(common_dir: &Path, branch: &str, own: Option<&Path>) -> bool {
    let is_other = |git_dir: &Path| match head(git_dir) {
        Some(Head::Branch(name)) => name != branch,
        Some(Head::Commit(_)) => true,
        None => false,
    };
    let is_free = |git_dir: &Path| own == Some(git_dir) || is_other(git_dir);
    let mut trees = match fs::read_dir(common_dir.join("worktrees")) {
        Ok(trees) => trees.map(|entry| entry.map(|entry| entry.path())).collect::<Vec<_>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(_) => return false,
    };
    trees.push(Ok(common_dir.to_path_buf()));
    trees.iter().all(|git_dir| git_dir.as_ref().is_ok_and(|git_dir| is_free(git_dir)))
}

/// The commit of a branch: the file of that name counts before what is packed.
fn commit(common_dir: &Path, branch: &str) -> Option<String> {
    if !is_branch(branch) {
        return None;
    }
    let file = common_dir.join(branch);
    if fs::symlink_metadata(&file).is_ok() {
        return read(&file).filter(|text| is_id(text));
    }
    let packed = plain_file::read(&common_dir.join("packed-refs"), MOST_PACKED).ok()?;
    let line = packed
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_suffix(branch.as_bytes()).and_then(|rest| rest.strip_suffix(b" ")))?;
    String::from_utf8(line.to_vec()).ok().filter(|id| is_id(id))
}

/// A name that leads out of the folder of branches is none.
fn is_branch(name: &str) -> bool {
    name.strip_prefix("refs/heads/").is_some_and(|rest| {
        !rest.is_empty() && rest.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
    })
}

/// Whether there is no such folder, or only empty ones in it.
fn has_no_file(folder: &Path) -> bool {
    match fs::read_dir(folder) {
        Ok(entries) => entries.into_iter().all(|entry| {
            entry.is_ok_and(|entry| {
                entry.file_type().is_ok_and(|kind| kind.is_dir()) && has_no_file(&entry.path())
            })
        }),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether what is packed names the reference, or cannot be read.
fn has_packed(common_dir: &Path, prefix: &str) -> bool {
    match plain_file::read(&common_dir.join("packed-refs"), MOST_PACKED) {
        Ok(packed) => packed
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.splitn(2, |byte| *byte == b' ').nth(1))
            .any(|name| name.starts_with(prefix.as_bytes())),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn read(file: &Path) -> Option<String> {
    let text = plain_file::read(file, MOST_REFERENCE).ok()?;
    Some(std::str::from_utf8(&text).ok()?.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    struct RepositoryWithCommits(tempfile::TempDir);

    impl RepositoryWithCommits {
        fn new(format: &str) -> RepositoryWithCommits {
            let repository = RepositoryWithCommits(tempfile::tempdir().expect("a temporary folder"));
            repository.git(&["init", "-q", "-b", "main", &format!("--ref-format={format}")]);
            repository.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
            repository
        }

        fn git(&self, words: &[&str]) -> String {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a"]).arg("-C").arg(self.0.path()).args(words);
            let done = git.output().expect("git is here");
            assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
        }

        fn dir(&self) -> PathBuf {
            self.0.path().join(".git")
        }
    }

    #[test]
    fn what_is_plain_is_read_as_git_reads_it() {
        let repository = RepositoryWithCommits::new("files");
        let (dir, first) = (repository.dir(), repository.git(&["rev-parse", "HEAD"]));
        assert_eq!(head(&dir), Some(Head::Branch("refs/heads/main".into())));
        assert_eq!(commit(&dir, "refs/heads/main").as_ref(), Some(&first));
        // The same in one file with others, and a newer file beside it.
        repository.git(&["branch", "a/b"]);
        repository.git(&["pack-refs", "--all"]);
        assert!(!dir.join("refs/heads/main").exists());
        assert_eq!(commit(&dir, "refs/heads/a/b").as_ref(), Some(&first));
        repository.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
        let second = repository.git(&["rev-parse", "HEAD"]);
        assert_eq!(commit(&dir, "refs/heads/main"), Some(second.clone()));
        assert_eq!(commit(&dir, "refs/heads/a/b"), Some(first));
        repository.git(&["checkout", "-q", "--detach"]);
        assert_eq!(head(&dir), Some(Head::Commit(second)));
    }

    #[test]
    fn what_is_not_plain_is_for_git() {
        let repository = RepositoryWithCommits::new("files");
        let dir = repository.dir();
        repository.git(&["symbolic-ref", "refs/heads/other", "refs/heads/main"]);
        for name in ["refs/heads/other", "refs/heads/none", "refs/heads/../../HEAD", "refs/heads/", "HEAD"] {
            assert_eq!(commit(&dir, name), None, "{name}");
        }
        fs::write(dir.join("HEAD"), "ref: refs/remotes/x\n").expect("a file");
        assert_eq!(head(&dir), None);
        fs::remove_file(dir.join("HEAD")).expect("it is there");
        std::os::unix::fs::symlink("refs/heads/main", dir.join("HEAD")).expect("a link");
        assert_eq!(head(&dir), None);
    }

    #[test]
    fn other_ways_to_keep_references_are_for_git() {
        let repository = RepositoryWithCommits::new("reftable");
        let dir = repository.dir();
        assert_eq!((head(&dir), commit(&dir, "refs/heads/main")), (None, None));
        assert!(!are_none_below(&dir, "refs/aot/kept"));
        assert!(!is_in_no_tree(&dir, "refs/heads/main", None));
    }

    #[test]
    fn references_below_a_name_are_found_wherever_they_are() {
        let repository = RepositoryWithCommits::new("files");
        let dir = repository.dir();
        let are_none = || are_none_below(&dir, "refs/aot/kept");
        assert!(are_none());
        fs::create_dir_all(dir.join("refs/aot/kept/loop")).expect("folders");
        assert!(are_none(), "git leaves folders behind");
        repository.git(&["update-ref", "refs/aot/kept/loop/A1/1", "HEAD"]);
        assert!(!are_none());
        repository.git(&["pack-refs", "--all"]);
        assert!(!dir.join("refs/aot/kept/loop/A1/1").exists() && !are_none());
        repository.git(&["update-ref", "-d", "refs/aot/kept/loop/A1/1"]);
        assert!(are_none());
    }

    #[test]
    fn a_branch_that_another_tree_has_is_not_free() {
        let repository = RepositoryWithCommits::new("files");
        let dir = repository.dir();
        let is_free = |own: Option<&Path>| is_in_no_tree(&dir, "refs/heads/main", own);
        assert!(is_free(Some(&dir)) && !is_free(None));
        let tree = tempfile::tempdir().expect("a temporary folder");
        let place = tree.path().join("tree").display().to_string();
        repository.git(&["worktree", "add", "-q", "-b", "other", &place]);
        assert!(is_free(Some(&dir)));
        repository.git(&["-C", &place, "checkout", "-q", "--ignore-other-worktrees", "main"]);
        assert!(!is_free(Some(&dir)));
    }
}
