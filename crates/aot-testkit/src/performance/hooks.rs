//! What a host waits for: the hook before a tool and the one at the end of a turn, beside an empty process, an interpreter
//! and a hook that is a script. And how large the program is.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::measure::{cpu, in_turns, instructions_reading};
use super::{Bench, Curve, Goal, Pass, Row, Samples, Unit};
use crate::fixtures::{NewLoop, of_size};
use crate::project::{Project, STATE};

/// Whose loop it is.
const SESSION: &str = "here";

/// Nothing is caged: at the end of a turn only a check that starts no process is evaluated.
const SETTINGS: &str = "[cage]\nkind = \"none\"\n";

pub fn measure(bench: &mut Bench) {
    let floors = Floors::make(bench);
    before_a_tool(bench, &floors);
    end_of_turn(bench, &floors);
    if bench.pass == Pass::Full {
        static_beside_dynamic(bench, &floors);
        growth(bench);
        let bytes = fs::metadata(&bench.aot).map_or(f64::NAN, |file| file.len() as f64);
        let size = Samples(vec![bytes / 1e6]);
        bench.row(Row::figure("size of the program", &size, Unit::Megabytes, Goal::AtMost(12.0)));
    }
}

/// Processes that do nothing, and the hook that scripts would be.
struct Floors {
    folder: TempDir,
    static_true: Option<PathBuf>,
    script: PathBuf,
    /// That of the system: what is found in `PATH` may be a script that looks for it, or load much more.
    python: Option<PathBuf>,
}

impl Floors {
    fn make(bench: &mut Bench) -> Floors {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, program) = (folder.path().join("true.c"), folder.path().join("true"));
        fs::write(&source, "int main(void) { return 0; }\n").expect("a file can be written");
        let mut compile = Command::new("gcc");
        compile.args(["-static", "-O2", "-o"]).arg(&program).arg(&source).stderr(Stdio::null());
        let static_true = compile.status().is_ok_and(|status| status.success()).then_some(program);
        if static_true.is_none() {
            bench.left_out("hooks beside a static C program: no gcc that links statically");
        }
        let python = Some(PathBuf::from("/usr/bin/python3")).filter(|python| python.is_file());
        if python.is_none() {
            bench.left_out("hooks beside an interpreter: no /usr/bin/python3");
        }
        let script = folder.path().join("hook.sh");
        fs::write(&script, SCRIPT).expect("a file can be written");
        fs::write(folder.path().join("nothing"), "").expect("a file can be written");
        Floors { folder, static_true, script, python }
    }

    fn nothing(&self) -> PathBuf {
        self.folder.path().join("nothing")
    }

    fn do_nothing(&self) -> f64 {
        cpu(&mut Command::new("/bin/true"))
    }
}

/// What a plugin of scripts does before a tool: reads what the host says, finds the state file, reads what stands before the
/// second `---`, and answers.
const SCRIPT: &str = r#"#!/bin/bash
set -euo pipefail
input="$(cat)"
state="${CLAUDE_PROJECT_DIR:-$PWD}/.claude/aot-loop-state.md"
[ -f "$state" ] || exit 0
front="$(sed -n '/^---$/,/^---$/p' "$state")"
status="$(printf '%s\n' "$front" | sed -n 's/^  status: //p' | head -n 1)" || true
[ "$status" = running ] || exit 0
printf '%s' "$input" | "$PYTHON" -c '
import json, sys
said = json.load(sys.stdin)
command = said.get("tool_input", {}).get("command", "")
if said.get("tool_name") == "Bash" and command.startswith("aot "):
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}))
'
"#;

/// A project whose loop runs in a session, and what the host says to the hook.
struct Asked {
    project: Project,
    input: PathBuf,
}

