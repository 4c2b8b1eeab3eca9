//! The sentences that a host's session and its agents read. Makes them of facts, and decides nothing.

use aot_core::brief::Unreadable;
use aot_core::hook::{Denial, HostRole, Instruction, ReadyAtom, TurnReport};
use aot_core::rules::Change;
use aot_core::rules::certificate::{Budget, Certificate, RedCheck, StopKind};
use aot_core::rules::plan::ReplanReason;
use aot_core::state::{AtomId, Check, Checks, Graph, LoopStatus, State};
use aot_runner::session::IterationNews;

use crate::text::counted;

/// How many characters of a text that others wrote are repeated.
const TEXT_LIMIT: usize = 240;
/// How many entries a list shows.
const LISTED: usize = 8;

/// The reason beside a permission.
pub const ALLOWED: &str = "aot: it is a step of the loop";
pub const ASK_PERSON: &str = "this speaks for a person";

pub fn denial(denial: &Denial) -> String {
    let of = |role: &HostRole, text: &str| format!("the {} {text}", role.word());
    match denial {
        Denial::Redirecting => "the loop is being redirected: end now, what you did is discarded".into(),
        Denial::LoopStopped => "the loop has stopped: end now, what you do does not count any more".into(),
        Denial::CoordinatorReplaced => "the coordinator has been replaced by another one: end now".into(),
        Denial::AttemptEnded { tree } => {
            format!("{tree} was taken from you: end now, what you did there is discarded")
        }
        Denial::StateFile => {
            "only the program writes the state of the loop; use its verbs: `aot atom`, `aot or` and \
                              `aot redirect`"
                .into()
        }
        Denial::Protected { path } => {
            format!("`{path}` is protected: it was agreed on and must not change")
        }
        Denial::UnusedTree { tree } => {
            format!("no attempt uses the tree {tree} any more: what is written there is lost")
        }
        Denial::OtherWorkersTree => "that is the tree of another worker: work in your own".into(),
        Denial::OutsideTree { trees } => format!("work in the tree that your brief names, below {trees}"),
        Denial::ToolNotForRole(role) => of(role, "may not use this tool"),
        Denial::WritesNoFiles(role) => of(role, "writes no files"),
        Denial::OnlyReads(role) => of(role, "only reads"),
        Denial::ChangesNoLoop(role) => {
            of(role, "does not change the loop: end with your answer, the coordinator does the rest")
        }
        Denial::NotCoordinatorsDecision => {
            "the coordinator neither interrupts the loop nor takes it up: end your turn".into()
        }
        Denial::CoordinatorRestricted => {
            "the coordinator may not bring commands to run, or redirect; say what is needed".into()
        }
        Denial::CoordinatorUsesVerbs => {
            "the coordinator uses the verbs of `aot`, one for each command, and leaves the work to workers"
                .into()
        }
        Denial::VerifierRunsChecks => {
            "the verifier runs the checks of the base case and reads; `aot verify` runs them all".into()
        }
        Denial::OnlyVerifierJudges(role) => of(role, "does not judge: aot-verifier does"),
        Denial::NeedsPerson(role) => of(role, "does not speak for a person: end and say what is needed"),
        Denial::StartsNoAgents(role) => of(role, "starts no agents"),
        Denial::StartsNoLoopAgents(role) => of(role, "starts no agents of the loop"),
        Denial::CoordinatorStartsLoopAgents => {
            "the coordinator starts aot-worker, aot-probe, aot-verifier".into()
        }
        Denial::TurnLimit { agents } => {
            format!("{agents} agents were started in this turn, and no more may be: end your turn")
        }
        Denial::TreeBusy { tree } => {
            format!("a worker works in {tree} already: wait for its answer, or start another atom")
        }
        Denial::NoAtomInProgress => {
            "the prompt of a worker names an atom that is in progress: `aot atom start ID` first".into()
        }
    }
}

