//! An agreement from the flags of a command line.

use aot_core::contract;
use aot_core::state::{Agreement, Check, Checks, GroupName, Item, NewAtom, Objective, State, Wants};
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::arguments;
use crate::commands::limits::LimitArgs;
use crate::failure::Failure;

#[derive(Clone, Debug, Default, PartialEq, Args, Deserialize, JsonSchema)]
pub struct AgreementArgs {
    /// The goal in a sentence (default: the first line of what you want)
    #[arg(long, value_name = "TEXT")]
    #[schemars(required)]
    goal: Option<String>,
    /// Why it is wanted
    #[arg(long, value_name = "TEXT")]
    #[schemars(required)]
    intent: Option<String>,
    /// What should exist when it's done; may be given several times
    #[arg(long, value_name = "TEXT")]
    deliverable: Vec<String>,
    /// When it is done, in words
    #[arg(long, value_name = "TEXT")]
    #[schemars(required)]
    done: Option<String>,
    /// A command that succeeds when it is done; may be given several times, like all checks. Or a check as it stands in the
    /// file, as JSON, like {"item": "It reads well", "check": {"type": "quality", "criteria": "TEXT", "pass_threshold": 4}}
    #[arg(long, value_name = "COMMAND")]
    #[serde(default)]
    check: Vec<String>,
    /// A command that must fail when it is done
    #[arg(long, value_name = "COMMAND")]
    #[serde(default)]
    not_check: Vec<String>,
    /// A file or glob that exists when it is done
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    file: Vec<String>,
    /// A file or glob that must not exist when it is done
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    not_file: Vec<String>,
    /// Something that a person confirms when it is done
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    assert: Vec<String>,
    /// A piece of work: "what to do <- A1,A2", or a JSON object with the keys of an atom
    #[arg(long, value_name = "DESCRIPTION")]
    #[serde(deserialize_with = "arguments::atom_words")]
    #[schemars(with = "Vec<arguments::AtomObject>")]
    atom: Vec<String>,
    /// An OR group whose choices are tried at once
    #[arg(long, value_name = "GROUP")]
    #[serde(default)]
    speculative: Vec<String>,
    /// Files that no worker may change
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    protect: Vec<String>,
    /// What is in scope, where that is not obvious
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    include: Vec<String>,
    /// What is out of scope
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    exclude: Vec<String>,
}

/// What the flags say; the rest is not said yet.
pub fn agreement(request: &str, flags: &AgreementArgs, limits: &LimitArgs) -> Result<Agreement, Failure> {
    let mut agreement = Agreement::about(request);
    let objective = &mut agreement.objective;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    objective.goal = text(&flags.goal);
    objective.background_intent = text(&flags.intent);
    objective.deliverables = flags.deliverable.join("\n");
    objective.definition_of_done = text(&flags.done);
    objective.protected = flags.protect.clone();
    for limit in limits.limits()? {
        objective.constraints = limit.within(objective.constraints.clone());
    }
    let items = checks(flags)?;
    objective.base_case = (!items.is_empty()).then_some(Checks::Checklist(items));
    agreement.atoms = flags.atom.iter().map(|words| atom("--atom", words)).collect::<Result<_, _>>()?;
    agreement.speculative = flags.speculative.iter().map(GroupName::new).collect();
    agreement.scope.included = flags.include.clone();
    agreement.scope.excluded = flags.exclude.clone();
    if agreement.request.is_empty() {
        agreement.request = agreement.objective.goal.clone();
    }
    Ok(agreement)
}

/// A plan that came from a file, with what the flags say: a text takes the place of the file's, a list is added to it.
pub fn over(state: &State, given: &Agreement) -> State {
    let mut new = state.clone();
    let (theirs, ours) = (&mut new.objective, &given.objective);
    texts_over(theirs, ours);
    if theirs.goal.trim().is_empty() {
        theirs.goal = goal_of(&given.request);
    }
    if let Some(Checks::Checklist(items)) = &ours.base_case {
        match &mut theirs.base_case {
            Some(Checks::Checklist(listed)) => listed.extend(items.iter().cloned()),
            Some(Checks::Single(check)) => {
                let first = Item { item: "as the file says".into(), wants: Wants::Check(check.clone()) };
                theirs.base_case = Some(Checks::Checklist([vec![first], items.clone()].concat()));
            }
            None => theirs.base_case = Some(Checks::Checklist(items.clone())),
        }
    }
    theirs.protected.extend(ours.protected.iter().cloned());
    new.plan_more(&given.atoms);
    new.race(&given.speculative);
    new
}

