//! The loop as a function: an [`Event`] in, [`Effect`]s out. Holds the state and what is in flight, and contains no
//! rule: those are in `rules`. Knows no process, no clock and no vendor.
//!
//! After every event (D7): handle it (`events`), then judge, close and fill (`step`).

mod edits;
mod events;
mod flight;
mod forecast;
mod parallel_probes;
mod protocol;
mod request;
mod step;

pub use protocol::{
    Answer, CheckOutcome, Effect, Evaluation, Event, Feasibility, Job, JobId, Outcome, RedirectLock,
    StopMode, Task, UnrecordedLanding, Usage,
};

pub use crate::rules::plan::{Agents, Presence, ReplanReason};
pub use forecast::{Forecast, forecast};

use std::collections::BTreeMap;

use jiff::Timestamp;

use flight::Flight;
use parallel_probes::ProbedChoices;

use crate::rules::Ledger;
use crate::rules::bound::{self, Bound};
use crate::rules::certificate::RedCheck;
use crate::rules::converge::{BaseCase, JudgementInputs, PlanFor, Stop};
use crate::rules::gate::Aligned;
use crate::rules::order::ProbeFinding;
use crate::rules::plan::DispatchInputs;
use crate::state::{AtomId, Graph, LoopStatus, Spent, State};

/// What the coordinator has to know of the world, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub agents: Agents,
    pub dispatch: Dispatch,
    pub trees: Trees,
    pub on_refused_start: OnRefusedStart,
}

/// What a start that is refused by a limit, or lost to a network that is down, leads to (D12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusedStart {
    /// The loop is parked, and tries again.
    #[default]
    Park,
    /// It stops.
    Stop,
}

/// Who decides when an atom is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// The coordinator fills free slots.
    Rolling,
    /// A host asks; the coordinator allows or refuses.
    OnRequest,
}

/// Where workers work (D23, D24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trees {
    /// Each has a tree of its own.
    Separate,
    /// All in one place: one at a time.
    Shared,
}

/// The first wait after a refused start, when nobody says how long; each further one is twice as long (D12).
pub const FIRST_WAIT_SECONDS: u64 = 30;
pub const LONGEST_WAIT_SECONDS: u64 = 3600;

/// The loop: a state, and what is in flight.
#[derive(Clone, Debug)]
pub struct Coordinator {
    ledger: Ledger,
    settings: Settings,
    flight: Flight,
    phase: Phase,
    /// The evaluation of the base case under way, and how many there have been.
    verifying: Option<u32>,
    evaluations: u32,
    /// The iteration whose evaluation has been used.
    evaluated_in: Option<u32>,
    /// An evaluation is due: the first, or the one at a close.
    evaluation_due: bool,
    base_case: Option<BaseCase>,
    /// The base case held, and then something landed: it has to be seen again, in an iteration of its own.
    stale_pass: bool,
    /// What was red when the base case was last evaluated.
    red: Vec<RedCheck>,
    plan: PlanFor,
    /// A replan has just come in; what it brought is started before the iteration is judged.
    plan_is_fresh: bool,
    /// Why the last plans were refused, the latest first.
    refusals: Vec<String>,
    too_large: BTreeMap<AtomId, String>,
    /// Why attempts came back without having failed.
    return_reason: BTreeMap<AtomId, String>,
    check_errors: BTreeMap<AtomId, u32>,
    awaiting_person: BTreeMap<AtomId, String>,
    reserved: Vec<AtomId>,
    probed_choices: ProbedChoices,
    /// What was seen of choices when they were put in order, until they have failed or are resolved.
    findings: BTreeMap<AtomId, ProbeFinding>,
    tampered: Option<String>,
    /// Something happened that only a person, or time, can mend; the first of it is told.
    blocked: Option<Stop>,
    /// A redirect that nobody holds any more: the loop stops, after what is landing.
    abandoned: bool,
    /// How often in a row a start was refused.
    refused: u32,
    spent: Spent,
    spent_before: u64,
    since: Timestamp,
    spent_changed: bool,
    judges: Option<usize>,
    wake: Option<Timestamp>,
    /// The state came from outside, and may show other attempts than those in flight.
    replaced: bool,
    /// A host's turn has ended, and the loop is judged.
    turn_is_over: bool,
    effects: Vec<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before `Begun`, or in a host's hands.
    Idle,
    /// Begun while somebody held a redirect: the loop is taken up when it is made.
    AwaitingRedirect,
    Running,
    Halted,
}

impl Coordinator {
    /// Takes a loop up from its state alone: in flight is what stands in progress.
    pub fn resume(aligned: Aligned, settings: Settings, now: Timestamp) -> Coordinator {
        let ledger = Ledger::open(aligned.into_state(), now);
        let flight = Flight::of(ledger.state(), |index| ledger.graph().is_decomposed(index));
        let spent = ledger.state().control.spent.clone().unwrap_or_default();
        // A host has one process for each event, and only the first of them begins.
        let under_way = ledger.state().control.status == LoopStatus::Running;
        let phase = match settings.dispatch {
            Dispatch::OnRequest if under_way => Phase::Running,
            Dispatch::OnRequest | Dispatch::Rolling => Phase::Idle,
        };
        Coordinator {
            settings,
            flight,
            phase,
            verifying: None,
            evaluations: 0,
            evaluated_in: None,
            evaluation_due: false,
            base_case: None,
            stale_pass: false,
            red: Vec::new(),
            plan: PlanFor::Unasked,
            plan_is_fresh: false,
            refusals: Vec::new(),
            too_large: BTreeMap::new(),
            return_reason: BTreeMap::new(),
            check_errors: BTreeMap::new(),
            awaiting_person: BTreeMap::new(),
            reserved: Vec::new(),
            probed_choices: ProbedChoices::default(),
            findings: BTreeMap::new(),
            tampered: None,
            blocked: None,
            abandoned: false,
            refused: 0,
            spent_before: spent.seconds,
            spent,
            since: now,
            spent_changed: false,
            judges: None,
            wake: None,
            replaced: false,
            turn_is_over: false,
            effects: Vec::new(),
            ledger,
        }
    }

