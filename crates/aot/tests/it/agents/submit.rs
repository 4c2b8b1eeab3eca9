//! Real conversations with the server that takes answers.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use aot_core::brief::{ANSWER_LIMIT, ProbeAnswer, Role};
use aot_runner::agents::submit::{AnswerFiles, MOST_REFUSED, Submission};
use serde_json::{Value, json};

/// Nothing here takes this long unless it hangs.
const LONG: Duration = Duration::from_secs(60);

struct Server {
    process: Child,
    input: Option<ChildStdin>,
    said: Receiver<String>,
    next: u64,
}

impl Server {
    fn start(answer_files: &AnswerFiles) -> Server {
        Server::with(&answer_files.arguments().map(|word| word.into_string().expect("a plain path")))
    }

    fn with(words: &[String]) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_aot"))
            .args(words)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, said) = mpsc::channel();
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Server { input: process.stdin.take(), process, said, next: 0 }
    }

    fn say(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(format!("{text}\n").as_bytes()).expect("it listens");
    }

    fn heard(&self) -> Value {
        let line = self.said.recv_timeout(LONG).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let answer = self.heard();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn greet(&mut self) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = self.ask("initialize", hello);
        self.say(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
        answer["result"].clone()
    }

    /// Whether it was taken, and what was said.
    fn submit(&mut self, answer: Value) -> (bool, String) {
        let answer = self.ask("tools/call", json!({"name": "submit_result", "arguments": answer}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (result["isError"] == false, text.to_owned())
    }

    /// Closes its input, and waits for it.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let code = self.process.wait().expect("it is ours").code();
            let mut errors = String::new();
            self.process.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("a text");
            // Nobody waits any more if this comes too late.
            let _ = sender.send((code, errors));
        });
        ended.recv_timeout(LONG).expect("it ends with its input")
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn answer_files(folder: &Path) -> AnswerFiles {
    AnswerFiles::make(folder, Some(Role::Probe), &ProbeAnswer::schema()).expect("it can be written")
}

fn good(findings: &str) -> Value {
    json!({"feasible": true, "findings": findings, "cost_estimate": "tiny"})
}

/// With its role's own rule broken: the schema knows nothing of empty texts.
fn bad() -> Value {
    json!({"feasible": true, "findings": ""})
}

const EMPTY: &str = "`findings`: it is empty; wanted: a text";

fn refused(attempts: u32) -> Option<Submission> {
    Some(Submission::Refused { reason: EMPTY.into(), attempts })
}

#[test]
fn one_tool_is_offered_and_takes_the_last_valid_answer() {
    let folder = folder();
    let answer_files = answer_files(folder.path());
    let mut server = Server::start(&answer_files);
    let greeting = server.greet();
    assert_eq!(greeting["protocolVersion"], "2025-06-18");
    assert_eq!(greeting["serverInfo"]["name"], "aot");
    let tools = server.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().expect("a list");
    assert_eq!(tools.len(), 1, "{tools:?}");
    assert_eq!(tools[0]["name"], "submit_result");
    assert_eq!(tools[0]["inputSchema"], ProbeAnswer::schema());
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);

    assert_eq!(server.submit(good("one")), (true, "Received.".into()));
    assert_eq!(server.submit(good("two")), (true, "Received.".into()));
    let (taken, said) = server.submit(bad());
    assert!(!taken && said.starts_with(EMPTY) && said.ends_with("the one before stands."), "{said}");
    assert_eq!(answer_files.take().expect("it can be read"), Some(Submission::Accepted(good("two"))));
    assert_eq!(answer_files.take().expect("it can be read"), None);
    // What may be null may be left out, and comes as null.
    assert!(server.submit(json!({"feasible": false, "findings": "no"})).0);
    let expected = json!({"feasible": false, "findings": "no", "cost_estimate": null});
    assert_eq!(answer_files.take().expect("it can be read"), Some(Submission::Accepted(expected)));
    assert_eq!(server.end(), (Some(0), String::new()));
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["answer-schema.json"]);
}

