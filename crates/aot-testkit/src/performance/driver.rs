//! What a driver costs around its agents: until the first of them begins, after the last check, while they work, when all of
//! them are to end. The agents are shells that do nothing, or print without end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::measure::wall;
use super::{Bench, Goal, Row, Samples, Unit, in_turns};
use crate::project::{Loop, ProcessKind, Project, STATE};

/// What is waited for comes within this time, or never.
const LONG: Duration = Duration::from_secs(120);

const NO_CAGE: &str = "[cage]\nkind = \"none\"\n";

pub fn measure(bench: &mut Bench) {
    begin_and_end(bench);
    kill(bench);
    memory(bench);
}

fn begin_and_end(bench: &mut Bench) {
    let (files, rounds) = bench.of((1_000, 3), (20_000, 9));
    let place = Repository::new(&bench.aot, files);
    // The first run makes the trees.
    place.run();
    let (mut began, mut ended) = (Samples::default(), Samples::default());
    let mut ours = || {
        let run = place.run();
        began.0.push(run.until_first);
        ended.0.push(run.after_last);
        run.until_first
    };
    let mut floor = || place.add_worktree();
    let [_, floor] = in_turns(rounds, [&mut ours, &mut floor]);
    // The round that warms up is not among the floor's.
    let (began, ended) = (Samples(began.0.split_off(1)), Samples(ended.0.split_off(1)));
    let what = format!("start of aot run to the first agent, {files} files, trees of a run before");
    bench.row(Row::ratio(what, &began, "git worktree add", &floor, Goal::AtMost(0.1)));
    let ended = Samples(ended.0.iter().map(|seconds| seconds * 1e3).collect());
    let what = format!("end of the last check to exit, {files} files, 4 trees");
    bench.row(Row::figure(what, &ended, Unit::Millis, Goal::AtMost(50.0)));
}

/// A repository with many files, and a loop of four atoms in four trees.
pub(super) struct Repository {
    project: Project,
}

/// Seconds of one run.
pub(super) struct Times {
    /// From the start of the program to the first command of an atom.
    pub until_first: f64,
    /// From the end of the last check to the end of the program.
    pub after_last: f64,
}

impl Repository {
    pub fn new(aot: &Path, files: usize) -> Repository {
        let project = Project::new(aot, NO_CAGE);
        for number in 0..files {
            let text = "a line of a file\n".repeat(20);
            project.write(
                &format!("d{}/e{}/f{number}.txt", number / 1000, number / 100 % 10),
                &format!("{number}\n{text}"),
            );
        }
        project.init();
        Repository { project }
    }

    /// Runs a new loop to its end, with the trees that the last one left.
    pub fn run(&self) -> Times {
        let home = self.project.home();
        let (first, last) = (home.join("first"), home.join("last"));
        let _ = (fs::remove_file(&first), fs::remove_file(&last));
        let token = now().to_string();
        let atoms: String = (0..4)
            .map(|number| {
                let run =
                    format!("date +%s.%N >> {}; sleep 0.2; echo {token} > made{number}", first.display());
                atom(&format!("A{number}"), &run)
            })
            .collect();
        let check = format!("grep -q {token} made3 && date +%s.%N > {}", last.display());
        let base_case = format!("      - {{item: made, check: {{type: command, value: \"{check}\"}}}}\n");
        let state = Loop {
            base_case: &base_case,
            constraints: "max_parallel_agents: 4",
            objective: "",
            atoms: &atoms,
            or_groups: "",
        };
        let _ = fs::remove_dir_all(self.project.path(".claude"));
        self.project.write(STATE, &state.text());
        let began = now();
        let output = self.project.aot(&["run", "--json"]);
        let ended = now();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let least = |path: &Path| {
            let text = fs::read_to_string(path).expect("the commands wrote it");
            text.lines().filter_map(|line| line.parse::<f64>().ok()).fold(f64::INFINITY, f64::min)
        };
        Times { until_first: least(&first) - began, after_last: ended - least(&last) }
    }

    fn add_worktree(&self) -> f64 {
        let top = self.project.home().join("floor");
        let top = top.to_str().expect("it is text");
        let took = wall(|| {
            self.project.git(&["worktree", "add", "-q", "--detach", top]).expect("a worktree");
        });
        self.project.git(&["worktree", "remove", "--force", top]).expect("it is removed");
        took
    }
}

