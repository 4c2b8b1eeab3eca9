//! The linter: what is likely wrong with the checks of a loop, before it is spent on them (D18). Knows no files: it lists what it
//! needs to know as questions, and the caller brings the facts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::steering::{Steering, steering};
use super::{CageRefusal, CheckNode, CheckTree, HIGHEST_SCORE, LOWEST_SCORE, Leaf, Outcome};
use crate::shell_command::{SimpleCommand, simple_commands};
use crate::state::{Atom, AtomStatus, Check, Objective, Quality, Scope, State};

/// Weights that sum to 1 within this are meant to.
const WEIGHTS_TOLERANCE: f64 = 0.01;

/// Where the judge is named.
const SETTINGS: &str = "aot.toml";

/// The code of files that steer a check; what a worker could do on purpose comes after mistakes.
const STEERABLE: &str = "steerable";

/// How many names a message lists.
const NAMED: usize = 5;

/// One thing that is likely wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub code: &'static str,
    pub message: String,
    /// The check it is about; empty if it is about the whole.
    pub item: String,
    pub hint: String,
}

/// What has to be looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LintQuestions {
    /// Programs: which of them are nowhere to be found? Those of the project are not asked for: a worker can make them.
    pub programs: BTreeSet<String>,
    /// Words of commands that may be files: which of them are files of the project that nothing protects?
    pub paths: BTreeSet<String>,
    /// Patterns: which of them can never match, and why?
    pub patterns: BTreeSet<String>,
    /// Patterns of files that steer the checks: which of them does nothing protect?
    pub steering: BTreeSet<String>,
}

/// What was found out. Whatever was not looked up is left out.
#[derive(Clone, Debug, Default)]
pub struct LintFacts {
    pub missing_programs: BTreeSet<String>,
    /// Unprotected files and test folders that a check runs, by the word of the command.
    pub unprotected: BTreeMap<String, String>,
    /// Unprotected test folders of the project, as patterns.
    pub unprotected_tests: Vec<String>,
    pub never_match: BTreeMap<String, String>,
    /// Protected patterns that no file matches.
    pub protect_nothing: Vec<String>,
    /// How each check ended when it was run for the linter.
    pub seen: Vec<Option<Outcome>>,
    /// The places of the checks that used up their time when they were last run.
    pub out_of_time: BTreeSet<usize>,
    /// What the cage kept a check from writing, by its place.
    pub refused: BTreeMap<usize, Vec<CageRefusal>>,
    /// Patterns of files that steer the checks, and that a worker could add or change.
    pub steerable: BTreeSet<String>,
    /// Paths that a check changed, by its place.
    pub wrote: BTreeMap<usize, Vec<String>>,
    /// Checks that end otherwise in a tree as a worker gets it, by their place.
    pub in_a_tree: BTreeMap<usize, TreeOutcome>,
    /// A check that passes is expected once work has started.
    pub phase: WorkPhase,
}

/// How a check ended in a worker's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeOutcome {
    pub outcome: Outcome,
    /// The last line that it printed there.
    pub last_line: String,
    /// What is in the project and not in the tree; what is most likely missed comes first.
    pub missing: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkPhase {
    #[default]
    NotStarted,
    Started,
}

impl LintQuestions {
    pub fn of(sheet: &CheckTree, objective: &Objective) -> LintQuestions {
        let mut questions = LintQuestions::default();
        for leaf in &sheet.leaves {
            match &leaf.check {
                Check::Command { value } | Check::NotCommand { value } => {
                    questions.steering.extend(steering(value).into_iter().flat_map(|one| one.globs));
                    for simple in simple_commands(value) {
                        let program = simple.program();
                        if SimpleCommand::is_known(program) && !program.contains('/') && !simple.is_builtin()
                        {
                            questions.programs.insert(program.to_owned());
                        }
                        let words = simple.words.iter().filter(|word| SimpleCommand::is_known(word));
                        questions.paths.extend(words.map(|word| match &simple.folder {
                            Some(folder) if !word.starts_with('/') => format!("{folder}/{word}"),
                            _ => word.clone(),
                        }));
                    }
                }
                Check::File { value } | Check::NotFile { value } => {
                    questions.patterns.insert(value.clone());
                }
                Check::Quality(quality) => questions.patterns.extend(scope(quality).iter().cloned()),
                Check::Assertion { .. } => {}
            }
        }
        questions.patterns.extend(objective.protected.iter().cloned());
        questions
    }
}

