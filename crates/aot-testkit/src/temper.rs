//! How a life treats its loop: what comes of jobs, of the base case and of the coordinator agent, and how often
//! somebody interferes. Draws; performs nothing.

use aot_core::brief::Cost;
use aot_core::coordinator::{
    Answer, CheckOutcome, Evaluation, Feasibility, Job, Outcome, ReplanReason, Task, Usage,
};
use aot_core::rules::certificate::RedCheck;
use aot_core::rules::replan::{Abandon, Alternative, NewDecomposition, PlanChange, Rewire};
use aot_core::rules::reshape::NewAtom;
use aot_core::state::{AtomId, Graph, Span, State};

use crate::chance::Chance;
use crate::world::is_agent;

/// Chances in percent, drawn once for a life.
#[derive(Clone, Debug)]
pub struct Temper {
    pub fail: u64,
    pub too_large: u64,
    pub hang: u64,
    pub lost: u64,
    pub refuse: u64,
    pub unable: u64,
    /// What was used, before the end.
    pub tells: u64,
    pub check_error: u64,
    pub check_pending: u64,
    pub conflict: u64,
    pub late: u64,
    /// At each event.
    pub crash: u64,
    pub interfere: u64,
    pub plans: PlanTemper,
    pub base: BaseTemper,
    /// Every atom whose number leaves this remainder by 3 always fails.
    pub cursed: Option<usize>,
    /// Nothing can be started at all: the network is down.
    pub down: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanTemper {
    Useful,
    Empty,
    Nonsense,
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseTemper {
    /// Green when nothing is unresolved.
    Honest,
    /// Green only after so many evaluations with nothing unresolved.
    Later(u32),
    Never,
    /// One check fewer is red each time.
    Shrinking,
    Flaky,
    Error,
    Pending,
    Prevented,
    AlreadyTrue,
}

impl Temper {
    pub fn draw(chance: &mut Chance) -> Temper {
        let mut mostly_none = |often: u64, most: u64| {
            let most = if chance.percent(often) { most } else { 0 };
            chance.between(0, most)
        };
        let (fail, too_large, hang) = (mostly_none(70, 60), mostly_none(20, 20), mostly_none(20, 20));
        let (lost, refuse, check_error) = (mostly_none(20, 15), mostly_none(15, 15), mostly_none(15, 15));
        let (unable, tells) = (mostly_none(4, 12), mostly_none(40, 80));
        let (check_pending, conflict, late) = (mostly_none(5, 15), mostly_none(30, 30), mostly_none(50, 100));
        let (crash, interfere) = (mostly_none(30, 12), mostly_none(35, 15));
        let plans =
            *chance.pick(&[PlanTemper::Useful, PlanTemper::Mixed, PlanTemper::Empty, PlanTemper::Nonsense]);
        let base = match chance.below(20) {
            0 => BaseTemper::Never,
            1 => BaseTemper::Shrinking,
            2 => BaseTemper::Flaky,
            3 => BaseTemper::Error,
            4 => BaseTemper::Pending,
            5 => BaseTemper::Prevented,
            6 => BaseTemper::AlreadyTrue,
            7..=9 => BaseTemper::Later(chance.between(1, 4) as u32),
            _ => BaseTemper::Honest,
        };
        let cursed = chance.percent(25).then(|| chance.below(3));
        let down = chance.percent(1);
        Temper {
            fail,
            too_large,
            hang,
            lost,
            refuse,
            unable,
            tells,
            check_error,
            check_pending,
            conflict,
            late,
            crash,
            interfere,
            plans,
            base,
            cursed,
            down,
        }
    }

    /// How a job ends, and after how many seconds.
    pub fn outcome(&self, chance: &mut Chance, state: &State, job: &Job) -> (Outcome, u64) {
        let seconds = (60.0 * chance.pareto(1.5)).min(1_700.0) as u64;
        let by_agent = is_agent(state, &job.id.task);
        if by_agent && (self.down || chance.percent(self.refuse)) {
            let retry_after = chance.percent(30).then(|| Span::from_seconds(chance.between(1, 600)));
            return (Outcome::Refused { reason: "rate limit".into(), retry_after }, 1);
        }
        if by_agent && chance.percent(self.unable) {
            return (Outcome::NotLoggedIn { reason: "nobody is logged in".into() }, 1);
        }
        if chance.percent(self.lost) {
            return (Outcome::Lost { reason: "killed from outside".into() }, seconds);
        }
        let outcome = match &job.id.task {
            Task::Probe(_) if chance.percent(self.fail / 3) => Outcome::Failed { reason: "no answer".into() },
            Task::Probe(atom) => {
                let feasible =
                    if chance.percent(self.fail) { Feasibility::Infeasible } else { Feasibility::Feasible };
                let costs = [Cost::Tiny, Cost::Small, Cost::Medium, Cost::Large, Cost::Huge];
                let cost = chance.percent(80).then(|| *chance.pick(&costs));
                Outcome::Probed { feasible, findings: format!("looked at {atom}"), cost }
            }
            Task::Check(atom) => done(self.check(chance, state, atom)),
            Task::Work(atom) => {
                if chance.percent(self.hang) {
                    let limit = state.constraints().agent_timeout().seconds();
                    return (Outcome::Failed { reason: "out of time".into() }, limit);
                }
                if self.is_cursed(atom) || chance.percent(self.fail) {
                    Outcome::Failed { reason: "could not".into() }
                } else if chance.percent(self.too_large) {
                    Outcome::TooLarge { reason: "too much".into() }
                } else {
                    done(self.check(chance, state, atom))
                }
            }
            Task::Replan => unreachable!("a replan is answered, not ended"),
        };
        (outcome, seconds)
    }

    fn is_cursed(&self, atom: &AtomId) -> bool {
        let digits: String = atom.as_str().chars().filter(char::is_ascii_digit).collect();
        self.cursed.is_some_and(|rest| digits.parse::<usize>().is_ok_and(|number| number % 3 == rest))
    }

    fn check(&self, chance: &mut Chance, state: &State, atom: &AtomId) -> CheckOutcome {
        if state.atoms.get(atom).is_none_or(|atom| atom.check.is_none()) {
            CheckOutcome::None
        } else if chance.percent(self.check_error) {
            CheckOutcome::Error { reason: "no such program".into() }
        } else if chance.percent(self.check_pending) {
            CheckOutcome::Pending { reason: "ask a person".into() }
        } else if chance.percent(self.fail / 2) {
            CheckOutcome::Fail { reason: "red".into() }
        } else {
            CheckOutcome::Pass
        }
    }

    /// The base case, seen for the `count`th time with nothing unresolved.
    pub fn evaluation(&self, chance: &mut Chance, unresolved: usize, count: u32) -> Evaluation {
        if chance.percent(self.lost / 3) {
            return Evaluation::Lost { reason: "interrupted".into() };
        }
        let failed = |red: usize| Evaluation::Failed { red: (0..red).map(red_check).collect() };
        let whole = unresolved == 0;
        match self.base {
            BaseTemper::AlreadyTrue => Evaluation::Passed,
            BaseTemper::Honest if whole => Evaluation::Passed,
            BaseTemper::Later(times) if whole && count > times => Evaluation::Passed,
            BaseTemper::Shrinking if whole && count >= 6 => Evaluation::Passed,
            BaseTemper::Shrinking if whole => failed(6 - count as usize),
            BaseTemper::Flaky if chance.percent(20) => Evaluation::Passed,
            BaseTemper::Error if whole || chance.percent(50) => {
                Evaluation::Error { items: vec![red_check(0)] }
            }
            BaseTemper::Pending if whole => Evaluation::Pending { items: vec![red_check(0)] },
            BaseTemper::Prevented if whole => Evaluation::Prevented { reason: "uncommitted edits".into() },
            BaseTemper::Flaky => failed(chance.between(1, 4) as usize),
            BaseTemper::Honest
            | BaseTemper::Later(_)
            | BaseTemper::Never
            | BaseTemper::Shrinking
            | BaseTemper::Error
            | BaseTemper::Pending
            | BaseTemper::Prevented => failed(3),
        }
    }

    /// What the coordinator agent answers.
    pub fn answer(&self, chance: &mut Chance, state: &State, job: &Job) -> Answer {
        if self.down || chance.percent(self.refuse) {
            return Answer::Refused { reason: "rate limit".into(), retry_after: None };
        }
        if chance.percent(self.unable) {
            return Answer::NotLoggedIn { reason: "nobody is logged in".into() };
        }
        if chance.percent(self.fail / 3) {
            return Answer::Failed { reason: "no answer".into() };
        }
        let temper = match self.plans {
            PlanTemper::Mixed => *chance.pick(&[
                PlanTemper::Useful,
                PlanTemper::Useful,
                PlanTemper::Empty,
                PlanTemper::Nonsense,
            ]),
            PlanTemper::Useful | PlanTemper::Empty | PlanTemper::Nonsense => self.plans,
        };
        Answer::Plan(match temper {
            PlanTemper::Empty | PlanTemper::Mixed => PlanChange::default(),
            PlanTemper::Nonsense => nonsense(chance, state),
            PlanTemper::Useful => useful(chance, state, job),
        })
    }
}

fn done(check: CheckOutcome) -> Outcome {
    Outcome::Done { summary: "done".into(), artifacts: Vec::new(), check }
}

fn red_check(number: usize) -> RedCheck {
    RedCheck { item: format!("check {number}"), reason: "red".into() }
}

/// What an agent tells while it runs.
pub fn on_the_way(chance: &mut Chance) -> Usage {
    Usage { agent_runs: 0, cost_usd: chance.between(0, 20) as f64 / 10.0, tokens: chance.between(0, 500) }
}

/// Judges asked about so many items, each once or twice.
pub fn judges(chance: &mut Chance, items: usize, most: u64) -> Usage {
    let agent_runs = if items == 0 { 0 } else { chance.between(0, items as u64 * most) };
    Usage { agent_runs, cost_usd: chance.between(0, 20) as f64 / 10.0, tokens: chance.between(0, 500) }
}

fn new_atom(what: &str) -> NewAtom {
    NewAtom { description: what.into(), ..NewAtom::default() }
}

/// A plan that answers what was asked, as far as it can.
fn useful(chance: &mut Chance, state: &State, job: &Job) -> PlanChange {
    let mut plan = PlanChange { reason: "another way".into(), ..PlanChange::default() };
    for why in &job.why {
        match why {
            ReplanReason::Failing { atom } | ReplanReason::TooLarge { atom, .. } => match chance.below(4) {
                0 => plan.alternatives.push(Alternative {
                    to: atom.clone(),
                    group: None,
                    atom: new_atom("another way to do it"),
                }),
                1 => plan.abandon.extend(abandon(chance, state)),
                _ => plan.decompositions.push(NewDecomposition {
                    parent: atom.clone(),
                    children: (0..chance.between(1, 3)).map(|_| new_atom("a part of it")).collect(),
                    reason: "too large".into(),
                }),
            },
            ReplanReason::Stalling => {
                if let Some((_, atom)) = state.atoms.get_index(chance.below(state.atoms.len())) {
                    plan.dependencies.push(Rewire { atom: atom.id.clone(), depends_on: Vec::new() });
                }
            }
            ReplanReason::Red { .. } => plan.atoms.push(new_atom("repair what is red")),
        }
    }
    if chance.percent(10) {
        plan.withdrawals.extend(state.decompositions.first().map(|cut| cut.parent.clone()));
    }
    plan
}

fn abandon(chance: &mut Chance, state: &State) -> Option<Abandon> {
    let (group, _) = state.or_groups.get_index(chance.below(state.or_groups.len()))?;
    Some(Abandon { group: group.clone(), reason: "it leads nowhere".into() })
}

/// Anything: what does not exist, cycles, what is resolved, what is empty.
fn nonsense(chance: &mut Chance, state: &State) -> PlanChange {
    let any = |chance: &mut Chance| {
        if chance.percent(10) {
            AtomId::new("A999")
        } else {
            state.atoms[chance.below(state.atoms.len())].id.clone()
        }
    };
    let mut plan = PlanChange { reason: "because".into(), ..PlanChange::default() };
    for _ in 0..chance.between(1, 3) {
        match chance.below(7) {
            0 => plan.withdrawals.push(any(chance)),
            1 => plan.decompositions.push(NewDecomposition {
                parent: any(chance),
                children: if chance.percent(30) { Vec::new() } else { vec![new_atom("a part")] },
                reason: String::new(),
            }),
            2 => plan.alternatives.push(Alternative {
                to: any(chance),
                group: None,
                atom: new_atom(if chance.percent(30) { "" } else { "else" }),
            }),
            3 => plan.abandon.extend(abandon(chance, state)),
            4 => plan.atoms.push(NewAtom {
                id: chance.percent(50).then(|| any(chance)),
                depends_on: vec![any(chance)],
                ..new_atom("more")
            }),
            _ => {
                let depends_on = (0..chance.between(0, 2)).map(|_| any(chance)).collect();
                plan.dependencies.push(Rewire { atom: any(chance), depends_on });
            }
        }
    }
    plan
}

/// How much is unresolved, by the plain definition.
pub fn unresolved(state: &State) -> usize {
    Graph::new(state).unresolved(state)
}
