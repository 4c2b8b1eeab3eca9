//! The guard's own side: it runs in the process that stands between us and the program. Knows only processes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait};

use super::How;

/// The first word on the command line of a guard.
pub const WORD: &str = "__guard";

/// Set for everybody in a tree, so that they can be told even if their guard was killed.
pub const MARK: &str = "AOT_JOB";

/// Said to a guard: ask the program to end, then make it.
pub(super) const END: u8 = b'e';
/// Said to a guard: kill everything now.
pub(super) const KILL: u8 = b'k';

/// How long a round of killing waits for the killed to be gone, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// How long those whose guard is gone are waited for.
const ABANDONED: Duration = Duration::from_secs(2);

/// Becomes a guard if the words say so. The first thing a program that starts guards must do.
pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == WORD)
}

/// `PROGRAM __guard GRACE_MS INPUT_BYTES|none PROGRAM ARGUMENT…`, with the line to the supervisor as standard input.
pub fn run(words: &[OsString]) -> ExitCode {
    let number = |place: usize| words.get(place).and_then(|word| word.to_str()?.parse::<u64>().ok());
    let (Some(grace), Some(program)) = (number(2), words.get(4)) else { return ExitCode::from(2) };
    let Ok(line) = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return ExitCode::from(2);
    };
    let report = match guard(&line, Duration::from_millis(grace), number(3), program, &words[5..]) {
        Ok((how, left)) => write_report(&how, left),
        Err(error) => write_report(&How::NotStarted(error.to_string()), 0),
    };
    // If nobody is there to hear it, the work is done all the same.
    let _ = (&line).write_all(report.as_bytes());
    ExitCode::SUCCESS
}

fn guard(
    line: &UnixStream,
    grace: Duration,
    input: Option<u64>,
    program: &OsString,
    arguments: &[OsString],
) -> io::Result<(How, usize)> {
    // Without a terminal nothing can ask for a password on it, and Ctrl-C reaches our supervisor only.
    let _ = rustix::process::setsid();
    adopt()?;
    let mut bytes = vec![0; usize::try_from(input.unwrap_or(0)).map_err(io::Error::other)?];
    (&*line).read_exact(&mut bytes)?;
    let mut command = Command::new(program);
    // A group of its own, so that a program that signals its group does not hit the guard.
    command.args(arguments).process_group(0);
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn()?;
    let main = Pid::from_raw(child.id().cast_signed());
    if let Some(mut stdin) = child.stdin.take() {
        std::thread::spawn(move || {
            // A program that does not want its input is no failure.
            let _ = stdin.write_all(&bytes);
        });
    }
    let listening = line.try_clone()?;
    std::thread::spawn(move || obey(listening, grace, main));
    let status = wait_for(main);
    MAIN_ENDED.store(true, Ordering::Release);
    let left = clear();
    Ok((status, left))
}

static MAIN_ENDED: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

/// Elsewhere orphans go to the first process of the system; only those that stay in the program's group are found.
#[cfg(not(target_os = "linux"))]
fn adopt() -> io::Result<()> {
    Ok(())
}

/// Hears what the supervisor says; that it hangs up is its last word. Never returns: the process ends with the program.
fn obey(mut line: UnixStream, grace: Duration, main: Option<Pid>) {
    let mut word = [0];
    if matches!(line.read(&mut word), Ok(1)) && word[0] == END {
        signal_group(main, Signal::TERM);
        signal_all(Signal::TERM);
        // What is stopped cannot end.
        signal_all(Signal::CONT);
        // Whatever comes first, another word, the end of the line or the end of the grace: the rest is killed.
        let _ = line.set_read_timeout(Some(grace.max(Duration::from_millis(1))));
        let _ = line.read(&mut word);
    }
    while !MAIN_ENDED.load(Ordering::Acquire) {
        signal_group(main, Signal::KILL);
        signal_all(Signal::KILL);
        std::thread::sleep(LONGEST_PAUSE);
    }
}

fn wait_for(main: Option<Pid>) -> How {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == main => return ended(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return How::NotStarted(format!("it cannot be waited for: {error}")),
        }
    }
}