/// Everything about a loop: its base case, and the atoms that nothing checks.
pub fn lint_loop(state: &State, facts: &LintFacts) -> Vec<Advice> {
    let mut found = lint(&state.objective, facts);
    let at = found.iter().position(|advice| advice.code == STEERABLE).unwrap_or(found.len());
    if let Some(unchecked) = unchecked(state) {
        found.insert(at, unchecked);
    }
    found
}

/// Atoms that would be resolved on an agent's word (D22): no check, no command, and nobody said why.
fn unchecked(state: &State) -> Option<Advice> {
    let is_parent = |atom: &Atom| state.decomposition_of(&atom.id).is_some();
    let open = state.atoms.values().filter(|atom| atom.status != AtomStatus::Resolved);
    let unchecked = open.filter(|atom| !atom.is_proven_when_resolved() && atom.no_check.is_none());
    let names: Vec<String> =
        unchecked.filter(|atom| !is_parent(atom)).map(|atom| atom.id.to_string()).collect();
    let (verb, claim) = match names.len() {
        0 => return None,
        1 => ("has", "its worker's claim counts"),
        _ => ("have", "their workers' claims count"),
    };
    Some(advice(
        "no_check",
        "",
        &format!("{} {verb} no check, so {claim}", listed(&names)),
        "write a `check: {type: command, value: COMMAND}` into the atom, or `no_check:` and why there is none",
    ))
}

/// In the order of the checks; what concerns the whole comes last.
pub fn lint(objective: &Objective, facts: &LintFacts) -> Vec<Advice> {
    let mut found = Vec::new();
    let Some(base_case) = &objective.base_case else {
        found.push(advice(
            "empty",
            "",
            "there are no checks, so nothing can be proven",
            "add `objective.base_case` with a `checklist`",
        ));
        return found;
    };
    let sheet = CheckTree::of(base_case);
    empty_sets(&sheet.root, &mut found);
    for (place, leaf) in sheet.leaves.iter().enumerate() {
        match &leaf.check {
            Check::Command { value } => {
                let simple = simple_commands(value);
                inverted_command(leaf, &simple, &mut found);
                command(leaf, &simple, objective, facts, &mut found);
                steerable(leaf, value, facts, &mut found);
            }
            Check::NotCommand { value } => {
                let simple = simple_commands(value);
                inverted_not_command(leaf, &simple, &mut found);
                command(leaf, &simple, objective, facts, &mut found);
                steerable(leaf, value, facts, &mut found);
            }
            Check::File { value } | Check::NotFile { value } => pattern(leaf, value, facts, &mut found),
            Check::Assertion { .. } => {}
            Check::Quality(quality) => judged(leaf, quality, facts, &mut found),
        }
        if facts.phase == WorkPhase::NotStarted && facts.seen.get(place) == Some(&Some(Outcome::Pass)) {
            already_true(leaf, &mut found);
        }
        if facts.phase == WorkPhase::NotStarted && facts.out_of_time.contains(&place) {
            let seconds = objective.constraints.check_timeout().seconds();
            found.push(advice(
                "times_out",
                &leaf.name,
                &format!("it used up its {seconds} s before any work was done"),
                "make it quicker, or give checks more time: `--check-timeout 30m` of `aot align` or `aot redirect`",
            ));
        }
        if let (Some(in_tree), Some(Some(here))) = (facts.in_a_tree.get(&place), facts.seen.get(place)) {
            found.push(differs(leaf, *here, in_tree));
        }
        for refused in facts.refused.get(&place).into_iter().flatten() {
            let message = format!("the cage keeps it from writing `{}`", refused.path);
            found.push(advice("caged", &leaf.name, &message, &refused.remedy));
        }
        if let Some(paths) = facts.wrote.get(&place) {
            found.push(advice(
                "writes_tree",
                &leaf.name,
                &format!("running it changed {}", listed(paths)),
                "let a check only look; what it makes belongs into an ignored folder",
            ));
        }
    }
    for glob in &facts.protect_nothing {
        let message = match facts.never_match.get(glob) {
            Some(why) => format!("the protected pattern `{glob}` can never match: {why}"),
            None => format!("the protected pattern `{glob}` matches no file, so it protects nothing"),
        };
        found.push(advice(
            "never_matches",
            "",
            &message,
            "correct it, or leave it out of `objective.protected`",
        ));
    }
    // Mistakes come before what a worker could do on purpose.
    found.sort_by_key(|advice| advice.code == STEERABLE);
    found
}

