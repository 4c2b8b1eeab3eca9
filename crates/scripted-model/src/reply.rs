//! One answer of the model: a step of the script in the words of this client's own tools. Knows tool names, and no
//! wire format.

use serde_json::{Map, Value, json};

use super::conversation::{Conversation, Dialect, Tool, ToolKind};
use super::script::{Step, Usage};

#[derive(Clone, Debug)]
pub struct Reply {
    pub blocks: Vec<Block>,
    pub usage: Usage,
    pub model: String,
    /// Different in each answer, so that ids made of it are too.
    pub serial: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    Call { tool: Tool, input: Value },
}

impl Reply {
    pub fn calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Call { .. }))
    }

    pub fn id(&self, kind: &str, index: usize) -> String {
        format!("{kind}_{:08}{index:02}", self.serial)
    }
}

/// What a step says to this client. Errors, hangs and drops say what would have come.
pub fn blocks(step: &Step, conversation: &Conversation) -> Vec<Block> {
    match step {
        Step::Say(text) | Step::Trickle { text, .. } => vec![Block::Text(text.clone())],
        Step::Write { path, text } => vec![write(path, text, conversation)],
        Step::Run(command) => vec![run(command, conversation)],
        Step::Read(path) => vec![read(path, conversation)],
        Step::Submit(result) => vec![submit(result, conversation)],
        Step::Answer(answer) => vec![give(answer, conversation)],
        Step::Call { tool, input } => {
            vec![offered(&[tool.as_str()], input, conversation).unwrap_or_else(|| anyway(tool, input))]
        }
        Step::Together(steps) => steps.iter().flat_map(|step| blocks(step, conversation)).collect(),
        Step::Error(_) | Step::Hang(_) | Step::Drop(_) => {
            vec![Block::Text("This answer is one that never arrives in full.".into())]
        }
    }
}

/// A harmless answer to a question that the script does not know. Who asked for a shape gets the smallest that fits.
pub fn harmless(otherwise: &str, conversation: &Conversation) -> Vec<Block> {
    let text = match &conversation.schema {
        Some(schema) => smallest(schema).to_string(),
        None => otherwise.to_owned(),
    };
    vec![Block::Text(text)]
}

const WRITERS: [&str; 3] = ["Write", "write_file", "write"];
const READERS: [&str; 3] = ["Read", "read_file", "read"];
const SHELLS: [&str; 6] = ["Bash", "exec_command", "shell_command", "run_shell_command", "bash", "shell"];

fn write(path: &str, text: &str, conversation: &Conversation) -> Block {
    let words = json!({"file_path": path, "filePath": path, "path": path, "content": text});
    let (quoted_path, quoted_text) = (quoted(path), quoted(text));
    let command = format!("mkdir -p \"$(dirname {quoted_path})\" && printf %s {quoted_text} > {quoted_path}");
    offered(&WRITERS, &words, conversation)
        .or_else(|| in_shell(&command, conversation))
        .unwrap_or_else(|| anyway(usual("Write", "write_file", "write", conversation), &words))
}

fn read(path: &str, conversation: &Conversation) -> Block {
    let words = json!({"file_path": path, "filePath": path, "path": path});
    offered(&READERS, &words, conversation)
        .or_else(|| in_shell(&format!("cat {}", quoted(path)), conversation))
        .unwrap_or_else(|| anyway(usual("Read", "read_file", "read", conversation), &words))
}

fn run(command: &str, conversation: &Conversation) -> Block {
    let name = usual("Bash", "run_shell_command", "bash", conversation);
    in_shell(command, conversation).unwrap_or_else(|| anyway(name, &json!({"command": command})))
}

fn in_shell(command: &str, conversation: &Conversation) -> Option<Block> {
    let words = json!({
        "command": command, "cmd": command, "description": "A step of the script",
        // Codex lets a command run on behind the model's back unless told to wait for it; this is its longest wait.
        "yield_time_ms": 30_000,
    });
    offered(&SHELLS, &words, conversation)
}

fn submit(result: &Value, conversation: &Conversation) -> Block {
    match ending_in("submit_result", conversation) {
        Some(tool) => Block::Call { tool: tool.clone(), input: result.clone() },
        None => anyway("submit_result", result),
    }
}

fn give(answer: &Value, conversation: &Conversation) -> Block {
    match ending_in("StructuredOutput", conversation) {
        Some(tool) => Block::Call { tool: tool.clone(), input: answer.clone() },
        None if conversation.schema.is_none() && ending_in("submit_result", conversation).is_some() => {
            submit(answer, conversation)
        }
        None => Block::Text(answer.to_string()),
    }
}

fn ending_in<'a>(name: &str, conversation: &'a Conversation) -> Option<&'a Tool> {
    conversation.tools.iter().find(|tool| tool.name.ends_with(name))
}

fn offered(names: &[&str], words: &Value, conversation: &Conversation) -> Option<Block> {
    let tool = names.iter().find_map(|name| conversation.tools.iter().find(|tool| tool.name == *name))?;
    let input = match tool.kind {
        ToolKind::Function | ToolKind::Nested => fitted(words, &tool.input),
        ToolKind::Text => words.clone(),
    };
    Some(Block::Call { tool: tool.clone(), input })
}

/// A model may call what it was not offered. The client has to refuse it, and what it returns shows that it did.
fn anyway(name: &str, input: &Value) -> Block {
    let tool = Tool { name: name.into(), namespace: None, kind: ToolKind::Function, input: Value::Null };
    Block::Call { tool, input: input.clone() }
}

/// What the client that usually speaks this dialect calls its tool.
fn usual(
    claude: &'static str,
    gemini: &'static str,
    other: &'static str,
    conversation: &Conversation,
) -> &'static str {
    match conversation.dialect {
        Dialect::Anthropic => claude,
        Dialect::Gemini => gemini,
        Dialect::Chat | Dialect::Responses => other,
    }
}

/// Of these words those that the tool knows, in its types, and the least of whatever else it requires.
fn fitted(words: &Value, schema: &Value) -> Value {
    let Some(known) = schema["properties"].as_object() else { return words.clone() };
    let mut input = smallest(schema).as_object().cloned().unwrap_or_default();
    for (name, word) in words.as_object().into_iter().flatten() {
        match known.get(name) {
            Some(shape) if shape["type"] == "array" && word.is_string() => {
                input.insert(name.clone(), json!(["bash", "-c", word]));
            }
            Some(_) => {
                input.insert(name.clone(), word.clone());
            }
            None => {}
        }
    }
    Value::Object(input)
}

/// The smallest value that a simple schema allows.
fn smallest(schema: &Value) -> Value {
    if let Some(choice) = schema["enum"].get(0) {
        return choice.clone();
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    let kind = schema["type"].as_str().or(schema["type"][0].as_str()).unwrap_or_default();
    match kind.to_ascii_lowercase().as_str() {
        "object" => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let fields = required.map(|name| (name.to_owned(), smallest(&schema["properties"][name])));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        "null" => Value::Null,
        _ => json!("Done"),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
