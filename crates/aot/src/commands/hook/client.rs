//! What Claude Code says to a hook and how it wants to be answered: its JSON, its names of tools and agents. Knows no
//! loop.

use std::path::{Component, Path, PathBuf};

use aot_core::hook::{Action, Caller, HostRole};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::print;

/// Tools that read, search or plan.
const READING_TOOLS: [&str; 9] =
    ["Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoWrite", "ToolSearch"];

/// The input of a hook, as far as any hook needs it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct HookInput {
    pub session_id: String,
    pub agent_id: Option<String>,
    pub agent_type: Option<String>,
    pub cwd: Option<String>,
    pub tool_name: String,
    pub tool_input: Value,
    pub tool_use_id: String,
    pub tool_response: Value,
    pub permission_mode: String,
    pub last_assistant_message: Option<String>,
    pub background_tasks: Vec<BackgroundTask>,
    pub prompt: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BackgroundTask {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    agent_type: Option<String>,
}

impl HookInput {
    /// The client writes null for what it leaves out.
    pub fn read(text: &[u8]) -> Option<HookInput> {
        let mut input: Value = serde_json::from_slice(text).ok()?;
        let fields = input.as_object_mut()?;
        fields.retain(|_, value| !value.is_null());
        for task in fields.get_mut("background_tasks").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(task) = task.as_object_mut() {
                task.retain(|_, value| !value.is_null());
            }
        }
        serde_json::from_value(input).ok()
    }

    pub fn caller(&self) -> Caller {
        match &self.agent_type {
            None => Caller::Session,
            Some(agent_type) => role_of(agent_type).map_or(Caller::OtherAgent, Caller::Agent),
        }
    }

    /// The role of the agent that calls, if it has one.
    pub fn role(&self) -> Option<HostRole> {
        self.agent_type.as_deref().and_then(role_of)
    }

    /// What the client calls the agent; empty for the session.
    pub fn agent(&self) -> &str {
        self.agent_id.as_deref().unwrap_or_default()
    }

    /// What the tool is about to do. `target` is the file that it would write, as [`HookInput::target`] found it.
    pub fn action<'i>(&'i self, target: Option<&'i str>) -> Action<'i> {
        let text = |name: &str| self.tool_input[name].as_str();
        match (self.tool_name.as_str(), target) {
            (_, Some(path)) => Action::WriteFile(path),
            ("Bash", None) => Action::RunCommand(text("command").unwrap_or_default()),
            ("Agent" | "Task", None) => Action::StartAgent {
                role: text("subagent_type").and_then(role_of),
                prompt: text("prompt").unwrap_or_default(),
            },
            ("Skill", None) if is_own_skill(text("skill").unwrap_or_default()) => Action::LoadSkill,
            (tool, None) if READING_TOOLS.contains(&tool) => Action::Read,
            (tool, None) => own_tool(tool).map_or(Action::UseOtherTool, Action::CallVerb),
        }
    }

    /// The file that the tool is about to write, without links and detours.
    pub fn target(&self) -> Option<String> {
        let field = match self.tool_name.as_str() {
            "Write" | "Edit" | "MultiEdit" => "file_path",
            "NotebookEdit" => "notebook_path",
            _ => return None,
        };
        let path = Path::new(self.tool_input[field].as_str()?);
        let path = match &self.cwd {
            Some(cwd) => Path::new(cwd).join(path),
            None => path.to_path_buf(),
        };
        Some(without_links(&path).to_string_lossy().into_owned())
    }

    /// Whether the session has just taken the loop up.
    pub fn has_entered(&self) -> bool {
        self.tool_input["command"].as_str().is_some_and(|command| command.starts_with("aot run --session"))
    }

    /// Whether the user is asked before each edit.
    pub fn asks_before_edits(&self) -> bool {
        ["default", "manual"].contains(&self.permission_mode.as_str())
    }

    /// The agent that a call has left running behind it, if the call that has returned sent one.
    pub fn still_running(&self) -> Option<&str> {
        let response = &self.tool_response;
        if response["isAsync"] == true || response["status"] == "async_launched" {
            response["agentId"].as_str()
        } else {
            None
        }
    }

    /// Whether the client will come back because a task of the session still runs. A server that was left running says
    /// nothing about the loop, and neither does an agent that has nothing to do any more.
    pub fn has_running_task(&self, is_discarded: &dyn Fn(&BackgroundTask) -> bool) -> bool {
        let works =
            |task: &BackgroundTask| task.is_running() && !["shell", "monitor"].contains(&task.kind.as_str());
        self.background_tasks.iter().any(|task| works(task) && !is_discarded(task))
    }

    /// Whether an agent that this coordinator sent still runs; the client wakes the coordinator when it has ended.
    pub fn waits_for_agents(&self, is_discarded: &dyn Fn(&BackgroundTask) -> bool) -> bool {
        self.background_tasks.iter().any(|task| {
            task.is_running()
                && task.id != self.agent()
                && task.role().is_some_and(|role| role != HostRole::Coordinator)
                && !is_discarded(task)
        })
    }

    /// Whether the prompt is the client's report that an agent of the session has ended.
    pub fn is_task_notification(&self) -> bool {
        self.prompt.trim_start().starts_with("<task-notification>")
    }
}

