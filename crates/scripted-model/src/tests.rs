//! Plain requests on a socket, in each of the four dialects.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Delivery, Dialect, HttpError, Moment, Rule, Script, ScriptedModel, Step, Usage};

const DIALECTS: [Dialect; 4] = [Dialect::Anthropic, Dialect::Responses, Dialect::Chat, Dialect::Gemini];
const PATIENCE: Duration = Duration::from_secs(60);

struct Answer {
    status: u16,
    head: String,
    body: String,
    complete: bool,
}

fn request(model: &ScriptedModel, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(model.address()).expect("the model listens");
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")
        .expect("the model reads");
    stream
}

fn receive(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A connection that is torn down ends the answer like one that is closed.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).expect("answers are text");
    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Answer { status: 0, head: String::new(), body: String::new(), complete: false };
    };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (body, complete) = if head.contains("transfer-encoding: chunked") {
        unchunk(rest)
    } else {
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        (rest.to_owned(), length.is_some_and(|length| length == rest.len().to_string()))
    };
    Answer { status, head: head.to_owned(), body, complete }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk has a size");
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}

/// What has been said so far, in neutral words.
#[derive(Clone)]
enum Said {
    User(&'static str),
    Model(&'static str),
    Called(&'static str),
    Returned(&'static str),
}

fn path(dialect: Dialect, delivery: Delivery) -> &'static str {
    match (dialect, delivery) {
        (Dialect::Anthropic, _) => "/v1/messages?beta=true",
        (Dialect::Responses, _) => "/v1/responses",
        (Dialect::Chat, _) => "/v1/chat/completions",
        (Dialect::Gemini, Delivery::Stream) => "/v1beta/models/some-model:streamGenerateContent?alt=sse",
        (Dialect::Gemini, Delivery::Whole) => "/v1beta/models/some-model:generateContent",
    }
}

fn body(dialect: Dialect, delivery: Delivery, said: &[Said], tools: &[(&str, Value)]) -> Value {
    let stream = delivery == Delivery::Stream;
    let messages: Vec<Value> = said.iter().map(|said| message(dialect, said)).collect();
    let tools = tools.iter().map(|(name, schema)| match dialect {
        Dialect::Anthropic => json!({"name": name, "input_schema": schema}),
        Dialect::Responses => json!({"type": "function", "name": name, "parameters": schema}),
        Dialect::Chat => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
        Dialect::Gemini => json!({"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}),
    });
    let tools: Vec<Value> = tools.collect();
    match dialect {
        Dialect::Anthropic | Dialect::Chat => {
            json!({"model": "some-model", "stream": stream, "messages": messages, "tools": tools})
        }
        Dialect::Responses => {
            json!({"model": "some-model", "stream": stream, "input": messages, "tools": tools})
        }
        Dialect::Gemini => json!({"contents": messages, "tools": tools}),
    }
}

fn message(dialect: Dialect, said: &Said) -> Value {
    let anthropic = |role: &str, block: Value| json!({"role": role, "content": [block]});
    let gemini = |role: &str, part: Value| json!({"role": role, "parts": [part]});
    match (dialect, said) {
        (Dialect::Anthropic, Said::User(text)) => anthropic("user", json!({"type": "text", "text": text})),
        (Dialect::Anthropic, Said::Model(text)) => {
            anthropic("assistant", json!({"type": "text", "text": text}))
        }
        (Dialect::Anthropic, Said::Called(name)) => {
            anthropic("assistant", json!({"type": "tool_use", "id": "1", "name": name, "input": {}}))
        }
        (Dialect::Anthropic, Said::Returned(text)) => {
            anthropic("user", json!({"type": "tool_result", "tool_use_id": "1", "content": text}))
        }
        (Dialect::Responses, Said::User(text)) => {
            json!({"role": "user", "content": [{"type": "input_text", "text": text}]})
        }
        (Dialect::Responses, Said::Model(text)) => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        }
        (Dialect::Responses, Said::Called(name)) => {
            json!({"type": "function_call", "call_id": "1", "name": name, "arguments": "{}"})
        }
        (Dialect::Responses, Said::Returned(text)) => {
            json!({"type": "function_call_output", "call_id": "1", "output": text})
        }
        (Dialect::Chat, Said::User(text)) => json!({"role": "user", "content": text}),
        (Dialect::Chat, Said::Model(text)) => json!({"role": "assistant", "content": text}),
        (Dialect::Chat, Said::Called(name)) => {
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": name}}]})
        }
        (Dialect::Chat, Said::Returned(text)) => {
            json!({"role": "tool", "tool_call_id": "1", "content": text})
        }
        (Dialect::Gemini, Said::User(text)) => gemini("user", json!({"text": text})),
        (Dialect::Gemini, Said::Model(text)) => gemini("model", json!({"text": text})),
        (Dialect::Gemini, Said::Called(name)) => {
            gemini("model", json!({"functionCall": {"name": name, "args": {}}}))
        }
        (Dialect::Gemini, Said::Returned(text)) => {
            gemini("user", json!({"functionResponse": {"name": "x", "response": {"output": text}}}))
        }
    }
}

fn ask(
    model: &ScriptedModel,
    dialect: Dialect,
    delivery: Delivery,
    said: &[Said],
    tools: &[(&str, Value)],
) -> Answer {
    let body = body(dialect, delivery, said, tools).to_string();
    receive(request(model, "POST", path(dialect, delivery), &body))
}

/// An answer in one line: texts as they are, calls as `name{input}`.
fn told(dialect: Dialect, delivery: Delivery, answer: &Answer) -> String {
    assert_eq!((answer.status, answer.complete), (200, true), "{}", answer.body);
    let whole = match delivery {
        Delivery::Whole => serde_json::from_str(&answer.body).expect("JSON"),
        Delivery::Stream => assembled(dialect, &answer.body),
    };
    let call = |name: &Value, input: Value| format!("{}{input}", name.as_str().expect("a name"));
    let parsed = |text: &Value| serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let texts: Vec<String> = match dialect {
        Dialect::Anthropic => {
            let block = |block: &Value| match block["type"].as_str() {
                Some("text") => block["text"].as_str().expect("a text").to_owned(),
                _ => call(&block["name"], block["input"].clone()),
            };
            items(&whole["content"]).iter().map(block).collect()
        }
        Dialect::Responses => {
            let item = |item: &Value| match item["type"].as_str() {
                Some("message") => item["content"][0]["text"].as_str().expect("a text").to_owned(),
                _ => call(&item["name"], parsed(&item["arguments"])),
            };
            items(&whole["output"]).iter().map(item).collect()
        }
        Dialect::Chat => {
            let message = &whole["choices"][0]["message"];
            let text = message["content"].as_str().expect("a text").to_owned();
            let calls = items(&message["tool_calls"]);
            let calls =
                calls.iter().map(|one| call(&one["function"]["name"], parsed(&one["function"]["arguments"])));
            [text].into_iter().filter(|text| !text.is_empty()).chain(calls).collect()
        }
        Dialect::Gemini => {
            let part = |part: &Value| match part["text"].as_str() {
                Some(text) => text.to_owned(),
                None => call(&part["functionCall"]["name"], part["functionCall"]["args"].clone()),
            };
            items(&whole["candidates"][0]["content"]["parts"]).iter().map(part).collect()
        }
    };
    texts.join(" ")
}

/// The whole answer, put together from its pieces as a client does.
fn assembled(dialect: Dialect, body: &str) -> Value {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.filter_map(|text| serde_json::from_str(text).ok()).collect();
    let last = events.last().expect("something came");
    match dialect {
        Dialect::Anthropic => {
            assert_eq!(last["type"], "message_stop");
            let mut content: Vec<Value> = Vec::new();
            for event in &events {
                match event["type"].as_str().expect("a type") {
                    "content_block_start" => content.push(event["content_block"].clone()),
                    "content_block_delta" => {
                        let block = content.last_mut().expect("a block was begun");
                        if let Some(word) = event["delta"]["text"].as_str() {
                            let text = block["text"].as_str().expect("a text").to_owned() + word;
                            block["text"] = json!(text);
                        } else {
                            let input = event["delta"]["partial_json"].as_str().expect("an input");
                            block["input"] = serde_json::from_str(input).expect("JSON");
                        }
                    }
                    _ => {}
                }
            }
            json!({"content": content})
        }
        Dialect::Responses => {
            assert_eq!(last["type"], "response.completed");
            let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
            let output: Vec<Value> = done.map(|event| event["item"].clone()).collect();
            assert_eq!(json!(output), last["response"]["output"]);
            json!({"output": output})
        }
        Dialect::Chat => {
            assert!(body.ends_with("data: [DONE]\n\n"));
            let deltas = events.iter().map(|event| &event["choices"][0]["delta"]);
            let text: String = deltas.clone().filter_map(|delta| delta["content"].as_str()).collect();
            let calls = deltas.filter_map(|delta| delta["tool_calls"].get(0).cloned());
            json!({"choices": [{"message": {"content": text, "tool_calls": calls.collect::<Vec<_>>()}}]})
        }
        Dialect::Gemini => {
            assert_eq!(last["candidates"][0]["finishReason"], "STOP");
            let parts = events.iter().flat_map(|event| {
                event["candidates"][0]["content"]["parts"].as_array().expect("parts").clone()
            });
            let (texts, calls): (Vec<Value>, Vec<Value>) = parts.partition(|part| part["text"].is_string());
            let text: String = texts.iter().filter_map(|part| part["text"].as_str()).collect();
            let text = (!text.is_empty()).then(|| json!({"text": text}));
            let parts: Vec<Value> = text.into_iter().chain(calls).collect();
            json!({"candidates": [{"content": {"parts": parts}}]})
        }
    }
}

fn no_input() -> Value {
    json!({"type": "object", "properties": {}})
}

/// The tools of the client that speaks this dialect here: Claude Code, Codex, opencode, Gemini CLI.
fn tools(dialect: Dialect) -> Vec<(&'static str, Value)> {
    let text = json!({"type": "string"});
    let (write, run, read) = match dialect {
        Dialect::Anthropic => {
            (("Write", vec!["file_path", "content"]), ("Bash", vec!["command"]), ("Read", vec!["file_path"]))
        }
        Dialect::Responses => return vec![("exec_command", json!({"properties": {"cmd": text}}))],
        Dialect::Chat => (
            ("write", vec!["filePath", "content"]),
            ("bash", vec!["command", "description"]),
            ("read", vec!["filePath"]),
        ),
        Dialect::Gemini => (
            ("write_file", vec!["file_path", "content"]),
            ("run_shell_command", vec!["command"]),
            ("read_file", vec!["file_path"]),
        ),
    };
    let tool = |(name, words): (&'static str, Vec<&'static str>)| {
        let known: serde_json::Map<_, _> =
            words.iter().map(|word| (word.to_string(), text.clone())).collect();
        (name, json!({"type": "object", "properties": known, "required": words}))
    };
    [write, run, read].map(tool).into()
}

fn serve(script: Script) -> ScriptedModel {
    ScriptedModel::start(script).expect("loopback can be bound")
}

/// In every dialect, whole and streamed, what the model says to a prompt with the client's own tools.
fn check(rule: Rule, said: &[Said], expected: [&str; 4]) {
    let model = serve(Script::new().rule(rule));
    for (dialect, expected) in DIALECTS.into_iter().zip(expected) {
        for delivery in [Delivery::Whole, Delivery::Stream] {
            let answer = ask(&model, dialect, delivery, said, &tools(dialect));
            assert_eq!(told(dialect, delivery, &answer), expected, "{dialect:?} {delivery:?}");
        }
    }
}

#[test]
fn one_script_is_said_in_four_dialects() {
    let prompt = [Said::User("please do A3 now")];
    check(Rule::on("A3").say("I am at it."), &prompt, ["I am at it."; 4]);
    check(
        Rule::on("A3").run("make -s"),
        &prompt,
        [
            r#"Bash{"command":"make -s"}"#,
            r#"exec_command{"cmd":"make -s"}"#,
            r#"bash{"command":"make -s","description":"A step of the script"}"#,
            r#"run_shell_command{"command":"make -s"}"#,
        ],
    );
    check(
        Rule::on("A3").write("a/b.txt", "it's"),
        &prompt,
        [
            r#"Write{"file_path":"a/b.txt","content":"it's"}"#,
            r#"exec_command{"cmd":"mkdir -p \"$(dirname 'a/b.txt')\" && printf %s 'it'\\''s' > 'a/b.txt'"}"#,
            r#"write{"filePath":"a/b.txt","content":"it's"}"#,
            r#"write_file{"file_path":"a/b.txt","content":"it's"}"#,
        ],
    );
    check(
        Rule::on("A3").together([Step::Say("Both.".into()), Step::Read("x".into()), Step::Run("y".into())]),
        &prompt,
        [
            r#"Both. Read{"file_path":"x"} Bash{"command":"y"}"#,
            r#"Both. exec_command{"cmd":"cat 'x'"} exec_command{"cmd":"y"}"#,
            r#"Both. read{"filePath":"x"} bash{"command":"y","description":"A step of the script"}"#,
            r#"Both. read_file{"file_path":"x"} run_shell_command{"command":"y"}"#,
        ],
    );
}

#[test]
fn a_conversation_goes_on_step_by_step() {
    use Said::{Called, Model, Returned, User};
    let rule = || Rule::on("A3").say("one").say("two").say("three");
    check(rule(), &[User("A3")], ["one"; 4]);
    check(rule(), &[User("A3"), Called("x"), Returned("y")], ["two"; 4]);
    // What is said and called in one answer is one turn, however the client writes it down.
    check(rule(), &[User("A3"), Model("so"), Called("x"), Returned("y")], ["two"; 4]);
    check(rule(), &[User("A3"), Called("x"), Called("x"), Returned("y"), Returned("z")], ["two"; 4]);
    check(rule(), &[User("A3"), Model("so"), User("no"), Called("x"), Returned("y")], ["three"; 4]);
    let over = [User("A3"), Model("1"), User("2"), Model("3"), User("4"), Model("5"), User("6")];
    check(rule(), &over, ["Done."; 4]);
}

#[test]
fn the_first_rule_whose_conditions_hold_answers() {
    use Said::{Called, Returned, User};
    let said = [User("do A3 as worker"), Called("x"), Returned("read-only file system")];
    for (expected, rule) in [
        ("yes", Rule::on("A3").from_turn(1).say("yes")),
        ("yes", Rule::on("A3").and("worker").from_turn(1).say("yes")),
        ("yes", Rule::always().after("read-only").from_turn(1).say("yes")),
        ("Done.", Rule::on("A3").and("judge").from_turn(1).say("no")),
        ("Done.", Rule::on("A3").without("worker").from_turn(1).say("no")),
        ("Done.", Rule::always().after("permitted").from_turn(1).say("no")),
        // What tools return is not what the user says.
        ("Done.", Rule::on("read-only").from_turn(1).say("no")),
    ] {
        check(rule, &said, [expected; 4]);
    }
    let model = serve(Script::new().rule(Rule::on("A3").say("first")).rule(Rule::on("A3").say("second")));
    let answer = ask(&model, Dialect::Chat, Delivery::Whole, &[User("A3")], &[("x", no_input())]);
    assert_eq!(told(Dialect::Chat, Delivery::Whole, &answer), "first");
    assert_eq!(model.requests()[0].rule, Some(0));
}

#[test]
fn who_tries_again_comes_to_the_next_rule() {
    for dialect in DIALECTS {
        let limited = HttpError::status(429).header("retry-after", "7");
        let script =
            Script::new().rule(Rule::on("A3").times(2).error(limited)).rule(Rule::on("A3").say("fine"));
        let model = serve(script);
        let ask = || ask(&model, dialect, Delivery::Stream, &[Said::User("A3")], &tools(dialect));
        for _ in 0..2 {
            let refused = ask();
            assert_eq!(refused.status, 429);
            assert!(refused.head.contains("retry-after: 7"), "{}", refused.head);
            let body: Value = serde_json::from_str(&refused.body).expect("JSON");
            assert!(body["error"]["message"].is_string(), "{body}");
        }
        assert_eq!(told(dialect, Delivery::Stream, &ask()), "fine");
    }
}

#[test]
fn a_structured_answer_goes_the_way_the_client_asked_for() {
    let ask = |body: Value, dialect: Dialect| {
        let model = serve(Script::new().rule(Rule::on("A3").with_or_without_tools().answer(json!({"n": 1}))));
        let answer = receive(request(&model, "POST", path(dialect, Delivery::Whole), &body.to_string()));
        told(dialect, Delivery::Whole, &answer)
    };
    let body = |dialect: Dialect, tools: &[&str]| {
        let tools: Vec<_> = tools.iter().map(|name| (*name, no_input())).collect();
        body(dialect, Delivery::Whole, &[Said::User("A3")], &tools)
    };
    let claude = body(Dialect::Anthropic, &["StructuredOutput", "mcp__aot__submit_result"]);
    assert_eq!(ask(claude, Dialect::Anthropic), r#"StructuredOutput{"n":1}"#);
    for dialect in DIALECTS {
        let answer = ask(body(dialect, &["shell", "mcp__aot__submit_result"]), dialect);
        assert_eq!(answer, r#"mcp__aot__submit_result{"n":1}"#, "{dialect:?}");
        assert_eq!(ask(body(dialect, &["shell"]), dialect), r#"{"n":1}"#, "{dialect:?}");
    }
    let mut codex = body(Dialect::Responses, &["mcp__aot__submit_result"]);
    codex["text"] = json!({"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}});
    assert_eq!(ask(codex, Dialect::Responses), r#"{"n":1}"#);
}

#[test]
fn tools_in_a_namespace_are_called_in_it() {
    let model = serve(Script::new().rule(Rule::on("A3").submit(json!({"n": 1}))));
    let inner = json!({"type": "function", "name": "submit_result", "parameters": {"type": "object"}});
    let body = json!({"model": "m", "input": [{"role": "user", "content": "A3"}],
        "tools": [{"type": "namespace", "name": "mcp__aot", "tools": [inner]}]});
    let answer = receive(request(&model, "POST", "/v1/responses", &body.to_string()));
    let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(answer["output"][0]["namespace"], "mcp__aot");
    assert_eq!(answer["output"][0]["name"], "submit_result");
}

#[test]
fn tools_inside_a_program_are_called_by_a_program() {
    let model = serve(Script::new().rule(Rule::on("A3").run("make").submit(json!({"n": 1}))));
    let description = "Runs JavaScript.\n```ts\ndeclare const tools: { exec_command(args: {\n  // Shell: a command.\n  \
        cmd: string;\n  yield_time_ms?: number;\n}): Promise<{\n  output: string;\n}>; };\n```\n\
        declare const tools: { mcp__aot__submit_result(args: {\n  n: number;\n}): Promise<unknown>; };";
    let exec = json!({"type": "custom", "name": "exec", "description": description});
    let group = json!({"type": "namespace", "name": "functions", "tools": [exec]});
    let input = json!([
        {"type": "additional_tools", "role": "developer", "tools": [group]},
        {"type": "message", "role": "user", "content": "A3"},
        {"type": "configuration_update", "reasoning": {}},
    ]);
    let ask = |input: &Value| -> Value {
        let body = json!({"model": "m", "input": input}).to_string();
        let answer = receive(request(&model, "POST", "/v1/responses", &body));
        serde_json::from_str::<Value>(&answer.body).expect("JSON")["output"][0].clone()
    };
    let first = ask(&input);
    assert_eq!((&first["name"], &first["namespace"]), (&json!("exec"), &json!("functions")));
    assert_eq!(first["input"], r#"text(await tools.exec_command({"cmd":"make","yield_time_ms":30000}));"#);
    let mut input = input;
    let more = input.as_array_mut().expect("a list");
    more.push(first);
    more.push(json!({"type": "custom_tool_call_output", "call_id": "1", "output": "made"}));
    assert_eq!(ask(&input)["input"], r#"text(await tools.mcp__aot__submit_result({"n":1}));"#);
}

#[test]
fn what_is_not_offered_is_called_anyway() {
    for (dialect, expected) in [
        (Dialect::Anthropic, r#"Write{"file_path":"a","filePath":"a","path":"a","content":"b"}"#),
        (Dialect::Gemini, r#"write_file{"file_path":"a","filePath":"a","path":"a","content":"b"}"#),
    ] {
        let model = serve(Script::new().rule(Rule::on("A3").write("a", "b")));
        let answer = ask(&model, dialect, Delivery::Stream, &[Said::User("A3")], &[("Look", no_input())]);
        assert_eq!(told(dialect, Delivery::Stream, &answer), expected);
    }
    check(Rule::on("A3").call("Nothing", json!({"n": 1})), &[Said::User("A3")], [r#"Nothing{"n":1}"#; 4]);
    check(Rule::on("A3").submit(json!({"n": 1})), &[Said::User("A3")], [r#"submit_result{"n":1}"#; 4]);
}

#[test]
fn questions_of_helpers_get_a_harmless_answer() {
    for dialect in DIALECTS {
        let model = serve(Script::new().rule(Rule::on("A3").error(HttpError::status(500))));
        let plain = ask(&model, dialect, Delivery::Stream, &[Said::User("a title for A3")], &[]);
        assert_eq!(told(dialect, Delivery::Stream, &plain), "Done.");
        let schema = json!({"type": "object", "required": ["title", "good", "kind"], "properties": {
            "title": {"type": "string"}, "good": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}}});
        let mut body = body(dialect, Delivery::Whole, &[Said::User("a title for A3")], &[]);
        match dialect {
            Dialect::Anthropic => body["output_config"] = json!({"format": {"schema": schema}}),
            Dialect::Responses => body["text"] = json!({"format": {"schema": schema}}),
            Dialect::Chat => body["response_format"] = json!({"json_schema": {"schema": schema}}),
            Dialect::Gemini => body["generationConfig"] = json!({"responseJsonSchema": schema}),
        }
        let shaped = receive(request(&model, "POST", path(dialect, Delivery::Whole), &body.to_string()));
        let told = told(dialect, Delivery::Whole, &shaped);
        assert_eq!(told, r#"{"title":"Done","good":false,"kind":"a"}"#, "{dialect:?}");
    }
}

#[test]
fn an_answer_can_be_cut_off_or_never_come() {
    for dialect in DIALECTS {
        for delivery in [Delivery::Whole, Delivery::Stream] {
            let said = [Said::User("A3")];
            let ask =
                |rule: Rule| ask(&serve(Script::new().rule(rule)), dialect, delivery, &said, &tools(dialect));
            let at_once = ask(Rule::on("A3").drop_connection(Moment::Start));
            assert_eq!(at_once.status, 0);
            let halfway = ask(Rule::on("A3").drop_connection(Moment::Middle));
            assert_eq!((halfway.status, halfway.complete), (200, false));
            assert!(!halfway.body.is_empty());
        }
    }
}

#[test]
fn what_hangs_ends_with_the_server() {
    for (moment, status) in [(Moment::Start, 0), (Moment::Middle, 200)] {
        for dialect in DIALECTS {
            let model = serve(Script::new().rule(Rule::on("A3").hang(moment)));
            let body = body(dialect, Delivery::Stream, &[Said::User("A3")], &tools(dialect)).to_string();
            let stream = request(&model, "POST", path(dialect, Delivery::Stream), &body);
            let seen = model.wait_for(PATIENCE, |record| record.got == "hang").expect("it was asked");
            assert_eq!(seen.prompt, "A3");
            if moment == Moment::Middle {
                // It has begun while the server lives, or nothing of it would come.
                stream.peek(&mut [0]).expect("the first half");
            }
            drop(model);
            let answer = receive(stream);
            assert_eq!((answer.status, answer.complete), (status, false), "{dialect:?}");
        }
    }
}

#[test]
fn a_trickle_arrives_in_full() {
    let prompt = [Said::User("A3")];
    check(Rule::on("A3").trickle("bit by bit", 1), &prompt, ["bit by bit"; 4]);
}

#[test]
fn usage_is_told_where_each_client_looks_for_it() {
    let usage = Usage { input: 70, cached: 20, output: 5 };
    let other = Usage { input: 1, cached: 0, output: 2 };
    let model = serve(Script::new().usage(other).rule(Rule::on("A3").usage(usage).say("so")));
    let ask = |dialect: Dialect, prompt: &'static str| -> Value {
        let answer = ask(&model, dialect, Delivery::Whole, &[Said::User(prompt)], &tools(dialect));
        serde_json::from_str(&answer.body).expect("JSON")
    };
    let anthropic = ask(Dialect::Anthropic, "A3");
    assert_eq!(anthropic["usage"]["input_tokens"], 50);
    assert_eq!(anthropic["usage"]["cache_read_input_tokens"], 20);
    assert_eq!(anthropic["usage"]["output_tokens"], 5);
    let responses = ask(Dialect::Responses, "A3");
    assert_eq!(responses["usage"]["input_tokens"], 70);
    assert_eq!(responses["usage"]["input_tokens_details"]["cached_tokens"], 20);
    let chat = ask(Dialect::Chat, "A3");
    assert_eq!(chat["usage"]["prompt_tokens"], 70);
    assert_eq!(chat["usage"]["completion_tokens"], 5);
    let gemini = ask(Dialect::Gemini, "A3");
    assert_eq!(gemini["usageMetadata"]["promptTokenCount"], 70);
    assert_eq!(ask(Dialect::Chat, "anything")["usage"]["prompt_tokens"], 1);
}

#[test]
fn other_questions_are_answered_too() {
    let model = serve(Script::new());
    let ask = |method: &str, path: &str| receive(request(&model, method, path, "{}"));
    assert_eq!(ask("HEAD", "/").status, 200);
    assert_eq!(ask("GET", "/v1/models").status, 200);
    assert_eq!(ask("GET", "/v1/responses").status, 426);
    assert_eq!(ask("POST", "/v1/messages/count_tokens?beta=true").body, r#"{"input_tokens":100}"#);
    assert_eq!(ask("POST", "/v1beta/models/m:countTokens").body, r#"{"totalTokens":100}"#);
    assert_eq!(ask("GET", "/elsewhere").status, 404);
    let got: Vec<_> = model.requests().iter().map(|record| record.got).collect();
    assert_eq!(got, ["presence", "models", "socket", "count", "count", "unknown"]);
}

#[test]
fn the_key_is_written_down() {
    let model = serve(Script::new());
    for header in ["Authorization: Bearer secret", "x-api-key: secret", "X-Goog-Api-Key: secret"] {
        let mut stream = TcpStream::connect(model.address()).expect("the model listens");
        write!(stream, "GET / HTTP/1.1\r\n{header}\r\n\r\n").expect("the model reads");
        assert_eq!(receive(stream).status, 200);
    }
    assert_eq!(receive(request(&model, "GET", "/", "")).status, 200);
    let keys: Vec<_> = model.requests().into_iter().map(|record| record.key).collect();
    assert_eq!(keys, [Some("secret".into()), Some("secret".into()), Some("secret".into()), None]);
}

#[test]
fn a_body_may_come_in_chunks() {
    let model = serve(Script::new());
    let body = r#"{"messages":[{"role":"user","content":"in parts"}]}"#;
    let (first, second) = body.split_at(20);
    let mut stream = TcpStream::connect(model.address()).expect("the model listens");
    write!(stream, "POST /v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").expect("it reads");
    for part in [first, second, ""] {
        write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("it reads");
    }
    assert_eq!(receive(stream).status, 200);
    assert_eq!(model.requests()[0].prompt, "in parts");
}

#[test]
fn a_script_is_plain_json_and_the_log_lines_of_it() {
    let text = json!({
        "rules": [
            {"when": {"prompt": ["A3"]}, "times": 1, "steps": [{"error": {"status": 529}}]},
            {"when": {"prompt": ["A3"]}, "steps": [
                {"write": {"path": "a", "text": "b"}}, {"run": "true"}, {"hang": "middle"}, {"drop": "start"},
                {"together": [{"say": "x"}, {"read": "y"}]}, {"trickle": {"text": "z", "pause_ms": 1}},
                {"call": {"tool": "t", "input": {}}}, {"submit": {"n": 1}}, {"answer": {"n": 1}}]}
        ],
        "usage": {"input": 3}
    });
    let script: Script = serde_json::from_value(text).expect("a script");
    let again = serde_json::to_value(&script).expect("JSON");
    assert_eq!(serde_json::from_value::<Script>(again).expect("a script"), script);
    assert!(serde_json::from_str::<Script>(r#"{"rules": [{"whn": {}}]}"#).is_err());

    let folder = std::env::temp_dir().join(format!("scripted-model-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let log = folder.join("log.jsonl");
    let model = ScriptedModel::start_on(0, script, Some(&log)).expect("loopback can be bound");
    let said = [Said::User("A3")];
    ask(&model, Dialect::Chat, Delivery::Whole, &said, &tools(Dialect::Chat));
    ask(&model, Dialect::Chat, Delivery::Whole, &said, &tools(Dialect::Chat));
    drop(model);
    let log = std::fs::read_to_string(&log).expect("a log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<_> = lines.iter().map(|line| (line["got"].as_str(), line["rule"].as_u64())).collect();
    assert_eq!(told, [(Some("error"), Some(0)), (Some("write"), Some(1))]);
    assert_eq!(lines[0]["body"]["messages"][0]["content"], "A3");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}
