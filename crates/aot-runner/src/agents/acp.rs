//! Agents that speak the Agent Client Protocol over their standard streams. The only file that knows the protocol, and
//! the crate that implements it.
//!
//! To whoever asks it is a function that returns when the question has ended. Within, the caller's thread runs the
//! protocol on channels; others write to the agent, wait for its process and watch the clock. Nothing needs a runtime.

use std::collections::HashMap;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthenticateRequest, CancelNotification, ContentBlock, Implementation, InitializeRequest,
    McpServer, McpServerStdio, NewSessionRequest, NewSessionResponse, PermissionOptionKind, PlanEntryStatus,
    PromptRequest, PromptResponse, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, SessionConfigKind, SessionConfigOptionCategory,
    SessionConfigSelectOptions, SessionId, SessionNotification, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionModeRequest, StopReason, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdateFields,
    ToolKind, UsageUpdate,
};
use agent_client_protocol::{Agent as Peer, Client, Error, ErrorCode, Lines};
use aot_core::brief::Role;
use futures::channel::{mpsc, oneshot};
use futures::executor::{block_on, block_on_stream};
use futures::future::{Either, ready, select};
use futures::{SinkExt, StreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;

use super::Agent;
use super::launcher::Launch;
use super::listen::in_one_line;
use super::narrator::Narrator;
use super::prepared::Prepared;
use super::question::{AgentEvent, AgentOutcome, AgentUsage, Report, ask_again};
use super::submit::{self, Envelope};
use crate::process::{Captured, Ended, Feed, How, Input, Job, Limits, Stream, Switch, Tap};

/// How long an agent that was told to stop may live on.
const GRACE: Duration = Duration::from_millis(100);

/// What is longer is no message.
const LONGEST_LINE: usize = 16 << 20;

/// So many messages wait for us at most; then the agent waits.
const QUEUED: usize = 64;

/// Of what it prints besides the protocol so much is kept.
const HEAD_KEPT: usize = 16 << 10;
const TAIL_KEPT: usize = 48 << 10;

/// Modes in which an agent only reads, and those in which it works without asking, the best first. The protocol has no
/// kinds of modes, only names; letters and digits are compared.
const READING: [&str; 3] = ["readonly", "plan", "ask"];
const WORKING: [&str; 8] =
    ["bypasspermissions", "yolo", "fullaccess", "acceptedits", "autoedit", "auto", "build", "code"];

pub(super) fn ask(launch: &Launch<'_>) -> Report {
    if launch.question.switch.is_off() {
        return Report { outcome: AgentOutcome::Killed, used: AgentUsage::default(), asked: 0 };
    }
    match Call::prepare(launch) {
        Ok((call, feed)) => {
            let said = call.make(feed);
            Report { outcome: said, used: call.used(), asked: call.asked.load(Ordering::Relaxed) }
        }
        Err(reason) => Report::not_started(reason),
    }
}

/// One question, from the start of the agent's process to its end.
struct Call<'c> {
    agent: &'c Agent,
    launch: &'c Launch<'c>,
    prepared: Prepared,
    server: McpServer,
    session: OnceLock<SessionId>,
    /// How one logs in.
    logins: OnceLock<Vec<AuthMethod>>,
    stopped: AtomicBool,
    asked: AtomicU32,
    notes: Mutex<Notes<'c>>,
}

struct Notes<'c> {
    narrator: Narrator<'c>,
    tools: HashMap<ToolCallId, Tool>,
    counts: Counts,
}

#[derive(Clone, Default)]
struct Tool {
    kind: ToolKind,
    /// What it is called, for people and for programs.
    names: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    /// Of all turns that have ended.
    input: u64,
    output: u64,
    total: u64,
    /// What the model has before it now: some agents tell nothing else.
    context: u64,
    cost_usd: Option<f64>,
}

/// Why a conversation does not come to its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Killed,
    OutOfTime,
}

/// How a conversation ended.
enum Talked {
    To(AgentOutcome),
    /// A request failed, or there is nobody to ask any more.
    Broken(Error),
    Stopped(Stop),
}

