//! A client that speaks the protocol line by line, written without the crate that the server uses.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::repo::{LONG, Repo};

pub struct Client {
    pub child: Child,
    lines: Receiver<String>,
    /// Answers that came before they were wanted.
    heard: Vec<Value>,
    next: u64,
}

impl Client {
    /// A server that nobody has greeted.
    pub fn silent(repo: &Repo, dress: impl FnOnce(&mut Command)) -> Client {
        let mut command = repo.command(&["mcp"]);
        dress(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("it starts");
        let (sender, lines) = channel();
        let out = child.stdout.take().expect("it was asked for");
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Client { child, lines, heard: Vec::new(), next: 0 }
    }

    pub fn with(repo: &Repo, dress: impl FnOnce(&mut Command)) -> Client {
        let mut client = Client::silent(repo, dress);
        client.greet();
        client
    }

    pub fn of(repo: &Repo) -> Client {
        Client::with(repo, |_| {})
    }

    pub fn greet(&mut self) -> Value {
        let who = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who});
        let answer = self.ask("initialize", hello);
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        answer
    }

    pub fn say(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it was asked for");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("it listens");
    }

    /// Asks and does not wait; the number of the request.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The answer to a request, with its result or its error.
    pub fn answer(&mut self, id: u64) -> Value {
        let began = Instant::now();
        loop {
            if let Some(at) = self.heard.iter().position(|answer| answer["id"] == id) {
                return self.heard.remove(at);
            }
            match self.lines.recv_timeout(LONG.saturating_sub(began.elapsed())) {
                // Nothing but the protocol stands on standard output.
                Ok(line) => self.heard.push(serde_json::from_str(&line).expect("a line of JSON")),
                Err(error) => panic!("no answer to {id}: {error}"),
            }
        }
    }

    /// Whether an answer to this request has come, or comes in a moment.
    pub fn is_answered(&mut self, id: u64, patience: Duration) -> bool {
        let began = Instant::now();
        loop {
            if self.heard.iter().any(|answer| answer["id"] == id) {
                return true;
            }
            match self.lines.recv_timeout(patience.saturating_sub(began.elapsed())) {
                Ok(line) => self.heard.push(serde_json::from_str(&line).expect("a line of JSON")),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// The next notification of this kind.
    pub fn notification(&mut self, method: &str) -> Value {
        let began = Instant::now();
        loop {
            if let Some(at) = self.heard.iter().position(|told| told["method"] == method) {
                return self.heard.remove(at);
            }
            match self.lines.recv_timeout(LONG.saturating_sub(began.elapsed())) {
                Ok(line) => self.heard.push(serde_json::from_str(&line).expect("a line of JSON")),
                Err(error) => panic!("no {method}: {error}"),
            }
        }
    }

    pub fn has_heard(&self, method: &str) -> bool {
        self.heard.iter().any(|told| told["method"] == method)
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub fn call_later(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The object of a call that worked.
    pub fn done(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let object = result["structuredContent"].clone();
        if tool != "graph" {
            assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), object, "{tool}");
        }
        object
    }

    /// The text of a call that did not.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> (String, String) {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
        let code = result["structuredContent"]["error"]["code"].as_str().unwrap_or_default().to_owned();
        (code, text)
    }

    /// No more is asked: its exit code.
    pub fn end(mut self) -> i32 {
        drop(self.child.stdin.take());
        self.gone()
    }

    pub fn gone(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < LONG, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A test that failed leaves no server behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