/// A text that is given takes the place of the other.
pub fn texts_over(theirs: &mut Objective, ours: &Objective) {
    for (theirs, ours) in [
        (&mut theirs.goal, &ours.goal),
        (&mut theirs.background_intent, &ours.background_intent),
        (&mut theirs.deliverables, &ours.deliverables),
        (&mut theirs.definition_of_done, &ours.definition_of_done),
    ] {
        if !ours.is_empty() {
            theirs.clone_from(ours);
        }
    }
}

/// The goal, unless another one is given.
pub fn goal_of(request: &str) -> String {
    request.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

/// An atom in words, or as an object; a check in words is a command there.
pub fn atom(flag: &str, words: &str) -> Result<NewAtom, Failure> {
    if !words.trim_start().starts_with('{') {
        return Ok(NewAtom::from_words(words));
    }
    let read = serde_json::from_str(words).and_then(arguments::atom_of);
    read.map_err(|error| {
        let hint = r#"give an object like {"description": "TEXT", "depends_on": ["A1"], "check": "make test", "or_group": "g"}"#;
        Failure::input(flag, error, hint)
    })
}

/// A check of a command, named by it.
pub fn command(value: &str) -> Item {
    let value = value.to_owned();
    Item { item: value.clone(), wants: Wants::Check(Check::Command { value }) }
}

/// A check of `--check`: a command, or what stands in a file, as JSON.
fn check(words: &str) -> Result<Item, Failure> {
    let is_json = words.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'));
    if !is_json {
        return Ok(command(words));
    }
    let hint = r#"give an object like {"item": "It reads well", "check": {"type": "quality", "criteria": "TEXT", "pass_threshold": 4}}"#;
    let mut object: Value =
        serde_json::from_str(words).map_err(|error| Failure::input("--check", error, hint))?;
    if object["item"].is_null() {
        let name = object["value"].as_str().or(object["criteria"].as_str()).unwrap_or("quality").to_owned();
        object = json!({"item": name, "check": object});
    }
    let text = json!({"checklist": [object]}).to_string();
    match contract::bring_checks(text.clone().into_bytes()) {
        Ok(Checks::Checklist(mut items)) if items.len() == 1 => Ok(items.remove(0)),
        Ok(_) => Err(Failure::input("--check", "it is no single check", hint)),
        Err(findings) => {
            let problem =
                findings.first().map_or("it cannot be read".to_owned(), |first| first.message.clone());
            Err(Failure::input("--check", problem, hint))
        }
    }
}

fn checks(flags: &AgreementArgs) -> Result<Vec<Item>, Failure> {
    let named = |name: String, check: Check| Item { item: name, wants: Wants::Check(check) };
    let mut items: Vec<Item> = flags.check.iter().map(|words| check(words)).collect::<Result<_, _>>()?;
    items.extend(
        flags
            .not_check
            .iter()
            .map(|value| named(format!("fails: {value}"), Check::NotCommand { value: value.clone() })),
    );
    items.extend(
        flags.file.iter().map(|value| named(format!("{value} exists"), Check::File { value: value.clone() })),
    );
    items.extend(
        flags
            .not_file
            .iter()
            .map(|value| named(format!("{value} does not exist"), Check::NotFile { value: value.clone() })),
    );
    items.extend(
        flags.assert.iter().map(|value| named(value.clone(), Check::Assertion { value: value.clone() })),
    );
    Ok(items)
}

/// A part of the agreement that may be left out, as the page calls it.
pub fn word_of(name: &str) -> &str {
    match name {
        "objective.background_intent" => "why",
        "objective.deliverables" => "result",
        "objective.definition_of_done" => "done when",
        "objective.constraints.max_wall_time" => "the time limit",
        "atoms" => "the plan (the goal is one atom)",
        name => name,
    }
}

/// The flag that says a part of the agreement.
pub fn flag_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "objective.goal" => "--goal",
        "objective.background_intent" => "--intent",
        "objective.deliverables" => "--deliverable",
        "objective.definition_of_done" => "--done",
        "objective.base_case" => "--check, --file or --assert",
        "atoms" => "--atom",
        _ => return None,
    })
}
