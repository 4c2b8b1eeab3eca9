//! The coordinator agent: why it is asked, the contracted state, and the change of plan that it answers with. Whether
//! the change is allowed is for the rules to say.

use std::collections::{HashMap, HashSet};

use super::agreed::{AGREED, agreed};
use super::change::{MAX_CHILDREN, MAX_NEW_ATOMS, plan_change_schema};
use super::checks::list_checks;
use super::text::{BriefText, ListEntry, one_line};
use super::{Brief, LINE_LIMIT, NAME_LIMIT, Role, TEXT_LIMIT, short, titled};
use crate::rules::plan::ReplanReason;
use crate::state::{AtomId, AtomStatus, Graph, State, Target, TrailEntry};

// The budgets of the parts, in bytes.
const WORDS: usize = 5 * 1024;
const GOAL: usize = 1024;
const BASE_CASE: usize = 1536;
const WHY: usize = 3 * 1024;
const UNRESOLVED: usize = 5 * 1024;
const GROUPS: usize = 2048;
const FAILURES: usize = 2560;
const RESOLVED: usize = 2560;
const REFUSALS: usize = 1536;

const _: () = assert!(
    WORDS + GOAL + AGREED + BASE_CASE + WHY + UNRESOLVED + GROUPS + FAILURES + RESOLVED + REFUSALS
        <= TEXT_LIMIT
);

/// Of an atom that the question is about, and of one reason or refusal.
const IN_FULL: usize = 768;
/// How many names a line lists.
const NAMES_IN_LINE: usize = 12;
/// How many unselected choices of a group are described.
const UNSELECTED_CHOICES: usize = 4;

/// Why the coordinator agent is asked now; all that is due is asked at once (D8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplanRequest {
    pub why: Vec<ReplanReason>,
    /// Why earlier changes of the plan were refused, the latest first, as the refusals say it.
    pub refusals: Vec<String>,
}

/// Change the plan, so that what is stuck can go on.
pub fn coordinator(state: &State, graph: &Graph, asked: &ReplanRequest) -> Brief {
    let summary = TrailSummary::of(state);
    let mut page = BriefText::default();
    page.title("Coordinator: change the plan");
    page.paragraph(
        "Agents solve a goal in parts called atoms. The plan as it is does not lead on. Read what you need, change no \
         file: your answer is your only effect. The program checks it and refuses it whole if one part of it cannot be.",
    );
    why(&mut page, state, &asked.why);
    page.heading("Goal");
    page.quote("goal", &state.objective.goal, GOAL);
    agreed(&mut page, state);
    if let Some(base_case) = &state.objective.base_case {
        page.paragraph("The program checks in the end:");
        list_checks(&mut page, "base case", base_case, BASE_CASE);
    }
    unresolved(&mut page, state, graph, &summary, &asked.why);
    groups(&mut page, state, graph, &summary);
    failures(&mut page, state, graph);
    resolved(&mut page, state);
    if !asked.refusals.is_empty() {
        page.heading("Your earlier changes that were refused");
        page.list("refusals of earlier changes", &asked.refusals, REFUSALS, |entry, refusal| {
            entry.item("a refusal", refusal, IN_FULL);
        });
    }
    may_change(&mut page, state, graph);
    Brief::close(state, Role::Coordinator, None, page, plan_change_schema())
}

fn why(page: &mut BriefText, state: &State, why: &[ReplanReason]) {
    if why.is_empty() {
        return;
    }
    page.heading("Why you are asked");
    let reasons = why.iter().flat_map(|why| match why {
        ReplanReason::Failing { .. }
        | ReplanReason::TooLarge { .. }
        | ReplanReason::Infeasible { .. }
        | ReplanReason::Stalling => vec![(why, None)],
        ReplanReason::Red { checks } => {
            std::iter::once((why, None)).chain(checks.iter().map(|red| (why, Some(red)))).collect()
        }
    });
    page.list("why it is asked", reasons, WHY, |entry, (why, red)| match (why, red) {
        (_, Some(red)) => {
            entry.line(1, &one_line(&red.item, LINE_LIMIT));
            entry.failure(2, "reason of a red check", &red.reason, IN_FULL);
        }
        (ReplanReason::Failing { atom }, None) => {
            entry.line(0, &format!("{} fails again and again.", short(atom)));
            in_full(entry, state, atom);
        }
        (ReplanReason::TooLarge { atom, reason }, None) => {
            entry.line(0, &format!("{} is too large for one go, a worker says:", short(atom)));
            entry.quote(1, "why it is too large", reason, IN_FULL);
            entry.line(1, "as described:");
            in_full(entry, state, atom);
        }
        (ReplanReason::Infeasible { atom, findings }, None) => {
            entry.line(0, &format!("{} cannot be done as described, a probe says:", short(atom)));
            entry.quote(1, "what a probe found", findings, IN_FULL);
            entry.line(1, "as described:");
            in_full(entry, state, atom);
        }
        (ReplanReason::Stalling, None) => {
            let (count, limit) = (state.control.stall_count, state.constraints().max_stall_count);
            entry.line(0, &format!("{count} iterations in a row brought no progress; {limit} end the loop."));
        }
        (ReplanReason::Red { .. }, None) => {
            entry.line(0, "Every atom is resolved, but these checks do not pass:");
        }
    });
}

