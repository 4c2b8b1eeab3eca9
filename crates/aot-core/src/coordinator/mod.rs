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
mod unstarted;

pub use protocol::{
    Answer, CheckOutcome, Effect, Evaluation, Event, Feasibility, Job, JobId, JobOutcome, Lack, Obstacle,
    RedirectLock, StopMode, Task, UnrecordedLanding, Usage,
};

pub use crate::rules::plan::{Agents, Presence, ReplanReason};
pub use forecast::{Forecast, forecast};

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use flight::Flight;
use parallel_probes::ProbedChoices;

use crate::rules::bound::{self, Bound, Rates};
use crate::rules::certificate::RedCheck;
use crate::rules::converge::{self, JudgementInputs, Stop};
use crate::rules::durations::Durations;
use crate::rules::evaluate::{self, BaseCase, Evaluations};
use crate::rules::gate::Aligned;
use crate::rules::memory::Memory;
use crate::rules::plan::{DispatchInputs, Slots};
use crate::rules::{Change, Ledger};
use crate::state::{AgentRun, AtomId, Graph, LoopStatus, Spent, State};

/// What the coordinator has to know of the world, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub agents: Agents,
    pub dispatch: Dispatch,
    pub trees: Trees,
    pub on_refused_start: OnRefusedStart,
}

/// What follows when a start is refused by a rate limit, or lost to a network that is down (D12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusedStart {
    /// The loop is parked, and tries again.
    #[default]
    Park,
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

/// The loop: a state, what is in flight, and what is known besides.
#[derive(Clone, Debug)]
pub struct Coordinator {
    ledger: Ledger,
    settings: Settings,
    flight: Flight,
    phase: Phase,
    base_case: BaseCase,
    evaluations: Evaluations,
    /// Set by tampering, a lost redirect, a lack of an agent, a failing setup or a limit that is not waited for; it stays until a person
    /// redirects or takes the loop up again.
    must_stop: Option<Stop>,
    memory: Memory,
    /// Untried atoms that were passed over for a conflict: they come next (D7).
    reserved: Vec<AtomId>,
    probed_choices: ProbedChoices,
    replans: Replans,
    /// How often in a row the loop was parked because nothing could start; the waits double with it.
    refused_starts: u32,
    /// How preparing a tree failed, if nothing has begun since.
    failed_setup: Option<String>,
    /// The latest iteration in which something is known to have begun: it is not taken back (D12).
    begun_in: Option<u32>,
    spending: Spending,
    /// What the bound depends on, until an atom changes.
    rates: Option<Rates>,
    wake: Option<Timestamp>,
    /// Effects of the event being handled, in the order in which they are to be performed.
    effects: Vec<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before `Begun`.
    Idle,
    /// Begun while a redirect is held: the loop is taken up when the redirect is made.
    AwaitingRedirect,
    /// A host works through its turn: only urgent stops are judged before it ends.
    HostTurn,
    Running,
    Halted,
}

/// What the answers to replans leave behind.
#[derive(Clone, Debug, Default)]
struct Replans {
    /// Why the last plans were refused, the latest first.
    refusals: Vec<String>,
    /// An answer has just come in: what it brought is started before the iteration is judged.
    just_answered: bool,
}

/// What the loop has cost.
#[derive(Clone, Debug)]
struct Spending {
    total: Spent,
    /// Wall time of earlier processes.
    seconds_before: u64,
    since: Timestamp,
    /// Runs of agents that the journal does not have yet.
    runs: Vec<AgentRun>,
    /// The file does not show all of it yet.
    unwritten: bool,
}

impl Coordinator {
    /// Takes a loop up from its state alone: in flight is what stands in progress.
    pub fn resume(aligned: Aligned, settings: Settings, now: Timestamp) -> Coordinator {
        let ledger = Ledger::open(aligned.into_state(), now);
        let flight = Flight::of(ledger.state(), |index| ledger.graph().is_decomposed(index));
        let total = ledger.state().control.spent.clone().unwrap_or_default();
        // A host has one process for each event, and only the first of them begins.
        let under_way = ledger.state().control.status == LoopStatus::Running;
        let phase = match settings.dispatch {
            Dispatch::OnRequest if under_way => Phase::HostTurn,
            Dispatch::OnRequest | Dispatch::Rolling => Phase::Idle,
        };
        Coordinator {
            settings,
            flight,
            phase,
            base_case: BaseCase::Unknown,
            // Nobody knows what happened since the last process looked.
            evaluations: Evaluations { outdated: true, ..Evaluations::default() },
            must_stop: None,
            memory: Memory::default(),
            reserved: Vec::new(),
            probed_choices: ProbedChoices::default(),
            replans: Replans::default(),
            refused_starts: 0,
            failed_setup: None,
            begun_in: None,
            spending: Spending {
                seconds_before: total.seconds,
                total,
                since: now,
                runs: Vec::new(),
                unwritten: false,
            },
            rates: None,
            wake: None,
            effects: Vec::new(),
            ledger,
        }
    }