impl<'c> Call<'c> {
    fn prepare(launch: &'c Launch<'c>) -> Result<(Call<'c>, Feed), String> {
        let prepared = Prepared::new(launch, "")?;
        let input = prepared.folder.join("input");
        let feed = Feed::make(&input).map_err(|error| format!("its input cannot be made: {error}"))?;
        let words = prepared.tray.words().into_iter().map(|word| word.into_string());
        let words = words.collect::<Result<Vec<String>, _>>();
        let is_text = launch.question.folder.to_str().is_some() && launch.launcher.itself.to_str().is_some();
        let words = words.ok().filter(|_| is_text).ok_or("the protocol can only name paths that are text")?;
        let call = Call {
            agent: launch.question.agent,
            launch,
            prepared,
            server: McpServer::Stdio(
                McpServerStdio::new(submit::SERVER, &launch.launcher.itself).args(words),
            ),
            session: OnceLock::new(),
            logins: OnceLock::new(),
            stopped: AtomicBool::new(false),
            asked: AtomicU32::new(0),
            notes: Mutex::new(Notes {
                narrator: Narrator::new(launch.listener),
                tools: HashMap::new(),
                counts: Counts::default(),
            }),
        };
        Ok((call, feed))
    }

    fn make(&self, feed: Feed) -> AgentOutcome {
        let (words, outgoing) = mpsc::unbounded::<String>();
        let (lines, incoming) = mpsc::channel::<io::Result<String>>(QUEUED);
        let (noise, heard) = mpsc::channel::<String>(QUEUED);
        let (stop, stops) = mpsc::unbounded::<Stop>();
        let job = self.job(feed.input());
        let own = Switch::default();
        let guard = self.launch.launcher.guard.under(&own);
        let (killed, kill) = (stop.clone(), own.clone());
        let wire = self.launch.question.switch.connect(move || {
            // Nobody listens any more to a conversation that has ended.
            let _ = killed.unbounded_send(Stop::Killed);
            let kill = kill.clone();
            // Whatever the conversation does meanwhile.
            std::thread::spawn(move || {
                std::thread::sleep(GRACE);
                kill.turn_off();
            });
        });
        let (talked, ended) = std::thread::scope(|scope| {
            scope.spawn(move || write(feed, outgoing));
            let (done, process) = blocking::channel();
            scope.spawn(move || {
                let ended = guard.run_heard(&job, tap(lines.clone(), noise.clone()));
                // Should somebody who cannot be killed hold a stream open, this is its end all the same.
                lines.clone().close_channel();
                noise.clone().close_channel();
                // It is waited for below.
                let _ = done.send(ended);
            });
            let (talking, over) = blocking::channel::<()>();
            let wall = self.launch.question.wall;
            scope.spawn(move || {
                if over.recv_timeout(wall) == Err(blocking::RecvTimeoutError::Timeout) {
                    let _ = stop.unbounded_send(Stop::OutOfTime);
                }
            });
            let talked = block_on(self.converse(words, incoming, heard, stops));
            drop(talking);
            if let Talked::Stopped(_) = talked {
                own.turn_off();
            }
            // Its input has ended: an agent that is done ends with it.
            let ended = process.recv_timeout(GRACE).or_else(|_| {
                own.turn_off();
                process.recv()
            });
            (talked, ended.expect("a process is waited for to its end"))
        });
        drop(wire);
        match ended {
            Ok(ended) => self.conclude(talked, &ended),
            Err(error) => AgentOutcome::NotStarted { reason: error.to_string() },
        }
    }

    fn job(&self, input: Input) -> Job {
        let limits = Limits {
            // The agent is asked to stop before this.
            wall: self.launch.question.wall + 2 * GRACE,
            idle: self.launch.question.idle,
            grace: GRACE,
            head: HEAD_KEPT,
            tail: TAIL_KEPT,
        };
        self.launch.job(&self.prepared, input, limits)
    }

