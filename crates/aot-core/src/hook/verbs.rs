//! Which verb of this program a command or a tool call is. Who may use it is decided in `ruling`.

use crate::shell_command::single_command;

/// The name of this program on the search path.
const NAME: &str = "aot";

/// What a verb of this program does, as far as permission depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    ReadOnly,
    /// It runs the checks that were agreed on.
    RunsChecks,
    /// It is a step of the loop; rules decide whether it is legal.
    LoopStep,
    /// It interrupts the loop for a dialogue with a person, or ends that interruption.
    HoldRedirect,
    /// It takes the loop up, or ends a turn: a person or a hook does that.
    Lifecycle,
    /// It is a step that adds these commands as checks.
    AddsChecks(Vec<String>),
    /// It scores what others did.
    HandsInScores,
    /// It confirms or accepts something in a person's name.
    NeedsPerson,
    /// It starts agents, adds commands to run, or works on another loop: the user's permissions decide.
    Restricted,
}

impl Verb {
    fn changes_loop(&self) -> bool {
        !matches!(self, Verb::ReadOnly | Verb::RunsChecks)
    }
}

/// The verb, if the command calls this program and does nothing else. `program` is the path of this program; another
/// file of the same name is not it.
pub(super) fn verb(program: &str, text: &str) -> Option<Verb> {
    Some(classify(&arguments(program, text)?))
}

/// Whether a command confirms or accepts something in a person's name.
pub fn speaks_for_person(program: &str, text: &str) -> bool {
    verb(program, text) == Some(Verb::NeedsPerson)
}

/// Whether a tool that this program offers over a protocol changes the loop, by its name, such as `atom_resolve`.
pub(super) fn tool_changes_loop(tool: &str) -> bool {
    let words: Vec<String> = tool.split('_').map(str::to_owned).collect();
    classify(&words).changes_loop()
}

/// The atom whose brief a command asks for.
pub(super) fn briefed_atom(program: &str, text: &str) -> Option<String> {
    let words = arguments(program, text)?;
    let mut words = words.into_iter().filter(|word| word != "--json");
    (words.next()? == "atom" && words.next()? == "brief").then(|| words.next())?
}

/// Whether a command, however unclear, seems to call a verb that changes the loop.
pub(super) fn seems_to_change_loop(text: &str) -> bool {
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || ";|&()`'\"$".contains(c))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    (1..words.len()).any(|at| {
        let program = &words[at - 1];
        let arguments = &words[at..words.len().min(at + 3)];
        (program == NAME || program.ends_with("/aot")) && classify(arguments).changes_loop()
    })
}

fn arguments(program: &str, text: &str) -> Option<Vec<String>> {
    let mut words = single_command(text)?;
    let first = words.remove(0);
    (first == NAME || first == program).then_some(words)
}

fn classify(words: &[String]) -> Verb {
    let has = |flag: &str| words.iter().any(|word| is_flag(word, flag));
    // Another state file is another loop.
    if has("--state") {
        return Verb::Restricted;
    }
    let mut plain = words.iter().map(String::as_str).filter(|word| *word != "--json");
    match plain.next().unwrap_or("--help") {
        // It writes a file, wherever it is told to.
        "log" if has("--trace") => Verb::Restricted,
        // `agents` and `doctor` are not among them: they start programs that a settings file names.
        "show" | "ready" | "status" | "graph" | "log" | "validate" | "gate" | "schema" | "completions"
        | "help" | "--help" | "-h" | "--version" | "-V" => Verb::ReadOnly,
        "judge" if has("--scores") => Verb::HandsInScores,
        "judge" => Verb::ReadOnly,
        "verify" | "lint" => Verb::RunsChecks,
        "atom" => match plain.next().unwrap_or_default() {
            "brief" => Verb::ReadOnly,
            "add" | "decompose" if has("--run") || has("--from") => Verb::Restricted,
            "add" | "decompose" if has("--check") => Verb::AddsChecks(values(words, "--check")),
            _ => Verb::LoopStep,
        },
        "or" | "stop" | "exit-recursion" => Verb::LoopStep,
        "turn" => Verb::Lifecycle,
        // Nothing else may stand there: after another argument `--session` can be the value of a flag.
        "run" | "enter-recursion" if plain.clone().eq(["--session"]) => Verb::Lifecycle,
        "redirect" if has("--accept") => Verb::NeedsPerson,
        "redirect" => match plain.collect::<Vec<_>>().as_slice() {
            ["--hold"] | ["--cancel"] => Verb::HoldRedirect,
            _ => Verb::Restricted,
        },
        // Whoever has the page that `serve` offers acts as a person.
        "confirm" | "serve" | "trust" => Verb::NeedsPerson,
        _ => Verb::Restricted,
    }
}

