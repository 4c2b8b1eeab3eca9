//! An agreement from the words of a command line, or from a file.

use std::io::Read;
use std::path::PathBuf;

use aot_core::state::{Agreement, Check, Checks, Item, NewAtom, Wants};
use clap::Args;

use crate::commands::limits::LimitArgs;
use crate::failure::Failure;

/// A file longer than this is not read.
const MAX_INPUT: u64 = 16 << 20;

/// The flags that say what is agreed on; a file says all of it, or none.
pub const FLAGS: [&str; 14] = [
    "request",
    "goal",
    "intent",
    "deliverable",
    "done",
    "check",
    "not_check",
    "file",
    "not_file",
    "assert",
    "atom",
    "protect",
    "include",
    "exclude",
];

#[derive(Clone, Debug, Default, Args)]
pub struct GivenArgs {
    /// The aim in a sentence (default: the first line of the request)
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// Why it is wanted
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,
    /// What is to be there in the end; may be given several times
    #[arg(long, value_name = "TEXT")]
    deliverable: Vec<String>,
    /// When it is done, in words
    #[arg(long, value_name = "TEXT")]
    done: Option<String>,
    /// A command that succeeds when it is done; may be given several times, like all checks
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// A command that must not succeed
    #[arg(long, value_name = "COMMAND")]
    not_check: Vec<String>,
    /// A file or glob that exists when it is done
    #[arg(long, value_name = "GLOB")]
    file: Vec<String>,
    /// A file or glob that must not be there
    #[arg(long, value_name = "GLOB")]
    not_file: Vec<String>,
    /// Something that a person confirms in the end
    #[arg(long, value_name = "TEXT")]
    assert: Vec<String>,
    /// A piece of work: "what is to be done <- A1,A2", or a JSON object with the keys of an atom
    #[arg(long, value_name = "DESCRIPTION")]
    atom: Vec<String>,
    /// Files that no worker may change
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,
    /// What belongs to it, where somebody might think otherwise
    #[arg(long, value_name = "TEXT")]
    include: Vec<String>,
    /// What does not belong to it
    #[arg(long, value_name = "TEXT")]
    exclude: Vec<String>,
}

/// What the flags say; the rest is not said yet.
pub fn agreement(request: &str, given: &GivenArgs, limits: &LimitArgs) -> Result<Agreement, Failure> {
    let mut agreement = Agreement::about(request);
    let objective = &mut agreement.objective;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    objective.goal = text(&given.goal);
    objective.background_intent = text(&given.intent);
    objective.deliverables = given.deliverable.join("\n");
    objective.definition_of_done = text(&given.done);
    objective.protected = given.protect.clone();
    for limit in limits.limits()? {
        objective.constraints = limit.within(objective.constraints.clone());
    }
    let items = checks(given);
    objective.base_case = (!items.is_empty()).then_some(Checks::Checklist(items));
    agreement.atoms = given.atom.iter().map(|words| atom("--atom", words)).collect::<Result<_, _>>()?;
    agreement.scope.included = given.include.clone();
    agreement.scope.excluded = given.exclude.clone();
    if agreement.request.is_empty() {
        agreement.request = agreement.objective.goal.clone();
    }
    Ok(agreement)
}

/// The goal, if nobody has said another one.
pub fn goal_of(request: &str) -> String {
    request.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// An atom in words, or as an object; a check in words is a command there.
pub fn atom(flag: &str, words: &str) -> Result<NewAtom, Failure> {
    if !words.trim_start().starts_with('{') {
        return Ok(NewAtom::from_words(words));
    }
    let read = serde_json::from_str(words).and_then(|mut object: serde_json::Value| {
        if let Some(command) = object["check"].as_str() {
            object["check"] = serde_json::json!({"type": "command", "value": command});
        }
        serde_json::from_value(object)
    });
    read.map_err(|error| Failure::Input {
        what: flag.into(),
        problem: error.to_string(),
        hint: r#"give an object like {"description": "…", "depends_on": ["A1"], "check": "make test", "or_group": "g"}"#
            .into(),
    })
}

/// A check of a command, named by it.
pub fn command(value: &str) -> Item {
    let value = value.to_owned();
    Item { item: value.clone(), wants: Wants::Check(Check::Command { value }) }
}

fn checks(given: &GivenArgs) -> Vec<Item> {
    let named = |name: String, check: Check| Item { item: name, wants: Wants::Check(check) };
    let mut items: Vec<Item> = given.check.iter().map(|value| command(value)).collect();
    items.extend(
        given
            .not_check
            .iter()
            .map(|value| named(format!("fails: {value}"), Check::NotCommand { value: value.clone() })),
    );
    items.extend(
        given.file.iter().map(|value| named(format!("{value} exists"), Check::File { value: value.clone() })),
    );
    items.extend(
        given
            .not_file
            .iter()
            .map(|value| named(format!("{value} does not exist"), Check::NotFile { value: value.clone() })),
    );
    items.extend(
        given.assert.iter().map(|value| named(value.clone(), Check::Assertion { value: value.clone() })),
    );
    items
}

/// A file that was named, or standard input.
pub fn read(from: &str) -> Result<(PathBuf, Vec<u8>), Failure> {
    let name = PathBuf::from(if from == "-" { "standard input" } else { from });
    let unreadable = |problem: String| Failure::Input {
        what: name.display().to_string(),
        problem,
        hint: "name a state file, a YAML file with its keys, or `-` for standard input".into(),
    };
    let mut bytes = Vec::new();
    let read = if from == "-" {
        std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(from).and_then(|file| file.take(MAX_INPUT).read_to_end(&mut bytes))
    };
    let length = read.map_err(|error| unreadable(error.to_string()))?;
    if length as u64 == MAX_INPUT {
        return Err(unreadable(format!("it is longer than {} MiB", MAX_INPUT >> 20)));
    }
    Ok((name, bytes))
}

/// The flag that says a part of the agreement.
pub fn flag_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "objective.goal" => "--goal",
        "objective.background_intent" => "--intent",
        "objective.deliverables" => "--deliverable",
        "objective.definition_of_done" => "--done",
        "objective.base_case" => "--check, --file, --assert …",
        "atoms" => "--atom",
        _ => return None,
    })
}