    async fn converse(
        &self,
        words: mpsc::UnboundedSender<String>,
        mut lines: mpsc::Receiver<io::Result<String>>,
        mut noise: mpsc::Receiver<String>,
        stops: mpsc::UnboundedReceiver<Stop>,
    ) -> Talked {
        let mut turns = 0_usize;
        // Who talks without a pause is not to keep us from anything else.
        let lines = stream::poll_fn(move |context| {
            turns += 1;
            if turns.is_multiple_of(QUEUED) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            lines.poll_next_unpin(context)
        });
        let connected = Client
            .v1()
            .name("aot")
            .on_receive_notification(
                async |told: SessionNotification, _| {
                    self.hear(told.update);
                    Ok(())
                },
                agent_client_protocol::on_receive_notification!(),
            )
            .on_receive_request(
                async |asked: RequestPermissionRequest, responder, _| responder.respond(self.permit(&asked)),
                agent_client_protocol::on_receive_request!(),
            )
            .connect_with(Lines::new(words.sink_map_err(io::Error::other), lines), async |peer| {
                Ok(self.talk(&peer, stops).await)
            });
        let hearing = noise.by_ref().for_each(|line| {
            self.notes().narrator.note(&line);
            ready(())
        });
        let talked = match select(pin!(connected), pin!(hearing)).await {
            Either::Left((talked, _)) => talked,
            Either::Right(((), connected)) => connected.await,
        };
        // What it complained about last may say why it ended.
        while let Ok(line) = noise.try_recv() {
            self.notes().narrator.note(&line);
        }
        talked.unwrap_or_else(Talked::Broken)
    }

    /// Asks, unless it is told to stop; then the agent is told, and has a moment to obey.
    async fn talk(&self, peer: &ConnectionTo<Peer>, mut stops: mpsc::UnboundedReceiver<Stop>) -> Talked {
        let question = pin!(self.question(peer));
        let (stop, question) = match select(question, stops.next()).await {
            Either::Left((Ok(said), _)) => return Talked::To(said),
            Either::Left((Err(error), _)) => return Talked::Broken(error),
            Either::Right((stop, question)) => (stop.unwrap_or(Stop::Killed), question),
        };
        self.stopped.store(true, Ordering::Release);
        if let Some(session) = self.session.get()
            && peer.send_notification(CancelNotification::new(session.clone())).is_ok()
        {
            // Whether it has obeyed makes no difference.
            let _ = select(question, after(GRACE)).await;
        }
        Talked::Stopped(stop)
    }

    async fn question(&self, peer: &ConnectionTo<Peer>) -> Result<AgentOutcome, Error> {
        let ourselves = Implementation::new(submit::SERVER, env!("CARGO_PKG_VERSION"));
        // It can neither have us read and write files nor run commands: it does that itself, in its cage.
        let hello = InitializeRequest::new(ProtocolVersion::V1).client_info(ourselves);
        let greeting = peer.send_request(hello).block_task().await?;
        if greeting.protocol_version != ProtocolVersion::V1 {
            let version = greeting.protocol_version;
            let reason = format!("it speaks version {version} of the protocol, and aot speaks version 1");
            return Ok(AgentOutcome::Failed { reason });
        }
        let _ = self.logins.set(greeting.auth_methods);
        let session = self.begin(peer).await?;
        let id = self.session.get_or_init(|| session.session_id.clone());
        self.set_mode(peer, &session).await;
        if let Some(said) = self.set_model(peer, &session).await? {
            return Ok(said);
        }
        let mut text = self.launch.question.prompt(true, None);
        loop {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            let prompt = PromptRequest::new(id.clone(), vec![ContentBlock::from(text)]);
            let turn = peer.send_request(prompt).block_task().await?;
            self.count_turn(&turn);
            self.notes().narrator.pause();
            let reason = match self.answer() {
                Ok(Some(answer)) => return Ok(AgentOutcome::Answer(answer)),
                Ok(None) => format!("the tool `{}` was not called", submit::TOOL),
                Err(reason) => reason,
            };
            if let Some(why) = gave_up(turn.stop_reason) {
                return Ok(AgentOutcome::Failed { reason: why.into() });
            }
            if asked > self.launch.question.repeats {
                return Ok(AgentOutcome::InvalidAnswer { reason });
            }
            text = ask_again(&reason);
        }
    }

