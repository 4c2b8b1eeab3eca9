//! The Agent Client Protocol: how an agent is asked, what it may do and what it reports. The only file that knows the
//! protocol's messages, and the crate that implements them.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthenticateRequest, CancelNotification, ContentBlock, Implementation, InitializeRequest,
    LoadSessionRequest, McpServer, McpServerStdio, NewSessionRequest, NewSessionResponse,
    PermissionOptionKind, PlanEntryStatus, PromptRequest, PromptResponse, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome, SessionConfigKind,
    SessionConfigOptionCategory, SessionConfigSelectOptions, SessionId, SessionNotification, SessionUpdate,
    SetSessionConfigOptionRequest, SetSessionModeRequest, StopReason, ToolCallContent, ToolCallId,
    ToolCallStatus, ToolCallUpdateFields, ToolKind,
};
use agent_client_protocol::{Agent as Peer, Client, Error, ErrorCode, Lines};
use aot_core::brief::Role;
use futures::{sink, stream};
use serde_json::Value;
use tokio::select;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::timeout;

use super::usage::SessionUsage;
use super::{GRACE, Stop, modes};
use crate::agents::command::AgentCommand;
use crate::agents::events::in_one_line;
use crate::agents::launcher::Launch;
use crate::agents::profile::{ErrorPatterns, Profile};
use crate::agents::progress::ProgressReporter;
use crate::agents::question::{AgentEvent, AgentOutcome, AgentUsage, Question, ask_again};
use crate::agents::submit;

/// Tools that are remembered. With more of them, all are forgotten: what is then asked about them is refused.
const TOOLS_KEPT: usize = 10_000;

/// One question to one agent, from the greeting to the answer.
pub(super) struct Conversation<'c> {
    launch: &'c Launch<'c>,
    command: &'c AgentCommand,
    server: McpServer,
    session: OnceLock<SessionId>,
    logins: OnceLock<Vec<AuthMethod>>,
    stopped: AtomicBool,
    /// The agent repeats what was said in a conversation before it goes on with it.
    repeats_history: AtomicBool,
    asked: AtomicU32,
    notes: Mutex<Notes<'c>>,
}

/// What the agent has reported.
struct Notes<'c> {
    progress: ProgressReporter<'c>,
    errors: &'c ErrorPatterns,
    tools: HashMap<ToolCallId, Tool>,
    counts: SessionUsage,
}

#[derive(Clone, Default)]
struct Tool {
    kind: ToolKind,
    /// Its title, and its name for programs.
    names: Vec<String>,
}

/// How a conversation ended.
pub(super) enum Ending {
    Outcome(AgentOutcome),
    Broken(Breakage),
    Stopped(Stop),
}

/// A request failed, or the agent is gone.
pub(super) struct Breakage {
    /// Whether the agent closed its output.
    pub is_gone: bool,
    /// Why the agent wants a login, if it does.
    pub needs_login: Option<String>,
    /// The error's message, and every string in its data.
    pub texts: Vec<String>,
}

impl<'c> Conversation<'c> {
    pub fn new(launch: &'c Launch<'c>, command: &'c AgentCommand) -> Result<Conversation<'c>, String> {
        let itself = &launch.launcher.itself;
        let words = command.answer_files.arguments().into_iter().map(|word| word.into_string());
        let words = words.collect::<Result<Vec<String>, _>>();
        let is_text = launch.question.folder.to_str().is_some() && itself.to_str().is_some();
        let words = words.ok().filter(|_| is_text).ok_or("the protocol can only name paths that are text")?;
        Ok(Conversation {
            launch,
            command,
            server: McpServer::Stdio(McpServerStdio::new(submit::SERVER, itself).args(words)),
            session: OnceLock::new(),
            logins: OnceLock::new(),
            stopped: AtomicBool::new(false),
            repeats_history: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            notes: Mutex::new(Notes {
                progress: ProgressReporter::new(launch.listener),
                errors: &launch.question.agent.profile.errors,
                tools: HashMap::new(),
                counts: SessionUsage::default(),
            }),
        })
    }

    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    pub fn used(&self) -> AgentUsage {
        self.notes().counts.used(self.profile().price)
    }

    pub fn question(&self) -> &'c Question<'c> {
        self.launch.question
    }

    fn profile(&self) -> &'c Profile {
        &self.question().agent.profile
    }

    /// A line for the transcript that is no message.
    pub fn note(&self, line: &str) {
        self.notes().progress.note(line);
    }

