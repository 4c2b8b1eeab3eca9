//! What can happen to a loop that a host's session drives: every command that the session can give, every outcome of
//! what a command does itself, crashes around each, redirects and edits in between.

use aot_core::coordinator::{
    CheckOutcome, Effect, Event, JobId, JobOutcome, Obstacle, RedirectLock, StopMode, Task, Usage,
};
use aot_core::rules::Ledger;
use aot_core::rules::reshape::{self, NewAtom};
use aot_core::state::State;
use jiff::Timestamp;

use super::{Move, Node, Progress, job_moves, redirected};
use crate::audit::Violation;
use crate::shapes::Groups;
use crate::simulation::{Command, Crash};
use crate::world::Phase;

/// While a command's process is at work: the host's workers wait for the next command.
pub(super) fn process_moves(node: &Node, groups: Groups) -> Vec<Move> {
    let by_a_worker = |next: &Move| {
        let Move::Send(event, _) = next else { return false };
        matches!(&**event, Event::Ended { job: JobId { task: Task::Work(_), .. }, .. })
    };
    let mut moves = job_moves(node, groups);
    moves.retain(|next| !by_a_worker(next));
    moves
}

/// Between two commands.
pub(super) fn command_moves(node: &Node) -> Vec<Move> {
    let state = node.simulation.world.recorded();
    let left = &node.left;
    let mut moves = Vec::new();
    if state.control.redirect_requested {
        moves.extend(redirected(state).map(|state| Move::Write(Box::new(state))));
        moves.push(Move::Command(Command::AbandonRedirect, Crash::Never));
        let starts = state.atoms.keys().map(|atom| Command::Start(atom.clone()));
        moves.extend(starts.map(|start| Move::Command(start, Crash::Never)));
        return moves;
    }
    let mut commands: Vec<Command> = state.atoms.keys().map(|atom| Command::Start(atom.clone())).collect();
    for flight in node.simulation.world.flights().iter().filter(|flight| flight.phase == Phase::Working) {
        let hand_in = |outcome| Command::HandIn(flight.job.id.clone(), outcome, Usage::default());
        let (summary, artifacts, check) = ("done".into(), Vec::new(), CheckOutcome::None);
        commands.push(hand_in(JobOutcome::Done { summary, artifacts, check }));
        commands.push(hand_in(JobOutcome::Failed { reason: "could not".into() }));
        if left.refusals > 0 {
            commands.push(hand_in(JobOutcome::NotStarted {
                obstacle: Obstacle::World,
                reason: "no space left on device".into(),
            }));
        }
    }
    commands.push(Command::EndTurn);
    for command in commands {
        moves.push(Move::Command(command.clone(), Crash::Never));
        if left.crashes > 0 {
            moves.extend([0, 1].map(|effects| Move::Command(command.clone(), Crash::After(effects))));
        }
    }
    if left.crashes > 0 {
        // The session is gone, and another one takes the loop over.
        moves.push(Move::Crash(RedirectLock::Free));
    }
    if left.redirects > 0 {
        moves.push(Move::HoldRedirect);
    }
    if left.stops > 0 {
        moves.push(Move::Command(Command::Stop(StopMode::Finish), Crash::Never));
        moves.push(Move::Command(Command::Stop(StopMode::Now), Crash::Never));
    }
    if left.edits > 0 {
        moves.push(Move::Write(Box::new(with_one_more(state))));
    }
    moves
}

pub(super) fn command(node: &mut Node, command: Command, crash: Crash) -> Result<Progress, Violation> {
    node.left.stops -= u8::from(matches!(command, Command::Stop(_)));
    let unstarted = matches!(command, Command::HandIn(_, JobOutcome::NotStarted { .. }, _));
    node.left.refusals -= u8::from(unstarted);
    let effects = node.simulation.command(command, crash)?;
    let refused = effects.iter().any(|effect| matches!(effect, Effect::Refuse(_)));
    Ok(match crash {
        Crash::Never if refused => Progress::Refused,
        Crash::Never => Progress::Made,
        Crash::After(_) => command_dies(node),
    })
}

pub(super) fn command_dies(node: &mut Node) -> Progress {
    node.left.crashes -= 1;
    node.simulation.command_died();
    Progress::Made
}

fn with_one_more(state: &State) -> State {
    let mut ledger = Ledger::open(state.clone(), Timestamp::UNIX_EPOCH);
    let new = NewAtom { description: "something more".into(), ..NewAtom::default() };
    reshape::add(&mut ledger, new).expect("an atom without dependencies can be added");
    ledger.close().0
}
