//! Agents that speak the Agent Client Protocol over their standard streams: the process, its lines, its time limits and
//! how it is stopped. Knows no message of the protocol; those are in `protocol`.

mod modes;
mod protocol;
mod usage;

use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Zoned;
use tokio::select;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::command::AgentCommand;
use super::events::in_one_line;
use super::headless::silent_for;
use super::launcher::Launch;
use super::lines::{LineSplitter, SplitLine, has_more_values};
use super::process::{AgentProcess, AgentStep, last_line, text};
use super::question::{AgentOutcome, AgentUsage, Report};
use crate::process::{Ended, Feed, How, Limits, Stream};
use protocol::{Breakage, Conversation, Ending};

/// How long an agent that was asked to stop may live on.
const GRACE: Duration = Duration::from_millis(100);

/// Messages to the agent that wait to be written; then the sender waits.
const QUEUED: usize = 64;

/// Messages of the agent that wait to be read. They may be long, so no more than this one is in memory beside the one that
/// is read.
const QUEUED_OF_AGENT: usize = 1;

/// A message with more values is a failure, before it is parsed.
const MOST_VALUES: usize = 100_000;

/// A longer message is a failure: a request or an answer in it would be waited for in vain. It is in memory several times
/// while it is read.
const LONGEST_LINE: usize = 4 << 20;

/// Bytes kept of the beginning and of the end of each stream.
const HEAD_KEPT: usize = 16 << 10;
const TAIL_KEPT: usize = 48 << 10;

/// Why a conversation is broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Killed,
    OutOfTime,
}

pub(super) async fn ask(launch: &Launch<'_>) -> Report {
    if launch.question.switch.is_off() {
        return Report { outcome: AgentOutcome::Killed, used: AgentUsage::default(), asked: 0 };
    }
    match prepare(launch) {
        Ok((command, feed)) => run(launch, command, feed).await,
        Err(reason) => Report::not_started(reason),
    }
}

fn prepare(launch: &Launch<'_>) -> Result<(AgentCommand, Feed), String> {
    let command = AgentCommand::new(launch, "", None)?;
    let feed = Feed::make(&command.folder.join("input"));
    Ok((command, feed.map_err(|error| format!("its input cannot be made: {error}"))?))
}

async fn run(launch: &Launch<'_>, command: AgentCommand, feed: Feed) -> Report {
    let question = launch.question;
    let limits = Limits {
        // The agent is asked to stop before this.
        wall: question.wall + 2 * GRACE,
        idle: question.idle,
        grace: GRACE,
        head: HEAD_KEPT,
        tail: TAIL_KEPT,
    };
    let job = launch.job(&command, feed.input(), limits);
    let conversation = match Conversation::new(launch, &command) {
        Ok(conversation) => conversation,
        Err(reason) => return Report::not_started(reason),
    };
    let killed = Arc::new(Notify::new());
    let _wire = question.switch.connect({
        let killed = Arc::clone(&killed);
        move || killed.notify_one()
    });
    let stop = async {
        select! {
            () = killed.notified() => Stop::Killed,
            () = sleep(question.wall) => Stop::OutOfTime,
        }
    };
    let mut process = AgentProcess::start(&launch.launcher.guard, job);
    let mut output = AgentOutput::new(&conversation);
    let (ending, ended) = {
        let (outgoing, to_write) = mpsc::channel(QUEUED);
        let (to_read, incoming) = mpsc::channel(QUEUED_OF_AGENT);
        spawn_blocking(move || write(feed, to_write));
        let mut talking = pin!(conversation.hold(outgoing, incoming, stop));
        select! {
            ending = &mut talking => (ending, None),
            ended = output.pass_on(&mut process, to_read) => (talking.await, Some(ended)),
        }
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            if let Ending::Stopped(_) = ending {
                process.switch().turn_off();
            }
            output.rest(&mut process).await
        }
    };
    let outcome = match ended {
        Ok(ended) => {
            launch.tell_refused(&ended);
            conclude(&conversation, ending, &ended)
        }
        Err(error) => AgentOutcome::NotStarted { reason: error.to_string() },
    };
    Report { outcome, used: conversation.used(), asked: conversation.asked() }
}

fn conclude(conversation: &Conversation<'_>, ending: Ending, ended: &Ended) -> AgentOutcome {
    match ending {
        Ending::Outcome(outcome) => outcome,
        Ending::Stopped(Stop::Killed) => AgentOutcome::Killed,
        Ending::Stopped(Stop::OutOfTime) => {
            // What the agent complained about may say why it took so long.
            let errors =
                conversation.question().agent.profile.errors.classify(&[text(&ended.errors)], &Zoned::now());
            errors.unwrap_or_else(|| AgentOutcome::TimedOut { reason: "its time was over".into() })
        }
        Ending::Broken(breakage) => explain(conversation, breakage, ended),
    }
}

