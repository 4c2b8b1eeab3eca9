//! A profile says how one kind of agent is used: its command line for each role, its variables and files, where its
//! answer and its usage are in what it prints, and how its errors look. Data only: it starts nothing.
//!
//! Built-in profiles are TOML like a user's own, and a user's table of the same name is merged over them, key by key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aot_core::brief::Role;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use toml::Table;

/// The profiles that come with the program.
const BUILT_IN: [(&str, &str); 8] = [
    ("claude", include_str!("profiles/claude.toml")),
    ("codex", include_str!("profiles/codex.toml")),
    ("gemini", include_str!("profiles/gemini.toml")),
    ("opencode", include_str!("profiles/opencode.toml")),
    ("claude-acp", include_str!("profiles/claude-acp.toml")),
    ("codex-acp", include_str!("profiles/codex-acp.toml")),
    ("gemini-acp", include_str!("profiles/gemini-acp.toml")),
    ("opencode-acp", include_str!("profiles/opencode-acp.toml")),
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Whose profile this one begins with, if it has another name.
    pub like: Option<String>,
    /// The program, as a name that is looked for or as a path.
    pub program: String,
    #[serde(rename = "kind")]
    pub transport: Transport,
    /// What makes it print its version.
    #[serde(default = "version")]
    pub version: Vec<String>,
    pub arguments: Vec<String>,
    /// What names a model; `{model}` stands for it.
    pub model_arguments: Vec<String>,
    pub model: Option<String>,
    pub input: PromptInput,
    pub environment: BTreeMap<String, String>,
    /// Variables that lead it to its private folder, in a cage. Without one it uses its own.
    pub cage_environment: BTreeMap<String, String>,
    /// Files made in its scratch folder before it starts.
    pub files: BTreeMap<String, String>,
    /// Links made there to files of the user, if they have them.
    pub links: BTreeMap<String, String>,
    /// Copies made there of the first of these that the user has.
    pub copies: BTreeMap<String, Vec<String>>,
    /// The same, and what the agent made of them is taken back if it is still a login.
    pub logins: BTreeMap<String, Vec<String>>,
    /// Folders made there that hold links to what lies in one of the user's.
    pub mirrors: BTreeMap<String, Mirror>,
    /// Parts of the user's own settings that are laid into such a file.
    pub keys: BTreeMap<String, UserKeys>,
    /// Empty files that it needs, made where they are missing.
    pub touch: Vec<String>,
    /// Names of the user's variables that it gets to see, or beginnings of names with a `*` after them.
    pub variables: Vec<String>,
    /// Names of files with instructions that it does not read by itself; its brief carries their text.
    pub instructions: Vec<String>,
    /// Where its models and logins are, for a network that is a list of hosts.
    pub hosts: Vec<String>,
    /// Its own state, which it must be able to write. What ends with a slash is made if it is missing.
    pub state: Vec<String>,
    /// Paths in its state that stay read-only: settings, hooks, instructions.
    pub read_only: Vec<String>,
    pub roles: Roles,
    /// How its conversations are named and gone on with.
    pub session: SessionFlags,
    pub answer: AnswerChannel,
    pub events: Vec<EventRule>,
    #[serde(rename = "trouble")]
    pub errors: ErrorPatterns,
    pub login: Login,
    pub price: Option<Price>,
    /// Whether it does a small task before its first question on this machine.
    pub try_first: bool,
    /// Whether it reports its cost.
    pub tells_cost: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A command that is given a brief, prints, and ends.
    #[default]
    Command,
    /// It speaks the Agent Client Protocol.
    Acp,
}

/// Its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptInput {
    #[default]
    Nothing,
    Prompt,
}

/// Where its answer is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerChannel {
    /// It calls our tool `submit_result`.
    #[default]
    Tool,
    /// In what it prints, where a rule says so.
    Event,
    /// In the file `{answer_file}`.
    File,
    /// All that it prints is the answer.
    Output,
}

/// What stands at `{session_arguments}`: nothing for a conversation that may be gone on with, and otherwise one of these.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionFlags {
    /// The conversation ends with its answer.
    pub once: Vec<String>,
    /// It goes on; `{session}` is the name that the agent printed for it.
    pub resume: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Roles {
    pub worker: RoleFlags,
    pub probe: RoleFlags,
    pub judge: RoleFlags,
    pub coordinator: RoleFlags,
}

/// What one role adds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleFlags {
    /// The mode that an agent which speaks the protocol is set to, if it has it.
    pub mode: Option<String>,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub files: BTreeMap<String, String>,
}

/// What is to be read from a printed line of JSON that fits. Paths are names with dots between them; `name[]` means
/// every entry of a list or of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventRule {
    /// Each path, and a value that it has to have, or several of which it has to have one.
    pub when: BTreeMap<String, toml::Value>,
    pub answer: Option<String>,
    /// The name of the conversation.
    pub session: Option<String>,
    /// What it does now: what is found at these paths, in this order, in one line.
    #[serde(rename = "doing")]
    pub activity: Vec<String>,
    /// Text that belongs into a readable transcript.
    #[serde(rename = "said")]
    pub text: Option<String>,
    /// An error.
    pub error: Option<String>,
    /// An error of one of its tools, from which it may go on.
    pub tool_error: Option<String>,
    /// An error after which the agent tries again by itself: what is found at these paths, in one text.
    pub retrying: Vec<String>,
    /// Added up.
    pub tokens: Vec<String>,
    pub input_tokens: Vec<String>,
    pub output_tokens: Vec<String>,
    pub cost_usd: Option<String>,
    pub count: Counting,
}

