//! Agents that speak the Agent Client Protocol, as they behave and as they misbehave.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aot_core::brief::{Brief, JudgeAnswer, ProbeAnswer, Role, WorkerAnswer, plan_change_schema};
use aot_core::state::Quality;
use aot_runner::agents::profile::Profile;
use aot_runner::agents::{Agent, AgentEvent, AgentLauncher, AgentOutcome, AgentUsage, Question, Report};
use aot_runner::process::cage::{Kind, Network};
use aot_runner::process::{Guard, Switch};
use serde_json::{Value, json};

use super::scripted::{LOG, SCRIPT, WORDS};

/// Nothing here takes this long unless it hangs.
const LONG: Duration = Duration::from_secs(60);

const MARK: &str = "AOT_TEST_MARK";

/// One question to a scripted agent.
struct Case {
    role: Role,
    steps: Vec<Value>,
    again: u32,
    wall: Duration,
    idle: Option<Duration>,
    program: PathBuf,
    model: Option<String>,
    /// It has a key for this agent.
    has_key: bool,
    /// What the reader refuses, whatever the answer_files took.
    refused: Option<&'static str>,
    folder: tempfile::TempDir,
    mark: String,
    switch: Switch,
    /// As soon as it does what [`BUSY`] says.
    killed: bool,
}

const BUSY: &str = "a tool that takes long";

/// How it ended, what the agent heard, and what was heard of it.
struct Ended {
    report: Report,
    log: Vec<Value>,
    doing: Vec<String>,
    said: String,
    used: Vec<AgentUsage>,
}

impl Case {
    fn new(role: Role, steps: impl IntoIterator<Item = Value>) -> Case {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        Case {
            role,
            steps: steps.into_iter().collect(),
            again: 2,
            wall: LONG,
            idle: None,
            program: std::env::current_exe().expect("it is this one"),
            model: None,
            has_key: false,
            refused: None,
            folder: tempfile::tempdir().expect("a folder"),
            mark: format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)),
            switch: Switch::default(),
            killed: false,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self) -> Ended {
        for folder in ["work", "sidecar"] {
            fs::create_dir_all(self.path(folder)).expect("a folder");
        }
        fs::write(self.path("script"), json!(self.steps).to_string()).expect("it can be written");
        let aot = PathBuf::from(env!("CARGO_BIN_EXE_aot"));
        let launcher = AgentLauncher {
            guard: Guard::new(aot.clone()),
            itself: aot,
            cage: Kind::None,
            writable: Vec::new(),
            hidden: Vec::new(),
            network: Network::On,
            variables: std::env::vars_os().collect(),
            further: Vec::new(),
            home: None,
            sidecar: self.path("sidecar"),
            project: self.path("work"),
        };
        let agent = Agent {
            name: "scripted".into(),
            profile: profile(),
            program: self.program.clone(),
            before: WORDS.map(str::to_owned).to_vec(),
            model: self.model.clone(),
        };
        let brief = brief(self.role);
        let (doing, said, used) = (Mutex::new(Vec::new()), Mutex::new(String::new()), Mutex::new(Vec::new()));
        let listener = |event: AgentEvent<'_>| match event {
            AgentEvent::Activity(line) => {
                doing.lock().expect("nobody panics").push(line.to_owned());
                if self.killed && line == BUSY {
                    self.switch.turn_off();
                }
            }
            AgentEvent::Text(text) => said.lock().expect("nobody panics").push_str(text),
            AgentEvent::ToolError(line) => {
                said.lock().expect("nobody panics").push_str(&format!("[failed: {line}]\n"));
            }
            AgentEvent::Usage(so_far) => used.lock().expect("nobody panics").push(so_far),
        };
        let variable = |name: &str, path: PathBuf| (name.into(), path.into_os_string());
        let read = |_: &Value| self.refused.map_or(Ok(()), |reason| Err(reason.to_owned()));
        let mut variables = vec![
            variable(SCRIPT, self.path("script")),
            variable(LOG, self.path("log")),
            (MARK.into(), self.mark.clone().into()),
        ];
        if self.has_key {
            variables.push(("AOT_TEST_KEY".into(), "a key".into()));
        }
        let folder = self.path("work");
        let (report, kept) = launcher.ask(&Question {
            variables,
            idle: self.idle,
            repeats: self.again,
            transcript: "A1-1".into(),
            listener: &listener,
            ..Question::new(&agent, &brief, &read, &folder, self.wall, &self.switch)
        });
        assert_eq!(kept, None);
        assert_eq!(alive(&self.mark), Vec::<String>::new(), "nobody is left");
        Ended {
            report,
            log: self.log(),
            doing: doing.into_inner().expect("nobody panics"),
            said: said.into_inner().expect("nobody panics"),
            used: used.into_inner().expect("nobody panics"),
        }
    }

    fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Ended {
    /// The parameters of every message with this method.
    fn heard(&self, method: &str) -> Vec<&Value> {
        self.log
            .iter()
            .filter(|message| message["method"] == method)
            .map(|message| &message["params"])
            .collect()
    }

    fn prompts(&self) -> Vec<&str> {
        self.heard("session/prompt")
            .into_iter()
            .map(|params| params["prompt"][0]["text"].as_str().expect("a text"))
            .collect()
    }
}

