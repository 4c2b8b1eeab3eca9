//! How a command ended -> the outcome of its check, in words (D17). Knows no process.

use super::Outcome;

/// Whether the check wants the command to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Success,
    Failure,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Signalled(i32),
    OutOfTime {
        seconds: u64,
    },
    NotStarted(String),
    /// Nobody knows.
    Lost,
}

/// Whose program it is that could not be run, if that was the trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A file of the project: a worker can make it.
    InProject(String),
    Elsewhere(Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub outcome: Outcome,
    pub why: String,
    pub hint: String,
}

/// A shell reports a signal of what it ran by an exit above this.
const SIGNAL_BASE: i32 = 128;
const LAST_SIGNAL: i32 = 31;

pub fn rule(wanted: Wanted, ending: &Ending, missing: &Missing) -> Ruling {
    let ruling = |outcome, why: String, hint: &str| Ruling { outcome, why, hint: hint.into() };
    match (ending, wanted) {
        (Ending::Exited(code @ (126 | 127)), _) => cannot_run(*code, wanted, missing),
        (Ending::Exited(code), _) if (SIGNAL_BASE + 1..=SIGNAL_BASE + LAST_SIGNAL).contains(code) => ruling(
            Outcome::Error,
            format!("killed by {} (exit {code})", signal(code - SIGNAL_BASE)),
            "a check that is killed shows nothing; see its output, and whether memory is short",
        ),
        (Ending::Exited(0), Wanted::Success) => ruling(Outcome::Pass, "exit 0".into(), ""),
        (Ending::Exited(code), Wanted::Success) => ruling(Outcome::Fail, format!("exit {code}"), ""),
        (Ending::Exited(0), Wanted::Failure) => ruling(
            Outcome::Fail,
            "exit 0, and another one is wanted".into(),
            "`not_command` passes when the command runs and exits with other than 0",
        ),
        (Ending::Exited(code), Wanted::Failure) => {
            ruling(Outcome::Pass, format!("exit {code}, as is wanted"), "")
        }
        (Ending::Signalled(number), _) => ruling(
            Outcome::Error,
            format!("killed by {}", signal(*number)),
            "a check that is killed shows nothing; see its output, and whether memory is short",
        ),
        (Ending::OutOfTime { seconds }, _) => ruling(
            Outcome::Error,
            format!("not done after {seconds} s, so it was ended"),
            "make it quicker, or raise `objective.constraints.check_timeout`",
        ),
        (Ending::NotStarted(why), _) => ruling(
            Outcome::Error,
            format!("it could not be started: {why}"),
            "see that the shell can be run here",
        ),
        (Ending::Lost, _) => ruling(
            Outcome::Error,
            "its guard was killed, so its end is unknown".into(),
            "see whether the check kills its own parent",
        ),
    }
}

fn cannot_run(code: i32, wanted: Wanted, missing: &Missing) -> Ruling {
    let what = if code == 126 { "cannot be run" } else { "was not found" };
    match (missing, wanted) {
        (Missing::InProject(program), Wanted::Success) => Ruling {
            outcome: Outcome::Fail,
            why: format!("`{program}` of this project {what} (exit {code})"),
            hint: String::new(),
        },
        (Missing::InProject(program), Wanted::Failure) => Ruling {
            outcome: Outcome::Error,
            why: format!("`{program}` of this project {what} (exit {code}), which shows nothing"),
            hint: "a `not_command` passes only if the command ran".into(),
        },
        (Missing::Elsewhere(program), _) => {
            let program = program.as_ref().map_or("a program".to_owned(), |program| format!("`{program}`"));
            Ruling {
                outcome: Outcome::Error,
                why: format!("{program} {what} (exit {code})"),
                hint: "install it, correct its name, or see PATH".into(),
            }
        }
    }
}

fn signal(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_failures() {
        let own = || Missing::InProject("./run.sh".into());
        let other = || Missing::Elsewhere(None);
        use {Ending::*, Outcome::*, Wanted::*};
        for (ending, missing, command, not_command) in [
            (Exited(0), other(), Pass, Fail),
            (Exited(1), other(), Fail, Pass),
            (Exited(2), other(), Fail, Pass),
            (Exited(255), other(), Fail, Pass),
            (Exited(126), other(), Error, Error),
            (Exited(127), other(), Error, Error),
            (Exited(126), own(), Fail, Error),
            (Exited(127), own(), Fail, Error),
            (Exited(128), other(), Fail, Pass),
            (Exited(139), other(), Error, Error),
            (Signalled(9), other(), Error, Error),
            (OutOfTime { seconds: 5 }, other(), Error, Error),
            (NotStarted("gone".into()), other(), Error, Error),
            (Lost, other(), Error, Error),
        ] {
            assert_eq!(rule(Success, &ending, &missing).outcome, command, "{ending:?}");
            assert_eq!(rule(Failure, &ending, &missing).outcome, not_command, "{ending:?}");
        }
    }
}