/// Whether numbers are those of one event, or of all so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    #[default]
    Each,
    Total,
}

/// What is taken from a JSON file of the user.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserKeys {
    pub from: String,
    /// Paths, with dots between names.
    pub take: Vec<String>,
}

/// A folder that holds links to everything in the first of these that the user has, but for some names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    pub of: Vec<String>,
    pub without: Vec<String>,
}

/// How its errors look: regular expressions. A group called `epoch`, `seconds`, `minutes` or `clock` says when to try
/// again; `clock` is a time of day like `7:20 AM`, with or without a date before it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorPatterns {
    /// On standard error: the agent tries again by itself.
    pub retrying: Vec<ErrorPattern>,
    pub limited: Vec<ErrorPattern>,
    pub unauthenticated: Vec<ErrorPattern>,
    pub unreachable: Vec<ErrorPattern>,
    /// Errors of tools that belong to the work: a command that failed, a file that is not there.
    pub everyday: Vec<ErrorPattern>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct ErrorPattern(pub Regex);

impl TryFrom<String> for ErrorPattern {
    type Error = String;

    fn try_from(text: String) -> Result<ErrorPattern, String> {
        let problem = |error: regex::Error| error.to_string().lines().last().unwrap_or_default().to_owned();
        Regex::new(&text).map(ErrorPattern).map_err(problem)
    }
}

/// How to tell, without a network, whether the agent is logged in, and what to do if not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Login {
    pub variables: Vec<String>,
    pub files: Vec<String>,
    pub hint: String,
    /// Variables that hold a key, each with the protocol's name of the login that uses it.
    pub methods: BTreeMap<String, String>,
}

/// In US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