#[test]
fn an_invalid_answer_is_told_why_and_the_third_is_the_last() {
    let folder = folder();
    let answer_files = answer_files(folder.path());
    let mut server = Server::start(&answer_files);
    server.greet();
    for _ in 1..MOST_REFUSED {
        let (taken, said) = server.submit(bad());
        assert!(!taken && said.starts_with(EMPTY), "{said}");
        assert!(said.contains("Correct this and call `submit_result` again"), "{said}");
    }
    // Another server for the same question goes on counting.
    assert_eq!(server.end().0, Some(0));
    let mut server = Server::start(&answer_files);
    server.greet();
    let (taken, said) = server.submit(bad());
    assert!(!taken && said.starts_with(EMPTY) && said.contains("No more answers are taken"), "{said}");
    let (taken, said) = server.submit(good("too late"));
    assert!(!taken && said.starts_with("No more answers are taken"), "{said}");
    assert_eq!(answer_files.take().expect("it can be read"), refused(MOST_REFUSED));
    // A new question is a new beginning.
    assert!(!server.submit(bad()).0);
    assert!(server.submit(good("corrected")).0);
    assert_eq!(answer_files.take().expect("it can be read"), Some(Submission::Accepted(good("corrected"))));
    assert!(!server.submit(bad()).0);
    assert_eq!(answer_files.take().expect("it can be read"), refused(1));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_role_adds_its_rules_and_none_adds_none() {
    let folder = folder();
    let answer_files =
        AnswerFiles::make(folder.path(), None, &ProbeAnswer::schema()).expect("it can be written");
    let mut server = Server::start(&answer_files);
    server.greet();
    assert!(server.submit(bad()).0);
    let (taken, said) = server.submit(json!({"feasible": "perhaps", "more": 1}));
    assert!(!taken, "{said}");
    for fault in
        ["`feasible`: found the text \"perhaps\"", "`findings`: it is missing", "`more`: there is no such"]
    {
        assert!(said.contains(fault), "{said}");
    }
    let long = good(&"x".repeat(ANSWER_LIMIT));
    let (taken, said) = server.submit(long);
    assert!(!taken && said.contains("wanted: at most"), "{said}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn garbage_is_no_end() {
    let folder = folder();
    let answer_files = answer_files(folder.path());
    let mut server = Server::start(&answer_files);
    server.say("this is no JSON {");
    server.say("\u{feff}\u{0}\u{1}");
    server.say("");
    server.greet();
    server.say("}}}} [[[[");
    server.say("[]");
    server.say(r#"{"jsonrpc": "2.0"}"#);
    server.say(r#"{"jsonrpc": "2.0", "method": "notifications/of-nobody"}"#);
    // What is JSON and no message may be answered, without a number.
    let mut answer = None;
    server.next += 1;
    let call = json!({"name": "submit_result", "arguments": good("heard")});
    server.say(
        &json!({"jsonrpc": "2.0", "id": server.next, "method": "tools/call", "params": call}).to_string(),
    );
    while answer.is_none() {
        let heard = server.heard();
        assert!(heard["id"].is_null() || heard["id"] == server.next, "{heard}");
        answer = (heard["id"] == server.next).then_some(heard);
    }
    assert_eq!(answer.expect("it came")["result"]["isError"], false);
    let unknown = server.ask("tools/call", json!({"name": "submit", "arguments": {}}));
    assert!(
        unknown["error"]["message"].as_str().is_some_and(|text| text.contains("only `submit_result`")),
        "{unknown}"
    );
    assert!(server.ask("no/such/method", json!({}))["error"].is_object());
    assert_eq!(answer_files.take().expect("it can be read"), Some(Submission::Accepted(good("heard"))));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn it_ends_with_its_input_whatever_was_said() {
    for beginning in ["", "half a line", "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\""] {
        let folder = folder();
        let mut server = Server::start(&answer_files(folder.path()));
        server.input.as_mut().expect("it is open").write_all(beginning.as_bytes()).expect("it listens");
        assert_eq!(server.end(), (Some(0), String::new()), "{beginning}");
    }
}

#[test]
fn what_it_cannot_serve_is_said() {
    let folder = folder();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("it can be written");
        path.to_string_lossy().into_owned()
    };
    let schema = file("schema", &ProbeAnswer::schema().to_string());
    for (words, expected) in [
        (vec![], "usage: __submit SCHEMA_FILE RESULT_FILE ROLE"),
        (vec![schema.clone(), "r".into(), "king".into()], "there is no such role"),
        (vec![file("none", "x"), "r".into(), "probe".into()], "the schema is no JSON"),
        (vec![file("list", "[]"), "r".into(), "probe".into()], "the schema is no object"),
        (vec![file("text", r#"{"type": "string"}"#), "r".into(), "probe".into()], "not that of an object"),
        (vec!["/no/such/file".into(), "r".into(), "probe".into()], "/no/such/file: No such file"),
    ] {
        let words: Vec<String> = std::iter::once("__submit".to_owned()).chain(words).collect();
        let (code, errors) = Server::with(&words).end();
        assert_eq!(code, Some(2), "{words:?}");
        assert!(errors.contains(expected), "{words:?}: {errors}");
    }
}

/// The agent can write where its answer is handed in. It can spoil that, and no more.
#[test]
fn what_is_in_the_answer_file_is_not_trusted() {
    let folder = folder();
    let answer_files = answer_files(folder.path());
    let path = folder.path().join("answer.json");
    let put: [(&str, &dyn Fn()); 4] = [
        ("cannot be read", &|| fs::write(&path, "{\"accepted\"").expect("it can be written")),
        ("is too long", &|| fs::write(&path, vec![b' '; 2 * ANSWER_LIMIT + 1]).expect("it can be written")),
        ("is no file", &|| {
            assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is here").success());
        }),
        ("symbolic", &|| std::os::unix::fs::symlink("/dev/zero", &path).expect("a link")),
    ];
    for (expected, put) in put {
        put();
        let said = answer_files.take().expect_err("it is refused").to_string();
        assert!(said.contains(expected), "{expected}: {said}");
        assert_eq!(answer_files.take().expect("it was cleared"), None, "{expected}");
    }
}
