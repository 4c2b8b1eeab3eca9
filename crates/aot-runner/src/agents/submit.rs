//! The tool by which an agent hands in its answer: this same binary, started with a hidden word, is an MCP server on
//! its standard streams with the one tool `submit_result`. Knows the answer's schema and the role, not who calls.
//!
//! What was handed in stands in a file, and that is all the memory there is: a server that a client starts again goes
//! on where the other ended, and a new question begins when the file is taken away.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aot_core::brief::{self, ANSWER_LIMIT, Role};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The first word on the command line of such a server.
pub const WORD: &str = "__submit";

/// What the server is called where servers have names.
pub const SERVER: &str = "aot";

pub const TOOL: &str = "submit_result";

/// After so many answers that were not valid, no more are taken.
pub const MOST_REFUSED: u32 = 3;

/// No envelope is longer, in bytes.
const LONGEST: u64 = 2 * ANSWER_LIMIT as u64;

/// Stands for the role of an answer that has no rules beside its schema.
const NO_ROLE: &str = "other";

const DESCRIPTION: &str = "Hands in your answer. Call it at the end, with all fields. If it is refused, correct what the \
                           reason names and call it again.";

const CLOSED: &str = "No more answers are taken. End your turn now.";

/// What came of a question so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Envelope {
    /// The last answer that was valid.
    Accepted(Value),
    /// None was valid; the reason is that of the last.
    Refused { reason: String, attempts: u32 },
}

/// Where the answer to one question is handed in.
#[derive(Clone, Debug)]
pub struct Tray {
    role: Option<Role>,
    schema: PathBuf,
    result: PathBuf,
}

impl Tray {
    /// In a folder that the agent can write, and for an answer of this schema. A role adds its own rules.
    pub fn make(folder: &Path, role: Option<Role>, schema: &Value) -> io::Result<Tray> {
        let tray =
            Tray { role, schema: folder.join("answer-schema.json"), result: folder.join("answer.json") };
        fs::write(&tray.schema, schema.to_string())?;
        Ok(tray)
    }

    /// What our own program is to be started with, to be the server.
    pub fn words(&self) -> [OsString; 4] {
        let role = self.role.map_or(NO_ROLE, Role::word);
        [WORD.into(), self.schema.clone().into(), self.result.clone().into(), role.into()]
    }

    /// Takes out what was handed in, so that the next answer is a new one.
    pub fn take(&self) -> io::Result<Option<Envelope>> {
        let envelope = read(&self.result);
        match fs::remove_file(&self.result) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => envelope,
        }
    }
}

fn read(path: &Path) -> io::Result<Option<Envelope>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| unreadable(&format!("cannot be read: {error}")))
}

fn unreadable(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the answer's file {why}"))
}

/// The agent can write there too: whatever it has put in its place is no reason to wait, or to read without an end.
pub(super) fn read_text(path: &Path) -> io::Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(unreadable("is no file"));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(unreadable("is too long"));
    }
    Ok(Some(text))
}

/// Whoever reads it at any moment sees the old one or the new one.
fn write(path: &Path, envelope: &Envelope) -> io::Result<()> {
    let mut beside = path.as_os_str().to_os_string();
    beside.push(format!(".{}", std::process::id()));
    let text = serde_json::to_string(envelope)?;
    // One that was killed before may have had our number.
    let _ = fs::remove_file(&beside);
    let mut file = File::options().write(true).create_new(true).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is half written must not be in the way of the next one.
        let _ = fs::remove_file(&beside);
    }
    written
}

pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == WORD)
}

