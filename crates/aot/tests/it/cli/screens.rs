//! Screens: status, graph, log; what people see of typical states, and what scripts read.

use std::fs;
use std::time::{Duration, Instant};

use aot_testkit::fixtures::{COMPLETE, INITIAL_LEGACY, of_size};
use serde_json::{Value, json};

use super::project::Project;

const HEAD: &str = "---
objective:
  goal: \"Let people log in, stay logged in over a restart of the server, and log out everywhere at once\"
  base_case:
    checklist:
      - {item: \"Login tests are green\", check: {type: command, value: \"true\"}}
      - {item: \"The linter is quiet\", check: {type: command, value: \"exit 3\"}}
      - {item: \"It reads well\", check: {type: assertion, value: \"It reads well\"}}
  background_intent: \"Existing users need accounts that work\"
  deliverables: \"A login API\"
  definition_of_done: \"The login tests are green\"
  constraints: {max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_cost_usd: 20}
";

const RUNNING: &str = "control:
  status: running
  iteration: 7
  stall_count: 1
  prev_pending_count: -1
  stop_requested: false
  stop_reason: null
  redirect_requested: false
  open: {started: [A6, A9, A10], results: 0}
  attempts: {A6: 7, A9: 7, A10: 7}
  spent: {agent_runs: 9, seconds: 812, cost_usd: 1.40, tokens: 91000}
";

/// Cut twice, two ways to make tokens of which one has failed, and a race.
const GRAPH: &str = "atoms:
  - {id: A1, description: The user model, status: resolved, depends_on: []}
  - {id: A2, description: The login logic, status: pending, depends_on: [A1]}
  - {id: A3, description: Hashing of passwords, status: resolved, depends_on: [A1]}
  - {id: A4, description: \"Tokens by JWT, signed with a key from the vault that is rotated daily\", status: pending, depends_on: [A1], or_group: tokens}
  - {id: A5, description: Tokens by sessions in a table, status: pending, depends_on: [A1], or_group: tokens}
  - {id: A6, description: The table of sessions, status: in_progress, depends_on: [A1]}
  - {id: A7, description: Expiry of sessions, status: pending, depends_on: [A1, A6]}
  - {id: A8, description: The login route, status: pending, depends_on: [A3, A4]}
  - {id: A9, description: A store in Redis, status: in_progress, depends_on: [A3], or_group: store}
  - {id: A10, description: A store in Postgres, status: in_progress, depends_on: [A3], or_group: store}
  - {id: A11, description: Log out everywhere, status: pending, depends_on: [A8, A9]}
decompositions:
  - {parent: A2, children: [A3, A4, A5], reason: separate work}
  - {parent: A5, children: [A6, A7], reason: too large}
or_groups:
  tokens: {choices: [A4, A5, A5_alt], selected: A5, failed: [A4]}
  store: {choices: [A9, A10], selected: A9, failed: [], speculative: true}
bindings:
  A1: {summary: There is a user model, artifacts: []}
  A3: {summary: Hashed with bcrypt, artifacts: []}
trail:
  - {type: failure, atom: A6, reason: the migration does not run on an empty database, timestamp: \"2026-11-15T10:00:00Z\"}
  - {or_group: tokens, selected: A5, reason: \"Auto-backtrack: A4 failed (the library is gone)\", cause: {kind: failed, atom: A4, reason: the library is gone}, timestamp: \"2026-11-15T10:10:00Z\"}
corrections: []
---
";

pub fn running() -> Project {
    Project::with(&format!("{HEAD}{RUNNING}{GRAPH}"))
}

pub fn stopped(kind: &str, reason: &str) -> Project {
    let control = RUNNING
        .replace("status: running", "status: stopped")
        .replace("stop_reason: null", &format!("stop_reason: \"{reason}\"\n  verdict: {{kind: {kind}}}"))
        .replace("  open: {started: [A6, A9, A10], results: 0}\n  attempts: {A6: 7, A9: 7, A10: 7}\n", "");
    Project::with(&format!("{HEAD}{control}{}", GRAPH.replace("in_progress", "pending")))
}

/// A picture is for other programs: its lines may be long.
fn drawn(project: &Project, words: &[&str]) -> String {
    let ran = project.run(words);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

/// As on a terminal that shows more than ASCII, without its colours.
fn seen(project: &Project, words: &[&str]) -> String {
    let output =
        project.command(words).env("LANG", "C.UTF-8").env("TZ", "UTC").output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than a terminal: {line}");
    }
    text
}

#[test]
fn status_of_a_running_loop() {
    let project = running();
    insta::assert_snapshot!(seen(&project, &["status"]), @r"
    Let people log in, stay logged in over a restart of the server, and log out eve…
    running, iteration 7 of 20, stalled 1 of 3, no driver: aot run

    ██████▓▓▓▓▓▓▓▓▓░░░░░░░░░░░░░░░░···  2 of 10 atoms resolved: 2 claimed
    2 resolved, 3 running, 5 pending, 1 dormant; 2 are parents

    running       ◐ A6   The table of sessions                           iteration 7
                  ◐ A9   A store in Redis                                iteration 7
                  ◐ A10  A store in Postgres                             iteration 7
    failed        ✗ A4  the library is gone                                     once
                  ✗ A6  the migration does not run on an empty database         once
    choices       tokens: A5 selected; A4 failed; A5_alt untried
                  store: A9, A10 race
    checks        not seen yet
    spent         9 agent runs, 13m 32s, 1.40 USD, 91000 tokens
    left at most  290 agent runs, 23h 46m, 18.60 USD
    ");
    let object = project.json(&["status"]);
    assert_eq!(
        object["counts"],
        json!({"pending": 5, "in_progress": 3, "resolved": 2, "claimed": 2, "dormant": 1})
    );
    assert_eq!(
        object["bound"],
        json!({"agent_runs": 290, "seconds": 85_588, "cost_usd": 18.6, "tokens": null})
    );
    assert_eq!((&object["status"], &object["stop_reason"]), (&json!("running"), &Value::Null));
    assert_eq!((&object["iteration"], &object["stall_count"]), (&json!(7), &json!(1)));
    assert_eq!(object["running"], json!(["A6", "A9", "A10"]));
    assert_eq!(object["failures"]["first"][0]["reason"], "the library is gone");
    // From the cache it is the same.
    assert_eq!(project.json(&["status"]), object);
}

#[test]
fn status_says_what_to_type_next() {
    insta::assert_snapshot!(seen(&stopped("stalled", "stalled: 3 iterations in a row without progress"), &["status"]), @r#"
    Let people log in, stay logged in over a restart of the server, and log out eve…
    stopped, iteration 7 of 20, stalled 1 of 3
    stalled: 3 iterations in a row without progress

    ██████░░░░░░░░░░░░░░░░░░░░░░░░░···  2 of 10 atoms resolved: 2 claimed
    2 resolved, 8 pending, 1 dormant; 2 are parents

    ready         ○ A6   The table of sessions
                  ○ A9   A store in Redis
                  ○ A10  A store in Postgres
    failed        ✗ A4  the library is gone                                     once
                  ✗ A6  the migration does not run on an empty database         once
    choices       tokens: A5 selected; A4 failed; A5_alt untried
                  store: A9, A10 race
    checks        not seen yet
    spent         9 agent runs, 13m 32s, 1.40 USD, 91000 tokens
    left at most  273 agent runs, 23h 46m, 18.60 USD
    next          aot or switch tokens A5_alt --reason "WHY"
                  aot or switch store A10 --reason "WHY"
                  aot redirect --redo A6 "HINT"
                  aot run
    "#);
    let next = |project: &Project| project.json(&["status"])["next_steps"].clone();
    for (kind, reason, expected) in [
        ("iteration_limit", "iteration limit reached: 20", json!(["aot redirect --set max_iterations=40"])),
        (
            "exhausted, group: tokens",
            "OR group exhausted: tokens",
            json!([
                "aot redirect --add-choice tokens \"DESCRIPTION\"",
                "aot or switch tokens A4 --reason \"WHY\""
            ]),
        ),
        ("deadlock, atoms: [A7, A6]", "deadlock: A7 waits for A6; A6 waits for A7", json!(["aot graph"])),
        (
            "needs_person",
            "needs a person: It reads well (a person has to confirm it)",
            json!(["aot confirm \"It reads well\"", "aot run"]),
        ),
        ("stopped_by_hand", "lunch", json!(["aot run"])),
        // A person's words are no fact.
        ("stopped_by_hand", "deadlock: wait for the deploy", json!(["aot run"])),
    ] {
        assert_eq!(next(&stopped(kind, reason)), expected, "{reason}");
    }
    assert_eq!(next(&Project::with(INITIAL_LEGACY)), json!(["aot run"]));
    let open = Project::with(&INITIAL_LEGACY.replace("goal: \"Ship it\"", "goal: \"\""));
    assert_eq!(next(&open), json!(["aot gate"]));
    assert_eq!(next(&Project::with(COMPLETE)), json!([]));
}

#[test]
fn status_of_a_completed_loop() {
    let control = RUNNING
        .replace("status: running", "status: completed")
        .replace("  open: {started: [A6, A9, A10], results: 0}\n  attempts: {A6: 7, A9: 7, A10: 7}\n", "");
    let graph = "atoms:
  - {id: A1, description: By JWT, status: pending, depends_on: [], or_group: tokens}
  - {id: A2, description: By sessions, status: resolved, depends_on: [], or_group: tokens}
decompositions: []
or_groups: {tokens: {choices: [A1, A2], selected: A2, failed: [A1]}}
bindings: {A2: {summary: There are sessions, artifacts: []}}
trail:
  - {or_group: tokens, selected: A2, reason: \"Auto-backtrack: A1 failed (red)\", cause: {kind: failed, atom: A1, reason: red}, timestamp: \"2026-11-15T10:10:00Z\"}
corrections: []
---
";
    insta::assert_snapshot!(seen(&Project::with(&format!("{HEAD}{control}{graph}")), &["status"]), @r"
    Let people log in, stay logged in over a restart of the server, and log out eve…
    completed, iteration 7 of 20, stalled 1 of 3

    █████████████████·················  1 of 1 atom resolved: 1 claimed
    1 resolved, 1 dormant

    choices       tokens: A2 resolved; A1 failed
    checks        not seen yet
    spent         9 agent runs, 13m 32s, 1.40 USD, 91000 tokens
    ");
}

#[test]
fn status_tells_what_was_seen_of_the_base_case_and_since_when_something_runs() {
    let project = running();
    assert_eq!(project.run(&["verify"]).code, 1);
    project.json(&["atom", "resolve", "A6", "--summary", "There is a table"]);
    project.json(&["atom", "start", "A7"]);
    let object = project.json(&["status"]);
    let outcomes: Vec<&Value> =
        object["base_case"].as_array().expect("a list").iter().map(|c| &c["outcome"]).collect();
    assert_eq!(outcomes, [&json!("pass"), &json!("fail"), &Value::Null]);
    let at_work = object["at_work"].as_array().expect("a list");
    let since = |atom: &str| at_work.iter().find(|at| at["atom"] == atom).map(|at| at["since"].is_string());
    assert_eq!((since("A7"), since("A9")), (Some(true), Some(false)));
    let text = seen(&project, &["status"]);
    assert!(text.contains("1 of 3 green, last looked at "), "{text}");
    assert!(text.contains("✗ The linter is quiet: exit 3"), "{text}");
    // Evidence of another check does not count.
    project.write(&project.text().replace("exit 3", "exit 4"));
    assert_eq!(project.json(&["status"])["base_case"][1]["outcome"], Value::Null);
    // Without the folder beside the file that is left unsaid.
    fs::remove_dir_all(project.root().join(".claude/aot")).expect("it is there");
    assert!(seen(&project, &["status"]).contains("checks        not seen yet"));
}

#[test]
fn status_and_graph_of_many_atoms() {
    let project = Project::with(&of_size(1_000));
    let text = seen(&project, &["status"]);
    insta::assert_snapshot!(text, @r"
    Ship it
    pending, iteration 0 of 20, stalled 0 of 3

    █████████████████▓░░░░░░░░░░░░░░░░  500 of 1000 atoms resolved: 500 claimed
    500 resolved, 1 running, 499 pending

    running       ◐ A501  Move part 500 of the service to the new storage layer
    ready         ○ A502  Move part 501 of the service to the new storage layer
                  ○ A503  Move part 502 of the service to the new storage layer
                  ○ A504  Move part 503 of the service to the new storage layer
                  ○ A505  Move part 504 of the service to the new storage layer
                  and 3 more
    checks        not seen yet
    left at most  422 agent runs, 1d
    next          aot run
    ");
    // Lists that are all long are cut until a screen holds them.
    let mut busy = String::from("atoms:\n");
    let (mut groups, mut trail) = (String::from("or_groups:\n"), String::from("trail:\n"));
    for place in 0..40 {
        let status = if place < 10 { "in_progress" } else { "pending" };
        busy += &format!(
            "  - {{id: B{place}, description: b, status: {status}, depends_on: [], or_group: g{place}}}\n"
        );
        groups += &format!("  g{place}: {{choices: [B{place}], selected: B{place}, failed: []}}\n");
        trail += &format!(
            "  - {{type: failure, atom: B{place}, reason: r, timestamp: \"2026-11-15T10:00:00Z\"}}\n"
        );
    }
    let rest = format!("decompositions: []\n{groups}bindings: {{}}\n{trail}corrections: []\n---\n");
    let text = seen(&Project::with(&format!("{HEAD}{RUNNING}{busy}{rest}")), &["status"]);
    assert!(text.lines().count() <= 23 && text.contains("and 8 more"), "{text}");
    let many = Project::with(&of_size(10_000));
    let began = Instant::now();
    assert_eq!(seen(&many, &["graph"]).lines().count(), 10_000 + 4);
    // Far more than it takes, even on a machine that does much else; a walk over all pairs would take minutes.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn the_graph_as_an_outline() {
    insta::assert_snapshot!(seen(&running(), &["graph"]), @r"
    Let people log in, stay logged in over a r…  2 of 10 resolved, 2 of them claimed

      ~ A1  The user model
      ○ A2  The login logic                                                 after A1
      ├─ ~ A3  Hashing of passwords
      └─ ○ tokens  one of 3
         ├─ ✗ A4  Tokens by JWT, signed with a key from the vault that is r…  failed
         ├─ ○ A5  Tokens by sessions in a table                             selected
    ▸    │  ├─ ◐ A6  The table of sessions                               iteration 7
    ▸    │  └─ ○ A7  Expiry of sessions                                     after A6
         └─ ◌ A5_alt                                  made when the group goes to it
    ▸ ○ A8  The login route                                         after A3, tokens
      ◐ store  a race of 2                                                  after A3
      ├─ ◐ A9  A store in Redis                                selected, iteration 7
      └─ ◐ A10  A store in Postgres                               races, iteration 7
    ▸ ○ A11  Log out everywhere                                      after A8, store

    ◐ running   ○ pending   ◌ dormant   ✗ failed   ▸ longest path left
    ");
    // In the C locale.
    insta::assert_snapshot!(running().run(&["graph"]).out, @r"
    Let people log in, stay logged in over a r~  2 of 10 resolved, 2 of them claimed

      ~ A1  The user model
      o A2  The login logic                                                 after A1
      |- ~ A3  Hashing of passwords
      `- o tokens  one of 3
         |- x A4  Tokens by JWT, signed with a key from the vault that is r~  failed
         |- o A5  Tokens by sessions in a table                             selected
    !    |  |- > A6  The table of sessions                               iteration 7
    !    |  `- o A7  Expiry of sessions                                     after A6
         `- . A5_alt                                  made when the group goes to it
    ! o A8  The login route                                         after A3, tokens
      > store  a race of 2                                                  after A3
      |- > A9  A store in Redis                                selected, iteration 7
      `- > A10  A store in Postgres                               races, iteration 7
    ! o A11  Log out everywhere                                      after A8, store

    > running   o pending   . dormant   x failed   ! longest path left
    ");
}

#[test]
fn the_graph_as_a_picture() {
    let project = running();
    let mermaid = drawn(&project, &["graph", "--mermaid"]);
    for line in [
        "flowchart LR",
        "  n3{{\"○ <b>tokens</b><br/>one of 3\"}}:::pending",
        "  n5[[\"○ <b>A5</b><br/>Tokens by sessions in a table\"]]:::pending",
        "  n8(\"◌ <b>A5#95;alt</b><br/>made on a switch to it\"):::dormant",
        "  n4 -.-> n3",
        "  n6 --> n7",
        "  linkStyle 1,4,5,8,10,13,16 stroke:#c77700,stroke-width:3px",
    ] {
        assert!(mermaid.lines().any(|drawn| drawn == line), "{line}\n{mermaid}");
    }
    let dot = drawn(&project, &["graph", "--dot"]);
    let failed = "<s>Tokens by JWT, signed with a key from the vault that is r…</s>";
    assert!(
        dot.starts_with("digraph aot {") && dot.contains(failed) && dot.contains("n6 -> n7 [penwidth"),
        "{dot}"
    );
    let svg = drawn(&project, &["graph", "--svg"]);
    assert_eq!(svg.matches("<g class=\"box ").count(), 14 + 5, "boxes, and the legend:\n{svg}");
    assert_eq!(svg.matches("<path class=\"tip").count(), 20, "{svg}");
    assert_eq!(project.run(&["graph", "--svg", "--dot"]).code, 2);
    assert!(project.json(&["graph", "--svg"])["picture"].as_str().is_some_and(|text| text.contains("<svg ")));
}

#[test]
fn a_picture_of_hostile_texts_has_only_text_in_it() {
    let graph = "atoms:\n\
        \x20 - {id: A1, description: \"</text><script>alert(1)</script> \\e[31m`x` | end\\\"]; click\", status: pending, depends_on: []}\n";
    let project = Project::with(&aot_testkit::fixtures::with_graph(graph));
    for words in [["graph", "--svg"], ["graph", "--dot"], ["graph", "--mermaid"]] {
        let picture = drawn(&project, &words);
        assert!(picture.contains("alert"), "{picture}");
        for harm in ["<script", "</text><script", "\u{1b}", "`x`", "\"]; click"] {
            let is_own = harm == "`x`" && words[1] != "--mermaid";
            assert!(is_own || !picture.contains(harm), "{harm:?} in\n{picture}");
        }
    }
}

#[test]
fn a_large_picture_contracts_what_is_resolved() {
    let mut atoms = String::from("atoms:\n");
    for number in 1..=80 {
        let status = if number <= 70 { "resolved" } else { "pending" };
        let needs = if number == 1 { String::new() } else { format!("A{}", number - 1) };
        atoms +=
            &format!("  - {{id: A{number}, description: Step, status: {status}, depends_on: [{needs}]}}\n");
    }
    let project = Project::with(&aot_testkit::fixtures::with_graph(&atoms));
    let boxes = |words: &[&str]| drawn(&project, words).matches(" [label=").count();
    // The last resolved one is still needed.
    assert_eq!(boxes(&["graph", "--dot"]), 1 + 1 + 10);
    assert!(drawn(&project, &["graph", "--dot"]).contains("<b>69 resolved</b>"));
    assert_eq!(boxes(&["graph", "--dot", "--whole"]), 80);
}

#[test]
fn the_graph_as_nodes_and_edges() {
    let object = running().json(&["graph"]);
    let nodes = object["nodes"].as_array().expect("a list");
    let ids: Vec<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    assert_eq!(
        ids,
        ["A1", "A2", "A3", "tokens", "A4", "A5", "A6", "A7", "A5_alt", "A8", "store", "A9", "A10", "A11"]
    );
    let node = |id: &str| nodes.iter().find(|node| node["id"] == id).expect("it is there");
    assert_eq!(node("A4")["standing"], "failed");
    assert_eq!((&node("A7")["parent"], &node("A7")["critical"]), (&json!("A5"), &json!(true)));
    assert_eq!((&node("store")["type"], &node("store")["racing"]), (&json!("or_group"), &json!(true)));
    let edges = object["edges"].as_array().expect("a list");
    for edge in [
        json!({"type": "depends_on", "from": "A8", "to": "A4", "waits_for": "tokens"}),
        json!({"type": "child", "from": "A5", "to": "A6"}),
        json!({"type": "choice", "from": "tokens", "to": "A5_alt"}),
    ] {
        assert!(edges.contains(&edge), "{edge} is missing");
    }
    assert_eq!(object["critical_path"], json!(["A6", "A7", "A8", "A11"]));
}

#[test]
fn rings_are_drawn_and_told() {
    let graph = "atoms:\n\
        - {id: A, description: a, status: pending, depends_on: [], or_group: g}\n\
        - {id: B, description: b, status: pending, depends_on: [C], or_group: g}\n\
        - {id: C, description: c, status: pending, depends_on: [A]}\n\
        or_groups: {g: {choices: [A, B], selected: A, failed: []}}\n";
    let project = Project::with(&aot_testkit::fixtures::with_graph(graph));
    insta::assert_snapshot!(seen(&project, &["graph"]), @r"
    Ship it                                                          0 of 2 resolved

      ○ g  one of 2
      ├─ ○ A  a                                                             selected
      └─ ◌ B  b                                                              after C
      ○ C  c                                                                 after g

    ○ pending   ◌ dormant
    B, C, g would wait for one another with another choice
    ");
}

/// A journal as the program writes it, with moments of our own.
pub fn with_journal() -> Project {
    journal_of(&[
        (1, "2026-11-14T23:59:58Z", json!([{"type": "loop_started"}])),
        (
            2,
            "2026-11-15T14:03:01Z",
            json!([
                {"type": "iteration_opened"},
                {"type": "atom_started", "atom": "A4", "attempt": 1},
                {"type": "atom_started", "atom": "A6", "attempt": 1},
            ]),
        ),
        (
            3,
            "2026-11-15T14:03:07Z",
            json!([
                {"type": "atom_reset", "atom": "A4"},
                {"type": "choice_failed", "group": "tokens", "choice": "A4"},
                {"type": "choice_selected", "group": "tokens", "choice": "A5", "reason": "Auto-backtrack: A4 failed (tests red)", "cause": {"kind": "failed", "atom": "A4", "reason": "tests red"}},
                {"type": "result_counted"},
            ]),
        ),
        (4, "2026-11-15T14:03:09Z", json!([{"type": "spent_so_far", "spent": {"agent_runs": 1}}])),
        (
            6,
            "2026-11-15T14:10:11Z",
            json!([
                {"type": "atom_reset", "atom": "A6"},
                {"type": "failure_noted", "atom": "A6", "reason": "the migration does not run on an empty database, and the one that does is not the one that was asked for; the rest of the tests was not run"},
            ]),
        ),
        (7, "2026-11-15T14:10:12Z", json!([{"type": "atom_started", "atom": "A6", "attempt": 2}])),
        (8, "2026-11-15T14:11:12Z", json!([{"type": "something_new", "atom": "A6"}])),
    ])
}

fn journal_of(lines: &[(u64, &str, Value)]) -> Project {
    let project = running();
    let sidecar = project.root().join(".claude/aot");
    fs::create_dir_all(&sidecar).expect("a folder can be made");
    let text: String = lines
        .iter()
        .map(|(revision, at, changes)| {
            json!({"revision": revision, "at": at, "from": "", "hash": "", "changes": changes}).to_string()
                + "\n"
        })
        .collect();
    // Only a folder that this machine made is believed.
    aot_runner::store::home::Home::of(&project.state()).and_then(|home| home.ready()).expect("a sidecar");
    fs::write(sidecar.join("journal.jsonl"), text).expect("a journal can be written");
    project
}

#[test]
fn the_log_in_plain_words() {
    let project = with_journal();
    insta::assert_snapshot!(seen(&project, &["log"]), @r"
    2026-11-14
    23:59:58  r1      the loop starts
    2026-11-15
    14:03:01  r2      iteration 1 begins
                      A4 starts in iteration 1
                      A6 starts in iteration 1
    14:03:07  r3      A4 failed: tests red; tokens switches to A5
                      (revision 5 is not in the journal)
    14:10:11  r6      A6 failed: the migration does not run on an empty database,
                      and the one that does is not the one that was asked for; the
                      rest of the tests was not run
    14:10:12  r7      A6 starts in iteration 2
                      (1 line of the journal cannot be read by this aot)
    ");
    insta::assert_snapshot!(seen(&project, &["log", "-n", "1"]), @r"
                      (earlier ones with a larger -n)
    2026-11-15
    14:10:12  r7      A6 starts in iteration 2
                      (1 line of the journal cannot be read by this aot)
    ");
    let object = project.json(&["log", "-n", "3"]);
    let revisions: Vec<&Value> =
        object["entries"].as_array().expect("a list").iter().map(|e| &e["revision"]).collect();
    assert_eq!(revisions, [&json!(4), &json!(6), &json!(7)]);
    assert_eq!(object["entries"][2]["told"], json!(["A6 starts in iteration 2"]));
    assert_eq!((&object["earlier"], &object["unreadable"]), (&json!(true), &json!(1)));
    // Where the clock of the place is another one.
    let there = project.command(&["log"]).env("TZ", "EST5").output().expect("it can be started");
    assert!(String::from_utf8_lossy(&there.stdout).contains("09:03:07  r3"));
}

#[test]
fn the_log_of_one_atom_is_told_by_attempts() {
    let project = with_journal();
    insta::assert_snapshot!(seen(&project, &["log", "--atom", "A6"]), @r"
    try 1, took 7m 10s
    2026-11-15
    14:03:01  r2      A6 starts in iteration 1
    14:10:11  r6      A6 failed: the migration does not run on an empty database,
                      and the one that does is not the one that was asked for; the
                      rest of the tests was not run

    try 2, still open
    14:10:12  r7      A6 starts in iteration 2
                      (1 line of the journal cannot be read by this aot)
    ");
    insta::assert_snapshot!(seen(&project, &["log", "--atom", "A4"]), @r"
    try 1, took 6s
    2026-11-15
    14:03:01  r2      A4 starts in iteration 1
    14:03:07  r3      A4 failed: tests red; tokens switches to A5
                      (1 line of the journal cannot be read by this aot)
    ");
    let unknown = project.run(&["log", "A99"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (1, ""));
    assert!(unknown.err.contains("A99"), "{}", unknown.err);
    assert_eq!(seen(&project, &["log", "A1"]), "the journal says nothing about A1\n");
    assert_eq!(seen(&project, &["log", "replan"]), "the journal says nothing about replan\n");
    assert_eq!(project.json(&["log", "--atom", "A4"])["entries"].as_array().map(Vec::len), Some(2));
}

/// One step may end a try and begin the next, and the journal goes back to the loop before.
#[test]
fn each_try_has_its_own_end_and_what_showed_it() {
    let failed = |why: &str| json!({"type": "failure_noted", "atom": "A6", "reason": why});
    let reset = json!({"type": "atom_reset", "atom": "A6"});
    let started = |iteration: u32| json!({"type": "atom_started", "atom": "A6", "attempt": iteration});
    let agreed = json!([
        {"type": "loop_named", "id": "01k"},
        {"type": "fingerprint_taken", "fingerprint": {"base_case": "b", "protected": "p"}},
    ]);
    let reason = "npm test: exit 1\n\u{1b}[31m2 failed\u{1b}[0m\nexpected 200, got 404";
    let binding = json!({"summary": "It is there", "artifacts": []});
    let project = journal_of(&[
        (1, "2026-11-15T13:00:00Z", json!([{"type": "iteration_opened"}, started(1)])),
        (2, "2026-11-15T13:00:01Z", json!([reset, failed("of the loop before")])),
        (3, "2026-11-15T14:00:00Z", agreed),
        (4, "2026-11-15T14:00:10Z", json!([{"type": "iteration_opened"}, started(2)])),
        (5, "2026-11-15T14:01:00Z", json!([reset, failed(reason), {"type": "iteration_opened"}, started(3)])),
        (6, "2026-11-15T14:01:30Z", json!([{"type": "atom_resolved", "atom": "A6", "binding": binding}])),
    ]);
    insta::assert_snapshot!(seen(&project, &["log", "A6"]), @r"
    try 1, took 50s
    2026-11-15
    14:00:10  r4      A6 starts in iteration 2
    14:01:00  r5      A6 failed: npm test: exit 1
                      | 2 failed
                      | expected 200, got 404

    try 2, took 30s
    14:01:00  r5      A6 starts in iteration 3
    14:01:30  r6      A6 is resolved: It is there
    ");
    insta::assert_snapshot!(seen(&project, &["log", "A6", "-n", "2"]), @r"
                      (earlier ones with a larger -n)
    try 2, took 30s
    2026-11-15
    14:01:00  r5      A6 starts in iteration 3
    14:01:30  r6      A6 is resolved: It is there
    ");
}

#[test]
fn a_log_without_a_journal_is_no_trouble() {
    let project = Project::with(INITIAL_LEGACY);
    let told = "there is no journal: nothing was changed through aot, or its folder was deleted\n";
    assert_eq!(seen(&project, &["log"]), told);
    assert_eq!(project.json(&["log"])["entries"], json!([]));
    // It needs no state that can be read.
    let broken = with_journal();
    broken.write("---\nobjective: [\n---\n");
    assert!(seen(&broken, &["log"]).contains("A4 failed: tests red; tokens switches to A5"));
}