fn profile() -> Profile {
    let text = "kind = 'acp'\nprogram = 'scripted'\nprice = { input = 1.0, output = 10.0 }\n[trouble]\n\
                limited = ['(?i)rate.?limit', 'retry after (?<seconds>\\d+)']\nunreachable = ['ECONNREFUSED']\n\
                unauthenticated = ['please log in']\n\
                [login.methods]\nAOT_TEST_KEY = 'key'\nAOT_TEST_OTHER = 'nothing'\n";
    let table = text.parse().expect("TOML");
    Profile::named("scripted", Some(&table)).expect("a table").expect("a profile")
}

fn brief(role: Role) -> Brief {
    let schema = match role {
        Role::Probe => ProbeAnswer::schema(),
        Role::Worker => WorkerAnswer::schema(),
        Role::Judge => JudgeAnswer::schema(&Quality {
            criteria: Some("it is short".into()),
            rubric: Vec::new(),
            pass_threshold: 3.0,
            scope: None,
        }),
        Role::Coordinator => plan_change_schema(),
    };
    Brief { role, atom: None, text: "# The brief\n".into(), schema, cut: Vec::new() }
}

/// Every living process whose environment holds this mark, save our own tests.
fn alive(mark: &str) -> Vec<String> {
    let mark = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("this is Linux").flatten() {
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&words).replace('\0', " "));
        }
    }
    found
}

/// Greets, and opens a session that says this of itself.
fn hello(session: Value) -> Vec<Value> {
    let mut opened = json!({"sessionId": "s"});
    opened.as_object_mut().expect("an object").extend(session.as_object().expect("an object").clone());
    vec![
        json!({"expect": "initialize"}),
        json!({"reply": {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": [
            {"id": "key", "name": "An API key", "description": null}
        ]}}),
        json!({"expect": "session/new"}),
        json!({"reply": opened}),
    ]
}

fn prompted(steps: impl IntoIterator<Item = Value>) -> Vec<Value> {
    [json!({"expect": "session/prompt"})].into_iter().chain(steps).collect()
}

fn end(reason: &str) -> Value {
    json!({"reply": {"stopReason": reason}})
}

fn solved() -> Value {
    json!({"success": true, "summary": "done", "artifacts": ["a"], "reason": null, "too_large": null})
}

/// Without its fields that may be null.
fn handed_in() -> Value {
    json!({"submit": {"success": true, "summary": "done", "artifacts": ["a"]}})
}

fn after_hello(role: Role, steps: Vec<Value>) -> Case {
    Case::new(role, hello(json!({})).into_iter().chain(steps))
}

