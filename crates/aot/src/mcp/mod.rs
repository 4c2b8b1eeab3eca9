//! The verbs over the Model Context Protocol: for every call this same program is started (`aot call`), and the object that
//! it prints is the answer. So refusals and locks are those of the command line, and a call can be killed. The only file
//! that knows the protocol.

pub mod answers;
pub mod lines;
mod prompts;
#[cfg(test)]
mod requests;
mod resources;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use aot_runner::host;
use aot_runner::plain_file;
use aot_runner::process::Switch;
use aot_runner::store::home::Home;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, JsonRpcMessage, ListPromptsResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, PromptArgument,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents,
    Role, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::{RequestContext, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf, Stdin, Stdout};

use crate::commands::call::{self, AnswerForm, LONGEST_CALL, TOOLS, Tool, ToolEffect};
use crate::place;
use answers::{ToolAnswer, error_object, object, of_object, of_text};
use lines::BoundedLines;
use prompts::PROMPTS;
use resources::{RESOURCES, Source};

const INSTRUCTIONS: &str = "\
aot keeps a loop: a goal that was agreed on, a graph of atoms, and checks that prove it done. To run it here: `enter`, then \
for each ready atom `atom_start`, work in the folder that it names, `atom_resolve` or `atom_fail`; then `turn`, until it says \
that the loop has halted. Only the program completes the loop, by running the checks itself; nobody edits the state file. \
Without a loop, agree on a goal with the user and call `align`. Where an answer names a command like `aot atom fail`, the \
tool is `atom_fail`.";

/// What only reads ends by itself, in seconds even where the machine is busy.
const LOOK_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Checks, landings and questions have limits of their own, and all of them together the loop's wall time; whatever takes
/// longer than that is by default hangs.
const WORK_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// A longer state file is not read out.
const STATE_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct Server {
    pub program: PathBuf,
    pub state: Option<PathBuf>,
    pub session: String,
    /// Ends every call when it is turned off.
    pub switch: Switch,
    pub cut: CutAnswers,
}

/// The last answers that were too long to be given whole, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct CutAnswers(Arc<Mutex<VecDeque<(u64, Value)>>>);

impl CutAnswers {
    /// Keeps an answer, and returns its number.
    fn keep(&self, whole: Value) -> u64 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = kept.back().map_or(1, |(number, _)| number + 1);
        if kept.len() >= CUT_KEPT {
            kept.pop_front();
        }
        kept.push_back((number, whole));
        number
    }

    fn part(&self, number: u64, field: &str, from: usize) -> Option<Value> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, whole) = kept.iter().find(|(kept, _)| *kept == number)?;
        answers::part(whole, field, from)
    }
}

/// So many answers are kept for whoever wants the rest of one.
const CUT_KEPT: usize = 8;

/// A call is told to be under way this often, if the client wants to know.
const PROGRESS: Duration = Duration::from_secs(2);

/// Serves until standard input ends.
pub fn serve(server: Server) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let served = runtime.block_on(async {
        let lines = BoundedLines::of(LONGEST_CALL as usize, too_long);
        let input = BoundedInput { stdin: tokio::io::stdin(), lines };
        let inner = AsyncRwTransport::new_server(input, tokio::io::stdout());
        match server.serve(StdioTransport { inner, begun: false }).await {
            Ok(serving) => serving.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    // The thread that reads standard input may still wait for a line, and is not waited for.
    runtime.shutdown_background();
    served
}

/// Standard input, without lines that are too long.
struct BoundedInput {
    stdin: Stdin,
    lines: BoundedLines,
}

impl AsyncRead for BoundedInput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let given = self.lines.give(buffer.remaining());
            if !given.is_empty() {
                buffer.put_slice(given);
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stdin).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                // A line without an end is no message.
                return Poll::Ready(Ok(()));
            }
            self.lines.take(chunk.filled());
        }
    }
}

/// Read at a time.
const CHUNK: usize = 16 << 10;

/// In the place of a request that is too long stands a short one with the same id, so that the client gets an answer.
pub fn too_long(head: &[u8], tail: &[u8]) -> Vec<u8> {
    let call = |id: Value| {
        let params = serde_json::json!({ "name": TOO_LONG });
        serde_json::json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    lines::id_in(head, tail).map(|id| call(id).to_string().into_bytes()).unwrap_or_default()
}

/// No tool has this name.
pub const TOO_LONG: &str = "\0too long";

/// Standard input and output. A message before the first request does not end the server.
struct StdioTransport {
    inner: AsyncRwTransport<RoleServer, BoundedInput, Stdout>,
    begun: bool,
}

impl Transport<RoleServer> for StdioTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), std::io::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            self.begun |= matches!(message, JsonRpcMessage::Request(_));
            if self.begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), std::io::Error> {
        self.inner.close().await
    }
}

