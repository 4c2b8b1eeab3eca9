//! What is agreed on, as a page that a person reads before saying yes. Draws a state and what stands beside it.

use aot_core::coordinator::Agents;
use aot_core::rules::bound;
use aot_core::state::{
    Boundaries, Check, Checks, Clarification, Graph, Isolation, Item, State, TrailEntry, Wants, headline,
};
use aot_core::verdict::Outcome;
use aot_core::view::View;

use super::clock;
use super::ink::{Ink, Paint};
use super::run;
use crate::text;

/// Where the text beside a name begins.
pub const INDENT: usize = 11;

/// The columns of the word for how a check stands.
const STANDING: usize = 11;

/// Checks nested deeper are counted.
const DEPTH: usize = 6;

/// So many atoms, checks or other entries of one list are shown.
const SHOWN: usize = 60;

/// So many of the latest failures are told.
const FAILURES: usize = 4;

/// What stands in the text besides the state.
#[derive(Clone, Debug, Default)]
pub struct AgreementExtras {
    pub clarifications: Vec<Clarification>,
    pub scope: Boundaries,
}

/// The whole agreement.
pub fn page(state: &State, beside: &AgreementExtras, ink: Ink, columns: usize) -> String {
    let mut page = AgreementPage { text: String::new(), ink, columns };
    let objective = &state.objective;
    page.part("goal", Paint::Bold, &objective.goal);
    page.part("why", Paint::Plain, &objective.background_intent);
    page.part("result", Paint::Plain, &objective.deliverables);
    page.part("done when", Paint::Plain, &objective.definition_of_done);
    page.checks(objective.base_case.as_ref());
    page.list("protected", &objective.protected);
    page.list("trees", &trees(objective.isolation.as_ref()));
    page.list("in scope", &beside.scope.included);
    page.list("excluded", &beside.scope.excluded);
    page.atoms(state);
    let asked = beside.clarifications.iter().map(|asked| format!("{} {}", asked.question, asked.answer));
    page.list("asked", &asked.collect::<Vec<_>>());
    let limits = &objective.constraints;
    let limits = format!(
        "{}, {} at a time, {} without progress; {} for an agent, {} for a check, {} in all",
        text::counted(limits.max_iterations.into(), "iteration"),
        limits.max_parallel_agents,
        limits.max_stall_count,
        limits.agent_timeout(),
        limits.check_timeout(),
        limits.max_wall_time()
    );
    page.part("limits", Paint::Plain, &limits);
    // Which agents there are is not known here.
    let bound = bound::written(state, Agents::ALL);
    let told = match bound::least(state, &Graph::new(state)) {
        0 => format!("no atom needs an agent; at most {}", clock::span(bound.seconds)),
        _ => run::bound(&bound),
    };
    page.part("bound", Paint::Plain, &told);
    page.text
}

/// What the workers' trees get besides what git tracks, a line for each kind.
fn trees(isolation: Option<&Isolation>) -> Vec<String> {
    let Some(Isolation { mode: _, share, copy, setup, teardown }) = isolation else { return Vec::new() };
    let paths =
        |what: &str, paths: &[String]| (!paths.is_empty()).then(|| format!("{what} {}", paths.join(", ")));
    let command = |what: &str, command: &Option<String>| command.as_ref().map(|it| format!("{what} $ {it}"));
    let all =
        [paths("share", share), paths("copy", copy), command("setup", setup), command("teardown", teardown)];
    all.into_iter().flatten().collect()
}

/// A line of a page, or several in a narrow window, where its other lines come from elsewhere.
pub fn row(name: &str, text: &str, columns: usize) -> Vec<String> {
    text::beside(name, INDENT, text, columns)
}

/// Where a loop stands, for whoever wants to change its direction: what is agreed on, what is open, what failed lately.
pub fn now(state: &State, ink: Ink, columns: usize) -> String {
    let mut page = AgreementPage { text: String::new(), ink, columns };
    let objective = &state.objective;
    page.part("goal", Paint::Bold, &objective.goal);
    page.part("why", Paint::Plain, &objective.background_intent);
    page.part("result", Paint::Plain, &objective.deliverables);
    page.part("done when", Paint::Plain, &objective.definition_of_done);
    let view = View::of(state);
    let stands = format!(
        "iteration {} of {}, {} without progress; {} resolved, {} open",
        view.iteration,
        view.max_iterations,
        view.stall_count,
        view.counts.resolved,
        view.counts.pending + view.counts.in_progress
    );
    page.part("stands", Paint::Plain, &stands);
    let graph = Graph::new(state);
    let open = state.atoms.values().enumerate().filter(|(place, _)| graph.is_unresolved(state, *place));
    let open: Vec<String> = open.map(|(_, atom)| format!("{}  {}", atom.id, atom.description)).collect();
    page.list("open", &open);
    let ways = state.or_groups.iter().map(|(name, group)| {
        let choices: Vec<&str> = group.choices.iter().map(|id| id.as_str()).collect();
        let failed: Vec<&str> = group.failed.iter().map(|id| id.as_str()).collect();
        let failed =
            if failed.is_empty() { String::new() } else { format!("; failed: {}", failed.join(", ")) };
        format!("{name}: {} of {}{failed}", group.selected, choices.join(", "))
    });
    page.list("choices", &ways.collect::<Vec<_>>());
    let failures = state.trail.iter().rev().filter_map(|entry| match entry {
        TrailEntry::Failure { atom, reason, .. } => Some(format!("{atom}  {}", headline(reason))),
        TrailEntry::Selection { cause, .. } => Some(cause.as_ref()?.failure()?.to_string()),
        TrailEntry::Replan { .. } | TrailEntry::UserCorrection { .. } => None,
    });
    page.list("failed", &failures.take(FAILURES).collect::<Vec<_>>());
    page.text
}

