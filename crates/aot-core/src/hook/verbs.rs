//! Which of our own verbs a command is, and who may type it.

use super::command;

/// What a verb of ours does, for whoever wants to type it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// It looks.
    Looks,
    /// It runs what was agreed on.
    Checks,
    /// It is a step of the loop, decided by rules.
    Steps,
    /// It interrupts the loop for a person who is talked with, or lets it go on.
    Talks,
    /// It takes the loop up, or judges a turn: what the host's hooks and a person do.
    Begins,
    /// It is a step, and brings commands that will be run as checks.
    Brings(Vec<String>),
    /// It speaks for a person.
    Speaks,
    /// It starts agents, or brings commands of its own: that is between the user and the host.
    Reaches,
}

/// The verb, if the command is that and nothing else. `program` is where this program lies: another one that is called
/// like it, and does not lie on the search path, is a stranger.
pub(super) fn verb(program: &str, text: &str) -> Option<Verb> {
    let words = command::only_program(text)?;
    let first = words.first()?;
    (first == NAME || first == program).then(|| of(&words[1..]))
}

/// Whether a tool of a host is one of our verbs over a protocol, and changes the loop.
pub(super) fn is_step_over_protocol(tool: &str) -> bool {
    let name = tool.strip_prefix("mcp__").and_then(|tool| tool.rsplit_once("aot__")).map(|(_, name)| name);
    name.is_some_and(|name| {
        let words: Vec<String> = name.split('_').map(str::to_owned).collect();
        name == "enter" || !matches!(of(&words), Verb::Looks | Verb::Checks)
    })
}

/// The atom whose brief is asked for.
pub(super) fn briefed(program: &str, text: &str) -> Option<String> {
    let words = command::only_program(text)?;
    let mut words = words.iter().map(String::as_str).filter(|word| *word != "--json");
    let ours = words.next().is_some_and(|first| first == NAME || first == program);
    match (ours, words.next(), words.next(), words.next()) {
        (true, Some("atom"), Some("brief"), Some(id)) => Some(id.to_owned()),
        _ => None,
    }
}

/// Whether a command, however unclear, seems to type a verb that only some may.
pub(super) fn seems_to_step(text: &str) -> bool {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || ";|&()`'\"$".contains(c)).collect();
    let plain: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    (0..plain.len()).any(|at| {
        let words: Vec<String> = plain[at + 1..].iter().take(3).map(|word| (*word).to_owned()).collect();
        let ours = plain[at] == NAME || plain[at].ends_with("/aot");
        ours && !words.is_empty() && !matches!(of(&words), Verb::Looks | Verb::Checks)
    })
}

const NAME: &str = "aot";

fn of(words: &[String]) -> Verb {
    let has = |flag: &str| words.iter().any(|word| is_flag(word, flag));
    // Another state file is another loop.
    if has("--state") {
        return Verb::Reaches;
    }
    let mut plain = words.iter().map(String::as_str).filter(|word| *word != "--json");
    match plain.next().unwrap_or("--help") {
        // `agents` and `doctor` are not among them: they start programs that a settings file names.
        "show" | "ready" | "status" | "graph" | "log" | "validate" | "gate" | "schema" | "help"
        | "--help" | "-h" | "--version" | "-V" => Verb::Looks,
        "verify" | "lint" => Verb::Checks,
        "atom" => match plain.next().unwrap_or_default() {
            "brief" => Verb::Looks,
            "add" | "decompose" if has("--run") || has("--from") => Verb::Reaches,
            "add" | "decompose" if has("--check") => Verb::Brings(values(words, "--check")),
            _ => Verb::Steps,
        },
        "or" | "stop" | "exit-recursion" => Verb::Steps,
        "turn" => Verb::Begins,
        // Exactly so: behind another word a flag is no flag, or the value of one.
        "run" | "enter-recursion" if plain.clone().eq(["--session"]) => Verb::Begins,
        "redirect" if has("--accept") => Verb::Speaks,
        "redirect" => match plain.collect::<Vec<_>>().as_slice() {
            ["--hold"] | ["--cancel"] => Verb::Talks,
            _ => Verb::Reaches,
        },
        "confirm" => Verb::Speaks,
        _ => Verb::Reaches,
    }
}

fn is_flag(word: &str, flag: &str) -> bool {
    word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// What follows a flag, each time that it stands there.
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
    use super::{Verb, briefed, is_step_over_protocol, seems_to_step, verb};

    const PROGRAM: &str = "/x/bin/aot";

    #[test]
    fn verbs_are_told_apart() {
        let brings = |check: &str| Some(Verb::Brings(vec![check.to_owned()]));
        for (text, expected) in [
            ("aot status", Some(Verb::Looks)),
            ("/x/bin/aot --json verify --fresh", Some(Verb::Checks)),
            ("/tmp/evil/aot status", None),
            ("./aot status", None),
            ("aot atom start A1", Some(Verb::Steps)),
            ("aot atom add 'More of it' --check 'make test'", brings("make test")),
            ("aot atom add 'More of it' --check='make test'", brings("make test")),
            ("aot atom add x --run 'rm -rf /'", Some(Verb::Reaches)),
            ("aot atom add x --run='rm -rf /'", Some(Verb::Reaches)),
            ("aot run --session", Some(Verb::Begins)),
            ("aot run --session other", Some(Verb::Reaches)),
            ("aot run --session --take-over", Some(Verb::Reaches)),
            ("aot turn", Some(Verb::Begins)),
            ("aot redirect --hold", Some(Verb::Talks)),
            ("aot redirect --cancel --json", Some(Verb::Talks)),
            ("aot redirect --base-case x.yml -- --hold", Some(Verb::Reaches)),
            ("aot redirect --rebind A1 --hold", Some(Verb::Reaches)),
            ("aot agents", Some(Verb::Reaches)),
            ("aot doctor", Some(Verb::Reaches)),
            ("aot run", Some(Verb::Reaches)),
            ("aot confirm 'It is good'", Some(Verb::Speaks)),
            ("aot redirect --accept", Some(Verb::Speaks)),
            ("aot redirect --goal x", Some(Verb::Reaches)),
            ("aot align x", Some(Verb::Reaches)),
            ("aot --state /other/state.md atom start A1", Some(Verb::Reaches)),
            ("aot", Some(Verb::Looks)),
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
            assert!(is_step_over_protocol(&format!("mcp__aot__{tool}")), "{tool}");
            assert!(is_step_over_protocol(&format!("mcp__plugin_x_aot__{tool}")), "{tool}");
            assert!(!is_step_over_protocol(&format!("mcp__db__{tool}")), "{tool}");
        }
        for tool in ["status", "ready", "show", "atom_brief", "verify", "gate"] {
            assert!(!is_step_over_protocol(&format!("mcp__aot__{tool}")), "{tool}");
        }
    }

    #[test]
    fn a_brief_is_asked_for_by_its_name() {
        for (text, expected) in [
            ("aot atom brief A1", Some("A1")),
            ("/x/bin/aot --json atom brief A1", Some("A1")),
            ("aot atom brief", None),
            ("aot atom start A1", None),
            ("cd x && aot atom brief A1", None),
        ] {
            assert_eq!(briefed(PROGRAM, text).as_deref(), expected, "{text}");
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
        ] {
            assert!(seems_to_step(text), "{text}");
        }
        for text in
            ["cargo test -p aot", "aot status && cargo test", "cat aot", "make", "cargo build --bin aot"]
        {
            assert!(!seems_to_step(text), "{text}");
        }
    }
}
