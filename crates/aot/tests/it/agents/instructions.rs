//! The project's own instructions reach each real agent as in a session of a person, and hooks and settings of such sessions do
//! not.

use scripted_model::{Rule, Script};
use serde_json::json;

use crate::repo::Plan;
use crate::scene::{Scene, atom, file, is_here, is_there, solved};

/// A project with instructions for everybody, in its root and below it, tracked and not, and with hooks that would leave a
/// file in the worker's tree.
fn scene(cage: &str) -> Scene {
    let script =
        Script::new().rule(Rule::on("solve A1").run("echo made > a.txt").answer(solved("made", &["a.txt"])));
    let atoms = atom("A1", "", &file("a.txt"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script);
    scene.settings(&format!("[cage]\nkind = \"{cage}\"\n"));
    let hook =
        |word: &str| json!([{"hooks": [{"type": "command", "command": format!("touch hooked-by-{word}")}]}]);
    let hooks = |word: &str| {
        json!({"hooks": {
            "SessionStart": hook(word), "PreToolUse": hook(word), "UserPromptSubmit": hook(word), "Stop": hook(word),
            "BeforeTool": hook(word), "BeforeAgent": hook(word),
        }})
        .to_string()
    };
    for name in ["CLAUDE.md", "AGENTS.md", "GEMINI.md", ".claude/rules/style.md"] {
        scene.repo.write(name, &format!("Say TRACKED-IN-{name}.\n"));
    }
    scene.repo.write(".claude/settings.json", &hooks("project"));
    scene.repo.write(".gemini/settings.json", &hooks("project"));
    let tracked =
        [".claude/rules", ".claude/settings.json", ".gemini", "CLAUDE.md", "AGENTS.md", "GEMINI.md"];
    scene.repo.git(&[&["add", "-f"][..], &tracked].concat());
    scene.repo.git(&["commit", "-qm", "Say how"]);
    scene.repo.write("CLAUDE.local.md", "Say NOT-TRACKED.\n");
    scene.repo.write("../.claude/CLAUDE.md", "Say OF-THE-USER of Claude Code.\n");
    scene.repo.write("../.claude/settings.json", &hooks("user"));
    scene.repo.write("../.codex/AGENTS.md", "Say OF-THE-USER of Codex.\n");
    scene.repo.write("../.gemini/GEMINI.md", "Say OF-THE-USER of Gemini.\n");
    scene.repo.write("../config/opencode/AGENTS.md", "Say OF-THE-USER of opencode.\n");
    scene
}

fn check(agent: &str, cage: &str, expected: &[&str], absent: &[&str]) {
    if !is_here(if agent == "claude-acp" { "claude-agent-acp" } else { agent }) {
        return;
    }
    let scene = scene(cage);
    let said = scene.run(agent);
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    let requests = scene.model.requests();
    let asked =
        requests.iter().find(|request| request.prompt.contains("solve A1") && !request.tools.is_empty());
    let asked = asked.expect("it asked its model").body.to_string();
    for word in expected {
        assert!(asked.contains(word), "{agent}: {word} is missing in {asked}");
    }
    for word in absent {
        assert!(!asked.contains(word), "{agent}: {word} is in {asked}");
    }
    for word in ["project", "user"] {
        assert!(!scene.repo.path(&format!("hooked-by-{word}")).exists(), "a hook of the {word} ran");
    }
}

const CLAUDE: [&str; 4] = [
    "TRACKED-IN-CLAUDE.md",
    "TRACKED-IN-.claude/rules/style.md",
    "NOT-TRACKED",
    "OF-THE-USER of Claude Code",
];

#[test]
fn claude_reads_them() {
    check("claude", "auto", &CLAUDE, &["TRACKED-IN-GEMINI.md"]);
}

/// Then it has the user's own folder, with their hooks.
#[test]
fn claude_reads_them_without_a_cage() {
    check("claude", "none", &CLAUDE, &["TRACKED-IN-GEMINI.md"]);
}

#[test]
fn claude_reads_them_over_acp() {
    check("claude-acp", "auto", &CLAUDE, &["TRACKED-IN-GEMINI.md"]);
}

#[test]
fn codex_reads_them() {
    check("codex", "auto", &["TRACKED-IN-AGENTS.md", "OF-THE-USER of Codex"], &["TRACKED-IN-GEMINI.md"]);
}

#[test]
fn gemini_reads_them() {
    check("gemini", "auto", &["TRACKED-IN-GEMINI.md", "OF-THE-USER of Gemini"], &["TRACKED-IN-CLAUDE.md"]);
}

#[test]
fn opencode_reads_them() {
    let expected = ["TRACKED-IN-AGENTS.md", "TRACKED-IN-CLAUDE.md", "OF-THE-USER of opencode"];
    check("opencode", "auto", &expected, &["TRACKED-IN-GEMINI.md"]);
}
