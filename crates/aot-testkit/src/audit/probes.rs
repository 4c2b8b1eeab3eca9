//! What must hold of probes, and of the parallel probes that order the choices left of a stuck group (D10). Follows
//! them by the jobs alone, and computes the right order by itself.

use std::collections::{BTreeMap, HashSet};

use aot_core::coordinator::{Answer, Event, Feasibility, Job, JobId, JobOutcome, ReplanReason, Task};
use aot_core::rules::Change;
use aot_core::rules::order::Cost;
use aot_core::state::{AtomId, AtomStatus, Graph, GroupName, SelectionCause, State, TrailEntry};

use super::{Arrival, Checked, Violation, ensure, failed_atom, failures};
use crate::world::World;

/// What kind of start a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// Begins an attempt, or a replan.
    Attempt,
    /// The work after its probe.
    WorkAfterProbe,
    /// A probe of another choice beside the probe of the selected one.
    ParallelProbe,
}

/// The probe of a selected choice, and those of the choices beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParallelProbes {
    group: GroupName,
    selected: AtomId,
    attempt: u32,
    pending: Vec<AtomId>,
    findings: BTreeMap<AtomId, Finding>,
    /// Some were killed, so there is no order to expect.
    incomplete: bool,
}

/// A probe's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    feasible: Feasibility,
    cost: Option<Cost>,
    findings: String,
}

/// What one event has brought so far.
#[derive(Clone, Debug, Default)]
struct ProbeEvent {
    edited: bool,
    /// Selected choices whose probes were started.
    begun: Vec<AtomId>,
    /// Groups one of whose choices failed.
    failed: Vec<GroupName>,
    /// Groups of which all probes have answered.
    answered: Vec<GroupName>,
    /// Atoms that have another plan, unless it is refused.
    replanned: Vec<AtomId>,
}

#[derive(Clone, Debug, Default)]
pub struct ProbeAudit {
    groups: Vec<ParallelProbes>,
    parallel: HashSet<JobId>,
    /// Probes of attempts that may still lead to the work.
    probed: HashSet<JobId>,
    /// What those probes answered.
    own_findings: BTreeMap<(AtomId, u32), String>,
    /// What parallel probes found, until the choice has failed or is resolved.
    findings: BTreeMap<AtomId, Finding>,
    /// What probes found of atoms that they call infeasible, since somebody was asked for another plan.
    told: BTreeMap<AtomId, String>,
    /// What each replan was about.
    replans: BTreeMap<u32, Vec<AtomId>>,
    current: ProbeEvent,
    /// Groups that were ordered so far.
    orders: u64,
}

impl ProbeAudit {
    pub fn orders(&self) -> u64 {
        self.orders
    }

    /// What later judgements depend on.
    pub fn memory(&self) -> impl std::fmt::Debug + use<> {
        (self.groups.clone(), self.own_findings.clone(), self.findings.clone(), self.told.clone())
    }

    pub fn is_parallel(&self, id: &JobId) -> bool {
        self.parallel.contains(id)
    }

