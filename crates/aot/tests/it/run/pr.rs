//! `aot pr`: a branch in a repository of the host, and what the host's program was told.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::repo::{Plan, Repo, Said, atom, check};
use crate::scene::wait_until;
use crate::terminal::{Terminal, plain};

const BRANCH: &str = "aot/let-the-numbers-be-there";

/// Records what it is told, and the text; says whether somebody is logged in.
const STAND_IN: &str = r#"#!/bin/sh
name=$(basename "$0")
case "$1 $2" in
"auth status") test -e "HOME/logged-in-$name"; exit ;;
"pr list") test -e "HOME/exists" && echo https://host.example/a/b/pull/6; exit 0 ;;
esac
: > "HOME/$name.arguments"
for word in "$@"; do
    printf '%s\n' "$word" >> "HOME/$name.arguments"
    case "$word" in --body-file=*) cp "${word#--body-file=}" "HOME/$name.body" ;; esac
done
test -e "HOME/refuses" && { printf '\033[31ma request for it exists\033[0m\n' >&2; exit 1; }
echo "Creating draft"
echo "https://host.example/a/b/pull/7"
"#;

/// A loop that is done, in a clone whose remote is a folder. Of other programs only these are on the PATH.
fn handed(words: &[&str]) -> Repo {
    let atoms = [atom("A1", "", "echo 1 > a"), atom("A2", "A1", "echo 2 > b")].concat();
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &check("test -f b"), ..Plan::default() });
    begin(&repo);
    let ran = repo.aot(&[&["run"], words].concat());
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    repo
}

fn begin(repo: &Repo) {
    repo.git(&["init", "-q", "--bare", "-b", "main", "../remote.git"]);
    repo.git(&["remote", "add", "origin", "../remote.git"]);
    repo.git(&["push", "-q", "-u", "origin", "main"]);
    repo.write("../bin/here", "");
    let path = std::env::var("PATH").expect("a path");
    for program in ["git", "sh", "cp", "basename", "sleep", "test"] {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.exists());
        symlink(found.expect("it is installed"), repo.path("../bin").join(program)).expect("a link");
    }
}

fn program(repo: &Repo, path: &str, text: &str) {
    let home = repo.path("..").canonicalize().expect("it is there");
    repo.write(path, &text.replace("HOME", &home.display().to_string()));
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(repo.path(path), executable).expect("it can be started");
}

/// A program of a host, with somebody logged in.
fn logged_in(repo: &Repo, name: &str) {
    program(repo, &format!("../bin/{name}"), STAND_IN);
    repo.write(&format!("../logged-in-{name}"), "");
}

fn dressed(repo: &Repo) -> impl FnOnce(&mut Command) + use<> {
    let path = repo.path("../bin").canonicalize().expect("it is there");
    move |command| {
        command.env("PATH", path);
    }
}

fn pr(repo: &Repo, words: &[&str]) -> Said {
    repo.start_dressed(&[&["pr"], words].concat(), dressed(repo)).end()
}

fn tip(repo: &Repo, name: &str) -> String {
    repo.git(&["rev-parse", name])
}

/// The branches of the remote.
fn pushed(repo: &Repo) -> String {
    repo.git(&["--git-dir", "../remote.git", "for-each-ref", "--format=%(refname:short)", "refs/heads"])
        .replace('\n', " ")
}

fn at_remote(repo: &Repo, branch: &str) -> String {
    repo.git(&["--git-dir", "../remote.git", "rev-parse", branch])
}

fn refused(repo: &Repo, words: &[&str], exit: i32, told: &str) {
    let everything = |repo: &Repo| {
        (pushed(repo), repo.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]))
    };
    let before = everything(repo);
    let said = pr(repo, words);
    assert_eq!(said.exit, exit, "{told}: {}{}", said.out, said.err);
    assert!(said.err.contains(told), "{told}: {}", said.err);
    assert_eq!(everything(repo), before, "{told}");
}

