//! What random lives found in the coordinator, each as a life of a few events. The audit watches every step.

use std::sync::Arc;

use aot_core::coordinator::{
    Agents, CheckOutcome, Dispatch, Effect, Evaluation, Event, JobId, JobOutcome, OnRefusedStart, Presence,
    RedirectLock, Settings, StopMode, Task, Trees, Usage,
};
use aot_core::rules::Ledger;
use aot_core::rules::certificate::{RedCheck, StopKind};
use aot_core::rules::redirect::{CorrectionRequest, redirect};
use aot_core::rules::reshape::{self, NewAtom};
use aot_core::state::{
    Atom, AtomId, AtomStatus, Constraints, Decomposition, GroupName, OrGroup, Span, State, VerifyWhen,
};
use aot_testkit::plans;
use aot_testkit::simulation::{Command, Crash, HOST_AGENTS, Simulation, Tracing};
use aot_testkit::world::Phase;
use jiff::Timestamp;

/// A loop of independent atoms, unless shaped otherwise, whose base case was red at first.
struct Scene {
    simulation: Simulation,
}

impl Scene {
    fn new(atoms: usize, parallel: u32, stalls: u32) -> Scene {
        Scene::with(atoms, parallel, stalls, |_| {})
    }

    fn with(atoms: usize, parallel: u32, stalls: u32, shape: impl FnOnce(&mut State)) -> Scene {
        let mut state = plans::blank(plans::limits(parallel, 10, stalls));
        for number in 1..=atoms {
            let atom = Atom::new(AtomId::new(format!("A{number}")), "do it");
            state.add(atom);
        }
        state.objective.verify = Some(VerifyWhen::AtEnd);
        shape(&mut state);
        let agents = Agents {
            worker: Presence::Available,
            probe: Presence::Available,
            coordinator: Presence::Available,
        };
        let settings = Settings {
            agents,
            dispatch: Dispatch::Rolling,
            trees: Trees::Separate,
            on_refused_start: OnRefusedStart::Park,
        };
        let mut simulation = Simulation::new(state, settings, Timestamp::UNIX_EPOCH, Tracing::Off);
        simulation.begin(RedirectLock::Free, Crash::Never).expect("it begins");
        let mut scene = Scene { simulation };
        let evaluation = Evaluation::Failed { red: Vec::new() };
        scene.send(Event::Verified { number: 1, evaluation, usage: Usage::default() });
        scene
    }

    fn send(&mut self, event: Event) -> Vec<Effect> {
        self.simulation.send(event, Crash::Never).unwrap_or_else(|violation| panic!("{violation}"))
    }

    fn ends(&mut self, atom: &str, outcome: JobOutcome) -> Vec<Effect> {
        let wanted = Task::Work(AtomId::new(atom));
        let flight = self.simulation.world.flights().iter().find(|flight| flight.job.id.task == wanted);
        let job = flight.unwrap_or_else(|| panic!("{atom} runs")).job.id.clone();
        self.send(Event::Ended { job, outcome, usage: Usage::default() })
    }

    fn lands(&mut self, atom: &str) -> Vec<Effect> {
        let wanted = Task::Work(AtomId::new(atom));
        let flight = self.simulation.world.flights().iter().find(|flight| flight.job.id.task == wanted);
        let job = flight.unwrap_or_else(|| panic!("{atom} lands")).job.id.clone();
        let binding = self.simulation.world.commit(&job);
        self.send(Event::Landed { job, binding, usage: Usage::default() })
    }

    fn solves(&mut self, atom: &str) -> Vec<Effect> {
        self.ends(atom, done());
        self.lands(atom)
    }

    fn verdict(&self) -> Option<&StopKind> {
        self.simulation.world.halted().map(|certificate| &certificate.verdict)
    }
}

fn done() -> JobOutcome {
    JobOutcome::Done { summary: "done".into(), artifacts: Vec::new(), check: CheckOutcome::None }
}

/// D8: the first replan was forgotten while its agent ran on.
#[test]
fn a_replan_that_outlives_its_iteration_is_not_asked_for_again() {
    let mut scene = Scene::new(9, 3, 1);
    scene.ends("A1", JobOutcome::Failed { reason: "could not".into() });
    scene.solves("A2");
    let opening = scene.solves("A3");
    let asks = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::Start(job) if job.id.task == Task::Replan))
    };
    assert!(asks(&opening));
    for atom in ["A4", "A5", "A6", "A7"] {
        assert!(!asks(&scene.solves(atom)), "after {atom}");
    }
}

