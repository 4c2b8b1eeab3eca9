//! Handles an event: finds the attempt that it is about, calls the rule that knows what follows, and remembers what the
//! state does not hold. Starts nothing new by itself, except the work that follows its probe.

use super::flight::Stage;
use super::protocol::{
    Answer, CheckOutcome, Effect, Evaluation, Event, Feasibility, JobId, JobOutcome, RedirectLock, StopMode,
    UnrecordedLanding, Usage,
};
use super::{Coordinator, Dispatch, OnRefusedStart, Phase};
use crate::rules::advance::{self, Proof};
use crate::rules::backoff::{self, MAX_LOST_EVALUATIONS};
use crate::rules::certificate::{RedCheck, WORKING_TREE};
use crate::rules::converge::{self, Stop};
use crate::rules::evaluate::{self, BaseCase, Blocker, Look, PlanState};
use crate::rules::memory::{Forget, Infeasible, MAX_CHECK_ERRORS};
use crate::rules::plan::{self, ReplanReason};
use crate::rules::replan::{self, PlanChange};
use crate::rules::{Change, backtrack, order};
use crate::state::{AtomId, Binding, Fingerprint, LoopStatus};

/// So many refusals of plans are kept for the next brief.
const REFUSALS_KEPT: usize = 3;

/// So many runs of agents wait for a result with which they are written.
const RUNS_UNWRITTEN: usize = 64;