/// Asks an agent for its answer again.
pub fn wrong_form(role: HostRole, fault: &Unreadable) -> String {
    let fields = match role {
        HostRole::Probe => "`feasible`, `findings`, `cost_estimate`",
        HostRole::Worker => "`success`, `summary`, `artifacts`, `reason`, `too_large`",
        HostRole::Verifier => "`passed`, `evidence`, `failures`",
        HostRole::Coordinator => "its fields",
    };
    format!("End with exactly one JSON object with {fields}, and nothing else. What was wrong:\n{fault}")
}

/// The whole next instruction for the agent that coordinates.
pub fn instruction(next: &Instruction) -> String {
    let mut text = format!(
        "The loop is not done: {} of {} unresolved, iteration {} of {}.\nGoal: {}\n",
        next.unresolved,
        counted(next.atoms as u64, "atom"),
        next.iteration,
        next.max_iterations,
        shortened(&next.goal)
    );
    if !next.red.is_empty() {
        text += "Every atom is resolved, and the program saw these checks of the base case fail:\n";
        text += &red_list(&next.red);
    }
    for item in next.to_judge.iter().take(LISTED) {
        let item = aot_runner::checks::quoted(item);
        text += &format!(
            "Have it judged: start aot-verifier with the prompt \"Judge: `aot judge {item}` is your brief; hand the scores \
             in.\", and end your turn when it has answered.\n"
        );
    }
    for note in next.notes.iter().take(LISTED) {
        text += &format!("Note: {}\n", shortened(note));
    }
    if next.stall_count > 0 {
        text += &format!(
            "STALLED: no progress for {} of at most {} iterations; then the loop stops.\n",
            next.stall_count, next.max_stall_count
        );
    }
    if !next.in_progress.is_empty() {
        let named: Vec<&str> = next.in_progress.iter().take(LISTED).map(|id| id.as_str()).collect();
        text += &format!(
            "In progress: {}. When a worker has ended, look at its answer, then `aot atom resolve ID` or `aot atom fail \
             ID`; what is not handed in is given up.\n",
            named.join(", ")
        );
    }
    if next.stop_requested {
        text += "A stop was asked for: nothing new may start. End your turn when nothing is in progress.";
        return text;
    }
    // What nobody has judged needs a verifier, and no other plan.
    let replan = next
        .replan
        .iter()
        .filter(|why| next.to_judge.len() < next.red.len() || !matches!(why, ReplanReason::Red { .. }));
    replan.take(LISTED).for_each(|why| text += &change_of_plan(why));
    if !next.ready.is_empty() {
        let at_once = (next.max_parallel_agents as usize).clamp(1, LISTED).min(next.ready_count);
        text += &format!("Ready, the first {at_once} at a time:\n");
        text += &list(next.ready.iter().map(ready_atom), next.ready_count);
        text += "Start each with `aot atom start ID`, send the workers together in one message, then `aot atom resolve` \
                 or `aot atom fail` for each. ";
    }
    text + "End your turn when nothing is in progress. Only the program completes the loop, by running the base case."
}

fn change_of_plan(why: &ReplanReason) -> String {
    match why {
        ReplanReason::Failing { atom } => format!(
            "{atom} keeps failing: change its plan. Decompose it (`aot atom decompose {atom} --child DESCRIPTION`), add another way \
             (`aot atom add DESCRIPTION --or-group GROUP`, `aot or add`), or take an earlier choice back (`aot or switch`).\n"
        ),
        ReplanReason::TooLarge { atom, reason } => {
            format!(
                "{atom} is too large ({}): `aot atom decompose {atom} --child DESCRIPTION`.\n",
                shortened(reason)
            )
        }
        ReplanReason::Infeasible { atom, findings } => {
            format!("{atom} cannot be done as described ({}): change its plan.\n", shortened(findings))
        }
        ReplanReason::Stalling => {
            "One more iteration without progress and no plan is changed any more.\n".into()
        }
        ReplanReason::Red { .. } => {
            "Find out why, and add what is missing: `aot atom add \"DESCRIPTION\" --check \"COMMAND\"`.\n"
                .into()
        }
    }
}

