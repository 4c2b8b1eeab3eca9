//! What would happen if every attempt succeeded and all took equally long: the shipping coordinator, driven without a
//! world. For people who want to see the order before the start.

use jiff::Timestamp;
use serde::Serialize;

use super::{
    Agents, Coordinator, Effect, Evaluation, Event, JobId, JobOutcome, Presence, RedirectLock, Settings,
    Task, Usage,
};
use super::{CheckOutcome, UnrecordedLanding};
use crate::rules::certificate::{RedCheck, StopKind, tagged_verdict};
use crate::rules::gate::Aligned;
use crate::state::{AtomId, Binding};

/// What starts when; each step takes as long as one atom.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub steps: Vec<Vec<AtomId>>,
    /// How it would halt.
    #[serde(serialize_with = "tagged_verdict::serialize")]
    pub ends: StopKind,
}

/// Looks ahead. Atoms that need an agent are taken to have one.
pub fn forecast(aligned: Aligned, settings: Settings, now: Timestamp) -> Forecast {
    let agents =
        Agents { worker: Presence::Available, probe: Presence::Absent, coordinator: Presence::Absent };
    let mut coordinator = Coordinator::resume(aligned, Settings { agents, ..settings }, now);
    let begun = Event::Begun {
        unrecorded: Vec::<UnrecordedLanding>::new(),
        fingerprint: None,
        altered: None,
        redirect: RedirectLock::Free,
    };
    let mut events = vec![begun];
    let mut steps: Vec<Vec<AtomId>> = Vec::new();
    loop {
        let mut started = Vec::new();
        // What follows at once belongs to the same step; what was started ends with the next one.
        while !events.is_empty() {
            let effects: Vec<Effect> =
                events.drain(..).flat_map(|event| coordinator.on(event, now)).collect();
            for effect in effects {
                match effect {
                    Effect::Start(job) => started.push(job.id),
                    Effect::Kill(job) => started.retain(|started| *started != job),
                    Effect::Land(job) => events.push(landed(job)),
                    Effect::Verify { number } => {
                        events.push(verified(number, coordinator.ledger().frontier().unresolved()));
                    }
                    Effect::Halt(certificate) => return Forecast { steps, ends: certificate.verdict },
                    Effect::Record(_) | Effect::Revert { .. } | Effect::WakeAt(_) | Effect::Refuse(_) => {}
                }
            }
        }
        let running = coordinator.running();
        if running.is_empty() {
            return Forecast { steps, ends: StopKind::Stalled };
        }
        steps.push(started.iter().filter_map(|job| job.task.atom().cloned()).collect());
        events.extend(running.into_iter().map(ended));
    }
}

fn ended(job: JobId) -> Event {
    // Whatever its check is, it is taken to pass.
    let check = CheckOutcome::Pass;
    let outcome = match job.task {
        Task::Probe(_) | Task::Replan => JobOutcome::Lost { reason: String::new() },
        Task::Work(_) | Task::Check(_) => {
            JobOutcome::Done { summary: String::new(), artifacts: Vec::new(), check }
        }
    };
    Event::Ended { job, outcome, usage: Usage::default() }
}

fn landed(job: JobId) -> Event {
    let binding = Binding { summary: String::new(), artifacts: Vec::new(), ..Binding::default() };
    Event::Landed { job, binding, usage: Usage::default() }
}

/// Red until nothing is left to do.
fn verified(number: u32, unresolved: usize) -> Event {
    let evaluation = match unresolved {
        0 => Evaluation::Passed,
        _ => Evaluation::Failed {
            red: vec![RedCheck { item: String::new(), kind: None, reason: String::new() }],
        },
    };
    Event::Verified { number, evaluation, usage: Usage::default() }
}