impl Asked {
    fn of(aot: &Path, atoms: usize) -> Asked {
        let project = Project::new(aot, SETTINGS);
        let owned = format!("redirect_requested: false\n  session: {SESSION}");
        let text = of_size(atoms).replacen("redirect_requested: false", &owned, 1);
        project.write(STATE, &text.replacen("status: pending", "status: running", 1));
        let said = json!({
            "session_id": SESSION, "tool_name": "Bash", "tool_input": {"command": "aot status"},
            "agent_type": "aot:aot-worker", "agent_id": "w1", "cwd": project.root(),
        });
        project.write("../asked.json", &said.to_string());
        let asked = Asked { input: project.path("../asked.json"), project };
        // A file that was written a moment ago is read twice, in case somebody is still writing it. The first hook after
        // that works out what the others find.
        std::thread::sleep(std::time::Duration::from_millis(100));
        asked.cost();
        assert!(asked.project.path(".claude/aot/digest").is_file(), "the next hook reads no state");
        asked
    }

    fn command(&self) -> Command {
        let mut command = self.project.command(&["hook", "pre-tool-use"]);
        command.stdin(File::open(&self.input).expect("it was written"));
        command
    }

    fn cost(&self) -> f64 {
        cpu(&mut self.command())
    }

    fn script_cost(&self, script: &Path, python: &Path) -> f64 {
        let mut command = Command::new("bash");
        self.project.dress(&mut command);
        command.arg(script).env("PYTHON", python);
        cpu(command.stdin(File::open(&self.input).expect("it was written")))
    }
}

fn before_a_tool(bench: &mut Bench, floors: &Floors) {
    for &atoms in bench.of(&[10][..], &[10, 10_000]) {
        let asked = Asked::of(&bench.aot, atoms);
        let what = format!("hook before a tool, {atoms} atoms");
        let rounds = bench.of(30, 300);
        let [ours, dynamic, fixed] = in_turns(
            rounds,
            [&mut || asked.cost(), &mut || floors.do_nothing(), &mut || {
                floors.static_true.as_ref().map_or(f64::NAN, |program| cpu(&mut Command::new(program)))
            }],
        );
        bench.row(Row::ratio(&what, &ours, "/bin/true", &dynamic, Goal::AtMost(1.5)));
        if floors.static_true.is_some() {
            let what = format!("{what}, beside a static true");
            bench.row(Row::ratio(what, &ours, "static C true", &fixed, Goal::AtMost(1.5)));
        }
        if let Some(python) = &floors.python {
            let [ours, theirs] = in_turns(
                bench.of(3, 20),
                [&mut || asked.cost(), &mut || asked.script_cost(&floors.script, python)],
            );
            let what = format!("{what}, beside a script");
            bench.row(Row::ratio(what, &ours, "bash and python", &theirs, Goal::None));
        }
        counted(bench, &asked.command(), &asked.input, format!("{what}, instructions"));
    }
    let elsewhere = Project::new(&bench.aot, SETTINGS);
    let ask = || cpu(elsewhere.command(&["hook", "pre-tool-use"]).stdin(Stdio::null()));
    let [ours, dynamic] = in_turns(bench.of(30, 300), [&mut || ask(), &mut || floors.do_nothing()]);
    bench.row(Row::ratio("hook where no loop is", &ours, "/bin/true", &dynamic, Goal::AtMost(1.5)));
    counted(
        bench,
        &elsewhere.command(&["hook", "pre-tool-use"]),
        &floors.nothing(),
        "hook where no loop is, instructions",
    );
}

fn counted(bench: &mut Bench, command: &Command, input: &Path, what: impl Into<String>) {
    let what = what.into();
    match instructions_reading(command, input) {
        Some(count) => {
            let count = Samples(vec![count / 1e6]);
            bench.row(Row::figure(what, &count, Unit::Millions, Goal::AtMost(1.0)));
        }
        None => bench.left_out(format!("{what}: no valgrind")),
    }
}

/// The build that releases are made of, where it lies beside this one.
fn static_beside_dynamic(bench: &mut Bench, floors: &Floors) {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let profile = bench.aot.parent().unwrap_or(Path::new(""));
    let aot = profile.join("..").join(&target).join(profile.file_name().unwrap_or_default()).join("aot");
    if !aot.is_file() {
        return bench.left_out(format!("the static build: cargo build --release --target {target}"));
    }
    // A loop each: what one build worked out is not believed by another.
    let (asked, other) = (Asked::of(&aot, 10_000), Asked::of(&bench.aot, 10_000));
    let [ours, theirs, nothing] = in_turns(
        bench.of(30, 300),
        [&mut || asked.cost(), &mut || other.cost(), &mut || floors.do_nothing()],
    );
    let what = "hook before a tool, 10000 atoms, static build";
    bench.row(Row::ratio(what, &ours, "/bin/true", &nothing, Goal::AtMost(1.5)));
    let what = "the same, beside the build that is measured";
    bench.row(Row::ratio(what, &ours, "other build", &theirs, Goal::AtMost(1.0)));
}

