//! A request in neutral words: who said what, which tools are offered, which shape the answer should have. Knows no
//! wire format.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    Anthropic,
    Responses,
    Chat,
    Gemini,
}

#[derive(Clone, Debug)]
pub struct Conversation {
    pub dialect: Dialect,
    pub model: String,
    pub delivery: Delivery,
    pub system: String,
    pub entries: Vec<Entry>,
    pub tools: Vec<Tool>,
    /// The JSON schema that the answer's text is to follow.
    pub schema: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    Stream,
    Whole,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    User(String),
    /// A text or a call of the model.
    Model(String),
    Result(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: String,
    /// Codex puts the tools of an MCP server into a namespace.
    pub namespace: Option<String>,
    pub kind: ToolKind,
    /// The JSON schema of its input.
    pub input: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    Function,
    /// Takes a text instead of an object.
    Text,
    /// Codex lets the model write programs for one of its tools, and offers the others inside.
    Nested,
}

impl Conversation {
    /// How many answers the model has given: what it said and called in one go is one answer.
    pub fn turn(&self) -> usize {
        let is_model = |entry: &Entry| matches!(entry, Entry::Model(_));
        let begins =
            |at: &usize| is_model(&self.entries[*at]) && (*at == 0 || !is_model(&self.entries[at - 1]));
        (0..self.entries.len()).filter(begins).count()
    }

    pub fn results(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::Result(_))).count()
    }

    /// Everything the user said, and what the client says in the user's name.
    pub fn prompt(&self) -> String {
        let said = self.entries.iter().filter_map(|entry| match entry {
            Entry::User(text) => Some(text.as_str()),
            Entry::Model(_) | Entry::Result(_) => None,
        });
        said.collect::<Vec<_>>().join("\n")
    }

    /// What the tools of the last answer returned.
    pub fn last_results(&self) -> String {
        let since = self.entries.iter().rev().take_while(|entry| !matches!(entry, Entry::Model(_)));
        let results = since.filter_map(|entry| match entry {
            Entry::Result(text) => Some(text.as_str()),
            Entry::User(_) | Entry::Model(_) => None,
        });
        let mut results: Vec<_> = results.collect();
        results.reverse();
        results.join("\n")
    }
}
