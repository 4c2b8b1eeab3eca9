//! The verbs over the Model Context Protocol: every call becomes words that this same program is started with, and what
//! it prints becomes the answer. So refusals, locks and exit codes are those of the command line. The only file that
//! knows the protocol.

mod answers;
mod prompts;
mod resources;
mod tools;

use std::ffi::OsString;
use std::path::PathBuf;

use aot_runner::host::{self, Verb};
use aot_runner::process::Switch;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Implementation, JsonRpcMessage, ListPromptsResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, PromptArgument, PromptMessage,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ResourceContents, Role,
    ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::{RequestContext, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value};
use tokio::io::{Stdin, Stdout};

use crate::place;
use answers::{Given, drawn, fault, given, object, part};
use prompts::PROMPTS;
use resources::{RESOURCES, Source};
use tools::{Form, Manner, TOOLS, Tool};

const INSTRUCTIONS: &str = "\
aot keeps a loop: a goal that was agreed on, a graph of atoms, and checks that prove it done. To run it here: `enter`, then \
for each ready atom `atom_start`, work in the folder that it names, `atom_resolve` or `atom_fail`; then `turn`, until it says \
that the loop has halted. Only the program completes the loop, by running the checks itself; nobody edits the state file. \
Without a loop, agree on a goal with the user and call `align`. Where an answer names a command like `aot atom fail`, the \
tool is `atom_fail`.";

/// Who serves, and on whose behalf.
#[derive(Clone, Debug)]
pub struct Server {
    pub program: PathBuf,
    pub state: Option<PathBuf>,
    pub session: String,
    /// Ends every call.
    pub switch: Switch,
}

/// Until standard input ends.
pub fn serve(server: Server) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let served = runtime.block_on(async {
        let line = AsyncRwTransport::new_server(tokio::io::stdin(), tokio::io::stdout());
        match server.serve(Line { line, begun: false }).await {
            Ok(serving) => serving.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    });
    // Somebody may still be reading standard input, and need not be waited for.
    runtime.shutdown_background();
    served
}

/// Standard input and output. What comes before the first request is no reason to end.
struct Line {
    line: AsyncRwTransport<RoleServer, Stdin, Stdout>,
    begun: bool,
}

impl Transport<RoleServer> for Line {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), std::io::Error>> + Send + 'static {
        self.line.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.line.receive().await?;
            self.begun |= matches!(message, JsonRpcMessage::Request(_));
            if self.begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), std::io::Error> {
        self.line.close().await
    }
}

impl Server {
    /// This program, started with these words, until it ends or the call is cancelled.
    async fn ask(
        &self,
        words: impl IntoIterator<Item = OsString>,
        input: Vec<u8>,
        context: &RequestContext<RoleServer>,
    ) -> Result<host::Answer, String> {
        let mut all: Vec<OsString> = vec!["--tied".into()];
        if let Some(state) = &self.state {
            let mut word = OsString::from("--state=");
            word.push(state);
            all.push(word);
        }
        all.extend(words);
        let variables = vec![("AOT_SESSION".into(), OsString::from(&self.session))];
        let verb = Verb { words: all, variables, input };
        let (program, whole, call) = (self.program.clone(), self.switch.clone(), Switch::default());
        let (cancelled, end) = (context.ct.clone(), call.clone());
        let watching = tokio::spawn(async move {
            cancelled.cancelled().await;
            end.turn_off();
        });
        let asked = tokio::task::spawn_blocking(move || {
            let end = call.clone();
            let wire = whole.connect(move || end.turn_off());
            let answer = host::answer(&program, &verb, &call);
            drop(wire);
            answer
        });
        let answer = asked.await;
        watching.abort();
        answer.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }

    /// The object that a verb answers with.
    async fn object(
        &self,
        words: Vec<OsString>,
        input: Vec<u8>,
        context: &RequestContext<RoleServer>,
    ) -> Value {
        let words = std::iter::once(OsString::from("--json")).chain(words);
        match self.ask(words, input, context).await {
            Ok(answer) => object(&answer),
            Err(problem) => {
                fault("world", &format!("the verb cannot be started: {problem}"), "shorten what you give")
            }
        }
    }

    async fn call(
        &self,
        tool: &Tool,
        arguments: &Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Given {
        let typed = match tool.typed(arguments, &self.session) {
            Ok(typed) => typed,
            Err(wrong) => {
                let hint = "Nothing was done: correct it and call again";
                return given(fault("usage", &wrong, hint));
            }
        };
        match tool.form {
            Form::Json => given(self.object(typed.words, typed.input, context).await),
            Form::State => given(part(self.object(typed.words, typed.input, context).await, arguments)),
            Form::Text(name) => match self.ask(typed.words.clone(), typed.input.clone(), context).await {
                Ok(answer) if answer.exit == Some(0) => drawn(name, &String::from_utf8_lossy(&answer.out)),
                // As an object it says more precisely why not.
                Ok(_) | Err(_) => given(self.object(typed.words, typed.input, context).await),
            },
        }
    }

    async fn read(&self, source: Source, context: &RequestContext<RoleServer>) -> Result<String, String> {
        match source {
            Source::File => {
                let path = place::state_file(self.state.as_deref());
                let path = path.map_err(|failure| missing(&failure.message()))?;
                std::fs::read(&path)
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                    .map_err(|error| missing(&format!("{}: {error}", path.display())))
            }
            Source::Verb(words) => {
                let answer = self.ask(words.iter().map(OsString::from), Vec::new(), context).await?;
                if answer.exit == Some(0) {
                    return Ok(String::from_utf8_lossy(&answer.out).into_owned());
                }
                let words = words.iter().filter(|word| **word != "--json").map(OsString::from).collect();
                Err(given(self.object(words, Vec::new(), context).await).text)
            }
        }
    }
}

fn missing(problem: &str) -> String {
    given(fault("no_state_file", problem, "")).text
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
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(described).collect()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::named(&call.name) else {
            let why = format!("there is no tool `{}`", call.name);
            return Err(ErrorData::invalid_params(why, None));
        };
        let given = self.call(tool, &call.arguments.unwrap_or_default(), &context).await;
        let content = vec![ContentBlock::text(given.text)];
        let mut result = match given.error {
            true => CallToolResult::error(content),
            false => CallToolResult::success(content),
        };
        result.structured_content = Some(given.object);
        Ok(result.into())
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
        wanted: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(resource) = resources::at(&wanted.uri) else {
            let known: Vec<&str> = RESOURCES.iter().map(|resource| resource.uri).collect();
            let why = format!("there is no `{}`, only {}", wanted.uri, known.join(", "));
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
        wanted: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(prompt) = prompts::named(&wanted.name) else {
            let known: Vec<&str> = PROMPTS.iter().map(|prompt| prompt.name).collect();
            let why = format!("there is no prompt `{}`, only {}", wanted.name, known.join(", "));
            return Err(ErrorData::invalid_params(why, None));
        };
        let said = wanted.arguments.as_ref().and_then(|given| given.get(prompt.argument));
        let text = prompt.text(said.and_then(Value::as_str));
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(prompt.description).into())
    }
}

fn described(tool: &Tool) -> rmcp::model::Tool {
    let (looks, destructive, idempotent) = match tool.manner {
        Manner::Looks => (true, false, true),
        Manner::Runs => (false, false, true),
        Manner::Steps => (false, false, false),
        Manner::Undoes => (false, true, false),
    };
    let hints = ToolAnnotations::with_title(tool.title)
        .read_only(looks)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(false);
    rmcp::model::Tool::new(tool.name, tool.description, tool.schema()).with_title(tool.title).annotate(hints)
}
