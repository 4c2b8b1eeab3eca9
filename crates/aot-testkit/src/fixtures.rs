//! The contract's own examples, and state files of any size.

use std::fmt::Write;

pub const COMPLETE: &str = include_str!("../fixtures/complete.md");
pub const INITIAL_LEGACY: &str = include_str!("../fixtures/initial_legacy.md");
pub const INITIAL_CHECKLIST: &str = include_str!("../fixtures/initial_checklist.md");

/// A state file with this frontmatter from `atoms` on, and an agreed objective before it.
pub fn with_graph(graph: &str) -> String {
    let head = INITIAL_LEGACY.split("atoms:\n").next().expect("split gives at least one part");
    let mut text = format!("{head}{graph}");
    for (section, empty) in [
        ("decompositions", "[]"),
        ("or_groups", "{}"),
        ("bindings", "{}"),
        ("trail", "[]"),
        ("corrections", "[]"),
    ] {
        if !graph.contains(&format!("\n{section}:")) {
            writeln!(text, "{section}: {empty}").expect("writing to a string does not fail");
        }
    }
    text + "---\n\n# Original Prompt\n\nMake it so.\n"
}

/// The state file of a loop that is agreed on and has not begun.
#[derive(Clone, Debug)]
pub struct NewLoop<'l> {
    pub goal: &'l str,
    /// Lines below `base_case:`.
    pub base_case: &'l str,
    pub constraints: &'l str,
    /// Further lines of the objective.
    pub objective: &'l str,
    /// Further lines of `control:`.
    pub control: &'l str,
    /// Lines below `atoms:`.
    pub atoms: &'l str,
    /// Lines below `decompositions:` and `or_groups:`; empty for none.
    pub decompositions: &'l str,
    pub or_groups: &'l str,
    pub request: &'l str,
}

impl NewLoop<'_> {
    pub fn text(&self) -> String {
        let NewLoop { goal, base_case, constraints, objective, control, atoms, request, .. } = self;
        let section = |lines: &str, empty: &str| match lines.is_empty() {
            true => format!(" {empty}"),
            false => format!("\n{lines}"),
        };
        let decompositions = section(self.decompositions, "[]");
        let or_groups = section(self.or_groups, "{}");
        format!(
            r#"---
objective:
  goal: "{goal}"
  base_case:
{base_case}
  background_intent: "It is needed"
  deliverables: "What the goal names"
  definition_of_done: "The checks pass"
  constraints: {{{constraints}}}
{objective}
control:
  status: pending
  iteration: 0
  stall_count: 0
  prev_pending_count: -1
  stop_requested: false
  stop_reason: null
  redirect_requested: false
{control}
atoms:
{atoms}
decompositions:{decompositions}
or_groups:{or_groups}
bindings: {{}}
trail: []
corrections: []
---

# Original Prompt

{request}
"#
        )
    }
}

/// A realistic file of `count` atoms, about 200 bytes each: layers of eight, half of them resolved, the first of the
/// other half in progress.
pub fn of_size(count: usize) -> String {
    let half = count / 2;
    let mut graph = String::from("atoms:\n");
    for place in 0..count {
        let status = match place {
            _ if place < half => "resolved",
            _ if place == half => "in_progress",
            _ => "pending",
        };
        let depends = match place / 8 {
            0 => String::new(),
            _ => format!("A{}, A{}", place - 7, place / 8 * 8 - 7),
        };
        write!(
            graph,
            "  - id: A{}\n    description: \"Move part {place} of the service to the new storage layer\"\n    \
             status: {status}\n    depends_on: [{depends}]\n",
            place + 1
        )
        .expect("writing to a string does not fail");
    }
    graph += "bindings:\n";
    for place in 0..half {
        write!(
            graph,
            "  A{}:\n    summary: \"Part {place} reads and writes through the new layer\"\n    \
             artifacts: [\"src/storage/part_{place}.rs\"]\n",
            place + 1
        )
        .expect("writing to a string does not fail");
    }
    if half == 0 {
        graph = graph.replace("bindings:\n", "bindings: {}\n");
    }
    with_graph(&graph)
}