/// D13, D21: a loop that was finishing went on to land what was made under changed checks.
#[test]
fn tampering_kills_what_a_stopping_loop_lets_finish() {
    let mut scene = Scene::new(1, 1, 3);
    scene.send(Event::StopAsked { how: StopMode::Finish, reason: None });
    assert_eq!(scene.verdict(), None);
    scene.send(Event::Tampered { what: "tests/a.rs".into() });
    assert!(scene.simulation.world.flights().is_empty());
    assert!(scene.verdict().is_some());
}

/// D13, D16: the loop halted, and what was landing landed unrecorded.
#[test]
fn an_abandoned_redirect_halts_after_what_is_landing() {
    let mut scene = Scene::new(1, 1, 3);
    scene.ends("A1", done());
    scene.send(Event::RedirectAsked);
    scene.send(Event::RedirectAbandoned);
    assert_eq!(scene.verdict(), None);
    assert_eq!(scene.simulation.world.flights()[0].phase, Phase::Landing);
    scene.lands("A1");
    assert_eq!(scene.verdict(), Some(&StopKind::RedirectInterrupted));
    assert_eq!(scene.simulation.world.recorded().atoms[0].status, AtomStatus::Resolved);
}

/// D12: time that was spent waiting for a rate limit was forgotten by a crash.
#[test]
fn a_crash_does_not_give_back_the_time_spent_waiting() {
    let mut scene = Scene::new(1, 1, 3);
    scene.simulation.world.pass(3_000);
    scene.ends("A1", JobOutcome::Refused { reason: "rate limit".into(), retry_after: None });
    let spent = scene.simulation.world.recorded().control.spent.as_ref().map(|spent| spent.seconds);
    assert_eq!(spent, Some(3_000));
}

/// D25, D23: of two rivals that had both landed when the process died, the loser stayed on the branch.
#[test]
fn what_landed_beside_a_winner_before_a_crash_is_reverted() {
    let mut scene = Scene::with(2, 2, 3, |state| {
        let choices: Vec<AtomId> = state.atoms.keys().cloned().collect();
        let (group, selected) = (GroupName::new("g"), choices[0].clone());
        state.atoms_mut().for_each(|atom| atom.or_group = Some(group.clone()));
        let entry = OrGroup { choices, selected, failed: Vec::new(), speculative: Some(true) };
        state.or_groups.insert(group, entry);
    });
    scene.ends("A1", done());
    for flight in scene.simulation.world.flights().to_vec() {
        let _ = scene.simulation.world.commit(&flight.job.id);
    }
    scene.simulation.restart();
    scene
        .simulation
        .begin(RedirectLock::Free, Crash::Never)
        .unwrap_or_else(|violation| panic!("{violation}"));
    let left: Vec<&str> = scene.simulation.world.branch().iter().map(|commit| commit.atom.as_str()).collect();
    assert_eq!(left, ["A1"]);
}

/// D2, D31: a reset went through a sleeping choice to a parent that did not rest on it, and nothing ever resolved the
/// parent again.
#[test]
fn what_a_sleeping_choice_rests_on_can_be_undone_without_its_parent() {
    // A1 -> [A2 | A3], A3 <- A4: A2 is selected, so A1 does not rest on A4.
    let mut scene = Scene::with(4, 2, 3, |state| {
        let ids: Vec<AtomId> = state.atoms.keys().cloned().collect();
        let (group, choices) = (GroupName::new("g"), vec![ids[1].clone(), ids[2].clone()]);
        choices
            .iter()
            .for_each(|choice| Arc::make_mut(&mut state.atoms[choice]).or_group = Some(group.clone()));
        Arc::make_mut(&mut state.atoms[2]).depends_on = vec![ids[3].clone()];
        let reason = "too large".to_owned();
        let (parent, children) = (ids[0].clone(), choices.clone());
        state.decompositions.push(Decomposition { parent, children, reason });
        let selected = ids[1].clone();
        state.or_groups.insert(group, OrGroup { choices, selected, failed: Vec::new(), speculative: None });
    });
    scene.ends("A2", done());
    scene.lands("A2");
    scene.solves("A4");
    scene.send(Event::RedirectAsked);
    let mut ledger = Ledger::open(scene.simulation.world.recorded().clone(), Timestamp::UNIX_EPOCH);
    redirect(&mut ledger, vec![CorrectionRequest::Redo { atom: AtomId::new("A4"), hint: String::new() }])
        .expect("A4 is resolved");
    let state = Box::new(ledger.close().0);
    assert_eq!(state.atoms[0].status, AtomStatus::Resolved);
    scene.send(Event::Redirected { state });
    scene.solves("A4");
    assert_eq!(scene.verdict(), None, "it is evaluated, and no deadlock");
}