/// What a conversation that broke off comes to.
fn explain(conversation: &Conversation<'_>, breakage: Breakage, ended: &Ended) -> AgentOutcome {
    // An agent that crashed after it had answered has answered.
    if let Ok(Some(answer)) = conversation.answer() {
        return AgentOutcome::Answer(answer);
    }
    let Breakage { is_gone, needs_login, texts } = breakage;
    if let Some(reason) = needs_login {
        return AgentOutcome::Unauthenticated { reason };
    }
    // An agent that is gone says on standard error why.
    let detail = if is_gone { last_line(&ended.errors) } else { Some(in_one_line(&texts.join(": "))) };
    let texts = [text(&ended.errors)].into_iter().chain(texts.into_iter().filter(|_| !is_gone));
    let outcome =
        conversation.question().agent.profile.errors.classify(&texts.collect::<Vec<_>>(), &Zoned::now());
    if let Some(outcome) = outcome {
        return outcome;
    }
    let with = |what: &str| match detail {
        Some(detail) => format!("{what}: {detail}"),
        None => what.to_owned(),
    };
    match &ended.how {
        How::NotStarted(why) => AgentOutcome::NotStarted { reason: why.clone() },
        How::NoProgram(why) => AgentOutcome::Unusable { reason: why.clone() },
        How::Silent => {
            let idle = conversation.question().idle.unwrap_or_default();
            AgentOutcome::TimedOut { reason: with(&silent_for(idle)) }
        }
        How::OutOfTime => AgentOutcome::TimedOut { reason: with("its time was over") },
        _ if !is_gone => AgentOutcome::Failed { reason: with("it failed") },
        How::Exited(code) => {
            AgentOutcome::Failed { reason: with(&format!("it ended with exit code {code}")) }
        }
        How::Signalled(signal) => {
            AgentOutcome::Failed { reason: with(&format!("it was ended by signal {signal}")) }
        }
        How::Killed | How::Lost => AgentOutcome::Lost { reason: "it was killed from outside".into() },
    }
}

/// Sorts what the agent prints: lines of standard output that are objects are messages, all else goes to the
/// transcript.
struct AgentOutput<'o> {
    conversation: &'o Conversation<'o>,
    output: LineSplitter,
    errors: LineSplitter,
}

impl AgentOutput<'_> {
    fn new<'o>(conversation: &'o Conversation<'o>) -> AgentOutput<'o> {
        let splitter = || LineSplitter::new(LONGEST_LINE);
        AgentOutput { conversation, output: splitter(), errors: splitter() }
    }

    /// Passes messages on until the process has ended. While `messages` is full nothing more is read.
    async fn pass_on(
        &mut self,
        process: &mut AgentProcess,
        messages: mpsc::Sender<io::Result<String>>,
    ) -> io::Result<Ended> {
        loop {
            let (stream, chunk) = match process.next().await {
                AgentStep::Printed(stream, chunk) => (stream, chunk),
                AgentStep::Ended(ended) => return ended,
            };
            for message in self.messages(stream, &chunk) {
                // Fails only when the conversation is over.
                let _ = messages.send(message).await;
            }
        }
    }

    /// The conversation is over and with it the agent's input: an agent that is done ends now. Another one is killed.
    async fn rest(&mut self, process: &mut AgentProcess) -> io::Result<Ended> {
        if let Ok(ended) = timeout(GRACE, self.drain(process)).await {
            return ended;
        }
        process.switch().turn_off();
        self.drain(process).await
    }

    async fn drain(&mut self, process: &mut AgentProcess) -> io::Result<Ended> {
        loop {
            match process.next().await {
                AgentStep::Printed(stream, chunk) => drop(self.messages(stream, &chunk)),
                AgentStep::Ended(ended) => return ended,
            }
        }
    }

    fn messages(&mut self, stream: Stream, chunk: &[u8]) -> Vec<io::Result<String>> {
        let lines = match stream {
            Stream::Output => self.output.push(chunk),
            Stream::Errors => self.errors.push(chunk),
        };
        let mut messages = Vec::new();
        for line in lines {
            match (stream, line) {
                (_, SplitLine::Whole(line)) => {
                    let mut line = String::from_utf8(line)
                        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
                    line.truncate(line.trim_end().len());
                    match line.trim_start() {
                        "" => {}
                        said if stream == Stream::Output && has_more_values(said.as_bytes(), MOST_VALUES) => {
                            let why = format!("it sent a message of more than {MOST_VALUES} values");
                            messages.push(Err(io::Error::other(why)));
                        }
                        said if stream == Stream::Output && said.starts_with('{') => messages.push(Ok(line)),
                        said => self.conversation.note(said),
                    }
                }
                (Stream::Output, SplitLine::TooLong) => {
                    messages.push(Err(io::Error::other("it sent a message that has no end")));
                }
                (Stream::Errors, SplitLine::TooLong) => {
                    self.conversation.note("[a line without end was left out]")
                }
            }
        }
        messages
    }
}

/// Writes line by line what is sent to the agent, until the conversation is over.
fn write(mut feed: Feed, mut messages: mpsc::Receiver<String>) {
    let mut is_first = true;
    while let Some(line) = messages.blocking_recv() {
        if !std::mem::take(&mut is_first) {
            // We send more only after an answer, and an agent that answers has opened its input.
            feed.reached();
        }
        // That the agent does not read any more is seen by the end of what it prints.
        let _ = feed.write_all(format!("{line}\n").as_bytes());
    }
}