    /// Opens a session. An agent that wants to be told by which key it is logged in is told, if it has that key; we log
    /// nobody in.
    async fn begin(&self, peer: &ConnectionTo<Peer>) -> Result<NewSessionResponse, Error> {
        let begin =
            NewSessionRequest::new(self.launch.question.folder).mcp_servers(vec![self.server.clone()]);
        let begun = peer.send_request(begin.clone()).block_task().await;
        match (begun, self.key()) {
            (Err(error), Some(method)) if error.code == ErrorCode::AUTH_REQUIRED => {
                peer.send_request(AuthenticateRequest::new(method)).block_task().await?;
                peer.send_request(begin).block_task().await
            }
            (begun, _) => begun,
        }
    }

    /// The way to log in for which it has a key.
    fn key(&self) -> Option<String> {
        let has = |wanted: &str| {
            self.prepared.environment.iter().any(|(name, value)| name == wanted && !value.is_empty())
        };
        let known = self.agent.profile.login.methods.iter();
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
            Choice::Mode(mode) => {
                let request = SetSessionModeRequest::new(id, mode.clone());
                peer.send_request(request).block_task().await.map(drop)
            }
            Choice::Option(option, value) => {
                let request = SetSessionConfigOptionRequest::new(id, option.clone(), value.as_str());
                peer.send_request(request).block_task().await.map(drop)
            }
        };
        let mode = match &choice {
            Choice::Mode(mode) | Choice::Option(_, mode) => mode,
        };
        let note = match set {
            Ok(()) => format!("[mode: {mode}]"),
            Err(error) => format!("[mode: {mode} was refused: {}]", words_of(&error)),
        };
        self.notes().narrator.note(&note);
    }

    fn mode(&self, session: &NewSessionResponse) -> Option<Choice> {
        let wanted =
            self.agent.profile.flags(self.launch.question.role()).mode.iter().map(|mode| plain(mode));
        let known: &[&str] = match self.launch.question.role() {
            Role::Worker => &WORKING,
            Role::Probe | Role::Judge | Role::Coordinator => &READING,
        };
        let wanted: Vec<String> = wanted.chain(known.iter().map(|mode| (*mode).to_owned())).collect();
        if let Some(modes) = &session.modes {
            let offered = modes.available_modes.iter().map(|mode| (mode.id.to_string(), mode.name.as_str()));
            let best = best(&wanted, offered)?;
            return (best != modes.current_mode_id.to_string()).then_some(Choice::Mode(best));
        }
        options(session, &SessionConfigOptionCategory::Mode).find_map(|(option, current, offered)| {
            let best = best(&wanted, offered.into_iter())?;
            (best != current).then_some(Choice::Option(option, best))
        })
    }

    /// A model that is wished for and cannot be had is not replaced by another, which may cost more. Where the profile
    /// names it on the command line, it is set already.
    async fn set_model(
        &self,
        peer: &ConnectionTo<Peer>,
        session: &NewSessionResponse,
    ) -> Result<Option<AgentOutcome>, Error> {
        let Some(model) = &self.agent.model else { return Ok(None) };
        if !self.agent.profile.model_arguments.is_empty() {
            return Ok(None);
        }
        let mut models = options(session, &SessionConfigOptionCategory::Model);
        let Some((option, current, offered)) = models.next() else {
            let reason = format!("it cannot be told to use the model `{model}`");
            return Ok(Some(AgentOutcome::NotStarted { reason }));
        };
        let fits = |(id, name): &&(String, &str)| id == model || name == model;
        let Some((found, _)) = offered.iter().find(fits) else {
            let offered: Vec<&str> = offered.iter().map(|(id, _)| id.as_str()).collect();
            let reason = format!("it does not offer the model `{model}`, but {}", offered.join(", "));
            return Ok(Some(AgentOutcome::NotStarted { reason: in_one_line(&reason) }));
        };
        if *found != current {
            let id = session.session_id.clone();
            let request = SetSessionConfigOptionRequest::new(id, option, found.as_str());
            peer.send_request(request).block_task().await?;
        }
        Ok(None)
    }

    /// What was handed in and is valid; that nothing was; or what is wrong with it.
    fn answer(&self) -> Result<Option<Value>, String> {
        match self.prepared.tray.take() {
            Ok(Some(Envelope::Accepted(answer))) => {
                (self.launch.question.read)(&answer).map(|()| Some(answer))
            }
            Ok(Some(Envelope::Refused { reason, .. })) => Err(reason),
            Ok(None) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn conclude(&self, talked: Talked, ended: &Ended) -> AgentOutcome {
        let error = match talked {
            Talked::To(said) => return said,
            Talked::Stopped(Stop::Killed) => return AgentOutcome::Killed,
            Talked::Stopped(Stop::OutOfTime) => {
                let late = AgentOutcome::TimedOut { reason: "its time was over".into() };
                return self.trouble(vec![text(&ended.errors)]).unwrap_or(late);
            }
            Talked::Broken(error) => error,
        };
        // An agent that broke after it had answered has answered.
        if let Ok(Some(answer)) = self.answer() {
            return AgentOutcome::Answer(answer);
        }
        if error.code == ErrorCode::AUTH_REQUIRED {
            return AgentOutcome::Unauthenticated { reason: self.log_in(&error) };
        }
        let is_gone = agent_client_protocol::is_incoming_transport_closed(&error);
        let mut texts = vec![text(&ended.errors)];
        if !is_gone {
            texts.extend(texts_of(&error));
        }
        if let Some(said) = self.trouble(texts) {
            return said;
        }
        let detail = if is_gone { last_line(&ended.errors) } else { Some(words_of(&error)) };
        let with = |what: String| match detail {
            Some(detail) => format!("{what}: {detail}"),
            None => what,
        };
        match &ended.how {
            How::NotStarted(why) => AgentOutcome::NotStarted { reason: why.clone() },
            How::Silent => {
                let idle = self.launch.question.idle.unwrap_or_default().as_secs();
                AgentOutcome::TimedOut { reason: with(format!("it said nothing for {idle} s")) }
            }
            How::OutOfTime => AgentOutcome::TimedOut { reason: with("its time was over".into()) },
            _ if !is_gone => AgentOutcome::Failed { reason: with("it failed".into()) },
            How::Exited(code) => {
                AgentOutcome::Failed { reason: with(format!("it ended with exit code {code}")) }
            }
            How::Signalled(signal) => {
                AgentOutcome::Failed { reason: with(format!("it was ended by signal {signal}")) }
            }
            How::Killed | How::Lost => {
                AgentOutcome::NotStarted { reason: "it was killed from outside".into() }
            }
        }
    }

    fn trouble(&self, texts: Vec<String>) -> Option<AgentOutcome> {
        self.agent.profile.trouble.of(&texts, Timestamp::now())
    }

    fn log_in(&self, error: &Error) -> String {
        let ways: Vec<&str> = self.logins.get().into_iter().flatten().map(AuthMethod::name).collect();
        match &ways[..] {
            [] => words_of(error),
            ways => in_one_line(&format!("{} (it offers: {})", words_of(error), ways.join(", "))),
        }
    }

    /// Permissions are answered by what a tool does and by what an option means. They keep nobody from anything, since
    /// agents need not ask: the cage does.
    fn permit(&self, asked: &RequestPermissionRequest) -> RequestPermissionResponse {
        let mut notes = self.notes();
        let tool = notes.learn(&asked.tool_call.tool_call_id, &asked.tool_call.fields);
        let is_allowed = !self.stopped.load(Ordering::Acquire) && may(self.launch.question.role(), &tool);
        let wanted = match is_allowed {
            true => [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways],
            false => [PermissionOptionKind::RejectOnce, PermissionOptionKind::RejectAlways],
        };
        if !is_allowed {
            notes.narrator.note(&format!("[refused: {}]", in_one_line(&tool.names.join(" "))));
        }
        let option = wanted.iter().find_map(|kind| asked.options.iter().find(|option| option.kind == *kind));
        RequestPermissionResponse::new(match option {
            Some(option) if !self.stopped.load(Ordering::Acquire) => {
                RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
            }
            Some(_) | None => RequestPermissionOutcome::Cancelled,
        })
    }

    fn hear(&self, update: SessionUpdate) {
        let mut notes = self.notes();
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                if let ContentBlock::Text(text) = chunk.content {
                    notes.narrator.says(&text.text);
                }
            }
            SessionUpdate::AgentThoughtChunk(_) => notes.narrator.does("thinks"),
            SessionUpdate::ToolCall(call) => {
                let fields = ToolCallUpdateFields::new().title(call.title).name(call.name).kind(call.kind);
                notes.tell(&call.tool_call_id, &fields);
            }
            SessionUpdate::ToolCallUpdate(update) => notes.tell(&update.tool_call_id, &update.fields),
            SessionUpdate::Plan(plan) => {
                let mut entries = plan.entries.iter();
                if let Some(now) = entries.find(|entry| entry.status == PlanEntryStatus::InProgress) {
                    notes.narrator.does(&now.content);
                }
            }
            SessionUpdate::UsageUpdate(usage) => {
                let before = self.priced(notes.counts);
                notes.counts.see(&usage);
                let used = self.priced(notes.counts);
                drop(notes);
                if used != before {
                    (self.launch.listener)(AgentEvent::Usage(used));
                }
            }
            _ => {}
        }
    }

    fn count_turn(&self, turn: &PromptResponse) {
        let mut notes = self.notes();
        notes.counts.add(turn);
        let used = self.priced(notes.counts);
        drop(notes);
        (self.launch.listener)(AgentEvent::Usage(used));
    }

    fn used(&self) -> AgentUsage {
        self.priced(self.notes().counts)
    }

    fn priced(&self, counts: Counts) -> AgentUsage {
        let price = self.agent.profile.price;
        let by_price = price
            .map(|price| (counts.input as f64 * price.input + counts.output as f64 * price.output) / 1e6);
        AgentUsage { tokens: counts.total.max(counts.context), cost_usd: counts.cost_usd.or(by_price) }
    }

    /// A thread that panicked in between has left nothing half done.
    fn notes(&self) -> MutexGuard<'_, Notes<'c>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notes<'_> {
    fn tell(&mut self, id: &ToolCallId, fields: &ToolCallUpdateFields) {
        self.learn(id, fields);
        if let Some(title) = &fields.title {
            self.narrator.does(title);
        }
        if fields.status == Some(ToolCallStatus::Failed) {
            let contents = fields.content.iter().flatten();
            let said = contents.filter_map(|content| match content {
                ToolCallContent::Content(content) => match &content.content {
                    ContentBlock::Text(text) => Some(in_one_line(&text.text)),
                    _ => None,
                },
                _ => None,
            });
            let said: Vec<String> = said.collect();
            self.narrator.note(&format!("[failed: {}]", said.join(" ")));
        }
    }

    /// What is known of a tool after this; updates name only what is new.
    fn learn(&mut self, id: &ToolCallId, fields: &ToolCallUpdateFields) -> Tool {
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

impl Counts {
    fn see(&mut self, usage: &UsageUpdate) {
        self.context = self.context.max(usage.used);
        let cost = usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("usd"));
        let amount = cost.map(|cost| cost.amount).filter(|amount| amount.is_finite() && *amount >= 0.0);
        self.cost_usd = amount.or(self.cost_usd);
    }

    /// Some tell it in a field of the protocol's draft, others in one of their own.
    fn add(&mut self, turn: &PromptResponse) {
        let (input, output, total) = match &turn.usage {
            Some(usage) => (usage.input_tokens, usage.output_tokens, usage.total_tokens),
            None => {
                let own =
                    turn.meta.as_ref().and_then(|meta| meta.get("quota")).map(|quota| &quota["token_count"]);
                let number = |name: &str| own.and_then(|own| own[name].as_u64()).unwrap_or(0);
                let (input, output) = (number("input_tokens"), number("output_tokens"));
                (input, output, input.saturating_add(output))
            }
        };
        self.input = self.input.saturating_add(input);
        self.output = self.output.saturating_add(output);
        self.total = self.total.saturating_add(total);
    }
}

