//! The process that tells: this same binary with a word of its own. It lives in a session of its own, so that neither the
//! loop's end nor a terminal that closes ends it, and it ends all that it starts at its limit. Knows no loop.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CURL, DESKTOP, Variables, Webhook, environment};
use crate::plain_text;
use crate::process::{Call, CallError, CallLimits, Called, Guard, MARK};
use crate::shell;

/// The first word on its command line.
const WORD: &str = "__notify";

/// What it is called in lists of processes.
const NAME: &str = "aot-notify";

/// How long a command may take, and a webhook.
const LIMIT: Duration = Duration::from_secs(10);

/// So much later a `curl` that does not keep its own limit is ended.
const LATER: Duration = Duration::from_secs(1);

/// Whatever is longer is none of our orders.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes of output after which a command is ended.
const MOST_OUTPUT: usize = 1 << 20;

/// What one messenger does, all of it side by side.
#[derive(Debug, Serialize, Deserialize)]
pub struct Errands {
    /// This program.
    pub program: PathBuf,
    /// Where commands run.
    pub folder: PathBuf,
    pub environment: Variables,
    /// A JSON object in one line.
    pub message: String,
    pub errands: Vec<Errand>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum Errand {
    Command { key: String, command: String },
    Webhook { webhook: Webhook },
    Desktop { title: String, text: String },
}

/// Something could not be told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Problem {
    pub way: String,
    pub said: String,
}

/// Starts a messenger, and goes on. What it complains of is heard on a thread; `ends` is called when it is gone.
pub fn start(
    errands: &Errands,
    hear: impl Fn(Problem) + Send + 'static,
    ends: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let mut child = Command::new(&errands.program)
        .arg0(NAME)
        .arg(WORD)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // It has its order when this returns, whatever becomes of us then. The pipe holds all of it, or the messenger is reading.
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&serde_json::to_vec(errands)?)?;
    }
    let thread = std::thread::Builder::new().name("notify".into());
    thread.spawn(move || {
        let said = child.stdout.take().map(BufReader::new);
        for line in said.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            serde_json::from_str(&line).into_iter().for_each(&hear);
        }
        let _ = child.wait();
        ends();
    })?;
    Ok(())
}

/// Becomes a messenger if the words say so.
pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == WORD)
}

pub fn run() -> ExitCode {
    // Neither Ctrl-C nor the end of a terminal is meant for it.
    let _ = rustix::process::setsid();
    let mut order = Vec::new();
    let read = io::stdin().lock().take(MOST_BYTES).read_to_end(&mut order);
    let Some(errands) = read.ok().and_then(|_| serde_json::from_slice::<Errands>(&order).ok()) else {
        return ExitCode::from(2);
    };
    let guard = Guard::new(errands.program.clone());
    std::thread::scope(|scope| {
        for errand in &errands.errands {
            let (guard, errands) = (&guard, &errands);
            scope.spawn(move || {
                if let Err(problem) = errand.run(guard, errands) {
                    report(&problem);
                }
            });
        }
    });
    ExitCode::SUCCESS
}

/// If the run that asked for it has ended meanwhile, nobody hears it.
fn report(problem: &Problem) {
    if let Ok(mut line) = serde_json::to_vec(problem) {
        line.push(b'\n');
        let _ = io::stdout().lock().write_all(&line);
    }
}

impl Errand {
    fn run(&self, guard: &Guard, all: &Errands) -> Result<(), Problem> {
        match self {
            Errand::Command { key, command } => {
                let shell = shell::program(None, command);
                let called = call(guard, all, &shell, &["-c", command], all.message.as_bytes());
                let failed =
                    |why: String| Problem { way: key.clone(), said: format!("`notify.{key}` failed: {why}") };
                called.map_err(|error| failed(explained(&error))).and_then(|called| match called.code {
                    Some(0) => Ok(()),
                    code => Err(failed(ended(code, &called))),
                })
            }
            Errand::Webhook { webhook } => {
                let failed = |why: String| Problem {
                    way: "webhook".into(),
                    said: format!("the webhook at {} was not reached: {why}", webhook.host()),
                };
                let seconds = LIMIT.as_secs().to_string();
                // Without the user's own settings of curl, which may follow redirects.
                let words = [
                    "--disable",
                    "--silent",
                    "--show-error",
                    "--globoff",
                    "--proto",
                    "=http,https",
                    "--max-time",
                    &seconds,
                    "--header",
                    "Content-Type: application/json",
                    "--user-agent",
                    "aot",
                    "--output",
                    "/dev/null",
                    "--write-out",
                    "%{http_code}",
                    "--config",
                    "-",
                ];
                let input = webhook.config(&all.message);
                let called = call(guard, all, OsStr::new(CURL), &words, input.as_bytes());
                let called = called.map_err(|error| match &error {
                    CallError::NotStarted(why) if why.kind() == io::ErrorKind::NotFound => {
                        failed("curl is not installed".into())
                    }
                    error => failed(explained(error)),
                })?;
                let answer = String::from_utf8_lossy(&called.output).trim().to_owned();
                match called.code {
                    Some(0) if answer.starts_with('2') => Ok(()),
                    Some(0) => Err(failed(format!("it answered {answer}"))),
                    code => Err(failed(ended(code, &Called { output: Vec::new(), ..called }))),
                }
            }
            Errand::Desktop { title, text } => {
                let words = desktop(title, text);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                match call(guard, all, OsStr::new(DESKTOP), &words, &[]) {
                    // Not every machine has a desktop.
                    Err(CallError::NotStarted(_)) => Ok(()),
                    Ok(called) if called.code == Some(0) => Ok(()),
                    Ok(called) => Err(ended(called.code, &called)),
                    Err(error) => Err(explained(&error)),
                }
                .map_err(|why| Problem { way: "desktop".into(), said: format!("{DESKTOP} failed: {why}") })
            }
        }
    }
}

/// What it is given to show. A text is not read as markup, nor as a flag.
fn desktop(title: &str, text: &str) -> Vec<String> {
    if cfg!(target_os = "macos") {
        let script =
            ["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"];
        let script = script.into_iter().flat_map(|line| ["-e".to_owned(), line.to_owned()]);
        return script.chain([title.to_owned(), text.to_owned()]).collect();
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    vec!["--app-name=aot".into(), "--".into(), title.to_owned(), text]
}

fn call(
    guard: &Guard,
    all: &Errands,
    program: &OsStr,
    words: &[&str],
    input: &[u8],
) -> Result<Called, CallError> {
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut variables = environment(&all.environment);
    // It may look at the loop, and not write its state.
    variables.push((MARK.into(), "notify".into()));
    guard.call(&Call {
        program,
        arguments: &arguments,
        folder: &all.folder,
        environment: variables,
        input,
        limits: CallLimits { wall: if program == CURL { LIMIT + LATER } else { LIMIT }, output: MOST_OUTPUT },
    })
}

fn explained(error: &CallError) -> String {
    match error {
        CallError::NotStarted(why) => why.to_string(),
        error => error.to_string(),
    }
}

/// `exit 3: its last words`.
fn ended(code: Option<i32>, called: &Called) -> String {
    let how = code.map_or_else(|| "it was killed".to_owned(), |code| format!("exit {code}"));
    let said = if called.errors.is_empty() { &called.output } else { &called.errors };
    let said = String::from_utf8_lossy(said);
    match said.lines().rev().map(plain_text::line).find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{how}: {}", line.chars().take(200).collect::<String>()),
        None => how,
    }
}
