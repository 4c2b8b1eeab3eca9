//! Arguments that a command line writes as one word and a call over a protocol as JSON. Each is read here into the word,
//! so that what a verb makes of it is written once. Also the files that arguments name.

use std::io::Read;
use std::path::PathBuf;

use aot_core::state::{LIMITS, NewAtom};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// A file longer than this is not read.
const MAX_INPUT: u64 = 16 << 20;

/// A file that an argument names, or with `-` standard input.
pub fn read_file(from: &str, hint: &str) -> Result<(PathBuf, Vec<u8>), Failure> {
    let name = PathBuf::from(if from == "-" { "standard input" } else { from });
    let unreadable = |problem: String| Failure::input(name.display(), problem, hint);
    let mut bytes = Vec::new();
    let read = match from {
        "-" => std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes),
        from => std::fs::File::open(from).and_then(|file| file.take(MAX_INPUT).read_to_end(&mut bytes)),
    };
    let length = read.map_err(|error| unreadable(error.to_string()))?;
    if length as u64 == MAX_INPUT {
        return Err(unreadable(format!("it is longer than {} MiB", MAX_INPUT >> 20)));
    }
    Ok((name, bytes))
}

/// Words that are joined on the command line, and one text in a call.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(vec![String::deserialize(from)?])
}

/// An atom to be made.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AtomObject {
    /// What is to be done
    description: String,
    /// Its id; the next in sequence if not said
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// Ids of what must be resolved before it
    #[serde(default)]
    depends_on: Vec<String>,
    /// The OR group that it is a choice of
    #[serde(skip_serializing_if = "Option::is_none")]
    or_group: Option<String>,
    /// The command that must succeed before it counts as resolved
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    /// Why it has none
    #[serde(skip_serializing_if = "Option::is_none")]
    no_check: Option<String>,
    /// The command that solves it, without any agent
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    /// Globs of what it writes; two that overlap do not run at the same time
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    writes: Vec<String>,
    /// Something that only one may use at a time
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    /// What the host that works on it must offer, if the loop runs on several machines
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
    /// Whether a probe looks into it before the first attempt
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<bool>,
    /// The agent that works on it, by its name
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

/// Atoms, each as the JSON object that the command line takes as well.
pub fn atom_words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let atoms: Vec<AtomObject> = Vec::deserialize(from)?;
    Ok(atoms.iter().map(|atom| json!(atom).to_string()).collect())
}

pub fn atoms<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NewAtom>, D::Error> {
    let atoms: Vec<AtomObject> = Vec::deserialize(from)?;
    atoms.iter().map(|atom| atom_of(json!(atom)).map_err(de::Error::custom)).collect()
}

/// An atom from an object with the keys of the file; a check that is a text is a command.
pub fn atom_of(mut object: Value) -> serde_json::Result<NewAtom> {
    if let Some(command) = object["check"].as_str() {
        object["check"] = json!({"type": "command", "value": command});
    }
    serde_json::from_value(object)
}

/// What a judge says of one criterion.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreObject {
    /// The criterion, by its name in the brief
    criterion: String,
    /// From 1, the worst, to 5
    score: u32,
    /// Why this score and not one higher
    reason: String,
    /// At least one place that shows it
    evidence: Vec<String>,
}

/// Scores as the JSON object that the command line takes.
pub fn scores<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let all: Vec<ScoreObject> = Vec::deserialize(from)?;
    Ok(Some(json!({"scores": all}).to_string()))
}

/// A choice of an OR group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// An OR group
    group: String,
    /// The way to take
    atom: String,
}

pub fn selections<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all: Vec<Selection> = Vec::deserialize(from)?;
    Ok(all.into_iter().map(|Selection { group, atom }| format!("{group}={atom}")).collect())
}

/// A further choice of an OR group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewChoice {
    /// An OR group
    group: String,
    /// The way, tried last
    description: String,
}

/// Each choice as two words.
pub fn new_choices<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all: Vec<NewChoice> = Vec::deserialize(from)?;
    Ok(all.into_iter().flat_map(|NewChoice { group, description }| [group, description]).collect())
}

/// Another result of a resolved atom.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rebinding {
    /// A resolved atom
    atom: String,
    /// What it came to
    summary: String,
}

/// Each result as two words.
pub fn rebindings<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all: Vec<Rebinding> = Vec::deserialize(from)?;
    Ok(all.into_iter().flat_map(|Rebinding { atom, summary }| [atom, summary]).collect())
}

/// All that an atom depends on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dependencies {
    /// An atom
    atom: String,
    /// All that it depends on
    depends_on: Vec<String>,
}

pub fn dependencies<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all: Vec<Dependencies> = Vec::deserialize(from)?;
    let word =
        |Dependencies { atom, depends_on }: Dependencies| format!("{atom} <- {}", depends_on.join(","));
    Ok(all.into_iter().map(word).collect())
}

/// Limits by their names in the file, each a text or a number.
pub fn limits<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let all: Map<String, Value> = Map::deserialize(from)?;
    let word = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok(format!("{name}={text}")),
        Value::Number(number) => Ok(format!("{name}={number}")),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(de::Error::custom(format!("`{name}` is neither a text nor a number")))
        }
    };
    all.iter().map(word).collect()
}

pub fn limits_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let limit = |name: &str| (name.to_owned(), json!({"type": "string"}));
    let properties: Map<String, Value> = LIMITS.iter().map(|name| limit(name)).collect();
    schemars::json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}

/// Checks as they stand in the file. The contract's own reader reads them, and names what is wrong.
pub fn checks_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let text = |description: &str| json!({"type": "string", "description": description});
    let check = json!({"type": "object", "properties": {
        "type": text("command, not_command, file, not_file or assertion"),
        "value": text("The command, the glob, or what a person confirms"),
    }});
    let item = json!({"type": "object", "properties": {"item": text("Its name"), "check": check}});
    schemars::json_schema!({
        "type": "object", "properties": {"checklist": {"type": "array", "items": item}},
    })
}
