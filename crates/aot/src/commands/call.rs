//! `aot call TOOL`: a verb with its arguments as JSON on standard input. `aot mcp` answers every call of an agent by
//! starting this, so that refusals, locks and ends are those of the command line. Knows no protocol.

use std::io::Read;

use clap::Args;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Invocation, Verb, align, atom, gate, graph, judge, lint, log, or, ready, redirect, run, show};
use super::{status, stop, turn, validate, verify};
use crate::failure::{Failure, FailureKind};
use crate::print::{Answer, OutputFormat};

/// Longer arguments are refused, in bytes.
pub const LONGEST_CALL: u64 = 8 << 20;

/// One verb, as agents call it. What it takes is what its struct says.
#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub effect: ToolEffect,
    pub form: AnswerForm,
    /// What an agent has to know beside the verb's help.
    note: &'static str,
    schema: fn() -> Value,
    read: fn(Value) -> serde_json::Result<Box<dyn Verb>>,
}

/// What a client may assume of a call before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// It reads, and starts nothing.
    ReadOnly,
    /// It changes nothing of the loop, but runs the commands that were agreed on, and those may do anything.
    RunsChecks,
    /// It changes the loop, and takes nothing away.
    Changes,
    /// It discards work, or the agreement.
    Destructive,
}

/// Which half of a verb's answer an agent reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    Object,
    /// The text that people see, in an object under the tool's name.
    Text,
}

const fn tool<V>(name: &'static str, title: &'static str, effect: ToolEffect, note: &'static str) -> Tool
where
    V: Verb + JsonSchema + DeserializeOwned + 'static,
{
    Tool { name, title, effect, form: AnswerForm::Object, note, schema: schema_of::<V>, read: read::<V> }
}

const fn drawn(tool: Tool) -> Tool {
    Tool { form: AnswerForm::Text, ..tool }
}

#[rustfmt::skip]
pub const TOOLS: &[Tool] = &[
    tool::<status::StatusArgs>("status", "Where the loop stands", ToolEffect::ReadOnly, ""),
    tool::<ready::ReadyArgs>("ready", "What can start now", ToolEffect::ReadOnly, ""),
    tool::<show::ShowArgs>(
        "show", "The state", ToolEffect::ReadOnly,
        "All of it, one section, or all about one atom. A large state is cut, and says how the rest is had.",
    ),
    drawn(tool::<graph::GraphArgs>("graph", "The graph", ToolEffect::ReadOnly, "")),
    tool::<log::LogArgs>("log", "What happened", ToolEffect::ReadOnly, ""),
    tool::<validate::ValidateArgs>("validate", "Mistakes in the state file", ToolEffect::ReadOnly, ""),
    tool::<gate::GateArgs>("gate", "Is the goal agreed on", ToolEffect::ReadOnly, ""),
    tool::<lint::LintArgs>("lint", "Checks that prove nothing", ToolEffect::RunsChecks, ""),
    tool::<verify::VerifyArgs>(
        "verify", "Run the base case", ToolEffect::RunsChecks,
        "It changes nothing of the loop and does not complete it; `turn` does.",
    ),
    tool::<judge::JudgeArgs>(
        "judge", "Score a quality check", ToolEffect::Changes,
        "Only an agent that did not do the work may score it. Without `scores` it answers with the brief.",
    ),
    tool::<align::AlignArgs>(
        "align", "Agree on a goal", ToolEffect::Destructive,
        "Call it only when the user has said yes to all of it.",
    ),
    tool::<run::EnterArgs>(
        "enter", "Take the loop", ToolEffect::Changes,
        "Then: `atom_start`, work in the folder that it names, `atom_resolve` or `atom_fail`, and `turn` when nothing is \
         in progress. `take_over` only if the user says so.",
    ),
    tool::<turn::TurnArgs>(
        "turn", "End the turn", ToolEffect::Changes,
        "What is still in progress goes back, and the base case is run if all is resolved.",
    ),
    tool::<stop::StopArgs>(
        "stop", "Stop the loop", ToolEffect::Destructive,
        "Nothing new starts, what runs may finish; with `now` it is given up.",
    ),
    tool::<redirect::RedirectArgs>(
        "redirect", "Change the direction", ToolEffect::Destructive,
        "Call it only for what the user wants. `hold` only interrupts, `cancel` lets it go on as it was.",
    ),
    tool::<atom::AtomAddArgs>("atom_add", "Add an atom", ToolEffect::Changes, ""),
    tool::<atom::AtomStartArgs>(
        "atom_start", "Start an atom", ToolEffect::Changes,
        "In this session's loop it answers with `tree`, the folder to work in, and with the brief.",
    ),
    tool::<atom::AtomBriefArgs>("atom_brief", "The brief of an atom", ToolEffect::ReadOnly, ""),
    tool::<atom::AtomResolveArgs>(
        "atom_resolve", "Resolve an atom", ToolEffect::Changes,
        "The program runs the atom's check in its folder itself, and commits the work. A red check is refused with its \
         evidence; mend it and call again.",
    ),
    tool::<atom::AtomFailArgs>("atom_fail", "Give an atom up", ToolEffect::Destructive, "Its work is discarded."),
    tool::<atom::AtomDecomposeArgs>("atom_decompose", "Decompose an atom", ToolEffect::Changes, ""),
    tool::<atom::AtomWithdrawArgs>("atom_withdraw", "Take a decomposition back", ToolEffect::Destructive, ""),
    tool::<atom::AtomRemoveArgs>("atom_remove", "Remove an atom", ToolEffect::Destructive, ""),
    tool::<or::OrAddArgs>("or_add", "Add alternatives", ToolEffect::Changes, ""),
    tool::<or::OrSwitchArgs>("or_switch", "Take another alternative", ToolEffect::Destructive, ""),
];

pub fn named(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Run a verb with its arguments as JSON on standard input
#[derive(Debug, Args)]
pub struct CallArgs {
    tool: String,
}

impl Verb for CallArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let tool = named(&self.tool).ok_or_else(|| unusable(format!("there is no tool `{}`", self.tool)))?;
        let mut text = Vec::new();
        let read = std::io::stdin().lock().take(LONGEST_CALL + 1).read_to_end(&mut text);
        read.map_err(|error| Failure::world("read the arguments", error))?;
        let verb = verb_of(tool, &text)?;
        match tool.form {
            AnswerForm::Object => verb.run(invocation),
            AnswerForm::Text => {
                let state = invocation.state.clone();
                let answer = verb.run(&Invocation { state, format: OutputFormat::Text })?;
                Ok(Answer { json: json!({ tool.name: answer.text }), ..answer })
            }
        }
    }
}

