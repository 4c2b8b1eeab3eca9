//! Which files that steer the checks are open to workers, and which of them were touched. The table of tools is the
//! core's.

use std::collections::BTreeSet;

use aot_core::state::{AtomId, Checks, Objective, State};
use aot_core::verdict::{Steering, steering_of};
use serde::Serialize;

use super::files::Pattern;

/// A file that steers a check, and that an atom changed although nothing protects it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Steered {
    pub atom: AtomId,
    pub path: String,
    /// The check that obeys the file, and by which tool.
    pub item: String,
    pub tool: &'static str,
}

impl Steered {
    /// In a line.
    pub fn describe(&self) -> String {
        let Steered { atom, path, item, tool } = self;
        format!("{atom} changed {path}, which {tool} obeys in \"{item}\", and nothing protects it")
    }
}

/// What landed atoms changed of the files that steer the base case.
pub fn steered(state: &State) -> Vec<Steered> {
    let Some(base_case) = &state.objective.base_case else { return Vec::new() };
    let steering = steering_of(base_case);
    let mut found = Vec::new();
    for (atom, binding) in &state.bindings {
        for path in &binding.artifacts {
            let of = steering.iter().find(|(_, one)| matches(&one.globs, path));
            if let Some((item, Steering { tool, .. })) = of {
                found.push(Steered { atom: atom.clone(), path: path.clone(), item: item.clone(), tool });
            }
        }
    }
    found
}

/// What the base case obeys and nothing protects, by the tool.
pub fn open_steering(objective: &Objective) -> Vec<Steering> {
    let mut found: Vec<Steering> = Vec::new();
    for (_, mut one) in objective.base_case.iter().flat_map(steering_of) {
        one.globs.retain(|glob| !covers(&objective.protected, glob));
        if !one.globs.is_empty() && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// The paths that steer the base case or these checks, of those that were changed.
pub fn steering_paths(objective: &Objective, checks: Option<&Checks>, changed: &[String]) -> Vec<String> {
    let all = objective.base_case.iter().chain(checks).flat_map(steering_of);
    let globs: BTreeSet<String> = all.flat_map(|(_, one)| one.globs).collect();
    let globs: Vec<String> = globs.into_iter().collect();
    if globs.is_empty() {
        return Vec::new();
    }
    changed.iter().filter(|path| matches(&globs, path)).cloned().collect()
}

fn matches(globs: &[String], path: &str) -> bool {
    globs.iter().filter_map(|glob| Pattern::read(glob).ok()).any(|pattern| pattern.matches(path))
}

/// Whether protected patterns cover a pattern: it is among them, or all that it stands for matches one of them.
pub(super) fn covers(protected: &[String], glob: &str) -> bool {
    if protected.iter().any(|known| known.trim() == glob) {
        return true;
    }
    let patterns: Vec<Pattern> = protected.iter().filter_map(|known| Pattern::read(known).ok()).collect();
    let is_protected = |path: &String| patterns.iter().any(|pattern| pattern.matches(path));
    !patterns.is_empty() && samples(glob).iter().all(is_protected)
}

/// Paths that a pattern of the table matches: one for each alternative, shallow and deep.
fn samples(glob: &str) -> Vec<String> {
    if let (Some(open), Some(close)) = (glob.find('{'), glob.find('}'))
        && open < close
    {
        let (before, after) = (&glob[..open], &glob[close + 1..]);
        let alternatives = glob[open + 1..close].split(',');
        return alternatives.flat_map(|one| samples(&format!("{before}{one}{after}"))).collect();
    }
    let filled = |folders: &str| {
        let deep = glob.replace("**/", folders).replace("/**", &format!("/{folders}x"));
        deep.replace('*', "x")
    };
    vec![filled(""), filled("a/b/")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_patterns_cover_those_that_they_match_in_every_case() {
        for (protected, glob, expected) in [
            ("Makefile", "Makefile", true),
            ("Makefile", "GNUmakefile", false),
            ("*akefile", "GNUmakefile", true),
            ("conftest.py", "**/conftest.py", false),
            ("**/conftest.py", "**/conftest.py", true),
            ("**/*.py", "**/conftest.py", true),
            ("*.py", "**/conftest.py", false),
            ("{a,b}.*", "{a,b}.*", true),
            ("a.*", "{a,b}.*", false),
            ("*.py", "{a,b}{.py,/__init__.*}", false),
            ("{a,b}{.py,/__init__.*}", "{a,b}{.py,/__init__.*}", true),
            ("**/*.*", "{a,b}{.py,/__init__.*}", true),
            ("**", "{a,b}/**", true),
            ("jest.config.js", "jest.config.*", false),
        ] {
            assert_eq!(covers(&[protected.to_owned()], glob), expected, "{protected} and {glob}");
        }
        assert!(!covers(&[], "Makefile"));
    }
}