/// A session whose coordinator ends its turns: each one is judged, counted and written.
struct Session {
    project: Project,
    turns: usize,
}

impl Session {
    fn of(aot: &Path, atoms: usize) -> Session {
        let project = Project::new(aot, SETTINGS);
        let graph: String = (0..atoms).map(|place| {
            let depends = if place < 8 { String::new() } else { format!("A{}", place - 7) };
            format!(
                "  - {{id: A{}, description: \"Move part {place} of the service\", status: pending, depends_on: [{depends}]}}\n",
                place + 1
            )
        }).collect();
        let text = NewLoop {
            goal: "Move the service",
            base_case: "    checklist:\n      - {item: \"It is moved\", check: {type: file, value: moved}}",
            constraints: "max_iterations: 5000, max_parallel_agents: 3, max_stall_count: 4000",
            objective: "",
            control: "",
            atoms: &graph,
            decompositions: "",
            or_groups: "",
            request: "Move it.",
        };
        project.write(STATE, &text.text());
        project.init();
        let begun = project.command(&["run", "--session"]).env("CLAUDE_CODE_SESSION_ID", SESSION).output();
        let begun = begun.expect("the program starts");
        assert!(begun.status.success(), "{}", String::from_utf8_lossy(&begun.stderr));
        Session { project, turns: 0 }
    }

    /// A new coordinator begins, and ends its turn; only its end is measured.
    fn turn(&mut self, measured: fn(&mut Command) -> f64) -> f64 {
        self.turns += 1;
        let said = json!({
            "session_id": SESSION, "agent_type": "aot:aot-coordinator", "agent_id": format!("c{}", self.turns),
            "cwd": self.project.root(),
        });
        self.project.write("../asked.json", &said.to_string());
        let hook = |event: &str| {
            let mut hook = self.project.command(&["hook", event]);
            hook.stdin(File::open(self.project.path("../asked.json")).expect("it was written"));
            hook
        };
        cpu(&mut hook("subagent-start"));
        let before = self.project.read(STATE);
        let cost = measured(&mut hook("subagent-stop"));
        assert_ne!(self.project.read(STATE), before, "the turn is counted in the file");
        cost
    }
}

fn end_of_turn(bench: &mut Bench, floors: &Floors) {
    let Some(python) = &floors.python else { return };
    let start = || cpu(Command::new(python).args(["-c", "pass"]));
    for &(atoms, goal) in bench.of(&[(10, 1.0 / 8.0)][..], &[(10, 1.0 / 8.0), (1_000, 1.0 / 4.0)]) {
        let mut session = Session::of(&bench.aot, atoms);
        let [ours, theirs] = in_turns(bench.of(5, 40), [&mut || session.turn(cpu), &mut || start()]);
        let what = format!("hook at the end of a turn, {atoms} atoms");
        bench.row(Row::ratio(what, &ours, "python3 -c pass", &theirs, Goal::AtMost(goal)));
    }
}

/// What each hook costs with more atoms.
fn growth(bench: &mut Bench) {
    let middle = |samples: [Samples; 1]| samples[0].median() * 1e3;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for atoms in [10, 100, 1_000, 10_000, 100_000] {
        let asked = Asked::of(&bench.aot, atoms);
        before.push((atoms as f64, middle(in_turns(30, [&mut || asked.cost()]))));
    }
    for atoms in [10, 100, 1_000, 10_000] {
        let mut session = Session::of(&bench.aot, atoms);
        after.push((atoms as f64, middle(in_turns(5, [&mut || session.turn(cpu)]))));
    }
    bench.curves.push(Curve {
        name: "hooks",
        title: "Hooks of a session".into(),
        x: "atoms",
        y: "ms of processor time",
        lines: vec![("before a tool".into(), before), ("end of a turn".into(), after)],
    });
}
