//! The shape of an answer: one JSON Schema that is sent to the agent, told in words and held against what comes back.
//!
//! The schema keeps to what every structured-output mode understands: types, properties, items and enumerations, all
//! properties required, nothing beside them. Sizes are not in it; the reading sees to those.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::text::one_line;

/// An answer as text is refused beyond this, unread.
pub const ANSWER_LIMIT: usize = 256 * 1024;

/// So many faults are named at once; more would only bury the first.
pub const MAX_FAULTS: usize = 8;

/// Of an enumeration so many values are named.
const MAX_NAMED: usize = 16;

/// How much of a foreign name or text is repeated in a reason.
const FOUND_LIMIT: usize = 60;

/// Why an answer cannot be taken, in words that can go back to the agent as they stand: the field, what was found,
/// what is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unreadable {
    pub reason: String,
}

/// An answer as it came: text, or JSON that somebody has parsed already.
#[derive(Clone, Copy, Debug)]
pub enum RawAnswer<'s> {
    Text(&'s str),
    Json(&'s Value),
}

impl<'s> From<&'s str> for RawAnswer<'s> {
    fn from(text: &'s str) -> RawAnswer<'s> {
        RawAnswer::Text(text)
    }
}

impl<'s> From<&'s String> for RawAnswer<'s> {
    fn from(text: &'s String) -> RawAnswer<'s> {
        RawAnswer::Text(text)
    }
}

impl<'s> From<&'s Value> for RawAnswer<'s> {
    fn from(json: &'s Value) -> RawAnswer<'s> {
        RawAnswer::Json(json)
    }
}

/// What is wrong with an answer, collected, so that one more question is enough to mend it all.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<String>,
    more: usize,
}

impl Faults {
    pub(super) fn note(&mut self, field: &str, found: impl AsRef<str>, wanted: impl AsRef<str>) {
        if self.found.len() < MAX_FAULTS {
            self.found.push(format!("`{field}`: {}; wanted: {}", found.as_ref(), wanted.as_ref()));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn into_result<T>(mut self, answer: T) -> Result<T, Unreadable> {
        if self.found.is_empty() {
            return Ok(answer);
        }
        if self.more > 0 {
            self.found.push(format!("and {} more", self.more));
        }
        Err(Unreadable { reason: self.found.join("\n") })
    }
}

pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    make_strict(&mut schema);
    // The comment on the type is for readers of the code.
    schema.as_object_mut().expect("an answer is an object").shift_remove("description");
    schema
}

fn make_strict(schema: &mut Value) {
    const KEPT: [&str; 7] =
        ["type", "description", "properties", "required", "additionalProperties", "items", "enum"];
    let Value::Object(keywords) = schema else { return };
    keywords.retain(|keyword, _| KEPT.contains(&keyword.as_str()));
    if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
        properties.values_mut().for_each(make_strict);
        let names = properties.keys().map(|name| Value::from(name.as_str())).collect();
        keywords.insert("required".into(), Value::Array(names));
        keywords.insert("additionalProperties".into(), Value::Bool(false));
    }
    if let Some(items) = keywords.get_mut("items") {
        make_strict(items);
    }
    // A sentence in a comment is broken over lines; in a prompt it is one.
    if let Some(Value::String(description)) = keywords.get_mut("description") {
        *description = one_line(description, usize::MAX);
    }
}

/// The fields of an answer as a list, for the end of a brief. Objects of the same shape are told once.
pub(super) fn fields_in_words(schema: &Value) -> String {
    let mut text = String::new();
    write_fields(&mut text, schema, 0, &mut Vec::new());
    text
}

fn write_fields<'s>(
    text: &mut String,
    schema: &'s Value,
    depth: usize,
    told: &mut Vec<(&'s Map<String, Value>, &'s str)>,
) {
    for (name, field) in properties(schema).into_iter().flatten() {
        let description = field["description"].as_str().unwrap_or_default();
        let indent = "  ".repeat(depth);
        text.push_str(&format!("{indent}- `{name}` ({}): {description}", wanted(field)));
        let inner = if field["items"].is_object() { &field["items"] } else { field };
        let before = properties(inner).and_then(|fields| told.iter().find(|(other, _)| *other == fields));
        if let Some((_, before)) = before {
            text.push_str(&format!(" Fields as in `{before}`.\n"));
            continue;
        }
        text.push('\n');
        told.extend(properties(inner).map(|fields| (fields, name.as_str())));
        write_fields(text, inner, depth + 1, told);
    }
}

/// Finds the one JSON object in an answer, and holds it against a schema. A field that may be null may be absent: it
/// comes back as null.
pub(super) fn fit(schema: &Value, said: RawAnswer<'_>) -> Result<Value, Unreadable> {
    let parsed;
    let object = match said {
        RawAnswer::Json(Value::String(text)) => {
            parsed = parse(text)?;
            &parsed
        }
        RawAnswer::Text(text) => {
            parsed = parse(text)?;
            &parsed
        }
        RawAnswer::Json(json) => json,
    };
    let mut faults = Faults::default();
    let fitted = fit_at(schema, object, "the answer", &mut faults);
    faults.into_result(fitted)
}

