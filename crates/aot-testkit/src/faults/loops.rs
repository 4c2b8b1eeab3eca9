//! The loops that are disturbed: small, of commands only, with the same result in whatever order they are solved.

use std::path::Path;

use crate::project::{Loop, Project, STATE};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopKind {
    /// A worktree for each atom, landings on the branch.
    Worktrees,
    /// The same in the landlock cage.
    Caged,
    /// A group whose choices run at once; either may win, and both write the same.
    Race,
    /// A repository in which the work is done in place, one at a time.
    OneByOne,
    /// A repository without any isolation.
    Unisolated,
    OutsideGit,
}

pub const LOOPS: [LoopKind; 6] = [
    LoopKind::Worktrees,
    LoopKind::Caged,
    LoopKind::Race,
    LoopKind::OneByOne,
    LoopKind::Unisolated,
    LoopKind::OutsideGit,
];

impl LoopKind {
    pub fn name(self) -> &'static str {
        match self {
            LoopKind::Worktrees => "worktrees",
            LoopKind::Caged => "worktrees in the landlock cage",
            LoopKind::Race => "a race of two choices",
            LoopKind::OneByOne => "in place",
            LoopKind::Unisolated => "no isolation",
            LoopKind::OutsideGit => "outside of git",
        }
    }

    /// Whether solved atoms become commits.
    pub fn lands(self) -> bool {
        matches!(self, LoopKind::Worktrees | LoopKind::Caged | LoopKind::Race)
    }

    pub fn has_git(self) -> bool {
        self != LoopKind::OutsideGit
    }

    /// Whether the loop goes on when attempts die: two dead choices exhaust their group, as they should.
    pub fn survives_dead_workers(self) -> bool {
        self != LoopKind::Race
    }

    pub fn make(self, aot: &Path) -> Project {
        self.make_in(aot, &std::env::temp_dir())
    }

    pub fn make_in(self, aot: &Path, folder: &Path) -> Project {
        let cage = if self == LoopKind::Caged { "landlock" } else { "none" };
        let project = Project::new_in(folder, aot, &format!("[cage]\nkind = \"{cage}\"\n"));
        let mode = match self {
            LoopKind::OneByOne => "  isolation: {mode: in_place}",
            LoopKind::Unisolated => "  isolation: {mode: none}",
            LoopKind::Worktrees | LoopKind::Caged | LoopKind::Race | LoopKind::OutsideGit => "",
        };
        let (atoms, or_groups) = match self {
            LoopKind::Race => {
                (race(), "  way: {choices: [A3, A4], selected: A3, failed: [], speculative: true}")
            }
            // Atoms that append show a second run of the same atom; they must not run at the same time.
            LoopKind::OneByOne | LoopKind::OutsideGit => (chain(), ""),
            LoopKind::Worktrees | LoopKind::Caged | LoopKind::Unisolated => (layers(), ""),
        };
        let text = Loop {
            base_case: "      - {item: \"The last is there\", check: {type: command, value: \"test -e last\"}}",
            constraints: "max_iterations: 2000, max_parallel_agents: 3, max_stall_count: 500, max_wall_time: 1h",
            objective: mode,
            atoms: &atoms,
            or_groups,
        }
        .text();
        project.write("README", "A project.\n");
        project.write("log", "begin\n");
        if self.has_git() {
            project.init();
        }
        project.write(STATE, &text);
        project
    }

    /// How often each atom has to land; a race is won by one of two.
    pub fn landings(self) -> &'static [&'static [&'static str]] {
        match self {
            LoopKind::Worktrees | LoopKind::Caged => &[&["A1"], &["A2"], &["A3"], &["A4"], &["A5"], &["A6"]],
            LoopKind::Race => &[&["A1"], &["A2"], &["A3", "A4"], &["A5"]],
            LoopKind::OneByOne | LoopKind::Unisolated | LoopKind::OutsideGit => &[],
        }
    }
}

/// A command fails with the first of its parts that does: a full disk must not be taken for a success.
fn atom(id: &str, after: &str, more: &str, run: &str) -> String {
    let run = format!("set -e; {run}");
    format!(
        "  - {{id: {id}, description: \"Do {id}\", status: pending, depends_on: [{after}]{more}, run: {run:?}}}\n"
    )
}

/// Two at a time, each made of what lies below it. Without isolation a killed atom leaves half of its work, so each part can be
/// done twice.
fn layers() -> String {
    [
        atom("A1", "", "", "mkdir -p a; echo 1 > a/1; sleep 0.01"),
        atom("A2", "", "", "mkdir -p a; echo 2 > a/2"),
        atom("A3", "A1", "", "cat a/1 > a/3; rm -f README; echo A3 > README"),
        atom("A4", "A2", ", check: {type: command, value: \"test -s a/4\"}", "cat a/2 > a/4; sleep 0.02"),
        atom("A5", "A3, A4", "", "cat a/3 a/4 > a/5; ln -sf a/5 link"),
        atom("A6", "A5", "", "cat a/* > last"),
    ]
    .concat()
}

/// One after the other, each adding to one file.
fn chain() -> String {
    (1..=5)
        .map(|n| {
            let after = if n == 1 { String::new() } else { format!("A{}", n - 1) };
            let last = if n == 5 { "; cp log last" } else { "" };
            atom(
                &format!("A{n}"),
                &after,
                "",
                &format!("echo begin-{n} >> log; sleep 0.01; echo end-{n} >> log{last}"),
            )
        })
        .collect()
}

fn race() -> String {
    [
        atom("A1", "", "", "echo 1 > 1"),
        atom("A2", "", "", "echo 2 > 2"),
        atom("A3", "A1", ", or_group: way", "echo way > way; sleep 0.05"),
        atom("A4", "A1", ", or_group: way", "sleep 0.03; echo way > way"),
        atom("A5", "A2, A3", "", "cat 1 2 way > last"),
    ]
    .concat()
}
