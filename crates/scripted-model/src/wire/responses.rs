//! OpenAI Responses.

use serde_json::{Map, Value, json};

use super::{event, list, string, text_of, words};
use crate::conversation::{Conversation, Delivery, Dialect, Entry, Tool, ToolKind};
use crate::reply::{Block, Reply};

pub fn read(body: &Value) -> Conversation {
    let mut system = vec![text_of(&body["instructions"])];
    let mut entries = Vec::new();
    let mut tools: Vec<Tool> = list(body, "tools").flat_map(read_tools).collect();
    if let Some(prompt) = body["input"].as_str() {
        entries.push(Entry::User(prompt.to_owned()));
    }
    for item in list(body, "input") {
        match (item["type"].as_str().unwrap_or("message"), item["role"].as_str().unwrap_or_default()) {
            ("message", "system" | "developer") => system.push(text_of(&item["content"])),
            ("message", "assistant") => entries.push(Entry::Model(text_of(&item["content"]))),
            ("message", _) => entries.push(Entry::User(text_of(&item["content"]))),
            ("additional_tools", _) => tools.extend(list(item, "tools").flat_map(read_tools)),
            (kind, _) if kind.ends_with("_output") => entries.push(Entry::Result(text_of(&item["output"]))),
            (kind, _) if kind.ends_with("_call") => entries.push(Entry::Model(string(&item["name"]))),
            _ => {}
        }
    }
    let schema = &body["text"]["format"]["schema"];
    Conversation {
        dialect: Dialect::Responses,
        model: string(&body["model"]),
        delivery: if body["stream"] == true { Delivery::Stream } else { Delivery::Whole },
        system: system.join("\n"),
        entries,
        tools,
        schema: schema.is_object().then(|| schema.clone()),
    }
}

fn read_tools(tool: &Value) -> Vec<Tool> {
    match tool["type"].as_str().unwrap_or_default() {
        "namespace" => {
            let namespace = Some(string(&tool["name"]));
            list(tool, "tools").flat_map(|inner| read_tool(inner, namespace.clone())).collect()
        }
        _ => read_tool(tool, None),
    }
}

fn read_tool(tool: &Value, namespace: Option<String>) -> Vec<Tool> {
    let nested = nested_tools(tool["description"].as_str().unwrap_or_default(), namespace.clone());
    let kind = if tool["type"] == "custom" { ToolKind::Text } else { ToolKind::Function };
    let itself = Tool { name: string(&tool["name"]), namespace, kind, input: tool["parameters"].clone() };
    [itself].into_iter().chain(nested).collect()
}

/// The tools inside `exec`, which stand in its description as declarations in TypeScript.
fn nested_tools(description: &str, namespace: Option<String>) -> Vec<Tool> {
    let tool = |declaration: &str| {
        let name = declaration.split('(').next()?.trim().to_owned();
        let body = declaration.split("Promise<").next()?;
        let fields = body.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        let names =
            fields.filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim_end_matches('?'));
        let properties: Map<_, _> = names.map(|name| (name.to_owned(), json!({}))).collect();
        let input = json!({"type": "object", "properties": properties});
        Some(Tool { name, namespace: namespace.clone(), kind: ToolKind::Nested, input })
    };
    description.split("declare const tools: {").skip(1).filter_map(tool).collect()
}

pub fn whole(reply: &Reply) -> Value {
    let output = reply.blocks.iter().enumerate().map(|(index, block)| item(reply, index, block));
    response(reply, "completed", output.collect())
}

pub fn pieces(reply: &Reply) -> Vec<String> {
    let mut events = Vec::new();
    let mut say = |mut value: Value| {
        value["sequence_number"] = json!(events.len());
        events.push(event(&value));
    };
    let begun = response(reply, "in_progress", Vec::new());
    say(json!({"type": "response.created", "response": begun}));
    say(json!({"type": "response.in_progress", "response": begun}));
    for (index, block) in reply.blocks.iter().enumerate() {
        let whole = item(reply, index, block);
        let id = whole["id"].clone();
        let mut begun = whole.clone();
        begun["status"] = json!("in_progress");
        let place = |kind: &str| json!({"type": kind, "item_id": id, "output_index": index});
        let with = |kind: &str, name: &str, value: Value| {
            let mut event = place(kind);
            event[name] = value;
            event
        };
        match block {
            Block::Text(text) => {
                begun["content"] = json!([]);
                say(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
                let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
                let in_part = |mut event: Value| {
                    event["content_index"] = json!(0);
                    event
                };
                say(in_part(with("response.content_part.added", "part", part(""))));
                for word in words(text) {
                    say(in_part(with("response.output_text.delta", "delta", json!(word))));
                }
                say(in_part(with("response.output_text.done", "text", json!(text))));
                say(in_part(with("response.content_part.done", "part", part(text))));
            }
            Block::Call { tool, .. } => {
                let (field, kind) = match tool.kind {
                    ToolKind::Function => ("arguments", "response.function_call_arguments"),
                    ToolKind::Text | ToolKind::Nested => ("input", "response.custom_tool_call_input"),
                };
                begun[field] = json!("");
                say(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
                say(with(&format!("{kind}.delta"), "delta", whole[field].clone()));
                say(with(&format!("{kind}.done"), field, whole[field].clone()));
            }
        }
        say(json!({"type": "response.output_item.done", "output_index": index, "item": whole}));
    }
    say(json!({"type": "response.completed", "response": whole(reply)}));
    events
}

fn item(reply: &Reply, index: usize, block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({
            "type": "message", "id": reply.id("msg", index), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Block::Call { tool, input } => {
            let (kind, prefix, name, field, text) = match tool.kind {
                ToolKind::Function => {
                    ("function_call", "fc", tool.name.as_str(), "arguments", input.to_string())
                }
                ToolKind::Text => {
                    let text = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
                    ("custom_tool_call", "ctc", tool.name.as_str(), "input", text)
                }
                ToolKind::Nested => {
                    let program = format!("text(await tools.{}({input}));", tool.name);
                    ("custom_tool_call", "ctc", "exec", "input", program)
                }
            };
            let mut item = json!({
                "type": kind, "id": reply.id(prefix, index), "call_id": reply.id("call", index),
                "status": "completed", "name": name,
            });
            item[field] = json!(text);
            if let Some(namespace) = &tool.namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    }
}

fn response(reply: &Reply, status: &str, output: Vec<Value>) -> Value {
    let usage = reply.usage;
    json!({
        "id": reply.id("resp", 0), "object": "response", "created_at": 1, "status": status, "model": reply.model,
        "output": output, "error": null, "incomplete_details": null, "parallel_tool_calls": true, "metadata": {},
        "usage": {
            "input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input + usage.output,
        },
    })
}
