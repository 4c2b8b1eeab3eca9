//! A model that says what a script tells it to, over HTTP on loopback, to any client that speaks Anthropic Messages,
//! OpenAI Responses, OpenAI Chat Completions or Gemini. One script drives all four. Every request is written down.
//! Knows nothing of `aot`.

mod conversation;
mod http;
mod reply;
mod script;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

pub use conversation::{Delivery, Dialect};
pub use script::{HttpError, Moment, Offered, Rule, Script, Step, Usage, When};

use conversation::Conversation;
use http::{Body, End, Request, Response};
use reply::Reply;
use wire::Asked;

/// A server that lives as long as this value. Dropping it closes every connection, those that hang too.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// One request, and what it got.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    pub method: String,
    pub path: String,
    /// The key that the client sent, however it sends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// The rule that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<usize>,
    /// What it got, in one word: a step's name, `otherwise`, `count`, `models`, `socket`, `presence` or
    /// `unknown`.
    pub got: &'static str,
    /// How many answers the model had given before.
    pub turn: usize,
    pub model: String,
    /// The names of the tools that were offered.
    pub tools: Vec<String>,
    /// What the user said.
    pub prompt: String,
    /// What the last tools returned.
    pub results: String,
    pub body: Value,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    inner: Mutex<Inner>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Inner {
    /// How often each rule has answered.
    used: Vec<u32>,
    serial: u64,
    records: Vec<Record>,
    log: Option<File>,
    connections: Connections,
}

#[derive(Debug)]
enum Connections {
    Open(HashMap<u64, TcpStream>),
    /// The server is going: no more are taken.
    Closed,
}

impl ScriptedModel {
    /// On a free port of loopback.
    pub fn start(script: Script) -> io::Result<ScriptedModel> {
        ScriptedModel::start_on(0, script, None)
    }

