//! What a loop costs beside its work: `cargo bench -p aot --bench run`. Figures are ratios of one run; nothing is
//! asserted here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ATOMS: usize = 1000;

fn main() {
    let bare = bare_spawns(300);
    println!("a bare spawn-and-wait of `sh -c true`                 {:7.2} ms   1.00 x", millis(bare));
    for (name, parallel, mode, cage, git) in [
        ("isolation off, cage off, 8 at a time", 8, "none", "none", Git::No),
        ("isolation off, cage off, 16 at a time", 16, "none", "none", Git::No),
        ("isolation off, cage off, 32 at a time", 32, "none", "none", Git::No),
        ("isolation off, landlock, 16 at a time", 16, "none", "landlock", Git::No),
        ("isolation off, bwrap, 16 at a time", 16, "none", "bwrap", Git::No),
        ("in place with a shadow, cage off", 16, "in_place", "none", Git::No),
        ("worktrees, cage off, 16 at a time", 16, "worktree", "none", Git::Yes),
    ] {
        match noops(parallel, mode, cage, git) {
            Some(each) => println!(
                "an atom of {ATOMS}, {name:<42} {:7.2} ms {:6.2} x",
                millis(each),
                each.as_secs_f64() / bare.as_secs_f64()
            ),
            None => println!("an atom of {ATOMS}, {name:<42} not here"),
        }
    }
    idle();
    kills();
}

#[derive(Clone, Copy, PartialEq)]
enum Git {
    Yes,
    No,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn bare_spawns(count: u32) -> Duration {
    let began = Instant::now();
    for _ in 0..count {
        let status = Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).status();
        assert!(status.expect("a shell").success());
    }
    began.elapsed() / count
}

struct Loop {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Loop {
    fn new(atoms: &str, base_case: &str, parallel: usize, mode: &str, cage: &str, git: Git) -> Loop {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("project");
        fs::create_dir_all(root.join(".claude")).expect("a folder");
        fs::write(root.join("aot.toml"), format!("[cage]\nkind = \"{cage}\"\n")).expect("settings");
        let text = format!(
            "---\nobjective:\n  goal: \"g\"\n  base_case:\n    checklist:\n      - {{item: i, check: {{type: file, value: {base_case}}}}}\n  \
             background_intent: b\n  deliverables: d\n  definition_of_done: d\n  isolation: {{mode: {mode}}}\n  \
             constraints: {{max_iterations: 5000, max_parallel_agents: {parallel}, max_stall_count: 3}}\ncontrol:\n  status: pending\n  \
             iteration: 0\n  stall_count: 0\n  prev_pending_count: -1\n  stop_requested: false\n  stop_reason: null\n  \
             redirect_requested: false\natoms:\n{atoms}decompositions: []\nor_groups: {{}}\nbindings: {{}}\ntrail: []\ncorrections: []\n---\n"
        );
        fs::write(root.join(".claude/aot-loop-state.md"), text).expect("a state");
        if git == Git::Yes {
            fs::write(root.join(".gitignore"), ".claude/\n").expect("a file");
            for words in [
                &["init", "-q"][..],
                &["add", "."],
                &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
            ] {
                let done = Command::new("git").arg("-C").arg(&root).args(words).status();
                assert!(done.expect("git").success());
            }
        }
        Loop { _folder: folder, root }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aot"));
        command
            .args(words)
            .current_dir(&self.root)
            .env("SHELL", "/bin/sh")
            .env("AOT_TRUST", "/")
            .stdin(Stdio::null());
        command
    }

    fn start(&self) -> Child {
        self.command(&["run", "--json"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    }
}

/// The whole loop, divided by its atoms; the last one makes the base case true.
fn noops(parallel: usize, mode: &str, cage: &str, git: Git) -> Option<Duration> {
    let mut atoms = String::new();
    for n in 1..=ATOMS {
        let run = if n == ATOMS { "touch done" } else { "true" };
        atoms +=
            &format!("  - {{id: A{n}, description: d, status: pending, depends_on: [], run: \"{run}\"}}\n");
    }
    let work = Loop::new(&atoms, "done", parallel, mode, cage, git);
    let began = Instant::now();
    let output = work.command(&["run", "--json"]).output().expect("it starts");
    let took = began.elapsed();
    if !output.status.success() {
        let err = String::from_utf8_lossy(&output.stderr);
        let out = String::from_utf8_lossy(&output.stdout);
        println!("  {}", err.lines().chain(out.lines().rev()).next().unwrap_or_default());
        return None;
    }
    Some(took / ATOMS as u32)
}

/// A driver that waits for one sleeping worker.
fn idle() {
    let atoms = "  - {id: A1, description: d, status: pending, depends_on: [], run: \"sleep 60\"}\n";
    let work = Loop::new(atoms, "done", 3, "none", "none", Git::No);
    let mut driver = work.start();
    std::thread::sleep(Duration::from_secs(2));
    let (before, began) = (cpu(driver.id()), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let used = cpu(driver.id()) - before;
    let share = used.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    let status = fs::read_to_string(format!("/proc/{}/status", driver.id())).unwrap_or_default();
    let line = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or_default()
            / 1024.0
    };
    println!(
        "a driver that waits: {share:.2} % of a core, {:.1} MB now, {:.1} MB at most",
        line("VmRSS"),
        line("VmHWM")
    );
    let _ = driver.kill();
    let _ = driver.wait();
}

fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after.split_ascii_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// From the wish to stop until the last of twenty workers and their children is gone.
fn kills() {
    let mut atoms = String::new();
    for n in 1..=20 {
        let run = "(setsid sleep 301 &); trap '' TERM; sleep 302";
        atoms +=
            &format!("  - {{id: A{n}, description: d, status: pending, depends_on: [], run: \"{run}\"}}\n");
    }
    let mut times = Vec::new();
    for _ in 0..9 {
        let work = Loop::new(&atoms, "done", 20, "none", "none", Git::No);
        let mut driver = work.start();
        let began = Instant::now();
        while sleepers(&work.root) < 40 {
            assert!(began.elapsed() < Duration::from_secs(30), "they do not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let asked = Instant::now();
        let stopped = work.command(&["stop", "--now"]).stdout(Stdio::null()).status().expect("it starts");
        assert!(stopped.success());
        while sleepers(&work.root) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(asked.elapsed());
        let _ = driver.wait();
    }
    times.sort();
    println!(
        "twenty workers with children in sessions of their own, `aot stop --now` to the last death: median {:.0} ms, most {:.0} ms",
        millis(times[times.len() / 2]),
        millis(times[times.len() - 1])
    );
}

fn sleepers(root: &Path) -> usize {
    let root = root.canonicalize().expect("it exists");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.starts_with(b"sleep\x0030")
            && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(&root))
    })
    .count()
}