/// Never prose: the whole text is the object, or a string that holds it, or there is exactly one `json` fence.
fn parse(text: &str) -> Result<Value, Unreadable> {
    if text.len() > ANSWER_LIMIT {
        let reason = format!("the answer has {} bytes; wanted: at most {ANSWER_LIMIT}", text.len());
        return Err(Unreadable { reason });
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    let within;
    let mut json = text;
    if text.starts_with('"') {
        within = serde_json::from_str::<String>(text).map_err(|error| not_json(&error))?;
        json = within.trim();
    }
    if !json.starts_with('{') {
        json = only_fence(json)?;
    }
    serde_json::from_str(json).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> Unreadable {
    Unreadable {
        reason: format!("the answer is not valid JSON ({error}); wanted: one JSON object and nothing else"),
    }
}

fn only_fence(text: &str) -> Result<&str, Unreadable> {
    const OPEN: &str = "```json";
    const CLOSE: &str = "```";
    let starts = |at: usize| at == 0 || text.as_bytes()[at - 1] == b'\n';
    let opened: Vec<usize> =
        text.match_indices(OPEN).map(|(at, _)| at).filter(|at| starts(*at)).take(2).collect();
    let [at] = opened[..] else {
        let found =
            if opened.is_empty() { "the answer is no JSON object" } else { "the answer has several objects" };
        return Err(Unreadable { reason: format!("{found}; wanted: one JSON object and nothing else") });
    };
    let from = at + OPEN.len();
    let to = text[from..].find("\n```").map_or(text.len(), |end| from + end);
    Ok(text[from..to].trim_end_matches(CLOSE).trim())
}

fn fit_at(schema: &Value, value: &Value, field: &str, faults: &mut Faults) -> Value {
    if !allows(schema, value) {
        return refuse(schema, value, field, faults);
    }
    match value {
        Value::Object(given) => fit_object(schema, given, field, faults),
        Value::Array(items) => {
            let fitted = items.iter().enumerate();
            fitted.map(|(n, item)| fit_at(&schema["items"], item, &format!("{field}[{n}]"), faults)).collect()
        }
        plain => plain.clone(),
    }
}

fn fit_object(schema: &Value, given: &Map<String, Value>, field: &str, faults: &mut Faults) -> Value {
    let inner = |name: &str| if field == "the answer" { name.to_owned() } else { format!("{field}.{name}") };
    let mut fitted = Map::new();
    for (name, wants) in properties(schema).into_iter().flatten() {
        let value = match given.get(name) {
            Some(value) => fit_at(wants, value, &inner(name), faults),
            None if allows(wants, &Value::Null) => Value::Null,
            None => {
                faults.note(&inner(name), "it is missing", wanted(wants));
                Value::Null
            }
        };
        fitted.insert(name.clone(), value);
    }
    for name in given.keys().filter(|name| !fitted.contains_key(*name)) {
        let known: Vec<String> = fitted.keys().map(|name| format!("`{name}`")).collect();
        let found = "there is no such field";
        faults.note(&inner(&one_line(name, FOUND_LIMIT)), found, format!("only {}", known.join(", ")));
    }
    Value::Object(fitted)
}

fn refuse(schema: &Value, value: &Value, field: &str, faults: &mut Faults) -> Value {
    faults.note(field, format!("found {}", found(value)), wanted(schema));
    Value::Null
}

/// Whether a value is of a schema's type, and one of its enumeration; what is inside it is not looked at.
fn allows(schema: &Value, value: &Value) -> bool {
    types(schema).any(|name| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => value.is_null(),
    }) && schema["enum"].as_array().is_none_or(|allowed| allowed.contains(value))
}

fn wanted(schema: &Value) -> String {
    if let Some(allowed) = schema["enum"].as_array() {
        let named: Vec<String> =
            allowed.iter().take(MAX_NAMED).map(|value| one_line(&value.to_string(), 100)).collect();
        let more = if allowed.len() > MAX_NAMED { ", …" } else { "" };
        return format!("one of {}{more}", named.join(", "));
    }
    let words = types(schema).map(|name| match name {
        "object" => "an object".to_owned(),
        "array" if properties(&schema["items"]).is_some() => "a list of objects".to_owned(),
        "array" => format!("a list of {}", types(&schema["items"]).next().map_or("values", plural)),
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "integer" => "a whole number".to_owned(),
        "number" => "a number".to_owned(),
        _ => "null".to_owned(),
    });
    words.collect::<Vec<_>>().join(" or ")
}

fn plural(name: &str) -> &str {
    match name {
        "string" => "texts",
        _ => "values",
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(is) => is.to_string(),
        Value::Number(number) => one_line(&number.to_string(), FOUND_LIMIT),
        Value::String(text) => format!("the text \"{}\"", one_line(text, FOUND_LIMIT)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema["properties"].as_object()
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    schema["type"].as_str().into_iter().chain(several)
}