/// `__submit SCHEMA_FILE RESULT_FILE ROLE`. Serves until standard input ends.
pub fn run(words: &[OsString]) -> ExitCode {
    let desk = match Desk::read(words) {
        Ok(desk) => desk,
        Err(why) => {
            // If nobody listens there the exit code says it.
            let _ = io::stderr().write_all(format!("{why}\n").as_bytes());
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let served = runtime.block_on(async {
        match desk.serve((tokio::io::stdin(), tokio::io::stdout())).await {
            Ok(serving) => serving.waiting().await.is_ok(),
            Err(error) => matches!(error, ServerInitializeError::ConnectionClosed(_)),
        }
    });
    // Somebody may still be reading standard input, and need not be waited for.
    runtime.shutdown_background();
    if served { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where answers are looked at.
#[derive(Debug)]
struct Desk {
    role: Option<Role>,
    schema: Value,
    result: PathBuf,
}

impl Desk {
    fn read(words: &[OsString]) -> Result<Desk, String> {
        let [_, _, schema, result, role] = words else {
            return Err(format!("usage: {WORD} SCHEMA_FILE RESULT_FILE ROLE"));
        };
        let role = match role.to_str() {
            Some(NO_ROLE) => None,
            word => Some(word.and_then(Role::parse).ok_or("there is no such role")?),
        };
        let text = fs::read_to_string(schema).map_err(|error| format!("{}: {error}", schema.display()))?;
        let mut schema: Value =
            serde_json::from_str(&text).map_err(|error| format!("the schema is no JSON: {error}"))?;
        // Some clients refuse a tool whose schema says which dialect it is.
        schema.as_object_mut().ok_or("the schema is no object")?.shift_remove("$schema");
        if schema["type"] != "object" {
            return Err("the schema is not that of an object".into());
        }
        Ok(Desk { role, schema, result: result.into() })
    }

    fn tool(&self) -> Tool {
        let schema = self.schema.as_object().cloned().unwrap_or_default();
        // It changes nothing that anybody works on. Clients that let a role only read ask for this.
        let harmless =
            ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
        Tool::new(TOOL, DESCRIPTION, schema).annotate(harmless)
    }

    /// What is said to the agent: that it was taken, or why not.
    fn hand_in(&self, answer: &Value) -> Result<String, String> {
        let broken = |error: io::Error| format!("The answer could not be taken: {error}");
        let before = read(&self.result).map_err(broken)?;
        let attempts = match &before {
            Some(Envelope::Refused { attempts, .. }) => *attempts,
            Some(Envelope::Accepted(_)) | None => 0,
        };
        if attempts >= MOST_REFUSED {
            return Err(CLOSED.into());
        }
        let reason = match self.hold(answer) {
            Ok(answer) => {
                write(&self.result, &Envelope::Accepted(answer)).map_err(broken)?;
                return Ok("Received.".into());
            }
            Err(reason) => reason,
        };
        if let Some(Envelope::Accepted(_)) = before {
            return Err(format!("{reason}\n\nThis one was not taken; the one before stands."));
        }
        let attempts = attempts + 1;
        write(&self.result, &Envelope::Refused { reason: reason.clone(), attempts }).map_err(broken)?;
        let next = match attempts {
            MOST_REFUSED.. => CLOSED.to_owned(),
            _ => format!("Nothing was taken. Correct this and call `{TOOL}` again with all fields."),
        };
        Err(format!("{reason}\n\n{next}"))
    }

    fn hold(&self, answer: &Value) -> Result<Value, String> {
        let length = answer.to_string().len();
        if length > ANSWER_LIMIT {
            return Err(format!("the answer has {length} bytes; wanted: at most {ANSWER_LIMIT}"));
        }
        brief::hold(self.role, &self.schema, answer).map_err(|unreadable| unreadable.reason)
    }
}

impl ServerHandler for Desk {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(SERVER, env!("CARGO_PKG_VERSION")))
            .with_instructions(DESCRIPTION)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.tool()]))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.name != TOOL {
            let why = format!("there is no tool `{}`, only `{TOOL}`", call.name);
            return Err(ErrorData::invalid_params(why, None));
        }
        let answer = Value::Object(call.arguments.unwrap_or_default());
        let result = match self.hand_in(&answer) {
            Ok(said) => CallToolResult::success(vec![ContentBlock::text(said)]),
            Err(said) => CallToolResult::error(vec![ContentBlock::text(said)]),
        };
        Ok(result.into())
    }
}
