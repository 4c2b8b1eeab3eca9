//! An agent that is a command: it is given a brief, prints what it does, and ends. One engine for all of them; what
//! differs is in the profile.

use std::time::Duration;

use aot_core::state::Span;
use jiff::Zoned;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::command::{ANSWER, AgentCommand};
use super::events::{EventReader, in_one_line, unwrapped};
use super::launcher::Launch;
use super::process::{AgentProcess, AgentStep, last_line, text};
use super::profile::{AnswerChannel, Profile, PromptInput};
use super::question::{AgentEvent, AgentOutcome, AgentUsage, Report, ask_again, go_on};
use super::submit;
use crate::process::{Ended, How, Input, Limits, Stream};

/// How long an agent may live on after its time is over.
const GRACE: Duration = Duration::from_secs(5);

/// An agent that cannot overcome an error by itself in this time is ended.
const RETRYING: Duration = Duration::from_secs(60);

/// Bytes kept of the beginning and of the end of each stream, besides what the event reader takes from it.
const HEAD_KEPT: usize = 64 << 10;
const TAIL_KEPT: usize = 64 << 10;

/// Asks, and asks again while the answer is not valid, within the same time and in the same conversation. An agent that
/// broke off goes on there, once: what it has read need not be paid for again.
pub(super) async fn ask(launch: &Launch<'_>) -> Report {
    let began = Instant::now();
    let mut used = AgentUsage::default();
    let mut again = launch.question.again.clone();
    let (mut asked, mut has_broken_off) = (0, false);
    loop {
        let left = launch.question.wall.saturating_sub(began.elapsed());
        if asked > 0 && left.is_zero() {
            let reason = "its time was over".to_owned();
            return Report { outcome: AgentOutcome::TimedOut { reason }, used, asked };
        }
        asked += 1;
        let mut turn = match Turn::new(launch, again.as_deref(), used) {
            Ok(turn) => turn,
            Err(reason) => return Report { outcome: AgentOutcome::NotStarted { reason }, used, asked },
        };
        let conclusion = turn.run(left.max(Duration::from_secs(1))).await;
        let used_now = turn.reader.used();
        used = sum(used, used_now);
        if let Some(name) = turn.reader.session.take() {
            launch.session.set_name(Some(name));
        }
        let may_repeat = asked <= launch.question.repeats;
        let has_worked = used_now != AgentUsage::default();
        let outcome = match conclusion {
            Conclusion::End(AgentOutcome::Failed { .. }) | Conclusion::BrokeOff { .. }
                if may_repeat && turn.resumed && !has_worked =>
            {
                // It cannot go on with the conversation: a new one begins with the same files.
                launch.session.set_name(None);
                continue;
            }
            Conclusion::BrokeOff { reason, .. }
                if may_repeat && has_worked && !has_broken_off && launch.can_go_on() =>
            {
                has_broken_off = true;
                again = Some(go_on(&reason));
                continue;
            }
            Conclusion::BrokeOff { reason, how: BreakOff::Crash } => AgentOutcome::Failed { reason },
            Conclusion::BrokeOff { reason, how: BreakOff::Silence } => AgentOutcome::TimedOut { reason },
            Conclusion::End(outcome) => outcome,
            Conclusion::Refused(reason) if may_repeat => {
                again = Some(ask_again(&reason));
                continue;
            }
            Conclusion::Refused(reason) => AgentOutcome::InvalidAnswer { reason },
        };
        return Report { outcome, used, asked };
    }
}

enum Conclusion {
    End(AgentOutcome),
    /// It ended without an answer although nobody decided that.
    BrokeOff {
        reason: String,
        how: BreakOff,
    },
    /// There is no valid answer, for this reason.
    Refused(String),
}

#[derive(Clone, Copy)]
enum BreakOff {
    Crash,
    Silence,
}

/// One run of the command.
struct Turn<'t> {
    launch: &'t Launch<'t>,
    profile: &'t Profile,
    command: AgentCommand,
    prompt: String,
    /// Whether the agent goes on with a conversation.
    resumed: bool,
    reader: EventReader<'t>,
    /// What the turns before have used.
    before: AgentUsage,
}

