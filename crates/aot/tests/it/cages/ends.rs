//! A job in a cage ends as it would without one, and nobody of it lives on.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use aot_runner::process::cage::Kind;
use aot_runner::process::{Environment, Feed, How, Input, Stream, Streams, Tap};

use super::kit::{LONG, Yard, alive, guard, in_time, kinds, mark_of};

/// And without a cage: the ends must be the same.
fn all() -> impl Iterator<Item = Kind> {
    kinds().iter().copied().chain([Kind::None])
}

#[test]
fn ends_are_told_apart() {
    for kind in all() {
        let yard = Yard::of(kind);
        for (script, how) in [
            ("exit 0", How::Exited(0)),
            ("exit 7", How::Exited(7)),
            ("exit 126", How::Exited(126)),
            ("exit 139", How::Exited(139)),
            ("exit 255", How::Exited(255)),
            ("no-such-program-at-all", How::Exited(127)),
            ("touch x; ./x", How::Exited(126)),
            ("kill -SEGV $$", How::Signalled(11)),
            ("kill -TERM $$", How::Signalled(15)),
            ("kill -KILL $$", How::Signalled(9)),
        ] {
            assert_eq!(yard.sh(script).0, how, "{kind}: {script}");
        }
        let mut job = yard.job("");
        job.program = "/no/such/shell".into();
        let ended = yard.run(job);
        assert!(matches!(ended.how, How::NoProgram(_)), "{kind}: {:?}", ended.how);
    }
}

#[test]
fn everything_passes_the_bars() {
    let script =
        "wc -c; echo oops >&2; pwd; echo \"$ONE\"; umask; ls /proc/self/fd; env | sort | cut -d = -f 1";
    let said = |yard: &Yard| {
        let mut job = yard.job(script);
        job.input = Input::Bytes(vec![b'x'; 3 << 20]);
        job.streams = Streams::Apart;
        let Environment::OursAnd(mut variables) = job.environment else {
            unreachable!("a yard's jobs have ours")
        };
        variables.push(("ONE".into(), "a\nb \u{e9}".into()));
        variables.push(("PATH".into(), "/usr/bin:/bin".into()));
        job.environment = Environment::Only(variables);
        let ended = yard.run(job);
        assert_eq!(ended.errors.whole(), Some(b"oops\n".to_vec()), "{}", yard.kind);
        let said = String::from_utf8(ended.output.whole().expect("it is short")).expect("a text");
        said.replace(&*yard.path("in").to_string_lossy(), "FOLDER")
    };
    let free = said(&Yard::of(Kind::None));
    assert!(free.starts_with("3145728\nFOLDER\na\nb \u{e9}\n"), "{free}");
    for &kind in kinds() {
        assert_eq!(said(&Yard::of(kind)), free, "{kind}");
    }
}

#[test]
fn there_is_no_input_and_no_terminal() {
    for kind in all() {
        let script = "cat; read x || echo none; ( : < /dev/tty ) 2>/dev/null || echo no terminal";
        assert_eq!(Yard::of(kind).sh(script), (How::Exited(0), "none\nno terminal\n".into()), "{kind}");
    }
}

#[test]
fn nobody_is_left_behind() {
    let quiet = "exec >/dev/null 2>&1 </dev/null";
    for kind in all() {
        let yard = Yard::of(kind);
        for (script, left) in [
            ("sleep 1000 & true".to_owned(), 1),
            (format!("setsid sh -c '{quiet}; exec sleep 1000' & true"), 1),
            (format!("( ( {quiet}; trap '' TERM HUP INT; sleep 1000; sleep 1000 ) & ) ; true"), 1),
            ("i=0; while [ $i -lt 30 ]; do setsid sleep 1000 & i=$((i+1)); done".to_owned(), 30),
            ("true".to_owned(), 0),
        ] {
            let ended = yard.run(yard.job(&script));
            assert_eq!(ended.how, How::Exited(0), "{kind}: {script}");
            assert!(ended.left >= left, "{kind}: {script} left {}", ended.left);
        }
    }
}