impl BackgroundTask {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn role(&self) -> Option<HostRole> {
        self.agent_type.as_deref().and_then(role_of)
    }

    fn is_running(&self) -> bool {
        self.status == "running"
    }
}

/// The role of an agent by its type, `PLUGIN:AGENT`; `None` for agents that are not the plugin's.
fn role_of(agent_type: &str) -> Option<HostRole> {
    match agent_type.rsplit(':').next()? {
        "aot-coordinator" => Some(HostRole::Coordinator),
        "aot-probe" => Some(HostRole::Probe),
        "aot-worker" => Some(HostRole::Worker),
        "aot-verifier" => Some(HostRole::Verifier),
        _ => None,
    }
}

/// Whether a skill is one of this plugin's.
fn is_own_skill(name: &str) -> bool {
    let name = name.strip_prefix("aot:").unwrap_or(name);
    ["aot-dag", "convergence", "parallel-exec", "state-contract"].contains(&name)
}

/// The name of a tool of our own MCP server.
fn own_tool(tool: &str) -> Option<&str> {
    tool.strip_prefix("mcp__")?.rsplit_once("aot__").map(|(_, name)| name)
}

fn without_links(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    // The file may not exist yet, so only its deepest existing folder can be resolved.
    let real = plain.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let real = real.map(|(above, real)| match plain.strip_prefix(above) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        Ok(_) | Err(_) => real,
    });
    real.unwrap_or(plain)
}

/// Answers whether a tool may be used: `allow`, `ask` or `deny`.
pub fn permit(decision: &str, reason: &str) {
    print::json(&json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }}));
}

/// What a hook says besides a decision.
#[derive(Debug, Default)]
pub struct Words {
    /// For the model. At the end of a turn the client goes on with it, and shows it to the user, too.
    pub model: Option<String>,
    pub user: Option<String>,
}

/// Says something at an event, or nothing.
pub fn say(event: &str, words: &Words) {
    let mut answer = serde_json::Map::new();
    if let Some(text) = &words.user {
        answer.insert("systemMessage".into(), json!(text));
    }
    if let Some(text) = &words.model {
        let output = json!({"hookEventName": event, "additionalContext": text});
        answer.insert("hookSpecificOutput".into(), output);
    }
    if !answer.is_empty() {
        print::json(&Value::Object(answer));
    }
}

/// Adds a text to what a model reads.
pub fn add_context(event: &str, text: &str) {
    say(event, &Words { model: Some(text.to_owned()), user: None });
}