    /// Attempts that wait for parallel probes; their own may be over.
    pub fn awaited(&self) -> impl Iterator<Item = (AtomId, u32)> + '_ {
        let open = self.groups.iter().filter(|group| !group.pending.is_empty());
        open.map(|group| (group.selected.clone(), group.attempt))
    }

    /// A new process remembers no probes.
    pub fn crashed(&mut self) {
        let parallel = std::mem::take(&mut self.parallel);
        *self = ProbeAudit { parallel, orders: self.orders, ..ProbeAudit::default() };
    }

    pub fn before_event(&mut self, event: &Event, arrival: Arrival) {
        self.current = ProbeEvent { edited: matches!(event, Event::Edited { .. }), ..ProbeEvent::default() };
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            self.findings.clear();
            self.told.clear();
        }
        if let (Event::Replanned { job, answer: Answer::Plan(change), .. }, Arrival::Expected) =
            (event, arrival)
            && !change.is_empty()
        {
            self.current.replanned = self.replans.get(&job.attempt).cloned().unwrap_or_default();
        }
        let Event::Ended { job, outcome, .. } = event else { return };
        if arrival == Arrival::Late {
            return;
        }
        if let Some(atom) = failed_atom(event) {
            self.findings.remove(atom);
            self.told.remove(atom);
        }
        let Task::Probe(atom) = &job.task else { return };
        let refused = matches!(outcome, JobOutcome::Refused { .. } | JobOutcome::NotStarted { .. });
        if refused && !self.is_parallel(job) {
            // It starts again.
            return;
        }
        let answer = match outcome {
            JobOutcome::Probed { feasible, findings, cost } => {
                Some(Finding { feasible: *feasible, cost: *cost, findings: findings.clone() })
            }
            JobOutcome::Done { .. }
            | JobOutcome::Failed { .. }
            | JobOutcome::TooLarge { .. }
            | JobOutcome::Refused { .. }
            | JobOutcome::Unable { .. }
            | JobOutcome::NotStarted { .. }
            | JobOutcome::Lost { .. } => None,
        };
        if let (Some(finding), false) = (&answer, self.is_parallel(job)) {
            self.own_findings.insert((atom.clone(), job.attempt), finding.findings.clone());
        }
        let asked =
            |group: &&mut ParallelProbes| group.attempt == job.attempt && group.pending.contains(atom);
        let Some(group) = self.groups.iter_mut().find(asked) else { return };
        group.pending.retain(|pending| pending != atom);
        group.findings.extend(answer.map(|finding| (atom.clone(), finding)));
        // A missing login ends the attempt, and with it the probes beside it.
        let ended = matches!(outcome, JobOutcome::Unable { .. }) && group.selected == *atom;
        if group.pending.is_empty() && !ended {
            self.findings.extend(group.findings.clone());
            self.current.answered.extend((!group.incomplete).then(|| group.group.clone()));
        }
    }

    pub fn before_change(&mut self, change: &Change, event: &Event) -> Checked {
        match change {
            Change::AtomResolved { atom, .. } => {
                self.findings.remove(atom);
                self.told.remove(atom);
            }
            Change::PlanRefused { .. } => self.current.replanned.clear(),
            // Nobody was asked after all.
            Change::IterationTakenBack => {
                if let Event::Replanned { job, .. } = event {
                    let atoms = self.replans.get(&job.attempt).into_iter().flatten();
                    atoms.for_each(|atom| drop(self.told.remove(atom)));
                }
            }
            Change::ChoiceFailed { group, .. } => {
                self.current.failed.push(group.clone());
            }
            _ => {}
        }
        let by_probe = matches!(event, Event::Ended { job: JobId { task: Task::Probe(_), .. }, .. })
            && !self.current.edited;
        let failed = matches!(change, Change::FailureNoted { .. });
        ensure(!(by_probe && failed), "a probe fails no atom", "D10", || format!("{change:?}"))
    }

    /// Before a job starts, or comes again after its start was refused.
    pub fn asks(&mut self, job: &Job) {
        self.forget_replanned();
        if job.id.task != Task::Replan {
            return;
        }
        let about = job.why.iter().filter_map(|why| match why {
            ReplanReason::Failing { atom }
            | ReplanReason::TooLarge { atom, .. }
            | ReplanReason::Infeasible { atom, .. } => Some(atom.clone()),
            ReplanReason::Stalling | ReplanReason::Red { .. } => None,
        });
        self.replans.insert(job.id.attempt, about.collect());
        for why in &job.why {
            if let ReplanReason::Infeasible { atom, findings } = why {
                self.told.insert(atom.clone(), findings.clone());
            }
        }
    }

    fn forget_replanned(&mut self) {
        for atom in std::mem::take(&mut self.current.replanned) {
            self.told.remove(&atom);
        }
    }

    /// Before a job starts.
    pub fn starts(&mut self, state: &State, graph: &Graph, job: &Job) -> Result<StartKind, Violation> {
        let id = &job.id;
        match &id.task {
            Task::Check(_) | Task::Replan => Ok(StartKind::Attempt),
            Task::Work(atom) => {
                let probe = JobId { task: Task::Probe(atom.clone()), attempt: id.attempt };
                let own_findings = self.own_findings.remove(&(atom.clone(), id.attempt));
                let second = self.probed.remove(&probe);
                let expected = own_findings
                    .as_ref()
                    .or_else(|| self.findings.get(atom).map(|finding| &finding.findings))
                    .or_else(|| self.told.get(atom));
                ensure(
                    job.findings.as_ref() == expected,
                    "the work is given what probes found",
                    "D10",
                    || format!("{atom}: {:?}, not {expected:?}", job.findings),
                )?;
                Ok(if second { StartKind::WorkAfterProbe } else { StartKind::Attempt })
            }
            Task::Probe(atom) => {
                let index = state.atoms.get_index_of(atom).expect("what is probed exists");
                ensure(!self.findings.contains_key(atom), "no choice is probed twice", "D10", || {
                    format!("{atom}")
                })?;
                ensure(
                    !self.told.contains_key(atom),
                    "what a probe called infeasible is not probed again while its plan stays",
                    "D11",
                    || format!("{atom}"),
                )?;
                if state.atoms[index].status == AtomStatus::InProgress {
                    probe_has_a_reason(state, graph, index)?;
                    self.current.begun.push(atom.clone());
                    self.probed.insert(id.clone());
                    return Ok(StartKind::Attempt);
                }
                self.starts_beside(state, graph, index, id)?;
                Ok(StartKind::ParallelProbe)
            }
        }
    }

    fn starts_beside(&mut self, state: &State, graph: &Graph, index: usize, id: &JobId) -> Checked {
        let atom = &state.atoms[index].id;
        let (name, entry) = graph
            .group_of(index)
            .and_then(|group| state.or_groups.get_index(group))
            .ok_or_else(|| Violation::new("only choices are probed in parallel", "D10", format!("{atom}")))?;
        let beside = self.current.begun.contains(&entry.selected)
            && state.control.attempts.get(&entry.selected) == Some(&id.attempt);
        ensure(beside, "a parallel probe runs beside the probe of the selected choice", "D10", || {
            format!("{atom}")
        })?;
        ensure(is_stuck(state, name), "only a stuck group is probed in parallel", "D10", || {
            format!("{name}")
        })?;
        ensure(may_be_probed(state, graph, index), "only what could be worked on is probed", "D10", || {
            format!("{atom}")
        })?;
        self.parallel.insert(id.clone());
        let group = self.groups.iter_mut().find(|group| group.group == *name);
        match group {
            Some(group) if group.attempt == id.attempt => group.pending.push(atom.clone()),
            Some(_) | None => {
                self.groups.retain(|group| group.group != *name);
                self.groups.push(ParallelProbes {
                    group: name.clone(),
                    selected: entry.selected.clone(),
                    attempt: id.attempt,
                    pending: vec![entry.selected.clone(), atom.clone()],
                    findings: BTreeMap::new(),
                    incomplete: false,
                });
            }
        }
        Ok(())
    }

    /// A parallel probe is killed with its attempt, or because an edit took its choice away.
    pub fn killed(&mut self, id: &JobId) {
        let Some(atom) = id.task.atom().filter(|_| self.is_parallel(id)) else { return };
        let asked = |group: &&mut ParallelProbes| group.attempt == id.attempt && group.pending.contains(atom);
        let Some(group) = self.groups.iter_mut().find(asked) else { return };
        group.pending.retain(|pending| pending != atom);
        group.incomplete |= !self.current.edited;
        if group.pending.is_empty() {
            self.findings.extend(group.findings.clone());
        }
    }

    /// After all effects of an event: `room` is there for more.
    pub fn after_event(&mut self, world: &World, graph: &Graph, room: bool) -> Checked {
        let state = world.recorded();
        self.forget_replanned();
        for group in &self.current.answered {
            self.is_in_order(state, group)?;
        }
        self.orders += self.current.answered.len() as u64;
        self.groups.retain(|group| {
            let selected = state.atoms.get(&group.selected);
            !group.pending.is_empty()
                && selected.is_some_and(|atom| atom.status == AtomStatus::InProgress)
                && state.control.attempts.get(&group.selected) == Some(&group.attempt)
        });
        let under_way = |atom: &AtomId, attempt: u32| state.control.attempts.get(atom) == Some(&attempt);
        self.own_findings.retain(|(atom, attempt), _| under_way(atom, *attempt));
        self.probed.retain(|id| id.task.atom().is_some_and(|atom| under_way(atom, id.attempt)));
        let runs = |atom: &AtomId, attempt: u32| {
            let id = JobId { task: Task::Probe(atom.clone()), attempt };
            world.flight(&id).is_some()
        };
        let awaited = |id: &JobId| {
            let of_it = |group: &ParallelProbes| {
                group.attempt == id.attempt && id.task.atom().is_some_and(|atom| group.pending.contains(atom))
            };
            self.groups.iter().any(of_it)
        };
        let mut parallel =
            world.flights().iter().map(|flight| &flight.job.id).filter(|id| self.is_parallel(id));
        let astray = parallel.find(|id| !awaited(id));
        ensure(astray.is_none(), "a parallel probe ends with its attempt", "D10", || format!("{astray:?}"))?;
        for group in &self.groups {
            let lost = group.pending.iter().find(|atom| !runs(atom, group.attempt));
            ensure(lost.is_none(), "an awaited probe runs", "D10", || format!("{group:?}"))?;
        }
        self.probes_all_that_fit(state, graph, room)
    }

    fn probes_all_that_fit(&self, state: &State, graph: &Graph, room: bool) -> Checked {
        for selected in self.current.begun.iter().filter(|_| room) {
            let Some(index) = state.atoms.get_index_of(selected) else { continue };
            let group = graph.group_of(index).and_then(|group| state.or_groups.get_index(group));
            let Some((name, entry)) = group.filter(|(name, _)| is_stuck(state, name)) else { continue };
            let started = |atom: &AtomId| {
                let open = state.control.open.as_ref();
                open.is_some_and(|open| open.started.contains(atom))
            };
            let probed = |atom: &&AtomId| {
                self.findings.contains_key(*atom)
                    || self.groups.iter().any(|group| group.group == *name && group.pending.contains(atom))
            };
            let missed =
                entry.choices.iter().filter(|choice| !probed(choice) && !started(choice)).find(|choice| {
                    let index = state.atoms.get_index_of(*choice);
                    index.is_some_and(|index| may_be_probed(state, graph, index))
                });
            ensure(missed.is_none(), "as many choices are probed as there is room for", "D10", || {
                format!("{missed:?} beside {selected}")
            })?;
        }
        Ok(())
    }

    /// The cheapest feasible choice comes first.
    fn is_in_order(&self, state: &State, group: &GroupName) -> Checked {
        let Some(entry) = state.or_groups.get(group) else { return Ok(()) };
        if self.current.failed.contains(group) || entry.is_speculative() {
            return Ok(());
        }
        let left: Vec<&AtomId> =
            entry.choices.iter().filter(|choice| !entry.failed.contains(choice)).collect();
        let weight = |choice: &AtomId| match self.findings.get(choice) {
            Some(Finding { feasible: Feasibility::Feasible, cost: Some(cost), .. }) => 1 + *cost as u32,
            Some(Finding { feasible: Feasibility::Feasible, cost: None, .. }) => 10,
            None if state.atoms.contains_key(choice) => 20,
            None => 30,
            Some(Finding { feasible: Feasibility::Infeasible, .. }) => 40,
        };
        let sorted = left.windows(2).all(|pair| weight(pair[0]) <= weight(pair[1]));
        let best = left.first().is_some_and(|best| **best == entry.selected);
        ensure(sorted && best, "the cheapest feasible choice goes first", "D10", || {
            format!("{left:?} with {} selected, after {:?}", entry.selected, self.findings)
        })
    }
}