fn unusable(problem: String) -> Failure {
    Failure::new(FailureKind::Usage, "usage", problem)
        .with_hint("Nothing was done: correct it and call again")
}

/// The verb that a call asks for, or what is wrong with its arguments.
pub fn verb_of(tool: &Tool, text: &[u8]) -> Result<Box<dyn Verb>, Failure> {
    if text.len() as u64 > LONGEST_CALL {
        return Err(unusable(format!("the arguments are longer than {LONGEST_CALL} bytes")));
    }
    let arguments: Map<String, Value> =
        serde_json::from_slice(text).map_err(|error| unusable(error.to_string()))?;
    if has_nul(&Value::Object(arguments.clone())) {
        return Err(Failure::world("take the arguments", "a text has a NUL in it"));
    }
    tool.verb(arguments).map_err(unusable)
}

/// A command line cannot hold a NUL, and a verb is not made for one.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl Tool {
    /// What the verb's help says first, and what an agent has to know beside it.
    pub fn description(&self) -> String {
        let schema = (self.schema)();
        let help = schema["description"].as_str().unwrap_or_default();
        let help = help.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        format!("{help}. {}", self.note).trim_end().to_owned()
    }

    /// The JSON Schema of what it takes.
    pub fn schema(&self) -> Map<String, Value> {
        let schema = (self.schema)();
        let mut object = Map::new();
        object.insert("type".into(), json!("object"));
        object.insert("properties".into(), schema.get("properties").cloned().unwrap_or_else(|| json!({})));
        object.insert("additionalProperties".into(), json!(false));
        if let Some(required) = schema.get("required") {
            object.insert("required".into(), required.clone());
        }
        object
    }

    /// The verb with these arguments, or what is wrong with them. A field that is null was not given.
    fn verb(&self, mut arguments: Map<String, Value>) -> Result<Box<dyn Verb>, String> {
        arguments.retain(|_, value| !value.is_null());
        let schema = self.schema();
        let fields = schema["properties"].as_object().expect("it is made as one");
        if let Some(unknown) = arguments.keys().find(|name| !fields.contains_key(*name)) {
            let known: Vec<String> = fields.keys().map(|name| format!("`{name}`")).collect();
            let known = match known.is_empty() {
                true => "it takes none".into(),
                false => format!("known: {}", known.join(", ")),
            };
            return Err(format!("`{}` has no field `{unknown}`; {known}", self.name));
        }
        for (name, shape) in fields {
            match arguments.get(name) {
                None if is_required(&schema, name) => {
                    return Err(format!("`{name}` is missing; {} is expected", expected(shape)));
                }
                Some(value) if !fits(value, shape) => {
                    return Err(format!("`{name}` is not right; {} is expected", expected(shape)));
                }
                Some(_) | None => {}
            }
        }
        (self.read)(Value::Object(arguments)).map_err(|error| error.to_string())
    }
}

