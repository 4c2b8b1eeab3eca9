//! What must hold of probes, and of looks at the choices that are left of a stuck group (decision D10). A part of the
//! audit: it follows each survey by the jobs alone, and has its own idea of the order.

use std::collections::{BTreeMap, HashSet};

use aot_core::coordinator::{Event, Feasibility, Job, JobId, Outcome, Task};
use aot_core::rules::Change;
use aot_core::rules::order::Cost;
use aot_core::state::{AtomId, AtomStatus, Graph, GroupName, State, TrailEntry};

use crate::audit::{Breach, Held, Word, failed_atom, failures, hold};
use crate::world::World;

/// What a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of an attempt, or of a replan.
    First,
    /// The work after its probe.
    Second,
    /// A look beside the probe of a selected choice.
    Scout,
}

/// The selected choice is probed, and others beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Survey {
    group: GroupName,
    selected: AtomId,
    attempt: u32,
    out: Vec<AtomId>,
    seen: BTreeMap<AtomId, Saw>,
    /// Some were called back, and who knows what became of the rest.
    cut: bool,
}

/// A probe's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Saw {
    feasible: Feasibility,
    cost: Option<Cost>,
    findings: String,
}

/// What one event has brought so far.
#[derive(Clone, Debug, Default)]
struct Step {
    edited: bool,
    /// Selected choices whose probes began.
    begun: Vec<AtomId>,
    /// Groups one of whose choices failed.
    burnt: Vec<GroupName>,
    /// Groups of which all that were asked have answered.
    answered: Vec<GroupName>,
}

#[derive(Clone, Debug, Default)]
pub struct Looks {
    surveys: Vec<Survey>,
    scouts: HashSet<JobId>,
    /// Probes of attempts that may still lead to the work.
    probed: HashSet<JobId>,
    /// What they said.
    said: BTreeMap<(AtomId, u32), String>,
    /// What surveys saw, as long as it counts.
    seen: BTreeMap<AtomId, Saw>,
    step: Step,
    /// Groups that were put in order so far.
    orders: u64,
}

impl Looks {
    pub fn orders(&self) -> u64 {
        self.orders
    }

    /// What later judgements depend on.
    pub fn memory(&self) -> impl std::fmt::Debug + use<> {
        (self.surveys.clone(), self.said.clone(), self.seen.clone())
    }

    pub fn is_scout(&self, id: &JobId) -> bool {
        self.scouts.contains(id)
    }