    /// Takes an event in, and says what is to be done. After [`Effect::Halt`] nothing more is answered.
    #[must_use]
    pub fn on(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        if self.phase == Phase::Halted {
            return Vec::new();
        }
        self.ledger.set_now(now);
        self.handle(event);
        if self.phase != Phase::Halted {
            self.advance();
        }
        self.answer()
    }

    /// All effects of one event: what is recorded comes first, in one write.
    fn answer(&mut self) -> Vec<Effect> {
        if std::mem::take(&mut self.spent_changed) {
            self.write_spent();
        }
        let changes = self.ledger.take_changes();
        if changes.iter().any(|change| change.reshapes()) {
            self.judges = None;
        }
        let mut effects = Vec::with_capacity(self.effects.len() + 1);
        if !changes.is_empty() {
            effects.push(Effect::Record(changes));
        }
        for undone in self.ledger.take_undone() {
            effects.push(Effect::Revert { atom: undone.atom, commit: undone.commit });
        }
        effects.append(&mut self.effects);
        effects
    }

    pub fn state(&self) -> &State {
        self.ledger.state()
    }

    /// The state with all that is derived from it: the frontier in its order, failures.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn graph(&self) -> &Graph {
        self.ledger.graph()
    }

    /// The most that can still happen, as of the last event; it never rises, unless a person redirects or edits.
    pub fn bound(&mut self) -> Bound {
        let judges = *self.judges.get_or_insert_with(|| bound::judges(self.ledger.state()));
        let judgements = bound::judgements(judges);
        let attempts = self.flight.attempts.iter().map(|attempt| attempt.runs_left(judgements)).sum();
        let evaluations = u64::from(self.may_evaluate());
        let flight =
            bound::Flight { judges, probed_choices: self.probed_in_iteration().len(), attempts, evaluations };
        bound::left(self.ledger.state(), flight, self.seconds_spent())
    }

    /// Whether an evaluation can still come before the next iteration opens.
    fn may_evaluate(&self) -> bool {
        let control = &self.state().control;
        let expected = control.iteration == 0
            || self.evaluation_due
            || !self.flight.is_empty()
            || self.ledger.frontier().unresolved() == 0;
        let unused = self.evaluated_in != Some(control.iteration);
        self.phase != Phase::Halted
            && control.open.is_none()
            && (self.verifying.is_some() || (unused && expected))
    }

    /// The jobs in flight, those that are landing among them.
    pub fn running(&self) -> Vec<JobId> {
        self.flight.jobs()
    }

    /// The number of the evaluation under way.
    pub fn verifying(&self) -> Option<u32> {
        self.verifying
    }

    pub fn is_halted(&self) -> bool {
        self.phase == Phase::Halted
    }

    /// Atoms that wait for a person, and why.
    pub fn awaiting_person(&self) -> &BTreeMap<AtomId, String> {
        &self.awaiting_person
    }

    fn seconds_spent(&self) -> u64 {
        let passed = self.ledger.now().as_second().saturating_sub(self.since.as_second());
        self.spent_before.saturating_add(u64::try_from(passed).unwrap_or(0))
    }

    fn write_spent(&mut self) {
        self.spent.seconds = self.seconds_spent();
        let spent = self.spent.clone();
        self.ledger.record(crate::rules::Change::SpentSoFar { spent });
    }

    /// What the judgement sees.
    fn with_judgement_inputs<T>(&self, ask: impl FnOnce(&Ledger, &JudgementInputs<'_>) -> T) -> T {
        let standing = JudgementInputs {
            // Conflicts pass; whether the loop can go on does not depend on what runs now.
            inputs: self.inputs(&[]),
            running: self.flight.len(),
            tampered: self.tampered.as_deref(),
            blocked: self.blocked.as_ref(),
            base_case: self.base_case.as_ref(),
            plan: self.plan,
            seconds_spent: self.seconds_spent(),
        };
        ask(&self.ledger, &standing)
    }

    /// Choices that were looked at in the open iteration: each is a start of it (D8, D10).
    fn probed_in_iteration(&self) -> &[AtomId] {
        let control = &self.state().control;
        if control.open.is_some() { self.probed_choices.of(control.iteration) } else { &[] }
    }

    fn inputs<'f>(&'f self, running: &'f [AtomId]) -> DispatchInputs<'f> {
        DispatchInputs {
            running,
            replanned: self.flight.replan.as_ref().map_or(&[], |replan| &replan.atoms),
            awaiting_person: &self.awaiting_person,
            probed: self.probed_in_iteration(),
            findings: &self.findings,
            agents: self.settings.agents,
        }
    }
}
