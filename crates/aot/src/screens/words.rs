//! A change in plain words, for the log and for whoever watches. Knows what a change says, and not when it happened.

use aot_core::rules::Change;
use aot_core::state::{AtomId, CorrectionKind, Failed, SelectionCause, headline};
use jiff::tz::TimeZone;

use super::clock;

/// What happened, in a line; `None` for bookkeeping that people need not see. `step` is everything that was recorded
/// in the same step: a failure is one line, although it is several changes.
pub fn sentence(change: &Change, step: &[Change]) -> Option<String> {
    match change {
        Change::LoopNamed { .. } | Change::StopWithdrawn => None,
        Change::LoopStarted => Some("the loop starts".into()),
        Change::StatusRestored => Some("a status typed into the file was not believed".into()),
        Change::SessionTaken { session: Some(_) } => Some("a host's session took the loop".into()),
        Change::SessionTaken { session: None } => Some("the host's session let the loop go".into()),
        Change::StopRequested { reason, now: false } => Some(with("a stop was asked for", reason.as_deref())),
        Change::StopRequested { reason, now: true } => {
            Some(with("a stop was asked for, at once", reason.as_deref()))
        }
        Change::BranchChosen { branch } => Some(format!("work lands on the branch {branch}")),
        Change::RedirectRequested => Some("a redirect begins: everything is interrupted".into()),
        Change::RedirectEnded => Some("the redirect is over".into()),
        Change::Stopped { reason, .. } => Some(with("the loop stopped", Some(reason))),
        Change::Completed => Some("the goal is proven done".into()),
        Change::WorkWanted { atoms } if atoms.is_empty() => {
            Some("the checks alone say when it is done".into())
        }
        Change::WorkWanted { atoms } => {
            Some(format!("{} will be done, although the checks may pass already", listed(atoms)))
        }
        Change::Parked { until, reason } => {
            let until = clock::time(until.at(), &TimeZone::system());
            Some(with(&format!("nothing can start; the next try is at {until}"), reason.as_deref()))
        }
        Change::Unparked => Some("starts are tried again".into()),
        Change::SpentSoFar { .. } => None,

        Change::IterationOpened => Some(match attempt_in(step) {
            Some(number) => format!("iteration {number} begins"),
            None => "the next iteration begins".into(),
        }),
        Change::ResultCounted | Change::IterationTakenBack => None,
        Change::IterationClosed { unresolved, stall_count: 0 } => {
            Some(format!("the iteration ends: {unresolved} unresolved"))
        }
        Change::IterationClosed { unresolved, stall_count } => {
            Some(format!("the iteration ends: {unresolved} unresolved, stalled {}", times(*stall_count)))
        }
        Change::StallCleared => Some("something was resolved: the stalls are forgotten".into()),
        Change::CountMoved { .. } => None,

        Change::AtomAdded { atom } => Some(with(&format!("{} is new", atom.id), Some(&atom.description))),
        Change::AtomRemoved { atom } => Some(format!("{atom} is removed")),
        Change::AtomStarted { atom, attempt: Some(attempt) } => {
            Some(format!("{atom} starts in iteration {attempt}"))
        }
        Change::AtomStarted { atom, attempt: None } => Some(format!("{atom} starts")),
        Change::AtomResolved { atom, binding } => {
            let nothing = if binding.unchanged { ", and no file was changed" } else { "" };
            Some(with(&format!("{atom} is resolved{nothing}"), Some(&binding.summary)))
        }
        Change::AtomReset { atom } if fails_in(atom, step) => None,
        Change::AtomReset { atom } => Some(format!("{atom} will be done again")),
        Change::ResultNotBelieved { atom, .. } => {
            Some(format!("{atom} was typed into the file as resolved, and was not believed"))
        }
        Change::AtomReturned { atom, reason } => {
            Some(with(&format!("{atom} is returned without a failure"), Some(reason)))
        }
        Change::AtomNotStarted { atom, reason } => {
            Some(with(&format!("{atom} could not be started"), Some(reason)))
        }
        Change::DependenciesSet { atom, depends_on } if depends_on.is_empty() => {
            Some(format!("{atom} waits for nothing now"))
        }
        Change::DependenciesSet { atom, depends_on } => {
            Some(format!("{atom} waits for {} now", listed(depends_on)))
        }
        Change::BindingSet { atom, binding } => {
            Some(with(&format!("{atom} has another result"), Some(&binding.summary)))
        }
        Change::FailureNoted { atom, reason } => {
            Some(with(&format!("{atom} failed"), Some(headline(reason))))
        }
        Change::ReplanNoted { atom, reason } => Some(with(&format!("{atom} has another plan"), Some(reason))),
        Change::PlanRefused { reason } => Some(with("another plan was refused", Some(headline(reason)))),

        Change::Decomposed { parent, children, reason } => {
            Some(with(&format!("{parent} is decomposed into {}", listed(children)), Some(reason)))
        }
        Change::ChildAdded { parent, child } => Some(format!("{parent} has one more part, {child}")),
        Change::ChildRemoved { parent, child } => Some(format!("{child} is no longer part of {parent}")),
        Change::DecompositionWithdrawn { parent } => Some(format!("{parent} is whole again")),

        Change::GroupAdded { group, entry } => Some(format!(
            "{group} has {} ways, {}; {} comes first",
            entry.choices.len(),
            listed(&entry.choices),
            entry.selected
        )),
        Change::GroupRemoved { group } => Some(format!("{group} is no longer a group")),
        Change::ChoiceAdded { group, choice } => Some(format!("{group} has one more way, {choice}")),
        Change::ChoiceRemoved { group, choice } => Some(format!("{choice} is no longer a way of {group}")),
        Change::SpeculationSet { group, speculative: true } => {
            Some(format!("the choices of {group} are tried at once"))
        }
        Change::SpeculationSet { group, speculative: false } => {
            Some(format!("the choices of {group} are tried one after the other"))
        }
        Change::ChoicesOrdered { group, choices } => {
            Some(format!("{group} tries its ways in the order {}", listed(choices)))
        }
        Change::ChoiceFailed { group, choice } => match is_shown_as_failure_in(choice, step) {
            true => None,
            false => Some(format!("{group} gives {choice} up")),
        },
        Change::ChoiceForgiven { group, choice } => Some(format!("{group} may try {choice} again")),
        Change::ChoiceSelected { group, choice, reason, cause } => Some(match failure(cause) {
            Some(failed) => format!(
                "{}; {group} switches to {choice}",
                with(&format!("{} {}", failed.atom, failed.how), failed.reason.map(headline))
            ),
            None => with(&format!("{group} switches to {choice}"), Some(reason)),
        }),

        Change::GoalSet { goal } => Some(with("the goal is another one", Some(goal))),
        Change::BaseCaseSet { .. } => Some("the checks were changed".into()),
        Change::BackgroundIntentSet { .. } => Some("the background is another one".into()),
        Change::DeliverablesSet { deliverables } => {
            Some(with("the deliverables are others", Some(deliverables)))
        }
        Change::DefinitionOfDoneSet { definition_of_done } => {
            Some(with("done means something else", Some(definition_of_done)))
        }
        Change::ProtectedSet { protected } if protected.is_empty() => {
            Some("no file is protected any more".into())
        }
        Change::ProtectedSet { protected } => Some(format!("protected are {}", protected.join(", "))),
        Change::IsolationSet { .. } => Some("the workers' trees get something else".into()),
        Change::ConstraintsSet { .. } => Some("the limits are others".into()),
        Change::TrailCleared => Some("the history of failures is forgotten".into()),
        Change::TrailPruned { groups } => Some(format!("the history of {} is forgotten", listed(groups))),
        Change::UserCorrected { .. } => None,
        Change::CorrectionNoted { kind, description, .. } => {
            let what = match kind {
                CorrectionKind::ObjectiveChange => "a person changed the goal",
                CorrectionKind::DagAdjustment => "a person changed the graph",
                CorrectionKind::ConstraintChange => "a person changed the limits",
                CorrectionKind::BindingsOverride => "a person changed a result",
            };
            Some(with(what, Some(description)))
        }

        Change::Verified { fruitless: 0, .. } => Some("the checks are red".into()),
        Change::Verified { fruitless, .. } => {
            Some(format!("the checks are red, no better than before {}", times(*fruitless)))
        }
        Change::FingerprintTaken { .. } => {
            Some("recorded fingerprints of the checks and protected files".into())
        }
        Change::ItemConfirmed { confirmation } => {
            let word = if confirmation.holds() { "confirmed" } else { "denied" };
            Some(format!("{} {word}: {}", confirmation.by, confirmation.item))
        }
        Change::ConfirmationWithdrawn { item } => Some(format!("no longer confirmed: {item}")),
    }
}