#[test]
fn a_worker_hands_in_its_answer() {
    let modes = json!({"modes": {"currentModeId": "default", "availableModes": [
        {"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan Mode"}, {"id": "acceptEdits", "name": "Accept edits"},
    ]}});
    let mut steps = hello(modes);
    steps.extend([json!({"expect": "session/set_mode"}), json!({"reply": {}})]);
    steps.extend(prompted([
        json!({"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "I begin."}}}),
        json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Write a", "kind": "edit", "status": "pending"}}),
        json!({"update": {"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "failed", "content": [
            {"type": "content", "content": {"type": "text", "text": "no such folder"}}
        ]}}),
        json!({"update": {"sessionUpdate": "usage_update", "used": 50, "size": 1000, "cost": {"amount": 0.25, "currency": "USD"}}}),
        json!({"update": {"sessionUpdate": "something_new", "and": "strange"}}),
        json!({"complain": "a warning"}),
        handed_in(),
        json!({"reply": {"stopReason": "end_turn", "usage": {"totalTokens": 120, "inputTokens": 100, "outputTokens": 20}}}),
    ]));
    let case = Case::new(Role::Worker, steps);
    let ended = case.run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
    assert_eq!(
        (ended.report.asked, ended.report.used),
        (1, AgentUsage { tokens: 120, cost_usd: Some(0.25) })
    );
    assert_eq!(
        ended.used,
        [AgentUsage { tokens: 50, cost_usd: Some(0.25) }, AgentUsage { tokens: 120, cost_usd: Some(0.25) }]
    );
    assert_eq!(ended.doing, ["I begin.", "Write a"]);
    for line in ["[mode: acceptEdits]\n", "[failed: no such folder]\n", "a warning\n"] {
        assert!(ended.said.contains(line), "{line}: {}", ended.said);
    }

    let hello = ended.heard("initialize")[0];
    assert_eq!(hello["protocolVersion"], 1);
    let offered = hello["clientCapabilities"].to_string();
    assert!(!offered.contains("true"), "we offer nothing: {offered}");
    let session = ended.heard("session/new")[0];
    assert_eq!(Path::new(session["cwd"].as_str().expect("a path")), case.path("work"));
    assert_eq!(session["mcpServers"].as_array().expect("a list").len(), 1);
    assert_eq!(session["mcpServers"][0]["args"][0], "__submit");
    assert_eq!(ended.heard("session/set_mode")[0]["modeId"], "acceptEdits");
    let prompts = ended.prompts();
    assert!(prompts[0].starts_with("# The brief\n") && prompts[0].contains("`submit_result`"), "{prompts:?}");
    assert_eq!(prompts.len(), 1);
}

#[test]
fn the_mode_fits_the_role() {
    let named = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"id": name, "name": name})).collect()
    };
    let modes = |current: &str, names: &[&str]| json!({"modes": {"currentModeId": current, "availableModes": named(names)}});
    let claude = ["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];
    let codex = ["read-only", "auto", "full-access"];
    let gemini = ["default", "autoEdit", "yolo", "plan"];
    let addresses = ["https://x.org/modes#agent", "https://x.org/modes#plan", "https://x.org/modes#yolo"];
    let option = |current: &str, names: &[&str]| {
        let values: Vec<Value> = names.iter().map(|name| json!({"value": name, "name": name})).collect();
        let option = json!({"id": "m", "name": "Mode", "category": "mode", "type": "select", "currentValue": current, "options": values});
        let model = json!({"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "plan", "options": []});
        json!({"configOptions": [model, option]})
    };
    for (role, session, method, expected) in [
        (Role::Worker, modes("default", &claude), "session/set_mode", json!({"modeId": "bypassPermissions"})),
        (Role::Probe, modes("default", &claude), "session/set_mode", json!({"modeId": "plan"})),
        (Role::Judge, modes("auto", &codex), "session/set_mode", json!({"modeId": "read-only"})),
        (Role::Worker, modes("auto", &codex), "session/set_mode", json!({"modeId": "full-access"})),
        (Role::Coordinator, modes("default", &gemini), "session/set_mode", json!({"modeId": "plan"})),
        (Role::Worker, modes("default", &gemini), "session/set_mode", json!({"modeId": "yolo"})),
        (Role::Worker, modes("x", &addresses), "session/set_mode", json!({"modeId": addresses[2]})),
        (
            Role::Probe,
            option("build", &["build", "plan"]),
            "session/set_config_option",
            json!({"configId": "m", "value": "plan"}),
        ),
        (Role::Probe, modes("plan", &["build", "plan"]), "none", json!(null)),
        (Role::Worker, modes("build", &["build", "plan"]), "none", json!(null)),
        (Role::Probe, modes("x", &["x", "y"]), "none", json!(null)),
        (Role::Probe, option("plan", &["plan"]), "none", json!(null)),
        (Role::Probe, json!({}), "none", json!(null)),
    ] {
        let what = format!("{role:?} in {session}");
        let mut steps = hello(session);
        if method != "none" {
            let reply = if method == "session/set_mode" { json!({}) } else { json!({"configOptions": []}) };
            steps.extend([json!({"expect": method}), json!({"reply": reply})]);
        }
        steps.extend(prompted([end("refusal")]));
        let ended = Case::new(role, steps).run();
        assert_eq!(
            ended.report.outcome,
            AgentOutcome::Failed { reason: "it refused to go on".into() },
            "{what}"
        );
        let set: Vec<_> = ended
            .log
            .iter()
            .filter(|message| message["method"].as_str().is_some_and(|m| m.contains("/set_")))
            .collect();
        assert_eq!(set.len(), usize::from(method != "none"), "{what}: {set:?}");
        for (name, value) in expected.as_object().into_iter().flatten() {
            assert_eq!(set[0]["params"][name], *value, "{what}");
        }
    }
}

/// A mode that is refused is no reason to give up: what holds is the cage.
#[test]
fn a_mode_that_is_refused_is_told() {
    let modes = json!({"modes": {"currentModeId": "a", "availableModes": [{"id": "yolo", "name": "YOLO"}]}});
    let mut steps = hello(modes);
    steps.extend([
        json!({"expect": "session/set_mode"}),
        json!({"fail": {"code": -32603, "message": "not as root"}}),
    ]);
    steps.extend(prompted([handed_in(), end("end_turn")]));
    let ended = Case::new(Role::Worker, steps).run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
    assert!(ended.said.contains("[mode: yolo was refused: not as root]"), "{}", ended.said);
}

#[test]
fn whoever_gives_no_valid_answer_is_asked_again_with_the_reason() {
    let wrong = json!({"submit": {"success": true, "summary": "", "artifacts": []}});
    let steps = [
        prompted([end("end_turn")]),
        prompted([wrong.clone(), wrong.clone(), wrong.clone(), wrong.clone(), end("end_turn")]),
        prompted([wrong.clone(), handed_in(), end("end_turn")]),
    ];
    let ended = after_hello(Role::Worker, steps.concat()).run();
    assert_eq!((&ended.report.outcome, ended.report.asked), (&AgentOutcome::Answer(solved()), 3));
    let prompts = ended.prompts();
    assert!(prompts[1].contains("the tool `submit_result` was not called"), "{}", prompts[1]);
    assert!(prompts[2].contains("`summary`: it is empty"), "{}", prompts[2]);
    assert!(!prompts[1].contains("# The brief"), "the session knows it already: {}", prompts[1]);
    let submitted: Vec<&Value> =
        ended.log.iter().map(|line| &line["submitted"]).filter(|line| line.is_object()).collect();
    let taken: Vec<bool> = submitted.iter().map(|result| result["isError"] == false).collect();
    assert_eq!(taken, [false, false, false, false, false, true]);
    assert!(submitted[3]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("No more")));
}

#[test]
fn after_two_repetitions_it_is_wrong() {
    let turns = |count: usize| vec![prompted([handed_in(), end("end_turn")]); count].concat();
    for (again, asked) in [(0, 1), (1, 2), (2, 3)] {
        let mut case = after_hello(Role::Worker, turns(3));
        case.again = again;
        case.refused = Some("`artifacts[0]`: it is not there");
        let ended = case.run();
        let wrong = AgentOutcome::InvalidAnswer { reason: "`artifacts[0]`: it is not there".into() };
        assert_eq!((ended.report.outcome, ended.report.asked), (wrong, asked));
        assert!(ended.report.used.tokens == 0 && ended.report.used.cost_usd == Some(0.0));
    }
}

#[test]
fn a_turn_that_was_given_up_is_a_failure_unless_there_is_an_answer() {
    for reason in ["refusal", "max_tokens", "max_turn_requests", "cancelled"] {
        let ended = after_hello(Role::Worker, prompted([end(reason)])).run();
        assert!(matches!(ended.report.outcome, AgentOutcome::Failed { .. }), "{reason}: {:?}", ended.report);
        assert_eq!(ended.report.asked, 1);
        let ended = after_hello(Role::Worker, prompted([handed_in(), end(reason)])).run();
        assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()), "{reason}");
    }
}