/// Seconds since the epoch, as `date` tells them.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs_f64()
}

pub(super) fn atom(id: &str, run: &str) -> String {
    format!("  - {{id: {id}, description: d, status: pending, depends_on: [], run: \"{run}\"}}\n")
}

/// A loop without isolation that is done when `done` is there.
pub(super) fn plain_loop(atoms: &str, constraints: &str) -> String {
    Loop {
        base_case: "      - {item: done, check: {type: file, value: done}}\n",
        constraints,
        objective: "  isolation: {mode: none}\n",
        atoms,
        or_groups: "",
    }
    .text()
}

/// Killed, with all that it has started, if it is still there when this is dropped.
pub(super) struct Driver<'p> {
    pub child: Child,
    project: &'p Project,
}

impl Driver<'_> {
    pub fn start<'p>(project: &'p Project, words: &[&str]) -> Driver<'p> {
        let mut command = project.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Driver { child: command.spawn().expect("it starts"), project }
    }

    pub fn stop(&mut self) {
        assert!(self.project.aot(&["stop", "--now"]).status.success());
        self.child.wait().expect("it ends");
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let left = self.project.survivors();
        for (pid, _) in left {
            // It may be gone by now.
            let _ = Project::kill(pid);
        }
    }
}

/// How long this goes on until it is true.
pub(super) fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Three processes of each worker, one of them in a session of its own.
fn kill(bench: &mut Bench) {
    let (workers, rounds) = bench.of((20, 3), (100, 7));
    let all = 3 * workers;
    let mut left = 0;
    let aot = bench.aot.clone();
    let mut ours = || {
        let project = Project::new(&aot, NO_CAGE);
        let atoms: String = (0..workers)
            .map(|number| atom(&format!("A{number}"), "setsid sleep 3000 & sleep 3000 & sleep 3000; true"))
            .collect();
        project.write(STATE, &plain_loop(&atoms, &format!("max_parallel_agents: {workers}")));
        let mut driver = Driver::start(&project, &["run", "--json"]);
        let sleepers = || -> Vec<Pid> {
            let processes = project.processes().into_iter().filter(|(_, kind)| *kind == ProcessKind::Worker);
            processes.map(|(pid, _)| pid).filter(|pid| is_sleep(*pid)).collect()
        };
        wait_for("the workers do not start", || sleepers().len() >= all);
        let doomed = sleepers();
        let mut stop = project.command(&["stop", "--now"]);
        let took = until_dead(&doomed, || drop(stop.stdout(Stdio::null()).spawn().expect("it starts")));
        driver.child.wait().expect("it ends");
        left += sleepers().len();
        took
    };
    let mut floor = || {
        let mut children: Vec<Child> = (0..all)
            .map(|number| match number % 3 {
                0 => Command::new("setsid").args(["sleep", "3000"]).spawn().expect("it starts"),
                _ => Command::new("sleep").arg("3000").spawn().expect("it starts"),
            })
            .collect();
        let doomed: Vec<Pid> = children.iter().map(pid_of).collect();
        wait_for("the sleepers do not start", || doomed.iter().all(|pid| is_sleep(*pid)));
        let took = until_dead(&doomed, || {
            doomed.iter().for_each(|pid| kill_process(*pid, Signal::KILL).expect("it is there"));
        });
        children.iter_mut().for_each(|child| drop(child.wait()));
        took
    };
    let [ours, floor] = in_turns(rounds, [&mut ours, &mut floor]);
    let what = format!("aot stop --now to the last death, {workers} workers, {all} processes");
    bench.row(Row::ratio(what, &ours, format!("kill -9 of {all}"), &floor, Goal::AtMost(2.0)));
    assert_eq!(left, 0, "somebody was left");
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).expect("a child has a number")
}

fn is_sleep(pid: Pid) -> bool {
    fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|words| words.starts_with(b"sleep\0"))
}

/// Seconds from the kill to the death of the last of them.
fn until_dead(doomed: &[Pid], kill: impl FnOnce()) -> f64 {
    let files: Vec<_> =
        doomed.iter().map(|pid| pidfd_open(*pid, PidfdFlags::empty()).expect("it is there")).collect();
    wall(|| {
        kill();
        for file in &files {
            let mut waited = [PollFd::new(file, PollFlags::IN)];
            let long = rustix::event::Timespec { tv_sec: LONG.as_secs().cast_signed(), tv_nsec: 0 };
            assert_eq!(poll(&mut waited, Some(&long)), Ok(1), "somebody does not die");
        }
    })
}