    /// Asks and waits for the answer, over these queues of messages, unless it is stopped before.
    pub async fn hold(
        &self,
        outgoing: Sender<String>,
        mut incoming: Receiver<io::Result<String>>,
        stop: impl Future<Output = Stop>,
    ) -> Ending {
        let outgoing = sink::unfold(outgoing, async |outgoing: Sender<String>, message: String| {
            outgoing.send(message).await.map_err(io::Error::other)?;
            Ok(outgoing)
        });
        let incoming = stream::poll_fn(move |context| incoming.poll_recv(context));
        let connection = Client
            .v1()
            .name("aot")
            .on_receive_notification(
                async |notification: SessionNotification, _| {
                    self.update(notification.update);
                    Ok(())
                },
                agent_client_protocol::on_receive_notification!(),
            )
            .on_receive_request(
                async |request: RequestPermissionRequest, responder, _| {
                    responder.respond(self.permit(&request))
                },
                agent_client_protocol::on_receive_request!(),
            )
            .connect_with(Lines::new(outgoing, incoming), async |peer| Ok(self.talk(&peer, stop).await));
        connection.await.unwrap_or_else(|error| self.broken(&error))
    }

    /// Asks, unless it is stopped; then the agent is told so, and has a moment to obey.
    async fn talk(&self, peer: &ConnectionTo<Peer>, stop: impl Future<Output = Stop>) -> Ending {
        let mut asking = pin!(self.ask(peer));
        let stop = select! {
            outcome = &mut asking => {
                return outcome.map_or_else(|error| self.broken(&error), Ending::Outcome);
            }
            stop = stop => stop,
        };
        self.stopped.store(true, Ordering::Release);
        if let Some(session) = self.session.get()
            && peer.send_notification(CancelNotification::new(session.clone())).is_ok()
        {
            // Whether it has obeyed makes no difference.
            let _ = timeout(GRACE, asking).await;
        }
        Ending::Stopped(stop)
    }

    async fn ask(&self, peer: &ConnectionTo<Peer>) -> Result<AgentOutcome, Error> {
        let ourselves = Implementation::new(submit::SERVER, env!("CARGO_PKG_VERSION"));
        // We offer neither to read and write files nor to run commands: the agent does that itself, in its cage.
        let hello = InitializeRequest::new(ProtocolVersion::V1).client_info(ourselves);
        let greeting = peer.send_request(hello).block_task().await?;
        if greeting.protocol_version != ProtocolVersion::V1 {
            let version = greeting.protocol_version;
            let reason = format!("it speaks version {version} of the protocol, and aot speaks version 1");
            return Ok(AgentOutcome::Failed { reason });
        }
        let _ = self.logins.set(greeting.auth_methods);
        let resumed = match greeting.agent_capabilities.load_session {
            true => self.resume(peer).await,
            false => None,
        };
        let goes_on = resumed.is_some();
        let session = match resumed {
            Some(session) => session,
            None => self.begin(peer).await?,
        };
        let id = self.session.get_or_init(|| session.session_id.clone());
        self.launch.session.set_name(Some(id.to_string()));
        self.set_mode(peer, &session).await;
        if let Some(outcome) = self.set_model(peer, &session).await? {
            return Ok(outcome);
        }
        let mut text = self.question().prompt(true, self.question().again.as_deref(), goes_on);
        loop {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            let prompt = PromptRequest::new(id.clone(), vec![ContentBlock::from(text)]);
            let turn = peer.send_request(prompt).block_task().await?;
            self.count_turn(&turn);
            self.notes().progress.pause();
            let reason = match self.answer() {
                Ok(Some(answer)) => return Ok(AgentOutcome::Answer(answer)),
                Ok(None) => format!("the tool `{}` was not called", submit::TOOL),
                Err(reason) => reason,
            };
            if let Some(why) = gave_up(turn.stop_reason) {
                return Ok(AgentOutcome::Failed { reason: why.into() });
            }
            if asked > self.question().repeats {
                return Ok(AgentOutcome::InvalidAnswer { reason });
            }
            text = ask_again(&reason);
        }
    }

    /// Opens a session. An agent that wants to be told by which key it is logged in is told, if it has that key; we do
    /// not log in ourselves.
    async fn begin(&self, peer: &ConnectionTo<Peer>) -> Result<NewSessionResponse, Error> {
        let begin = NewSessionRequest::new(self.question().folder).mcp_servers(vec![self.server.clone()]);
        let begun = peer.send_request(begin.clone()).block_task().await;
        match (begun, self.key()) {
            (Err(error), Some(method)) if error.code == ErrorCode::AUTH_REQUIRED => {
                peer.send_request(AuthenticateRequest::new(method)).block_task().await?;
                peer.send_request(begin).block_task().await
            }
            (begun, _) => begun,
        }
    }

