//! Anthropic Messages.

use serde_json::{Value, json};

use super::{event, list, string, text_of, words};
use crate::conversation::{Conversation, Delivery, Dialect, Entry, Tool, ToolKind};
use crate::reply::{Block, Reply};

pub fn read(body: &Value) -> Conversation {
    let mut entries = Vec::new();
    for message in list(body, "messages") {
        read_message(message, &mut entries);
    }
    let tools = list(body, "tools").map(|tool| Tool {
        name: string(&tool["name"]),
        namespace: None,
        kind: ToolKind::Function,
        input: tool["input_schema"].clone(),
    });
    let schema = [&body["output_config"]["format"]["schema"], &body["output_format"]["schema"]];
    Conversation {
        dialect: Dialect::Anthropic,
        model: string(&body["model"]),
        delivery: if body["stream"] == true { Delivery::Stream } else { Delivery::Whole },
        system: text_of(&body["system"]),
        entries,
        tools: tools.collect(),
        schema: schema.into_iter().find(|schema| schema.is_object()).cloned(),
    }
}

fn read_message(message: &Value, entries: &mut Vec<Entry>) {
    let Some(blocks) = message["content"].as_array() else {
        let text = text_of(&message["content"]);
        entries.push(if message["role"] == "assistant" { Entry::Model(text) } else { Entry::User(text) });
        return;
    };
    for block in blocks {
        entries.push(match block["type"].as_str().unwrap_or_default() {
            "tool_result" => Entry::Result(text_of(&block["content"])),
            "tool_use" => Entry::Model(string(&block["name"])),
            _ if message["role"] == "assistant" => Entry::Model(string(&block["text"])),
            _ => Entry::User(string(&block["text"])),
        });
    }
}

pub fn whole(reply: &Reply) -> Value {
    let content = reply.blocks.iter().enumerate().map(|(index, block)| match block {
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Call { tool, input } => {
            json!({"type": "tool_use", "id": reply.id("toolu", index), "name": tool.name, "input": input})
        }
    });
    json!({
        "id": reply.id("msg", 0), "type": "message", "role": "assistant", "model": reply.model,
        "content": content.collect::<Vec<_>>(), "stop_reason": stop_reason(reply), "stop_sequence": null,
        "usage": usage(reply),
    })
}

pub fn pieces(reply: &Reply) -> Vec<String> {
    let mut start = whole(reply);
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"]["output_tokens"] = json!(1);
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in reply.blocks.iter().enumerate() {
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let start =
            |block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        match block {
            Block::Text(text) => {
                events.push(start(json!({"type": "text", "text": ""})));
                events.extend(
                    words(text).iter().map(|word| delta(json!({"type": "text_delta", "text": word}))),
                );
            }
            Block::Call { tool, input } => {
                let id = reply.id("toolu", index);
                events.push(start(json!({"type": "tool_use", "id": id, "name": tool.name, "input": {}})));
                events.push(delta(json!({"type": "input_json_delta", "partial_json": input.to_string()})));
            }
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
        "usage": usage(reply),
    }));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(event).collect()
}

pub fn error_kind(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

fn stop_reason(reply: &Reply) -> &'static str {
    if reply.calls() { "tool_use" } else { "end_turn" }
}

fn usage(reply: &Reply) -> Value {
    let usage = reply.usage;
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached), "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0, "output_tokens": usage.output,
    })
}