#[test]
fn troubles_are_told_apart() {
    let fail = |code: i32, message: &str, data: Value| json!({"fail": {"code": code, "message": message, "data": data}});
    let limited = |reason: &str, seconds: Option<u64>| AgentOutcome::RateLimited {
        reason: reason.into(),
        retry_after: seconds.map(Duration::from_secs),
    };
    for (fail, expected) in [
        (
            fail(-32000, "Authentication required", Value::Null),
            AgentOutcome::Unauthenticated {
                reason: "Authentication required (it offers: An API key)".into(),
            },
        ),
        (
            fail(-32603, "Internal error", json!({"details": "rate limit, retry after 7"})),
            limited("rate limit, retry after 7", Some(7)),
        ),
        (
            fail(-32603, "connect ECONNREFUSED", Value::Null),
            AgentOutcome::Unreachable { reason: "connect ECONNREFUSED".into() },
        ),
        (
            fail(-32603, "please log in first", Value::Null),
            AgentOutcome::Unauthenticated { reason: "please log in first".into() },
        ),
        (
            fail(-32603, "Internal error", json!("disk full")),
            AgentOutcome::Failed { reason: "it failed: Internal error: disk full".into() },
        ),
        (fail(17, "what", Value::Null), AgentOutcome::Failed { reason: "it failed: what".into() }),
    ] {
        let ended = after_hello(Role::Worker, prompted([fail.clone()])).run();
        assert_eq!(ended.report.outcome, expected, "{fail}");
        // The same at the beginning.
        let steps = hello(json!({})).into_iter().take(3).chain([fail.clone()]);
        let ended = Case::new(Role::Worker, steps).run();
        assert_eq!((&ended.report.outcome, ended.report.asked), (&expected, 0), "{fail}");
    }
    // What the model itself says is not searched for troubles: it may be about rate limits.
    let words = json!({"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "The rate limit is built."}}});
    let steps = [prompted([words, end("end_turn")]), prompted([handed_in(), end("end_turn")])].concat();
    let ended = after_hello(Role::Worker, steps).run();
    assert_eq!((ended.report.outcome, ended.report.asked), (AgentOutcome::Answer(solved()), 2));
    // An answer is an answer.
    let ended =
        after_hello(Role::Worker, prompted([handed_in(), fail(-32603, "rate limit", Value::Null)])).run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
}

#[test]
fn whoever_breaks_has_failed_unless_it_had_answered() {
    let crash = [json!({"complain": "first\nout of memory"}), json!({"exit": 9})];
    let expected = AgentOutcome::Failed { reason: "it ended with exit code 9: out of memory".into() };
    let begun = hello(json!({}));
    for steps in [
        crash.to_vec(),
        [&begun[..1], &crash].concat(),
        [&begun[..3], &crash].concat(),
        [begun.clone(), prompted(crash.clone())].concat(),
        // Before the end of its input it ends by itself.
        [begun.clone(), prompted([end("end_turn")]), crash.to_vec()].concat(),
    ] {
        let ended = Case::new(Role::Worker, steps.clone()).run();
        assert_eq!(ended.report.outcome, expected, "{steps:?}");
    }
    let ended = after_hello(Role::Worker, prompted([handed_in(), json!({"exit": 9})])).run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
    let limited = [json!({"complain": "rate limit"}), json!({"exit": 1})];
    let ended = after_hello(Role::Worker, prompted(limited)).run();
    assert_eq!(
        ended.report.outcome,
        AgentOutcome::RateLimited { reason: "rate limit".into(), retry_after: None }
    );
}

#[test]
fn garbage_between_messages_is_passed_over() {
    let steps = prompted([
        json!({"print": "npm notice: a new version"}),
        json!({"print": "{ this is no JSON"}),
        json!({"print": "[]"}),
        json!({"print": "{\"jsonrpc\": \"2.0\"}"}),
        json!({"print": "{\"jsonrpc\": \"2.0\", \"id\": 77, \"result\": {}}"}),
        json!({"print": "{\"jsonrpc\": \"2.0\", \"method\": \"session/update\", \"params\": {\"sessionId\": 5}}"}),
        json!({"print": "\u{1b}[31mred\u{1b}[0m \u{fffd}"}),
        json!({"ask": {"method": "fs/write_text_file", "params": {"sessionId": "s", "path": "/etc/passwd", "content": ""}}}),
        json!({"ask": {"method": "terminal/create", "params": {"sessionId": "s", "command": "sh"}}}),
        json!({"ask": {"method": "_own/thing", "params": {}}}),
        json!({"ask": {"method": "session/request_permission", "params": {"nonsense": true}}}),
        handed_in(),
        end("end_turn"),
    ]);
    let ended = after_hello(Role::Worker, steps).run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
    let refused: Vec<&Value> =
        ended.log.iter().map(|line| &line["error"]["code"]).filter(|code| code.is_number()).collect();
    // What is no message may be answered too, without a number.
    let numbered: Vec<&Value> =
        ended.log.iter().filter(|line| line["id"].as_u64().is_some_and(|id| id > 1000)).collect();
    assert_eq!(numbered.len(), 4, "{refused:?}");
    assert!(numbered.iter().all(|line| line["error"].is_object()), "{numbered:?}");
    assert!(ended.said.contains("npm notice: a new version\n"), "{}", ended.said);
}

/// Much more than is kept waiting: the agent has to wait, and nobody waits forever.
#[test]
fn a_flood_of_messages_comes_through_whole() {
    let flood = [
        json!({"updates": 20_000}),
        json!({"complain": "noise\n".repeat(20_000)}),
        json!({"updates": 20_000}),
    ];
    let steps = prompted(flood.into_iter().chain([handed_in(), end("end_turn")]));
    let ended = after_hello(Role::Worker, steps).run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
    assert_eq!(ended.said.matches('x').count(), 40_000);
    assert_eq!(ended.said.matches("noise").count(), 20_000);
}

#[test]
fn whoever_floods_can_be_killed() {
    let update = json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": BUSY}});
    let mut case = after_hello(Role::Worker, prompted([update, json!({"updates": u64::MAX})]));
    case.killed = true;
    assert_eq!(case.run().report.outcome, AgentOutcome::Killed);
}

#[test]
fn a_message_without_an_end_is_a_failure() {
    let steps = prompted([json!({"flood": 20 << 20}), json!({"expect": "nothing"})]);
    let ended = after_hello(Role::Worker, steps).run();
    let AgentOutcome::Failed { reason } = &ended.report.outcome else { panic!("{:?}", ended.report) };
    assert!(reason.contains("a message that has no end"), "{reason}");
}

#[test]
fn permissions_go_by_what_a_tool_does_and_what_an_option_means() {
    let options = |kinds: &[&str]| -> Value {
        // Names that say the opposite: they mean nothing.
        let named = kinds.iter().enumerate().map(|(n, kind)| {
            let name = if kind.starts_with("allow") { "reject" } else { "allow" };
            json!({"optionId": format!("{name}-{n}"), "name": name, "kind": kind})
        });
        named.collect()
    };
    let all = ["reject_always", "allow_always", "allow_once", "reject_once"];
    let (readers, worker) = ([Role::Probe, Role::Judge, Role::Coordinator], [Role::Worker]);
    let ours = json!({"toolCallId": "t", "title": "aot: submit_result", "kind": "other"});
    let tool = |kind: &str| json!({"toolCallId": "t", "title": "submit_result; rm -rf /", "kind": kind});
    let plain = |kind: &str| json!({"toolCallId": "t", "title": "x", "kind": kind});
    let mut cases: Vec<(&[Role], Value, Value, Option<usize>)> = Vec::new();
    cases.push((&[Role::Judge], tool("execute"), options(&all), Some(2)));
    cases.push((&[Role::Probe, Role::Coordinator], tool("execute"), options(&all), Some(3)));
    for kind in ["edit", "delete", "move", "switch_mode"] {
        cases.push((&readers[..], tool(kind), options(&all), Some(3)));
        cases.push((&worker[..], tool(kind), options(&all), Some(2)));
    }
    for kind in ["read", "search", "think", "fetch"] {
        cases.push((&readers[..], plain(kind), options(&all), Some(2)));
    }
    cases.push((&readers[..], plain("other"), options(&all), Some(3)));
    cases.push((&readers[..], plain("of the future"), options(&all), Some(3)));
    cases.push((&readers[..], ours.clone(), options(&all), Some(2)));
    // A title that came before, and is not repeated.
    cases.push((&readers[..], json!({"toolCallId": "known"}), options(&all), Some(2)));
    cases.push((&readers[..], json!({"toolCallId": "written"}), options(&all), Some(3)));
    cases.push((&worker[..], plain("edit"), options(&["reject_once", "allow_always"]), Some(1)));
    cases.push((&readers[..], plain("edit"), options(&["allow_once", "reject_always"]), Some(1)));
    cases.push((&readers[..], plain("edit"), options(&["allow_once", "allow_always"]), None));
    cases.push((&worker[..], plain("edit"), options(&["reject_once"]), None));
    let roles = readers.iter().chain(&worker);
    for role in roles {
        let mine: Vec<_> = cases.iter().filter(|(roles, ..)| roles.contains(role)).collect();
        let known = |id: &str, kind: &str, title: &str| json!({"update": {"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": kind}});
        let mut steps = vec![
            known("known", "other", "mcp__aot__submit_result"),
            known("written", "edit", "submit_result"),
        ];
        steps.extend(mine.iter().map(|(_, tool, options, _)| {
            let params = json!({"sessionId": "s", "toolCall": tool, "options": options});
            json!({"ask": {"method": "session/request_permission", "params": params}})
        }));
        steps.push(end("refusal"));
        let ended = after_hello(*role, prompted(steps)).run();
        let answers: Vec<&Value> =
            ended.log.iter().map(|line| &line["result"]["outcome"]).filter(|line| line.is_object()).collect();
        assert_eq!(answers.len(), mine.len(), "{role:?}");
        for ((_, tool, options, chosen), answer) in mine.iter().zip(answers) {
            let expected = match chosen {
                Some(n) => json!({"outcome": "selected", "optionId": options[n]["optionId"]}),
                None => json!({"outcome": "cancelled"}),
            };
            assert_eq!(*answer, expected, "{role:?}: {tool} of {options}");
        }
    }
}

/// In the middle of a tool: somebody in a session of its own who does not listen to signals.
fn busy() -> Vec<Value> {
    let child = "trap '' TERM HUP INT; echo up; sleep 1000; sleep 1000";
    vec![
        json!({"child": child}),
        json!({"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": BUSY}}),
    ]
}

#[test]
fn whoever_is_killed_leaves_nobody() {
    let mut steps = busy();
    steps.push(json!({"expect": "nothing"}));
    let mut case = after_hello(Role::Worker, prompted(steps));
    case.killed = true;
    assert_eq!(case.run().report.outcome, AgentOutcome::Killed);
}

/// A hundred milliseconds may be too short for a busy machine to hear and to write down what it heard, once or twice.
#[test]
fn whoever_is_killed_is_cancelled_first() {
    for attempt in 0.. {
        let mut steps = busy();
        steps.extend([json!({"expect": "session/cancel"}), end("cancelled")]);
        let mut case = after_hello(Role::Worker, prompted(steps));
        case.killed = true;
        let ended = case.run();
        assert_eq!(ended.report.outcome, AgentOutcome::Killed);
        if !ended.heard("session/cancel").is_empty() {
            return;
        }
        assert!(attempt < 50, "it was never told to stop");
    }
}

#[test]
fn whoever_is_late_is_cancelled_and_ended() {
    for attempt in 0.. {
        let mut case = after_hello(Role::Worker, prompted([json!({"expect": "nothing"})]));
        case.wall = Duration::from_millis(1500);
        let ended = case.run();
        assert_eq!(ended.report.outcome, AgentOutcome::TimedOut { reason: "its time was over".into() });
        if !ended.heard("session/cancel").is_empty() {
            break;
        }
        assert!(attempt < 20, "it was never told to stop");
    }
    // Its own complaints say why.
    for attempt in 0.. {
        let steps = prompted([json!({"complain": "rate limit, trying again"}), json!({"expect": "nothing"})]);
        let mut case = after_hello(Role::Worker, steps);
        case.wall = Duration::from_millis(1500);
        let ended = case.run();
        if let AgentOutcome::RateLimited { .. } = ended.report.outcome {
            break;
        }
        assert!(attempt < 20, "{:?}", ended.report);
    }
}

#[test]
fn whoever_is_silent_is_ended() {
    let mut case = Case::new(Role::Worker, [json!({"expect": "nothing"})]);
    case.idle = Some(Duration::from_millis(300));
    assert!(matches!(case.run().report.outcome, AgentOutcome::TimedOut { .. }));
}

#[test]
fn whoever_cannot_be_talked_to_is_told_apart() {
    let mut case = Case::new(Role::Worker, []);
    case.program = "/no/such/agent".into();
    let ended = case.run();
    assert!(
        matches!(&ended.report.outcome, AgentOutcome::Unusable { reason } if reason.contains("No such file")),
        "{:?}",
        ended.report
    );

    let case = Case::new(Role::Worker, []);
    case.switch.turn_off();
    assert_eq!(case.run().report.outcome, AgentOutcome::Killed);

    let newer = [json!({"expect": "initialize"}), json!({"reply": {"protocolVersion": 7}})];
    let ended = Case::new(Role::Worker, newer).run();
    assert!(
        matches!(&ended.report.outcome, AgentOutcome::Failed { reason } if reason.contains("version 7")),
        "{:?}",
        ended.report
    );
}

#[test]
fn a_model_is_what_was_wished_for_or_none() {
    let select = |id: &str, category: &str, current: &str, values: &[&str]| {
        let values: Vec<Value> =
            values.iter().map(|value| json!({"value": value, "name": value.to_uppercase()})).collect();
        json!({"id": id, "name": id, "category": category, "type": "select", "currentValue": current, "options": values})
    };
    let models = json!({"configOptions": [select("x", "mode", "big", &["big", "small"]), select("m", "model", "big", &["big", "small"])]});
    for (model, session, expected) in [
        ("small", &models, Ok(Some("small"))),
        ("SMALL", &models, Ok(Some("small"))),
        ("big", &models, Ok(None)),
        ("huge", &models, Err("it does not offer the model `huge`, but big, small")),
        ("small", &json!({}), Err("it cannot be told to use the model `small`")),
    ] {
        let mut steps = hello(session.clone());
        if let Ok(Some(_)) = expected {
            steps.extend([
                json!({"expect": "session/set_config_option"}),
                json!({"reply": {"configOptions": []}}),
            ]);
        }
        steps.extend(prompted([handed_in(), end("end_turn")]));
        let mut case = Case::new(Role::Worker, steps);
        case.model = Some(model.to_owned());
        let ended = case.run();
        let set: Vec<&Value> =
            ended.heard("session/set_config_option").iter().map(|params| &params["value"]).collect();
        match expected {
            Ok(value) => {
                assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()), "{model} of {session}");
                assert_eq!(set, Vec::from_iter(value), "{model} of {session}");
            }
            Err(reason) => {
                assert_eq!(
                    ended.report.outcome,
                    AgentOutcome::Unusable { reason: reason.into() },
                    "{model} of {session}"
                );
                assert!(ended.prompts().is_empty(), "{model} of {session}");
            }
        }
    }
}