    /// Goes on with the conversation that this one continues. If the agent cannot, a new one begins.
    async fn resume(&self, peer: &ConnectionTo<Peer>) -> Option<NewSessionResponse> {
        let name = self.launch.session.name()?;
        let id = SessionId::new(name);
        let load = LoadSessionRequest::new(id.clone(), self.question().folder);
        self.repeats_history.store(true, Ordering::Release);
        let loaded = peer.send_request(load.mcp_servers(vec![self.server.clone()])).block_task().await;
        self.repeats_history.store(false, Ordering::Release);
        match loaded {
            Ok(loaded) => {
                Some(NewSessionResponse::new(id).modes(loaded.modes).config_options(loaded.config_options))
            }
            Err(error) => {
                self.note(&format!("[it cannot go on with the conversation: {}]", words_of(&error)));
                None
            }
        }
    }

    /// The way to log in for which it has a key.
    fn key(&self) -> Option<String> {
        let has = |wanted: &str| {
            self.command.environment.iter().any(|(name, value)| name == wanted && !value.is_empty())
        };
        let known = self.profile().login.methods.iter();
        let offered = |method: &&String| {
            self.logins.get().into_iter().flatten().any(|login| *login.id().0 == ***method)
        };
        known.filter(|(name, _)| has(name)).map(|(_, method)| method).find(offered).cloned()
    }

    /// An agent that has no such mode, or does not want to be in it, works all the same: the cage does not depend on it.
    async fn set_mode(&self, peer: &ConnectionTo<Peer>, session: &NewSessionResponse) {
        let Some(choice) = self.mode(session) else { return };
        let id = session.session_id.clone();
        let set = match &choice {
            ModeRequest::Mode(mode) => {
                let request = SetSessionModeRequest::new(id, mode.clone());
                peer.send_request(request).block_task().await.map(drop)
            }
            ModeRequest::Option(option, value) => {
                let request = SetSessionConfigOptionRequest::new(id, option.clone(), value.as_str());
                peer.send_request(request).block_task().await.map(drop)
            }
        };
        let mode = match &choice {
            ModeRequest::Mode(mode) | ModeRequest::Option(_, mode) => mode,
        };
        let note = match set {
            Ok(()) => format!("[mode: {mode}]"),
            Err(error) => format!("[mode: {mode} was refused: {}]", words_of(&error)),
        };
        self.notes().progress.note(&note);
    }

    fn mode(&self, session: &NewSessionResponse) -> Option<ModeRequest> {
        let own = self.profile().flags(self.question().role()).mode.as_deref();
        let best = |offered: &[(String, &str)]| {
            let offered = offered.iter().map(|(id, name)| (id.as_str(), *name));
            modes::best(self.question().role(), own, offered).map(str::to_owned)
        };
        if let Some(modes) = &session.modes {
            let offered = modes.available_modes.iter().map(|mode| (mode.id.to_string(), mode.name.as_str()));
            let best = best(&offered.collect::<Vec<_>>())?;
            return (best != modes.current_mode_id.to_string()).then_some(ModeRequest::Mode(best));
        }
        options(session, &SessionConfigOptionCategory::Mode).find_map(|(option, current, offered)| {
            let best = best(&offered)?;
            (best != current).then_some(ModeRequest::Option(option, best))
        })
    }

    /// A model that is configured and not offered is not replaced by another, which may cost more. Where the profile
    /// names it on the command line, it is set already.
    async fn set_model(
        &self,
        peer: &ConnectionTo<Peer>,
        session: &NewSessionResponse,
    ) -> Result<Option<AgentOutcome>, Error> {
        let Some(model) = &self.question().agent.model else { return Ok(None) };
        if !self.profile().model_arguments.is_empty() {
            return Ok(None);
        }
        let mut models = options(session, &SessionConfigOptionCategory::Model);
        let Some((option, current, offered)) = models.next() else {
            let reason = format!("it cannot be told to use the model `{model}`");
            return Ok(Some(AgentOutcome::Unusable { reason }));
        };
        let fits = |(id, name): &&(String, &str)| id == model || name == model;
        let Some((found, _)) = offered.iter().find(fits) else {
            let offered: Vec<&str> = offered.iter().map(|(id, _)| id.as_str()).collect();
            let reason = format!("it does not offer the model `{model}`, but {}", offered.join(", "));
            return Ok(Some(AgentOutcome::Unusable { reason: in_one_line(&reason) }));
        };
        if *found != current {
            let id = session.session_id.clone();
            let request = SetSessionConfigOptionRequest::new(id, option, found.as_str());
            peer.send_request(request).block_task().await?;
        }
        Ok(None)
    }