/// Keeps an agent from ending, and tells it why. Nobody else reads it.
pub fn send_back(reason: &str) {
    print::json(&json!({"decision": "block", "reason": reason}));
}

/// Shows a text to the user.
pub fn show_user(text: &str) {
    say("", &Words { model: None, user: Some(text.to_owned()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_known_by_their_type() {
        for (name, role) in [
            ("aot:aot-coordinator", Some(HostRole::Coordinator)),
            ("aot-worker", Some(HostRole::Worker)),
            ("aot:aot-probe", Some(HostRole::Probe)),
            ("other:aot-verifier", Some(HostRole::Verifier)),
            ("aot-workers", None),
            ("general-purpose", None),
            ("", None),
        ] {
            assert_eq!(role_of(name), role, "{name}");
        }
    }

    fn action(tool: &str, input: Value) -> String {
        let call = HookInput { tool_name: tool.into(), tool_input: input, ..HookInput::default() };
        format!("{:?}", call.action(call.target().as_deref()))
    }

    #[test]
    fn tools_are_known_by_their_name() {
        for (tool, input, expected) in [
            ("Write", json!({"file_path": "/nowhere/a/../b"}), r#"WriteFile("/nowhere/b")"#),
            ("Edit", json!({"file_path": "/nowhere/./b"}), r#"WriteFile("/nowhere/b")"#),
            ("MultiEdit", json!({"file_path": "/nowhere/b"}), r#"WriteFile("/nowhere/b")"#),
            ("NotebookEdit", json!({"notebook_path": "/nowhere/b"}), r#"WriteFile("/nowhere/b")"#),
            ("NotebookEdit", json!({"file_path": "/nowhere/b"}), "UseOtherTool"),
            ("Write", json!({}), "UseOtherTool"),
            ("Bash", json!({"command": "ls"}), r#"RunCommand("ls")"#),
            ("Bash", json!({}), r#"RunCommand("")"#),
            (
                "Agent",
                json!({"subagent_type": "aot:aot-worker", "prompt": "A1"}),
                r#"StartAgent { role: Some(Worker), prompt: "A1" }"#,
            ),
            ("Task", json!({"subagent_type": "Explore"}), r#"StartAgent { role: None, prompt: "" }"#),
            ("Read", json!({"file_path": "/nowhere/b"}), "Read"),
            ("Skill", json!({"skill": "aot:aot-dag"}), "LoadSkill"),
            ("Skill", json!({"skill": "convergence"}), "LoadSkill"),
            ("Skill", json!({"skill": "other:deploy"}), "UseOtherTool"),
            ("mcp__aot__atom_resolve", json!({}), r#"CallVerb("atom_resolve")"#),
            ("mcp__plugin_x_aot__status", json!({}), r#"CallVerb("status")"#),
            ("mcp__db__turn", json!({}), "UseOtherTool"),
            ("aot__turn", json!({}), "UseOtherTool"),
        ] {
            assert_eq!(action(tool, input.clone()), expected, "{tool} {input}");
        }
    }

    #[test]
    fn a_relative_target_lies_where_the_caller_is() {
        let call = HookInput {
            cwd: Some("/nowhere/a".into()),
            tool_name: "Write".into(),
            tool_input: json!({"file_path": "../b"}),
            ..HookInput::default()
        };
        assert_eq!(call.target().as_deref(), Some("/nowhere/b"));
    }

    #[test]
    fn callers_are_the_session_an_agent_of_the_loop_or_another_one() {
        for (agent_type, expected) in [
            (None, Caller::Session),
            (Some("aot:aot-probe"), Caller::Agent(HostRole::Probe)),
            (Some("general-purpose"), Caller::OtherAgent),
        ] {
            let input = HookInput { agent_type: agent_type.map(str::to_owned), ..HookInput::default() };
            assert_eq!(input.caller(), expected);
        }
    }
}
