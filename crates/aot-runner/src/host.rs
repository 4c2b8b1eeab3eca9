//! Asks programs of hosts, and our own, for something that only they can do. Knows no loop.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::process::{Call, CallError, CallLimits, Guard, Switch};

/// No answer of a verb is longer, in bytes.
pub const LONGEST_ANSWER: u64 = 64 << 20;

/// Of what a verb complains so many bytes are read.
const LONGEST_COMPLAINT: u64 = 64 << 10;

/// What a host's program registers lies on this machine; whatever takes this long hangs.
const HOST_LIMITS: CallLimits = CallLimits { wall: Duration::from_secs(60), output: 1 << 20 };

/// Runs it in the folder we are in, and answers with its last words if it fails.
pub fn ask(guard: &Guard, program: &Path, words: &[&str]) -> Result<(), String> {
    let folder = std::env::current_dir().map_err(|error| error.to_string())?;
    hear(guard, program, words, &folder, &[]).map(drop)
}

/// The same in a folder and with an input; what it prints is the answer.
pub fn hear(
    guard: &Guard,
    program: &Path,
    words: &[&str],
    folder: &Path,
    input: &[u8],
) -> Result<String, String> {
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let called = guard.call(&Call {
        program: program.as_os_str(),
        arguments: &arguments,
        folder,
        environment: std::env::vars_os().collect(),
        input,
        limits: HOST_LIMITS,
    });
    let said = called.map_err(|error| match error {
        CallError::NotStarted(error) => error.to_string(),
        error => error.to_string(),
    })?;
    if said.code == Some(0) {
        return Ok(String::from_utf8_lossy(&said.output).into_owned());
    }
    let text = [said.errors, said.output].concat();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(text.lines().last().unwrap_or("it failed and said nothing").to_owned())
}

/// A verb of our own program, as somebody types it.
#[derive(Clone, Debug)]
pub struct Verb {
    pub words: Vec<OsString>,
    pub variables: Vec<(OsString, OsString)>,
    pub input: Vec<u8>,
    /// It is killed after so long.
    pub limit: Duration,
}

/// What a verb came to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// `None` if it was ended by a signal.
    pub exit: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

/// Starts it and waits for its end, which comes at once when the switch is turned off or its time is over. What it started itself ends with
/// it: its guards see that it is gone. A git command comes to its own end, so that no lock of it stays behind.
///
/// The thread that calls this has to live until it returns: see [`end_with_parent`].
pub fn answer(program: &Path, verb: &Verb, switch: &Switch) -> io::Result<Answer> {
    let mut child = Command::new(program)
        .arg0("aot")
        .args(&verb.words)
        .envs(verb.variables.iter().map(|(name, value)| (name, value)))
        // A signal for us is not meant for it; it is ended by us.
        .process_group(0)
        .stdin(if verb.input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed()).expect("the system numbers processes from one");
    let kill = move || {
        // It has not been waited for, so that nobody else has its number.
        let _ = kill_process(pid, Signal::KILL);
    };
    let wire = switch.connect(kill);
    let limit = verb.limit;
    let (has_ended, ended) = channel::<()>();
    let timer = std::thread::spawn(move || {
        let is_over = ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
        if is_over {
            kill();
        }
        is_over
    });
    let feeding = feed(&mut child, verb.input.clone());
    let complaints = child.stderr.take().map(|errors| read(errors, LONGEST_COMPLAINT));
    let out = match child.stdout.take() {
        Some(mut output) => take(&mut output, LONGEST_ANSWER),
        None => Ok(Vec::new()),
    };
    let err = complaints.and_then(|reader| reader.join().ok()).unwrap_or_default();
    // It may have closed its output and go on.
    let waited = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    drop((wire, has_ended));
    let is_over = timer.join().unwrap_or(false);
    let status = child.wait()?;
    waited?;
    if let Some(feeding) = feeding {
        // It cannot hang: whoever would read is gone.
        let _ = feeding.join();
    }
    if is_over {
        let told = format!("it took longer than {} s, and was ended", limit.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, told));
    }
    Ok(Answer { exit: status.code(), out: out?, err: String::from_utf8_lossy(&err).into_owned() })
}

/// How often it is looked whether a verb at the terminal has ended.
const POLL: Duration = Duration::from_millis(40);

/// A verb of our own program with the terminal that we have: what it asks and says is between it and the person. It is asked to
/// end when nobody waits for it any more. The answer is its exit code.
pub fn at_terminal(
    program: &Path,
    words: &[OsString],
    is_awaited: &dyn Fn() -> bool,
) -> io::Result<Option<i32>> {
    let mut child = Command::new(program).arg0("aot").args(words).spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed()).expect("the system numbers processes from one");
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if !is_told && !is_awaited() {
            // One that has just ended is seen in the next turn.
            let _ = kill_process(pid, Signal::TERM);
            is_told = true;
        }
        std::thread::sleep(POLL);
    }
}

fn feed(child: &mut Child, input: Vec<u8>) -> Option<JoinHandle<()>> {
    let mut stdin = child.stdin.take()?;
    Some(std::thread::spawn(move || {
        // A verb that ends without reading is no failure.
        let _ = stdin.write_all(&input);
    }))
}

fn read(mut from: impl Read + Send + 'static, longest: u64) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || take(&mut from, longest).unwrap_or_default())
}

/// All of it is read, so that nobody waits for us; only so much is kept.
fn take(from: &mut impl Read, longest: u64) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    from.by_ref().take(longest).read_to_end(&mut kept)?;
    io::copy(from, &mut io::sink())?;
    Ok(kept)
}

/// This process is killed when the one that started it is gone, whatever that died of.
#[cfg(target_os = "linux")]
pub fn end_with_parent() {
    // Where the system does not know it, the verb comes to its own end.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

#[cfg(not(target_os = "linux"))]
pub fn end_with_parent() {}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(script: &str, limit: Duration) -> io::Result<Answer> {
        let words = ["-c", script].map(OsString::from).to_vec();
        let verb = Verb { words, variables: Vec::new(), input: Vec::new(), limit };
        answer(Path::new("/bin/sh"), &verb, &Switch::default())
    }

    /// Also one that has closed what it prints to.
    #[test]
    fn a_verb_that_hangs_is_ended_with_its_time() {
        for script in ["exec sleep 1000", "exec sleep 1000 > /dev/null 2>&1"] {
            let error = answered(script, Duration::from_millis(100)).expect_err("it never ends");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{script}: {error}");
        }
        let said = answered("echo yes; exit 3", Duration::from_secs(600)).expect("it ends");
        assert_eq!((said.exit, said.out.as_slice()), (Some(3), b"yes\n".as_slice()));
    }
}