    /// A submitted answer that is valid, `None` if there is none, or what is wrong with it.
    pub fn answer(&self) -> Result<Option<Value>, String> {
        let answer = self.command.answer_files.answer()?;
        answer.map(|answer| (self.question().read)(&answer).map(|()| answer)).transpose()
    }

    fn broken(&self, error: &Error) -> Ending {
        Ending::Broken(Breakage {
            is_gone: agent_client_protocol::is_incoming_transport_closed(error),
            needs_login: (error.code == ErrorCode::AUTH_REQUIRED).then(|| self.log_in(error)),
            texts: texts_of(error),
        })
    }

    fn log_in(&self, error: &Error) -> String {
        let ways: Vec<&str> = self.logins.get().into_iter().flatten().map(AuthMethod::name).collect();
        match &ways[..] {
            [] => words_of(error),
            ways => in_one_line(&format!("{} (it offers: {})", words_of(error), ways.join(", "))),
        }
    }

    /// Permissions are answered by what a tool does and by what an option means. They protect nothing, since
    /// agents need not ask: the cage does.
    fn permit(&self, request: &RequestPermissionRequest) -> RequestPermissionResponse {
        let mut notes = self.notes();
        let tool = notes.learn(&request.tool_call.tool_call_id, &request.tool_call.fields);
        let is_allowed = !self.stopped.load(Ordering::Acquire) && is_allowed(self.question().role(), &tool);
        let wanted = match is_allowed {
            true => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
            false => [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways],
        };
        if !is_allowed {
            notes.progress.note(&format!("[refused: {}]", in_one_line(&tool.names.join(" "))));
        }
        let option =
            wanted.iter().find_map(|kind| request.options.iter().find(|option| option.kind == *kind));
        RequestPermissionResponse::new(match option {
            Some(option) if !self.stopped.load(Ordering::Acquire) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
            }
            Some(_) | None => RequestPermissionOutcome::Cancelled,
        })
    }

    fn update(&self, update: SessionUpdate) {
        if self.repeats_history.load(Ordering::Acquire) {
            return;
        }
        let mut notes = self.notes();
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                if let ContentBlock::Text(text) = chunk.content {
                    notes.progress.says(&text.text);
                }
            }
            SessionUpdate::AgentThoughtChunk(_) => notes.progress.does("thinks"),
            SessionUpdate::ToolCall(call) => {
                let fields = ToolCallUpdateFields::new().title(call.title).name(call.name).kind(call.kind);
                notes.tool(&call.tool_call_id, &fields);
            }
            SessionUpdate::ToolCallUpdate(update) => notes.tool(&update.tool_call_id, &update.fields),
            SessionUpdate::Plan(plan) => {
                let mut entries = plan.entries.iter();
                if let Some(now) = entries.find(|entry| entry.status == PlanEntryStatus::InProgress) {
                    notes.progress.does(&now.content);
                }
            }
            SessionUpdate::UsageUpdate(usage) => {
                let cost = usage.cost.filter(|cost| cost.currency.eq_ignore_ascii_case("usd"));
                let before = notes.counts;
                notes.counts.update(usage.used, cost.map(|cost| cost.amount));
                let counts = notes.counts;
                drop(notes);
                if counts != before {
                    self.report(counts);
                }
            }
            _ => {}
        }
    }

    fn count_turn(&self, turn: &PromptResponse) {
        let mut notes = self.notes();
        notes.counts.add(tokens_of(turn));
        let counts = notes.counts;
        drop(notes);
        self.report(counts);
    }

    fn report(&self, counts: SessionUsage) {
        (self.launch.listener)(AgentEvent::Usage(counts.used(self.profile().price)));
    }

    /// A thread that panicked in between has left nothing half done.
    fn notes(&self) -> MutexGuard<'_, Notes<'c>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes<'_> {
    fn tool(&mut self, id: &ToolCallId, fields: &ToolCallUpdateFields) {
        self.learn(id, fields);
        if let Some(title) = &fields.title {
            self.progress.does(title);
        }
        if fields.status == Some(ToolCallStatus::Failed) {
            let contents = fields.content.iter().flatten();
            let texts = contents.filter_map(|content| match content {
                ToolCallContent::Content(content) => match &content.content {
                    ContentBlock::Text(text) => Some(in_one_line(&text.text)),
                    _ => None,
                },
                _ => None,
            });
            let told = texts.collect::<Vec<String>>().join(" ");
            match told.is_empty() || self.errors.is_everyday(&told) {
                true => self.progress.note(&format!("[failed: {told}]")),
                false => self.progress.tool_failed(&told),
            }
        }
    }

    /// What is known of a tool after this; updates name only what is new.
    fn learn(&mut self, id: &ToolCallId, fields: &ToolCallUpdateFields) -> Tool {
        if self.tools.len() >= TOOLS_KEPT && !self.tools.contains_key(id) {
            self.tools.clear();
        }
        let tool = self.tools.entry(id.clone()).or_default();
        tool.kind = fields.kind.unwrap_or(tool.kind);
        let names = [&fields.title, &fields.name].into_iter().flatten().cloned();
        let names: Vec<String> = names.collect();
        if !names.is_empty() {
            tool.names = names;
        }
        tool.clone()
    }
}

