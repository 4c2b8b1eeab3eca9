//! The side of `aot run --detach` that stays at the terminal: starts the run, waits until it has begun, and says how to find it.

use std::ffi::OsString;

use aot_runner::detach::{Beginning, DetachedRun};
use aot_runner::driver;
use aot_runner::store::home::Home;
use aot_runner::tree::Project;
use serde_json::json;

use super::Invocation;
use super::run::say;
use crate::failure::{self, Failure};
use crate::place;
use crate::print::{self, Answer, OutputFormat};

/// What to type next.
const NEXT: [&str; 3] = ["aot status", "aot watch", "aot stop"];

/// Whether what the run says before its bound is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Wanted,
    /// The person has just agreed to it.
    Known,
}

/// What came of it.
#[derive(Debug)]
pub enum Detached {
    Begun(Answer),
    /// It was over before the loop could begin.
    Ended(Answer),
}

/// Starts `aot run` with these words behind it, in a session of its own.
pub fn start(
    invocation: &Invocation,
    project: &Project,
    words: &[OsString],
    shown: Head,
) -> Result<Detached, Failure> {
    let home = Home::of(&project.state)?;
    home.ready()?;
    // The log belongs to the run that goes on.
    drop(driver::acquire(&home)?);
    let is_json = invocation.format == OutputFormat::Json;
    let mut all: Vec<OsString> = Vec::new();
    if let Some(state) = &invocation.state {
        all.extend(["--state".into(), state.clone().into_os_string()]);
    }
    all.extend(is_json.then(|| "--json".into()));
    all.push("run".into());
    all.extend_from_slice(words);
    let world = |error: std::io::Error| Failure::world("start the run", error);
    let run = DetachedRun::start(&place::this_program()?, &all, &project.sidecar).map_err(world)?;
    let log = run.log().to_path_buf();
    match run.wait_until_begun().map_err(world)? {
        Beginning::Begun { pid, head, first } => {
            let head = if shown == Head::Wanted { head } else { String::new() };
            [head, first]
                .iter()
                .filter(|text| !text.is_empty())
                .for_each(|text| print::line(text.trim_end()));
            if is_json {
                let object = json!({"type": "detached", "pid": pid, "log": log, "next": NEXT});
                return Ok(Detached::Begun(Answer::new("", object)));
            }
            let beside = log.strip_prefix(&project.root).unwrap_or(&log);
            say("detached", &format!("pid {pid} drives the loop; this terminal may be closed"));
            say("log", &beside.display().to_string());
            say("next", &NEXT.join(", "));
            Ok(Detached::Begun(Answer::printed()))
        }
        Beginning::Failed { exit, printed } => {
            let printed = printed.trim_end();
            match is_json {
                true => print::line(printed),
                false => failure::complain(printed),
            }
            let exit = exit.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            Ok(Detached::Ended(Answer::printed().with_exit(exit)))
        }
    }
}