fn in_full(entry: &mut ListEntry, state: &State, id: &AtomId) {
    let Some(atom) = state.atoms.get(id) else { return };
    entry.quote(1, &format!("description of {}", short(id)), &atom.description, IN_FULL);
}

pub(super) fn unresolved(
    page: &mut BriefText,
    state: &State,
    graph: &Graph,
    summary: &TrailSummary<'_>,
    why: &[ReplanReason],
) {
    let first: HashSet<&AtomId> = why
        .iter()
        .filter_map(|why| match why {
            ReplanReason::Failing { atom }
            | ReplanReason::TooLarge { atom, .. }
            | ReplanReason::Infeasible { atom, .. } => Some(atom),
            ReplanReason::Stalling | ReplanReason::Red { .. } => None,
        })
        .collect();
    let mut indices: Vec<usize> =
        (0..state.atoms.len()).filter(|index| graph.is_unresolved(state, *index)).collect();
    if indices.is_empty() {
        return;
    }
    indices.sort_by_key(|index| !first.contains(&state.atoms[*index].id));
    page.heading("Unresolved atoms");
    page.list("unresolved atoms", indices, UNRESOLVED, |entry, index| {
        entry.line(0, &standing(state, graph, summary, index));
    });
}

/// An atom in one line: status, what it needs, what it is made of, how often it failed, what it is about.
fn standing(state: &State, graph: &Graph, summary: &TrailSummary<'_>, index: usize) -> String {
    let atom = &state.atoms[index];
    let mut facts = vec![atom.status.word().to_owned()];
    if !graph.depends(index).is_empty() {
        let needs = graph.depends(index).iter().map(|target| need(state, graph, *target));
        facts.push(format!("needs {}", joined(needs)));
    }
    if !graph.children(index).is_empty() {
        let children = graph.children(index).iter().map(|child| short(&state.atoms[*child].id));
        facts.push(format!("decomposed into {}", joined(children)));
    }
    if let Some(group) = graph.group_of(index) {
        facts.push(format!("choice of {}", group_name(state, group)));
    }
    if let Some(count) = summary.failures.get(&atom.id).filter(|count| **count > 0) {
        facts.push(format!("failures: {count}"));
    }
    format!("{} ({}): {}", short(&atom.id), facts.join("; "), one_line(&atom.description, LINE_LIMIT))
}

fn need(state: &State, graph: &Graph, target: Target) -> String {
    let name = match target {
        Target::Atom(atom) => short(&state.atoms[atom].id),
        Target::Group(group) => format!("group {}", group_name(state, group)),
    };
    if graph.is_resolved(state, target) { format!("{name} (resolved)") } else { name }
}

/// Groups under a choice that is not selected are dormant and left out.
pub(super) fn groups(page: &mut BriefText, state: &State, graph: &Graph, summary: &TrailSummary<'_>) {
    let live = |group: &usize| {
        let parent = graph.choices(*group).iter().find_map(|choice| graph.parent(*choice));
        parent.is_none_or(|parent| !graph.is_dormant(state, parent))
    };
    let indices: Vec<usize> = (0..state.or_groups.len()).filter(live).collect();
    if indices.is_empty() {
        return;
    }
    page.heading("OR groups: one choice of each is enough");
    page.list("OR groups", indices, GROUPS, |entry, index| {
        let (name, group) = state.or_groups.get_index(index).expect("it was counted");
        let failed: HashSet<&AtomId> = group.failed.iter().collect();
        let choices = group.choices.iter().map(|choice| {
            let resolved = state.atoms.get(choice).is_some_and(|atom| atom.status == AtomStatus::Resolved);
            let marks = [
                (*choice == group.selected).then_some("selected"),
                resolved.then_some("resolved"),
                failed.contains(choice).then_some("failed"),
            ];
            let marks: Vec<&str> = marks.into_iter().flatten().collect();
            if marks.is_empty() { short(choice) } else { format!("{} ({})", short(choice), marks.join(", ")) }
        });
        entry.line(0, &format!("{}: {}", group_name(state, index), joined(choices)));
        if let Some(reason) = summary.chosen.get(name.as_str()) {
            entry.line(1, &format!("selected because: {}", one_line(reason, LINE_LIMIT)));
        }
        let unselected = graph.choices(index).iter().map(|choice| &state.atoms[*choice]);
        for atom in unselected.filter(|atom| atom.id != group.selected).take(UNSELECTED_CHOICES) {
            entry.line(1, &titled(atom));
        }
    });
}