#[test]
fn whoever_does_not_end_is_ended() {
    for kind in all() {
        let yard = Yard::of(kind);
        for script in [
            "sleep 1000",
            "trap '' TERM; while :; do sleep 1000; done",
            "setsid sh -c 'trap \"\" TERM INT HUP; sleep 1000' & trap '' TERM; wait; sleep 1000",
            "kill -STOP $$",
        ] {
            let mut job = yard.job(script);
            job.limits.wall = Duration::from_millis(200);
            assert_eq!(yard.run(job).how, How::OutOfTime, "{kind}: {script}");
        }
    }
}

/// It is asked first: what it does on the way out is done.
#[test]
fn a_job_is_asked_before_it_is_killed() {
    for kind in all() {
        let yard = Yard::of(kind);
        let mut job = yard.job("trap 'echo bye > last; exit 0' TERM; echo up; while :; do sleep 0.01; done");
        job.limits.wall = Duration::from_millis(300);
        job.limits.grace = Duration::from_secs(60);
        let ended = yard.run(job);
        assert_eq!(ended.how, How::OutOfTime, "{kind}");
        assert!(ended.took < Duration::from_secs(50), "{kind}: {:?}", ended.took);
        // A machine so busy that it was not up in time has shown nothing.
        if ended.output.whole() == Some(b"up\n".to_vec()) {
            assert!(yard.path("in/last").exists(), "{kind}");
        }
    }
}

/// Every word is answered before the next one is said, so that none of it can have waited for the end.
#[test]
fn a_job_is_talked_to_while_it_runs() {
    for kind in all() {
        let yard = Yard::of(kind);
        let mut feed = Feed::make(&yard.path("in/feed")).expect("the name is free");
        let mut job =
            yard.job("while read line; do echo \"heard $line\"; echo \"oops $line\" >&2; done; echo bye");
        job.input = feed.input();
        job.streams = Streams::Apart;
        let (sender, heard) = mpsc::channel();
        let tap: Tap = Arc::new(move |stream, bytes: &[u8]| {
            sender.send((stream, String::from_utf8_lossy(bytes).into_owned())).expect("the test listens");
        });
        let running = std::thread::spawn(move || guard().run_heard(&job, tap).expect("the guard starts"));
        for word in ["one", "two", "three"] {
            writeln!(feed, "{word}").expect("it listens");
            let mut said =
                [heard.recv_timeout(LONG), heard.recv_timeout(LONG)].map(|said| said.expect("a word"));
            said.sort_by_key(|(stream, _)| *stream == Stream::Errors);
            let expected =
                [(Stream::Output, format!("heard {word}\n")), (Stream::Errors, format!("oops {word}\n"))];
            assert_eq!(said, expected, "{kind}");
            feed.reached();
            assert!(!yard.path("in/feed").exists(), "{kind}: nobody else is to find it");
        }
        drop(feed);
        let ended = in_time("the end of its input", move || running.join().expect("it was started"));
        assert_eq!(ended.how, How::Exited(0), "{kind}");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(Stream::Output, "bye\n".to_owned())], "{kind}");
        assert!(ended.output.whole().expect("it is short").ends_with(b"heard three\nbye\n"), "{kind}");
    }
}

#[test]
fn input_comes_from_a_file_and_ends_where_nobody_writes() {
    for kind in all() {
        let yard = Yard::of(kind);
        let said = |path: &str| {
            let mut job = yard.job("cat");
            job.input = Input::File(yard.path(path));
            let ended = yard.run(job);
            (ended.how, String::from_utf8(ended.output.whole().expect("it is short")).expect("a text"))
        };
        assert_eq!(said("out/file"), (How::Exited(0), "as it was".into()), "{kind}");
        fifo(&yard);
        assert_eq!(said("in/line"), (How::Exited(0), String::new()), "{kind}");
        let (how, _) = said("in/nothing");
        let How::NotStarted(why) = how else { panic!("{kind}: {how:?}") };
        assert!(why.contains("in/nothing") && why.contains("No such file"), "{kind}: {why}");
    }
}