fn is_flag(word: &str, flag: &str) -> bool {
    word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// The value of each occurrence of a flag.
fn values(words: &[String], flag: &str) -> Vec<String> {
    let found = words.iter().enumerate().filter(|(_, word)| is_flag(word, flag));
    found
        .map(|(at, word)| match word.split_once('=') {
            Some((_, value)) => value.to_owned(),
            None => words.get(at + 1).cloned().unwrap_or_default(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Verb, briefed_atom, seems_to_change_loop, tool_changes_loop, verb};

    const PROGRAM: &str = "/x/bin/aot";

    #[test]
    fn verbs_are_classified() {
        let adds = |check: &str| Some(Verb::AddsChecks(vec![check.to_owned()]));
        for (text, expected) in [
            ("aot status", Some(Verb::ReadOnly)),
            ("aot log A1", Some(Verb::ReadOnly)),
            ("aot log --trace=check.sh", Some(Verb::Restricted)),
            ("/x/bin/aot --json verify --fresh", Some(Verb::RunsChecks)),
            ("/tmp/evil/aot status", None),
            ("./aot status", None),
            ("aot atom start A1", Some(Verb::LoopStep)),
            ("aot atom add 'More of it' --check 'make test'", adds("make test")),
            ("aot atom add 'More of it' --check='make test'", adds("make test")),
            ("aot atom add x --run 'rm -rf /'", Some(Verb::Restricted)),
            ("aot atom add x --run='rm -rf /'", Some(Verb::Restricted)),
            ("aot run --session", Some(Verb::Lifecycle)),
            ("aot run --session other", Some(Verb::Restricted)),
            ("aot run --session --take-over", Some(Verb::Restricted)),
            ("aot turn", Some(Verb::Lifecycle)),
            ("aot redirect --hold", Some(Verb::HoldRedirect)),
            ("aot redirect --cancel --json", Some(Verb::HoldRedirect)),
            ("aot redirect --base-case x.yml -- --hold", Some(Verb::Restricted)),
            ("aot redirect --rebind A1 --hold", Some(Verb::Restricted)),
            ("aot redirect --hold --accept", Some(Verb::NeedsPerson)),
            ("aot redirect --hold x", Some(Verb::Restricted)),
            ("aot enter-recursion --session", Some(Verb::Lifecycle)),
            ("aot exit-recursion", Some(Verb::LoopStep)),
            ("aot or switch g A1 --reason x", Some(Verb::LoopStep)),
            ("aot stop", Some(Verb::LoopStep)),
            ("aot lint", Some(Verb::RunsChecks)),
            ("aot judge 'It is good'", Some(Verb::ReadOnly)),
            ("aot judge 'It is good' --scores '{}'", Some(Verb::HandsInScores)),
            ("aot trust --yes", Some(Verb::NeedsPerson)),
            ("aot serve --port 7000", Some(Verb::NeedsPerson)),
            ("aot atom", Some(Verb::LoopStep)),
            ("aot atom brief A1", Some(Verb::ReadOnly)),
            ("aot atom add x", Some(Verb::LoopStep)),
            ("aot atom add x --checks y", Some(Verb::LoopStep)),
            ("aot atom add x --check", adds("")),
            ("aot atom decompose A1 --child x --check y", adds("y")),
            ("aot atom decompose A1 --from -", Some(Verb::Restricted)),
            ("aot --state=/other/state.md status", Some(Verb::Restricted)),
            ("aot agents", Some(Verb::Restricted)),
            ("aot doctor", Some(Verb::Restricted)),
            ("aot run", Some(Verb::Restricted)),
            ("aot confirm 'It is good'", Some(Verb::NeedsPerson)),
            ("aot redirect --accept", Some(Verb::NeedsPerson)),
            ("aot redirect --goal x", Some(Verb::Restricted)),
            ("aot align x", Some(Verb::Restricted)),
            ("aot --state /other/state.md atom start A1", Some(Verb::Restricted)),
            ("aot", Some(Verb::ReadOnly)),
            ("aot status; rm x", None),
            ("aot status && rm x", None),
            ("aot status $(rm x)", None),
            ("aot status > x", None),
            ("naot status", None),
            ("rm aot", None),
        ] {
            assert_eq!(verb(PROGRAM, text), expected, "{text}");
        }
    }

    #[test]
    fn tools_of_a_protocol_are_verbs_too() {
        for tool in ["atom_resolve", "atom_add", "turn", "stop", "or_switch", "redirect", "align", "enter"] {
            assert!(tool_changes_loop(tool), "{tool}");
        }
        for tool in ["status", "ready", "show", "atom_brief", "verify", "gate"] {
            assert!(!tool_changes_loop(tool), "{tool}");
        }
    }

    #[test]
    fn a_brief_is_asked_for_by_its_name() {
        for (text, expected) in [
            ("aot atom brief A1", Some("A1")),
            ("/x/bin/aot --json atom brief A1", Some("A1")),
            ("aot atom brief", None),
            ("aot brief A1", None),
            ("aot show brief A1", None),
            ("/elsewhere/aot atom brief A1", None),
            ("aot atom start A1", None),
            ("cd x && aot atom brief A1", None),
        ] {
            assert_eq!(briefed_atom(PROGRAM, text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_verb_is_found_in_what_is_unclear() {
        for text in [
            "cd x && aot atom resolve A1 --summary y",
            "X=1 aot stop",
            "$(aot atom fail A1)",
            "sh -c 'aot stop'",
            "/elsewhere/aot stop",
            "aot --json atom fail",
        ] {
            assert!(seems_to_change_loop(text), "{text}");
        }
        for text in [
            "cargo test -p aot",
            "aot status && cargo test",
            "aot --json atom brief A1 && make",
            "cat aot",
            "make",
            "aot",
            "cargo build --bin aot",
        ] {
            assert!(!seems_to_change_loop(text), "{text}");
        }
    }
}
