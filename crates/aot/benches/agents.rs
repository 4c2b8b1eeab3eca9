//! What a run of an agent costs beside the agent itself: brief, cage, worktree, answer, check, commit and record.
//! `cargo bench -p aot --bench agents`. The agent is a shell that writes a file and answers at once. Nothing is asserted.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Two loops, so that what a loop costs once is not counted.
const FEW: u32 = 10;
const MANY: u32 = 40;

/// What the agent does, with the number of the atom in the file's name.
const WORK: &str = "cat > /dev/null; echo made > $AOT_ATOM.txt; echo '{\"success\": true, \"summary\": \"made\", \"artifacts\": [], \
                    \"reason\": null, \"too_large\": false}'";

fn main() {
    let bare = bare(50);
    println!("the agent alone                              {:7.1} ms", millis(bare));
    for (name, mode, cage) in [
        ("worktree, no cage", "worktree", "none"),
        ("worktree, landlock", "worktree", "landlock"),
        ("worktree, bwrap", "worktree", "bwrap"),
        ("no isolation, no cage", "none", "none"),
    ] {
        match (runs(mode, cage, FEW), runs(mode, cage, MANY)) {
            (Some(few), Some(many)) => {
                let each = many.saturating_sub(few) / (MANY - FEW);
                println!("our part of a run, {name:<26} {:7.1} ms", millis(each.saturating_sub(bare)));
            }
            _ => println!("our part of a run, {name:<26} not here"),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn bare(count: u32) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let began = Instant::now();
    for _ in 0..count {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WORK]).env("AOT_ATOM", "A1").current_dir(folder.path());
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(status.expect("a shell").success());
    }
    began.elapsed() / count
}

/// The time of a loop whose atoms are solved one after the other.
fn runs(mode: &str, cage: &str, count: u32) -> Option<Duration> {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("project");
    fs::create_dir_all(root.join(".claude")).expect("a folder");
    let profile = format!(
        "[cage]\nkind = \"{cage}\"\n[agent.quick]\nprogram = \"/bin/sh\"\narguments = [\"-c\", '''{WORK}''']\ninput = \"prompt\"\n\
         answer = \"output\"\n"
    );
    fs::write(root.join("aot.toml"), profile).expect("settings");
    let atoms: String = (1..=count)
        .map(|n| {
            format!(
                "  - {{id: A{n}, description: \"Make A{n}\", status: pending, depends_on: [], check: {{type: file, value: A{n}.txt}}}}\n"
            )
        })
        .collect();
    let text = format!(
        "---\nobjective:\n  goal: \"g\"\n  base_case:\n    checklist:\n      - {{item: i, check: {{type: file, value: A{count}.txt}}}}\n  \
         background_intent: b\n  deliverables: d\n  definition_of_done: d\n  isolation: {{mode: {mode}}}\n  \
         constraints: {{max_iterations: 500, max_parallel_agents: 1, max_stall_count: 3}}\ncontrol:\n  status: pending\n  \
         iteration: 0\n  stall_count: 0\n  prev_pending_count: -1\n  stop_requested: false\n  stop_reason: null\n  \
         redirect_requested: false\natoms:\n{atoms}decompositions: []\nor_groups: {{}}\nbindings: {{}}\ntrail: []\ncorrections: []\n---\n"
    );
    fs::write(root.join(".claude/aot-loop-state.md"), text).expect("a state");
    fs::write(root.join(".gitignore"), ".claude/\n").expect("a file");
    if mode == "worktree" {
        for words in [&["init", "-q"][..], &["add", "."], &["commit", "-qm", "x"]] {
            assert!(
                as_ada(Command::new("git").arg("-C").arg(&root).args(words)).status().expect("git").success()
            );
        }
    }
    let began = Instant::now();
    let done = aot(&root, &["run", "--json", "--agent", "quick"]);
    let took = began.elapsed();
    if !done.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&done.stderr));
        return None;
    }
    Some(took)
}

fn aot(root: &Path, words: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
    as_ada(command.args(words).current_dir(root)).stdin(Stdio::null()).output().expect("it starts")
}

fn as_ada(command: &mut Command) -> &mut Command {
    command
        .env("AOT_TRUST", "/")
        .env("SHELL", "/bin/sh")
        .env("GIT_AUTHOR_NAME", "Ada")
        .env("GIT_AUTHOR_EMAIL", "ada@example.org")
        .env("GIT_COMMITTER_NAME", "Ada")
        .env("GIT_COMMITTER_EMAIL", "ada@example.org")
}
