//! An agent that is a command: it is given a brief, prints what it does, and ends. One engine for all of them; what
//! differs stands in the profile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::launcher::Launch;
use super::listen::{Listener, Piece, in_one_line, unwrapped};
use super::prepared::{ANSWER, Prepared};
use super::profile::{Channel, Input as Given, Profile};
use super::question::{AgentEvent, AgentOutcome, AgentUsage, Report};
use super::submit::{self, Envelope};
use crate::process::{Captured, Ended, How, Input, Limits, Stream, Switch};

/// How long an agent may live on after its time is over.
const GRACE: Duration = Duration::from_secs(5);

/// An agent that cannot overcome a trouble by itself in this time is ended.
const RETRYING: Duration = Duration::from_secs(60);

/// Of what it prints so much is kept besides what the listener takes from it.
const HEAD_KEPT: usize = 64 << 10;
const TAIL_KEPT: usize = 64 << 10;

/// So often it is looked at while it says nothing.
const LOOK: Duration = Duration::from_millis(500);

/// Asks, and asks again while the answer is not valid, within the same time.
pub(super) fn ask(launch: &Launch<'_>) -> Report {
    let began = Instant::now();
    let mut before = AgentUsage::default();
    let mut refused: Option<String> = None;
    let mut asked = 0;
    loop {
        let left = launch.question.wall.saturating_sub(began.elapsed());
        if asked > 0 && left.is_zero() {
            let reason = refused.unwrap_or_default();
            return Report { outcome: AgentOutcome::TimedOut { reason }, used: before, asked };
        }
        asked += 1;
        let turn = match Turn::new(launch, refused.as_deref(), before) {
            Ok(turn) => turn,
            Err(reason) => {
                return Report { outcome: AgentOutcome::NotStarted { reason }, used: before, asked };
            }
        };
        let (concluded, used) = turn.run(left.max(Duration::from_secs(1)));
        before = used;
        match concluded {
            Conclusion::End(said) => return Report { outcome: said, used, asked },
            Conclusion::Again(reason) if asked > launch.question.repeats => {
                return Report { outcome: AgentOutcome::InvalidAnswer { reason }, used, asked };
            }
            Conclusion::Again(reason) => refused = Some(reason),
        }
    }
}

enum Conclusion {
    End(AgentOutcome),
    /// There is no valid answer, for this reason.
    Again(String),
}

/// One run of the command.
struct Turn<'t> {
    profile: &'t Profile,
    launch: &'t Launch<'t>,
    prepared: Prepared,
    input: Input,
    before: AgentUsage,
}