/// A mode is set by a request of its own, or as an option among others.
enum Choice {
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

/// The first of the wanted that is offered.
fn best<'o>(wanted: &[String], offered: impl Iterator<Item = (String, &'o str)>) -> Option<String> {
    let offered: Vec<(String, &str)> = offered.collect();
    wanted.iter().find_map(|wanted| {
        let fits = |(id, name): &&(String, &str)| plain(id) == *wanted || plain(name) == *wanted;
        offered.iter().find(fits).map(|(id, _)| id.clone())
    })
}

/// Letters and digits of a name. Some agents name a mode by an address.
fn plain(name: &str) -> String {
    let name = name.rsplit(['/', '#']).next().unwrap_or(name).to_lowercase();
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    letters.strip_suffix("mode").map(str::to_owned).unwrap_or(letters)
}

/// A worker may do what it likes in its cage. All others read, and hand in; a judge also runs what shows the quality.
fn may(role: Role, tool: &Tool) -> bool {
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

/// What an error says: its message, and every text in what comes with it.
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

/// Writes line by line what is said to the agent, until nothing more will be.
fn write(mut feed: Feed, words: mpsc::UnboundedReceiver<String>) {
    let mut listens = true;
    for (count, line) in block_on_stream(words).enumerate() {
        if count > 0 {
            // Only an answer makes us say more, and whoever answers has its input.
            feed.reached();
        }
        // That it does not listen any more is seen by the end of what it says.
        listens = listens && feed.write_all(format!("{line}\n").as_bytes()).is_ok();
    }
}

/// Messages are lines of standard output that are objects. Everything else goes to the transcript.
fn tap(lines: mpsc::Sender<io::Result<String>>, noise: mpsc::Sender<String>) -> Tap {
    let output = Mutex::new((Vec::new(), lines, noise.clone()));
    let errors = Mutex::new((Vec::new(), noise));
    Arc::new(move |stream, chunk: &[u8]| match stream {
        Stream::Output => {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            let (pending, lines, noise) = &mut *output;
            split(pending, chunk, |line| match line {
                Some(line) if line.starts_with('{') => pass_on(lines, Ok(line)),
                Some(line) => pass_on(noise, line),
                None => pass_on(lines, Err(io::Error::other("it sent a message that has no end"))),
            });
        }
        Stream::Errors => {
            let mut errors = errors.lock().unwrap_or_else(PoisonError::into_inner);
            let (pending, noise) = &mut *errors;
            split(pending, chunk, |line| line.into_iter().for_each(|line| pass_on(noise, line)));
        }
    })
}

/// Calls with every line that is not empty, and with none when one has grown too long.
fn split(pending: &mut Vec<u8>, chunk: &[u8], mut take: impl FnMut(Option<String>)) {
    for part in chunk.split_inclusive(|byte| *byte == b'\n') {
        pending.extend_from_slice(part);
        if pending.len() > LONGEST_LINE {
            pending.clear();
            take(None);
        }
        if pending.ends_with(b"\n") {
            let line = String::from_utf8_lossy(pending).trim().to_owned();
            pending.clear();
            if !line.is_empty() {
                take(Some(line));
            }
        }
    }
}

/// Waits until there is room. That nobody hears it any more is no failure.
fn pass_on<T>(sender: &mut mpsc::Sender<T>, item: T) {
    let _ = block_on(sender.send(item));
}

/// Ready after this time.
fn after(time: Duration) -> oneshot::Receiver<()> {
    let (over, waiting) = oneshot::channel();
    std::thread::spawn(move || {
        std::thread::sleep(time);
        // Nobody may wait any more.
        let _ = over.send(());
    });
    waiting
}

fn text(output: &Captured) -> String {
    let (head, tail) = output.parts();
    format!("{}\n{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail))
}

fn last_line(output: &Captured) -> Option<String> {
    text(output).lines().rev().map(in_one_line).find(|line| !line.is_empty())
}
