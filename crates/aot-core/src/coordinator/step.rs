//! What follows an event, in this order: stale attempts are dropped, stops judged, the iteration closed if it is over,
//! the base case evaluated if that is due, free slots filled (D7). Contains the order; each judgement is a rule's.

use jiff::Timestamp;

use super::flight::{Attempt, Replan, Stage, blank_job};
use super::protocol::{Effect, JobId, Task};
use super::{Coordinator, Dispatch, OnRefusedStart, Phase};
use crate::rules::advance::{self, AttemptNumber};
use crate::rules::certificate::{Budget, certify};
use crate::rules::converge::{self, Parking, Running, Stop};
use crate::rules::evaluate::{self, BaseCase, Look};
use crate::rules::memory::Infeasible;
use crate::rules::plan::{self, Pick, Presence, ReplanReason, Step};
use crate::rules::{Change, backoff, backtrack};
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
        if !self.is_under_way() {
            return;
        }
        while let Next::Again = self.step() {}
        self.ask_to_be_woken();
    }

    fn step(&mut self) -> Next {
        if let Some(stop) = converge::urgent_stop(&self.ledger, &self.judgement_inputs()) {
            return self.wind_down(stop);
        }
        if self.phase == Phase::HostTurn {
            return Next::Wait;
        }
        let overspent = converge::overspent(&self.ledger, self.seconds_spent());
        let out_of_time = self.is_out_of_time();
        let evaluating = self.verifying().is_some();
        if evaluating && !out_of_time {
            self.kill_all_that_costs(overspent);
            return Next::Wait;
        }
        let over = converge::is_over(&self.ledger, self.flight.len(), self.parking());
        if !evaluating && !self.replans.just_answered && over {
            self.close();
        }
        if !out_of_time && evaluate::is_wanted(&self.ledger, &self.base_case, self.flight.len()) {
            self.kill_all_that_costs(overspent);
            // What lost the evaluation before is given time to pass (D12).
            if self.evaluations.lost == 0 || !self.is_parked() {
                self.verify();
            }
            return Next::Wait;
        }
        if !out_of_time && self.base_case == BaseCase::Stale {
            self.drop_unstarted("the base case held and is evaluated again");
            return if self.flight.is_empty() { Next::Again } else { Next::Wait };
        }
        if let Some(stop) = converge::stop(&self.ledger, &self.judgement_inputs()) {
            return self.wind_down(stop);
        }
        if self.settings.dispatch == Dispatch::OnRequest {
            self.phase = Phase::HostTurn;
            return Next::Wait;
        }
        if self.is_parked() {
            return Next::Wait;
        }
        self.fill();
        self.replans.just_answered = false;
        if !self.flight.is_empty() {
            return Next::Wait;
        }
        if self.state().control.open.is_some() {
            return Next::Again;
        }
        // The stop conditions cover every way to come here; a loop that cannot go on halts all the same.
        let stop = converge::dead_end(&self.ledger, &self.judgement_inputs());
        self.wind_down(stop)
    }

    /// Without money or tokens the base case is still looked at, but nothing else goes on.
    fn kill_all_that_costs(&mut self, overspent: Option<(Budget, String)>) {
        if let Some((_, reason)) = overspent {
            self.kill_all(&reason);
        }
    }

    /// Closes the iteration and judges it.
    pub(super) fn close(&mut self) {
        converge::close(&mut self.ledger);
        if evaluate::is_due_at_close(&self.ledger, &self.evaluations) {
            self.base_case.ask();
        }
    }

    /// Ends attempts that the state no longer shows after a switch or a won race. They are results (D7).
    pub(super) fn drop_stale_attempts(&mut self) {
        // Only the coordinator puts atoms in progress, so as many as are in flight are the same ones.
        if self.ledger.frontier().in_progress().len() != self.flight.attempts.len() {
            self.drop_attempts_not_in_state();
        }
    }

    pub(super) fn drop_attempts_not_in_state(&mut self) {
        let state = self.ledger.state();
        let (kept, stale) = self.flight.attempts.drain(..).partition(|attempt| attempt.is_shown_by(state));
        self.flight.attempts = kept;
        let stale: Vec<Attempt> = stale;
        for attempt in stale {
            self.effects.extend(attempt.jobs().map(Effect::Kill));
            self.count_result();
        }
    }

    /// Takes an attempt that is over out of the flight, and ends the probes of choices beside it.
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
        self.base_case.interrupted(&self.ledger);
        self.forget_evaluations();
        converge::break_off(&mut self.ledger);
        if self.state().control.parked_until.is_some() {
            self.ledger.record(Change::Unparked);
        }
    }

    /// A person changed the state: the next evaluation needs no iteration of its own, because the bound may rise now. It
    /// rises by one evaluation; if one is under way, that is the one.
    pub(super) fn forget_evaluations(&mut self) {
        if self.verifying().is_none() {
            self.evaluations.evaluated_in = None;
        }
        self.evaluations.lost = 0;
    }

    /// Landings are let through: they are short, and half of one is worse than either end.
    fn kill_all(&mut self, reason: &str) {
        if let Some(replan) = self.flight.replan.take() {
            self.effects.push(Effect::Kill(replan.job()));
        }
        let attempts = std::mem::take(&mut self.flight.attempts);
        for attempt in attempts {
            if attempt.stage == Stage::Landing && !attempt.parked {
                self.flight.attempts.push(attempt);
                continue;
            }
            self.effects.extend(attempt.jobs().map(Effect::Kill));
            self.ledger.record(Change::AtomReturned { atom: attempt.atom, reason: reason.to_owned() });
            self.count_result();
        }
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        converge::is_out_of_time(&self.ledger, self.seconds_spent())
    }

    /// Nothing new starts; when nothing runs any more, the loop halts.
    fn wind_down(&mut self, stop: Stop) -> Next {
        if self.verifying().is_some() {
            self.base_case = BaseCase::Unknown;
            self.evaluations.outdated = true;
        }
        let overspent = converge::overspent(&self.ledger, self.seconds_spent()).is_some();
        let must_kill = self.must_stop.as_ref().is_some_and(|stop| stop.running == Running::Kill);
        if stop.running == Running::Kill || overspent || must_kill {
            self.kill_all(&stop.reason);
        } else {
            self.drop_unstarted(&stop.reason);
        }
        if !self.flight.is_empty() {
            return Next::Wait;
        }
        if stop.wants_look() && self.evaluations.outdated && !self.is_out_of_time() {
            self.base_case.ask();
            if self.base_case == BaseCase::Due {
                return Next::Again;
            }
        }
        self.halt(stop);
        Next::Wait
    }

    /// Drops what would lead to new starts: a replan, probes of other choices, and attempts whose start or landing was
    /// refused.
    fn drop_unstarted(&mut self, reason: &str) {
        if let Some(replan) = self.flight.replan.take() {
            self.effects.push(Effect::Kill(replan.job()));
        }
        self.end_parallel_probes();
        for at in 0..self.flight.attempts.len() {
            let attempt = &self.flight.attempts[at];
            if attempt.parked && attempt.stage == Stage::Landing {
                self.effects.push(Effect::Kill(attempt.job()));
                self.land_next_rival(at);
            }
        }
        let (parked, running) = self.flight.attempts.drain(..).partition(|attempt| attempt.parked);
        self.flight.attempts = running;
        let parked: Vec<Attempt> = parked;
        for attempt in parked {
            self.ledger.record(Change::AtomReturned { atom: attempt.atom, reason: reason.to_owned() });
            self.count_result();
        }
    }

    pub(super) fn halt(&mut self, stop: Stop) {
        let completed = self.base_case == BaseCase::Holds && stop.verdict.exit() == 0;
        let control = &self.state().control;
        if completed {
            self.ledger.record(Change::Completed);
        } else if control.status != LoopStatus::Stopped
            || control.stop_reason.as_ref() != Some(&stop.reason)
            || control.verdict.as_ref() != Some(&stop.verdict)
            || control.open.is_some()
        {
            let (reason, verdict) = (stop.reason.clone(), Some(stop.verdict.clone()));
            self.ledger.record(Change::Stopped { reason, verdict });
        }
        self.write_spent();
        let red = if completed { Vec::new() } else { std::mem::take(&mut self.evaluations.red) };
        let certificate = certify(&self.ledger, stop, red);
        self.effects.push(Effect::Halt(Box::new(certificate)));
        self.phase = Phase::Halted;
    }

    fn verify(&mut self) {
        if evaluate::needs_own_iteration(&self.ledger, &self.evaluations) {
            self.ledger.record(Change::IterationOpened);
            converge::close(&mut self.ledger);
        }
        self.evaluations.count += 1;
        self.evaluations.outdated = false;
        self.evaluations.last = Some(Look { began: self.ledger.now(), ended: None });
        self.evaluations.evaluated_in = Some(self.state().control.iteration);
        let number = self.evaluations.count;
        self.base_case = BaseCase::Evaluating { number };
        self.effects.push(Effect::Verify { number });
    }

    /// Starts what can be started, the replan first (D7, D8).
    fn fill(&mut self) {
        if self.state().control.open.is_none() {
            self.open_with_replan();
        }
        while plan::has_room(&self.ledger, &self.dispatch_inputs(&[])).is_ok() {
            let mut reserved = std::mem::take(&mut self.reserved);
            let running = self.flight.atoms();
            let pick = plan::next(&self.ledger, &self.dispatch_inputs(&running), &mut reserved);
            self.reserved = reserved;
            let Some(pick) = pick else { return };
            let step = pick.step;
            self.begin(pick);
            if step == Step::Probe {
                self.start_parallel_probes();
            }
        }
    }

    /// All that is due for another plan is asked for at the opening of an iteration, once.
    fn open_with_replan(&mut self) {
        // A replan may outlive its iteration; there is one at a time.
        let no_room = plan::has_room(&self.ledger, &self.dispatch_inputs(&[])).is_err();
        if no_room || self.flight.replan.is_some() {
            return;
        }
        let red = match &self.base_case {
            BaseCase::Red { checks, .. } if self.ledger.frontier().unresolved() == 0 => {
                Some(checks.as_slice())
            }
            _ => None,
        };
        let why = plan::replan_reasons(&self.ledger, &self.memory, red);
        if why.is_empty() {
            return;
        }
        match self.settings.agents.coordinator {
            Presence::Available => self.ask_for_plan(why),
            Presence::Absent if red.is_some() => self.redo_claims(),
            Presence::Absent => self.abandon_earlier_choice(&plan::atoms_to_replan(&why)),
        }
    }

    /// Without anybody who could change the plan, what was only claimed and changed nothing is done again (D33).
    fn redo_claims(&mut self) {
        let claims = backtrack::doubtful_claims(&self.ledger);
        if claims.is_empty() {
            return;
        }
        self.ledger.record(Change::IterationOpened);
        backtrack::redo(&mut self.ledger, &claims);
        self.evaluations.outdated = true;
    }

    fn ask_for_plan(&mut self, why: Vec<ReplanReason>) {
        self.ledger.record(Change::IterationOpened);
        let number = self.state().control.iteration;
        for why in &why {
            if let ReplanReason::Infeasible { atom, findings } = why {
                self.memory.entry(atom).infeasible = Some(Infeasible::Told(Some(findings.clone())));
            }
        }
        let replan = Replan { number, atoms: plan::atoms_to_replan(&why), why, parked: false };
        self.start_replan(&replan);
        self.flight.replan = Some(replan);
        self.count_agent_run();
    }

    fn start_replan(&mut self, replan: &Replan) {
        let mut job = blank_job(replan.job());
        job.why = replan.why.clone();
        job.refusals = self.replans.refusals.clone();
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
                advance::start(&mut self.ledger, &pick.atom, AttemptNumber::Number(number))
                    .expect("only what is ready is picked");
            }
        }
        let mut attempt = Attempt::new(pick.atom, number, stage);
        if pick.step == Step::Work {
            attempt.findings = self.memory.found_by_probe(&attempt.atom).map(str::to_owned);
        }
        self.start(&attempt);
        self.count_run(&attempt.job());
        self.flight.attempts.push(attempt);
    }

    pub(super) fn start(&mut self, attempt: &Attempt) {
        let mut job = blank_job(attempt.job());
        job.findings = attempt.findings.clone();
        job.return_reason = self.memory.of(&attempt.atom).and_then(|memory| memory.return_reason.clone());
        self.effects.push(Effect::Start(job));
    }

    /// Counts an agent run when it is asked for, so that a crash cannot lose it.
    pub(super) fn count_run(&mut self, job: &JobId) {
        if self.is_agent_run(job) {
            self.count_agent_run();
        }
    }

    /// What was counted when it was asked for could not be started.
    pub(super) fn uncount_run(&mut self, job: &JobId) {
        if self.is_agent_run(job) {
            self.spending.total.agent_runs = self.spending.total.agent_runs.saturating_sub(1);
            self.spending.unwritten = true;
        }
    }

    fn is_agent_run(&self, job: &JobId) -> bool {
        match &job.task {
            Task::Probe(_) | Task::Replan => true,
            Task::Work(atom) => self.state().atoms.get(atom).is_some_and(|atom| atom.run.is_none()),
            Task::Check(_) => false,
        }
    }

    fn parking(&self) -> Parking {
        match self.state().control.parked_until {
            // What could not be started is tried again before its iteration is judged.
            Some(_) => Parking::Parked,
            None => Parking::Free,
        }
    }

    /// A loop that is parked starts nothing; when the time has come, what was refused begins again (D12).
    fn is_parked(&mut self) -> bool {
        let Some(until) = self.state().control.parked_until.as_ref().map(|until| until.at()) else {
            return false;
        };
        if backoff::is_due_later(self.ledger.now(), until)
            && self.settings.on_refused_start == OnRefusedStart::Park
        {
            return true;
        }
        self.ledger.record(Change::Unparked);
        let mut again = Vec::new();
        for attempt in self.flight.attempts.iter_mut().filter(|attempt| attempt.parked) {
            attempt.parked = false;
            again.push(attempt.clone());
        }
        for attempt in &again {
            match attempt.stage {
                Stage::Landing => self.effects.push(Effect::Land(attempt.job())),
                Stage::Probing | Stage::Working | Stage::Checking => self.start(attempt),
                Stage::AwaitingProbes | Stage::AwaitingRival => {}
            }
        }
        if let Some(mut replan) = self.flight.replan.take() {
            if std::mem::take(&mut replan.parked) {
                self.start_replan(&replan);
            }
            self.flight.replan = Some(replan);
        }
        false
    }

    fn ask_to_be_woken(&mut self) {
        if !self.is_under_way() {
            return;
        }
        let parked = self.state().control.parked_until.as_ref().map(|until| until.at());
        let wake = parked.unwrap_or(Timestamp::MAX).min(self.wall_time_ends());
        if self.wake != Some(wake) {
            self.wake = Some(wake);
            self.effects.push(Effect::WakeAt(wake));
        }
    }

    fn count_agent_run(&mut self) {
        self.spending.total.agent_runs += 1;
        self.spending.unwritten = true;
    }
}