    /// Handles an event and answers with what is to be done. After [`Effect::Halt`] the answer is empty.
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
        self.take_effects()
    }

    /// All effects of one event: what is recorded comes first, in one write.
    fn take_effects(&mut self) -> Vec<Effect> {
        if self.spending.unwritten {
            self.write_spent();
        }
        let changes = self.ledger.take_changes();
        if changes.iter().any(|change| change.reshapes() || matches!(change, Change::AtomResolved { .. })) {
            self.rates = None;
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

    /// From now on, free slots are filled with the longest remaining expected time first (D7). Nothing else depends on it,
    /// so whoever knows more may say so at any moment.
    pub fn expect(&mut self, durations: Arc<Durations>) {
        self.ledger.expect(durations);
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
        let mends = match self.settings.dispatch {
            Dispatch::Rolling => bound::MENDS,
            Dispatch::OnRequest => 0,
        };
        let (ledger, agents) = (&self.ledger, self.settings.agents);
        let rates = *self.rates.get_or_insert_with(|| Rates::new(ledger.state(), agents, mends));
        let attempts =
            self.flight.attempts.iter().map(|attempt| attempt.runs_left(ledger.state(), &rates)).sum();
        let (base_case, running) = (&self.base_case, self.flight.len());
        let evaluation = self.phase != Phase::Halted
            && evaluate::may_come(&self.ledger, base_case, &self.evaluations, running);
        let runs = bound::RunsInFlight {
            probed_choices: self.probed_in_iteration().len(),
            attempts,
            evaluations: u64::from(evaluation),
        };
        bound::left(self.ledger.state(), rates, runs, self.seconds_spent())
    }

    /// The jobs in flight, those that are landing among them.
    pub fn running(&self) -> Vec<JobId> {
        self.flight.jobs()
    }

    /// The number of the evaluation under way.
    pub fn verifying(&self) -> Option<u32> {
        match self.base_case {
            BaseCase::Evaluating { number } => Some(number),
            BaseCase::Unknown
            | BaseCase::Due
            | BaseCase::Holds
            | BaseCase::Stale
            | BaseCase::Red { .. }
            | BaseCase::Waiting { .. }
            | BaseCase::Unevaluable { .. } => None,
        }
    }

    /// What the last look at the base case saw as red, or waits for.
    pub fn red(&self) -> &[RedCheck] {
        &self.evaluations.red
    }

    pub fn is_halted(&self) -> bool {
        self.phase == Phase::Halted
    }

    /// Whether an atom waits for a person.
    pub fn awaits_person(&self) -> bool {
        self.memory.anything_awaits_person()
    }

    /// Whether time or money is used up, as of the last event.
    pub fn is_overspent(&self) -> bool {
        converge::overspent(&self.ledger, self.seconds_spent()).is_some()
    }

    fn is_under_way(&self) -> bool {
        match self.phase {
            Phase::HostTurn | Phase::Running => true,
            Phase::Idle | Phase::AwaitingRedirect | Phase::Halted => false,
        }
    }

    fn seconds_spent(&self) -> u64 {
        let passed = self.ledger.now().as_second().saturating_sub(self.spending.since.as_second());
        self.spending.seconds_before.saturating_add(u64::try_from(passed).unwrap_or(0))
    }

    /// When the wall time is used up.
    fn wall_time_ends(&self) -> Timestamp {
        let limit = self.state().constraints().max_wall_time().seconds();
        let left = limit.saturating_sub(self.spending.seconds_before);
        let left = SignedDuration::from_secs(i64::try_from(left).unwrap_or(i64::MAX / 2));
        self.spending.since.checked_add(left).unwrap_or(Timestamp::MAX)
    }

    fn write_spent(&mut self) {
        self.spending.total.seconds = self.seconds_spent();
        self.spending.unwritten = false;
        let spent = self.spending.total.clone();
        let runs = std::mem::take(&mut self.spending.runs);
        self.ledger.record(Change::SpentSoFar { spent, runs });
    }

    /// The more urgent of two reasons to stop counts, and the first of equals.
    fn require_stop(&mut self, stop: Stop) {
        if self.must_stop.as_ref().is_none_or(|known| known.urgency() < stop.urgency()) {
            self.must_stop = Some(stop);
        }
    }

    fn judgement_inputs(&self) -> JudgementInputs<'_> {
        JudgementInputs {
            // Conflicts pass; whether the loop can go on does not depend on what runs now.
            dispatch: self.dispatch_inputs(&[]),
            must_stop: self.must_stop.as_ref(),
            base_case: &self.base_case,
            seconds_spent: self.seconds_spent(),
        }
    }

    fn dispatch_inputs<'f>(&'f self, running: &'f [AtomId]) -> DispatchInputs<'f> {
        let constraints = self.state().constraints();
        let parallel = match self.settings.trees {
            Trees::Separate => constraints.max_parallel_agents,
            Trees::Shared => 1,
        };
        // The agents are counted only where there is a budget: an event asks often, and each attempt's atom is looked up.
        let is_budgeted = constraints.max_cost_usd.is_some() || constraints.max_tokens.is_some();
        let agents = if is_budgeted { self.flight.agents(self.state()) } else { 0 };
        DispatchInputs {
            running,
            replanned: self.flight.replan.as_ref().map_or(&[], |replan| &replan.atoms),
            memory: &self.memory,
            probed: self.probed_in_iteration(),
            agents: self.settings.agents,
            slots: Slots { parallel, taken: self.flight.len(), agents },
            spent: &self.spending.total,
        }
    }

    /// Choices that were probed in the open iteration beside the selected one: each is a start of it (D8, D10).
    fn probed_in_iteration(&self) -> &[AtomId] {
        let control = &self.state().control;
        if control.open.is_some() { self.probed_choices.of(control.iteration) } else { &[] }
    }
}
