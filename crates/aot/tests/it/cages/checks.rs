//! Checks, `setup` and judges' commands run what workers wrote, so they are confined like workers: by whatever verb.

use aot_runner::process::cage::Kind;
use serde_json::json;

use super::kit::kinds;
use crate::repo::{Plan, Repo, STATE, Said, check};

/// Succeeds only if it is confined: nothing outside can be written, a secret is not seen, and there is a folder for
/// temporary files.
const CONFINED: &str = "! touch $HOME/escaped 2>/dev/null && ! touch .git/escaped 2>/dev/null && \
                        ! touch .claude/escaped 2>/dev/null && test -z \"$MY_TOKEN\" && test -n \"$PATH\" && \
                        touch \"$TMPDIR/scratch\" && touch ignored/made";

/// Succeeds only if nothing confines it.
const OPEN: &str =
    "touch $HOME/escaped && touch .git/escaped && test \"$MY_TOKEN\" = secret && touch ignored/made";

/// A repository whose checks run this command.
fn repo(kind: Kind, command: &str, more: &str) -> Repo {
    let atoms = format!(
        "  - {{id: A1, description: \"One\", status: pending, depends_on: [], run: \"echo one > one\", check: \
         {{type: command, value: {command:?}}}}}"
    );
    let base_case =
        format!("{}      - {{item: \"One is there\", check: {{type: file, value: one}}}}", check(command));
    let setup = format!("mkdir -p ignored && {command} && touch ignored/set-up");
    let objective = format!("  isolation: {{setup: {setup:?}}}");
    let plan = Plan { atoms: &atoms, base_case: &base_case, objective: &objective, ..Plan::default() };
    let repo = Repo::with(&plan);
    repo.write("ignored/there", "");
    repo.write("../config/aot/aot.toml", &format!("[cage]\nkind = \"{kind}\"\n{more}"));
    repo
}

fn aot(repo: &Repo, words: &[&str]) -> Said {
    let mut command = repo.command(words);
    let output = command.env("MY_TOKEN", "secret").output().expect("it starts");
    Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn untouched(repo: &Repo, what: &str) {
    for path in ["../escaped", ".git/escaped", ".claude/escaped"] {
        assert!(!repo.path(path).exists(), "{what} wrote {path}");
    }
}

/// How the check named `It holds` ended, in an answer of `verify`.
fn outcome(said: &Said) -> String {
    let object: serde_json::Value = serde_json::from_str(&said.out).expect("an object");
    object["checks"][0]["outcome"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_run_confines_its_base_case_the_checks_of_atoms_and_setup() {
    for kind in kinds() {
        let repo = repo(*kind, CONFINED, "");
        let said = aot(&repo, &["run", "--json"]);
        assert_eq!(said.exit, 0, "{kind}: {}{}", said.out, said.err);
        untouched(&repo, "a run");
        assert!(said.out.contains(&format!("\"checks_cage\":\"{kind}\"")), "{}", said.out);
        assert_eq!(repo.leftovers(), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn a_look_a_lint_and_an_alignment_confine_the_base_case() {
    for kind in kinds() {
        let repo = repo(*kind, CONFINED, "");
        assert_eq!(outcome(&aot(&repo, &["verify", "--json"])), "pass", "{kind}");
        let linted = aot(&repo, &["lint", "--json"]);
        assert!(linted.out.contains("already_true"), "{kind}: {}{}", linted.out, linted.err);
        let aligned = aot(
            &repo,
            &[
                "align",
                "One",
                "--yes",
                "--force",
                "--json",
                "--check",
                CONFINED,
                "--intent",
                "i",
                "--deliverable",
                "d",
                "--done",
                "d",
                "--atom",
                "One",
            ],
        );
        let object: serde_json::Value = serde_json::from_str(&aligned.out).expect("an object");
        assert_eq!(object["checks"][0]["outcome"], "pass", "{kind}: {object}");
        untouched(&repo, "a look");
    }
}

#[test]
fn a_judges_command_is_confined() {
    for kind in kinds() {
        let repo = repo(*kind, "true", "");
        let quality = "      - {item: Judged, check: {type: quality, criteria: Short, pass_threshold: 3}}";
        repo.plan(&Plan { base_case: quality, ..Plan::default() });
        let scores = json!({"scores": [
            {"criterion": "overall", "score": 4, "reason": "so it is", "evidence": ["README:1"]},
        ]});
        repo.write("answer.json", &scores.to_string());
        let judge = format!("{CONFINED} && cat answer.json");
        repo.write(
            "../config/aot/aot.toml",
            &format!("[cage]\nkind = \"{kind}\"\n[judge]\ncommand = {judge:?}\n"),
        );
        assert_eq!(outcome(&aot(&repo, &["verify", "--json"])), "pass", "{kind}");
        untouched(&repo, "a judge");
    }
}

/// A step of a host's session evaluates and examines on the same ground.
#[test]
fn a_session_confines_its_checks() {
    for kind in kinds() {
        let repo = repo(*kind, CONFINED, "");
        // The host's agents do the work.
        repo.write(STATE, &repo.read(STATE).replace("run: \"echo one > one\", ", ""));
        let step = |words: &[&str]| {
            let mut command = repo.command(words);
            let output =
                command.env("MY_TOKEN", "secret").env("AOT_SESSION", "s1").output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(output.status.code(), Some(0), "{kind} {words:?}: {said}");
            said
        };
        step(&["run", "--session"]);
        let started: serde_json::Value =
            serde_json::from_str(&step(&["atom", "start", "A1", "--json"])).expect("an object");
        let tree = std::path::PathBuf::from(started["tree"].as_str().expect("a tree"));
        std::fs::write(tree.join("one"), "one").expect("its tree can be written");
        step(&["atom", "resolve", "A1", "--summary", "One"]);
        untouched(&repo, "a session");
        assert_eq!(repo.atoms(), "A1:resolved");
    }
}

#[test]
fn further_variables_are_let_through_by_name() {
    let seen = "test \"$MY_TOKEN\" = secret && ! touch $HOME/escaped 2>/dev/null";
    for kind in kinds() {
        let repo = repo(*kind, seen, "[checks]\nenvironment = [\"MY_*\"]\n");
        assert_eq!(outcome(&aot(&repo, &["verify", "--json"])), "pass", "{kind}");
    }
}

/// A person may choose it, and is told at the start of a run and by the doctor.
#[test]
fn no_cage_for_checks_is_a_choice_that_is_shown() {
    let repo = repo(Kind::Landlock, OPEN, "[checks]\ncage = \"none\"\n");
    let said = aot(&repo, &["run"]);
    assert_eq!(outcome(&aot(&repo, &["verify", "--json"])), "pass");
    assert!(said.out.contains("checks   no cage, and every variable of yours"), "{}{}", said.out, said.err);
    let doctor = aot(&repo, &["doctor", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&doctor.out).expect("an object");
    let findings = object["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|found| found["what"] == "checks" && found["status"] == "note"), "{object}");
}
