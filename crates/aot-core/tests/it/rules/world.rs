//! The tables' language.
//!
//! **Graph**, statements separated by `;`
//! `A` an atom; `A <- B, C` depends; `A -> B, C` is decomposed; `G=A|B` a group (`A|B` without a name is called `A|B`), `A||B`
//! a race; in a cut, `A -> B|C, D` makes a group of children. Marks behind a name: `!` has a check, `%` has one that a
//! judge answers, `$` has a `run` command, `?` is to be probed, `@db` uses a resource, `(src/**)` writes; `:A` is listed
//! as a choice without an atom.
//! `m=2`, `N=5`, `s=3` are the constraints, `each` verifies each iteration and `auto` when a look is cheap (at the end otherwise), `agents=wpc` names the roles with an agent,
//! `shared` has one tree for all, `Q=1` gives the base case quality items, `wall=60`, `usd=5` and `tok=9` are
//! limits, `host` dispatches on request, `impatient` does not wait for a limit to lift.
//!
//! **Script**, words: `A+` succeeds and lands, `A=` is done and asks to land, `A^` landed, `A%` conflict, `A-` failed,
//! `A*` red check, `A~` check error, `A&` check pending, `A.` lost, `A#` too large, `A<` start refused, `A>` not started,
//! `A>>` and `A>>2` setup failed in one way and another, `A^>` not landed, `A/` not logged in, `A//` no program; `A?+`, `A?-`, `A?.` a probe's answer, `A?+1` to `A?+5` with a cost, `A?<`, `A?>` and `A?/` as above; `A@1-` the same for
//! attempt 1, however late. `v+`, `v-`, `v-3`, `v?` (`v?%` also for a
//! judge), `v!`, `v.` the base case; the first evaluation of a process, and one before a halt that is expected, are red unless the script says one
//! (`v_` leaves it under way). `r0`, `r-`, `r<`, `r>`, `r>>`, `r/`, `r//`, `r(…)` the plan: `A->B,C` cut,
//! `~A` uncut, `+X` or `+X<-A` new, `A|X` alternative, `A<-B` rewired, `^G` abandoned. `stop`, `now`, `redirect`,
//! `redirected`, `fix(…)` a whole redirect, `abandoned`, `tampered`, `crash`, `crash(A)` with A's commit found, `wait60`, `ask(A)`, `turn`, `edit` (the
//! file as it is);
//! `cost3` and `tok3` are what the next result has spent, `spent` tells it at once; `again2` means that its worker was asked
//! again twice.
//!
//! **Expectation**: `#2 stall 1 | A6 B?` (iteration, stall count, what runs: `?` probing, `^` landing, `=` waiting, `!`
//! checking) or `#2 stall 1 halt stalled`, then any of `left 3`, `done A B`, `trail …`, `failed G:A`, `sel G:B`,
//! `bound 7`, `killed A`, `why …`, `exit 11`, `reason …`, `status …`, `refused …`, `fruitless 1`, `wake`,
//! `choices G:A,B`, `parked 30s why` or `parked no`, `next …` (what the certificate says to type next, joined by `; `).

use std::collections::BTreeMap;
use std::sync::Arc;

use aot_core::brief::Cost;
use aot_core::coordinator::*;
use aot_core::rules::bound;
use aot_core::rules::certificate::{Certificate, RedCheck, StopKind, next_steps};
use aot_core::rules::redirect::{self, CorrectionRequest};
use aot_core::rules::replan::{Abandon, Alternative, NewDecomposition, PlanChange, Rewire};
use aot_core::rules::reshape::NewAtom;
use aot_core::rules::{Change, Ledger, apply, gate};
use aot_core::state::*;
use aot_testkit::audit::derived::derived_figures_are_right;
use aot_testkit::plans;
use indexmap::IndexMap;
use jiff::{SignedDuration, Timestamp};

/// Decision, graph, script, expectation.
pub type Row = (&'static str, &'static str, &'static str, &'static str);

/// How much time passes with each word.
const TICK: SignedDuration = SignedDuration::from_millis(10);

