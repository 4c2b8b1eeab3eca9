//! What the model will say, without naming a vendor: rules, each a conversation written down beforehand. Knows neither
//! HTTP nor anybody's wire format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::conversation::{Conversation, Dialect};

/// The first rule that matches answers. What no rule matches, a title to be made or a helper's question, gets
/// `otherwise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    pub rules: Vec<Rule>,
    pub otherwise: String,
    pub usage: Usage,
}

/// A conversation that begins like this goes on like that: answer `n` is step `n`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    pub when: When,
    pub steps: Vec<Step>,
    /// How often the rule answers, over all conversations. A client that tries again after an error then comes to the
    /// next rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Everything that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// All of these stand in what the user said.
    pub prompt: Vec<String>,
    /// None of these stands in what the user said.
    pub without: Vec<String>,
    /// All of these stand in the system prompt.
    pub system: Vec<String>,
    /// None of these stands in the system prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_system: Vec<String>,
    /// All of these stand in what the last tools returned.
    pub result: Vec<String>,
    /// How many answers the model has given before the first step.
    pub turn: usize,
    /// How many tools have returned by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<usize>,
    /// This stands in the model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    pub tools: Offered,
}

/// Clients ask small models for titles and opinions, and quote the prompt. They offer no tools then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    #[default]
    Some,
    Any,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Say(String),
    /// With the client's own tool for it, or through its shell.
    Write {
        path: String,
        text: String,
    },
    Run(String),
    Read(String),
    /// The tool whose name ends in `submit_result`, however the client calls its server.
    Submit(Value),
    /// In the way the client asked for it: its tool for structured output, JSON as text where a schema came with the
    /// request, else `submit_result`, else JSON as text.
    Answer(Value),
    /// A tool by the name the client gives it.
    Call {
        tool: String,
        input: Value,
    },
    /// All of it in one answer.
    Together(Vec<Step>),
    /// Word by word.
    Trickle {
        text: String,
        pause_ms: u64,
    },
    Error(HttpError),
    /// Nothing more comes, and the connection stays.
    Hang(Moment),
    /// The connection goes.
    Drop(Moment),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the first byte of the answer.
    Start,
    /// Half of the answer has gone out.
    Middle,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpError {
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Without one, what the vendor would send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All tokens that went in, cached ones too.
    pub input: u64,
    pub cached: u64,
    pub output: u64,
}

impl Default for Usage {
    fn default() -> Usage {
        Usage { input: 100, cached: 0, output: 10 }
    }
}

impl Default for Script {
    fn default() -> Script {
        Script { rules: Vec::new(), otherwise: "Done.".into(), usage: Usage::default() }
    }
}

impl Script {
    pub fn new() -> Script {
        Script::default()
    }

    pub fn rule(mut self, rule: Rule) -> Script {
        self.rules.push(rule);
        self
    }

    pub fn usage(mut self, usage: Usage) -> Script {
        self.usage = usage;
        self
    }

    /// The rule that answers now, and its step. `used` says how often each rule has answered.
    pub fn choose(&self, conversation: &Conversation, used: &[u32]) -> Option<(usize, &Step)> {
        let open = |index: usize| self.rules[index].times.is_none_or(|times| used[index] < times);
        let step = |rule: &'_ Rule| conversation.turn().checked_sub(rule.when.turn);
        (0..self.rules.len()).filter(|&index| open(index)).find_map(|index| {
            let rule = &self.rules[index];
            let next = rule.steps.get(step(rule)?)?;
            rule.when.holds(conversation).then_some((index, next))
        })
    }
}

impl When {
    fn holds(&self, conversation: &Conversation) -> bool {
        let (prompt, results) = (conversation.prompt(), conversation.last_results());
        self.prompt.iter().all(|text| prompt.contains(text))
            && !self.without.iter().any(|text| prompt.contains(text))
            && self.system.iter().all(|text| conversation.system.contains(text))
            && !self.not_system.iter().any(|text| conversation.system.contains(text))
            && self.result.iter().all(|text| results.contains(text))
            && self.results.is_none_or(|count| conversation.results() == count)
            && self.model.as_ref().is_none_or(|name| conversation.model.contains(name))
            && self.dialect.is_none_or(|dialect| conversation.dialect == dialect)
            && (self.tools == Offered::Any || !conversation.tools.is_empty())
    }
}