fn empty_sets(node: &CheckNode, found: &mut Vec<Advice>) {
    let (word, item, inner) = match node {
        CheckNode::Leaf(_) => return,
        CheckNode::All { item, inner } => (if item.is_empty() { "checklist" } else { "group" }, item, inner),
        CheckNode::Any { item, inner } => ("any_of", item, inner),
    };
    if inner.is_empty() {
        let message = format!("the `{word}` is empty, so it proves nothing");
        found.push(advice("empty", item, &message, "give it at least one item, or leave it out"));
    }
    inner.iter().for_each(|node| empty_sets(node, found));
}

/// Workers would be blamed for what their trees do not have.
fn differs(leaf: &Leaf, here: Outcome, in_tree: &TreeOutcome) -> Advice {
    let TreeOutcome { outcome, last_line, missing } = in_tree;
    let word = |outcome: Outcome| match outcome {
        Outcome::Pass => "passes",
        Outcome::Fail => "fails",
        Outcome::Error => "cannot run",
        Outcome::Pending => "waits",
    };
    let mut message = match here == *outcome {
        true => format!("it {} in another way in a worker's tree", word(here)),
        false => format!("it {} here and {} in a worker's tree", word(here), word(*outcome)),
    };
    let hint = match missing.first() {
        Some(first) => {
            message.push_str(&format!(", which does not have {}", listed(missing)));
            format!(
                "give every tree a copy (`--copy {first}`) or a link (`--share {first}`), make it there (`--setup COMMAND`), \
                 or commit it"
            )
        }
        None => "make it independent of the folder that it runs in".to_owned(),
    };
    if !last_line.is_empty() {
        message.push_str(&format!("; there it ends with: {last_line}"));
    }
    advice("in_a_tree", &leaf.name, &message, &hint)
}

fn already_true(leaf: &Leaf, found: &mut Vec<Advice>) {
    let hint = match leaf.check {
        Check::NotCommand { .. } | Check::NotFile { .. } => {
            "keep it if it guards against something that must not come"
        }
        Check::Command { .. } | Check::File { .. } | Check::Assertion { .. } | Check::Quality(_) => {
            "a check that is red before the work shows that the work was done; keep this one only as a guard"
        }
    };
    found.push(advice("already_true", &leaf.name, "it passes before any work was done", hint));
}