impl<'t> Turn<'t> {
    fn new(launch: &'t Launch<'t>, again: Option<&str>, before: AgentUsage) -> Result<Turn<'t>, String> {
        let profile = &launch.question.agent.profile;
        let session = launch.session.name().filter(|_| launch.can_go_on());
        let resumed = session.is_some();
        let prompt = launch.question.prompt(profile.answer == AnswerChannel::Tool, again, resumed);
        let command = AgentCommand::new(launch, &prompt, session.as_deref())?;
        Ok(Turn { launch, profile, command, prompt, resumed, reader: EventReader::new(profile), before })
    }

    async fn run(&mut self, wall: Duration) -> Conclusion {
        let question = self.launch.question;
        let limits = Limits { wall, idle: question.idle, grace: GRACE, head: HEAD_KEPT, tail: TAIL_KEPT };
        let input = match self.profile.input {
            PromptInput::Nothing => Input::None,
            PromptInput::Prompt => Input::Bytes(self.prompt.clone().into_bytes()),
        };
        let mut process =
            AgentProcess::start(&self.launch.launcher.guard, self.launch.job(&self.command, input, limits));
        let kill = process.switch().clone();
        let _wire = question.switch.connect(move || kill.turn_off());
        let mut retrying_since = None;
        let mut hopeless = None;
        let ended = loop {
            let patience = retrying_since.unwrap_or_else(Instant::now) + RETRYING;
            let is_waiting = retrying_since.is_some() && hopeless.is_none();
            tokio::select! {
                step = process.next() => match step {
                    AgentStep::Printed(stream, chunk) => self.take(stream, &chunk),
                    AgentStep::Ended(ended) => break ended,
                },
                () = sleep_until(patience), if is_waiting => {}
            }
            retrying_since =
                self.reader.retrying.as_ref().map(|_| retrying_since.unwrap_or_else(Instant::now));
            if hopeless.is_none() {
                hopeless = self.hopeless(retrying_since);
                hopeless.iter().for_each(|_| process.switch().turn_off());
            }
        };
        let Turn { reader, launch, before, .. } = self;
        reader.finish(&mut |event| emit(launch, *before, event));
        if let Ok(ended) = &ended {
            launch.tell_refused(ended);
        }
        match (hopeless, ended) {
            (Some(outcome), _) if !question.switch.is_off() => Conclusion::End(outcome),
            (_, Ok(ended)) => self.conclude(&ended),
            (_, Err(error)) => Conclusion::End(AgentOutcome::NotStarted { reason: error.to_string() }),
        }
    }

    fn take(&mut self, stream: Stream, chunk: &[u8]) {
        let Turn { reader, launch, before, .. } = self;
        match stream {
            Stream::Output => reader.take(chunk, &mut |event| emit(launch, *before, event)),
            Stream::Errors => reader.take_errors(chunk),
        }
    }

    /// Why it is useless to let the agent try on. Trying again does not log in; other errors may pass for a while.
    fn hopeless(&self, since: Option<Instant>) -> Option<AgentOutcome> {
        let (error, since) = self.reader.retrying.as_ref().zip(since)?;
        let outcome = self.profile.errors.classify(std::slice::from_ref(error), &Zoned::now());
        match outcome {
            Some(AgentOutcome::Unauthenticated { .. }) => outcome,
            _ if since.elapsed() < RETRYING => None,
            None => Some(AgentOutcome::Unreachable { reason: in_one_line(error) }),
            Some(_) => outcome,
        }
    }

    /// Only an end of its own without errors and with a valid answer is a success.
    fn conclude(&self, ended: &Ended) -> Conclusion {
        let mut texts = vec![text(&ended.errors)];
        if self.profile.events.is_empty() {
            texts.push(text(&ended.output));
        }
        texts.extend(self.reader.retrying.iter().chain(&self.reader.errors).cloned());
        let trouble = || self.profile.errors.classify(&texts, &Zoned::now());
        let exit = match &ended.how {
            How::Killed => return Conclusion::End(AgentOutcome::Killed),
            How::Lost => {
                let reason = "it was killed from outside".to_owned();
                return Conclusion::End(AgentOutcome::Lost { reason });
            }
            How::NotStarted(why) => return Conclusion::End(AgentOutcome::NotStarted { reason: why.clone() }),
            How::NoProgram(why) => return Conclusion::End(AgentOutcome::Unusable { reason: why.clone() }),
            How::OutOfTime => {
                let reason = with("its time was over", self.reader.errors.last());
                return Conclusion::End(trouble().unwrap_or(AgentOutcome::TimedOut { reason }));
            }
            How::Silent => {
                let silence = silent_for(self.launch.question.idle.unwrap_or_default());
                let reason = with(&silence, self.reader.errors.last());
                return trouble()
                    .map_or(Conclusion::BrokeOff { reason, how: BreakOff::Silence }, Conclusion::End);
            }
            How::Exited(code) => *code,
            How::Signalled(signal) => 128 + signal,
        };
        let answer = self.answer(ended);
        let answer = answer.and_then(|answer| (self.launch.question.read)(&answer).map(|()| answer));
        let is_clean = exit == 0 && self.reader.errors.is_empty();
        if !is_clean && let Some(outcome) = trouble() {
            return Conclusion::End(outcome);
        }
        let last = || self.reader.errors.last().cloned().or_else(|| last_line(&ended.errors));
        match (exit, answer) {
            // Errors that were overcome are no failure of an agent that answered in the end.
            (0, Ok(answer)) => Conclusion::End(AgentOutcome::Answer(answer)),
            (0, Err(reason)) if is_clean => Conclusion::Refused(reason),
            (0, Err(reason)) => {
                Conclusion::End(AgentOutcome::Failed { reason: with(&reason, last().as_ref()) })
            }
            (code, _) => {
                let reason = with(&format!("it ended with exit code {code}"), last().as_ref());
                Conclusion::BrokeOff { reason, how: BreakOff::Crash }
            }
        }
    }

    /// The answer, wherever the profile says it is.
    fn answer(&self, ended: &Ended) -> Result<Value, String> {
        let answer = match self.profile.answer {
            AnswerChannel::Event => self.reader.answer.clone(),
            AnswerChannel::File => {
                let text = submit::read_text(&self.command.folder.join(ANSWER));
                text.map_err(|error| error.to_string())?.and_then(|text| as_answer(&text))
            }
            AnswerChannel::Output => {
                let whole = ended.output.whole().ok_or("the answer is too long")?;
                as_answer(&String::from_utf8_lossy(&whole))
            }
            AnswerChannel::Tool => {
                let answer = self.command.answer_files.answer()?;
                Some(answer.ok_or_else(|| format!("the tool `{}` was not called", submit::TOOL))?)
            }
        };
        answer.ok_or_else(|| "there was no answer".to_owned())
    }
}

/// What is said of an agent that was ended because it printed nothing.
pub(super) fn silent_for(idle: Duration) -> String {
    format!("it said nothing for {}", Span::from_seconds(idle.as_secs()))
}

fn as_answer(text: &str) -> Option<Value> {
    let text = text.trim();
    (!text.is_empty()).then(|| unwrapped(&Value::String(text.to_owned())))
}

fn with(what: &str, detail: Option<&String>) -> String {
    match detail {
        Some(detail) => format!("{what}: {}", in_one_line(detail)),
        None => what.to_owned(),
    }
}

/// Passes an event of this turn on, with the usage of all turns.
fn emit(launch: &Launch<'_>, before: AgentUsage, event: AgentEvent<'_>) {
    (launch.listener)(match event {
        AgentEvent::Usage(used) => AgentEvent::Usage(sum(before, used)),
        AgentEvent::Activity(_) | AgentEvent::Text(_) | AgentEvent::ToolError(_) => event,
    });
}

fn sum(before: AgentUsage, used: AgentUsage) -> AgentUsage {
    let cost_usd = match (before.cost_usd, used.cost_usd) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    };
    AgentUsage { tokens: before.tokens + used.tokens, cost_usd }
}
