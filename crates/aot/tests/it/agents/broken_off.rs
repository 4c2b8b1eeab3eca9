//! Agents that crash or fall silent in the middle of their work: they go on in the same conversation, with what they had
//! read and written.

use serde_json::json;

use crate::repo::{Plan, Repo};
use crate::scene::{atom, file, is_there};

/// Writes half a file and ends as it is told; asked to go on, it writes the other half and answers.
const AGENT: &str = r#"
asked=$(cat)
echo '{"type": "begin", "conversation": "c1"}'
echo '{"type": "request", "tokens": 10}'
if [ "$1" = --resume ]; then
    case "$asked" in *'You were interrupted before you answered: '*) ;; *) exit 7 ;; esac
    printf ' whole' >> a.txt
    echo '{"type": "end", "answer": {"success": true, "summary": "both halves", "artifacts": ["a.txt"]}}'
    exit
fi
printf half > a.txt
"#;

fn run(end: &str, session: &str) -> Repo {
    let (atoms, base_case) = (atom("A1", "", &file("a.txt")), is_there("a.txt"));
    let constraints = "max_iterations: 1, max_parallel_agents: 1, max_stall_count: 3, agent_timeout: 1m";
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base_case, constraints, ..Plan::default() });
    let settings = format!(
        r#"
[work]
idle_timeout = "1s"
[agents]
probe = "none"
coordinator = "none"
[agent.shaky]
program = "sh"
arguments = ["-c", {script}, "shaky", "{{session_arguments}}"]
input = "prompt"
answer = "event"
{session}
[[agent.shaky.events]]
when = {{ type = "begin" }}
session = "conversation"
[[agent.shaky.events]]
when = {{ type = "request" }}
input_tokens = ["tokens"]
[[agent.shaky.events]]
when = {{ type = "end" }}
answer = "answer"
"#,
        script = json!(format!("{AGENT}{end}"))
    );
    repo.write("../config/aot/aot.toml", &settings);
    repo.aot(&["run", "--json", "--agent", "shaky"]);
    repo
}

#[test]
fn an_agent_that_breaks_off_goes_on_in_the_same_conversation() {
    for end in ["kill -9 $$", "exit 3", "sleep 60"] {
        let repo = run(end, "session = { resume = [\"--resume\", \"{session}\"] }");
        let state = repo.state();
        assert_eq!(repo.atoms(), "A1:resolved", "{end}: {state}");
        assert_eq!(repo.read("a.txt"), "half whole", "{end}");
        assert_eq!(state["trail"], json!([]), "{end}");
        let spent = &state["control"]["spent"];
        assert_eq!((&spent["agent_runs"], &spent["mends"]), (&json!(2), &json!(1)), "{end}: {state}");
    }
}

/// Without a conversation to go on with it has failed, and nothing of it lands.
#[test]
fn an_agent_that_breaks_off_without_a_conversation_has_failed() {
    let repo = run("exit 3", "");
    assert_eq!(repo.atoms(), "A1:pending");
    assert!(!repo.path("a.txt").exists());
    assert_eq!(repo.state()["control"]["spent"]["agent_runs"], 1);
}
