//! An agent that speaks the protocol as a script tells it to: this test binary, started again. It is written without the
//! crate that the other side uses, so that both do not share a mistake.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Where the script stands, and where it writes down what it hears.
pub const SCRIPT: &str = "AOT_TEST_SCRIPT";
pub const LOG: &str = "AOT_TEST_LOG";

/// What makes the test binary this agent.
pub const WORDS: [&str; 5] = ["agents::scripted::agent", "--exact", "--ignored", "--nocapture", "-q"];

/// A step is an object with one key:
///
/// - `expect`: a method that must come next; other messages before it are only written down
/// - `reply`, `fail`: the result, or the error, of the last request
/// - `update`: something to tell about the session
/// - `updates`: so many pieces of a message, one after the other
/// - `ask`: a method and parameters; waits for the answer
/// - `submit`: arguments for our tool, over the server that the client named; the answer is written down
/// - `print`, `complain`: text for standard output and standard error
/// - `child`: a shell command for somebody in a session of its own, who says something when it is up
/// - `flood`: so many bytes without an end of line
/// - `exit`: the end, with this code
#[test]
#[ignore = "it is started by other tests"]
fn agent() {
    let script = fs::read(std::env::var_os(SCRIPT).expect("it is told what to do")).expect("a file");
    let script: Vec<Value> = serde_json::from_slice(&script).expect("a list");
    let mut agent = Agent { heard: VecDeque::new(), servers: Value::Null, last: Value::Null, next: 1000 };
    // What the test harness has printed has no end of line.
    say("");
    for step in script {
        let (name, argument) = step.as_object().expect("an object").iter().next().expect("one key");
        agent.perform(name, argument);
    }
    while agent.listen().is_some() {}
    std::process::exit(0);
}

struct Agent {
    heard: VecDeque<Value>,
    servers: Value,
    /// The number of the last request.
    last: Value,
    next: u64,
}

impl Agent {
    fn perform(&mut self, name: &str, argument: &Value) {
        match name {
            "expect" => self.expect(argument.as_str().expect("a method")),
            "reply" => say(&json!({"jsonrpc": "2.0", "id": self.last, "result": argument}).to_string()),
            "fail" => say(&json!({"jsonrpc": "2.0", "id": self.last, "error": argument}).to_string()),
            "update" => {
                let params = json!({"sessionId": "s", "update": argument});
                say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string());
            }
            "updates" => {
                let piece =
                    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
                for _ in 0..argument.as_u64().expect("a number") {
                    self.perform("update", &piece);
                }
            }
            "ask" => self.ask(argument),
            "submit" => self.submit(argument),
            "print" => say(argument.as_str().expect("a text")),
            "complain" => {
                writeln!(io::stderr(), "{}", argument.as_str().expect("a text")).expect("somebody listens");
            }
            "child" => {
                let command = argument.as_str().expect("a command");
                let child = Command::new("setsid").args(["sh", "-c", command]).stdout(Stdio::piped()).spawn();
                let said = child.expect("it starts").stdout.take().expect("it is piped");
                let mut up = String::new();
                BufReader::new(said).read_line(&mut up).expect("it is up");
            }
            "flood" => {
                let count = usize::try_from(argument.as_u64().expect("a number")).expect("it fits");
                // Nobody may listen to all of it.
                let _ = io::stdout().write_all(&vec![b'x'; count]);
            }
            "exit" => std::process::exit(
                argument.as_i64().and_then(|code| i32::try_from(code).ok()).expect("a code"),
            ),
            other => panic!("there is no step {other}"),
        }
    }

    fn expect(&mut self, method: &str) {
        loop {
            let Some(message) = self.heard.pop_front().or_else(|| self.listen()) else {
                std::process::exit(3)
            };
            if message["method"] != method {
                continue;
            }
            if message["method"] == "session/new" {
                self.servers = message["params"]["mcpServers"].clone();
            }
            if !message["id"].is_null() {
                self.last = message["id"].clone();
            }
            return;
        }
    }

    /// One message, which is written down.
    fn listen(&self) -> Option<Value> {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line).expect("a text") == 0 {
            return None;
        }
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        log(&message);
        Some(message)
    }

    fn ask(&mut self, argument: &Value) {
        self.next += 1;
        let (method, params) = (&argument["method"], &argument["params"]);
        say(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}).to_string());
        while let Some(message) = self.listen() {
            if message["id"] == self.next && message["method"].is_null() {
                return;
            }
            self.heard.push_back(message);
        }
        std::process::exit(3);
    }

    fn submit(&self, arguments: &Value) {
        let server = &self.servers[0];
        let words =
            server["args"].as_array().expect("a list").iter().map(|word| word.as_str().expect("a text"));
        let mut process = Command::new(server["command"].as_str().expect("a path"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut input = process.stdin.take().expect("it is piped");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let client = json!({"name": "scripted", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let call = json!({"name": "submit_result", "arguments": arguments});
        let mut answer = String::new();
        for (id, method, params) in [(1, "initialize", hello), (2, "tools/call", call)] {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            writeln!(input, "{request}").expect("it listens");
            answer.clear();
            output.read_line(&mut answer).expect("it answers");
            if id == 1 {
                writeln!(input, r#"{{"jsonrpc": "2.0", "method": "notifications/initialized"}}"#)
                    .expect("it listens");
            }
        }
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        log(&json!({"submitted": answer["result"]}));
        drop(input);
        process.wait().expect("it ends with its input");
    }
}

fn say(line: &str) {
    let mut output = io::stdout().lock();
    // Whoever asked may be gone.
    let _ = output.write_all(format!("{line}\n").as_bytes()).and_then(|()| output.flush());
}

fn log(message: &Value) {
    let path = std::env::var_os(LOG).expect("it is told where");
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("it can be written");
    file.write_all(format!("{message}\n").as_bytes()).expect("it can be written");
}