#[test]
fn a_request_that_is_open_already_is_named_and_not_asked_for_again() {
    let repo = handed(&[]);
    logged_in(&repo, "gh");
    repo.write("../exists", "");
    let said = pr(&repo, &["--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told = "has a pull request already, which has the new commits now: https://host.example/a/b/pull/6\n";
    assert!(said.out.contains(told), "{}", said.out);
    assert!(!repo.path("../gh.arguments").exists(), "nothing was asked for");
    assert_eq!(pushed(&repo), format!("{BRANCH} main"));
}

#[test]
fn from_done_to_a_draft_in_one_command() {
    let repo = handed(&[]);
    logged_in(&repo, "gh");
    let (main, old) = (tip(&repo, "main"), at_remote(&repo, "main"));
    let said = pr(&repo, &["--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(
        said.out.contains("opened a draft pull request: https://host.example/a/b/pull/7\n"),
        "{}",
        said.out
    );
    assert!(
        said.out.contains(
            "pushes aot/let-the-numbers-be-there (2 commits)\n       a new branch that ends with the work on main; main is not moved\n"
        ),
        "{}",
        said.out
    );
    // The work is there, and nothing else has moved.
    assert_eq!(pushed(&repo), format!("{BRANCH} main"));
    assert_eq!((at_remote(&repo, BRANCH), at_remote(&repo, "main")), (main.clone(), old));
    assert_eq!((tip(&repo, "main"), tip(&repo, BRANCH)), (main.clone(), main));
    assert_eq!(repo.git(&["symbolic-ref", "--short", "HEAD"]), "main");
    let told = repo.read("../gh.arguments");
    let words: Vec<&str> = told.lines().collect();
    assert_eq!(words[..4], ["pr", "create", "--draft", "--title=Let the numbers be there"], "{told}");
    assert_eq!(words[5..], [&format!("--head={BRANCH}"), "--base=main"], "{told}");
    let body = repo.read("../gh.body");
    for part in [
        "## Let the numbers be there",
        "| ✅ | It holds | `test -f b` | exit 0",
        "```mermaid\n",
        "Do A2",
        "+2\n",
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    // How the commits are taken off the branch that has them.
    let hint = said.out.lines().find(|line| line.contains("git reset --keep")).expect("it says how");
    let command: Vec<&str> = hint.split(": ").nth(1).expect("a command").split(' ').skip(1).collect();
    repo.git(&command);
    assert!(!repo.path("a").exists());
    assert_eq!(repo.git(&["log", "--format=%s", "main"]), "Begin");
    // Once more: the branch that is there is taken.
    let said = pr(&repo, &["--yes", "--force", "--json"]);
    assert_eq!(said.exit, 1, "the commits are on no branch of the loop: {}{}", said.out, said.err);
}

#[test]
fn a_branch_of_the_loop_is_pushed_as_it_is() {
    let repo = handed(&["--branch", "night"]);
    logged_in(&repo, "glab");
    let said = pr(&repo, &["--yes", "--json", "--base", "main"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let object = said.halted();
    assert_eq!((&object["branch"], &object["made"]), (&json!("night"), &json!(false)), "{object}");
    assert_eq!(
        (&object["opened_by"], &object["address"]),
        (&json!("glab"), &json!("https://host.example/a/b/pull/7"))
    );
    assert_eq!((pushed(&repo).as_str(), at_remote(&repo, "night")), ("main night", tip(&repo, "night")));
    let told = repo.read("../glab.arguments");
    for word in [
        "mr\ncreate\n--draft\n--yes\n",
        "\n--source-branch=night\n",
        "\n--target-branch=main\n",
        "### Evidence",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    // What somebody pushed there meanwhile stays.
    repo.git(&["clone", "-q", "../remote.git", "../other"]);
    repo.git(&["-C", "../other", "switch", "-q", "night"]);
    repo.git(&["-C", "../other", "commit", "-q", "--allow-empty", "-m", "Theirs"]);
    repo.git(&["-C", "../other", "push", "-q"]);
    repo.git(&["switch", "-q", "night"]);
    repo.git(&["commit", "-q", "--allow-empty", "-m", "Mine"]);
    let theirs = at_remote(&repo, "night");
    refused(&repo, &["--yes"], 1, "[rejected]");
    assert_eq!(at_remote(&repo, "night"), theirs);
}

#[test]
fn without_a_program_there_is_a_branch_and_a_file() {
    for is_installed in [false, true] {
        let repo = handed(&[]);
        if is_installed {
            // Nobody is logged in.
            program(&repo, "../bin/gh", STAND_IN);
            program(&repo, "../bin/glab", STAND_IN);
        }
        let said = pr(&repo, &["--yes"]);
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        for told in [
            "opens  nothing: neither gh nor glab is here and logged in",
            "pushed aot/let-the-numbers-be-there to origin\n",
            "gh pr create --draft --head aot/let-the-numbers-be-there --body-file .claude/aot/pull-request.md\n",
        ] {
            assert!(said.out.contains(told), "{told}: {}", said.out);
        }
        assert!(repo.read(".claude/aot/pull-request.md").contains("### Evidence"));
        assert!(!repo.path("../gh.arguments").exists());
        assert_eq!(at_remote(&repo, BRANCH), tip(&repo, "main"));
    }
    // One that refuses is told plainly, and how to go on.
    let repo = handed(&[]);
    logged_in(&repo, "gh");
    repo.write("../refuses", "");
    let said = pr(&repo, &["--yes"]);
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("is pushed to origin, but there is no pull request")
            && said.err.contains("\na request for it exists\n"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("open it by hand: gh pr create") && !said.err.contains('\u{1b}'),
        "{:?}",
        said.err
    );
}

#[test]
fn what_may_not_be_pushed_is_refused() {
    let repo = handed(&[]);
    refused(&repo, &[], 2, "needs confirmation");
    refused(&repo, &["--yes", "--remote", "nowhere"], 1, "there is no remote `nowhere`");
    refused(&repo, &["--yes", "--remote=--upload-pack=x"], 1, "there is no remote");
    refused(&repo, &["--yes", "--base", BRANCH], 1, "aot does not push to it");
    repo.git(&["remote", "add", "other", "../nowhere.git"]);
    repo.git(&["config", "--unset", "branch.main.remote"]);
    refused(&repo, &["--yes"], 1, "there are several remotes: origin, other");
    refused(&repo, &["--yes", "--remote", "other"], 1, "`git ls-remote other` did not do it");
    let live = repo.start_dressed(&["pr", "--yes"], |command| {
        command.env("AOT_JOB", "1");
    });
    assert_eq!(live.end().exit, 1, "what aot started pushes nothing");
    // The branch that the loop landed on is the one that everybody begins at.
    let repo = Repo::with(&Plan::default());
    begin(&repo);
    repo.git(&["switch", "-q", "-c", "mine"]);
    let said = repo.aot(&["run", "--branch", "main"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    refused(&repo, &["--yes"], 1, "main is the default branch of origin");
    // Not done.
    let repo = Repo::with(&Plan { base_case: &check("false"), ..Plan::default() });
    begin(&repo);
    assert_ne!(repo.run().exit, 0);
    refused(&repo, &["--yes"], 3, "the loop is not done");
    let said = pr(&repo, &["--yes", "--force"]);
    assert!(
        said.exit == 0 && said.out.contains("the text says that nothing is proven"),
        "{}{}",
        said.out,
        said.err
    );
    assert!(repo.read(".claude/aot/pull-request.md").contains("This work is not proven"));
    // There is no repository, or no commit.
    let repo = Repo::bare(&Plan::default());
    assert_eq!(repo.run().exit, 0);
    let said = repo.aot(&["pr", "--yes"]);
    assert!(
        said.exit == 1 && said.err.contains("there is no work of this loop to push"),
        "{}{}",
        said.out,
        said.err
    );
}

#[test]
fn a_push_that_hangs_is_ended() {
    let repo = handed(&[]);
    program(&repo, ".git/hooks/pre-push", "#!/bin/sh\nexec sleep 600\n");
    let said = pr(&repo, &["--yes", "--timeout", "3s"]);
    assert_eq!(said.exit, 1, "{}{}", said.out, said.err);
    assert!(
        said.err.contains("`git push origin` has no answer: it took longer than 3 s")
            && said.err.contains("--timeout"),
        "{}",
        said.err
    );
    assert_eq!(pushed(&repo), "main");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
    // The user's own hooks have their say.
    program(&repo, ".git/hooks/pre-push", "#!/bin/sh\necho not today >&2\nexit 1\n");
    let said = pr(&repo, &["--yes"]);
    assert!(said.exit == 1 && said.err.contains("not today"), "{}{}", said.out, said.err);
    assert!(Path::new(&repo.path(".claude/aot/pull-request.md")).exists());
}

#[test]
fn it_is_asked_first_at_a_terminal() {
    let repo = handed(&[]);
    let mut terminal = Terminal::open(&repo, &["pr"]);
    terminal.see("pushes aot/let-the-numbers-be-there (2 commits");
    terminal.answer("Push it? [Y/n] ", "n");
    let (code, seen) = terminal.end();
    assert_eq!((code, pushed(&repo).as_str()), (Some(1), "main"), "{}", plain(&seen));
    assert!(!repo.path(".git/refs/heads/aot").exists());
}

#[test]
fn an_interrupted_push_leaves_nobody_behind() {
    let repo = handed(&[]);
    program(&repo, ".git/hooks/pre-push", "#!/bin/sh\n: > HOME/begun\nexec sleep 600\n");
    let live = repo.start_dressed(&["pr", "--yes"], dressed(&repo));
    wait_until("the hook begins", || repo.path("../begun").exists());
    live.signal("-INT");
    assert_ne!(live.end().exit, 0);
    wait_until("all of them end", || repo.processes().is_empty());
    assert_eq!(pushed(&repo), "main");
}