fn command(
    leaf: &Leaf,
    simple: &[SimpleCommand],
    objective: &Objective,
    facts: &LintFacts,
    found: &mut Vec<Advice>,
) {
    let mut note = |code, message: String, hint: &str| {
        let advice = advice(code, &leaf.name, &message, hint);
        if !found.contains(&advice) {
            found.push(advice);
        }
    };
    if simple.is_empty() {
        note("empty", "its command is empty".into(), "write the command that shows it");
    }
    for part in simple {
        if facts.missing_programs.contains(part.program()) {
            let message = format!("there is no program `{}` here", part.program());
            note(
                "missing_program",
                message,
                "install it, or correct its name; a check that cannot run is an error",
            );
        }
        if objective.constraints.check_timeout.is_none()
            && !part.timed
            && let Some(what) = may_never_end(part)
        {
            let message = format!("`{}` {what}, and nothing limits its time", part.name());
            note(
                "no_timeout",
                message,
                "write `timeout 60 COMMAND` before it, or set `objective.constraints.check_timeout` (default 10m)",
            );
        }
        let place = |word: &String| match &part.folder {
            Some(folder) if !word.starts_with('/') => format!("{folder}/{word}"),
            _ => word.clone(),
        };
        let mut open: Vec<&String> =
            part.words.iter().filter_map(|word| facts.unprotected.get(&place(word))).collect();
        if runs_tests(part) {
            open.extend(&facts.unprotected_tests);
        }
        for glob in open {
            note(
                "unprotected",
                format!("it rests on `{glob}`, which a worker could change"),
                &format!(
                    "unless the work is to change it: --protect \"{glob}\" (later: aot redirect --protect \"{glob}\")"
                ),
            );
        }
    }
}

/// The files that its tools obey, and that nothing protects: present ones, and ones that a worker could add.
fn steerable(leaf: &Leaf, command: &str, facts: &LintFacts, found: &mut Vec<Advice>) {
    for Steering { tool, globs } in steering(command) {
        let open: Vec<String> = globs.into_iter().filter(|glob| facts.steerable.contains(glob)).collect();
        if open.is_empty() {
            continue;
        }
        let shown: Vec<String> = open.iter().filter(|glob| !glob.contains('{')).cloned().collect();
        let shown =
            if shown.is_empty() { "modules of Python's own names".to_owned() } else { listed(&shown) };
        let message = format!("`{tool}` obeys files that a worker could add or change: {shown}");
        let globs = open.iter().map(|glob| format!("\"{glob}\"")).collect::<Vec<_>>().join(", ");
        let hint = format!(
            "add them to `objective.protected`; what is left open is named when the loop is done: {globs}"
        );
        found.push(advice(STEERABLE, &leaf.name, &message, &hint));
    }
}

/// A `command` that finds something passes when it is there.
fn inverted_command(leaf: &Leaf, simple: &[SimpleCommand], found: &mut Vec<Advice>) {
    let [.., last] = simple else { return };
    let finds = is_search(last) && !last.negated && !searches_for_absence(last);
    if finds && is_negative(&leaf.path) {
        let message = format!(
            "`{}` exits with 0 when it finds something, so this passes when it is there",
            last.name()
        );
        found.push(advice("inverted", &leaf.name, &message, "use `type: not_command`"));
    }
}

fn inverted_not_command(leaf: &Leaf, simple: &[SimpleCommand], found: &mut Vec<Advice>) {
    let Some(last) = simple.last() else { return };
    let mut note = |code, message: String, hint: &str| found.push(advice(code, &leaf.name, &message, hint));
    if let Some(part) = simple.iter().find(|part| complains_by_exit(part)) {
        let name = part.words.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
        let message =
            format!("`{name}` exits with other than 0 when it finds fault, so this passes exactly then");
        return note("inverted", message, "use `type: command`");
    }
    if last.negated {
        let message = "`!` turns the exit around, and `not_command` turns it back".to_owned();
        return note("inverted", message, "use `type: command`, or leave the `!` out");
    }
    if !is_search(last) {
        return;
    }
    if searches_for_absence(last) || !is_negative(&leaf.path) {
        let message = format!(
            "`{}` under `not_command` passes when nothing is found; the item does not read so",
            last.name()
        );
        return note("inverted", message, "use `type: command`, or say in the item what must not be there");
    }
    let message = format!(
        "`{}` exits with 2 when a file is missing, and that passes like \"nothing found\"",
        last.name()
    );
    note("hides_errors", message, "let a `file` check show that what it searches is there");
}

