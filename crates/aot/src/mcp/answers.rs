//! What a verb answers, in the shape in which an agent reads it: no longer than an agent can read, and an error with what
//! to do about it. Knows no protocol.

use serde_json::{Map, Value, json};

use aot_runner::host;

/// No answer is longer, in bytes; about ten thousand tokens.
pub const LONGEST: usize = 40_000;

/// What an agent reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    pub error: bool,
    pub text: String,
    pub object: Value,
    /// The whole object, if this one was cut.
    pub cut: Option<Value>,
}

/// Follows every instruction, because the host does not see that a turn has ended.
const TURNS: &str =
    "\nHere your turn ends when you call `turn`; for each `aot VERB` there is a tool of that name.";

/// A brief is written for an agent that is started for it; over the protocol the agent that started the atom reads it.
fn here(brief: &str, tree: &str) -> String {
    format!(
        "{brief}\n## Here\nThe current folder of this brief is {tree}: work there and nowhere else. Instead of an answer in \
         JSON, call `atom_resolve` with the summary, or `atom_fail` with the reason.\n"
    )
}

/// The one object that a verb prints, or an error if it printed none.
pub fn object(answer: &host::Answer) -> Value {
    let last = answer.out.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
    match serde_json::from_slice(last) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => {
            error_object("world", &no_answer(answer), "call `status`; the state file is always whole")
        }
    }
}

fn no_answer(answer: &host::Answer) -> String {
    let how = match answer.exit {
        Some(code) => format!("exit code {code}"),
        None => "it was ended".to_owned(),
    };
    match answer.err.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("the verb gave no answer ({how}): {}", line.trim()),
        None => format!("the verb gave no answer ({how})"),
    }
}

/// An error of our own, in the shape of a verb's.
pub fn error_object(code: &str, message: &str, hint: &str) -> Value {
    json!({"error": {"code": code, "message": message, "hint": hint}})
}