/// How the checks end before any work: `3 of 4 checks are red now, 1 passes already`.
pub fn standing(seen: &[Option<Outcome>]) -> String {
    let count = |wanted: Option<Outcome>| seen.iter().filter(|outcome| **outcome == wanted).count();
    let all = seen.len();
    let (red, passing, stuck) =
        (count(Some(Outcome::Fail)), count(Some(Outcome::Pass)), count(Some(Outcome::Error)));
    let waiting = all - red - passing - stuck;
    // Of one check nothing is counted.
    let told = |number: usize, one: &str, many: &str| match number {
        0 => None,
        1 if all == 1 => Some(format!("the check {one}")),
        1 => Some(format!("1 {one}")),
        2 if all == 2 => Some(format!("both checks {many}")),
        _ if number == all => Some(format!("all {all} checks {many}")),
        _ => Some(format!("{number} {many}")),
    };
    let first = match red {
        0 => None,
        _ if red == all => told(red, "is red now", "are red now"),
        1 => Some(format!("1 of {all} checks is red now")),
        _ => Some(format!("{red} of {all} checks are red now")),
    };
    let parts = [
        first,
        told(passing, "passes already", "pass already"),
        told(stuck, "cannot run", "cannot run"),
        told(waiting, "waits for a person or a judge", "wait for a person or a judge"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// How a check stands before any work: `red      npm test: exit 1, No module named pytest`.
pub fn check_now(
    item: &str,
    outcome: Option<Outcome>,
    (why, last_line): (&str, Option<&str>),
    columns: usize,
) -> String {
    let word = match outcome {
        Some(Outcome::Pass) => "passes",
        Some(Outcome::Fail) => "red",
        Some(Outcome::Error) => "cannot run",
        Some(Outcome::Pending) | None => "open",
    };
    let why = match (outcome, last_line) {
        (Some(Outcome::Pass), _) => String::new(),
        (_, Some(last)) if !why.contains(last) => format!(": {why}, {last}"),
        _ => format!(": {why}"),
    };
    let flat = |text: &str| text::plain(text).replace('\n', " ");
    let (item, why) = (flat(item), flat(why.trim_end_matches([':', ' '])));
    // What a check said is worth more than the end of a long command.
    let room = columns.saturating_sub(INDENT + STANDING);
    let item = text::fit(&item, room.saturating_sub(text::width(&why)).max(room / 3));
    text::fit(&format!("{:<INDENT$}{word:<STANDING$}{item}{why}", "now"), columns)
}

/// A check in a line.
pub fn check(check: &Check) -> String {
    match check {
        Check::Command { value } => format!("$ {value}"),
        Check::NotCommand { value } => format!("fails: $ {value}"),
        Check::File { value } => format!("{value} exists"),
        Check::NotFile { value } => format!("{value} does not exist"),
        Check::Assertion { value } => format!("a person confirms: {value}"),
        Check::Quality(quality) => format!("a judge scores at least {} of 5", quality.pass_threshold),
    }
}

struct AgreementPage {
    text: String,
    ink: Ink,
    columns: usize,
}

impl AgreementPage {
    fn part(&mut self, name: &str, paint: Paint, text: &str) {
        let text = if text.trim().is_empty() { "(not said yet)" } else { text.trim() };
        let mut name = name;
        for line in text.lines() {
            for line in text::wrapped(line.trim_end(), self.columns - INDENT) {
                self.line(name, paint, &line);
                name = "";
            }
        }
    }

    fn list(&mut self, name: &str, entries: &[String]) {
        let mut name = name;
        for entry in entries.iter().take(SHOWN) {
            for line in text::wrapped(&entry.replace('\n', " "), self.columns - INDENT) {
                self.line(name, Paint::Plain, &line);
                name = "";
            }
        }
        self.more(entries.len());
    }

    fn more(&mut self, all: usize) {
        if all > SHOWN {
            self.line("", Paint::Dim, &format!("and {} more", all - SHOWN));
        }
    }

    fn checks(&mut self, checks: Option<&Checks>) {
        match checks {
            None => self.part("checks", Paint::Plain, ""),
            Some(Checks::Checklist(items)) if items.is_empty() => self.part("checks", Paint::Plain, ""),
            Some(Checks::Single(single)) => self.part("checks", Paint::Plain, &check(single)),
            Some(Checks::Checklist(items)) => {
                let mut name = "checks";
                for item in items.iter().take(SHOWN) {
                    self.item(name, item, 0);
                    name = "";
                }
                self.more(items.len());
            }
        }
    }

    fn item(&mut self, name: &str, item: &Item, depth: usize) {
        let pad = "  ".repeat(depth);
        let room = self.columns - INDENT - pad.len();
        let (told, inner): (String, &[Item]) = match &item.wants {
            Wants::Check(wanted) => {
                let told = check(wanted);
                let bare = told.strip_prefix("$ ").unwrap_or(&told);
                if bare == item.item { (told, &[]) } else { (format!("{}  {told}", item.item), &[]) }
            }
            Wants::Group(inner) => (format!("{}: all of", item.item), inner),
            Wants::AnyOf(inner) => (format!("{}: one of", item.item), inner),
        };
        let mut name = name;
        for line in text::wrapped(&told.replace('\n', " "), room) {
            self.line(name, Paint::Plain, &format!("{pad}{line}"));
            name = "";
        }
        if depth == DEPTH && !inner.is_empty() {
            self.line("", Paint::Dim, &format!("{pad}  {} more", inner.len()));
            return;
        }
        inner.iter().for_each(|item| self.item("", item, depth + 1));
    }

    fn atoms(&mut self, state: &State) {
        if state.atoms.is_empty() {
            return self.part("atoms", Paint::Plain, "");
        }
        let widest = state.atoms.keys().take(SHOWN).map(|id| id.as_str().len()).max().unwrap_or(2).min(12);
        let mut name = "atoms";
        for atom in state.atoms.values().take(SHOWN) {
            let needs: Vec<&str> = atom.depends_on.iter().map(|id| id.as_str()).collect();
            let after =
                if needs.is_empty() { String::new() } else { format!(", after {}", needs.join(", ")) };
            let way = atom.or_group.as_ref().map(|group| {
                let first = state.or_groups.get(group).is_some_and(|entry| entry.selected == atom.id);
                format!(", {} of {group}", if first { "first choice" } else { "alternative" })
            });
            let run = atom.run.as_ref().map(|run| format!("  $ {run}")).unwrap_or_default();
            let check = match (&atom.check, &atom.no_check) {
                (Some(_), _) => ", with a check".to_owned(),
                (None, Some(why)) => format!(", without a check: {why}"),
                (None, None) => String::new(),
            };
            let told = format!("{}{after}{}{check}{run}", atom.description, way.unwrap_or_default());
            let room = self.columns - INDENT - widest - 2;
            let mut id = atom.id.as_str();
            for line in text::wrapped(&told.replace('\n', " "), room) {
                let id_shown = text::fit(id, widest);
                self.line(name, Paint::Plain, &format!("{id_shown:<widest$}  {line}"));
                (name, id) = ("", "");
            }
        }
        self.more(state.atoms.len());
    }

    fn line(&mut self, name: &str, paint: Paint, text: &str) {
        let name = self.ink.paint(Paint::Dim, &format!("{name:<INDENT$}"));
        let text = self.ink.shown(&text::plain(text));
        let line = format!("{name}{}", self.ink.paint(paint, &text));
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_the_checks_stand_in_a_sentence() {
        use Outcome::{Error, Fail, Pass, Pending};
        for (seen, told) in [
            (vec![Some(Fail)], "the check is red now"),
            (vec![Some(Pass)], "the check passes already"),
            (vec![Some(Error)], "the check cannot run"),
            (vec![None], "the check waits for a person or a judge"),
            (vec![Some(Pass), Some(Pass)], "both checks pass already"),
            (vec![Some(Fail), Some(Fail)], "both checks are red now"),
            (vec![Some(Fail), Some(Fail), Some(Fail)], "all 3 checks are red now"),
            (vec![Some(Pass), Some(Pending)], "1 passes already, 1 waits for a person or a judge"),
            (
                vec![Some(Fail), Some(Fail), Some(Fail), Some(Pass)],
                "3 of 4 checks are red now, 1 passes already",
            ),
            (
                vec![Some(Error), Some(Pending), None, Some(Fail)],
                "1 of 4 checks is red now, 1 cannot run, 2 wait for a person or a judge",
            ),
        ] {
            assert_eq!(standing(&seen), told);
        }
    }

    #[test]
    fn what_a_check_said_is_not_cut_for_a_long_command() {
        let line =
            |item: &str, said: &str, columns| check_now(item, Some(Outcome::Fail), (said, None), columns);
        assert_eq!(line("npm test", "exit 1", 40), "now        red        npm test: exit 1");
        assert_eq!(
            line("npm run build && npm run test:all", "exit 127, no such file", 60),
            "now        red        npm run build…: exit 127, no such file"
        );
        assert_eq!(
            line("a command that is long", &"said ".repeat(20), 40),
            "now        red        a com…: said said…"
        );
    }
}