/// Whoever talks to a program that has ended is told so, and does not wait for it.
#[test]
fn a_feed_fails_when_nobody_listens_any_more() {
    let yard = Yard::of(Kind::None);
    let mut feed = Feed::make(&yard.path("in/feed")).expect("the name is free");
    let mut job = yard.job("read line; echo \"$line\"");
    job.input = feed.input();
    writeln!(feed, "up").expect("there is room");
    assert_eq!(yard.run(job).output.whole(), Some(b"up\n".to_vec()));
    feed.reached();
    let told = in_time("a write to nobody", move || feed.write_all(&[b'x'; 1 << 20]));
    assert_eq!(told.expect_err("nobody listens").kind(), ErrorKind::BrokenPipe);
}

fn fifo(yard: &Yard) -> std::path::PathBuf {
    let path = yard.path("in/line");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo is here").success());
    path
}

/// Somebody in a session of its own who holds the line.
const HOLDER: &str = "setsid sh -c 'exec >line; echo up; trap \"\" TERM HUP; sleep 1000; sleep 1000' & wait";

fn wait_until_up(path: std::path::PathBuf) -> BufReader<File> {
    in_time("the start", move || {
        let mut line = BufReader::new(File::open(path).expect("somebody writes"));
        let mut up = String::new();
        line.read_line(&mut up).expect("it is up");
        assert_eq!(up, "up\n");
        line
    })
}

#[test]
fn a_killer_kills_the_tree() {
    for kind in all() {
        let yard = Yard::of(kind);
        let path = fifo(&yard);
        let job = yard.job(HOLDER);
        let running = guard().start(&job).expect("the guard starts");
        let killer = running.killer().expect("a line of its own");
        let _line = wait_until_up(path);
        killer.kill();
        assert_eq!(in_time("a kill", move || running.wait()).how, How::Killed, "{kind}");
        assert_eq!(alive(&mark_of(&job)), Vec::<String>::new(), "{kind}");
    }
}

#[test]
fn what_is_dropped_is_killed() {
    for kind in all() {
        let yard = Yard::of(kind);
        let path = fifo(&yard);
        let job = yard.job(HOLDER);
        let running = guard().start(&job).expect("the guard starts");
        let _line = wait_until_up(path);
        in_time("a drop", move || drop(running));
        assert_eq!(alive(&mark_of(&job)), Vec::<String>::new(), "{kind}");
    }
}

/// The supervisor is a process of its own here: this test, started again for the other one.
#[test]
fn when_the_supervisor_is_killed_its_jobs_die_with_it() {
    for kind in all() {
        let yard = Yard::of(kind);
        let path = fifo(&yard);
        let mut supervisor = supervisor_of(&yard, HOLDER);
        let line = wait_until_up(path);
        supervisor.kill().expect("SIGKILL");
        supervisor.wait().expect("it is dead");
        wait_until_closed(line);
    }
}

/// Somebody who shows neither by the session nor by the group nor by a variable whose job it is.
const HIDDEN: &str = "env -i PATH=\"$PATH\" setsid sh -c 'exec >line 2>&1 </dev/null; trap \"\" TERM HUP; \
    ( setsid sh -c \"echo up; sleep 1000; sleep 1000\" & ); sleep 1000' & wait";

