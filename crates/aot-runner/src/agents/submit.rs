//! The tool by which an agent submits its answer: this same binary, started with a hidden argument, is an MCP server on
//! its standard streams with the one tool `submit_result`. Knows the answer's schema and the role, not the agent.
//!
//! All memory is in a file: a server that a client starts again goes on where the other ended, and a new question
//! begins when the file is removed.

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

use crate::atomic_file::{self, Durability};

/// The first argument of such a server.
pub const ARGUMENT: &str = "__submit";

/// The server's name in the configuration of clients.
pub const SERVER: &str = "aot";

pub const TOOL: &str = "submit_result";

/// After so many invalid answers no more are taken.
pub const MOST_REFUSED: u32 = 3;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 2 * ANSWER_LIMIT as u64;

/// In place of a role, for an answer that has no rules besides its schema.
const NO_ROLE: &str = "other";

const DESCRIPTION: &str = "Hands in your answer. Call it at the end, with all fields. If it is refused, correct what the \
                           reason names and call it again.";

const CLOSED: &str = "No more answers are taken. End your turn now.";

/// What came of a question so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Submission {
    /// The last answer that was valid.
    Accepted(Value),
    /// None was valid; the reason is that of the last.
    Refused { reason: String, attempts: u32 },
}

/// The files of one question: the answer's schema, and the answer.
#[derive(Clone, Debug)]
pub struct AnswerFiles {
    role: Option<Role>,
    schema: PathBuf,
    result: PathBuf,
}

impl AnswerFiles {
    /// In a folder that the agent can write. A role adds its own rules to the schema.
    pub fn make(folder: &Path, role: Option<Role>, schema: &Value) -> io::Result<AnswerFiles> {
        let answer_files = AnswerFiles {
            role,
            schema: folder.join("answer-schema.json"),
            result: folder.join("answer.json"),
        };
        fs::write(&answer_files.schema, schema.to_string())?;
        Ok(answer_files)
    }

    /// The arguments that make our own program the server.
    pub fn arguments(&self) -> [OsString; 4] {
        let role = self.role.map_or(NO_ROLE, Role::word);
        [ARGUMENT.into(), self.schema.clone().into(), self.result.clone().into(), role.into()]
    }

    /// Removes and returns what was submitted, so that the next answer is a new one.
    pub fn take(&self) -> io::Result<Option<Submission>> {
        let submission = read(&self.result);
        match fs::remove_file(&self.result) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => submission,
        }
    }

    /// Removes and returns a valid answer, `None` if nothing was submitted, or why the last one was refused.
    pub fn answer(&self) -> Result<Option<Value>, String> {
        match self.take().map_err(|error| error.to_string())? {
            Some(Submission::Accepted(answer)) => Ok(Some(answer)),
            Some(Submission::Refused { reason, .. }) => Err(reason),
            None => Ok(None),
        }
    }
}

fn read(path: &Path) -> io::Result<Option<Submission>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| unreadable(&format!("cannot be read: {error}")))
}

fn unreadable(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the answer's file {why}"))
}

/// The agent can write there too, so a FIFO, a link or an endless file in its place must neither block nor fill memory.
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

fn write(path: &Path, submission: &Submission) -> io::Result<()> {
    let text = serde_json::to_string(submission)?;
    atomic_file::write(path, &[text.as_bytes()], Durability::Unsynced)
}

pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == ARGUMENT)
}

/// `__submit SCHEMA_FILE RESULT_FILE ROLE`. Serves until standard input ends.
pub fn run(words: &[OsString]) -> ExitCode {
    let server = match SubmitServer::read(words) {
        Ok(server) => server,
        Err(why) => {
            // If standard error is closed the exit code says it.
            let _ = io::stderr().write_all(format!("{why}\n").as_bytes());
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let served = runtime.block_on(async {
        match server.serve((tokio::io::stdin(), tokio::io::stdout())).await {
            Ok(serving) => serving.waiting().await.is_ok(),
            Err(error) => matches!(error, ServerInitializeError::ConnectionClosed(_)),
        }
    });
    // A thread may still be reading standard input, and need not be waited for.
    runtime.shutdown_background();
    if served { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Debug)]
struct SubmitServer {
    role: Option<Role>,
    schema: Value,
    result: PathBuf,
}

impl SubmitServer {
    fn read(words: &[OsString]) -> Result<SubmitServer, String> {
        let [_, _, schema, result, role] = words else {
            return Err(format!("usage: {ARGUMENT} SCHEMA_FILE RESULT_FILE ROLE"));
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
        Ok(SubmitServer { role, schema, result: result.into() })
    }

    fn tool(&self) -> Tool {
        let schema = self.schema.as_object().cloned().unwrap_or_default();
        // Clients that let a role only read want to know that the tool changes nothing in the project.
        let harmless =
            ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
        Tool::new(TOOL, DESCRIPTION, schema).annotate(harmless)
    }

    /// The reply to the agent: that the answer was taken, or why not.
    fn submit(&self, answer: &Value) -> Result<String, String> {
        let broken = |error: io::Error| format!("The answer could not be taken: {error}");
        let before = read(&self.result).map_err(broken)?;
        let attempts = match &before {
            Some(Submission::Refused { attempts, .. }) => *attempts,
            Some(Submission::Accepted(_)) | None => 0,
        };
        if attempts >= MOST_REFUSED {
            return Err(CLOSED.into());
        }
        let reason = match self.validate(answer) {
            Ok(answer) => {
                write(&self.result, &Submission::Accepted(answer)).map_err(broken)?;
                return Ok("Received.".into());
            }
            Err(reason) => reason,
        };
        if let Some(Submission::Accepted(_)) = before {
            return Err(format!("{reason}\n\nThis one was not taken; the one before stands."));
        }
        let attempts = attempts + 1;
        write(&self.result, &Submission::Refused { reason: reason.clone(), attempts }).map_err(broken)?;
        let next = match attempts {
            MOST_REFUSED.. => CLOSED.to_owned(),
            _ => format!("Nothing was taken. Correct this and call `{TOOL}` again with all fields."),
        };
        Err(format!("{reason}\n\n{next}"))
    }

    fn validate(&self, answer: &Value) -> Result<Value, String> {
        let length = answer.to_string().len();
        if length > ANSWER_LIMIT {
            return Err(format!("the answer has {length} bytes; wanted: at most {ANSWER_LIMIT}"));
        }
        brief::validate(self.role, &self.schema, answer).map_err(|unreadable| unreadable.reason)
    }
}

impl ServerHandler for SubmitServer {
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
        let result = match self.submit(&answer) {
            Ok(said) => CallToolResult::success(vec![ContentBlock::text(said)]),
            Err(said) => CallToolResult::error(vec![ContentBlock::text(said)]),
        };
        Ok(result.into())
    }
}
