//! A check runs in a tree of its own, and nothing of it lives on.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aot_runner::process::{Ended, Environment, Guard, How, Input, Job, Limits, Streams};

use super::kit::{LONG, Project, alive, in_time, make_fifo};

const MARK: &str = "AOT_TEST_MARK";

fn guard() -> Guard {
    Guard::new(PathBuf::from(env!("CARGO_BIN_EXE_aot")))
}

/// A mark that no other test has.
fn mark() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn job(script: &str, mark: &str, wall: Duration) -> Job {
    Job {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        folder: std::env::temp_dir(),
        environment: Environment::OursAnd(vec![(MARK.into(), mark.into())]),
        input: Input::None,
        streams: Streams::Together,
        limits: Limits { wall, idle: None, grace: Duration::from_millis(100), head: 1_000, tail: 1_000 },
        cage: None,
    }
}

/// Runs a script and sees that nobody of it is left the moment it has ended.
fn run(script: &str, wall: Duration) -> Ended {
    let mark = mark();
    let job = job(script, &mark, wall);
    let ended = in_time(script, move || guard().run(&job).expect("the guard starts"));
    assert_eq!(alive(&format!("{MARK}={mark}")), Vec::<String>::new(), "left by {script}");
    ended
}

#[test]
fn nobody_is_left_behind() {
    let quiet = "exec >/dev/null 2>&1 </dev/null";
    for (script, left) in [
        // A process in the background, a daemon in a session of its own, one that was forked twice.
        ("sleep 1000 & true".to_owned(), 1),
        (format!("setsid sh -c '{quiet}; exec sleep 1000' & true"), 1),
        (format!("( ( {quiet}; trap '' TERM HUP INT; sleep 1000; sleep 1000 ) & ) ; true"), 1),
        (
            format!(
                "setsid setsid sh -c '{quiet}; trap \"\" TERM; (setsid sleep 1000 &) ; sleep 1000' & true"
            ),
            1,
        ),
        ("exec >&- 2>&-; sleep 1000 & exit 0".to_owned(), 1),
        ("i=0; while [ $i -lt 50 ]; do setsid sleep 1000 & i=$((i+1)); done".to_owned(), 50),
        ("true".to_owned(), 0),
    ] {
        let ended = run(&script, LONG);
        assert_eq!(ended.how, How::Exited(0), "{script}");
        assert!(ended.left >= left, "{script} left {}", ended.left);
    }
}

#[test]
fn whoever_does_not_end_is_ended() {
    let short = Duration::from_millis(200);
    for script in [
        "sleep 1000",
        "trap '' TERM; while :; do sleep 1000; done",
        "setsid sh -c 'trap \"\" TERM INT HUP; sleep 1000' & trap '' TERM; wait; sleep 1000",
        "kill -STOP $$",
        "trap 'exit 0' TERM; sleep 1000 & wait",
    ] {
        assert_eq!(run(script, short).how, How::OutOfTime, "{script}");
    }
}

#[test]
fn ends_are_told_apart() {
    for (script, how) in [
        ("exit 0", How::Exited(0)),
        ("exit 7", How::Exited(7)),
        ("kill -SEGV $$", How::Signalled(11)),
        ("no-such-program-at-all", How::Exited(127)),
        // It kills its guard: nobody knows how it ended, but it did.
        ("kill -9 $PPID; sleep 1000", How::Lost),
        ("setsid sh -c 'setsid sleep 1000 & sleep 1000' & kill -9 $PPID; sleep 1000", How::Lost),
    ] {
        assert_eq!(run(script, LONG).how, how, "{script}");
    }
    let mut job = job("", &mark(), LONG);
    job.program = "/no/such/shell".into();
    let ended = guard().run(&job).expect("the guard starts");
    assert!(matches!(ended.how, How::NoProgram(_)), "{:?}", ended.how);
}

#[test]
fn there_is_no_input_and_no_terminal() {
    let ended = run("cat; read x || echo none; ( : < /dev/tty ) 2>/dev/null || echo no terminal", LONG);
    assert_eq!(ended.output.whole(), Some(b"none\nno terminal\n".to_vec()));
}

#[test]
fn input_comes_whole_and_streams_can_be_kept_apart() {
    let mut job = job("wc -c; echo oops >&2", &mark(), LONG);
    job.input = Input::Bytes(vec![b'x'; 3 << 20]);
    job.streams = Streams::Apart;
    let ended = in_time("input", move || guard().run(&job).expect("the guard starts"));
    assert_eq!(
        ended.output.whole().map(|out| String::from_utf8_lossy(&out).trim().to_owned()).as_deref(),
        Some("3145728")
    );
    assert_eq!(ended.errors.whole(), Some(b"oops\n".to_vec()));
}

#[test]
fn an_environment_can_be_wholly_given() {
    let mut job = job("/usr/bin/env", &mark(), LONG);
    job.environment = Environment::Only(vec![("ONE".into(), "1".into())]);
    let ended = in_time("env", move || guard().run(&job).expect("the guard starts"));
    let said = String::from_utf8(ended.output.whole().expect("it is short")).expect("a text");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(
        names.iter().all(|name| ["ONE", "AOT_JOB", "PWD", "OLDPWD", "_", "SHLVL"].contains(name)),
        "{names:?}"
    );
    assert!(names.contains(&"ONE"));
}

#[test]
fn what_is_dropped_is_killed() {
    let mark = mark();
    let running =
        guard().start(&job("setsid sleep 1000 & sleep 1000", &mark, LONG)).expect("the guard starts");
    let killer = running.killer().expect("a line of its own");
    in_time("a drop", move || drop(running));
    assert_eq!(alive(&format!("{MARK}={mark}")), Vec::<String>::new());
    drop(killer);
}

