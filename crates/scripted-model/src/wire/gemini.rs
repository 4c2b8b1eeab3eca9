//! Gemini.

use serde_json::{Value, json};

use super::{data, list, string, text_of, words};
use crate::conversation::{Conversation, Delivery, Dialect, Entry, Tool, ToolKind};
use crate::reply::{Block, Reply};

pub fn read(path: &str, body: &Value) -> Conversation {
    let mut entries = Vec::new();
    for content in list(body, "contents") {
        for part in list(content, "parts") {
            entries.push(if part["functionResponse"].is_object() {
                Entry::Result(part["functionResponse"]["response"].to_string())
            } else if part["functionCall"].is_object() {
                Entry::Model(string(&part["functionCall"]["name"]))
            } else if content["role"] == "model" {
                Entry::Model(string(&part["text"]))
            } else {
                Entry::User(string(&part["text"]))
            });
        }
    }
    let config = &body["generationConfig"];
    let schema = [&config["responseJsonSchema"], &config["responseSchema"]];
    let model = path.split(':').next().and_then(|path| path.rsplit('/').next());
    Conversation {
        dialect: Dialect::Gemini,
        model: model.unwrap_or_default().to_owned(),
        delivery: if path.contains(":stream") { Delivery::Stream } else { Delivery::Whole },
        system: text_of(&body["systemInstruction"]["parts"]),
        entries,
        tools: list(body, "tools")
            .flat_map(|group| list(group, "functionDeclarations"))
            .map(read_tool)
            .collect(),
        schema: schema.into_iter().find(|schema| schema.is_object()).cloned(),
    }
}

fn read_tool(tool: &Value) -> Tool {
    let input = [&tool["parametersJsonSchema"], &tool["parameters"]];
    Tool {
        name: string(&tool["name"]),
        namespace: None,
        kind: ToolKind::Function,
        input: input.into_iter().find(|schema| schema.is_object()).cloned().unwrap_or_default(),
    }
}

pub fn whole(reply: &Reply) -> Value {
    let parts = reply.blocks.iter().enumerate().map(|(index, block)| part(reply, index, block));
    let mut answer = chunk(reply, parts.collect());
    finish(reply, &mut answer);
    answer
}

pub fn pieces(reply: &Reply) -> Vec<String> {
    let mut chunks = Vec::new();
    for (index, block) in reply.blocks.iter().enumerate() {
        match block {
            Block::Text(text) => {
                chunks.extend(words(text).iter().map(|word| chunk(reply, vec![json!({"text": word})])));
            }
            Block::Call { .. } => chunks.push(chunk(reply, vec![part(reply, index, block)])),
        }
    }
    if chunks.is_empty() {
        chunks.push(chunk(reply, Vec::new()));
    }
    let last = chunks.len() - 1;
    finish(reply, &mut chunks[last]);
    chunks.iter().map(data).collect()
}

fn part(reply: &Reply, index: usize, block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({"text": text}),
        Block::Call { tool, input } => {
            json!({"functionCall": {"id": reply.id("call", index), "name": tool.name, "args": input}})
        }
    }
}

fn chunk(reply: &Reply, parts: Vec<Value>) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": reply.model, "responseId": reply.id("resp", 0),
    })
}

fn finish(reply: &Reply, chunk: &mut Value) {
    let usage = reply.usage;
    chunk["candidates"][0]["finishReason"] = json!("STOP");
    chunk["usageMetadata"] = json!({
        "promptTokenCount": usage.input, "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output, "totalTokenCount": usage.input + usage.output,
    });
}

pub fn error_status(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}