    /// Each request also becomes a line of JSON in `log`.
    pub fn start_on(port: u16, script: Script, log: Option<&Path>) -> io::Result<ScriptedModel> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let inner = Inner {
            used: vec![0; script.rules.len()],
            serial: 0,
            records: Vec::new(),
            log: log.map(File::create).transpose()?,
            connections: Connections::Open(HashMap::new()),
        };
        let shared = Arc::new(Shared { script, inner: Mutex::new(inner), arrived: Condvar::new() });
        let accepting = thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Ok(ScriptedModel { address, shared, accepting: Some(accepting) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`; OpenAI's clients want `/v1` behind it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<Record> {
        self.shared.lock().records.clone()
    }

    /// Waits until a request has come that is `wanted`, whether or not it has been answered.
    pub fn wait_for(&self, patience: Duration, wanted: impl Fn(&Record) -> bool) -> Option<Record> {
        let nothing_yet = |inner: &mut Inner| !inner.records.iter().any(&wanted);
        let waited = self.shared.arrived.wait_timeout_while(self.shared.lock(), patience, nothing_yet);
        let (inner, _) = waited.expect("nobody panics under the lock");
        inner.records.iter().find(|record| wanted(record)).cloned()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        let open = std::mem::replace(&mut self.shared.lock().connections, Connections::Closed);
        if let Connections::Open(streams) = open {
            for stream in streams.values() {
                // A connection that is gone already is what is wanted.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        // Somebody must knock for the accepting thread to look up. If nobody gets through, it has ended.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            // A panic there has been printed; to panic in a drop would hide the test's own.
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics under the lock")
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for serial in 0.. {
        let Ok((stream, _)) = listener.accept() else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        match &mut shared.lock().connections {
            Connections::Open(streams) => streams.insert(serial, kept),
            Connections::Closed => return,
        };
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A client that goes in the middle of an answer is its own affair.
            let _ = serve(&stream, &shared);
            let _ = stream.shutdown(Shutdown::Both);
            if let Connections::Open(streams) = &mut shared.lock().connections {
                streams.remove(&serial);
            }
        });
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = http::read(stream)? else { return Ok(()) };
    match respond(&request, shared) {
        Deed::Send(response) if request.method == "HEAD" => {
            http::write(stream, &Response { body: Body::Whole(String::new()), ..response })
        }
        Deed::Send(response) => http::write(stream, &response),
        Deed::Hang => {
            http::wait_until_gone(stream);
            Ok(())
        }
        Deed::Close => Ok(()),
    }
}

enum Deed {
    Send(Response),
    Hang,
    Close,
}

fn respond(request: &Request, shared: &Shared) -> Deed {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let asked = wire::asked(&request.method, &request.path);
    let conversation = match asked {
        Asked::Answer(dialect) => wire::read(dialect, &request.path, &body),
        Asked::Count(dialect) => {
            note(request, body, "count", shared);
            let tokens = wire::count(dialect, shared.script.usage.input);
            return Deed::Send(Response::json(200, tokens.to_string()));
        }
        Asked::Models => {
            note(request, body, "models", shared);
            return Deed::Send(Response::json(200, r#"{"object":"list","data":[],"models":[]}"#.into()));
        }
        // Codex then goes on over HTTP at once, instead of after some seconds of trying.
        Asked::Socket => {
            note(request, body, "socket", shared);
            return Deed::Send(Response::json(426, r#"{"error":{"message":"no web sockets here"}}"#.into()));
        }
        Asked::Presence => {
            note(request, body, "presence", shared);
            return Deed::Send(Response::json(200, "{}".into()));
        }
        Asked::Unknown => {
            note(request, body, "unknown", shared);
            return Deed::Send(Response::json(404, r#"{"error":{"message":"no such thing here"}}"#.into()));
        }
    };
    answer(request, body, &conversation, shared)
}

/// Writes down a request that is no conversation.
fn note(request: &Request, body: Value, got: &'static str, shared: &Shared) {
    let record = Record {
        method: request.method.clone(),
        path: request.path.clone(),
        key: key(request),
        dialect: None,
        rule: None,
        got,
        turn: 0,
        model: String::new(),
        tools: Vec::new(),
        prompt: String::new(),
        results: String::new(),
        body,
    };
    keep(record, shared);
}

fn answer(request: &Request, body: Value, conversation: &Conversation, shared: &Shared) -> Deed {
    let script = &shared.script;
    let (chosen, serial) = {
        let mut inner = shared.lock();
        let chosen = script.choose(conversation, &inner.used);
        if let Some((rule, _)) = chosen {
            inner.used[rule] += 1;
        }
        inner.serial += 1;
        (chosen, inner.serial)
    };
    let record = Record {
        method: request.method.clone(),
        path: request.path.clone(),
        key: key(request),
        dialect: Some(conversation.dialect),
        rule: chosen.map(|(rule, _)| rule),
        got: chosen.map_or("otherwise", |(_, step)| step.name()),
        turn: conversation.turn(),
        model: conversation.model.clone(),
        tools: conversation.tools.iter().map(|tool| tool.name.clone()).collect(),
        prompt: conversation.prompt(),
        results: conversation.last_results(),
        body,
    };
    keep(record, shared);
    let blocks = match chosen {
        Some((_, step)) => reply::blocks(step, conversation),
        None => reply::harmless(&script.otherwise, conversation),
    };
    let usage = chosen.and_then(|(rule, _)| script.rules[rule].usage).unwrap_or(script.usage);
    let reply = Reply { blocks, usage, model: conversation.model.clone(), serial };
    match chosen.map(|(_, step)| step) {
        Some(Step::Error(error)) => Deed::Send(refusal(error, conversation.dialect)),
        Some(Step::Hang(Moment::Start)) => Deed::Hang,
        Some(Step::Drop(Moment::Start)) => Deed::Close,
        Some(Step::Hang(Moment::Middle)) => deliver(&reply, conversation, Duration::ZERO, End::Silent),
        Some(Step::Drop(Moment::Middle)) => deliver(&reply, conversation, Duration::ZERO, End::Cut),
        Some(Step::Trickle { pause_ms, .. }) => {
            deliver(&reply, conversation, Duration::from_millis(*pause_ms), End::Full)
        }
        _ => deliver(&reply, conversation, Duration::ZERO, End::Full),
    }
}

fn key(request: &Request) -> Option<String> {
    let names = ["authorization", "x-api-key", "x-goog-api-key"];
    let found = request.headers.iter().find(|(name, _)| names.contains(&name.as_str()));
    found.map(|(_, value)| value.trim_start_matches("Bearer ").to_owned())
}

fn keep(record: Record, shared: &Shared) {
    let mut inner = shared.lock();
    if let Some(log) = &mut inner.log {
        let line = serde_json::to_string(&record).expect("a record is JSON") + "\n";
        log.write_all(line.as_bytes()).expect("the log can be written");
    }
    inner.records.push(record);
    shared.arrived.notify_all();
}

fn deliver(reply: &Reply, conversation: &Conversation, pause: Duration, end: End) -> Deed {
    Deed::Send(match conversation.delivery {
        Delivery::Whole => {
            Response { end, ..Response::json(200, wire::whole(conversation.dialect, reply).to_string()) }
        }
        Delivery::Stream => Response {
            status: 200,
            headers: vec![("content-type".into(), "text/event-stream".into())],
            body: Body::Pieces { pieces: wire::pieces(conversation.dialect, reply), pause },
            end,
        },
    })
}

fn refusal(error: &HttpError, dialect: Dialect) -> Response {
    let body = error.body.clone().unwrap_or_else(|| wire::error(dialect, error.status));
    let mut response = Response::json(error.status, body.to_string());
    response.headers.extend(error.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    response
}