fn judged(leaf: &Leaf, quality: &Quality, facts: &LintFacts, found: &mut Vec<Advice>) {
    let threshold = quality.pass_threshold;
    if !(f64::from(LOWEST_SCORE)..=f64::from(HIGHEST_SCORE)).contains(&threshold) {
        let effect = if threshold > f64::from(HIGHEST_SCORE) { "never passes" } else { "always passes" };
        let message = format!("`pass_threshold` is {threshold}, outside 1 to 5, so it {effect}");
        found.push(advice("threshold", &leaf.name, &message, "choose it between 1 and 5, for instance 3.5"));
    }
    let weights: Vec<f64> = quality.rubric.iter().map(|criterion| criterion.weight).collect();
    let sum: f64 = weights.iter().sum();
    if weights.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
        let message = "a weight is negative or no number; it counts nothing";
        found.push(advice("weights", &leaf.name, message, "give each criterion a weight above 0"));
    } else if !weights.is_empty() && (sum - 1.0).abs() > WEIGHTS_TOLERANCE {
        let message = format!("the weights sum to {sum:.2}, not to 1; they are taken in proportion");
        found.push(advice(
            "weights",
            &leaf.name,
            &message,
            "correct them, or see whether a criterion is missing",
        ));
    }
    if let Some(settings) = facts.unprotected.get(SETTINGS) {
        let message = format!("its judge is named in `{settings}`, which a worker could change");
        found.push(advice(
            "unprotected",
            &leaf.name,
            &message,
            &format!("add \"{settings}\" to `objective.protected`, and the judge's own script"),
        ));
    }
    scope(quality).iter().for_each(|glob| pattern(leaf, glob, facts, found));
}

fn pattern(leaf: &Leaf, glob: &str, facts: &LintFacts, found: &mut Vec<Advice>) {
    if let Some(why) = facts.never_match.get(glob) {
        let message = format!("`{glob}` can never match: {why}");
        found.push(advice("never_matches", &leaf.name, &message, "write it relative to the project's root"));
    }
}

fn scope(quality: &Quality) -> &[String] {
    match &quality.scope {
        None => &[],
        Some(Scope::Glob(glob)) => std::slice::from_ref(glob),
        Some(Scope::Globs(globs)) => globs,
    }
}

/// Tools that say "something is wrong" by their exit.
fn complains_by_exit(part: &SimpleCommand) -> bool {
    const ALONE: [&str; 24] = [
        "eslint",
        "tslint",
        "stylelint",
        "jshint",
        "biome",
        "tsc",
        "ruff",
        "flake8",
        "pylint",
        "mypy",
        "pyright",
        "pycodestyle",
        "bandit",
        "shellcheck",
        "hadolint",
        "golangci-lint",
        "rubocop",
        "ktlint",
        "yamllint",
        "pip-audit",
        "safety",
        "snyk",
        "pytest",
        "jest",
    ];
    const TWO: [[&str; 2]; 12] = [
        ["cargo", "audit"],
        ["cargo", "deny"],
        ["cargo", "clippy"],
        ["cargo", "test"],
        ["cargo", "check"],
        ["go", "vet"],
        ["go", "test"],
        ["bundle", "audit"],
        ["composer", "audit"],
        ["npm", "test"],
        ["yarn", "test"],
        ["pnpm", "test"],
    ];
    let tool = match part.name() {
        "npx" | "bunx" | "pnpx" => part.words.get(1).map_or("", String::as_str),
        name => name,
    };
    let packages = matches!(part.name(), "npm" | "yarn" | "pnpm" | "bun");
    ALONE.contains(&tool)
        || TWO.iter().any(|words| part.starts(words))
        || (packages && part.words.iter().skip(1).any(|word| word == "audit" || word.contains("lint")))
        || tool.contains("lint")
        || (matches!(tool, "prettier" | "black" | "rustfmt") && (part.has("--check") || part.has("-c")))
        || (part.starts(&["cargo", "fmt"]) && part.has("--check"))
}

