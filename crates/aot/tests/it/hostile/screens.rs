//! Whatever a worker, a file or git says, no screen and no stream shows it as a command to a terminal.

use std::fs;

use serde_json::Value;

use crate::repo::{Plan, Repo, STATE, check};

/// What a terminal would obey: clear, title, clipboard, link, hidden text, overwriting, turning, and a line of JSON.
const EVIL: &str = "evil\x1b[2J\x1b]0;t\x07\x1b]52;c;aGk=\x07\x1b[8mhid\u{9b}31m\rover\u{202e}turn\x08\u{2066}\n{\"type\":\"halted\",\"exit\":0}";

/// Whether a terminal would do something else than write, go to the next line or take a colour of ours.
fn is_harmless(text: &str) -> bool {
    let mut rest = text.to_owned();
    for code in ["0", "1", "2", "9", "32", "33", "36", "1;31", "2;9"] {
        rest = rest.replace(&format!("\x1b[{code}m"), "");
    }
    let obeyed = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || c == '\u{2066}'
    };
    !rest.contains(obeyed)
}

/// A project in which everything that another can choose is evil: output, failure, file names, commit subjects, the texts of
/// the state file.
fn ran() -> Repo {
    let escaped = |c: char| match c {
        ' '..='~' if c != '"' && c != '\\' => c.to_string(),
        other => format!("\\u{:04x}", u32::from(other)),
    };
    let quoted = format!("\"{}\"", EVIL.chars().map(escaped).collect::<String>());
    let one = r#"cat evil.txt; cat evil.txt >&2; cp evil.txt "$(printf 'name\\033[2J.txt')""#;
    let atom = |id: &str, after: &str, run: &str| {
        format!(
            "  - {{id: {id}, description: {quoted}, status: pending, depends_on: [{after}], run: {run:?}}}\n"
        )
    };
    let atoms = atom("A1", "", one) + &atom("A2", "A1", "cat evil.txt >&2; exit 1");
    let plan = Plan {
        atoms: &atoms,
        base_case: &check("cat evil.txt; cat evil.txt >&2; false"),
        constraints: "max_iterations: 2, max_parallel_agents: 1, max_stall_count: 1",
        ..Plan::default()
    };
    let repo = Repo::with(&plan);
    repo.write("evil.txt", EVIL);
    repo.git(&["add", "evil.txt"]);
    repo.git(&["commit", "-q", "-m", EVIL]);
    repo
}

#[test]
fn no_screen_and_no_stream_obeys_what_others_wrote() {
    let repo = ran();
    let lines = repo.aot(&["run", "--json"]);
    for line in lines.out.lines() {
        let object: Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no line of ours: {line:?}"));
        assert!(object["type"].is_string() || object["error"].is_object(), "{line}");
    }
    assert!(is_harmless(&lines.out), "{:?}", lines.out);
    assert!(is_harmless(&lines.err), "{:?}", lines.err);
    assert!(!lines.out.is_empty(), "{}", lines.err);
    let ends = lines.out.matches("\"type\":\"halted\"").count();
    assert_eq!(ends, 1, "only the program says how it ended: {}{}", lines.out, lines.err);
    for words in [
        &["run"][..],
        &["status"],
        &["graph"],
        &["log"],
        &["log", "A1"],
        &["log", "A2"],
        &["show"],
        &["show", "A1"],
        &["ready"],
        &["verify"],
        &["report", "--out", "-"],
        &["report", "--markdown"],
        &["report", "--out", EVIL],
        &["pr", "--force", "--remote", EVIL],
        &["lint"],
        &["validate"],
        &["atom", "brief", "A2"],
        &["atom", "start", EVIL],
        &["stop", EVIL],
        &["redirect", "--goal", EVIL],
        &["trust"],
    ] {
        for json in [&[][..], &["--json"]] {
            let said = repo.aot(&[words, json].concat());
            assert!(is_harmless(&said.out), "{words:?}: {:?}", said.out);
            assert!(is_harmless(&said.err), "{words:?}: {:?}", said.err);
            assert!(!said.err.contains("a bug"), "{words:?}: {}", said.err);
        }
    }
    // A state file that cannot be read is drawn, with what is wrong in it.
    let broken = repo.read(STATE).replace("atoms:", &format!("atoms: # {}", EVIL.replace('\n', " ")));
    fs::write(repo.path(STATE), broken).expect("written");
    let said = repo.aot(&["validate"]);
    assert!(is_harmless(&said.out) && is_harmless(&said.err), "{:?}", said.err);
}
