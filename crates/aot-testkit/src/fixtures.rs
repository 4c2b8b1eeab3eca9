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
