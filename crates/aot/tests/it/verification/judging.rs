//! The judge seam, with real commands.

use serde_json::{Value, json};

use super::kit::Project;

const RUBRIC: &str = r#"    type: quality
    rubric:
      - {criterion: Readability, weight: 0.75, levels: {1: "A riddle", 5: "Reads itself"}}
      - {criterion: Design, weight: 0.25}
    pass_threshold: 3.5
    scope: "src/**/*.txt""#;

fn project(judge: &str) -> Project {
    let project = Project::in_git(RUBRIC);
    project.write("src/deep/a.txt", "fine words");
    project.write("src/b.md", "not in scope");
    project.write("aot.toml", &format!("[judge]\ncommand = {judge:?}\ntimeout = \"30s\"\n"));
    project
}

fn scores(readability: Value, design: Value) -> Value {
    let score = |name: &str, score: Value| json!({"criterion": name, "score": score, "reason": "so it is", "evidence": ["src/deep/a.txt:1 fine"]});
    json!({"scores": [score("Readability", readability), score("Design", design)]})
}

/// What the verdict is when the judge answers so, and how often it was asked.
fn answered(answer: &str) -> (i32, Value, usize) {
    let project = project("cat > request.json.$$; printf x >> asked; cat answer");
    project.write(".gitignore", "request.json.*\nasked\nanswer\n");
    project.write("answer", answer);
    let (exit, object) = project.json(&["verify"]);
    (exit, object["checks"][0].clone(), project.read("asked").len())
}

#[test]
fn a_rubric_passes_and_fails() {
    let (exit, check, asked) = answered(&scores(json!(4), json!(2)).to_string());
    assert_eq!((exit, asked, &check["outcome"]), (0, 1, &json!("pass")), "{check}");
    let judged = &check["evidence"]["judged"];
    assert_eq!((&judged["average"], &judged["threshold"]), (&json!(3.5), &json!(3.5)));
    assert_eq!(judged["scores"][1]["evidence"][0], "src/deep/a.txt:1 fine");
    assert_eq!(check["evidence"]["files"], json!(["src/deep/a.txt"]));

    let (exit, check, asked) = answered(&scores(json!(4), json!(1)).to_string());
    assert_eq!((exit, asked, &check["outcome"]), (1, 1, &json!("fail")), "{check}");
    assert_eq!(check["evidence"]["why"], "scored 3.25, below 3.5");
    assert_eq!(check["evidence"]["hint"], "Design: so it is (1)");
}

#[test]
fn answers_that_are_not_valid_are_asked_for_once_more() {
    let one = json!({"scores": [scores(json!(4), json!(2))["scores"][0]]}).to_string();
    let mut bare = scores(json!(4), json!(4));
    bare["scores"][0]["evidence"] = json!([]);
    for (answer, reason) in [
        ("I like it".to_owned(), "no JSON object"),
        ("{\"scores\": ".to_owned(), "not valid JSON"),
        (String::new(), "no JSON object"),
        (scores(json!(6), json!(2)).to_string(), "one of 1, 2, 3, 4, 5"),
        (scores(json!(0), json!(2)).to_string(), "one of 1, 2, 3, 4, 5"),
        (scores(json!(3.5), json!(2)).to_string(), "one of 1, 2, 3, 4, 5"),
        (one, "`Design` is missing"),
        (bare.to_string(), "at least one place"),
    ] {
        let (exit, check, asked) = answered(&answer);
        assert_eq!((exit, asked, &check["outcome"]), (17, 2, &json!("error")), "{answer}: {check}");
        let why = check["evidence"]["why"].as_str().unwrap_or_default();
        assert!(why.contains(reason) && why.ends_with("(asked twice)"), "{answer}: {why}");
    }
}

/// The second time it is told why, and does better.
#[test]
fn a_judge_may_correct_itself() {
    let project = project("if grep -q '\"refused\":null'; then echo no; else cat ../answer; fi");
    let answer = project.root().parent().expect("it has one").join("answer");
    std::fs::write(&answer, scores(json!(5), json!(5)).to_string()).expect("a file");
    let (exit, object) = project.json(&["verify"]);
    std::fs::remove_file(answer).expect("it is there");
    assert_eq!((exit, &object["checks"][0]["outcome"]), (0, &json!("pass")), "{object}");
}

#[test]
fn a_judge_that_cannot_answer_is_an_error() {
    for (judge, reason) in [
        ("sleep 1000", "did not answer within 1 s"),
        ("exit 3", "exited with 3"),
        ("no-such-judge", "not found"),
        ("head -c 40000000 /dev/zero", "longer than"),
    ] {
        let project = project(judge);
        project.write("aot.toml", &format!("[judge]\ncommand = {judge:?}\ntimeout = \"1s\"\n"));
        if !judge.contains("sleep") {
            project.write("aot.toml", &format!("[judge]\ncommand = {judge:?}\n"));
        }
        let (exit, object) = project.json(&["verify"]);
        let check = &object["checks"][0];
        assert_eq!((exit, &check["outcome"]), (17, &json!("error")), "{judge}: {check}");
        assert!(check["evidence"]["why"].as_str().unwrap_or_default().contains(reason), "{judge}: {check}");
    }
}