    /// The attempt whose own probe may be over, while others are still awaited.
    pub fn awaited(&self) -> impl Iterator<Item = (AtomId, u32)> + '_ {
        let open = self.surveys.iter().filter(|survey| !survey.out.is_empty());
        open.map(|survey| (survey.selected.clone(), survey.attempt))
    }

    /// A new process knows nothing of it.
    pub fn crashed(&mut self) {
        let scouts = std::mem::take(&mut self.scouts);
        *self = Looks { scouts, orders: self.orders, ..Looks::default() };
    }

    pub fn hear(&mut self, event: &Event, word: Word) {
        self.step = Step { edited: matches!(event, Event::Edited { .. }), ..Step::default() };
        if matches!(event, Event::Edited { .. } | Event::Redirected { .. }) {
            self.seen.clear();
        }
        let Event::Ended { job, outcome, .. } = event else { return };
        if word == Word::Late {
            return;
        }
        if let Some(atom) = failed_atom(event) {
            self.seen.remove(atom);
        }
        let Task::Probe(atom) = &job.task else { return };
        let refused = matches!(outcome, Outcome::Refused { .. });
        if refused && !self.is_scout(job) {
            // It is parked, and asked again.
            return;
        }
        let answer = match outcome {
            Outcome::Probed { feasible, findings, cost } => {
                Some(Saw { feasible: *feasible, cost: *cost, findings: findings.clone() })
            }
            Outcome::Done { .. }
            | Outcome::Failed { .. }
            | Outcome::TooLarge { .. }
            | Outcome::Refused { .. }
            | Outcome::NotLoggedIn { .. }
            | Outcome::Lost { .. } => None,
        };
        if let (Some(saw), false) = (&answer, self.is_scout(job)) {
            self.said.insert((atom.clone(), job.attempt), saw.findings.clone());
        }
        let asked = |survey: &&mut Survey| survey.attempt == job.attempt && survey.out.contains(atom);
        let Some(survey) = self.surveys.iter_mut().find(asked) else { return };
        survey.out.retain(|out| out != atom);
        survey.seen.extend(answer.map(|saw| (atom.clone(), saw)));
        // Whoever is logged out ends the attempt, and with it the survey.
        let ended = matches!(outcome, Outcome::NotLoggedIn { .. }) && survey.selected == *atom;
        if survey.out.is_empty() && !ended {
            self.seen.extend(survey.seen.clone());
            self.step.answered.extend((!survey.cut).then(|| survey.group.clone()));
        }
    }

    pub fn change(&mut self, change: &Change, event: &Event) -> Held {
        match change {
            Change::AtomResolved { atom, .. } => {
                self.seen.remove(atom);
            }
            Change::ChoiceFailed { group, .. } => {
                self.step.burnt.push(group.clone());
            }
            _ => {}
        }
        let by_probe = matches!(event, Event::Ended { job: JobId { task: Task::Probe(_), .. }, .. })
            && !self.step.edited;
        let failed = matches!(change, Change::FailureNoted { .. });
        hold(!(by_probe && failed), "a probe fails nobody", "D10", || format!("{change:?}"))
    }

    /// Before a job starts.
    pub fn starts(&mut self, state: &State, graph: &Graph, job: &Job) -> Result<Kind, Breach> {
        let id = &job.id;
        match &id.task {
            Task::Check(_) | Task::Replan => Ok(Kind::First),
            Task::Work(atom) => {
                let probe = JobId { task: Task::Probe(atom.clone()), attempt: id.attempt };
                let said = self.said.remove(&(atom.clone(), id.attempt));
                let second = self.probed.remove(&probe);
                let expected = said.as_ref().or_else(|| self.seen.get(atom).map(|saw| &saw.findings));
                hold(job.findings.as_ref() == expected, "the work is told what probes found", "D10", || {
                    format!("{atom}: {:?}, not {expected:?}", job.findings)
                })?;
                Ok(if second { Kind::Second } else { Kind::First })
            }
            Task::Probe(atom) => {
                let index = state.atoms.get_index_of(atom).expect("what is probed exists");
                hold(!self.seen.contains_key(atom), "nobody is looked at twice", "D10", || {
                    format!("{atom}")
                })?;
                if state.atoms[index].status == AtomStatus::InProgress {
                    has_a_reason(state, graph, index)?;
                    self.step.begun.push(atom.clone());
                    self.probed.insert(id.clone());
                    return Ok(Kind::First);
                }
                self.looks_beside(state, graph, index, id)?;
                Ok(Kind::Scout)
            }
        }
    }

    fn looks_beside(&mut self, state: &State, graph: &Graph, index: usize, id: &JobId) -> Held {
        let atom = &state.atoms[index].id;
        let (name, entry) = graph
            .group_of(index)
            .and_then(|group| state.or_groups.get_index(group))
            .ok_or_else(|| Breach::new("only choices are looked at", "D10", format!("{atom}")))?;
        let beside = self.step.begun.contains(&entry.selected)
            && state.control.attempts.get(&entry.selected) == Some(&id.attempt);
        hold(beside, "a look stands beside the probe of the selected choice", "D10", || format!("{atom}"))?;
        hold(is_stuck(state, name), "only a stuck group is looked at", "D10", || format!("{name}"))?;
        hold(may_be_seen(state, graph, index), "only what could be worked on is looked at", "D10", || {
            format!("{atom}")
        })?;
        self.scouts.insert(id.clone());
        let survey = self.surveys.iter_mut().find(|survey| survey.group == *name);
        match survey {
            Some(survey) if survey.attempt == id.attempt => survey.out.push(atom.clone()),
            Some(_) | None => {
                self.surveys.retain(|survey| survey.group != *name);
                self.surveys.push(Survey {
                    group: name.clone(),
                    selected: entry.selected.clone(),
                    attempt: id.attempt,
                    out: vec![entry.selected.clone(), atom.clone()],
                    seen: BTreeMap::new(),
                    cut: false,
                });
            }
        }
        Ok(())
    }

    /// A scout is called back: with its survey, or because a hand took its choice away.
    pub fn killed(&mut self, id: &JobId) {
        let Some(atom) = id.task.atom().filter(|_| self.is_scout(id)) else { return };
        let asked = |survey: &&mut Survey| survey.attempt == id.attempt && survey.out.contains(atom);
        let Some(survey) = self.surveys.iter_mut().find(asked) else { return };
        survey.out.retain(|out| out != atom);
        survey.cut |= !self.step.edited;
        if survey.out.is_empty() {
            self.seen.extend(survey.seen.clone());
        }
    }

    /// After all effects of an event: `room` is there for more.
    pub fn settled(&mut self, world: &World, graph: &Graph, room: bool) -> Held {
        let state = world.recorded();
        for group in &self.step.answered {
            self.is_in_order(state, group)?;
        }
        self.orders += self.step.answered.len() as u64;
        self.surveys.retain(|survey| {
            let selected = state.atoms.get(&survey.selected);
            !survey.out.is_empty()
                && selected.is_some_and(|atom| atom.status == AtomStatus::InProgress)
                && state.control.attempts.get(&survey.selected) == Some(&survey.attempt)
        });
        let under_way = |atom: &AtomId, attempt: u32| state.control.attempts.get(atom) == Some(&attempt);
        self.said.retain(|(atom, attempt), _| under_way(atom, *attempt));
        self.probed.retain(|id| id.task.atom().is_some_and(|atom| under_way(atom, id.attempt)));
        let flies = |atom: &AtomId, attempt: u32| {
            let id = JobId { task: Task::Probe(atom.clone()), attempt };
            world.flight(&id).is_some()
        };
        let surveyed = |id: &JobId| {
            let of_it = |survey: &Survey| {
                survey.attempt == id.attempt && id.task.atom().is_some_and(|atom| survey.out.contains(atom))
            };
            self.surveys.iter().any(of_it)
        };
        let mut scouts = world.flights().iter().map(|flight| &flight.job.id).filter(|id| self.is_scout(id));
        let astray = scouts.find(|id| !surveyed(id));
        hold(astray.is_none(), "a look ends with the attempt it belongs to", "D10", || {
            format!("{astray:?}")
        })?;
        for survey in &self.surveys {
            let lost = survey.out.iter().find(|atom| !flies(atom, survey.attempt));
            hold(lost.is_none(), "who is awaited is on the way", "D10", || format!("{survey:?}"))?;
        }
        self.looks_at_all_that_fit(state, graph, room)
    }

    fn looks_at_all_that_fit(&self, state: &State, graph: &Graph, room: bool) -> Held {
        for selected in self.step.begun.iter().filter(|_| room) {
            let Some(index) = state.atoms.get_index_of(selected) else { continue };
            let group = graph.group_of(index).and_then(|group| state.or_groups.get_index(group));
            let Some((name, entry)) = group.filter(|(name, _)| is_stuck(state, name)) else { continue };
            let started = |atom: &AtomId| {
                let open = state.control.open.as_ref();
                open.is_some_and(|open| open.started.contains(atom))
            };
            let seen = |atom: &&AtomId| {
                self.seen.contains_key(*atom)
                    || self.surveys.iter().any(|survey| survey.group == *name && survey.out.contains(atom))
            };
            let unseen =
                entry.choices.iter().filter(|choice| !seen(choice) && !started(choice)).find(|choice| {
                    let index = state.atoms.get_index_of(*choice);
                    index.is_some_and(|index| may_be_seen(state, graph, index))
                });
            hold(unseen.is_none(), "as many are looked at as there is room for", "D10", || {
                format!("{unseen:?} beside {selected}")
            })?;
        }
        Ok(())
    }

    /// The cheapest feasible choice first, and nobody failed by it.
    fn is_in_order(&self, state: &State, group: &GroupName) -> Held {
        let Some(entry) = state.or_groups.get(group) else { return Ok(()) };
        if self.step.burnt.contains(group) || entry.is_speculative() {
            return Ok(());
        }
        let left: Vec<&AtomId> =
            entry.choices.iter().filter(|choice| !entry.failed.contains(choice)).collect();
        let weight = |choice: &AtomId| match self.seen.get(choice) {
            Some(Saw { feasible: Feasibility::Feasible, cost: Some(cost), .. }) => 1 + *cost as u32,
            Some(Saw { feasible: Feasibility::Feasible, cost: None, .. }) => 10,
            None if state.atoms.contains_key(choice) => 20,
            None => 30,
            Some(Saw { feasible: Feasibility::Infeasible, .. }) => 40,
        };
        let sorted = left.windows(2).all(|pair| weight(pair[0]) <= weight(pair[1]));
        let best = left.first().is_some_and(|best| **best == entry.selected);
        hold(sorted && best, "the cheapest feasible choice goes first", "D10", || {
            format!("{left:?} with {} selected, after {:?}", entry.selected, self.seen)
        })
    }
}

