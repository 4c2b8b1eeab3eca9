//! What the linter has to know of the world: programs, files, patterns, and how the checks end now. Judges nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aot_core::state::{AtomStatus, Span, State};
use aot_core::verdict::{
    CheckTree, Evidence, LintFacts, LintQuestions, Outcome, Source, TreeOutcome, WorkPhase,
};

use super::files::{Pattern, never_matches};
use super::kept::{EvidenceLine, Kept};
use super::steered::covers;
use super::{Checker, Occasion, Progress, Whose, short_line};
use crate::settings;
use crate::tree::{Project, Tree};

/// Folders that hold tests, by custom.
const TEST_FOLDERS: [&str; 6] = ["tests", "test", "spec", "__tests__", "e2e", "testdata"];

/// What can be told without running anything. `path` is the search path of programs.
pub fn still(state: &State, project: &Project, path: &OsStr) -> LintFacts {
    let objective = &state.objective;
    let Some(base_case) = &objective.base_case else { return LintFacts::default() };
    let sheet = CheckTree::of(base_case);
    let questions = LintQuestions::of(&sheet, objective);
    let protected: Vec<Pattern> =
        objective.protected.iter().filter_map(|glob| Pattern::read(glob).ok()).collect();
    let is_protected = |file: &str| protected.iter().any(|pattern| pattern.matches(file));
    let root = &project.root;
    let mut facts = LintFacts {
        phase: if has_begun(state) { WorkPhase::Started } else { WorkPhase::NotStarted },
        missing_programs: questions.programs.iter().filter(|name| !is_found(name, path)).cloned().collect(),
        ..LintFacts::default()
    };
    for word in &questions.paths {
        let Some(file) = inside(root, word) else { continue };
        let full = root.join(&file);
        let name = full.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if full.is_file() && !is_protected(&file) && is_code(&full, name) {
            facts.unprotected.insert(word.clone(), file);
        } else if full.is_dir() && TEST_FOLDERS.contains(&name) && !is_protected(&format!("{file}/x")) {
            facts.unprotected.insert(word.clone(), format!("{file}/**"));
        }
    }
    if base_case.quality_items() > 0 && root.join(settings::FILE).is_file() && !is_protected(settings::FILE) {
        // Whoever can name another judge marks their own work.
        facts.unprotected.insert(settings::FILE.into(), settings::FILE.into());
    }
    let folders = TEST_FOLDERS.iter().filter(|name| root.join(name).is_dir());
    let open = folders.filter(|name| !is_protected(&format!("{name}/x")));
    facts.unprotected_tests = open.map(|name| format!("{name}/**")).collect();
    for glob in &questions.patterns {
        if let Some(why) = never_matches(root, glob) {
            facts.never_match.insert(glob.clone(), why);
        }
    }
    let open = questions.steering.iter().filter(|glob| !covers(&objective.protected, glob));
    facts.steerable = open.cloned().collect();
    // What was seen last, if the checks are not run now.
    for line in Kept::of(project).recent() {
        let places = sheet.leaves.iter().enumerate().filter(|(_, leaf)| leaf.name == line.item);
        for (place, _) in places {
            match line.evidence.out_of_time {
                true => facts.out_of_time.insert(place),
                false => facts.out_of_time.remove(&place),
            };
        }
    }
    let nothing = |glob: &&String| match Pattern::read(glob) {
        Ok(pattern) => pattern.files(root, 1).is_ok_and(|found| found.paths.is_empty()),
        Err(_) => true,
    };
    // What steers the checks is protected so that it does not come into being.
    let protects_nothing = objective.protected.iter().filter(nothing);
    facts.protect_nothing =
        protects_nothing.filter(|glob| !questions.steering.contains(*glob)).cloned().collect();
    facts
}