#[test]
fn the_request_holds_what_a_judge_needs_and_not_what_it_must_not_know() {
    let project = project("cat > request-of-a-test; cat answer");
    project.write(".gitignore", "answer\nrequest-of-a-test\n");
    project.write("answer", &scores(json!(5), json!(5)).to_string());
    let seen = project.path("request-of-a-test");
    assert_eq!(project.aot(&["verify"]).exit, 0);
    let request = std::fs::read_to_string(&seen).expect("it was written");
    assert!(!request.contains("3.5") && !request.contains("0.75"), "{request}");
    let request: Value = serde_json::from_str(&request).expect("JSON");
    assert_eq!(request["files"], json!([{"path": "src/deep/a.txt", "bytes": 10, "content": "fine words"}]));
    assert_eq!(request["rubric"][0]["levels"]["5"], "Reads itself");
    assert!(request["brief"].as_str().unwrap_or_default().contains("Readability"));
    assert!(request["schema"]["properties"]["scores"].is_object());
}

#[test]
fn a_judge_is_asked_only_when_the_machine_is_content() {
    let judged = "{type: quality, criteria: Short, pass_threshold: 3}";
    let base_case = |command: &str| {
        format!(
            "    checklist:\n      - {{item: m, check: {{type: command, value: {command:?}}}}}\n      - {{item: q, check: {judged}}}"
        )
    };
    let answer =
        json!({"scores": [{"criterion": "overall", "score": 4, "reason": "r", "evidence": ["a:1"]}]});
    for (command, asked, outcome) in
        [("false", "", "pending"), ("no-such-tool", "", "pending"), ("true", "x", "pass")]
    {
        let project = Project::with(&base_case(command));
        project.write("answer", &answer.to_string());
        project.write("aot.toml", "[judge]\ncommand = \"printf x >> asked; cat answer\"\n");
        let (_, object) = project.json(&["verify"]);
        assert_eq!(
            (project.read("asked").as_str(), &object["checks"][1]["outcome"]),
            (asked, &json!(outcome)),
            "{command}"
        );
    }
}

#[test]
fn an_empty_scope_is_an_error_and_wrong_settings_are_refused() {
    let project = project("cat answer");
    std::fs::remove_dir_all(project.path("src")).expect("it is there");
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["verdict"]), (17, &json!("error")), "{object}");
    project.write("aot.toml", "[judge]\ncommand = 3\n");
    let said = project.aot(&["verify"]);
    assert_eq!(said.exit, 2);
    assert!(said.err.contains("aot.toml:2:11: `judge.command` is a command, as a text"), "{}", said.err);
    project.write("aot.toml", "[jugde]\ncommand = 'x'\n");
    let said = project.aot(&["verify"]);
    assert!(said.err.contains("aot.toml:1:2: `jugde` is not known"), "{}", said.err);
}

#[derive(Debug)]
struct Panics;

impl aot_runner::checks::judge::Judge for Panics {
    fn name(&self) -> String {
        "panics".into()
    }

    fn ask(&self, _: &aot_runner::checks::judge::Request<'_>) -> aot_runner::checks::judge::JudgeReply {
        panic!("as the test wants it")
    }
}

/// A look that panics has an outcome, or whoever waits for it would wait for ever.
#[test]
fn a_look_that_panics_is_an_error_and_blocks_nobody() {
    use aot_core::verdict::{Jobs, Outcome};
    use aot_runner::checks::{Checker, Occasion, Whose};
    let evaluation = super::kit::in_time("a look that panics", || {
        let project = project("true");
        let paths = aot_runner::tree::Project {
            root: project.root(),
            state: project.path(".claude/aot-loop-state.md"),
            sidecar: project.path(".claude/aot"),
            cache: None,
            repository: aot_runner::tree::ProjectRepository::Searched,
        };
        let mut store = aot_runner::store::Store::open(&paths.state, "test").expect("it opens");
        let state = store.load::<aot_core::rules::Refusal>().expect("it can be read").1.clone();
        let checks = state.objective.base_case.clone().expect("there is one");
        let guard = aot_runner::process::Guard::new(env!("CARGO_BIN_EXE_aot").into());
        let checker = Checker {
            project: &paths,
            guard: &guard,
            judge: Some(&Panics),
            jobs: Jobs::default(),
            confined: &aot_runner::confinement::Confined::open(),
        };
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        let seen = checker.evaluate(&state, &checks, Whose::BaseCase, Occasion::Decide, now, &mut |_| {});
        seen.expect("the project can be looked at")
    });
    assert_eq!(evaluation.seen[0].0, Outcome::Error, "{:?}", evaluation.seen);
}

/// An agent that is named as the judge is asked by whoever looks, unless they want no judge.
#[test]
fn an_agent_judges_for_whoever_looks() {
    let project = Project::in_git(RUBRIC);
    project.write("src/deep/a.txt", "fine words");
    project.write(".gitignore", "answer\nmine.sh\n");
    project.write("answer", &scores(json!(4), json!(2)).to_string());
    let (program, answer) = (project.path("mine.sh"), project.path("answer"));
    project.write("mine.sh", &format!("cat > /dev/null; cat {}", answer.display()));
    let settings = format!(
        "[cage]\nkind = \"none\"\n[agents]\njudge = \"mine\"\n[agent.mine]\nprogram = \"/bin/sh\"\narguments = [{:?}]\n\
         answer = \"output\"\n",
        program.display().to_string()
    );
    project.write("aot.toml", &settings);
    let (exit, object) = project.json(&["verify", "--no-judge"]);
    assert_eq!((exit, &object["checks"][0]["outcome"]), (17, &json!("pending")), "{object}");
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["checks"][0]["outcome"]), (0, &json!("pass")), "{object}");
    assert_eq!(object["checks"][0]["evidence"]["ran"], "mine");
}