/// With nobody left to say so, whoever is left is ended all the same, wherever it hides.
#[test]
fn when_the_supervisor_and_the_guards_are_killed_together_their_jobs_die() {
    for kind in all() {
        for script in [HOLDER, HIDDEN] {
            let yard = Yard::of(kind);
            let path = fifo(&yard);
            let mut supervisor = supervisor_of(&yard, script);
            let line = wait_until_up(path);
            let own = supervisor.id().to_string();
            let reapers = children_of(&own, "__reaper");
            let mut doomed: Vec<String> =
                reapers.iter().flat_map(|reaper| children_of(reaper, "__guard")).collect();
            // The last to go: a guard whose supervisor is gone may have ended before it is killed.
            doomed.push(own);
            assert_eq!(doomed.len(), 2, "{kind}: a supervisor and its guard");
            kill_at_once(&doomed);
            supervisor.wait().expect("it is dead");
            wait_until_closed(line);
        }
    }
}

/// Another process, which runs this script in the yard.
fn supervisor_of(yard: &Yard, script: &str) -> std::process::Child {
    Command::new(std::env::current_exe().expect("it is this one"))
        .args(["cages::ends::supervisor", "--exact", "--ignored", "--nocapture"])
        .env("AOT_TEST_KIND", yard.kind.to_string())
        .env("AOT_TEST_YARD", yard.path(""))
        .env("AOT_TEST_SCRIPT", script)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts")
}

/// Until nobody has the line open for writing.
fn wait_until_closed(mut line: BufReader<File>) {
    in_time("the end of the daemon", move || {
        let mut rest = String::new();
        line.read_to_string(&mut rest).expect("the pipe ends");
        assert_eq!(rest, "");
    });
}

/// Not a test of its own: the process that is killed above.
#[test]
#[ignore = "it is started by another test"]
fn supervisor() {
    let kind = std::env::var("AOT_TEST_KIND").expect("it is told which");
    let place = std::path::PathBuf::from(std::env::var_os("AOT_TEST_YARD").expect("it is told where"));
    let yard = Yard::of(Kind::parse(&kind).expect("a kind"));
    let script = std::env::var("AOT_TEST_SCRIPT").expect("it is told what");
    let mut job = yard.job(&script);
    job.folder = place.join("in");
    job.cage.as_mut().expect("it has one").writable = vec![job.folder.clone()];
    let _ = guard().run(&job);
}

/// Those with this word on their command line whose parent is this process.
fn children_of(parent: &str, word: &str) -> Vec<String> {
    let found = Command::new("pgrep").args(["-P", parent, "-f", word]).output().expect("pgrep is here");
    String::from_utf8(found.stdout).expect("numbers").lines().map(str::to_owned).collect()
}

/// The reapers of this process; other tests have theirs.
fn reapers() -> Vec<String> {
    children_of(&std::process::id().to_string(), "__reaper")
}

/// The outermost guard of a job: a guard serves many, and only what it started has the mark.
fn guard_of(mark: &str) -> String {
    let has_mark = |pid: &String| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let guards = reapers().into_iter().flat_map(|reaper| children_of(&reaper, "__guard"));
    let guards: Vec<String> = guards.filter(|guard| children_of(guard, "").iter().any(has_mark)).collect();
    assert_eq!(guards.len(), 1, "{guards:?}");
    guards.into_iter().next().expect("there is one")
}

fn kill_at_once(pids: &[String]) {
    assert!(Command::new("kill").arg("-9").args(pids).status().expect("kill is here").success());
}

/// Even the guard's death leaves nobody, although then nobody knows how it ended.
#[test]
fn when_the_guard_is_killed_the_cage_falls() {
    for kind in all() {
        let yard = Yard::of(kind);
        let path = fifo(&yard);
        let job = yard.job(HOLDER);
        let running = guard().start(&job).expect("the guard starts");
        let _line = wait_until_up(path);
        let mark = mark_of(&job);
        kill_at_once(&[guard_of(&mark)]);
        assert_eq!(in_time("the end", move || running.wait()).how, How::Lost, "{kind}");
        assert_eq!(alive(&mark), Vec::<String>::new(), "{kind}");
    }
}