/// Input, output and all tokens of a turn. Some agents report them in a field of the protocol's draft, others in one of
/// their own.
fn tokens_of(turn: &PromptResponse) -> (u64, u64, u64) {
    if let Some(usage) = &turn.usage {
        return (usage.input_tokens, usage.output_tokens, usage.total_tokens);
    }
    let own = turn.meta.as_ref().and_then(|meta| meta.get("quota")).map(|quota| &quota["token_count"]);
    let number = |name: &str| own.and_then(|own| own[name].as_u64()).unwrap_or(0);
    let (input, output) = (number("input_tokens"), number("output_tokens"));
    (input, output, input.saturating_add(output))
}

/// A mode is set by a request of its own, or as an option among others.
enum ModeRequest {
    Mode(String),
    Option(String, String),
}

/// What can be chosen in a category: the option, what is chosen now, and the values with their names.
fn options<'s>(
    session: &'s NewSessionResponse,
    category: &SessionConfigOptionCategory,
) -> impl Iterator<Item = (String, String, Vec<(String, &'s str)>)> {
    let all = session.config_options.iter().flatten();
    let fitting = all.filter(move |option| option.category.as_ref() == Some(category));
    fitting.filter_map(|option| {
        let SessionConfigKind::Select(select) = &option.kind else { return None };
        let values = match &select.options {
            SessionConfigSelectOptions::Ungrouped(values) => values.iter().collect(),
            SessionConfigSelectOptions::Grouped(groups) => {
                groups.iter().flat_map(|group| &group.options).collect()
            }
            _ => Vec::new(),
        };
        let offered =
            values.into_iter().map(|value| (value.value.to_string(), value.name.as_str())).collect();
        Some((option.id.to_string(), select.current_value.to_string(), offered))
    })
}

/// A worker may do anything in its cage. The other roles read and submit; a judge also runs what shows the quality.
fn is_allowed(role: Role, tool: &Tool) -> bool {
    match (role, tool.kind) {
        (Role::Worker, _) | (Role::Judge, ToolKind::Execute) => true,
        (
            Role::Probe | Role::Judge | Role::Coordinator,
            ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch,
        ) => true,
        (
            Role::Probe | Role::Judge | Role::Coordinator,
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move | ToolKind::Execute | ToolKind::SwitchMode,
        ) => false,
        (Role::Probe | Role::Judge | Role::Coordinator, _) => {
            tool.names.iter().any(|name| name.contains(submit::TOOL))
        }
    }
}

fn gave_up(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::EndTurn => None,
        StopReason::MaxTokens => Some("it has used up its tokens"),
        StopReason::MaxTurnRequests => Some("it has used up its requests to the model"),
        StopReason::Refusal => Some("it refused to go on"),
        StopReason::Cancelled => Some("it was cancelled, and not by us"),
        _ => Some("it stopped for a reason that aot does not know"),
    }
}

fn texts_of(error: &Error) -> Vec<String> {
    let mut texts = vec![error.message.clone()];
    let mut open: Vec<&Value> = error.data.iter().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(values) => open.extend(values.iter().rev()),
            Value::Object(fields) => open.extend(fields.values().rev()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    texts
}

fn words_of(error: &Error) -> String {
    in_one_line(&texts_of(error).join(": "))
}
