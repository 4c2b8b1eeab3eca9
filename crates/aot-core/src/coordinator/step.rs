//! After an event: what does not stand any more is killed, stops are judged, the iteration is closed if it is over,
//! the base case evaluated if that is due, free slots filled (D7). Order only; each judgement is a rule's.

use jiff::{SignedDuration, Timestamp};

use super::flight::{Attempt, Replan, Stage, blank_job};
use super::protocol::{Effect, JobId, Task};
use super::{Coordinator, Dispatch, OnRefusedStart, Phase, Trees};
use crate::rules::advance::{self, Attempt as Counted};
use crate::rules::certificate::{Verdict, certify};
use crate::rules::converge::{self, BaseCase, Running, Stop};
use crate::rules::plan::{self, Pick, Presence, ReplanReason, Step};
use crate::rules::{Change, backtrack};
use crate::state::{AtomId, LoopStatus};

/// Whether there is something to do before the next event.
enum Next {
    Again,
    Wait,
}

impl Coordinator {
    pub(super) fn advance(&mut self) {
        self.drop_stale_attempts();
        if self.state().control.redirect_requested {
            self.interrupt();
            return;
        }
        if self.phase != Phase::Running {
            return;
        }
        while let Next::Again = self.step() {}
        self.ask_to_be_woken();
    }

    fn step(&mut self) -> Next {
        if self.abandoned {
            let (verdict, reason) = (Verdict::RedirectInterrupted, "redirect interrupted".to_owned());
            return self.wind_down(Stop { verdict, reason, running: Running::Kill });
        }
        let urgent = self.with_judgement_inputs(converge::urgent_stop);
        if let Some(stop) = urgent {
            return self.wind_down(stop);
        }
        if self.settings.dispatch == Dispatch::OnRequest && !self.turn_is_over {
            return Next::Wait;
        }
        let overspent = converge::overspent(&self.ledger, self.seconds_spent()).is_some();
        if self.verifying.is_some() && !overspent {
            return Next::Wait;
        }
        if self.verifying.is_none()
            && !self.plan_is_fresh
            && converge::is_over(&self.ledger, self.flight.len())
        {
            converge::close(&mut self.ledger);
            self.evaluation_due |= converge::verifies_each(&self.ledger);
        }
        if self.wants_evaluation() && !overspent {
            self.give_evaluation_its_iteration();
            self.verify();
            return Next::Wait;
        }
        let stop = self.with_judgement_inputs(converge::stop);
        if let Some(stop) = stop {
            return self.wind_down(stop);
        }
        if self.stale_pass {
            return self.see_again();
        }
        if self.settings.dispatch == Dispatch::OnRequest {
            self.turn_is_over = false;
            return Next::Wait;
        }
        if self.is_parked() {
            return Next::Wait;
        }
        self.fill();
        self.plan_is_fresh = false;
        if !self.flight.is_empty() {
            return Next::Wait;
        }
        if self.state().control.open.is_some() {
            return Next::Again;
        }
        // The stop conditions leave nothing that could be here; a loop that cannot go on halts all the same.
        let stop = self.with_judgement_inputs(converge::dead_end);
        self.wind_down(stop)
    }

    /// Attempts that the state no longer shows: a switch, a won race, a hand took them away. They are results (D7).
    pub(super) fn drop_stale_attempts(&mut self) {
        // Only the coordinator puts atoms in progress, so as many as are in flight are the same ones.
        if self.ledger.frontier().in_progress().len() == self.flight.attempts.len() && !self.replaced {
            return;
        }
        self.replaced = false;
        let mut at = 0;
        while at < self.flight.attempts.len() {
            if self.flight.attempts[at].stands(self.ledger.state()) {
                at += 1;
                continue;
            }
            let gone = self.flight.attempts.remove(at);
            self.effects.extend(gone.jobs().map(Effect::Kill));
            self.count_result();
        }
    }

