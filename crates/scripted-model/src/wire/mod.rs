//! The four wire formats: a request's JSON to a conversation, and an answer to JSON, whole or in pieces. Knows nothing
//! of scripts and sockets.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use serde_json::{Value, json};

use super::conversation::{Conversation, Dialect};
use super::reply::Reply;

/// What a path asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To be continued by the model.
    Answer(Dialect),
    /// Only how long a conversation is.
    Count(Dialect),
    /// Which models there are.
    Models,
    /// The same over a web socket, which is not spoken here.
    Socket,
    /// Whether anybody is there.
    Presence,
    Unknown,
}

pub fn asked(method: &str, path: &str) -> Asked {
    let path = path.split('?').next().unwrap_or_default();
    match method {
        "POST" if path.ends_with("/messages/count_tokens") => Asked::Count(Dialect::Anthropic),
        "POST" if path.ends_with("/messages") => Asked::Answer(Dialect::Anthropic),
        "POST" if path.ends_with("/responses") => Asked::Answer(Dialect::Responses),
        "POST" if path.ends_with("/chat/completions") => Asked::Answer(Dialect::Chat),
        "POST" if path.ends_with(":generateContent") => Asked::Answer(Dialect::Gemini),
        "POST" if path.ends_with(":streamGenerateContent") => Asked::Answer(Dialect::Gemini),
        "POST" if path.ends_with(":countTokens") => Asked::Count(Dialect::Gemini),
        "GET" if path.ends_with("/responses") => Asked::Socket,
        "GET" if path.ends_with("/models") => Asked::Models,
        "HEAD" | "GET" if path == "/" => Asked::Presence,
        _ => Asked::Unknown,
    }
}

pub fn read(dialect: Dialect, path: &str, body: &Value) -> Conversation {
    match dialect {
        Dialect::Anthropic => anthropic::read(body),
        Dialect::Responses => responses::read(body),
        Dialect::Chat => chat::read(body),
        Dialect::Gemini => gemini::read(path, body),
    }
}

pub fn whole(dialect: Dialect, reply: &Reply) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::whole(reply),
        Dialect::Responses => responses::whole(reply),
        Dialect::Chat => chat::whole(reply),
        Dialect::Gemini => gemini::whole(reply),
    }
}

pub fn pieces(dialect: Dialect, reply: &Reply) -> Vec<String> {
    match dialect {
        Dialect::Anthropic => anthropic::pieces(reply),
        Dialect::Responses => responses::pieces(reply),
        Dialect::Chat => chat::pieces(reply),
        Dialect::Gemini => gemini::pieces(reply),
    }
}

pub fn count(dialect: Dialect, tokens: u64) -> Value {
    match dialect {
        Dialect::Gemini => json!({"totalTokens": tokens}),
        Dialect::Anthropic | Dialect::Responses | Dialect::Chat => json!({"input_tokens": tokens}),
    }
}

/// What the vendor sends with this status.
pub fn error(dialect: Dialect, status: u16) -> Value {
    let message = format!("scripted error {status}");
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": anthropic::error_kind(status), "message": message}})
        }
        Dialect::Responses | Dialect::Chat => {
            let code = if status == 429 { "rate_limit_exceeded" } else { "scripted" };
            json!({"error": {"message": message, "type": "scripted_error", "param": null, "code": code}})
        }
        Dialect::Gemini => {
            json!({"error": {"code": status, "message": message, "status": gemini::error_status(status)}})
        }
    }
}

/// A text in a message, which is a string or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(|part| match part {
                Value::String(text) => text.as_str(),
                _ => part["text"].as_str().unwrap_or_default(),
            });
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Texts are streamed word by word.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(' ').collect()
}

/// A server-sent event without a name.
fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// A server-sent event whose name is its type.
fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
}