/// A check may build and replace the very program that runs it.
#[test]
fn the_program_may_be_replaced_while_it_runs() {
    let project = Project::with("");
    let copy = project.path("aot-copy");
    std::fs::copy(env!("CARGO_BIN_EXE_aot"), &copy).expect("a copy");
    project.state(
        r#"    checklist:
      - {item: replaces, check: {type: command, value: "rm aot-copy"}}
      - {item: goes on, check: {type: command, value: "true"}}"#,
        "[]",
        "",
    );
    let mut command = std::process::Command::new(&copy);
    command.args(["verify", "--jobs", "1"]).current_dir(project.root()).env("SHELL", "/bin/sh");
    command.env("AOT_TRUST", "/").env_remove("CLAUDE_PROJECT_DIR").env_remove("AOT_CHECKING");
    let said = command.output().expect("the copy starts");
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stdout));
}

#[test]
fn a_killer_kills_the_tree() {
    let mark = mark();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fifo = folder.path().join("line");
    make_fifo(&fifo);
    let script = format!(
        "setsid sh -c 'exec >{}; echo up; trap \"\" TERM; sleep 1000; sleep 1000' & wait",
        fifo.display()
    );
    let running = guard().start(&job(&script, &mark, LONG)).expect("the guard starts");
    let killer = running.killer().expect("a line of its own");
    let mut line = BufReader::new(File::open(&fifo).expect("somebody writes"));
    line.read_line(&mut String::new()).expect("it is up");
    killer.kill();
    let ended = in_time("a kill", move || running.wait());
    assert_eq!(ended.how, How::Killed);
    assert_eq!(alive(&format!("{MARK}={mark}")), Vec::<String>::new());
}

#[test]
fn silence_has_a_limit_of_its_own() {
    for script in ["echo one; sleep 1000", "trap 'exit 0' TERM; echo one; sleep 1000 & wait"] {
        let mut silent = job(script, &mark(), LONG);
        silent.limits.idle = Some(Duration::from_millis(300));
        let ended = in_time("silence", move || guard().run(&silent).expect("the guard starts"));
        assert_eq!(ended.how, How::Silent, "{script}");
        assert_eq!(ended.output.whole(), Some(b"one\n".to_vec()));
    }
}

/// The daemon holds the writing end of a pipe: that the pipe ends shows that the daemon has.
#[test]
fn when_the_program_is_killed_its_checks_die_with_it() {
    for script in [
        "exec >line; echo up; sleep 1000; sleep 1000",
        "setsid sh -c 'exec >line; echo up; trap \"\" TERM HUP; sleep 1000; sleep 1000' & wait",
        "( ( exec >line 2>/dev/null; echo up; sleep 1000; sleep 1000 ) & ) ; sleep 1000",
    ] {
        let project = Project::with(&format!("    {{type: command, value: {script:?}}}"));
        make_fifo(&project.path("line"));
        let mut aot = project.start(&["verify"]);
        let fifo = project.path("line");
        let mut line = in_time("the start", move || {
            let mut line = BufReader::new(File::open(fifo).expect("somebody writes"));
            let mut up = String::new();
            line.read_line(&mut up).expect("it is up");
            assert_eq!(up, "up\n");
            line
        });
        aot.kill().expect("SIGKILL");
        aot.wait().expect("it is dead");
        in_time("the end of the daemon", move || {
            let mut rest = String::new();
            line.read_to_string(&mut rest).expect("the pipe ends");
            assert_eq!(rest, "");
        });
    }
}

#[test]
fn a_gigabyte_of_output_fills_neither_memory_nor_disk() {
    let project = Project::with(concat!(
        "    {type: command, value: \"",
        r"head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo the end; ",
        r"aot=$(cut -d ' ' -f 4 /proc/$PPID/stat); grep -h VmHWM /proc/$aot/status /proc/$PPID/status > memory",
        "\"}"
    ));
    // It measures the processes around it, which it does not see from within a cage.
    project.write("aot.toml", "[checks]\ncage = \"none\"\n");
    let (exit, object) = project.json(&["verify"]);
    assert_eq!((exit, &object["verdict"]), (0, &"passed".into()), "{object}");
    let output = &object["checks"][0]["evidence"]["output"];
    assert_eq!(output["bytes"], 1_073_741_824_u64 + 9);
    assert!(output["tail"].as_str().expect("a text").ends_with("x\nthe end\n"));
    let kept = output["head"].as_str().map_or(0, str::len) + output["tail"].as_str().map_or(0, str::len);
    assert_eq!(output["omitted"], output["bytes"].as_u64().expect("a number") - kept as u64);
    for line in project.read("memory").lines() {
        let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
        assert!(kilobytes < 50_000, "{line}");
    }
    assert_eq!(project.read("memory").lines().count(), 2);
    let written: u64 = ["evidence.jsonl", "cache"]
        .iter()
        .filter_map(|name| project.path(".claude/aot").join(name).metadata().ok())
        .map(|meta| meta.len())
        .sum();
    assert!(written < 200_000, "{written} bytes were written");
}

/// Each waits for the other: only if both run at a time do they end.
#[test]
fn checks_run_at_a_time() {
    let project = Project::with(
        r#"    checklist:
      - {item: a, check: {type: command, value: "echo a > one; read x < two"}}
      - {item: b, check: {type: command, value: "read x < one; echo b > two"}}"#,
    );
    make_fifo(&project.path("one"));
    make_fifo(&project.path("two"));
    let began = Instant::now();
    let (exit, object) = in_time("two checks", move || project.json(&["verify"]));
    assert_eq!(exit, 0, "{object} after {:?}", began.elapsed());
}