    /// Takes an attempt that is over out of the flight; whoever still looks at choices beside it is called back.
    pub(super) fn end_attempt(&mut self, at: usize) -> Attempt {
        let attempt = self.flight.attempts.remove(at);
        self.effects.extend(attempt.running_parallel_probes().map(Effect::Kill));
        attempt
    }

    pub(super) fn count_result(&mut self) {
        if self.state().control.open.is_some() {
            self.ledger.record(Change::ResultCounted);
        }
    }

    /// A redirect is under way: everything but a landing is killed, and the iteration ends without a stall (D16).
    fn interrupt(&mut self) {
        self.kill_all("interrupted by a redirect");
        // An evaluation that was broken off comes again; a redirect may raise the bound.
        self.verifying = None;
        self.evaluated_in = None;
        self.evaluation_due = false;
        self.base_case = None;
        converge::break_off(&mut self.ledger);
        if self.state().control.parked_until.is_some() {
            self.ledger.record(Change::Unparked);
        }
    }

    /// Landings are let through: they are short, and half of one is worse than either end.
    fn kill_all(&mut self, reason: &str) {
        if let Some(replan) = self.flight.replan.take() {
            self.effects.push(Effect::Kill(replan.job()));
        }
        let attempts = std::mem::take(&mut self.flight.attempts);
        for attempt in attempts {
            if attempt.stage == Stage::Landing {
                self.flight.attempts.push(attempt);
                continue;
            }
            self.effects.extend(attempt.jobs().map(Effect::Kill));
            self.ledger.record(Change::AtomReturned { atom: attempt.atom, reason: reason.to_owned() });
            self.count_result();
        }
    }

    /// Nothing new starts; when nothing runs any more, the loop halts.
    fn wind_down(&mut self, stop: Stop) -> Next {
        self.verifying = None;
        let overspent = converge::overspent(&self.ledger, self.seconds_spent()).is_some();
        if stop.running == Running::Kill || overspent || self.tampered.is_some() {
            self.kill_all(&stop.reason);
        } else {
            // What waits to be started again, and a plan that nobody will carry out, would be new starts.
            if let Some(replan) = self.flight.replan.take() {
                self.effects.push(Effect::Kill(replan.job()));
            }
            self.end_parallel_probes();
            let parked = |attempt: &Attempt| attempt.parked;
            let waiting: Vec<AtomId> =
                self.flight.attempts.iter().filter(|a| parked(a)).map(|a| a.atom.clone()).collect();
            self.flight.attempts.retain(|attempt| !parked(attempt));
            for atom in waiting {
                self.ledger.record(Change::AtomReturned { atom, reason: stop.reason.clone() });
                self.count_result();
            }
        }
        if self.flight.is_empty() {
            self.halt(stop);
        }
        Next::Wait
    }

    pub(super) fn halt(&mut self, stop: Stop) {
        let completed = self.base_case == Some(BaseCase::Holds) && stop.verdict.exit() == 0;
        let control = &self.state().control;
        if completed {
            self.ledger.record(Change::Completed);
        } else if control.status != LoopStatus::Stopped
            || control.stop_reason.as_ref() != Some(&stop.reason)
            || control.open.is_some()
        {
            self.ledger.record(Change::Stopped { reason: stop.reason.clone() });
        }
        self.write_spent();
        self.spent_changed = false;
        let red = if completed { Vec::new() } else { std::mem::take(&mut self.red) };
        let certificate = certify(&self.ledger, stop.verdict, stop.reason, red);
        self.effects.push(Effect::Halt(Box::new(certificate)));
        self.phase = Phase::Halted;
    }

    /// The first evaluation, the one at a close, and whenever nothing is unresolved (D14). After the last iteration it
    /// waits for what still runs, so that there is one evaluation for each iteration and not two.
    fn wants_evaluation(&self) -> bool {
        if self.verifying.is_some() || self.base_case == Some(BaseCase::Holds) {
            return false;
        }
        let idle = self.flight.is_empty();
        let last = self.state().control.iteration >= self.state().constraints().max_iterations;
        let done = idle && self.base_case.is_none() && self.ledger.frontier().unresolved() == 0;
        done || (self.evaluation_due && (idle || !last))
    }

