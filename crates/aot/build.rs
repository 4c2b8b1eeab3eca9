//! Links the program at a fixed address, because hooks and guards start it thousands of times a night, and tells it the
//! commit that it is built from.

use std::env::var;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    tell_commit();
}

/// `AOT_COMMIT` and `AOT_COMMIT_DATE`, given by whoever builds from an archive, or asked of git. Without either, the
/// program knows its version only.
fn tell_commit() {
    println!("cargo::rerun-if-env-changed=AOT_COMMIT");
    println!("cargo::rerun-if-env-changed=AOT_COMMIT_DATE");
    let given = |name: &str| var(name).ok().filter(|value| !value.trim().is_empty());
    let (commit, date) = match given("AOT_COMMIT") {
        Some(commit) => (Some(commit), given("AOT_COMMIT_DATE")),
        None => asked_of_git(),
    };
    let version = var("CARGO_PKG_VERSION").unwrap_or_default();
    let short = commit.as_deref().map(|commit| commit.get(..9).unwrap_or(commit));
    let words: Vec<&str> = short.into_iter().chain(date.as_deref()).collect();
    let said = if words.is_empty() { version } else { format!("{version} ({})", words.join(" ")) };
    println!("cargo::rustc-env=AOT_VERSION={said}");
    println!("cargo::rustc-env=AOT_COMMIT={}", commit.unwrap_or_default());
    println!("cargo::rustc-env=AOT_COMMIT_DATE={}", date.unwrap_or_default());
}

fn asked_of_git() -> (Option<String>, Option<String>) {
    // An archive that was unpacked inside of another repository is not built from a commit of that one.
    if git(&["ls-files", "--error-unmatch", "build.rs"]).is_none() {
        return (None, None);
    }
    // The file that names the branch, and the one that the next commit changes. A file that does not exist would make every
    // build run this again.
    let path_of =
        |name: &str| git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    let commit = branch.map(|branch| path_of(&branch).or_else(|| path_of("packed-refs")));
    for path in [path_of("HEAD"), commit.flatten()].into_iter().flatten() {
        println!("cargo::rerun-if-changed={path}");
    }
    (git(&["rev-parse", "HEAD"]), git(&["log", "-1", "--no-show-signature", "--format=%cs"]))
}

/// One line that git says, if it is here and knows the answer.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}