pub(super) fn failures(page: &mut BriefText, state: &State, graph: &Graph) {
    let open =
        |id: &AtomId| state.atoms.get_index_of(id).is_some_and(|index| graph.is_unresolved(state, index));
    let mut failures = state
        .trail
        .iter()
        .rev()
        .filter_map(|entry| match entry {
            TrailEntry::Failure { atom, reason, .. } if open(atom) => Some((atom, reason)),
            _ => None,
        })
        .peekable();
    if failures.peek().is_none() {
        return;
    }
    page.heading("Failures of what is unresolved, the latest first");
    page.list("failures", failures, FAILURES, |entry, (atom, reason)| {
        let (what, output) = reason.split_once('\n').unwrap_or((reason, ""));
        entry.line(0, &format!("{}: {}", short(atom), one_line(what, LINE_LIMIT)));
        if !output.is_empty() {
            entry.quote_end(1, "output of a failure", "", output, IN_FULL);
        }
    });
}

pub(super) fn resolved(page: &mut BriefText, state: &State) {
    let mut bound = state.bindings.iter().filter(|(id, _)| state.atoms.contains_key(*id)).peekable();
    if bound.peek().is_none() {
        return;
    }
    page.heading("Resolved");
    page.list("resolved atoms", bound, RESOLVED, |entry, (id, binding)| {
        // What nobody checked may be why a check of the whole is red (D33).
        let is_parent = state.decomposition_of(id).is_some();
        let word = match state.atoms.get(id) {
            Some(atom) if is_parent || atom.is_proven_when_resolved() => "",
            _ if binding.unchanged => " (an agent's word, no file changed)",
            _ => " (an agent's word)",
        };
        entry.line(0, &format!("{}{word}: {}", short(id), one_line(&binding.summary, LINE_LIMIT)));
    });
}

fn may_change(page: &mut BriefText, state: &State, graph: &Graph) {
    let constraints = state.constraints();
    // An iteration is counted when it opens, and the open one can still be used.
    let open = u32::from(state.control.open.is_some());
    let left = constraints.max_iterations.saturating_add(open).saturating_sub(state.control.iteration);
    page.heading("What you may change");
    page.paragraph(&format!(
        "Decompose an atom into smaller ones, take a decomposition back, add atoms, add an alternative, correct dependencies, or \
         give up a choice that stuck atoms rest on. Resolved and running atoms stay as they are, nothing may wait for \
         itself, and protected files are out of reach for everyone. Give each new atom a check that is red until it is solved, \
         or say why there can be none. Make each atom one piece of work for one agent, \
         and change no more than is needed: {left} iterations are left, with up to {} atoms at a time, for {} \
         unresolved. At most {MAX_NEW_ATOMS} new atoms, {MAX_CHILDREN} in one decomposition; new ids go from {} on. If nothing can be bettered, leave every list empty.",
        constraints.max_parallel_agents,
        graph.unresolved(state),
        short(&state.next_id()),
    ));
}

/// Failures and selections in the trail, collected in one walk.
pub(super) struct TrailSummary<'s> {
    /// Failures of each atom since its plan last changed (D11).
    failures: HashMap<&'s AtomId, usize>,
    /// Why each group's choice was selected last.
    chosen: HashMap<&'s str, &'s str>,
}

impl<'s> TrailSummary<'s> {
    pub(super) fn of(state: &'s State) -> TrailSummary<'s> {
        let mut summary = TrailSummary { failures: HashMap::new(), chosen: HashMap::new() };
        for entry in &state.trail {
            match entry {
                TrailEntry::Failure { atom, .. } => *summary.failures.entry(atom).or_default() += 1,
                TrailEntry::Replan { atom, .. } => {
                    summary.failures.remove(atom);
                }
                TrailEntry::Selection { or_group, reason, .. } => {
                    summary.chosen.insert(or_group.as_str(), reason);
                }
                TrailEntry::UserCorrection { .. } => {}
            }
        }
        summary
    }
}

/// Names in a line, the first few of them.
fn joined(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMES_IN_LINE);
    let mut line = names.take(NAMES_IN_LINE).collect::<Vec<_>>().join(", ");
    if more > 0 {
        line.push_str(&format!(" and {more} more"));
    }
    line
}

fn group_name(state: &State, group: usize) -> String {
    let name = state.or_groups.get_index(group).expect("a graph's group stands in its state").0;
    one_line(name.as_str(), NAME_LIMIT)
}