/// A conversation is written as it goes: `Rule::on("A3").run("make").answer(json!({"done": true}))`.
impl Rule {
    pub fn on(prompt: &str) -> Rule {
        Rule::default().and(prompt)
    }

    pub fn always() -> Rule {
        Rule::default()
    }

    pub fn and(mut self, prompt: &str) -> Rule {
        self.when.prompt.push(prompt.into());
        self
    }

    pub fn without(mut self, prompt: &str) -> Rule {
        self.when.without.push(prompt.into());
        self
    }

    /// Whom the client plays.
    pub fn system(mut self, system: &str) -> Rule {
        self.when.system.push(system.into());
        self
    }

    pub fn not_system(mut self, system: &str) -> Rule {
        self.when.not_system.push(system.into());
        self
    }

    /// The last tools returned this.
    pub fn after(mut self, result: &str) -> Rule {
        self.when.result.push(result.into());
        self
    }

    pub fn from_turn(mut self, turn: usize) -> Rule {
        self.when.turn = turn;
        self
    }

    pub fn with_or_without_tools(mut self) -> Rule {
        self.when.tools = Offered::Any;
        self
    }

    pub fn times(mut self, times: u32) -> Rule {
        self.times = Some(times);
        self
    }

    pub fn usage(mut self, usage: Usage) -> Rule {
        self.usage = Some(usage);
        self
    }

    pub fn step(mut self, step: Step) -> Rule {
        self.steps.push(step);
        self
    }

    pub fn say(self, text: &str) -> Rule {
        self.step(Step::Say(text.into()))
    }

    pub fn write(self, path: &str, text: &str) -> Rule {
        self.step(Step::write(path, text))
    }

    pub fn run(self, command: &str) -> Rule {
        self.step(Step::Run(command.into()))
    }

    pub fn read(self, path: &str) -> Rule {
        self.step(Step::Read(path.into()))
    }

    pub fn submit(self, result: Value) -> Rule {
        self.step(Step::Submit(result))
    }

    pub fn answer(self, answer: Value) -> Rule {
        self.step(Step::Answer(answer))
    }

    pub fn call(self, tool: &str, input: Value) -> Rule {
        self.step(Step::Call { tool: tool.into(), input })
    }

    pub fn together(self, steps: impl IntoIterator<Item = Step>) -> Rule {
        self.step(Step::Together(steps.into_iter().collect()))
    }

    pub fn trickle(self, text: &str, pause_ms: u64) -> Rule {
        self.step(Step::Trickle { text: text.into(), pause_ms })
    }

    pub fn error(self, error: HttpError) -> Rule {
        self.step(Step::Error(error))
    }

    pub fn hang(self, moment: Moment) -> Rule {
        self.step(Step::Hang(moment))
    }

    pub fn drop_connection(self, moment: Moment) -> Rule {
        self.step(Step::Drop(moment))
    }
}

impl Step {
    pub fn write(path: &str, text: &str) -> Step {
        Step::Write { path: path.into(), text: text.into() }
    }

    /// One word, for the log.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Say(_) => "say",
            Step::Write { .. } => "write",
            Step::Run(_) => "run",
            Step::Read(_) => "read",
            Step::Submit(_) => "submit",
            Step::Answer(_) => "answer",
            Step::Call { .. } => "call",
            Step::Together(_) => "together",
            Step::Trickle { .. } => "trickle",
            Step::Error(_) => "error",
            Step::Hang(_) => "hang",
            Step::Drop(_) => "drop",
        }
    }
}

impl HttpError {
    pub fn status(status: u16) -> HttpError {
        HttpError { status, headers: BTreeMap::new(), body: None }
    }

    pub fn header(mut self, name: &str, value: &str) -> HttpError {
        self.headers.insert(name.into(), value.into());
        self
    }

    pub fn body(mut self, body: Value) -> HttpError {
        self.body = Some(body);
        self
    }
}
