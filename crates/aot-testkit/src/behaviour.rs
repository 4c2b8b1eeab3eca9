//! How a life treats its loop: what comes of jobs, of the base case and of the coordinator agent, and how often
//! somebody interferes. Draws; performs nothing.

use aot_core::brief::Cost;
use aot_core::coordinator::{
    Answer, CheckOutcome, Evaluation, Feasibility, Job, JobId, JobOutcome, Lack, Obstacle, ReplanReason,
    Task, Usage,
};
use aot_core::rules::certificate::RedCheck;
use aot_core::rules::replan::{Abandon, Alternative, NewDecomposition, PlanChange, Rewire};
use aot_core::rules::reshape::NewAtom;
use aot_core::state::{AtomId, Graph, Span, State};

use crate::random::Random;
use crate::world::is_agent;

/// Chances in percent, drawn once for a life.
#[derive(Clone, Debug)]
pub struct Behaviour {
    pub fail: u64,
    pub too_large: u64,
    pub hang: u64,
    pub lost: u64,
    pub refuse: u64,
    pub unable: u64,
    /// The world refuses what a start or a landing needs.
    pub no_room: u64,
    /// What was used, before the end.
    pub tells: u64,
    pub check_error: u64,
    pub check_pending: u64,
    pub conflict: u64,
    /// A worker is done and has changed no file.
    pub unchanged: u64,
    pub late: u64,
    /// At each event.
    pub crash: u64,
    pub interfere: u64,
    pub plans: PlanQuality,
    pub base: BaseCaseBehaviour,
    /// Every atom whose number leaves this remainder by 3 always fails.
    pub cursed: Option<usize>,
    /// Nothing can be started at all: the network is down.
    pub down: bool,
    /// Nothing can be started at all: the disk is full.
    pub full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanQuality {
    Useful,
    Empty,
    Nonsense,
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseCaseBehaviour {
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

/// Either, without drawing another number.
fn lack(job: &JobId) -> Lack {
    if job.attempt.is_multiple_of(2) { Lack::Program } else { Lack::Login }
}

impl Behaviour {
    pub fn draw(random: &mut Random) -> Behaviour {
        let mut mostly_none = |often: u64, most: u64| {
            let most = if random.percent(often) { most } else { 0 };
            random.between(0, most)
        };
        let (fail, too_large, hang) = (mostly_none(70, 60), mostly_none(20, 20), mostly_none(20, 20));
        let (lost, refuse, check_error) = (mostly_none(20, 15), mostly_none(15, 15), mostly_none(15, 15));
        let (unable, tells) = (mostly_none(4, 12), mostly_none(40, 80));
        let no_room = mostly_none(20, 25);
        let (check_pending, conflict, late) = (mostly_none(5, 15), mostly_none(30, 30), mostly_none(50, 100));
        let unchanged = mostly_none(20, 60);
        let (crash, interfere) = (mostly_none(30, 12), mostly_none(35, 15));
        let plans = *random.pick(&[
            PlanQuality::Useful,
            PlanQuality::Mixed,
            PlanQuality::Empty,
            PlanQuality::Nonsense,
        ]);
        let base = match random.below(20) {
            0 => BaseCaseBehaviour::Never,
            1 => BaseCaseBehaviour::Shrinking,
            2 => BaseCaseBehaviour::Flaky,
            3 => BaseCaseBehaviour::Error,
            4 => BaseCaseBehaviour::Pending,
            5 => BaseCaseBehaviour::Prevented,
            6 => BaseCaseBehaviour::AlreadyTrue,
            7..=9 => BaseCaseBehaviour::Later(random.between(1, 4) as u32),
            _ => BaseCaseBehaviour::Honest,
        };
        let cursed = random.percent(25).then(|| random.below(3));
        let (down, full) = (random.percent(1), random.percent(1));
        Behaviour {
            fail,
            too_large,
            hang,
            lost,
            refuse,
            unable,
            no_room,
            tells,
            check_error,
            check_pending,
            conflict,
            unchanged,
            late,
            crash,
            interfere,
            plans,
            base,
            cursed,
            down,
            full,
        }
    }

    /// How a job ends, and after how many seconds.
    pub fn outcome(&self, random: &mut Random, state: &State, job: &Job) -> (JobOutcome, u64) {
        let seconds = (60.0 * random.pareto(1.5)).min(1_700.0) as u64;
        let by_agent = is_agent(state, &job.id.task);
        if self.full || random.percent(self.no_room) {
            return (
                JobOutcome::NotStarted {
                    obstacle: Obstacle::World,
                    reason: "no space left on device".into(),
                },
                1,
            );
        }
        if by_agent && (self.down || random.percent(self.refuse)) {
            let retry_after = random.percent(30).then(|| Span::from_seconds(random.between(1, 600)));
            return (JobOutcome::Refused { reason: "rate limit".into(), retry_after }, 1);
        }
        if by_agent && random.percent(self.unable) {
            return (JobOutcome::Unable { lack: lack(&job.id), reason: "it lacks something".into() }, 1);
        }
        if random.percent(self.lost) {
            return (JobOutcome::Lost { reason: "killed from outside".into() }, seconds);
        }
        let outcome = match &job.id.task {
            Task::Probe(_) if random.percent(self.fail / 3) => {
                JobOutcome::Failed { reason: "no answer".into() }
            }
            Task::Probe(atom) => {
                let feasible =
                    if random.percent(self.fail) { Feasibility::Infeasible } else { Feasibility::Feasible };
                let costs = [Cost::Tiny, Cost::Small, Cost::Medium, Cost::Large, Cost::Huge];
                let cost = random.percent(80).then(|| *random.pick(&costs));
                JobOutcome::Probed { feasible, findings: format!("looked at {atom}"), cost }
            }
            Task::Check(atom) => done(self.check(random, state, atom)),
            Task::Work(atom) => {
                if random.percent(self.hang) {
                    let limit = state.constraints().agent_timeout().seconds();
                    return (JobOutcome::Failed { reason: "out of time".into() }, limit);
                }
                if self.is_cursed(atom) || random.percent(self.fail) {
                    // Sometimes it tells the same as before, which has consequences (D34).
                    JobOutcome::Failed { reason: format!("could not: {}", random.below(3)) }
                } else if random.percent(self.too_large) {
                    JobOutcome::TooLarge { reason: "too much".into() }
                } else {
                    done(self.check(random, state, atom))
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

    fn check(&self, random: &mut Random, state: &State, atom: &AtomId) -> CheckOutcome {
        if state.atoms.get(atom).is_none_or(|atom| atom.check.is_none()) {
            CheckOutcome::None
        } else if random.percent(self.check_error) {
            CheckOutcome::Error { reason: "no such program".into() }
        } else if random.percent(self.check_pending) {
            CheckOutcome::Pending { reason: "ask a person".into() }
        } else if random.percent(self.fail / 2) {
            CheckOutcome::Fail { reason: "red".into() }
        } else {
            CheckOutcome::Pass
        }
    }

    /// The base case, seen for the `count`th time with nothing unresolved.
    pub fn evaluation(&self, random: &mut Random, unresolved: usize, count: u32) -> Evaluation {
        if random.percent(self.lost / 3) {
            return Evaluation::Lost { reason: "interrupted".into() };
        }
        let failed = |red: usize| Evaluation::Failed { red: (0..red).map(red_check).collect() };
        let whole = unresolved == 0;
        match self.base {
            BaseCaseBehaviour::AlreadyTrue => Evaluation::Passed,
            BaseCaseBehaviour::Honest if whole => Evaluation::Passed,
            BaseCaseBehaviour::Later(times) if whole && count > times => Evaluation::Passed,
            BaseCaseBehaviour::Shrinking if whole && count >= 6 => Evaluation::Passed,
            BaseCaseBehaviour::Shrinking if whole => failed(6 - count as usize),
            BaseCaseBehaviour::Flaky if random.percent(20) => Evaluation::Passed,
            BaseCaseBehaviour::Error if whole || random.percent(50) => {
                Evaluation::Error { items: vec![red_check(0)] }
            }
            BaseCaseBehaviour::Pending if whole => Evaluation::Pending { items: vec![red_check(0)] },
            BaseCaseBehaviour::Prevented if whole => {
                Evaluation::Prevented { reason: "uncommitted edits".into() }
            }
            BaseCaseBehaviour::Flaky => failed(random.between(1, 4) as usize),
            BaseCaseBehaviour::Honest
            | BaseCaseBehaviour::Later(_)
            | BaseCaseBehaviour::Never
            | BaseCaseBehaviour::Shrinking
            | BaseCaseBehaviour::Error
            | BaseCaseBehaviour::Pending
            | BaseCaseBehaviour::Prevented => failed(3),
        }
    }

    /// What the coordinator agent answers.
    pub fn answer(&self, random: &mut Random, state: &State, job: &Job) -> Answer {
        if self.full || random.percent(self.no_room) {
            return Answer::NotStarted {
                obstacle: Obstacle::World,
                reason: "no space left on device".into(),
            };
        }
        if self.down || random.percent(self.refuse) {
            return Answer::Refused { reason: "rate limit".into(), retry_after: None };
        }
        if random.percent(self.unable) {
            return Answer::Unable { lack: lack(&job.id), reason: "it lacks something".into() };
        }
        if random.percent(self.fail / 3) {
            return Answer::Failed { reason: "no answer".into() };
        }
        let behaviour = match self.plans {
            PlanQuality::Mixed => *random.pick(&[
                PlanQuality::Useful,
                PlanQuality::Useful,
                PlanQuality::Empty,
                PlanQuality::Nonsense,
            ]),
            PlanQuality::Useful | PlanQuality::Empty | PlanQuality::Nonsense => self.plans,
        };
        Answer::Plan(match behaviour {
            PlanQuality::Empty | PlanQuality::Mixed => PlanChange::default(),
            PlanQuality::Nonsense => nonsense(random, state),
            PlanQuality::Useful => useful(random, state, job),
        })
    }
}

fn done(check: CheckOutcome) -> JobOutcome {
    JobOutcome::Done { summary: "done".into(), artifacts: Vec::new(), check }
}

fn red_check(number: usize) -> RedCheck {
    RedCheck { item: format!("check {number}"), kind: None, reason: "red".into() }
}

/// What an agent tells while it runs.
pub fn on_the_way(random: &mut Random) -> Usage {
    Usage {
        cost_usd: random.between(0, 20) as f64 / 10.0,
        tokens: random.between(0, 500),
        ..Usage::default()
    }
}

/// Judges asked about so many items, each once or twice.
pub fn judges(random: &mut Random, items: usize, most: u64) -> Usage {
    let agent_runs = if items == 0 { 0 } else { random.between(0, items as u64 * most) };
    Usage { agent_runs, mends: 0, ..on_the_way(random) }
}

fn new_atom(what: &str) -> NewAtom {
    NewAtom { description: what.into(), ..NewAtom::default() }
}

/// A plan that answers what was asked, as far as it can.
fn useful(random: &mut Random, state: &State, job: &Job) -> PlanChange {
    let mut plan = PlanChange { reason: "another way".into(), ..PlanChange::default() };
    for why in &job.why {
        match why {
            ReplanReason::Failing { atom }
            | ReplanReason::TooLarge { atom, .. }
            | ReplanReason::Infeasible { atom, .. } => match random.below(4) {
                0 => plan.alternatives.push(Alternative {
                    to: atom.clone(),
                    group: None,
                    atom: new_atom("another way to do it"),
                }),
                1 => plan.abandon.extend(abandon(random, state)),
                _ => plan.decompositions.push(NewDecomposition {
                    parent: atom.clone(),
                    children: (0..random.between(1, 3)).map(|_| new_atom("a part of it")).collect(),
                    reason: "too large".into(),
                }),
            },
            ReplanReason::Stalling => {
                if let Some((_, atom)) = state.atoms.get_index(random.below(state.atoms.len())) {
                    plan.dependencies.push(Rewire { atom: atom.id.clone(), depends_on: Vec::new() });
                }
            }
            ReplanReason::Red { .. } => plan.atoms.push(new_atom("repair what is red")),
        }
    }
    if random.percent(10) {
        plan.withdrawals
            .extend(state.decompositions.first().map(|decomposition| decomposition.parent.clone()));
    }
    plan
}

fn abandon(random: &mut Random, state: &State) -> Option<Abandon> {
    let (group, _) = state.or_groups.get_index(random.below(state.or_groups.len()))?;
    Some(Abandon { group: group.clone(), reason: "it leads nowhere".into() })
}

/// Anything: what does not exist, cycles, what is resolved, what is empty.
fn nonsense(random: &mut Random, state: &State) -> PlanChange {
    let any = |random: &mut Random| {
        if random.percent(10) {
            AtomId::new("A999")
        } else {
            state.atoms[random.below(state.atoms.len())].id.clone()
        }
    };
    let mut plan = PlanChange { reason: "because".into(), ..PlanChange::default() };
    for _ in 0..random.between(1, 3) {
        match random.below(7) {
            0 => plan.withdrawals.push(any(random)),
            1 => plan.decompositions.push(NewDecomposition {
                parent: any(random),
                children: if random.percent(30) { Vec::new() } else { vec![new_atom("a part")] },
                reason: String::new(),
            }),
            2 => plan.alternatives.push(Alternative {
                to: any(random),
                group: None,
                atom: new_atom(if random.percent(30) { "" } else { "else" }),
            }),
            3 => plan.abandon.extend(abandon(random, state)),
            4 => plan.atoms.push(NewAtom {
                id: random.percent(50).then(|| any(random)),
                depends_on: vec![any(random)],
                ..new_atom("more")
            }),
            _ => {
                let depends_on = (0..random.between(0, 2)).map(|_| any(random)).collect();
                plan.dependencies.push(Rewire { atom: any(random), depends_on });
            }
        }
    }
    plan
}

/// How much is unresolved, by the plain definition.
pub fn unresolved(state: &State) -> usize {
    Graph::new(state).unresolved(state)
}
