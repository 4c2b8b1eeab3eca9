//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{data, list, string, text_of, words};
use crate::conversation::{Conversation, Delivery, Dialect, Entry, Tool, ToolKind};
use crate::reply::{Block, Reply};

pub fn read(body: &Value) -> Conversation {
    let mut system = Vec::new();
    let mut entries = Vec::new();
    for message in list(body, "messages") {
        let text = text_of(&message["content"]);
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => system.push(text),
            "tool" => entries.push(Entry::Result(text)),
            "assistant" => {
                entries.push(Entry::Model(text));
                entries.extend(
                    list(message, "tool_calls").map(|call| Entry::Model(string(&call["function"]["name"]))),
                );
            }
            _ => entries.push(Entry::User(text)),
        }
    }
    let tools = list(body, "tools").map(|tool| Tool {
        name: string(&tool["function"]["name"]),
        namespace: None,
        kind: ToolKind::Function,
        input: tool["function"]["parameters"].clone(),
    });
    let schema = &body["response_format"]["json_schema"]["schema"];
    Conversation {
        dialect: Dialect::Chat,
        model: string(&body["model"]),
        delivery: if body["stream"] == true { Delivery::Stream } else { Delivery::Whole },
        system: system.join("\n"),
        entries,
        tools: tools.collect(),
        schema: schema.is_object().then(|| schema.clone()),
    }
}

pub fn whole(reply: &Reply) -> Value {
    let texts = reply.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        Block::Call { .. } => None,
    });
    let mut message = json!({"role": "assistant", "content": texts.collect::<Vec<_>>().join("\n")});
    if reply.calls() {
        let calls = reply.blocks.iter().enumerate().filter_map(|(index, block)| call(reply, index, block));
        message["tool_calls"] = calls.collect();
    }
    json!({
        "id": reply.id("chatcmpl", 0), "object": "chat.completion", "created": 1, "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply),
    })
}

pub fn pieces(reply: &Reply) -> Vec<String> {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": reply.id("chatcmpl", 0), "object": "chat.completion.chunk", "created": 1, "model": reply.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
    let mut calls = 0;
    for (index, block) in reply.blocks.iter().enumerate() {
        if let Block::Text(text) = block {
            chunks.extend(words(text).iter().map(|word| chunk(json!({"content": word}), Value::Null)));
        } else if let Some(mut call) = call(reply, index, block) {
            call["index"] = json!(calls);
            calls += 1;
            chunks.push(chunk(json!({"tool_calls": [call]}), Value::Null));
        }
    }
    let mut last = chunk(json!({}), json!(finish_reason(reply)));
    last["usage"] = usage(reply);
    chunks.push(last);
    chunks.iter().map(data).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn call(reply: &Reply, index: usize, block: &Block) -> Option<Value> {
    let Block::Call { tool, input } = block else { return None };
    let function = json!({"name": tool.name, "arguments": input.to_string()});
    Some(json!({"id": reply.id("call", index), "type": "function", "function": function}))
}

fn finish_reason(reply: &Reply) -> &'static str {
    if reply.calls() { "tool_calls" } else { "stop" }
}

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}