/// The same, and what is seen by running the checks once, one after the other. No judge is asked.
pub fn moving(
    checker: &Checker<'_>,
    state: &State,
    path: &OsStr,
    now: jiff::Timestamp,
    on: &mut dyn FnMut(Progress<'_>),
) -> io::Result<LintFacts> {
    let mut facts = still(state, checker.project, path);
    let Some(base_case) = &state.objective.base_case else { return Ok(facts) };
    let mut before = Tree::of(checker.project, checker.guard)?;
    let mut trouble = None;
    let mut wrote = BTreeMap::new();
    let evaluation =
        checker.evaluate(state, base_case, Whose::BaseCase, Occasion::LookAfresh, now, &mut |progress| {
            if let Progress::Ended { place, evidence, .. } = &progress
                && evidence.source == Source::Fresh
            {
                match Tree::of(checker.project, checker.guard) {
                    Ok(after) => {
                        let changed = before.changed(&after);
                        if !changed.is_empty() {
                            wrote.insert(*place, changed);
                        }
                        before = after;
                    }
                    Err(error) => trouble = Some(error),
                }
            }
            on(progress);
        })?;
    if let Some(error) = trouble {
        return Err(error);
    }
    facts.wrote = wrote;
    let refused =
        evaluation.seen.iter().enumerate().map(|(place, (_, evidence))| (place, evidence.refused.clone()));
    facts.refused = refused.filter(|(_, refused)| !refused.is_empty()).collect();
    let timed_out = evaluation.seen.iter().enumerate().filter(|(_, (_, evidence))| evidence.out_of_time);
    facts.out_of_time = timed_out.map(|(place, _)| place).collect();
    facts.seen = evaluation
        .seen
        .iter()
        .map(|(outcome, evidence)| (evidence.source != Source::NotRun).then_some(*outcome))
        .collect();
    Ok(facts)
}

/// The checks that end otherwise in this tree than in the project's own folder, where this is what was seen. `missing` is what
/// the folder has and the tree does not.
pub fn in_a_tree(
    checker: &Checker<'_>,
    state: &State,
    (seen, here): (&[Option<Outcome>], &[EvidenceLine]),
    missing: &[String],
    on: &mut dyn FnMut(Progress<'_>),
) -> io::Result<BTreeMap<usize, TreeOutcome>> {
    let mut state = state.clone();
    let limit = Span::from_seconds(TREE_CHECK).min(state.objective.constraints.check_timeout());
    state.objective.constraints.check_timeout = Some(limit);
    let Some(base_case) = &state.objective.base_case else { return Ok(BTreeMap::new()) };
    let now = jiff::Timestamp::now();
    let there = checker.evaluate(&state, base_case, Whose::BaseCase, Occasion::LookAfresh, now, on)?;
    let mut differ = BTreeMap::new();
    for (place, (outcome, evidence)) in there.seen.iter().enumerate() {
        let Some(Some(before)) = seen.get(place) else { continue };
        // One that used up its time says nothing: a tree begins without what builds keep.
        if evidence.source != Source::Fresh || evidence.out_of_time {
            continue;
        }
        let name = &there.sheet.leaves[place].name;
        let here = here.iter().rev().find(|line| line.item == *name).map(|line| ending(&line.evidence));
        let (here, end) = (here.unwrap_or_default(), ending(evidence));
        let (named, others): (Vec<&String>, Vec<&String>) =
            missing.iter().partition(|path| is_named(path, &end) && !is_named(path, &here));
        if before == outcome && (*outcome == Outcome::Pass || named.is_empty()) {
            continue;
        }
        let missing = if named.is_empty() { others } else { named };
        let last_line = end.lines().last().map(short_line).unwrap_or_default();
        let missing = missing.into_iter().cloned().collect();
        differ.insert(place, TreeOutcome { outcome: *outcome, last_line, missing });
    }
    Ok(differ)
}

/// How many seconds a check gets in a tree that is made for a trial.
const TREE_CHECK: u64 = 30;

/// So many lines of an output are searched for the names of files.
const END_LINES: usize = 40;

fn ending(evidence: &Evidence) -> String {
    evidence.output.as_ref().map(|output| output.last_lines(END_LINES).join("\n")).unwrap_or_default()
}

/// Whether a text names this path: itself, its file, or the module that it is (`pkg.version`).
fn is_named(path: &str, text: &str) -> bool {
    let mut parts = path.rsplit('/');
    let file = parts.next().unwrap_or(path);
    let stem = file.split('.').next().unwrap_or(file);
    let module = parts.next().map(|folder| format!("{folder}.{stem}"));
    let names = [Some(path.to_owned()), Some(file.to_owned()), module.filter(|_| !stem.is_empty())];
    names.into_iter().flatten().any(|name| text.contains(&name))
}

pub(crate) fn has_begun(state: &State) -> bool {
    state.control.iteration > 0 || state.atoms.values().any(|atom| atom.status == AtomStatus::Resolved)
}

/// The path of a word inside the project, relative to its root.
fn inside(root: &Path, word: &str) -> Option<String> {
    let full = root.join(word).canonicalize().ok()?;
    let relative = full.strip_prefix(root).ok()?.to_str()?.to_owned();
    (!relative.is_empty()).then_some(relative)
}

/// A script, or a test by its name; what is only data or documentation is not what a check rests on.
fn is_code(full: &Path, name: &str) -> bool {
    let script = full.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0);
    let ending = name.rsplit('.').next().unwrap_or_default();
    let code = ["sh", "bash", "zsh", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "lua", "bats", "mk"];
    script || code.contains(&ending) || name == "Makefile" || name == "justfile" || name.contains("test")
}

fn is_found(name: &str, path: &OsStr) -> bool {
    std::env::split_paths(path).any(|folder| {
        let full = folder.join(name);
        full.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}