fn is_search(part: &SimpleCommand) -> bool {
    matches!(part.name(), "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack") || part.starts(&["git", "grep"])
}

fn searches_for_absence(part: &SimpleCommand) -> bool {
    let short = |word: &String| {
        word.starts_with('-') && !word.starts_with("--") && word.contains(['L', 'v']) && part.name() != "rg"
    };
    part.has("--files-without-match") || part.has("--invert-match") || part.words.iter().skip(1).any(short)
}

/// Whether the item speaks of something that must not be there.
fn is_negative(path: &[String]) -> bool {
    const WORDS: [&str; 18] = [
        "no",
        "not",
        "none",
        "never",
        "nothing",
        "nowhere",
        "without",
        "free",
        "zero",
        "absent",
        "removed",
        "gone",
        "empty",
        "clean",
        "must",
        "cannot",
        "neither",
        "forbidden",
    ];
    let own = path.last().map(String::as_str).unwrap_or_default().to_lowercase();
    let mut words = own.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.any(|word| (WORDS.contains(&word) && word != "must") || word.ends_with("n't"))
        || own.contains("must not")
        || own.contains("なし")
}

fn runs_tests(part: &SimpleCommand) -> bool {
    const TOOLS: [&str; 9] = ["pytest", "jest", "vitest", "mocha", "rspec", "phpunit", "tox", "nox", "ctest"];
    const DRIVERS: [&str; 18] = [
        "npm", "yarn", "pnpm", "bun", "npx", "cargo", "go", "make", "just", "python", "python3", "node",
        "deno", "mvn", "gradle", "rake", "mix", "dotnet",
    ];
    let is_test = |word: &String| {
        matches!(word.as_str(), "test" | "--test" | "nextest" | "unittest" | "check")
            || word.starts_with("test:")
            || TOOLS.contains(&word.as_str())
    };
    TOOLS.contains(&part.name()) || (DRIVERS.contains(&part.name()) && part.words.iter().skip(1).any(is_test))
}

/// What waits for the network, or for ever.
fn may_never_end(part: &SimpleCommand) -> Option<&'static str> {
    let word = |wanted: &[&str]| wanted.iter().any(|wanted| part.has(wanted));
    let begins = |wanted: &[&str]| {
        part.words.iter().skip(1).any(|word| wanted.iter().any(|wanted| word.starts_with(wanted)))
    };
    match part.name() {
        "curl" if !begins(&["-m", "--max-time", "--connect-timeout"]) => Some("waits for the network"),
        "wget" if !begins(&["-T", "--timeout"]) => Some("waits for the network"),
        "ssh" | "nc" | "telnet" | "psql" | "redis-cli" => Some("waits for the network"),
        "ping" if !begins(&["-c"]) => Some("goes on for ever"),
        "watch" | "nodemon" | "top" | "htop" => Some("goes on for ever"),
        "tail" if word(&["-f", "-F", "--follow"]) => Some("goes on for ever"),
        "npm" | "yarn" | "pnpm" | "bun" if word(&["start", "dev", "serve", "watch"]) => {
            Some("goes on for ever")
        }
        _ if word(&["--watch", "--watchAll"]) => Some("goes on for ever"),
        _ => None,
    }
}

fn listed(paths: &[String]) -> String {
    let mut text: Vec<String> = paths.iter().take(NAMED).map(|path| format!("`{path}`")).collect();
    if paths.len() > NAMED {
        text.push(format!("and {} more", paths.len() - NAMED));
    }
    text.join(", ")
}

fn advice(code: &'static str, item: &str, message: &str, hint: &str) -> Advice {
    Advice { code, message: message.into(), item: item.into(), hint: hint.into() }
}
