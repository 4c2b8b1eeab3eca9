//! What the verbs cost, as ratios within one run: CPU time of whole processes, `aot` against `/bin/true` and against a
//! bare process that reads the file. Prints; judges nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use aot_testkit::fixtures::of_size;
use nix::sys::resource::{UsageWho, getrusage};

const ROUNDS: usize = 40;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path();
    let nothing = median(|_| cpu(&mut Command::new("/bin/true")));
    println!("/bin/true                      {:>9.3} ms", ms(nothing));
    let mut costs = Vec::new();
    for atoms in [10, 1_000, 10_000, 100_000] {
        let text = of_size(atoms);
        let state = project(&root.join(format!("read-{atoms}")), &text);
        settle();
        println!("\n{atoms} atoms, {} bytes", text.len());
        let bare = median(|_| cpu(Command::new("/bin/cat").arg(&state)));
        let rounds = if atoms > 10_000 { 5 } else { ROUNDS };
        let cold = |verb: &str| {
            median_of(rounds, |_| {
                // What was worked out before is gone; only the file is there.
                let _ = fs::remove_file(state.with_file_name("aot").join("cache"));
                cpu(aot(&state).arg(verb))
            })
        };
        let (cold_ready, cold_validate) = (cold("ready"), cold("validate"));
        let warm_ready = median_of(rounds, |_| cpu(aot(&state).arg("ready")));
        let projects: Vec<PathBuf> = (0..rounds.min(20))
            .map(|round| project(&root.join(format!("write-{atoms}-{round}")), &text))
            .collect();
        settle();
        let id = format!("A{}", atoms / 2 + 1);
        let resolve = median_of(projects.len(), |round| {
            cpu(aot(&projects[round]).args(["atom", "resolve", &id, "--summary", "It is done"]))
        });
        let again = median_of(projects.len(), |round| {
            cpu(aot(&projects[round]).args(["atom", "add", "One more thing"]))
        });
        row("a process that reads the file", bare, nothing, bare);
        row("ready, cold", cold_ready, nothing, bare);
        row("ready, warm", warm_ready, nothing, bare);
        row("validate, cold", cold_validate, nothing, bare);
        row("atom resolve, cold", resolve, nothing, bare);
        row("atom add, warm", again, nothing, bare);
        costs.push((atoms, cold_ready, cold_validate, resolve));
    }
    hooks(root, nothing);
    println!("\ngrowth from 1 000 to 10 000, and from 10 000 to 100 000 atoms");
    for pair in costs.windows(2).skip(1) {
        let [(_, ready, validate, resolve), (to, ready_to, validate_to, resolve_to)] = pair else { continue };
        println!(
            "  to {to:>7}: ready {:.1}, validate {:.1}, atom resolve {:.1}",
            ratio(*ready_to, *ready),
            ratio(*validate_to, *validate),
            ratio(*resolve_to, *resolve)
        );
    }
}

/// What a host waits for before every tool, in a session that owns a loop and in one that does not.
fn hooks(root: &Path, nothing: Duration) {
    println!("\nhook pre-tool-use");
    let mut costs = Vec::new();
    for atoms in [10, 10_000] {
        let owned = "redirect_requested: false\n  session: here";
        let text = of_size(atoms).replacen("redirect_requested: false", owned, 1);
        let text = text.replacen("status: pending", "status: running", 1);
        let state = project(&root.join(format!("hook-{atoms}")), &text);
        let folder = state.parent().and_then(Path::parent).expect("a project");
        settle();
        for (who, command) in [("here", "ls"), ("here", "aot status"), ("elsewhere", "ls")] {
            let asked = format!(
                r#"{{"session_id": "{who}", "tool_name": "Bash", "tool_input": {{"command": "{command}"}}, "agent_type": "aot:aot-worker"}}"#
            );
            let input = root.join("asked.json");
            fs::write(&input, asked).expect("a file can be written");
            let ask = || {
                let mut hook = Command::new(env!("CARGO_BIN_EXE_aot"));
                hook.args(["hook", "pre-tool-use"]).current_dir(folder);
                cpu_with(&mut hook, fs::File::open(&input).expect("it is there").into())
            };
            // The first one works it out.
            ask();
            let cost = median(|_| ask());
            println!(
                "  {atoms:>6} atoms, session {who:<10} {command:<11} {:>9.3} ms   {:>7.1} x true",
                ms(cost),
                ratio(cost, nothing)
            );
            costs.push(cost);
        }
    }
    println!("  10 000 atoms cost {:.2} times as much as 10", ratio(costs[3], costs[0]));
    let empty = root.join("hook-none");
    fs::create_dir_all(&empty).expect("a folder can be made");
    let none = median(|_| {
        let mut hook = Command::new(env!("CARGO_BIN_EXE_aot"));
        cpu(hook.args(["hook", "pre-tool-use"]).current_dir(&empty))
    });
    println!("  without a loop {:>33.3} ms   {:>7.1} x true", ms(none), ratio(none, nothing));
}

fn row(name: &str, cost: Duration, nothing: Duration, bare: Duration) {
    println!(
        "  {name:<29} {:>9.3} ms   {:>7.1} x true   {:>6.1} x bare read",
        ms(cost),
        ratio(cost, nothing),
        ratio(cost, bare)
    );
}

fn project(folder: &Path, text: &str) -> PathBuf {
    let state = folder.join(".claude/aot-loop-state.md");
    fs::create_dir_all(state.parent().expect("it has one")).expect("a folder can be made");
    fs::write(&state, text).expect("a file can be written");
    state
}

/// A file that was written a moment ago is read twice, in case somebody is still writing it.
fn settle() {
    std::thread::sleep(Duration::from_millis(100));
}

fn aot(state: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
    command.arg("--state").arg(state).env("AOT_TRUST", "/");
    command
}

/// User and system time of a process and its children.
fn cpu(command: &mut Command) -> Duration {
    cpu_with(command, Stdio::null())
}

fn cpu_with(command: &mut Command, input: Stdio) -> Duration {
    let before = children();
    let status = command.stdin(input).stdout(Stdio::null()).status().expect("it can be started");
    assert!(status.success(), "{command:?}");
    children() - before
}

fn children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the kernel counts");
    let micros = |time: nix::sys::time::TimeVal| (time.tv_sec() * 1_000_000 + time.tv_usec()) as u64;
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

fn median(measure: impl FnMut(usize) -> Duration) -> Duration {
    median_of(ROUNDS, measure)
}

fn median_of(rounds: usize, measure: impl FnMut(usize) -> Duration) -> Duration {
    let mut seen: Vec<Duration> = (0..rounds).map(measure).collect();
    seen.sort();
    seen[seen.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64()
}