fn ready_atom(atom: &ReadyAtom) -> String {
    if atom.decomposed {
        return format!("{}: its parts are resolved; starting it runs its own check", atom.id);
    }
    let mut text = format!("{}: {}", atom.id, shortened(&atom.description));
    for (id, summary) in &atom.builds_on {
        text += &format!("\n  builds on {id}: {}", shortened(summary));
    }
    if let Some(checks) = &atom.check {
        text += &format!("\n  proven by: {}", proof(checks));
    }
    if let Some(reason) = &atom.last_failure {
        text += &format!("\n  failed {} times, last: {}", atom.failures, shortened(reason));
    }
    if atom.probe_first {
        text += "\n  send aot-probe first, and give its findings to the worker";
    }
    if atom.runs_command {
        text += "\n  solved by a command: `aot atom start` runs it, no worker is needed";
    }
    text
}

fn proof(checks: &Checks) -> String {
    let one = |check: &Check| match check {
        Check::Command { value } => format!("`{}`", shortened(value)),
        Check::NotCommand { value } => format!("`{}` fails", shortened(value)),
        Check::File { value } => format!("{} exists", shortened(value)),
        Check::NotFile { value } => format!("{} does not exist", shortened(value)),
        Check::Assertion { value } => format!("a person: {}", shortened(value)),
        Check::Quality(_) => "a judge".to_owned(),
    };
    let leaves: Vec<&Check> = checks.leaves().collect();
    let mut parts: Vec<String> = leaves.iter().take(LISTED).map(|check| one(check)).collect();
    if leaves.len() > LISTED {
        parts.push(format!("{} more", leaves.len() - LISTED));
    }
    parts.join("; ")
}

/// For a loop whose judge is an agent of the session.
pub const NO_JUDGE: &str = "the base case has a `quality` check, and there is no judge: aot-verifier scores it in this \
                            session; an agent named as `judge` in aot.toml would do so from outside";

/// For a user whose checkout has edits.
pub fn uncommitted(paths: &[String]) -> String {
    format!(
        "uncommitted changes in {}: work that touches them cannot land, and the loop is completed only on what is \
         committed. Commit them, or type `git stash`",
        first_of(paths)
    )
}

/// For a user whose loop is done with files that only this folder has.
pub fn untracked(paths: &[String]) -> String {
    format!(
        "no commit has these files, and the checks could see them: {}. Commit what belongs to it",
        first_of(paths)
    )
}

fn first_of(paths: &[String]) -> String {
    let more = match paths.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", paths[..paths.len().min(LISTED)].join(", "))
}

/// For a user whose edits keep a result from landing.
pub fn blocked(atom: &AtomId, reason: &str) -> String {
    format!("aot: {atom} is done and cannot land: {}. Commit or undo that, and it lands", shortened(reason))
}

/// For a user who is asked before each edit.
pub const EDITS_ASK: &str = "aot: in this mode every edit of a worker asks you, below `.aot/trees`; shift+tab accepts \
                             edits for this session";

/// While a person changes the direction.
pub const HELD: &str = "aot: the loop is held for your change. Say what should be different, or type `/aot:redirect cancel` \
                        to let it go on as it was.";

/// Asks the session for a coordinator, while its loop runs and has none. The user sees it too, so it is one sentence.
pub fn start_coordinator(next: &Instruction) -> String {
    format!(
        "aot: the loop goes on ({}). Start a fresh coordinator: Agent, subagent_type `aot:aot-coordinator`, \
         run_in_background true, prompt \"Go on with the loop.\"",
        position(next.iteration, next.max_iterations, next.unresolved)
    )
}

fn position(iteration: u32, max_iterations: u32, unresolved: usize) -> String {
    format!("iteration {iteration} of {max_iterations}, {unresolved} left")
}

/// What the user reads before the first agent starts: the bound, and how the checks stand if they were looked at.
pub fn entered(bound: &str, looked: Option<(&TurnReport, usize)>) -> String {
    let Some((seen, checks)) = looked else { return format!("aot: {bound}") };
    let red: Vec<String> = seen.red.iter().take(LISTED).map(|red| shortened(&red.item)).collect();
    let looked = match (checks, red.len()) {
        (_, 0) => "no check is red".to_owned(),
        (checks, red_count) if red_count >= checks => format!("red now: {}", red.join(", ")),
        (checks, red_count) => {
            format!("{} of {checks} checks hold, red now: {}", checks - red_count, red.join(", "))
        }
    };
    format!("aot: {bound}; {looked}")
}