impl Server {
    /// The object that a verb answers with: this program is started, until it ends or the call is cancelled.
    async fn call(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Value {
        match self.start(tool, arguments, context).await {
            Ok(answer) => object(&answer),
            Err(problem) => {
                error_object("world", &format!("the verb cannot be started: {problem}"), "try again")
            }
        }
    }

    async fn start(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<host::Answer, String> {
        let mut words: Vec<OsString> = vec!["--tied".into(), "--json".into()];
        if let Some(state) = &self.state {
            words.extend(["--state".into(), state.clone().into_os_string()]);
        }
        words.extend(["call".into(), tool.into()]);
        let variables = vec![("AOT_SESSION".into(), OsString::from(&self.session))];
        let input = Value::Object(arguments.clone()).to_string().into_bytes();
        let limit = call::named(tool).map_or(LOOK_LIMIT, limit_of);
        let verb = host::Verb { words, variables, input, limit };
        let (program, whole, call) = (self.program.clone(), self.switch.clone(), Switch::default());
        let (cancelled, end) = (context.ct.clone(), call.clone());
        let watching = tokio::spawn(async move {
            cancelled.cancelled().await;
            end.turn_off();
        });
        let running = tokio::task::spawn_blocking(move || {
            let end = call.clone();
            let wire = whole.connect(move || end.turn_off());
            let answer = host::answer(&program, &verb, &call);
            drop(wire);
            answer
        });
        let telling = tokio::spawn(tell_progress(context.clone(), tool.to_owned()));
        let answer = running.await;
        watching.abort();
        telling.abort();
        answer.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    async fn answer(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> ToolAnswer {
        let object = self.call(tool.name, arguments, context).await;
        match (tool.form, object[tool.name].as_str()) {
            (AnswerForm::Text, Some(text)) => of_text(tool.name, text),
            (AnswerForm::Text | AnswerForm::Object, _) => of_object(object),
        }
    }

    fn rest(&self, arguments: &Map<String, Value>) -> CallToolResult {
        let number = arguments.get("answer").and_then(Value::as_u64);
        let field = arguments.get("field").and_then(Value::as_str);
        let from = arguments.get("from").and_then(Value::as_u64).and_then(|from| usize::try_from(from).ok());
        let part = match (number, field, from) {
            (Some(number), Some(field), Some(from)) => self.cut.part(number, field, from),
            (None, ..) | (_, None, _) | (.., None) => None,
        };
        result_of(of_object(part.unwrap_or_else(|| {
            let hint = format!("the last {CUT_KEPT} answers that were cut are kept: call the tool again");
            error_object("no_rest", "there is no such answer, or no such field in it", &hint)
        })))
    }

    async fn read(&self, source: Source, context: &RequestContext<RoleServer>) -> Result<String, String> {
        let (Source::Object(tool) | Source::Text(tool)) = source else { return self.state_file() };
        let object = self.call(tool, &Map::new(), context).await;
        match (source, object[tool].as_str()) {
            _ if object.get("error").is_some() => Err(of_object(object).text),
            (Source::Text(_), Some(text)) => Ok(text.to_owned()),
            _ => Ok(object.to_string()),
        }
    }

    fn state_file(&self) -> Result<String, String> {
        let path = place::state_file(self.state.as_deref());
        let path = path.map_err(|failure| missing(&failure.message()))?;
        let home = Home::of(&path).map_err(|error| missing(&error.to_string()))?;
        plain_file::read(home.state(), STATE_BYTES)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| missing(&format!("{}: {error}", path.display())))
    }
}

/// Tells a client that gave a token that its call is still under way, so that it does not give up on it.
async fn tell_progress(context: RequestContext<RoleServer>, tool: String) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let began = std::time::Instant::now();
    loop {
        tokio::time::sleep(PROGRESS).await;
        let seconds = began.elapsed().as_secs();
        let told = ProgressNotificationParam::new(token.clone(), seconds as f64)
            .with_message(format!("{tool} has been running for {seconds} s"));
        if context.peer.notify_progress(told).await.is_err() {
            return;
        }
    }
}

fn limit_of(tool: &Tool) -> Duration {
    match tool.effect {
        ToolEffect::ReadOnly => LOOK_LIMIT,
        ToolEffect::RunsChecks | ToolEffect::Changes | ToolEffect::Destructive => WORK_LIMIT,
    }
}

fn missing(problem: &str) -> String {
    of_object(error_object("no_state_file", problem, "")).text
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("aot", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = TOOLS.iter().map(described).chain([described_rest()]);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == TOO_LONG {
            let why = format!("the request is longer than {LONGEST_CALL} bytes, and nothing was done");
            return Err(ErrorData::invalid_request(why, None));
        }
        let arguments = request.arguments.unwrap_or_default();
        if request.name == REST {
            return Ok(self.rest(&arguments).into());
        }
        let Some(tool) = call::named(&request.name) else {
            let why = format!("there is no tool `{}`", request.name);
            return Err(ErrorData::invalid_params(why, None));
        };
        let mut answer = self.answer(tool, &arguments, &context).await;
        if let Some(whole) = answer.cut.take() {
            answer = answer.with_rest(&self.cut.keep(whole).to_string());
        }
        Ok(result_of(answer).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = RESOURCES.iter().map(|resource| {
            rmcp::model::Resource::new(resource.uri, resource.name)
                .with_title(resource.title)
                .with_description(resource.description)
                .with_mime_type(resource.kind)
        });
        Ok(ListResourcesResult::with_all_items(all.collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(resource) = resources::at(&request.uri) else {
            let known: Vec<&str> = RESOURCES.iter().map(|resource| resource.uri).collect();
            let why = format!("there is no `{}`, only {}", request.uri, known.join(", "));
            return Err(ErrorData::resource_not_found(why, None));
        };
        let text = self.read(resource.source, &context).await;
        let text = text.map_err(|why| ErrorData::resource_not_found(why, None))?;
        let contents = ResourceContents::text(text, resource.uri).with_mime_type(resource.kind);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all = PROMPTS.iter().map(|prompt| {
            let argument = PromptArgument::new(prompt.argument)
                .with_description(prompt.argument_description)
                .with_required(false);
            rmcp::model::Prompt::new(prompt.name, Some(prompt.description), Some(vec![argument]))
                .with_title(prompt.title)
        });
        Ok(ListPromptsResult::with_all_items(all.collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(prompt) = prompts::named(&request.name) else {
            let known: Vec<&str> = PROMPTS.iter().map(|prompt| prompt.name).collect();
            let why = format!("there is no prompt `{}`, only {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(why, None));
        };
        let argument = request.arguments.as_ref().and_then(|all| all.get(prompt.argument));
        let text = prompt.text(argument.and_then(Value::as_str));
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(prompt.description).into())
    }
}

fn result_of(answer: ToolAnswer) -> CallToolResult {
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = match answer.error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = Some(answer.object);
    result
}

/// The tool that has the rest of an answer. No verb: the server keeps what it has cut.
const REST: &str = "rest";

fn described_rest() -> rmcp::model::Tool {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "answer": {"type": "integer", "minimum": 1, "description": "The number of the answer, as its `cut` says"},
            "field": {"type": "string", "description": "The field that was cut"},
            "from": {"type": "integer", "minimum": 0, "description": "Where to begin: how much was shown before"},
        },
        "required": ["answer", "field", "from"],
        "additionalProperties": false,
    });
    let schema = schema.as_object().cloned().unwrap_or_default();
    let title = "The rest of an answer";
    let hints = ToolAnnotations::with_title(title).read_only(true).destructive(false).idempotent(true);
    let about = "The rest of an answer that was too long: its `cut` says which fields, and how much of each was shown.";
    rmcp::model::Tool::new(REST, about, schema).with_title(title).with_annotations(hints.open_world(false))
}

fn described(tool: &Tool) -> rmcp::model::Tool {
    let (read_only, destructive, idempotent) = match tool.effect {
        ToolEffect::ReadOnly => (true, false, true),
        ToolEffect::RunsChecks => (false, false, true),
        ToolEffect::Changes => (false, false, false),
        ToolEffect::Destructive => (false, true, false),
    };
    let hints = ToolAnnotations::with_title(tool.title)
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(false);
    rmcp::model::Tool::new(tool.name, tool.description(), tool.schema())
        .with_title(tool.title)
        .annotate(hints)
}