/// D3, D15: a parent whose last open child was removed by hand was taken for a deadlock.
#[test]
fn a_parent_that_a_hand_left_without_work_resolves() {
    let mut scene = Scene::with(3, 2, 3, |state| {
        let ids: Vec<AtomId> = state.atoms.keys().cloned().collect();
        let (parent, children) = (ids[0].clone(), vec![ids[1].clone(), ids[2].clone()]);
        state.decompositions.push(Decomposition { parent, children, reason: "too large".into() });
    });
    scene.solves("A2");
    scene.send(Event::StopAsked { how: StopMode::Now, reason: None });
    let mut state = scene.simulation.world.recorded().clone();
    state.atoms.shift_remove("A3");
    state.decompositions[0].children.pop();
    scene.simulation.edited_while_stopped(state);
    scene.simulation.restart();
    scene
        .simulation
        .begin(RedirectLock::Free, Crash::Never)
        .unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(scene.simulation.world.recorded().atoms[0].status, AtomStatus::Resolved);
    assert_eq!(scene.verdict(), None);
}

/// A loop that a host's session drives, with so many independent atoms.
struct Hosted {
    simulation: Simulation,
}

impl Hosted {
    fn new(atoms: usize, limits: Constraints) -> Hosted {
        let mut state = plans::blank(limits);
        for number in 1..=atoms {
            let atom = Atom::new(AtomId::new(format!("A{number}")), "do it");
            state.add(atom);
        }
        let settings = Settings {
            agents: HOST_AGENTS,
            dispatch: Dispatch::OnRequest,
            trees: Trees::Separate,
            on_refused_start: OnRefusedStart::Park,
        };
        let mut simulation = Simulation::new(state, settings, Timestamp::UNIX_EPOCH, Tracing::Off);
        simulation.begin(RedirectLock::Free, Crash::Never).expect("it begins");
        let mut hosted = Hosted { simulation };
        hosted.evaluated(1);
        hosted
    }

    fn send(&mut self, event: Event) {
        self.simulation.send(event, Crash::Never).unwrap_or_else(|violation| panic!("{violation}"));
    }

    /// The evaluation under way finds so many red checks.
    fn evaluated(&mut self, red: usize) {
        let number = self.simulation.world.verifying().expect("an evaluation is under way");
        let red = vec![RedCheck { item: "check".into(), kind: None, reason: "red".into() }; red];
        let evaluation = Evaluation::Failed { red };
        self.send(Event::Verified { number, evaluation, usage: Usage::default() });
    }

    fn command(&mut self, command: Command) -> Vec<Effect> {
        self.simulation.command(command, Crash::Never).unwrap_or_else(|violation| panic!("{violation}"))
    }

    fn start(&mut self, atom: &str) -> Vec<Effect> {
        self.command(Command::Start(AtomId::new(atom)))
    }

    fn hand_in(&mut self, outcome: JobOutcome) {
        let job = self.simulation.world.flights()[0].job.id.clone();
        self.command(Command::HandIn(job, outcome, Usage::default()));
    }

    fn state(&self) -> &State {
        self.simulation.world.recorded()
    }
}

fn refusal(effects: &[Effect]) -> Option<&'static str> {
    effects.iter().find_map(|effect| match effect {
        Effect::Refuse(refusal) => Some(refusal.code()),
        _ => None,
    })
}

/// D9: a refused start closed the iteration, and the next turn was a stall.
#[test]
fn a_refused_start_of_a_host_changes_nothing() {
    let mut hosted = Hosted::new(2, plans::limits(1, 1, 3));
    hosted.start("A1");
    hosted.hand_in(JobOutcome::Failed { reason: "could not".into() });
    let before = hosted.state().clone();
    assert_eq!(refusal(&hosted.start("A2")), Some("iteration_limit"));
    assert_eq!(*hosted.state(), before);
}