/// Some want to be told that they are logged in by the key that they have.
#[test]
fn whoever_has_a_key_is_told_to_use_it() {
    let refused = json!({"fail": {"code": -32000, "message": "Authentication required"}});
    let begun = hello(json!({}));
    let told = [json!({"expect": "authenticate"}), json!({"reply": {}})];
    let steps = [
        &begun[..3],
        std::slice::from_ref(&refused),
        &told,
        &begun[2..],
        &prompted([handed_in(), end("end_turn")]),
    ];
    let mut case = Case::new(Role::Worker, steps.concat());
    case.has_key = true;
    let ended = case.run();
    assert_eq!(ended.report.outcome, AgentOutcome::Answer(solved()));
    assert_eq!(ended.heard("authenticate"), [&json!({"methodId": "key"})]);

    let unauthenticated = |said: &AgentOutcome| matches!(said, AgentOutcome::Unauthenticated { .. });
    let ended = Case::new(Role::Worker, [&begun[..3], std::slice::from_ref(&refused)].concat()).run();
    assert!(
        unauthenticated(&ended.report.outcome) && ended.heard("authenticate").is_empty(),
        "{:?}",
        ended.report
    );
    for again in [
        [&told[..1], std::slice::from_ref(&refused)].concat(),
        [&told[..], &begun[2..3], std::slice::from_ref(&refused)].concat(),
    ] {
        let mut case =
            Case::new(Role::Worker, [&begun[..3], std::slice::from_ref(&refused), &again].concat());
        case.has_key = true;
        let ended = case.run();
        assert!(unauthenticated(&ended.report.outcome), "{again:?}: {:?}", ended.report);
    }
}