    fn verify(&mut self) {
        self.evaluations += 1;
        self.evaluation_due = false;
        self.base_case = None;
        self.verifying = Some(self.evaluations);
        self.evaluated_in = Some(self.state().control.iteration);
        self.effects.push(Effect::Verify { number: self.evaluations });
    }

    /// Each iteration has one evaluation (D8). When something landed after it, the next one gets an iteration of its
    /// own, so that the bound holds.
    fn give_evaluation_its_iteration(&mut self) {
        let control = &self.state().control;
        let again = control.open.is_none() && self.evaluated_in == Some(control.iteration);
        if again && control.iteration < self.state().constraints().max_iterations {
            self.ledger.record(Change::IterationOpened);
            converge::close(&mut self.ledger);
        }
    }

    /// The base case held while something ran, and that has landed since: when all of it is through, it is evaluated
    /// again.
    fn see_again(&mut self) -> Next {
        if !self.flight.is_empty() {
            return Next::Wait;
        }
        self.stale_pass = false;
        self.evaluation_due = true;
        Next::Again
    }

    /// Starts what can be started, the replan first (D7, D8).
    fn fill(&mut self) {
        if self.state().control.open.is_none() {
            self.open_with_replan();
        }
        while self.has_slot() {
            let mut reserved = std::mem::take(&mut self.reserved);
            let running = self.flight.atoms();
            let pick = plan::next(&self.ledger, &self.inputs(&running), &mut reserved);
            self.reserved = reserved;
            let Some(pick) = pick else { return };
            let step = pick.step;
            self.begin(pick);
            if step == Step::Probe {
                self.start_parallel_probes();
            }
        }
    }

    pub(super) fn has_slot(&self) -> bool {
        let state = self.state();
        let parallel = match self.settings.trees {
            Trees::Separate => state.constraints().max_parallel_agents,
            Trees::Shared => 1,
        };
        let may_start = match &state.control.open {
            None => state.control.iteration < state.constraints().max_iterations,
            Some(open) => {
                open.started.len() + self.probed_in_iteration().len()
                    < plan::starts_per_iteration(state.constraints().max_parallel_agents)
            }
        };
        may_start
            && self.flight.len() < parallel as usize
            && converge::affords(state.constraints(), &self.spent, self.flight.agents(state))
    }

    /// All that is due for another plan is asked for at the opening of an iteration, once.
    fn open_with_replan(&mut self) {
        // A replan that outlives its iteration is still the one that was asked.
        if !self.has_slot() || self.flight.replan.is_some() {
            return;
        }
        let red = match &self.base_case {
            Some(BaseCase::Red(red)) if self.ledger.frontier().unresolved() == 0 => Some(red.as_slice()),
            Some(BaseCase::Red(_) | BaseCase::Open(_) | BaseCase::Holds) | None => None,
        };
        let why = plan::replan_reasons(&self.ledger, &self.too_large, red);
        if why.is_empty() {
            return;
        }
        match self.settings.agents.coordinator {
            Presence::Available => self.ask_for_plan(why),
            Presence::Absent => self.abandon_earlier_choice(&plan::atoms_to_replan(&why)),
        }
    }

    fn ask_for_plan(&mut self, why: Vec<ReplanReason>) {
        self.ledger.record(Change::IterationOpened);
        let number = self.state().control.iteration;
        let replan = Replan { number, atoms: plan::atoms_to_replan(&why), why, parked: false };
        self.start_replan(&replan);
        self.flight.replan = Some(replan);
        self.spent.agent_runs += 1;
        self.spent_changed = true;
    }

    fn start_replan(&mut self, replan: &Replan) {
        let mut job = blank_job(replan.job());
        job.why = replan.why.clone();
        job.refusals = self.refusals.clone();
        self.effects.push(Effect::Start(job));
    }