/// An agent that prints without end, in one of several ways, and what is different in its profile.
const FLOODS: [(&str, &str, &str); 5] = [
    ("events", EVENTS, r#"yes '{"type":"say","text":"what it does now, in so many words"}'"#),
    ("a line without end", EVENTS, "cat /dev/zero"),
    (
        "long lines",
        EVENTS,
        r#"while :; do printf '{"type":"say","text":"'; head -c 8000000 /dev/zero | tr '\0' x; echo '"}'; done"#,
    ),
    (
        "lines of many values",
        EVENTS,
        r#"while :; do printf '{"type":"say","x":['; yes '{"":0},' | head -c 7000000 | tr -d '\n'; echo '0]}'; done"#,
    ),
    (
        "long messages of the client protocol",
        "kind = \"acp\"\n",
        r#"while :; do printf '{"jsonrpc":"2.0","method":"session/update","params":{"x":"'; head -c 4000000 /dev/zero | tr '\0' x; echo '"}}'; done"#,
    ),
];

const EVENTS: &str = "input = \"prompt\"\nevents = [{ when = { type = \"say\" }, said = \"text\", doing = [\"text\"], \
                      answer = \"answer\" }]\n";

fn memory(bench: &mut Bench) {
    let (aot, rounds) = (bench.aot.clone(), bench.of(1, 3));
    let quiet: Vec<f64> =
        (0..rounds).map(|_| most_memory(&aot, (EVENTS, "exec sleep 3000"), Duration::from_secs(1))).collect();
    let what = "memory of a driver and its reaper, 8 agents at work";
    bench.row(Row::figure(what, &Samples(quiet), Unit::Megabytes, Goal::AtMost(25.0)));
    let seconds = Duration::from_secs(bench.of(2, 5));
    let mut worst = Samples(vec![0.0]);
    for (name, profile, script) in FLOODS {
        let most = Samples(vec![most_memory(&aot, (profile, script), seconds)]);
        println!("  {name}: {:.1} MB", most.median());
        worst = if most.median() > worst.median() { most } else { worst };
    }
    let what = "the same, and one of them prints without end";
    bench.row(Row::figure(what, &worst, Unit::Megabytes, Goal::AtMost(30.0)));
}

/// The most that the driver had in memory, and what its reaper has of its own: the program's pages are the same.
fn most_memory(aot: &Path, (profile, script_of_loud): (&str, &str), time: Duration) -> f64 {
    let project = Project::new(aot, NO_CAGE);
    let script = |name: &str, text: &str| -> PathBuf {
        let path = format!("../{name}");
        project.write(&path, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(project.path(&path), fs::Permissions::from_mode(0o755)).expect("it is ours");
        project.home().join(name)
    };
    let agents = [
        ("quiet", EVENTS, script("quiet", "exec sleep 3000")),
        ("loud", profile, script("loud", script_of_loud)),
    ];
    let mut settings = NO_CAGE.to_owned();
    for (name, profile, program) in &agents {
        settings += &format!("[agent.{name}]\nprogram = \"{}\"\n{profile}", program.display());
    }
    project.write("../.config/aot/aot.toml", &settings);
    let atom = |number: usize| {
        let agent = if number == 0 { "loud" } else { "quiet" };
        format!("  - {{id: A{number}, description: d, status: pending, depends_on: [], agent: {agent}}}\n")
    };
    let atoms: String = (0..8).map(atom).collect();
    project.write(STATE, &plain_loop(&atoms, "max_parallel_agents: 8"));
    let mut driver = Driver::start(&project, &["run", "--json", "--agent", "quiet"]);
    let guards = || project.processes().iter().filter(|(_, kind)| *kind == ProcessKind::Guard).count();
    wait_for("the agents do not start", || guards() >= 8);
    std::thread::sleep(time);
    let (_, most) = super::measure::memory(driver.child.id());
    let reapers = project.processes().into_iter().filter(|(_, kind)| *kind == ProcessKind::Reaper);
    let own: f64 = reapers.map(|(pid, _)| own_memory(pid)).sum();
    driver.stop();
    most + own
}

/// Megabytes that belong to this process alone.
pub(super) fn own_memory(pid: Pid) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(f64::NAN)
        / 1024.0
}