/// Two have failed, two are left, and the group came to the selected one by a failure, or by a probe's no that leaves
/// others to be asked.
fn is_stuck(state: &State, name: &GroupName) -> bool {
    let entry = &state.or_groups[name];
    let mut trail = state.trail.iter().rev().filter_map(|entry| match entry {
        TrailEntry::Selection { or_group, reason, .. } if or_group == name => Some(reason.as_str()),
        _ => None,
    });
    let left = entry.choices.len() - entry.failed.len();
    let said_no = trail.clone().take_while(|reason| reason.starts_with("Probe: ")).count();
    let by_failure = trail.nth(said_no).is_none_or(|reason| reason.starts_with("Auto-backtrack: "));
    let fits = entry.failed.len() >= 2 && left >= 2 && said_no + 1 < left && entry.speculative != Some(true);
    fits && (said_no > 0 || by_failure)
}

fn may_be_seen(state: &State, graph: &Graph, index: usize) -> bool {
    let atom = &state.atoms[index];
    let entry = graph.group_of(index).and_then(|group| state.or_groups.get_index(group));
    atom.status == AtomStatus::Pending
        && atom.run.is_none()
        && !graph.is_decomposed(index)
        && graph.waits_on(state, index).is_none()
        && entry.is_some_and(|(_, entry)| entry.selected != atom.id && !entry.failed.contains(&atom.id))
}

/// Unknown ground, two failures, or a stuck group.
fn has_a_reason(state: &State, graph: &Graph, index: usize) -> Held {
    let atom = &state.atoms[index];
    let failed = failures(state, &atom.id);
    let group = graph.group_of(index).and_then(|group| state.or_groups.get_index(group));
    let reason = failed >= 2
        || (failed == 0 && atom.probe == Some(true))
        || group.is_some_and(|(name, _)| is_stuck(state, name));
    hold(reason, "a probe has a reason", "D10, D11", || format!("{}", atom.id))
}
