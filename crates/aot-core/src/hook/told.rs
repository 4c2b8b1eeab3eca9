//! What a host's agents are told: the next instruction, the end, the news for a session. Says what rules decided, and
//! decides nothing.

use super::Role;
use crate::rules::Ledger;
use crate::rules::certificate::{Certificate, RedCheck, next_steps};
use crate::rules::memory::Memory;
use crate::rules::plan::{self, FAILURES_FOR_A_PROBE, ReplanReason};
use crate::state::{AtomId, AtomStatus, Check, Checks, LoopStatus, State, Target, TrailEntry};

/// Of a foreign text so many characters are told.
const TEXT_TOLD: usize = 240;
/// So many of anything are told.
const LISTED: usize = 8;

/// What was seen since the last instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Checks of the base case that did not pass, if it was evaluated.
    pub red: Vec<RedCheck>,
    /// What else there is to say: a conflict, a commit that stays.
    pub notes: Vec<String>,
}

/// The whole next instruction for whoever coordinates.
pub fn next(ledger: &Ledger, seen: &Seen) -> String {
    let (state, frontier) = (ledger.state(), ledger.frontier());
    let (control, constraints) = (&state.control, state.constraints());
    let unresolved = frontier.unresolved();
    let mut text = format!(
        "The loop is not done: {unresolved} of {} atoms unresolved, iteration {} of {}.\nGoal: {}\n",
        state.atoms.len(),
        control.iteration,
        constraints.max_iterations,
        cut(&state.objective.goal)
    );
    let red = (unresolved == 0 && !seen.red.is_empty()).then_some(seen.red.as_slice());
    if let Some(red) = red {
        text += "Every atom is resolved, and the program saw these checks of the base case fail:\n";
        text += &list(red.iter().map(|red| format!("{}: {}", red.item, cut(&red.reason))), red.len());
    }
    for note in seen.notes.iter().take(LISTED) {
        text += &format!("Note: {}\n", cut(note));
    }
    if control.stall_count > 0 {
        text += &format!(
            "STALLED: no progress for {} of at most {} iterations; then the loop stops.\n",
            control.stall_count, constraints.max_stall_count
        );
    }
    let open = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
    let open: Vec<&str> = open.map(|atom| atom.id.as_str()).collect();
    if !open.is_empty() {
        let named = open.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        text += &format!(
            "In progress: {named}. When a worker has ended, look at its answer, then `aot atom resolve ID` or `aot atom \
             fail ID`; what nobody hands in is given up.\n"
        );
    }
    if control.stop_requested {
        text += "A stop was asked for: nothing new may start. End your turn when nothing is in progress.";
        return text;
    }
    text += &strategy(&plan::replan_reasons(ledger, &Memory::default(), red));
    let ready: Vec<usize> = frontier.due().chain(frontier.ready()).collect();
    if !ready.is_empty() {
        let shown = (constraints.max_parallel_agents as usize).clamp(1, LISTED);
        text += &format!("Ready, the first {} at a time:\n", shown.min(ready.len()));
        text += &list(ready.iter().take(LISTED).map(|place| brief(ledger, *place)), ready.len());
        text += "Start each with `aot atom start ID`, send the workers together in one message, then `aot atom resolve` \
                 or `aot atom fail` for each. ";
    }
    text += "End your turn when nothing is in progress. Only the program completes the loop, by running the base case.";
    text
}

/// What the ladder asks for (D11).
fn strategy(due: &[ReplanReason]) -> String {
    let mut text = String::new();
    for why in due.iter().take(LISTED) {
        match why {
            ReplanReason::Failing { atom } => {
                text += &format!(
                    "{atom} keeps failing: change its plan. Cut it (`aot atom decompose {atom} --child …`), add another \
                     way (`aot atom add … --or-group …`, `aot or add`), or take an earlier choice back (`aot or switch`).\n"
                );
            }
            ReplanReason::TooLarge { atom, reason } => {
                text += &format!(
                    "{atom} is too large ({}): `aot atom decompose {atom} --child …`.\n",
                    cut(reason)
                );
            }
            ReplanReason::Stalling => {
                text += "One more iteration without progress and no plan is changed any more.\n"
            }
            ReplanReason::Red { .. } => {
                text += "Find out why, and add what is missing: `aot atom add \"…\" --check \"…\"`.\n";
            }
        }
    }
    text
}

/// One ready atom: what it is, what it builds on, how it failed, what proves it.
fn brief(ledger: &Ledger, place: usize) -> String {
    let (state, graph) = (ledger.state(), ledger.graph());
    let atom = ledger.atom(place);
    if graph.is_decomposed(place) {
        return format!("{}: its parts are resolved; starting it runs its own check", atom.id);
    }
    let mut line = format!("{}: {}", atom.id, cut(&atom.description));
    let direct = graph.depends(place).iter().map(|target| match target {
        Target::Atom(at) => ledger.id(*at),
        Target::Group(group) => ledger.group_at(*group).1.selected.clone(),
    });
    for id in direct {
        if let Some(binding) = state.bindings.get(&id) {
            line += &format!("\n  builds on {id}: {}", cut(&binding.summary));
        }
    }
    if let Some(checks) = &atom.check {
        line += &format!("\n  proven by: {}", proof(checks));
    }
    let failures = ledger.tally().failures(&atom.id);
    if let Some(reason) = last_failure(state, &atom.id).filter(|_| failures > 0) {
        line += &format!("\n  failed {failures} times, last: {}", cut(reason));
    }
    if failures >= FAILURES_FOR_A_PROBE || (atom.probe == Some(true) && failures == 0) {
        line += "\n  send aot-probe first, and give its findings to the worker";
    }
    if atom.run.is_some() {
        line += "\n  solved by a command: `aot atom start` runs it, no worker is needed";
    }
    line
}