fn read<V: Verb + DeserializeOwned + 'static>(arguments: Value) -> serde_json::Result<Box<dyn Verb>> {
    serde_json::from_value::<V>(arguments).map(|verb| Box::new(verb) as Box<dyn Verb>)
}

/// The schema of a struct, without references and in the words that every client understands.
fn schema_of<V: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<V>().to_value();
    simplify(&mut schema);
    schema
}

/// Clients differ in what they make of nullable types, formats and defaults, and a field that may be absent needs none.
fn simplify(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    for key in ["title", "format", "default"] {
        schema.remove(key);
    }
    if let Some(Value::Array(types)) = schema.get("type") {
        let first = types.iter().find(|kind| *kind != "null").cloned();
        schema.insert("type".into(), first.unwrap_or_else(|| json!("null")));
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    if let Some(items) = schema.get_mut("items") {
        simplify(items);
    }
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
}

/// Whether a value has the shape of its schema, as far as our structs use schemas. The verbs read more precisely.
fn fits(value: &Value, shape: &Value) -> bool {
    match shape["type"].as_str() {
        Some("string") => value.is_string() && shape["enum"].as_array().is_none_or(|all| all.contains(value)),
        Some("integer") => {
            value.as_u64().is_some_and(|number| number >= shape["minimum"].as_u64().unwrap_or(0))
        }
        Some("boolean") => value.is_boolean(),
        Some("array") => {
            value.as_array().is_some_and(|all| all.iter().all(|item| fits_item(item, &shape["items"])))
        }
        Some("object") => value.as_object().is_some_and(|fields| are_known(fields, shape)),
        Some(_) | None => true,
    }
}

/// An entry of a list: an object is read field by field.
fn fits_item(item: &Value, shape: &Value) -> bool {
    let (Some(fields), Some(shape)) = (item.as_object(), shape.as_object()) else { return fits(item, shape) };
    let properties = &shape["properties"];
    are_known(fields, &json!(shape))
        && fields.iter().all(|(name, value)| fits(value, &properties[name]))
        && properties
            .as_object()
            .is_some_and(|all| all.keys().all(|name| fields.contains_key(name) || !is_required(shape, name)))
}

fn are_known(fields: &Map<String, Value>, shape: &Value) -> bool {
    shape["additionalProperties"] != false
        || fields.keys().all(|name| shape["properties"].get(name).is_some())
}

/// What a schema expects, in words.
fn expected(shape: &Value) -> String {
    let names = |value: &Value| -> Vec<String> {
        value.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    match shape["type"].as_str() {
        Some("string") => match shape["enum"].as_array() {
            Some(all) => {
                let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
                format!("one of {}", all.join(", "))
            }
            None => "a text".into(),
        },
        Some("integer") => "a whole number from 1".into(),
        Some("boolean") => "true or false".into(),
        Some("array") if shape["items"]["type"] == "string" => "a list of texts".into(),
        Some("array") => {
            let required = shape["items"]["required"].as_array().into_iter().flatten();
            let fields: Vec<String> = required
                .filter_map(Value::as_str)
                .map(|name| match shape["items"]["properties"][name]["type"] == "array" {
                    true => format!("\"{name}\": [\"TEXT\"]"),
                    false => format!("\"{name}\": \"TEXT\""),
                })
                .collect();
            format!("a list like [{{{}}}]", fields.join(", "))
        }
        _ => format!("an object with some of {}", names(&shape["properties"]).join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tool: &str, arguments: Value) -> Result<String, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let verb = named(tool).expect("a tool").verb(arguments)?;
        Ok(format!("{verb:?}"))
    }

    #[test]
    fn calls_become_verbs() {
        for (tool, arguments, expected) in [
            ("status", json!({}), "StatusArgs { watch: false }"),
            (
                "show",
                json!({"atom": "A1", "from": null}),
                r#"ShowArgs { atom: Some("A1"), section: None, from: None }"#,
            ),
            (
                "log",
                json!({"atom": "A1", "number": 3}),
                r#"LogArgs { number: 3, about: Some("A1"), atom: None, briefs: false, follow: false, trace: None, otlp: None }"#,
            ),
            (
                "verify",
                json!({"fresh": true}),
                "VerifyArgs { fresh: true, no_judge: false, jobs: 8, verbose: false }",
            ),
            ("stop", json!({"reason": "--now"}), r#"StopArgs { reason: ["--now"], now: false }"#),
            (
                "atom_resolve",
                json!({"atom": "A1", "summary": "--help", "artifacts": ["-a", "b"]}),
                r#"AtomResolveArgs { atom: "A1", summary: "--help", artifacts: ["-a", "b"] }"#,
            ),
            (
                "or_switch",
                json!({"group": "g", "choice": "A4", "reason": "r"}),
                r#"OrSwitchArgs { group: "g", choice: "A4", reason: "r" }"#,
            ),
            ("enter", json!({"take_over": true}), "EnterArgs { take_over: true }"),
        ] {
            assert_eq!(read(tool, arguments).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn lists_become_the_words_of_the_command_line() {
        let redirect = read(
            "redirect",
            json!({
                "reason": "-r", "select": [{"group": "g", "atom": "A4"}],
                "rebind": [{"atom": "A3", "summary": "-s"}], "set": {"max_iterations": 30},
                "depends": [{"atom": "A5", "depends_on": ["A1", "A2"]}],
                "add": [{"description": "d", "check": "true"}],
            }),
        )
        .expect("it is right");
        for expected in [
            r#"text: ["-r"]"#,
            r#"select: ["g=A4"]"#,
            r#"rebind: ["A3", "-s"]"#,
            r#"set: ["max_iterations=30"]"#,
            r#"depends: ["A5 <- A1,A2"]"#,
            r#"add: ["{\"description\":\"d\",\"depends_on\":[],\"check\":\"true\"}"]"#,
            "accept: false",
        ] {
            assert!(redirect.contains(expected), "{expected} is not in {redirect}");
        }
        let align = json!({
            "goal": "g", "intent": "i", "deliverable": ["a", "b"], "done": "d", "atom": [{"description": "x"}],
        });
        let align = read("align", align).expect("it is right");
        for expected in [r#"deliverable: ["a", "b"]"#, "yes: true", "force: false"] {
            assert!(align.contains(expected), "{expected} is not in {align}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (tool, arguments, expected) in [
            ("status", json!({"x": 1}), "`status` has no field `x`; it takes none"),
            ("atom_start", json!({"id": "A1"}), "`atom_start` has no field `id`; known: `atom`"),
            ("atom_start", json!({}), "`atom` is missing; a text is expected"),
            ("atom_start", json!({"atom": null}), "`atom` is missing; a text is expected"),
            ("atom_start", json!({"atom": 1}), "`atom` is not right; a text is expected"),
            ("align", json!({"intent": "i"}), "`goal` is missing; a text is expected"),
            ("log", json!({"number": 0}), "`number` is not right; a whole number from 1 is expected"),
            ("stop", json!({"now": "yes"}), "`now` is not right; true or false is expected"),
            ("show", json!({"section": "x"}), "`section` is not right; one of objective, control, atoms, "),
            (
                "or_add",
                json!({"group": "g", "choices": "A4"}),
                "`choices` is not right; a list of texts is expected",
            ),
            (
                "redirect",
                json!({"rebind": [{"atom": "A1"}]}),
                r#"`rebind` is not right; a list like [{"atom": "TEXT", "summary": "TEXT"}] is expected"#,
            ),
            (
                "redirect",
                json!({"set": {"speed": 9}}),
                "`set` is not right; an object with some of max_iterations",
            ),
            ("redirect", json!({"accept": true}), "`redirect` has no field `accept`"),
        ] {
            let wrong = read(tool, arguments).expect_err(expected);
            assert!(wrong.starts_with(expected), "{wrong}");
        }
    }
}