/// Two choices have failed, two are left, and the group came to the selected one by a failure, or by a probe that called
/// the one before infeasible and left others to probe.
fn is_stuck(state: &State, name: &GroupName) -> bool {
    let entry = &state.or_groups[name];
    let mut trail = state.trail.iter().rev().filter_map(|entry| match entry {
        TrailEntry::Selection { or_group, cause, .. } if or_group == name => Some(cause.as_ref()),
        _ => None,
    });
    let left = entry.choices.len() - entry.failed.len();
    let infeasible =
        trail.clone().take_while(|cause| *cause == Some(&SelectionCause::ProbedInfeasible)).count();
    let by_failure =
        trail.nth(infeasible).is_none_or(|cause| cause.is_some_and(|cause| cause.failure().is_some()));
    let fits =
        entry.failed.len() >= 2 && left >= 2 && infeasible + 1 < left && entry.speculative != Some(true);
    fits && (infeasible > 0 || by_failure)
}

fn may_be_probed(state: &State, graph: &Graph, index: usize) -> bool {
    let atom = &state.atoms[index];
    let entry = graph.group_of(index).and_then(|group| state.or_groups.get_index(group));
    atom.status == AtomStatus::Pending
        && atom.run.is_none()
        && !graph.is_decomposed(index)
        && graph.waits_on(state, index).is_none()
        && entry.is_some_and(|(_, entry)| entry.selected != atom.id && !entry.failed.contains(&atom.id))
}

/// The atom asks for a probe, has failed twice, or is a choice of a stuck group.
fn probe_has_a_reason(state: &State, graph: &Graph, index: usize) -> Checked {
    let atom = &state.atoms[index];
    let failed = failures(state, &atom.id);
    let group = graph.group_of(index).and_then(|group| state.or_groups.get_index(group));
    let reason = failed >= 2
        || (failed == 0 && atom.probe == Some(true))
        || group.is_some_and(|(name, _)| is_stuck(state, name));
    ensure(reason, "a probe has a reason", "D10, D11", || format!("{}", atom.id))
}