/// One iteration, in a line for the user.
pub fn iteration(news: &IterationNews) -> String {
    let mut parts = Vec::new();
    let mut named = |ids: Vec<&str>, what: &str| {
        if !ids.is_empty() {
            parts.push(format!("{} {what}", ids.join(", ")));
        }
    };
    let changes = || news.changes.iter();
    let resolved = changes().filter_map(|change| match change {
        Change::AtomResolved { atom, .. } => Some(atom.as_str()),
        _ => None,
    });
    named(resolved.collect(), "resolved");
    let failed = changes().filter_map(|change| match change {
        Change::FailureNoted { atom, .. } => Some(atom.as_str()),
        Change::ChoiceFailed { choice, .. } => Some(choice.as_str()),
        _ => None,
    });
    named(failed.collect(), "failed");
    let returned = changes().filter_map(|change| match change {
        Change::AtomReturned { atom, .. } => Some(atom.as_str()),
        _ => None,
    });
    named(returned.collect(), "pending again");
    // The children of a decomposition are added right before it.
    let is_child = |at: usize, id: &AtomId| {
        let next = news.changes[at..].iter().find_map(|change| match change {
            Change::Decomposed { children, .. } => Some(children),
            _ => None,
        });
        next.is_some_and(|children| children.contains(id))
    };
    let added = changes().enumerate().filter_map(|(at, change)| match change {
        Change::AtomAdded { atom } if !is_child(at, &atom.id) => Some(atom.id.as_str()),
        _ => None,
    });
    named(added.collect(), "added");
    for change in changes() {
        match change {
            Change::ChoiceSelected { group, choice, .. } => {
                parts.push(format!("{group} switches to {choice}"))
            }
            Change::Decomposed { parent, children, .. } => {
                let children: Vec<&str> = children.iter().map(|child| child.as_str()).collect();
                parts.push(format!("{parent} decomposed into {}", children.join(", ")));
            }
            Change::DecompositionWithdrawn { parent } => parts.push(format!("{parent} is whole again")),
            Change::IterationClosed { stall_count, .. } if *stall_count > 0 => {
                parts.push(format!("no progress ({stall_count} in a row)"));
            }
            _ => {}
        }
    }
    let left = changes().find_map(|change| match change {
        Change::IterationClosed { unresolved, .. } => Some(*unresolved),
        _ => None,
    });
    let happened = if parts.is_empty() { "nothing was resolved".to_owned() } else { parts.join("; ") };
    format!(
        "aot: iteration {}: {happened}; {} left, at most {} agent runs",
        news.iteration,
        left.unwrap_or_default(),
        news.agent_runs_left
    )
}

/// The end of a loop, in words that may stand as they are.
pub fn halted(certificate: &Certificate) -> String {
    let mut text = headline(certificate);
    if !certificate.red.is_empty() {
        text += &format!("\nRed:\n{}", red_list(&certificate.red).trim_end());
    }
    for step in chat_steps(&certificate.verdict, certificate.iterations) {
        text += &format!("\nNext: {step}");
    }
    text
}

/// Asks the model to say how the loop ended, after it may have said something else.
pub fn tell_user(certificate: &Certificate) -> String {
    format!("aot: {} Tell the user exactly that.", headline(certificate))
}

fn headline(certificate: &Certificate) -> String {
    match certificate.exit {
        0 => "The loop is COMPLETED: the program ran the checks, and all pass.".to_owned(),
        _ => format!("The loop has STOPPED, and is not completed: {}.", shortened(&certificate.reason)),
    }
}