    fn abandon_earlier_choice(&mut self, atoms: &[AtomId]) {
        for atom in atoms {
            if backtrack::earlier_choice(&self.ledger, atom).is_none() {
                continue;
            }
            if self.state().control.open.is_none() {
                self.ledger.record(Change::IterationOpened);
            }
            backtrack::abandon_earlier_choice(&mut self.ledger, atom);
        }
        self.drop_stale_attempts();
    }

    /// Begins an attempt; the iteration opens with the first of its starts.
    pub(super) fn begin(&mut self, pick: Pick) {
        if self.state().control.open.is_none() {
            self.ledger.record(Change::IterationOpened);
        }
        let number = self.state().control.iteration;
        let stage = match pick.step {
            Step::Probe => Stage::Probing,
            Step::Work => Stage::Working,
            Step::Check => Stage::Checking,
        };
        match pick.step {
            Step::Check => {
                let index = self.ledger.index(&pick.atom).expect("only what is in the graph is picked");
                advance::start_check(&mut self.ledger, index, number);
            }
            Step::Probe | Step::Work => {
                advance::start(&mut self.ledger, &pick.atom, Counted::Number(number))
                    .expect("only what is ready is picked");
            }
        }
        let mut attempt = Attempt::new(pick.atom, number, stage);
        if pick.step == Step::Work {
            attempt.findings = self.findings.get(&attempt.atom).map(|saw| saw.findings.clone());
        }
        self.start(&attempt);
        self.count_run(&attempt.job());
        self.flight.attempts.push(attempt);
    }

    pub(super) fn start(&mut self, attempt: &Attempt) {
        let mut job = blank_job(attempt.job());
        job.findings = attempt.findings.clone();
        job.return_reason = self.return_reason.get(&attempt.atom).cloned();
        self.effects.push(Effect::Start(job));
    }

    /// Counts an agent run when it is asked for, so that a crash cannot lose it.
    pub(super) fn count_run(&mut self, job: &JobId) {
        let by_agent = match &job.task {
            Task::Probe(_) | Task::Replan => true,
            Task::Work(atom) => self.state().atoms.get(atom).is_some_and(|atom| atom.run.is_none()),
            Task::Check(_) => false,
        };
        if by_agent {
            self.spent.agent_runs += 1;
            self.spent_changed = true;
        }
    }

    /// A loop that is parked starts nothing; when the time has come, what was refused begins again (D12).
    fn is_parked(&mut self) -> bool {
        let Some(until) = self.state().control.parked_until.as_ref().map(|until| until.at()) else {
            return false;
        };
        if self.ledger.now() < until && self.settings.on_refused_start == OnRefusedStart::Park {
            return true;
        }
        self.ledger.record(Change::Unparked);
        let mut again = Vec::new();
        for attempt in self.flight.attempts.iter_mut().filter(|attempt| attempt.parked) {
            attempt.parked = false;
            again.push(attempt.clone());
        }
        again.iter().for_each(|attempt| self.start(attempt));
        if let Some(mut replan) = self.flight.replan.take() {
            if std::mem::take(&mut replan.parked) {
                self.start_replan(&replan);
            }
            self.flight.replan = Some(replan);
        }
        false
    }

    fn ask_to_be_woken(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        let wall_time = self.state().constraints().max_wall_time().seconds();
        let left = i64::try_from(wall_time.saturating_sub(self.spent_before)).unwrap_or(i64::MAX / 2);
        let end = self.since.checked_add(SignedDuration::from_secs(left)).unwrap_or(Timestamp::MAX);
        let parked = self.state().control.parked_until.as_ref().map(|until| until.at());
        let wake = parked.map_or(end, |until| until.min(end));
        if self.wake != Some(wake) {
            self.wake = Some(wake);
            self.effects.push(Effect::WakeAt(wake));
        }
    }
}