/// The atoms that a change is about. A selection is also about the choice that it gives up.
pub fn concerns<'c>(change: &'c Change, step: &'c [Change]) -> Vec<&'c AtomId> {
    match change {
        Change::AtomAdded { atom } => vec![&atom.id],
        Change::AtomRemoved { atom }
        | Change::AtomStarted { atom, .. }
        | Change::AtomResolved { atom, .. }
        | Change::AtomReset { atom }
        | Change::ResultNotBelieved { atom, .. }
        | Change::AtomReturned { atom, .. }
        | Change::AtomNotStarted { atom, .. }
        | Change::DependenciesSet { atom, .. }
        | Change::BindingSet { atom, .. }
        | Change::FailureNoted { atom, .. }
        | Change::ReplanNoted { atom, .. } => vec![atom],
        Change::Decomposed { parent, children, .. } => std::iter::once(parent).chain(children).collect(),
        Change::ChildAdded { parent, child } | Change::ChildRemoved { parent, child } => vec![parent, child],
        Change::DecompositionWithdrawn { parent } => vec![parent],
        Change::GroupAdded { entry, .. } => entry.choices.iter().collect(),
        Change::ChoicesOrdered { choices, .. } => choices.iter().collect(),
        Change::ChoiceAdded { choice, .. }
        | Change::ChoiceRemoved { choice, .. }
        | Change::ChoiceFailed { choice, .. }
        | Change::ChoiceForgiven { choice, .. } => vec![choice],
        Change::ChoiceSelected { group, choice, .. } => {
            let given_up = step.iter().filter_map(|change| match_failed(change, group.as_str()));
            std::iter::once(choice).chain(given_up).collect()
        }
        Change::LoopNamed { .. }
        | Change::LoopStarted
        | Change::StatusRestored
        | Change::StopWithdrawn
        | Change::SessionTaken { .. }
        | Change::StopRequested { .. }
        | Change::BranchChosen { .. }
        | Change::RedirectRequested
        | Change::RedirectEnded
        | Change::Stopped { .. }
        | Change::Completed
        | Change::Parked { .. }
        | Change::Unparked
        | Change::SpentSoFar { .. }
        | Change::IterationOpened
        | Change::ResultCounted
        | Change::IterationClosed { .. }
        | Change::IterationTakenBack
        | Change::StallCleared
        | Change::CountMoved { .. }
        | Change::GroupRemoved { .. }
        | Change::SpeculationSet { .. }
        | Change::GoalSet { .. }
        | Change::BaseCaseSet { .. }
        | Change::BackgroundIntentSet { .. }
        | Change::DeliverablesSet { .. }
        | Change::DefinitionOfDoneSet { .. }
        | Change::ProtectedSet { .. }
        | Change::IsolationSet { .. }
        | Change::ConstraintsSet { .. }
        | Change::TrailCleared
        | Change::TrailPruned { .. }
        | Change::UserCorrected { .. }
        | Change::CorrectionNoted { .. }
        | Change::Verified { .. }
        | Change::FingerprintTaken { .. }
        | Change::ItemConfirmed { .. }
        | Change::ConfirmationWithdrawn { .. }
        | Change::PlanRefused { .. } => Vec::new(),
        Change::WorkWanted { atoms } => atoms.iter().collect(),
    }
}