/// An object of a verb, for an agent.
pub fn of_object(mut object: Value) -> ToolAnswer {
    if let Some(error) = object.get("error").filter(|error| error.is_object()) {
        let field = |key: &str| error[key].as_str().unwrap_or_default().trim().to_owned();
        let (message, hint) = (field("message"), hint(&field("code"), &field("hint")));
        object["error"]["hint"] = json!(hint);
        let text = [message.trim_end_matches('.'), &capital(&hint)].join(". ");
        return ToolAnswer { error: true, text, object, cut: None };
    }
    if object["success"] == json!(false) {
        let missing: Vec<&str> =
            object["missing"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let text = format!(
            "The goal is not agreed on yet; missing: {}. Ask the user, then call `align`, or `redirect` for what is to be \
             added.",
            missing.join(", ")
        );
        return ToolAnswer { error: true, text, object, cut: None };
    }
    if let Some(next) = object["next"].as_str().map(|next| next.to_owned() + TURNS) {
        object["next"] = json!(next);
    }
    if let (Some(brief), Some(tree)) = (object["brief"].as_str(), object["tree"].as_str()) {
        let brief = here(brief, tree);
        object["brief"] = json!(brief);
    }
    let whole = object.clone();
    let object = within(object, LONGEST);
    let cut = object.get("cut").is_some().then_some(whole);
    ToolAnswer { error: false, text: object.to_string(), object, cut }
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A verb's hint names commands; some of them are tools of another name here.
fn hint(code: &str, hint: &str) -> String {
    match code {
        "no_state_file" => "There is no loop here: agree on a goal with the user, then call `align`".into(),
        "owned" => {
            "Leave it to that session; if the user says that it is gone, call `enter` with `take_over`".into()
        }
        "at_rest" => "`status` says why; `enter` takes it up again".into(),
        "not_a_person" => "A part of a loop may look, and hands in its work as its brief says".into(),
        _ => hint.to_owned(),
    }
}

/// A text that a verb drew for people.
pub fn of_text(name: &str, text: &str) -> ToolAnswer {
    let whole = json!({ name: text });
    let object = within(whole.clone(), LONGEST);
    let mut text = object[name].as_str().unwrap_or_default().to_owned();
    let cut = object.get("cut").map(|cut| {
        text += &format!("\n… {cut}");
        whole
    });
    ToolAnswer { error: false, text, object, cut }
}

impl ToolAnswer {
    /// Says by which name the rest of an answer that was cut is had.
    pub fn with_rest(mut self, name: &str) -> ToolAnswer {
        let hint =
            format!("`rest` with `answer` {name}, `field` and `from` (what is shown so far) has the rest");
        let before = self.object["cut"].to_string();
        self.object["cut"]["hint"] = json!(hint);
        let after = self.object["cut"].to_string();
        self.text = match self.text.rfind(&before) {
            Some(at) => format!("{}{after}{}", &self.text[..at], &self.text[at + before.len()..]),
            None => self.object.to_string(),
        };
        self
    }
}

/// A further part of a field of an answer that was cut.
pub fn part(whole: &Value, field: &str, from: usize) -> Option<Value> {
    let value = whole.get(field)?;
    let (part, shown) = first(value, from, LONGEST - ROOM_FOR_CUT);
    let (of, next) = (length(value), from + shown);
    let next = (shown > 0 && next < of).then_some(next);
    Some(json!({ field: part, "from": from, "shown": shown, "of": of, "next": next }))
}

fn length(value: &Value) -> usize {
    match value {
        Value::Array(entries) => entries.len(),
        Value::Object(entries) => entries.len(),
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// So much is left for what says how an answer was cut.
const ROOM_FOR_CUT: usize = 300;

/// The object, with its longest parts cut until it is short enough; `cut` says what is missing.
fn within(mut object: Value, longest: usize) -> Value {
    let mut cut = Map::new();
    while object.to_string().len() > longest {
        let Some(fields) = object.as_object() else { break };
        let lengths = fields.iter().filter(|(name, _)| *name != "cut" && !cut.contains_key(*name));
        let lengths = lengths.map(|(name, value)| (name.clone(), value.to_string().len()));
        let Some((name, bytes)) = lengths.max_by_key(|(_, length)| *length) else { break };
        let room = longest.saturating_sub(object.to_string().len() - bytes + ROOM_FOR_CUT);
        let value = &object[&name];
        let (kept, shown) = first(value, 0, room);
        let of = length(value);
        cut.insert(name.clone(), json!({"shown": shown, "of": of}));
        object[name] = kept;
    }
    if !cut.is_empty() {
        object["cut"] = Value::Object(cut);
    }
    object
}

/// The beginning of a value that fits into so many bytes, and how many entries or bytes that are.
pub fn first(value: &Value, from: usize, room: usize) -> (Value, usize) {
    let mut left = room;
    let mut fits = |length: usize| {
        let fits = length < left;
        left = left.saturating_sub(length);
        fits
    };
    match value {
        Value::Array(entries) => {
            let kept = entries.iter().skip(from).take_while(|entry| fits(entry.to_string().len() + 1));
            let kept: Vec<Value> = kept.cloned().collect();
            let count = kept.len();
            (Value::Array(kept), count)
        }
        Value::Object(entries) => {
            let kept = entries.iter().skip(from);
            let kept = kept.take_while(|(key, entry)| fits(key.len() + 5 + entry.to_string().len()));
            let kept: Map<String, Value> = kept.map(|(key, entry)| (key.clone(), entry.clone())).collect();
            let count = kept.len();
            (Value::Object(kept), count)
        }
        Value::String(text) => {
            let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            let kept: String = text[from..].chars().take_while(|letter| fits(quoted(*letter))).collect();
            let length = kept.len();
            (json!(kept), length)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (value.clone(), 0),
    }
}

/// How many bytes a letter takes where it is quoted.
fn quoted(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        letter if letter < ' ' => 6,
        letter => letter.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_where_it_is_longest() {
        let atoms: Vec<Value> = (0..10_000).map(|id| json!({"id": format!("A{id}")})).collect();
        let cut = within(json!({"status": "running", "atoms": atoms, "few": [1]}), LONGEST);
        assert!(cut.to_string().len() <= LONGEST, "{}", cut.to_string().len());
        assert_eq!((&cut["status"], &cut["few"]), (&json!("running"), &json!([1])));
        assert_eq!(cut["cut"]["atoms"]["of"], 10_000);
        let shown = cut["atoms"].as_array().expect("a list").len();
        assert!(shown > 1000 && cut["cut"]["atoms"]["shown"] == shown, "{shown}");
        let text = within(json!({"graph": "ä\n".repeat(30_000)}), LONGEST);
        assert!(
            text.to_string().len() <= LONGEST
                && text["graph"].as_str().is_some_and(|text| text.len() > 25_000)
        );
        assert_eq!(within(json!({"a": [1, 2]}), LONGEST), json!({"a": [1, 2]}));
    }

    #[test]
    fn the_parts_of_a_cut_answer_are_the_whole() {
        let entries: Vec<Value> = (0..9_000).map(|id| json!({"id": format!("A{id}")})).collect();
        let text = "ä\n".repeat(50_000);
        let whole = json!({"atoms": entries, "graph": text, "n": 1});
        for (field, joined) in [("atoms", json!(entries)), ("graph", json!(text))] {
            let (mut list, mut words, mut from) = (Vec::new(), String::new(), Some(0));
            while let Some(at) = from {
                let part = part(&whole, field, at).expect("there is such a field");
                assert!(part.to_string().len() <= LONGEST, "{}", part.to_string().len());
                list.extend(part[field].as_array().into_iter().flatten().cloned());
                words += part[field].as_str().unwrap_or_default();
                from = part["next"].as_u64().map(|next| next as usize);
            }
            assert_eq!(if field == "atoms" { json!(list) } else { json!(words) }, joined);
        }
        assert_eq!(part(&whole, "nothing", 0), None);
        assert_eq!(part(&whole, "atoms", 1 << 40).expect("a part")["next"], Value::Null);
    }

    #[test]
    fn errors_say_what_to_do() {
        let said = of_object(error_object("owned", "this loop belongs to x.", "type something"));
        assert!(said.error);
        assert_eq!(
            said.text,
            "this loop belongs to x. Leave it to that session; if the user says that it is gone, call `enter` with \
             `take_over`"
        );
        assert!(of_object(json!({"success": false, "missing": ["atoms"]})).error);
        assert!(!of_object(json!({"ready": false, "missing": ["atoms"]})).error);
    }
}