/// D12: a host could start agents after the wall time.
#[test]
fn a_host_starts_nothing_after_its_time() {
    let limits = Constraints { max_wall_time: Some(Span::from_seconds(60)), ..plans::limits(2, 5, 3) };
    let mut hosted = Hosted::new(2, limits);
    hosted.simulation.world.pass(59);
    assert_eq!(refusal(&hosted.start("A1")), None);
    hosted.simulation.world.pass(1);
    assert_eq!(refusal(&hosted.start("A2")), Some("budget_spent"));
}

/// D13: the check of a parent was no start to the rule that refuses all of them.
#[test]
fn a_host_starts_no_check_after_a_stop() {
    let mut hosted = Hosted::new(3, plans::limits(2, 5, 3));
    let mut state = hosted.state().clone();
    let (parent, children) = (AtomId::new("A1"), vec![AtomId::new("A2")]);
    Arc::make_mut(&mut state.atoms[&parent]).check = Some(plans::judged(0));
    state.decompositions.push(Decomposition { parent, children, reason: "too large".into() });
    hosted.simulation.write_elsewhere(state);
    hosted.start("A3");
    hosted.start("A2");
    let job = JobId { task: Task::Work(AtomId::new("A2")), attempt: 1 };
    hosted.command(Command::HandIn(job.clone(), done(), Usage::default()));
    let binding = hosted.simulation.world.commit(&job);
    hosted.send(Event::Landed { job, binding, usage: Usage::default() });
    hosted.command(Command::Stop(StopMode::Finish));
    assert_eq!(refusal(&hosted.start("A1")), Some("stop_requested"));
}

/// D23: a command died after its landing; the next one took the commit for unwanted, or did the work again.
#[test]
fn a_landing_whose_command_died_is_recorded_by_the_next() {
    let mut hosted = Hosted::new(2, plans::limits(1, 5, 3));
    hosted.start("A1");
    hosted.hand_in(done());
    let job = hosted.simulation.world.flights()[0].job.id.clone();
    let _ = hosted.simulation.world.commit(&job);
    hosted.simulation.command_died();
    assert_eq!(hosted.state().atoms[0].status, AtomStatus::InProgress);
    hosted.command(Command::EndTurn);
    assert_eq!(hosted.state().atoms[0].status, AtomStatus::Resolved);
    assert_eq!(hosted.simulation.world.branch().len(), 1);
}

/// D9: an atom that a verb adds beside a loop has moved the count of the file already.
#[test]
fn what_a_verb_adds_beside_a_loop_is_counted_once() {
    let mut scene = Scene::new(2, 1, 3);
    scene.ends("A1", JobOutcome::Failed { reason: "could not".into() });
    let before = scene.simulation.world.recorded().control.prev_pending_count;
    let mut ledger = Ledger::open(scene.simulation.world.recorded().clone(), Timestamp::UNIX_EPOCH);
    let new = NewAtom { description: "something more".into(), ..NewAtom::default() };
    reshape::add(&mut ledger, new).expect("it depends on nothing");
    let state = ledger.close().0;
    assert_eq!(state.control.prev_pending_count, before + 1);
    scene.send(Event::Edited { state: Box::new(state) });
    assert_eq!(scene.simulation.world.recorded().control.prev_pending_count, before + 1);
}

/// D11: a host's turn ended at the stall limit, and its close saw progress: the loop halted as stalled all the same.
#[test]
fn a_turn_that_closes_with_progress_is_no_stall() {
    let mut hosted = Hosted::new(2, plans::limits(1, 9, 1));
    hosted.command(Command::EndTurn);
    hosted.command(Command::EndTurn);
    assert_eq!(hosted.state().control.stall_count, 1);
    // A person removes an atom with an editor: the count falls, and nobody has moved the mark.
    let mut state = hosted.state().clone();
    state.atoms.shift_remove("A2");
    hosted.simulation.write_elsewhere(state);
    hosted.command(Command::EndTurn);
    assert_eq!(hosted.state().control.stall_count, 0);
    assert!(hosted.simulation.world.halted().is_none());
}