/// What the program will look at.
fn proof(checks: &Checks) -> String {
    let one = |check: &Check| match check {
        Check::Command { value } => format!("`{}`", cut(value)),
        Check::NotCommand { value } => format!("`{}` fails", cut(value)),
        Check::File { value } => format!("{} exists", cut(value)),
        Check::NotFile { value } => format!("{} does not exist", cut(value)),
        Check::Assertion { value } => format!("a person: {}", cut(value)),
        Check::Quality(_) => "a judge".to_owned(),
    };
    let leaves: Vec<&Check> = checks.leaves().collect();
    let mut words: Vec<String> = leaves.iter().take(LISTED).map(|check| one(check)).collect();
    if leaves.len() > LISTED {
        words.push(format!("{} more", leaves.len() - LISTED));
    }
    words.join("; ")
}

fn last_failure<'s>(state: &'s State, id: &AtomId) -> Option<&'s str> {
    state.trail.iter().rev().find_map(|entry| match entry {
        TrailEntry::Failure { atom, reason, .. } if atom == id => Some(reason.as_str()),
        TrailEntry::Failure { .. }
        | TrailEntry::Selection { .. }
        | TrailEntry::Replan { .. }
        | TrailEntry::UserCorrection { .. } => None,
    })
}

/// What the session itself is told while its loop runs and nobody coordinates.
pub fn fresh_coordinator(instruction: &str) -> String {
    format!(
        "The loop of this session runs, and nobody coordinates it. Start a fresh one now: the Agent tool with \
         subagent_type `aot:aot-{}` and the prompt \"Go on with the loop.\" (To end the loop: `aot stop`.)\n\n{instruction}",
        Role::Coordinator.word()
    )
}

/// The end of a loop, in words that may stand as they are.
pub fn halted(certificate: &Certificate) -> String {
    let mut text = match certificate.exit {
        0 => "The loop is COMPLETED: the program ran the base case, and it holds.".to_owned(),
        _ => format!("The loop has STOPPED, and is not completed: {}.", certificate.reason),
    };
    if !certificate.red.is_empty() {
        text += "\nRed:\n";
        let red = certificate.red.iter().map(|red| format!("{}: {}", red.item, cut(&red.reason)));
        text += list(red, certificate.red.len()).trim_end();
    }
    for step in certificate.next.iter().take(3) {
        text += &format!("\nNext: {step}");
    }
    text
}

/// How the loop stands, in a line, for whoever might believe otherwise.
pub fn standing_line(state: &State) -> String {
    let left = state.atoms.values().filter(|atom| atom.status != AtomStatus::Resolved).count();
    match state.control.status {
        LoopStatus::Completed => {
            "The loop is completed: the program ran the base case, and it holds.".to_owned()
        }
        LoopStatus::Stopped => {
            let reason = state.control.stop_reason.as_deref().unwrap_or("stopped");
            let next =
                next_steps(state).into_iter().next().map(|step| format!(" Next: {step}")).unwrap_or_default();
            format!("The loop has stopped and is not completed: {}.{next}", cut(reason))
        }
        LoopStatus::Running => format!(
            "The loop is running and not completed: iteration {} of {}, {left} atoms not resolved.",
            state.control.iteration,
            state.constraints().max_iterations
        ),
        LoopStatus::Pending => "The loop has not begun.".to_owned(),
    }
}

/// What a session is told when it begins in a folder with a loop; `None` if there is nothing to tell.
pub fn welcome(state: &State, session: &str) -> Option<String> {
    let goal = cut(&state.objective.goal);
    let owner = state.control.session.as_deref();
    if owner == Some(session) {
        return match state.control.status {
            LoopStatus::Running => {
                Some(format!("This session drives the aot loop \"{goal}\". {}", standing_line(state)))
            }
            LoopStatus::Stopped | LoopStatus::Completed | LoopStatus::Pending => None,
        };
    }
    let how = match (state.control.status, owner) {
        (LoopStatus::Completed, _) => return None,
        (LoopStatus::Running, Some(_)) => {
            "It belongs to another session; leave it alone. Only if the user wants to take it over: \
             `/aot:enter-recursion take over`."
        }
        (LoopStatus::Running, None) => {
            "Nobody drives it from a session. If the user wants to go on here: `/aot:enter-recursion`."
        }
        (LoopStatus::Stopped | LoopStatus::Pending, _) => {
            "If the user wants to run it here: `/aot:enter-recursion`."
        }
    };
    Some(format!("There is an aot loop in this folder: \"{goal}\". {} {how}", standing_line(state)))
}

fn list(lines: impl Iterator<Item = String>, all: usize) -> String {
    let shown: Vec<String> = lines.take(LISTED).map(|line| format!("- {line}\n")).collect();
    let more = all.saturating_sub(shown.len());
    let more = if more > 0 { format!("- and {more} more\n") } else { String::new() };
    shown.concat() + &more
}

/// A foreign text in one line, cut where it is too long.
fn cut(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match flat.char_indices().nth(TEXT_TOLD) {
        Some((at, _)) => format!("{}…", flat[..at].trim_end()),
        None => flat.trim().to_owned(),
    }
}