impl Price {
    /// The price of so many tokens.
    pub fn of(&self, input: u64, output: u64) -> f64 {
        (input as f64 * self.input + output as f64 * self.output) / 1e6
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the profile of agent `{name}`: {problem}")]
pub struct ProfileError {
    pub name: String,
    pub problem: String,
}

fn version() -> Vec<String> {
    vec!["--version".into()]
}

/// The names of those that come with the program.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

impl Profile {
    /// The profile of this name: the user's table over the one it is like, if there is one.
    pub fn named(name: &str, own: Option<&Table>) -> Option<Result<Profile, ProfileError>> {
        let like = own.and_then(|own| own.get("like")).and_then(toml::Value::as_str).unwrap_or(name);
        let base = base_of(like);
        if base.is_none() && own.is_none() {
            return None;
        }
        let wrong = |problem: String| ProfileError { name: name.to_owned(), problem };
        if base.is_none() && like != name {
            return Some(Err(wrong(format!("it is like `{like}`, which is not known"))));
        }
        let mut table = base.unwrap_or_default();
        if let Some(own) = own {
            lay_over(&mut table, own);
        }
        // The key's older name.
        if let Some(read_only) = table.remove("spared") {
            table.insert("read_only".to_owned(), read_only);
        }
        let has_program = table.contains_key("program");
        let read = Profile::deserialize(table).map_err(|error| error.message().to_owned());
        let read = read.and_then(|profile| match has_program {
            true => profile.checked(),
            false => Err("missing field `program`".into()),
        });
        Some(read.map_err(wrong))
    }

    fn checked(self) -> Result<Profile, String> {
        if self.program.trim().is_empty() {
            return Err("`program` is empty".into());
        }
        let finds = self.events.iter().any(|rule| rule.answer.is_some());
        if self.transport == Transport::Command && self.answer == AnswerChannel::Event && !finds {
            return Err("`answer` is \"event\", and no rule of `events` has an `answer`".into());
        }
        Ok(self)
    }

    pub fn flags(&self, role: Role) -> &RoleFlags {
        match role {
            Role::Worker => &self.roles.worker,
            Role::Probe => &self.roles.probe,
            Role::Judge => &self.roles.judge,
            Role::Coordinator => &self.roles.coordinator,
        }
    }
}

/// One of those that come with the program, over the one it is like.
fn base_of(name: &str) -> Option<Table> {
    let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    let table: Table = text.parse().expect("built-in profiles are TOML");
    let mut base = table.get("like").and_then(toml::Value::as_str).and_then(base_of).unwrap_or_default();
    lay_over(&mut base, &table);
    Some(base)
}

/// Tables are laid over tables; anything else takes the place of what was there.
pub fn lay_over(base: &mut Table, own: &Table) {
    for (key, value) in own {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(own)) => lay_over(base, own),
            (_, value) => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Files and folders as a profile names them, with `~` as the user's home and `$NAME` at the beginning as a variable;
/// without a home or that variable there is no such place. They need not be there.
pub fn places(
    names: &[String],
    home: Option<&Path>,
    variable: &dyn Fn(&str) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let place = |name: &String| {
        if let Some(rest) = name.strip_prefix("~/") {
            return home.map(|home| home.join(rest));
        }
        match name.strip_prefix('$') {
            Some(rest) => {
                let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
                variable(name).map(|folder| if below.is_empty() { folder } else { folder.join(below) })
            }
            None => Some(PathBuf::from(name)),
        }
    };
    names.iter().filter_map(place).filter(|place| place.is_absolute()).collect()
}

/// All values at a path.
pub fn at<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![value];
    for step in path.split('.') {
        let (name, each) = match step.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (step, false),
        };
        let mut next = Vec::new();
        for value in found {
            let inner = match (name.is_empty(), value) {
                (true, value) => Some(value),
                (false, Value::Array(list)) => name.parse::<usize>().ok().and_then(|n| list.get(n)),
                (false, value) => value.get(name),
            };
            match (inner, each) {
                (Some(Value::Array(list)), true) => next.extend(list),
                (Some(Value::Object(entries)), true) => next.extend(entries.values()),
                (Some(_), true) | (None, _) => {}
                (Some(inner), false) => next.push(inner),
            }
        }
        found = next;
    }
    found
}

impl EventRule {
    pub fn fits(&self, line: &Value) -> bool {
        self.when.iter().all(|(path, wanted)| {
            let is = |wanted: &toml::Value| at(line, path).iter().any(|found| same(found, wanted));
            match wanted {
                toml::Value::Array(several) => several.iter().any(is),
                one => is(one),
            }
        })
    }
}

fn same(found: &Value, wanted: &toml::Value) -> bool {
    match (found, wanted) {
        (Value::String(found), toml::Value::String(wanted)) => found == wanted,
        (Value::Bool(found), toml::Value::Boolean(wanted)) => found == wanted,
        (Value::Number(found), toml::Value::Integer(wanted)) => found.as_i64() == Some(*wanted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_comes_with_the_program_can_be_read() {
        for name in built_in() {
            let profile = Profile::named(name, None).expect("it is built in");
            profile.unwrap_or_else(|error| panic!("{error}"));
        }
        assert!(Profile::named("nobody", None).is_none());
    }

    fn own(name: &str, text: &str) -> Result<Profile, String> {
        let table: Table = text.parse().expect("TOML");
        Profile::named(name, Some(&table)).expect("there is a table").map_err(|error| error.to_string())
    }

    #[test]
    fn own_keys_are_laid_over_built_in_ones() {
        let mine = own("claude", "model = \"small\"\nroles.worker.arguments = [\"-x\"]").expect("a profile");
        let theirs = Profile::named("claude", None).expect("built in").expect("a profile");
        assert_eq!(mine.model.as_deref(), Some("small"));
        assert_eq!(mine.roles.worker.arguments, ["-x"]);
        assert_eq!(mine.roles.probe.arguments, theirs.roles.probe.arguments);
        assert_eq!(mine.program, theirs.program);
        let older = own("claude", "spared = [\"/x\"]").expect("a profile");
        assert_eq!(older.read_only, ["/x"]);
        let like = own("mine", "like = \"codex\"\nprogram = \"/opt/codex\"").expect("a profile");
        assert_eq!((like.program.as_str(), like.answer), ("/opt/codex", AnswerChannel::File));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("x = 1", "unknown field `x`"),
            ("program = \" \"", "`program` is empty"),
            ("program = \"a\"\nlike = \"nobody\"", "it is like `nobody`, which is not known"),
            (
                "program = \"a\"\nanswer = \"event\"",
                "`answer` is \"event\", and no rule of `events` has an `answer`",
            ),
            ("program = \"a\"\ntrouble.limited = ['(']", "unclosed group"),
            ("answer = \"tool\"", "missing field `program`"),
        ] {
            let problem = own("mine", text).expect_err(text);
            assert!(problem.starts_with("the profile of agent `mine`: "), "{problem}");
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }

    #[test]
    fn paths_lead_through_lists() {
        let line = json!({"a": {"b": [{"c": 1}, {"c": 2}, {"d": 3}]}, "l": ["x", "y"]});
        let found =
            |path: &str| at(&line, path).into_iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(found("a.b[].c"), "1 2");
        assert_eq!(found("a.b.1.c"), "2");
        assert_eq!(found("l[]"), "\"x\" \"y\"");
        assert_eq!(found("a[].1.c"), "2");
        assert_eq!(found("a.x"), "");
        assert_eq!(found("l[].b"), "");
    }

    #[test]
    fn a_rule_fits_what_it_names() {
        let rule = |text: &str| toml::from_str::<EventRule>(text).expect("a rule");
        let line = json!({"type": "item", "item": {"kind": "b"}, "ok": false});
        assert!(rule("when = { type = \"item\", \"item.kind\" = [\"a\", \"b\"], ok = false }").fits(&line));
        assert!(!rule("when = { type = \"item\", \"item.kind\" = \"a\" }").fits(&line));
        assert!(!rule("when = { none = true }").fits(&line));
        assert!(rule("").fits(&line));
    }
}