/// Runs a table and shows every row that is not as expected.
pub fn table(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (decision, graph, script, expected) in rows {
        let actual = std::panic::catch_unwind(|| {
            let mut world = World::play(graph, script);
            if expected.contains(" halt ") && !world.is_halted() {
                world.red_unless_said();
            }
            world.tell(expected)
        })
        .unwrap_or_else(|panic| match panic.downcast::<String>() {
            Ok(words) => format!("panicked: {words}"),
            Err(panic) => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
        });
        if actual != *expected {
            wrong.push(format!(
                "{decision}: {graph}\n   script   {script}\n   expected {expected}\n   actual   {actual}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

pub struct World {
    pub coordinator: Coordinator,
    settings: Settings,
    /// What the recorded changes alone make of the first state.
    pub file: State,
    pub now: Timestamp,
    halt: Option<Certificate>,
    killed: Vec<String>,
    why: Vec<String>,
    refused: Vec<String>,
    reverted: Vec<String>,
    wake: Option<Timestamp>,
    /// Jobs asked for, until their last word.
    asked: Vec<JobId>,
    landing: Vec<JobId>,
    /// Jobs that have said that they are done.
    said: Vec<JobId>,
    jobs: Vec<Job>,
    verify: Option<u32>,
    replans: u32,
    failures: usize,
    lowest: u64,
    first: State,
    redirected: bool,
    /// Something could not be started, so that the bound counts it again.
    gave_back: bool,
    /// What the next result has spent.
    usage: Usage,
    pub most_running: usize,
}

pub fn start() -> Timestamp {
    "2025-01-15T10:00:00Z".parse().expect("a moment")
}

impl World {
    pub fn play(graph: &str, script: &str) -> World {
        let mut world = World::new(graph);
        let words: Vec<&str> = script.split_whitespace().collect();
        world.begin(Vec::new());
        if !words.first().is_some_and(|word| word.starts_with('v')) && world.verify.is_some() {
            world.word("v-");
        }
        for (at, word) in words.iter().enumerate() {
            world.word(word);
            let next = words.get(at + 1);
            if word.starts_with("crash") && !next.is_some_and(|word| word.starts_with('v')) {
                world.red_unless_said();
            }
        }
        world
    }

    /// An evaluation at the beginning of a process, or before a halt, is red if the script does not say otherwise.
    pub fn red_unless_said(&mut self) {
        if self.verify.is_some() {
            self.word("v-");
        }
    }

    pub fn new(graph: &str) -> World {
        let (state, settings) = parse(graph);
        let now = start();
        let aligned = gate::gate(state.clone()).expect("a table's graph is aligned");
        World {
            coordinator: Coordinator::resume(aligned, settings, now),
            settings,
            file: state.clone(),
            first: state,
            redirected: false,
            gave_back: false,
            usage: Usage::default(),
            now,
            halt: None,
            killed: Vec::new(),
            why: Vec::new(),
            refused: Vec::new(),
            reverted: Vec::new(),
            wake: None,
            asked: Vec::new(),
            landing: Vec::new(),
            said: Vec::new(),
            jobs: Vec::new(),
            verify: None,
            replans: 0,
            lowest: u64::MAX,
            failures: 0,
            most_running: 0,
        }
    }

    fn begin(&mut self, found: Vec<UnrecordedLanding>) {
        self.send(Event::Begun {
            unrecorded: found,
            fingerprint: None,
            altered: None,
            redirect: RedirectLock::Free,
        });
    }

    pub fn send(&mut self, event: Event) {
        if matches!(event, Event::Redirected { .. } | Event::Edited { .. }) {
            self.lowest = u64::MAX;
            self.redirected = true;
        }
        let effects = self.coordinator.on(event, self.now);
        for effect in effects {
            match effect {
                Effect::Record(changes) => {
                    for change in &changes {
                        self.gave_back |=
                            matches!(change, Change::AtomNotStarted { .. } | Change::IterationTakenBack);
                        apply(&mut self.file, change, self.now).expect("a change fits the file");
                    }
                }
                Effect::Start(job) => {
                    if job.id.task == Task::Replan {
                        self.why = job.why.iter().map(why).collect();
                        self.replans += 1;
                    }
                    self.asked.push(job.id.clone());
                    self.jobs.push(job);
                }
                Effect::Kill(job) => {
                    self.asked.retain(|asked| *asked != job);
                    self.landing.retain(|asked| *asked != job);
                    self.killed.push(name(&job));
                }
                Effect::Land(job) => {
                    assert!(self.asked.contains(&job), "{job:?} lands, and was never started");
                    self.asked.retain(|asked| *asked != job);
                    self.landing.push(job);
                }
                Effect::Verify { number } => self.verify = Some(number),
                Effect::Revert { atom, commit } => self.reverted.push(format!("{atom}:{commit}")),
                Effect::WakeAt(at) => self.wake = Some(at),
                Effect::Refuse(refusal) => self.refused.push(refusal.code().to_owned()),
                Effect::Halt(certificate) => self.halt = Some(*certificate),
            }
        }
        assert_eq!(self.file, *self.coordinator.state(), "the file says something else than the coordinator");
        let bound = self.coordinator.bound().agent_runs;
        if self.gave_back {
            self.lowest = u64::MAX;
            self.gave_back = false;
        }
        assert!(bound <= self.lowest, "the bound rose from {} to {bound}", self.lowest);
        self.lowest = bound;
        let runs = self.file.control.spent.as_ref().map_or(0, |spent| spent.agent_runs);
        let total = bound::total(&self.first).agent_runs;
        assert!(
            self.redirected || runs + bound <= total,
            "{runs} agents ran and {bound} may follow, of {total} that were promised"
        );
        let written = bound::written(&self.file, Agents::ALL).agent_runs;
        assert!(written >= bound, "by the file alone {written} agents may follow, and {bound} may");
        if let Some(halt) = self.halt.as_ref().filter(|halt| halt.verdict != StopKind::NeedsPerson)
            && self.file.control.status == LoopStatus::Stopped
        {
            assert_eq!(next_steps(&self.file), halt.next, "the file alone says what to type next");
        }
        self.most_running = self.most_running.max(self.coordinator.running().len());
        derived_figures_are_right(self.coordinator.ledger())
            .unwrap_or_else(|violation| panic!("{violation}"));
    }

    pub fn is_halted(&self) -> bool {
        self.halt.is_some()
    }

    pub fn certificate(&self) -> &Certificate {
        self.halt.as_ref().expect("the loop has halted")
    }

    pub fn is_parked(&self) -> bool {
        self.file.control.parked_until.is_some()
    }

    pub fn word(&mut self, word: &str) {
        self.now = self.now.checked_add(TICK).expect("time goes on");
        match word {
            "v_" => return,
            "stop(deadlock:wait)" => {
                let reason = Some("deadlock: wait for the deploy".into());
                return self.send(Event::StopAsked { how: StopMode::Finish, reason });
            }
            "edit" => return self.edit(self.file.clone()),
            "stop" => return self.send(Event::StopAsked { how: StopMode::Finish, reason: None }),
            "now" => {
                return self.send(Event::StopAsked { how: StopMode::Now, reason: Some("enough".into()) });
            }
            "redirect" => return self.send(Event::RedirectAsked),
            "redirected" => {
                let mut state = self.file.clone();
                state.control.redirect_requested = false;
                self.file = state.clone();
                return self.send(Event::Redirected { state: Box::new(state) });
            }
            "abandoned" => return self.send(Event::RedirectAbandoned),
            "tampered" => return self.send(Event::Tampered { what: "tampered: tests".into() }),
            "spent" => {
                let usage = std::mem::take(&mut self.usage);
                return self.send(Event::Spent { usage });
            }
            "turn" => return self.send(Event::TurnEnded),
            "wake" => return self.send(Event::Woke),
            "crash" => return self.crash(Vec::new()),
            _ => {}
        }
        if let Some(inside) = argument(word, "crash") {
            return self.crash(vec![inside]);
        }
        if let Some(corrections) = argument(word, "fix") {
            self.send(Event::RedirectAsked);
            return self.fix(corrections);
        }
        if let Some(atom) = argument(word, "ask") {
            return self.send(Event::StartAsked { atom: atom.into() });
        }
        if let Some(seconds) = word.strip_prefix("wait").and_then(|number| number.parse().ok()) {
            self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).expect("time goes on");
            return self.send(Event::Woke);
        }
        if let Some(cost) = word.strip_prefix("cost").and_then(|number| number.parse().ok()) {
            self.usage.cost_usd = cost;
            return;
        }
        if let Some(tokens) = word.strip_prefix("tok").and_then(|number| number.parse().ok()) {
            self.usage.tokens = tokens;
            return;
        }
        if let Some(runs) = word.strip_prefix("again").and_then(|number| number.parse().ok()) {
            self.usage.agent_runs = runs;
            return;
        }
        if let Some(rest) = word.strip_prefix('v').filter(|_| self.verify.is_some()) {
            return self.evaluated(rest);
        }
        if let Some(rest) =
            word.strip_prefix('r').filter(|rest| rest.starts_with(['0', '-', '<', '>', '/', '(']))
        {
            return self.planned(rest);
        }
        self.result(word);
    }

    /// Redirects as another process would: on the file, under its lock.
    fn fix(&mut self, corrections: &str) {
        let mut ledger = Ledger::open(self.file.clone(), self.now);
        let corrections = corrections.split(';').map(|text| self.correction(text)).collect();
        match redirect::redirect(&mut ledger, corrections) {
            Ok(()) => self.file = ledger.close().0,
            Err(refusal) => self.refused.push(refusal.code().to_owned()),
        }
        self.file.control.redirect_requested = false;
        if self.halt.is_some() {
            return;
        }
        let state = Box::new(self.file.clone());
        self.send(Event::Redirected { state });
    }

    pub fn correction(&self, text: &str) -> CorrectionRequest {
        let new = |name: &str| NewAtom {
            id: Some(name.into()),
            description: format!("do {name}"),
            ..NewAtom::default()
        };
        let list =
            |text: &str| text.split(',').filter(|id| !id.is_empty()).map(AtomId::from).collect::<Vec<_>>();
        match text {
            "goal" => return CorrectionRequest::Goal("another goal".into()),
            "blank" => return CorrectionRequest::Goal(" ".into()),
            "background" => return CorrectionRequest::BackgroundIntent("why".into()),
            "deliverables" => return CorrectionRequest::Deliverables("what".into()),
            "done" => return CorrectionRequest::DefinitionOfDone("when".into()),
            "base" => return CorrectionRequest::BaseCase(Checks::Single(Check::File { value: "x".into() })),
            "protect" => return CorrectionRequest::Protected(vec!["tests/**".into()]),
            "accept" => {
                return CorrectionRequest::Accept(Fingerprint {
                    base_case: "b".into(),
                    protected: "p".into(),
                });
            }
            _ => {}
        }
        if let Some(rest) = text.strip_prefix('+') {
            let (name, wanted) = rest.split_once("<-").unwrap_or((rest, ""));
            return CorrectionRequest::AddAtom(NewAtom { depends_on: list(wanted), ..new(name) });
        }
        if let Some(name) = text.strip_prefix('-') {
            return CorrectionRequest::RemoveAtom(name.into());
        }
        if let Some(name) = text.strip_prefix('~') {
            return CorrectionRequest::Withdraw { parent: name.into() };
        }
        if let Some(name) = text.strip_suffix('!') {
            return CorrectionRequest::Redo { atom: name.into(), hint: String::new() };
        }
        if let Some((name, hint)) = text.split_once('!') {
            return CorrectionRequest::Redo { atom: name.into(), hint: hint.into() };
        }
        if let Some((parent, children)) = text.split_once("->") {
            let children = children.split(',').filter(|name| !name.is_empty()).map(new).collect();
            return CorrectionRequest::Decompose {
                parent: parent.into(),
                children,
                reason: "smaller".into(),
            };
        }
        if let Some((atom, wanted)) = text.split_once("<-") {
            return CorrectionRequest::Dependencies { atom: atom.into(), depends_on: list(wanted) };
        }
        if let Some((group, name)) = text.split_once('|') {
            return CorrectionRequest::AddChoice { group: group.into(), atom: new(name) };
        }
        if let Some((atom, summary)) = text.split_once(':') {
            return CorrectionRequest::Rebind { atom: atom.into(), summary: summary.into(), artifacts: None };
        }
        let (name, value) = text.split_once('=').expect("a correction");
        let number = || value.parse().expect("a number");
        CorrectionRequest::Limit(match name {
            "N" => Limit::MaxIterations(number()),
            "m" => Limit::MaxParallelAgents(number()),
            "s" => Limit::MaxStallCount(number()),
            group => {
                return CorrectionRequest::ForceChoice {
                    group: group.into(),
                    choice: value.into(),
                    reason: String::new(),
                };
            }
        })
    }

    /// Another process takes this state up.
    pub fn take_up(&mut self, state: State) {
        self.file = state;
        self.crash(Vec::new());
    }

    fn crash(&mut self, found: Vec<&str>) {
        let found = found
            .into_iter()
            .map(|atom| UnrecordedLanding {
                atom: atom.into(),
                attempt: self.file.control.attempts.get(&AtomId::from(atom)).copied().unwrap_or(0),
                binding: binding(atom),
            })
            .collect();
        let aligned = gate::gate(self.file.clone()).expect("what was aligned stays so");
        self.coordinator = Coordinator::resume(aligned, self.settings, self.now);
        self.asked.clear();
        self.landing.clear();
        self.verify = None;
        if self.halt.take().is_some() {
            // A person takes the loop up again, and may have it evaluated once more.
            self.lowest = u64::MAX;
            self.redirected = true;
        }
        self.begin(found);
    }

    fn evaluated(&mut self, rest: &str) {
        let number = self.verify.take().expect("an evaluation is under way");
        let items = |kinds: &[CheckKind]| {
            let red = |(n, kind): (usize, &CheckKind)| RedCheck {
                item: format!("C{n}"),
                kind: Some(*kind),
                reason: "red".into(),
            };
            kinds.iter().enumerate().map(red).collect()
        };
        let red = |count: usize| items(&vec![CheckKind::Command; count]);
        let evaluation = match rest {
            "+" => Evaluation::Passed,
            "?" => Evaluation::Pending { items: items(&[CheckKind::Assertion]) },
            "?%" => {
                let kinds = [CheckKind::Quality, CheckKind::Assertion, CheckKind::Quality];
                Evaluation::Pending { items: items(&kinds) }
            }
            "!" => Evaluation::Error { items: red(1) },
            "." => Evaluation::Lost { reason: "lost".into() },
            "x" => Evaluation::Prevented { reason: "dirty".into() },
            "-" => Evaluation::Failed { red: red(1) },
            other => {
                let count = other.strip_prefix('-').and_then(|count| count.parse().ok());
                Evaluation::Failed { red: red(count.unwrap_or_else(|| panic!("v{other}?"))) }
            }
        };
        // Judges are asked as often as they may be; a lost evaluation asked nobody.
        let judges = self.file.objective.base_case.as_ref().map_or(0, |checks| checks.quality_items());
        let agent_runs = if rest == "." { 0 } else { 2 * judges as u64 };
        self.send(Event::Verified { number, evaluation, usage: Usage { agent_runs, ..Usage::default() } });
    }

    fn planned(&mut self, rest: &str) {
        let at = self.asked.iter().position(|job| job.task == Task::Replan).expect("a replan was asked for");
        let job = self.asked.remove(at);
        let answer = match rest {
            "0" => Answer::Plan(PlanChange::default()),
            "-" => Answer::Failed { reason: "no answer".into() },
            "<" => Answer::Refused { reason: "rate limit".into(), retry_after: None },
            ">" => Answer::NotStarted { obstacle: Obstacle::World, reason: "no space left".into() },
            "/" => Answer::Unable { lack: Lack::Login, reason: "nobody is logged in".into() },
            "//" => Answer::Unable { lack: Lack::Program, reason: "no such file".into() },
            ">>" => {
                let obstacle = Obstacle::Setup { output: "no such package".into() };
                Answer::NotStarted { obstacle, reason: "setup ended with 1".into() }
            }
            plan => Answer::Plan(parse_plan(plan.trim_matches(['(', ')']))),
        };
        self.send(Event::Replanned { job, answer, usage: Usage::default() });
    }

    fn result(&mut self, word: &str) {
        let usage = std::mem::take(&mut self.usage);
        let (who, how) =
            word.split_at(word.find(|c: char| !c.is_alphanumeric() && c != '_').expect("a result"));
        let (attempt, how) = match how.strip_prefix('@') {
            None => (None, how),
            Some(rest) => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).expect("a result");
                (Some(rest[..end].parse::<u32>().expect("an attempt")), &rest[end..])
            }
        };
        let atom = AtomId::from(who);
        let number = |jobs: &[JobId]| {
            let found = jobs.iter().rev().find(|job| job.task.atom() == Some(&atom)).cloned();
            found.unwrap_or_else(|| panic!("{word}: {who} does not run; {:?} do", self.asked))
        };
        if let Some(probe) = how.strip_prefix('?') {
            let job = attempt.map_or_else(
                || number(&self.asked),
                |attempt| JobId { task: Task::Probe(atom.clone()), attempt },
            );
            self.asked.retain(|asked| *asked != job);
            let outcome = match probe {
                "." => JobOutcome::Lost { reason: "lost".into() },
                "<" => JobOutcome::Refused { reason: "rate limit".into(), retry_after: None },
                ">" => JobOutcome::NotStarted { obstacle: Obstacle::World, reason: "no space left".into() },
                "/" => JobOutcome::Unable { lack: Lack::Login, reason: "nobody is logged in".into() },
                answer => probed(answer),
            };
            return self.send(Event::Ended { job, outcome, usage });
        }
        if matches!(how, "^" | "%" | "^>")
            && (attempt.is_some() || self.landing.iter().any(|j| j.task.atom() == Some(&atom)))
        {
            let job = attempt.map_or_else(
                || number(&self.landing),
                |attempt| JobId { task: Task::Work(atom.clone()), attempt },
            );
            self.landing.retain(|landing| *landing != job);
            if how == "^>" {
                self.asked.push(job.clone());
                return self.send(Event::NotLanded { job, reason: "no space left".into(), usage });
            }
            return self.send(match how {
                "^" => Event::Landed { job, binding: binding(who), usage },
                _ => Event::Conflict { job, reason: "conflict".into(), usage },
            });
        }
        let job = attempt
            .map_or_else(|| number(&self.asked), |attempt| JobId { task: Task::Work(atom.clone()), attempt });
        let why = || "boom".to_owned();
        self.failures += usize::from(matches!(how, "-" | "*"));
        let failures = self.failures;
        // Each failure tells something else: two that tell the same have consequences.
        let another = || if failures == 1 { why() } else { format!("boom {failures}") };
        let done = |check| JobOutcome::Done { summary: "done".into(), artifacts: Vec::new(), check };
        let checked = self.file.atoms.get(&atom).is_some_and(|atom| atom.check.is_some());
        let pass = if checked { CheckOutcome::Pass } else { CheckOutcome::None };
        let outcome = match how {
            "+" | "+0" | "=" | "%" => done(pass),
            "-" => JobOutcome::Failed { reason: another() },
            "--" => JobOutcome::Failed { reason: "the same".into() },
            "*" => done(CheckOutcome::Fail { reason: another() }),
            "~" => done(CheckOutcome::Error { reason: why() }),
            "&" => done(CheckOutcome::Pending { reason: why() }),
            "." => JobOutcome::Lost { reason: why() },
            "#" => JobOutcome::TooLarge { reason: why() },
            ">" => JobOutcome::NotStarted { obstacle: Obstacle::World, reason: "no space left".into() },
            "<" => JobOutcome::Refused { reason: why(), retry_after: None },
            "/" => JobOutcome::Unable { lack: Lack::Login, reason: "nobody is logged in".into() },
            "//" => JobOutcome::Unable { lack: Lack::Program, reason: "no such file".into() },
            ">>" | ">>2" => {
                let obstacle = Obstacle::Setup { output: "no such package".into() };
                JobOutcome::NotStarted { obstacle, reason: format!("setup ended with {}", how.len() - 1) }
            }
            other => panic!("{other}?"),
        };
        if matches!(how, "+" | "+0" | "=" | "%") {
            self.said.push(job.clone());
        } else {
            self.asked.retain(|asked| *asked != job);
        }
        let check_only = matches!(job.task, Task::Check(_));
        self.send(Event::Ended { job: job.clone(), outcome, usage });
        if check_only {
            self.asked.retain(|asked| *asked != job);
        } else if let "+" | "+0" | "%" = how {
            self.landing.retain(|landing| *landing != job);
            self.send(match how {
                "+" => Event::Landed { job, binding: binding(who), usage: Usage::default() },
                "+0" => {
                    let binding = Binding { unchanged: true, commit: None, ..binding(who) };
                    Event::Landed { job, binding, usage: Usage::default() }
                }
                _ => Event::Conflict { job, reason: "conflict".into(), usage: Usage::default() },
            });
        }
    }

    /// Somebody edits the file, and the store tells it.
    pub fn edit(&mut self, state: State) {
        self.file = state.clone();
        self.send(Event::Edited { state: Box::new(state) });
    }

    pub fn last_job(&self) -> &Job {
        self.jobs.last().expect("a job was started")
    }

    pub fn refusals(&self) -> &[String] {
        &self.last_job().refusals
    }

    /// What stands, in the words of the expectation.
    pub fn tell(&self, expected: &str) -> String {
        let mut parts = vec![self.headline()];
        for part in expected.split(" | ").skip(1) {
            let (key, rest) = part.split_once(' ').unwrap_or((part, ""));
            parts.push(self.part(key, rest).unwrap_or_else(|| self.running()));
        }
        parts.join(" | ")
    }

    fn headline(&self) -> String {
        let control = &self.coordinator.state().control;
        let halt = match &self.halt {
            None => String::new(),
            Some(certificate) => {
                let verdict = serde_json::to_value(&certificate.verdict).expect("a verdict is data");
                format!(" halt {}", verdict["kind"].as_str().expect("it has a name"))
            }
        };
        format!("#{} stall {}{halt}", control.iteration, control.stall_count)
    }

    fn part(&self, key: &str, rest: &str) -> Option<String> {
        let state = self.coordinator.state();
        let told = match key {
            "left" => self.coordinator.graph().unresolved(state).to_string(),
            "done" => {
                let done = state.atoms.values().filter(|atom| atom.status == AtomStatus::Resolved);
                done.map(|atom| atom.id.to_string()).collect::<Vec<_>>().join(" ")
            }
            "trail" => state.trail.iter().map(entry).collect::<Vec<_>>().join(" "),
            "failed" => {
                let failed = state.or_groups.iter().filter(|(_, group)| !group.failed.is_empty());
                failed
                    .map(|(name, group)| format!("{name}:{}", ids(&group.failed)))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            "sel" => {
                let all = state.or_groups.iter();
                all.map(|(name, group)| format!("{name}:{}", group.selected)).collect::<Vec<_>>().join(" ")
            }
            "choices" => {
                let all = state.or_groups.iter();
                all.map(|(name, group)| format!("{name}:{}", ids(&group.choices)))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            "next" => self.halt.as_ref().map_or("none".into(), |halt| halt.next.join("; ")),
            "verified" => format!("{:?}", state.control.fewest_red),
            "summary" => {
                let binding = &state.bindings[rest.split(':').next().expect("an atom")];
                format!("{}:{}", rest.split(':').next().expect("an atom"), binding.summary)
            }
            "bound" => self.lowest.to_string(),
            "killed" => self.killed.join(" "),
            "reverted" => self.reverted.join(" "),
            "why" => self.why.join(" "),
            "replans" => self.replans.to_string(),
            "exit" => self.halt.as_ref().map_or("none".into(), |halt| halt.exit.to_string()),
            "reason" => state.control.stop_reason.clone().unwrap_or("none".into()),
            "red" => self.halt.as_ref().map_or(0, |halt| halt.red.len()).to_string(),
            "not_needed" => self.halt.as_ref().map_or("none".into(), |halt| ids(&halt.not_needed)),
            "branches" => {
                let branches = self.halt.iter().flat_map(|halt| &halt.branches);
                branches.map(|b| format!("{}:{}", b.group, ids(&b.choices))).collect::<Vec<_>>().join(" ")
            }
            "tried" => {
                let tried = self.halt.iter().flat_map(|halt| &halt.tried);
                tried.map(|tried| format!("{}:{}", tried.atom, tried.attempts)).collect::<Vec<_>>().join(" ")
            }
            "status" => format!("{:?}", state.control.status).to_lowercase(),
            "refused" => self.refused.join(" "),
            "fruitless" => state.control.fruitless.unwrap_or(0).to_string(),
            "prev" => state.control.prev_pending_count.to_string(),
            "runs" => state.control.spent.as_ref().map_or(0, |spent| spent.agent_runs).to_string(),
            "atoms" => ids(&state.atoms.keys().cloned().collect::<Vec<_>>()),
            "needs" => {
                let atom = &state.atoms[&AtomId::from(rest.split(':').next().expect("an atom"))];
                format!("{}:{}", atom.id, ids(&atom.depends_on))
            }
            "parked" => match &state.control.parked_until {
                Some(until) => {
                    let why = state.control.parked_reason.as_deref().unwrap_or("no reason");
                    // Stamps are whole seconds.
                    let wait = until.at().duration_since(self.now).as_secs_f64().ceil();
                    format!("{wait}s {why}")
                }
                None => "no".into(),
            },
            "most" => self.most_running.to_string(),
            "corrections" => {
                let all = state.corrections.iter();
                all.map(|c| format!("{:?}{}", c.kind, if c.trail_cleared { "!" } else { "" }))
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            _ => return None,
        };
        Some(format!("{key} {told}"))
    }

    fn running(&self) -> String {
        let mut running: Vec<String> = self.coordinator.running().iter().map(name).collect();
        for shown in &mut running {
            if self.landing.iter().any(|job| name(job) == *shown) {
                shown.push('^');
            }
        }
        if self.coordinator.verifying().is_some() {
            running.push("verify".into());
        }
        if running.is_empty() { "-".into() } else { running.join(" ") }
    }
}

pub fn ids(ids: &[AtomId]) -> String {
    ids.iter().map(AtomId::as_str).collect::<Vec<_>>().join(",")
}

fn entry(entry: &TrailEntry) -> String {
    match entry {
        TrailEntry::Selection { or_group, selected, .. } => format!("{or_group}:{selected}"),
        TrailEntry::Failure { atom, .. } => format!("{atom}-"),
        TrailEntry::Replan { atom, .. } => format!("{atom}~"),
        TrailEntry::UserCorrection { .. } => "user".into(),
    }
}

fn why(why: &ReplanReason) -> String {
    match why {
        ReplanReason::Failing { atom } => format!("{atom}-"),
        ReplanReason::TooLarge { atom, .. } => format!("{atom}#"),
        ReplanReason::Infeasible { atom, .. } => format!("{atom}?-"),
        ReplanReason::Stalling => "stalling".into(),
        ReplanReason::Red { checks } => format!("red{}", checks.len()),
    }
}

fn name(job: &JobId) -> String {
    match &job.task {
        Task::Probe(atom) => format!("{atom}?"),
        Task::Work(atom) => atom.to_string(),
        Task::Check(atom) => format!("{atom}!"),
        Task::Replan => "replan".into(),
    }
}

/// A probe's answer: `+` or `-`, and a digit for what the work is likely to cost.
fn probed(answer: &str) -> JobOutcome {
    let costs = [Cost::Tiny, Cost::Small, Cost::Medium, Cost::Large, Cost::Huge];
    let (feasible, findings) = match &answer[..1] {
        "+" => (Feasibility::Feasible, "fine"),
        "-" => (Feasibility::Infeasible, "too hard"),
        other => panic!("?{other}?"),
    };
    let cost = answer[1..].parse::<usize>().ok().map(|number| costs[number - 1]);
    JobOutcome::Probed { feasible, findings: findings.into(), cost }
}

fn binding(atom: &str) -> Binding {
    Binding {
        summary: format!("did {atom}"),
        artifacts: vec![format!("{atom}.rs")],
        commit: Some(format!("c{atom}")),
        unchanged: false,
    }
}

fn argument<'w>(word: &'w str, verb: &str) -> Option<&'w str> {
    word.strip_prefix(verb)?.strip_prefix('(')?.strip_suffix(')')
}

/// Reads the graph language.
pub fn parse(text: &str) -> (State, Settings) {
    let mut blank = plans::blank(Constraints::default());
    blank.objective.verify = Some(VerifyWhen::AtEnd);
    let mut reader = Reader { state: Some(blank), ..Reader::default() };
    for statement in text.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        reader.statement(statement);
    }
    let mut state = reader.state.expect("it was there");
    state.atoms = reader.atoms;
    for (name, group) in reader.groups {
        for choice in &group.choices {
            if let Some(atom) = state.atom_mut(choice) {
                atom.or_group = Some(name.clone());
            }
        }
        state.or_groups.insert(name, group);
    }
    (state, reader.settings.0)
}

struct Known(Settings);

impl Default for Known {
    fn default() -> Known {
        let agents =
            Agents { worker: Presence::Available, probe: Presence::Absent, coordinator: Presence::Absent };
        Known(Settings {
            agents,
            dispatch: Dispatch::Rolling,
            trees: Trees::Separate,
            on_refused_start: OnRefusedStart::Park,
        })
    }
}

#[derive(Default)]
struct Reader {
    state: Option<State>,
    atoms: IndexMap<AtomId, Arc<Atom>>,
    groups: BTreeMap<GroupName, OrGroup>,
    settings: Known,
}

impl Reader {
    fn statement(&mut self, statement: &str) {
        if self.setting(statement) {
            return;
        }
        if let Some((parent, children)) = statement.split_once("->") {
            let parent = self.atom(parent.trim());
            let children = children.split(',').flat_map(|child| self.entry(child.trim())).collect();
            let state = self.state.as_mut().expect("it is there");
            state.decompositions.push(Decomposition { parent, children, reason: "smaller".into() });
        } else if let Some((atom, wanted)) = statement.split_once("<-") {
            let atom = self.atom(atom.trim());
            let wanted: Vec<AtomId> = wanted.split(',').map(|wanted| self.atom(wanted.trim())).collect();
            Arc::make_mut(&mut self.atoms[&atom]).depends_on.extend(wanted);
        } else {
            self.entry(statement);
        }
    }

    fn setting(&mut self, statement: &str) -> bool {
        let state = self.state.as_mut().expect("it is there");
        let constraints = &mut state.objective.constraints;
        let agents = &mut self.settings.0.agents;
        match statement.split_once('=') {
            Some(("m", number)) => constraints.max_parallel_agents = number.parse().expect("m"),
            Some(("N", number)) => constraints.max_iterations = number.parse().expect("N"),
            Some(("s", number)) => constraints.max_stall_count = number.parse().expect("s"),
            Some(("wall", number)) => {
                constraints.max_wall_time = Some(Span::from_seconds(number.parse().expect("wall")));
            }
            Some(("tok", number)) => constraints.max_tokens = Some(number.parse().expect("tok")),
            Some(("usd", number)) => constraints.max_cost_usd = Some(number.parse().expect("usd")),
            Some(("Q", number)) => {
                let item = Item { item: "good".into(), wants: Wants::Check(quality()) };
                state.objective.base_case = Some(Checks::Checklist(vec![item; number.parse().expect("Q")]));
            }
            Some(("agents", roles)) => {
                let seat = |role| if roles.contains(role) { Presence::Available } else { Presence::Absent };
                *agents = Agents { worker: seat('w'), probe: seat('p'), coordinator: seat('c') };
            }
            _ => match statement {
                "each" => state.objective.verify = Some(VerifyWhen::EachIteration),
                "auto" => state.objective.verify = None,
                "shared" => self.settings.0.trees = Trees::Shared,
                "impatient" => self.settings.0.on_refused_start = OnRefusedStart::Stop,
                "host" => self.settings.0.dispatch = Dispatch::OnRequest,
                _ => return false,
            },
        }
        true
    }

    /// An atom, or a group of them.
    fn entry(&mut self, text: &str) -> Vec<AtomId> {
        if !text.contains('|') {
            return vec![self.atom(text)];
        }
        let (name, choices) = text.split_once('=').unwrap_or((text, text));
        let speculative = choices.contains("||").then_some(true);
        let mut all = Vec::new();
        let mut made = Vec::new();
        for choice in choices.split('|').filter(|choice| !choice.is_empty()) {
            match choice.strip_prefix(':') {
                Some(listed) => all.push(AtomId::from(listed)),
                None => {
                    let id = self.atom(choice.trim());
                    all.push(id.clone());
                    made.push(id);
                }
            }
        }
        let selected = all[0].clone();
        self.groups.insert(name.into(), OrGroup { choices: all, selected, failed: Vec::new(), speculative });
        made
    }

    fn atom(&mut self, text: &str) -> AtomId {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, mut marks) = text.split_at(end);
        let id = AtomId::from(name);
        let new = || Arc::new(Atom::new(id.clone(), format!("do {name}")));
        let atom = Arc::make_mut(self.atoms.entry(id.clone()).or_insert_with(new));
        while let Some(mark) = marks.chars().next() {
            marks = &marks[1..];
            match mark {
                '!' => atom.check = Some(Checks::Single(Check::Command { value: "true".into() })),
                '%' => atom.check = Some(Checks::Single(quality())),
                '$' => atom.run = Some("make".into()),
                '?' => atom.probe = Some(true),
                '@' => {
                    let end = marks.find(|c: char| !c.is_alphanumeric()).unwrap_or(marks.len());
                    atom.resource = Some(marks[..end].to_owned());
                    marks = &marks[end..];
                }
                '(' => {
                    let end = marks.find(')').expect("it is closed");
                    atom.writes = marks[..end].split(' ').map(str::to_owned).collect();
                    marks = &marks[end + 1..];
                }
                other => panic!("{other} behind {name}?"),
            }
        }
        id
    }
}

fn quality() -> Check {
    Check::Quality(Quality {
        criteria: Some("good".into()),
        rubric: Vec::new(),
        pass_threshold: 3.0,
        scope: None,
    })
}

fn parse_plan(text: &str) -> PlanChange {
    let mut plan = PlanChange { reason: "better so".into(), ..PlanChange::default() };
    let new = |name: &str| NewAtom {
        id: Some(name.into()),
        description: format!("do {name}"),
        ..NewAtom::default()
    };
    let list = |text: &str| text.split(',').filter(|id| !id.is_empty()).map(AtomId::from).collect::<Vec<_>>();
    for part in text.split(';').filter(|part| !part.is_empty()) {
        if let Some(parent) = part.strip_prefix('~') {
            plan.withdrawals.push(parent.into());
        } else if let Some(group) = part.strip_prefix('^') {
            plan.abandon.push(Abandon { group: group.into(), reason: String::new() });
        } else if let Some(added) = part.strip_prefix('+') {
            let (name, wanted) = added.split_once("<-").unwrap_or((added, ""));
            plan.atoms.push(NewAtom { depends_on: list(wanted), ..new(name) });
        } else if let Some((parent, children)) = part.split_once("->") {
            let children = children.split(',').filter(|name| !name.is_empty()).map(new).collect();
            plan.decompositions.push(NewDecomposition {
                parent: parent.into(),
                children,
                reason: String::new(),
            });
        } else if let Some((atom, wanted)) = part.split_once("<-") {
            plan.dependencies.push(Rewire { atom: atom.into(), depends_on: list(wanted) });
        } else if let Some((to, name)) = part.split_once('|') {
            plan.alternatives.push(Alternative { to: to.into(), group: None, atom: new(name) });
        } else {
            panic!("{part}?");
        }
    }
    plan
}