/// What to type in the chat after a halt. The verbs of the shell may not be on the user's path.
fn chat_steps(verdict: &StopKind, iterations: u32) -> Vec<String> {
    match verdict {
        StopKind::Completed => Vec::new(),
        StopKind::StoppedByHand | StopKind::RedirectInterrupted | StopKind::NoAgent { .. } => {
            vec!["/aot:enter-recursion".into()]
        }
        StopKind::Tampered => vec![
            "undo the change, then /aot:enter-recursion".into(),
            "/aot:redirect accept the change".into(),
        ],
        StopKind::Exhausted { group } => {
            vec![format!("/aot:redirect add another way to {group}: DESCRIPTION")]
        }
        StopKind::Stalled => vec!["/aot:redirect WHAT TO CHANGE".into(), "/aot:enter-recursion".into()],
        StopKind::IterationLimit => {
            vec![format!("/aot:redirect allow {} iterations", iterations.max(1).saturating_mul(2))]
        }
        StopKind::Budget { what } => match what {
            Budget::Money => vec!["/aot:redirect raise max_cost_usd to LIMIT".into()],
            Budget::Tokens => vec!["/aot:redirect raise max_tokens to LIMIT".into()],
            Budget::Time => vec!["/aot:redirect raise max_wall_time to LIMIT".into()],
            Budget::Allowance => vec!["/aot:enter-recursion, when the limit has lifted".into()],
        },
        StopKind::Deadlock { atoms } => {
            let first = atoms.first().map_or("ATOM", |atom| atom.as_str());
            vec![format!("/aot:redirect leave out {first}")]
        }
        StopKind::NeedsPerson => vec!["settle what is named above, then /aot:enter-recursion".into()],
    }
}

/// Where the loop is, in a line.
pub fn status_line(state: &State) -> String {
    let control = &state.control;
    match control.status {
        LoopStatus::Completed => {
            "The loop is completed: the program ran the checks, and all pass.".to_owned()
        }
        LoopStatus::Stopped => {
            let reason = control.stop_reason.as_deref().unwrap_or("stopped");
            let verdict = control.verdict.as_ref().unwrap_or(&StopKind::StoppedByHand);
            let next = chat_steps(verdict, control.iteration).into_iter().next();
            let next = next.map(|step| format!(" Next: {step}")).unwrap_or_default();
            format!("The loop has stopped and is not completed: {}.{next}", shortened(reason))
        }
        LoopStatus::Running => format!(
            "The loop is running and not completed: iteration {} of {}, {} not resolved.",
            control.iteration,
            state.constraints().max_iterations,
            counted(Graph::new(state).unresolved(state) as u64, "atom")
        ),
        LoopStatus::Pending => "The loop has not begun.".to_owned(),
    }
}

/// What a session learns when it begins in a folder with a loop; `None` if the loop does not concern it.
pub fn welcome(state: &State, session: &str) -> Option<String> {
    let goal = shortened(&state.objective.goal);
    let owner = state.control.session.as_deref();
    let what_to_do = match (state.control.status, owner) {
        (LoopStatus::Running, Some(owner)) if owner == session => {
            return Some(format!("This session drives the aot loop \"{goal}\". {}", status_line(state)));
        }
        (_, Some(owner)) if owner == session => return None,
        (LoopStatus::Completed, _) => return None,
        (LoopStatus::Running, Some(_)) => {
            "It belongs to another session; leave it alone. Only if the user wants to take it over: \
             `/aot:enter-recursion take over`."
        }
        (LoopStatus::Running, None) => {
            "No session drives it. If the user wants to go on here: `/aot:enter-recursion`."
        }
        (LoopStatus::Stopped | LoopStatus::Pending, _) => {
            "If the user wants to run it here: `/aot:enter-recursion`."
        }
    };
    Some(format!("There is an aot loop in this folder: \"{goal}\". {} {what_to_do}", status_line(state)))
}

fn red_list(red: &[RedCheck]) -> String {
    list(red.iter().map(|red| format!("{}: {}", red.item, shortened(&red.reason))), red.len())
}

fn list(lines: impl Iterator<Item = String>, count: usize) -> String {
    let shown: Vec<String> = lines.take(LISTED).map(|line| format!("- {line}\n")).collect();
    let more = count - shown.len();
    let more = if more > 0 { format!("- and {more} more\n") } else { String::new() };
    shown.concat() + &more
}

/// A text of others in one line of bounded length.
fn shortened(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match flat.char_indices().nth(TEXT_LIMIT) {
        Some((at, _)) => format!("{}…", flat[..at].trim_end()),
        None => flat.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests;