fn ended(status: WaitStatus) -> How {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => How::Exited(code),
        (None, Some(signal)) => How::Signalled(signal),
        (None, None) => How::Lost,
    }
}

/// Kills until no descendant is left. As their subreaper we are the parent of every orphan, so that having no child at
/// all means having no descendant.
fn clear() -> usize {
    let mut killed = std::collections::HashSet::new();
    let mut pause = FIRST_PAUSE;
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return killed.len(),
            }
        }
        killed.extend(signal_all(Signal::KILL));
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Signals every living descendant, parents before their children.
fn signal_all(signal: Signal) -> Vec<Pid> {
    let found = descendants();
    for pid in &found {
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(*pid, signal);
    }
    found
}

/// Where there is no `/proc` this is all that can be reached.
fn signal_group(main: Option<Pid>, signal: Signal) {
    if let Some(main) = main {
        // A group without anybody in it needs no signal.
        let _ = kill_process_group(main, signal);
    }
}

fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = Vec::new();
    let mut open = children.remove(&getpid().as_raw_nonzero().get()).unwrap_or_default();
    while let Some(pid) = open.pop() {
        open.extend(children.remove(&pid).unwrap_or_default());
        found.extend(Pid::from_raw(pid));
    }
    found
}

struct Process {
    pid: i32,
    parent: i32,
    session: i32,
}

impl Process {
    fn has_mark(&self, mark: &[u8]) -> bool {
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark)
    }
}

/// Everybody who lives; zombies do not.
fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| living(entry.file_name().to_str()?.parse().ok()?))
}

/// The name in the middle of the line may hold anything, parentheses too.
fn living(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let mut rest = std::str::from_utf8(&stat[after + 1..]).ok()?.split_ascii_whitespace();
    let state = rest.next()?;
    let parent = rest.next()?.parse().ok()?;
    let session = rest.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Process { pid, parent, session })
}

fn write_report(how: &How, left: usize) -> String {
    match how {
        How::Exited(code) => format!("exit {code} {left}\n"),
        How::Signalled(signal) => format!("signal {signal} {left}\n"),
        How::NotStarted(why) => format!("not-started {}\n", why.replace(['\n', '\r'], " ")),
        How::OutOfTime | How::Silent | How::Killed | How::Lost => "lost\n".to_owned(),
    }
}

/// Ends a guard that does not answer, and what it guarded as far as it can still be told: by the session, which had the
/// guard's number, and by the mark in the environment.
pub(super) fn abandon(guard: &mut Child, mark: &str) {
    let session = guard.id().cast_signed();
    // It may be gone already.
    let _ = guard.kill();
    let mark = format!("{MARK}={mark}").into_bytes();
    let (began, mut quiet) = (Instant::now(), 0);
    // Somebody may be born while we look, so that one look is not enough.
    while began.elapsed() < ABANDONED && quiet < 2 {
        let own = |process: &Process| process.session == session || process.has_mark(&mark);
        let left: Vec<Pid> =
            processes().filter(own).filter_map(|process| Pid::from_raw(process.pid)).collect();
        quiet = if left.is_empty() { quiet + 1 } else { 0 };
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(FIRST_PAUSE);
    }
}

pub(super) fn read_report(report: &str) -> (How, usize) {
    let (word, rest) = report.trim_end().split_once(' ').unwrap_or((report.trim_end(), ""));
    let mut numbers = rest.split(' ').map_while(|number| number.parse::<i32>().ok());
    let (code, left) = (numbers.next(), numbers.next().unwrap_or(0));
    let how = match (word, code) {
        ("exit", Some(code)) => How::Exited(code),
        ("signal", Some(signal)) => How::Signalled(signal),
        ("not-started", _) => How::NotStarted(rest.to_owned()),
        _ => How::Lost,
    };
    (how, usize::try_from(left).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for (how, left) in [
            (How::Exited(0), 0),
            (How::Exited(255), 3),
            (How::Signalled(9), 1),
            (How::NotStarted("no such file: x".into()), 0),
            (How::Lost, 0),
        ] {
            assert_eq!(read_report(&write_report(&how, left)), (how, left));
        }
        assert_eq!(read_report(""), (How::Lost, 0));
        assert_eq!(read_report("exit"), (How::Lost, 0));
    }
}