impl Coordinator {
    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Begun { unrecorded, fingerprint, altered, redirect } => {
                self.begun(unrecorded, (fingerprint, altered), redirect)
            }
            Event::Ended { job, outcome, usage } => {
                self.charge(usage);
                self.ended(job, outcome, usage);
            }
            Event::Landed { job, binding, usage } => {
                self.charge(usage);
                self.landed(job, binding);
            }
            Event::Conflict { job, reason, usage } => {
                self.charge(usage);
                self.conflict(job, reason);
            }
            Event::NotLanded { job, reason, usage } => {
                self.charge(usage);
                self.not_landed(job, reason, usage);
            }
            Event::Verified { number, evaluation, usage } => {
                self.charge(usage);
                if self.verifying() == Some(number) {
                    self.verified(evaluation);
                }
            }
            Event::Replanned { job, answer, usage } => {
                self.charge(usage);
                self.replanned(job, answer);
            }
            Event::AgentRan { run } => {
                self.spending.runs.push(run);
                // Most often it is written with the result that follows; a killed one has no result.
                self.spending.unwritten |= self.spending.runs.len() >= RUNS_UNWRITTEN;
            }
            Event::Spent { usage } => self.charge(Usage { agent_runs: 0, ..usage }),
            Event::Edited { state } => self.edited(*state),
            Event::Tampered { what } => self.require_stop(converge::tampered(what)),
            Event::StopAsked { how, reason } => {
                self.ledger.record(Change::StopRequested { reason, now: how == StopMode::Now });
            }
            Event::RedirectAsked => self.ledger.record(Change::RedirectRequested),
            Event::Redirected { state } => self.redirected(*state),
            Event::RedirectAbandoned => self.abandon_redirect(),
            Event::Woke => self.end_host_turn_if_out_of_time(),
            Event::StartAsked { atom } => self.start_asked(atom),
            Event::TurnEnded => self.turn_ended(),
        }
    }

    fn begun(
        &mut self,
        unrecorded: Vec<UnrecordedLanding>,
        (fingerprint, altered): (Option<Fingerprint>, Option<String>),
        redirect: RedirectLock,
    ) {
        self.adopt(unrecorded);
        self.flight.attempts.clear();
        self.must_stop = None;
        self.spending.since = self.ledger.now();
        if self.state().control.redirect_requested {
            match redirect {
                RedirectLock::Held => self.phase = Phase::AwaitingRedirect,
                RedirectLock::Free => self.abandon_redirect(),
            }
            return;
        }
        if self.state().control.status == LoopStatus::Stopped {
            backtrack::repair(&mut self.ledger);
        }
        self.require_agents();
        match (&self.state().control.fingerprint, fingerprint) {
            (Some(agreed), Some(now)) if *agreed != now => {
                let what =
                    if agreed.base_case == now.base_case { "protected files" } else { "the base case" };
                let what = || format!("tampered: {what} changed outside of a redirect");
                self.require_stop(converge::tampered(altered.unwrap_or_else(what)));
            }
            (None, Some(fingerprint)) => self.ledger.record(Change::FingerprintTaken { fingerprint }),
            (Some(_) | None, _) => {}
        }
        self.take_up();
    }

    /// Results that landed before a crash count; whatever else stands in progress is an orphan (D23).
    fn adopt(&mut self, unrecorded: Vec<UnrecordedLanding>) {
        for UnrecordedLanding { atom, attempt, binding } in unrecorded {
            let ours = self.flight.attempts.iter().any(|a| a.atom == atom && a.number == attempt);
            let commit = binding.commit.clone();
            if ours && advance::resolve(&mut self.ledger, &atom, binding, Proof::Seen).is_ok() {
                converge::resolved(&mut self.ledger);
            } else if let Some(commit) = commit {
                // A rival landed first, or the plan has changed: this commit is not wanted any more.
                self.effects.push(Effect::Revert { atom, commit });
            }
        }
        let orphans: Vec<usize> = self.ledger.frontier().in_progress().collect();
        self.ledger.reset_all(orphans);
    }

    /// Atoms that need an agent when there is none stop the loop before its first start, unless it is done already (D27).
    pub(super) fn require_agents(&mut self) {
        let lacking = plan::lacking(&self.ledger, self.settings.agents);
        if !lacking.is_empty() {
            self.require_stop(converge::no_agent(lacking));
        }
    }

    /// Takes the loop up, from the beginning, after a stop or after a crash (D15). The base case is looked at first: a
    /// person may have made it true meanwhile (D14).
    pub(super) fn take_up(&mut self) {
        self.base_case = BaseCase::Due;
        self.forget_evaluations();
        if self.state().control.stop_requested {
            self.ledger.record(Change::StopWithdrawn);
        }
        self.ledger.record(Change::LoopStarted);
        backtrack::repair(&mut self.ledger);
        self.phase = Phase::Running;
    }

    /// The redirecting process is gone: the flag is cleared, and the loop stops to tell the user (D16).
    fn abandon_redirect(&mut self) {
        if !self.state().control.redirect_requested {
            return;
        }
        self.ledger.record(Change::RedirectEnded);
        self.phase = Phase::Running;
        self.require_stop(converge::redirect_lost());
    }

    fn charge(&mut self, usage: Usage) {
        if usage != Usage::default() || !self.spending.runs.is_empty() {
            self.spending.total.agent_runs += usage.agent_runs;
            self.spending.total.mends += usage.mends;
            self.spending.total.cost_usd += usage.cost_usd.max(0.0);
            self.spending.total.tokens += usage.tokens;
            self.write_spent();
        }
    }

    fn ended(&mut self, job: JobId, outcome: JobOutcome, usage: Usage) {
        let Some(at) = self.flight.find(&job) else {
            if let Some((at, probe)) = self.flight.find_parallel_probe(&job) {
                self.parallel_probe_ended(at, probe, outcome);
            } else if self.flight.replan.as_ref().is_some_and(|replan| replan.job() == job) {
                self.replanned(job, Answer::Failed { reason: "it gave no plan".into() });
            }
            return;
        };
        if let JobOutcome::NotStarted { obstacle, reason } = &outcome {
            self.not_started(at, obstacle, reason);
            return;
        }
        if let JobOutcome::Refused { reason, retry_after } = &outcome {
            match self.settings.on_refused_start {
                OnRefusedStart::Park => {
                    self.flight.attempts[at].parked = true;
                    self.park(backoff::Waits::Provider, reason, *retry_after);
                }
                OnRefusedStart::Stop => self.stop_attempt(at, converge::rate_limited(reason), reason),
            }
            return;
        }
        if let JobOutcome::Unable { lack, reason } = &outcome {
            self.unable_to_work(at, *lack, reason, usage);
            return;
        }
        self.note_begun(&job);
        self.refused_starts = 0;
        self.flight.attempts[at].further_runs += usage.agent_runs;
        match self.flight.attempts[at].stage {
            Stage::Probing if self.flight.attempts[at].parallel_probes.is_empty() => self.probed(at, outcome),
            Stage::Probing => self.selected_choice_probed(at, outcome),
            Stage::Working => self.worked(at, outcome),
            Stage::Checking => self.checked(at, outcome),
            Stage::AwaitingProbes | Stage::AwaitingRival | Stage::Landing => {}
        }
    }

    /// Ends an attempt and stops the loop: the next attempt would end for the same reason.
    pub(super) fn stop_attempt(&mut self, at: usize, stop: Stop, reason: &str) {
        let atom = self.end_attempt(at).atom;
        self.return_to_pending(atom, reason.to_owned());
        self.require_stop(stop);
    }

    fn probed(&mut self, at: usize, outcome: JobOutcome) {
        let (feasible, findings) = match outcome {
            JobOutcome::Probed { feasible, findings, cost: _ } => (feasible, Some(findings)),
            // A probe that brings nothing does not stand in the way of the work.
            JobOutcome::Done { .. }
            | JobOutcome::Failed { .. }
            | JobOutcome::TooLarge { .. }
            | JobOutcome::Refused { .. }
            | JobOutcome::Unable { .. }
            | JobOutcome::NotStarted { .. }
            | JobOutcome::Lost { .. } => (Feasibility::Feasible, None),
        };
        if feasible == Feasibility::Infeasible {
            let index = self
                .ledger
                .index(&self.flight.attempts[at].atom)
                .expect("what is in flight stands in the graph");
            let words = findings.clone().unwrap_or_default();
            if order::put_off(&mut self.ledger, index, &words).is_some() {
                self.end_attempt(at);
                self.count_result();
                return;
            }
            if plan::replans_before_work(&self.ledger, &self.dispatch_inputs(&[]), index) {
                let atom = self.end_attempt(at).atom;
                self.memory.entry(&atom).infeasible = Some(Infeasible::ToBeTold(words));
                self.return_to_pending(atom, "a probe calls it infeasible, so the plan comes first".into());
                return;
            }
        }
        self.go_to_work(at, findings);
    }

    /// Starts the worker after its probe. A loop that is stopping starts none: the atom goes back to pending instead.
    pub(super) fn go_to_work(&mut self, at: usize, findings: Option<String>) {
        let inputs = self.judgement_inputs();
        let stop =
            converge::urgent_stop(&self.ledger, &inputs).or_else(|| converge::stop(&self.ledger, &inputs));
        let stale = self.base_case == BaseCase::Stale;
        let reason = stop.map(|stop| stop.reason);
        if let Some(reason) = reason.or_else(|| stale.then(|| "the base case held".to_owned())) {
            let atom = self.end_attempt(at).atom;
            self.return_to_pending(atom, reason);
            return;
        }
        let attempt = &mut self.flight.attempts[at];
        attempt.stage = Stage::Working;
        attempt.probed = true;
        attempt.findings = findings;
        let attempt = attempt.clone();
        self.start(&attempt);
        self.count_run(&attempt.job());
    }

    fn worked(&mut self, at: usize, outcome: JobOutcome) {
        let atom = self.flight.attempts[at].atom.clone();
        match outcome {
            JobOutcome::Done { check, .. } => match self.proven(&atom, check) {
                CheckOutcome::None | CheckOutcome::Pass => self.land(at),
                CheckOutcome::Fail { reason } => self.fail(at, reason),
                CheckOutcome::Error { reason } => self.check_error(at, reason),
                CheckOutcome::Pending { reason } => self.await_person(at, reason),
            },
            JobOutcome::Failed { reason } => self.fail(at, reason),
            JobOutcome::TooLarge { reason } => {
                self.memory.entry(&atom).too_large = Some(reason.clone());
                self.fail(at, reason);
            }
            JobOutcome::Lost { reason }
            | JobOutcome::Refused { reason, .. }
            | JobOutcome::Unable { reason, .. }
            | JobOutcome::NotStarted { reason, .. } => {
                self.end_attempt(at);
                self.return_to_pending(atom, reason);
            }
            JobOutcome::Probed { .. } => self.fail(at, "it answered as a probe".into()),
        }
    }

    /// A check that the atom has and nobody ran is no pass (D22).
    fn proven(&self, atom: &AtomId, check: CheckOutcome) -> CheckOutcome {
        if check == CheckOutcome::None && self.state().atoms[atom].check.is_some() {
            return CheckOutcome::Error { reason: "its check was not run".into() };
        }
        check
    }

    fn checked(&mut self, at: usize, outcome: JobOutcome) {
        let atom = self.flight.attempts[at].atom.clone();
        match outcome {
            JobOutcome::Done { check: CheckOutcome::Pass, .. } => {
                self.end_attempt(at);
                let index = self.ledger.index(&atom).expect("what is in flight stands in the graph");
                advance::resolve_parent(&mut self.ledger, index);
                advance::resolve_parents(&mut self.ledger, index);
                self.resolved(&atom);
            }
            JobOutcome::Done { check: CheckOutcome::Fail { reason }, .. } => self.fail(at, reason),
            JobOutcome::Done { check: CheckOutcome::Pending { reason }, .. } => self.await_person(at, reason),
            JobOutcome::Done { check: CheckOutcome::Error { reason }, .. }
            | JobOutcome::Failed { reason } => {
                self.check_error(at, reason);
            }
            JobOutcome::Done { check: CheckOutcome::None, .. }
            | JobOutcome::Probed { .. }
            | JobOutcome::TooLarge { .. } => self.check_error(at, "its check was not run".into()),
            JobOutcome::Lost { reason }
            | JobOutcome::Refused { reason, .. }
            | JobOutcome::Unable { reason, .. }
            | JobOutcome::NotStarted { reason, .. } => {
                self.end_attempt(at);
                self.return_to_pending(atom, reason);
            }
        }
    }

    /// Asks to land, or waits while another attempt of the same race lands (D25).
    fn land(&mut self, at: usize) {
        let rival_lands = self.rivals(at).any(|rival| self.flight.attempts[rival].stage == Stage::Landing);
        let attempt = &mut self.flight.attempts[at];
        if rival_lands {
            attempt.stage = Stage::AwaitingRival;
        } else {
            attempt.stage = Stage::Landing;
            self.effects.push(Effect::Land(attempt.job()));
        }
    }

    /// Attempts on other choices of the same group.
    fn rivals(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let group = |at: usize| {
            let index = self.ledger.index(&self.flight.attempts[at].atom).ok()?;
            self.ledger.graph().group_of(index)
        };
        let ours = group(at);
        let others = if ours.is_some() { 0..self.flight.attempts.len() } else { 0..0 };
        others.filter(move |other| *other != at && group(*other) == ours)
    }

    fn landed(&mut self, job: JobId, binding: Binding) {
        // When a host's command died between a landing and its record, the next one finds the commit.
        let found = self.settings.dispatch == Dispatch::OnRequest;
        let lands = |at: &usize| match self.flight.attempts[*at].stage {
            Stage::Landing => true,
            Stage::Working => found,
            Stage::Probing | Stage::AwaitingProbes | Stage::Checking | Stage::AwaitingRival => false,
        };
        let at = self.flight.find(&job).filter(lands);
        let Some(at) = at else {
            // A landing that was not asked for, or is not wanted any more, is reverted (D23).
            if let (Some(atom), Some(commit)) = (job.task.atom().cloned(), binding.commit) {
                self.effects.push(Effect::Revert { atom, commit });
            }
            return;
        };
        let atom = self.end_attempt(at).atom;
        let commit = binding.commit.clone();
        match advance::resolve(&mut self.ledger, &atom, binding, Proof::Seen) {
            Ok(()) => self.resolved(&atom),
            Err(refusal) => {
                if let Some(commit) = commit {
                    self.effects.push(Effect::Revert { atom: atom.clone(), commit });
                }
                self.return_to_pending(atom, refusal.to_string());
            }
        }
    }

    fn resolved(&mut self, atom: &AtomId) {
        self.memory.forget(Forget::Resolved(atom));
        self.base_case.landed();
        self.evaluations.outdated = true;
        self.count_result();
        converge::resolved(&mut self.ledger);
    }

    pub(super) fn conflict(&mut self, job: JobId, reason: String) {
        let at = self.flight.find(&job).filter(|at| self.flight.attempts[*at].stage == Stage::Landing);
        let Some(at) = at else { return };
        self.land_next_rival(at);
        let atom = self.end_attempt(at).atom;
        self.return_to_pending(atom, reason);
    }

    /// Of a race, the next that is done may land instead of this one.
    pub(super) fn land_next_rival(&mut self, at: usize) {
        let rival = self.rivals(at).find(|rival| self.flight.attempts[*rival].stage == Stage::AwaitingRival);
        if let Some(rival) = rival {
            self.flight.attempts[rival].stage = Stage::Landing;
            self.effects.push(Effect::Land(self.flight.attempts[rival].job()));
        }
    }

    /// Back to pending without a failure (D10).
    pub(super) fn return_to_pending(&mut self, atom: AtomId, reason: String) {
        self.memory.entry(&atom).return_reason = Some(reason.clone());
        self.ledger.record(Change::AtomReturned { atom, reason });
        self.count_result();
    }

    fn fail(&mut self, at: usize, reason: String) {
        let atom = self.end_attempt(at).atom;
        self.memory.forget(Forget::Failed(&atom));
        if backtrack::is_same_as_before(&self.ledger, &atom, &reason) {
            self.memory.entry(&atom).fails_the_same = true;
        }
        backtrack::failed(&mut self.ledger, &atom, &reason).expect("what is in flight is in progress");
        self.count_result();
    }

    fn check_error(&mut self, at: usize, reason: String) {
        let atom = self.flight.attempts[at].atom.clone();
        let memory = self.memory.entry(&atom);
        memory.check_errors += 1;
        if memory.check_errors >= MAX_CHECK_ERRORS {
            return self.await_person(at, reason);
        }
        self.end_attempt(at);
        self.return_to_pending(atom, reason);
    }

    fn await_person(&mut self, at: usize, reason: String) {
        let atom = self.end_attempt(at).atom;
        self.memory.entry(&atom).awaiting_person = Some(format!("{atom}: {reason}"));
        self.return_to_pending(atom, reason);
    }

    fn verified(&mut self, evaluation: Evaluation) {
        let base_case = match evaluation {
            Evaluation::Lost { reason } => return self.evaluation_lost(reason),
            // The loop goes on as if it had not looked.
            Evaluation::Passed if evaluate::is_more_wanted(&self.ledger) => {
                self.evaluations.red.clear();
                BaseCase::Unknown
            }
            Evaluation::Passed => BaseCase::Holds,
            Evaluation::Failed { red } => {
                if self.ledger.frontier().unresolved() == 0 {
                    evaluate::count_red(&mut self.ledger, red.len());
                }
                BaseCase::Red { checks: red, plan: PlanState::NotAsked }
            }
            Evaluation::Pending { items } | Evaluation::Error { items } => {
                BaseCase::Waiting { items, blocked_by: Blocker::Checks }
            }
            Evaluation::Prevented { reason } => {
                let items = vec![RedCheck { item: WORKING_TREE.into(), kind: None, reason }];
                BaseCase::Waiting { items, blocked_by: Blocker::UncommittedWork }
            }
        };
        self.evaluations.lost = 0;
        let now = self.ledger.now();
        self.evaluations.last = self.evaluations.last.map(|look| Look { ended: Some(now), ..look });
        if let BaseCase::Red { checks: red, .. } | BaseCase::Waiting { items: red, .. } = &base_case {
            self.evaluations.red = red.clone();
        }
        self.base_case = base_case;
    }

    /// The cause of a lost evaluation may go away: the evaluation is repeated after a wait, and not for ever (D12).
    fn evaluation_lost(&mut self, reason: String) {
        self.evaluations.evaluated_in = None;
        self.evaluations.lost += 1;
        let gives_up = match self.settings.on_refused_start {
            OnRefusedStart::Park => self.evaluations.lost >= MAX_LOST_EVALUATIONS,
            OnRefusedStart::Stop => true,
        };
        if gives_up {
            self.base_case = BaseCase::Unevaluable { reason };
            return;
        }
        self.base_case = BaseCase::Due;
        let why = format!("the checks could not be run: {reason}");
        backoff::park(&mut self.ledger, backoff::Waits::World, self.evaluations.lost - 1, &why, None);
        self.spending.unwritten = true;
    }

    fn replanned(&mut self, job: JobId, answer: Answer) {
        let asked = self.flight.replan.take_if(|replan| replan.job() == job);
        let Some(mut replan) = asked else { return };
        match answer {
            Answer::Refused { reason, retry_after: _ }
                if self.settings.on_refused_start == OnRefusedStart::Stop =>
            {
                self.require_stop(converge::rate_limited(&reason));
                return;
            }
            Answer::Refused { reason, retry_after } => {
                replan.parked = true;
                self.flight.replan = Some(replan);
                self.park(backoff::Waits::Provider, &reason, retry_after);
                return;
            }
            Answer::NotStarted { obstacle, reason } => {
                return self.replan_not_started(replan, &obstacle, &reason);
            }
            Answer::Unable { lack, reason } => return self.unable_to_replan(&replan, lack, &reason),
            Answer::Failed { reason } => self.remember_refusal(reason),
            Answer::Plan(change) => self.replan(change, &replan.why),
        }
        self.note_begun(&job);
        self.refused_starts = 0;
        self.replans.just_answered = true;
    }

    fn replan(&mut self, change: PlanChange, why: &[ReplanReason]) {
        let for_red = why.iter().any(|why| matches!(why, ReplanReason::Red { .. }));
        if !change.is_empty() {
            let mut trial = self.ledger.clone();
            match replan::replan(&mut trial, change) {
                Ok(()) => {
                    self.ledger = trial;
                    self.replans.refusals.clear();
                    for atom in plan::atoms_to_replan(why) {
                        self.memory.forget(Forget::Replanned(&atom));
                    }
                    self.drop_stale_attempts();
                }
                Err(refusal) => {
                    self.ledger.record(Change::PlanRefused { reason: refusal.to_string() });
                    return self.remember_refusal(refusal.to_string());
                }
            }
        }
        if let BaseCase::Red { plan, .. } = &mut self.base_case
            && for_red
            && self.ledger.frontier().unresolved() == 0
        {
            *plan = PlanState::CameBackEmpty;
        }
    }

    fn remember_refusal(&mut self, reason: String) {
        self.replans.refusals.insert(0, reason);
        self.replans.refusals.truncate(REFUSALS_KEPT);
    }
}