impl<'t> Turn<'t> {
    fn new(launch: &'t Launch<'t>, refused: Option<&str>, before: AgentUsage) -> Result<Turn<'t>, String> {
        let profile = &launch.question.agent.profile;
        let prompt = launch.question.prompt(profile.answer == Channel::Tool, refused);
        let prepared = Prepared::new(launch, &prompt)?;
        let input = match profile.input {
            Given::Nothing => Input::None,
            Given::Prompt => Input::Bytes(prompt.into_bytes()),
        };
        Ok(Turn { profile, launch, prepared, input, before })
    }

    fn run(self, wall: Duration) -> (Conclusion, AgentUsage) {
        let idle = self.launch.question.idle;
        let limits = Limits { wall, idle, grace: GRACE, head: HEAD_KEPT, tail: TAIL_KEPT };
        let job = self.launch.job(&self.prepared, self.input.clone(), limits);
        let mut listener = Listener::new(self.profile);
        let (chunks, heard) = channel::<(Stream, Vec<u8>)>();
        // Besides whoever asks, we may end it ourselves.
        let own = Switch::default();
        let theirs = self.launch.question.switch;
        let wire = theirs.connect({
            let own = own.clone();
            move || own.turn_off()
        });
        let guard = self.launch.launcher.guard.under(&own);
        let mut hopeless = None;
        let ended = std::thread::scope(|scope| {
            let (listener, hopeless) = (&mut listener, &mut hopeless);
            let listening = scope.spawn(|| *hopeless = self.listen(listener, heard, &own));
            // The tap lives as long as the program's output; when it goes, the listener ends.
            let chunks = Mutex::new(chunks);
            let tap = move |stream, chunk: &[u8]| {
                // A listener that is gone has heard enough.
                let _ = chunks.lock().unwrap_or_else(PoisonError::into_inner).send((stream, chunk.to_vec()));
            };
            let ended = guard.run_heard(&job, Arc::new(tap));
            let _ = listening.join();
            ended
        });
        drop(wire);
        let used = self.so_far(listener.used());
        if let Some(said) = hopeless.filter(|_| !theirs.is_off()) {
            return (Conclusion::End(said), used);
        }
        let conclusion = match ended {
            Ok(ended) => self.conclude(&listener, &ended),
            Err(error) => Conclusion::End(AgentOutcome::NotStarted { reason: error.to_string() }),
        };
        (conclusion, used)
    }

    /// Hears it to its end, and ends it if there is no hope; then why.
    fn listen(
        &self,
        listener: &mut Listener<'_>,
        heard: Receiver<(Stream, Vec<u8>)>,
        switch: &Switch,
    ) -> Option<AgentOutcome> {
        let mut since: Option<Instant> = None;
        let mut hopeless = None;
        loop {
            match heard.recv_timeout(LOOK) {
                Ok((Stream::Output, chunk)) => self.tell(listener.take(&chunk)),
                Ok((Stream::Errors, chunk)) => listener.take_errors(&chunk),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            since = listener.retrying.as_ref().map(|_| since.unwrap_or_else(Instant::now));
            if let (None, Some(since), Some(trouble)) = (&hopeless, since, &listener.retrying) {
                hopeless = self.is_hopeless(trouble, since.elapsed());
                hopeless.iter().for_each(|_| switch.turn_off());
            }
        }
        self.tell(listener.finish());
        hopeless
    }

    /// Nobody gets logged in by trying again; other troubles may pass for a while.
    fn is_hopeless(&self, trouble: &str, since: Duration) -> Option<AgentOutcome> {
        let said = self.profile.trouble.of(&[trouble.to_owned()], Timestamp::now());
        match said {
            Some(said @ AgentOutcome::Unauthenticated { .. }) => Some(said),
            Some(said) if since > RETRYING => Some(said),
            None if since > RETRYING => Some(AgentOutcome::Unreachable { reason: in_one_line(trouble) }),
            Some(_) | None => None,
        }
    }

    fn so_far(&self, used: AgentUsage) -> AgentUsage {
        let cost_usd = match (self.before.cost_usd, used.cost_usd) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
        };
        AgentUsage { tokens: self.before.tokens + used.tokens, cost_usd }
    }

    fn tell(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Doing(line) => (self.launch.listener)(AgentEvent::Activity(&line)),
                Piece::Said(text) => (self.launch.listener)(AgentEvent::Text(&text)),
                Piece::Used(used) => (self.launch.listener)(AgentEvent::Usage(self.so_far(used))),
            }
        }
    }

    /// An end of its own, no trouble and a valid answer make a success; nothing else does.
    fn conclude(&self, listener: &Listener<'_>, ended: &Ended) -> Conclusion {
        let mut texts = vec![text(&ended.errors)];
        if self.profile.events.is_empty() {
            texts.push(text(&ended.output));
        }
        texts.extend(listener.retrying.iter().chain(&listener.troubles).cloned());
        let trouble = || self.profile.trouble.of(&texts, Timestamp::now());
        let exit = match &ended.how {
            How::Killed => return Conclusion::End(AgentOutcome::Killed),
            How::Lost => {
                let reason = "it was killed from outside".to_owned();
                return Conclusion::End(AgentOutcome::NotStarted { reason });
            }
            How::NotStarted(why) => return Conclusion::End(AgentOutcome::NotStarted { reason: why.clone() }),
            How::OutOfTime | How::Silent => {
                let silent = ended.how == How::Silent;
                let reason = if silent { "it said nothing for too long" } else { "its time was over" };
                let late = AgentOutcome::TimedOut { reason: with(reason, listener.troubles.last()) };
                return Conclusion::End(trouble().unwrap_or(late));
            }
            How::Exited(code) => *code,
            How::Signalled(signal) => 128 + signal,
        };
        let answer = self.answer(listener, ended);
        if exit == 0
            && listener.troubles.is_empty()
            && let Ok(Some(answer)) = &answer
            && (self.launch.question.read)(answer).is_ok()
        {
            return Conclusion::End(AgentOutcome::Answer(answer.clone()));
        }
        if (exit != 0 || !listener.troubles.is_empty())
            && let Some(said) = trouble()
        {
            return Conclusion::End(said);
        }
        // Troubles that were overcome are no failure of an agent that answered in the end.
        let refused = match answer {
            Ok(Some(answer)) => match (self.launch.question.read)(&answer) {
                Ok(()) if exit == 0 => return Conclusion::End(AgentOutcome::Answer(answer)),
                Ok(()) => None,
                Err(reason) => Some(reason),
            },
            Ok(None) => Some("there was no answer".to_owned()),
            Err(reason) => Some(reason),
        };
        match (exit, refused) {
            (0, Some(reason)) if listener.troubles.is_empty() => Conclusion::Again(reason),
            (_, refused) => {
                let what = match exit {
                    0 => refused.unwrap_or_else(|| "it failed".into()),
                    code => format!("it ended with exit code {code}"),
                };
                let last = listener.troubles.last().cloned().or_else(|| last_line(&ended.errors));
                Conclusion::End(AgentOutcome::Failed { reason: with(&what, last.as_ref()) })
            }
        }
    }

    /// The answer, wherever the profile says it is.
    fn answer(&self, listener: &Listener<'_>, ended: &Ended) -> Result<Option<Value>, String> {
        match self.profile.answer {
            Channel::Event => Ok(listener.answer.clone()),
            Channel::File => {
                let text = submit::read_text(&self.prepared.folder.join(ANSWER))
                    .map_err(|error| error.to_string())?;
                Ok(text.and_then(|text| as_answer(&text)))
            }
            Channel::Output => {
                let whole = ended.output.whole().ok_or("the answer is too long")?;
                Ok(as_answer(&String::from_utf8_lossy(&whole)))
            }
            Channel::Tool => match self.prepared.tray.take() {
                Ok(Some(Envelope::Accepted(answer))) => Ok(Some(answer)),
                Ok(Some(Envelope::Refused { reason, .. })) => Err(reason),
                Ok(None) => Err("the tool `submit_result` was not called".into()),
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

fn as_answer(text: &str) -> Option<Value> {
    let text = text.trim();
    (!text.is_empty()).then(|| unwrapped(&Value::String(text.to_owned())))
}

fn text(output: &Captured) -> String {
    let (head, tail) = output.parts();
    format!("{}\n{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail))
}

fn last_line(output: &Captured) -> Option<String> {
    let text = text(output);
    text.lines().rev().map(in_one_line).find(|line| !line.is_empty())
}

fn with(what: &str, detail: Option<&String>) -> String {
    match detail {
        Some(detail) => format!("{what}: {}", in_one_line(detail)),
        None => what.to_owned(),
    }
}