fn match_failed<'c>(change: &'c Change, of: &str) -> Option<&'c AtomId> {
    if let Change::ChoiceFailed { group, choice } = change
        && group.as_str() == of
    {
        return Some(choice);
    }
    None
}

/// An atom whose failure is shown is not also shown as one to be done again.
fn fails_in(atom: &AtomId, step: &[Change]) -> bool {
    step.iter().any(|change| {
        matches!(change, Change::FailureNoted { atom: failed, .. } if failed == atom)
            || matches!(change, Change::ChoiceFailed { choice, .. } if choice == atom)
    })
}

fn is_shown_as_failure_in(choice: &AtomId, step: &[Change]) -> bool {
    step.iter().any(|change| {
        matches!(change, Change::FailureNoted { atom, .. } if atom == choice)
            || matches!(change, Change::ChoiceSelected { cause, .. }
                if failure(cause).is_some_and(|failed| failed.atom == choice))
    })
}

/// The choice that failed before another one was selected.
fn failure(cause: &Option<SelectionCause>) -> Option<Failed<'_>> {
    cause.as_ref()?.failure()
}

/// Why a choice was given up, as far as the same step tells.
pub fn why_failed(choice: &AtomId, step: &[Change]) -> String {
    let reason = step.iter().find_map(|change| match change {
        Change::FailureNoted { atom, reason } if atom == choice => {
            Some(format!("failed: {}", headline(reason)))
        }
        Change::ChoiceSelected { cause, .. } => failure(cause)
            .filter(|failed| failed.atom == choice)
            .map(|failed| with(failed.how, failed.reason.map(headline))),
        _ => None,
    });
    reason.unwrap_or_else(|| "failed".into())
}

/// Attempts are numbered by their iteration.
fn attempt_in(step: &[Change]) -> Option<u32> {
    step.iter().find_map(
        |change| {
            if let Change::AtomStarted { attempt, .. } = change { *attempt } else { None }
        },
    )
}

/// Two parts with a colon, the second on one line; the first alone if there is nothing to add.
pub fn with(what: &str, why: Option<&str>) -> String {
    let why = why.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

fn times(count: u32) -> String {
    if count == 1 { "once".into() } else { format!("{count} times in a row") }
}

fn listed(names: &[impl ToString]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
