//! Turns the way a command ended into the outcome of its check (D17). Knows no process.

use super::Outcome;

/// Whether the check wants the command to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedExit {
    Success,
    Failure,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandExit {
    Exited(i32),
    Signalled(i32),
    OutOfTime {
        seconds: u64,
    },
    NotStarted(String),
    /// It failed while the disk had no room left.
    DiskFull,
    /// The process that watched the command was killed.
    Lost,
}

/// Where the program belongs that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MissingProgram {
    /// A file of the project: a worker can make it.
    InProject(String),
    Elsewhere(Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    pub outcome: Outcome,
    pub why: String,
    pub hint: String,
}

/// A shell reports the signal that ended its command by an exit code above this one.
const SIGNAL_BASE: i32 = 128;
const LAST_SIGNAL: i32 = 31;

/// Signals by which the system ends a program that went wrong: ILL, ABRT, BUS, FPE, SEGV. Every other one comes from
/// outside of the program.
const CRASHES: [i32; 5] = [4, 6, 7, 8, 11];

pub fn judge_exit(wanted: ExpectedExit, ending: &CommandExit, missing: &MissingProgram) -> CheckResult {
    let result = |outcome, why: String, hint: &str| CheckResult { outcome, why, hint: hint.into() };
    match (ending, wanted) {
        (CommandExit::Exited(code @ (126 | 127)), _) => cannot_run(*code, wanted, missing),
        (CommandExit::Exited(code), _) if (SIGNAL_BASE + 1..=SIGNAL_BASE + LAST_SIGNAL).contains(code) => {
            ended_by(code - SIGNAL_BASE, &format!(" (exit {code})"))
        }
        (CommandExit::Exited(0), ExpectedExit::Success) => result(Outcome::Pass, "exit 0".into(), ""),
        (CommandExit::Exited(code), ExpectedExit::Success) => {
            result(Outcome::Fail, format!("exit {code}"), "")
        }
        (CommandExit::Exited(0), ExpectedExit::Failure) => result(
            Outcome::Fail,
            "exit 0, and another one is wanted".into(),
            "`not_command` passes when the command runs and exits with other than 0",
        ),
        (CommandExit::Exited(code), ExpectedExit::Failure) => {
            result(Outcome::Pass, format!("exit {code}, as is wanted"), "")
        }
        (CommandExit::Signalled(number), _) => ended_by(*number, ""),
        // An endless loop is a bug of the work, so it is no error.
        (CommandExit::OutOfTime { seconds }, _) => result(
            Outcome::Fail,
            format!("not done after {seconds} s, so it was ended"),
            "make it quicker, or give checks more time with `--check-timeout`",
        ),
        (CommandExit::DiskFull, _) => result(
            Outcome::Error,
            "there is no room left on the disk".into(),
            "make room; what a check shows on a full disk counts for nothing",
        ),
        (CommandExit::NotStarted(why), _) => result(
            Outcome::Error,
            format!("it could not be started: {why}"),
            "see that the shell can be run here",
        ),
        (CommandExit::Lost, _) => result(
            Outcome::Error,
            "its guard was killed, so its end is unknown".into(),
            "see whether the check kills its own parent",
        ),
    }
}

fn ended_by(number: i32, code: &str) -> CheckResult {
    let name = signal(number);
    match CRASHES.contains(&number) {
        true => CheckResult {
            outcome: Outcome::Fail,
            why: format!("crashed with {name}{code}"),
            hint: String::new(),
        },
        false => CheckResult {
            outcome: Outcome::Error,
            why: format!("killed by {name}{code}"),
            hint: "a check that is killed shows nothing; see its output, and whether memory is short".into(),
        },
    }
}

fn cannot_run(code: i32, wanted: ExpectedExit, missing: &MissingProgram) -> CheckResult {
    let what = if code == 126 { "cannot be run" } else { "was not found" };
    match (missing, wanted) {
        (MissingProgram::InProject(program), ExpectedExit::Success) => CheckResult {
            outcome: Outcome::Fail,
            why: format!("`{program}` of this project {what} (exit {code})"),
            hint: String::new(),
        },
        (MissingProgram::InProject(program), ExpectedExit::Failure) => CheckResult {
            outcome: Outcome::Error,
            why: format!("`{program}` of this project {what} (exit {code}), which shows nothing"),
            hint: "a `not_command` passes only if the command ran".into(),
        },
        (MissingProgram::Elsewhere(program), _) => {
            let program = program.as_ref().map_or("a program".to_owned(), |program| format!("`{program}`"));
            CheckResult {
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
        7 => "SIGBUS",
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
        let own = || MissingProgram::InProject("./run.sh".into());
        let other = || MissingProgram::Elsewhere(None);
        use {CommandExit::*, ExpectedExit::*, Outcome::*};
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
            // A crash, as the shell reports it and as the system does.
            (Exited(132), other(), Fail, Fail),
            (Exited(134), other(), Fail, Fail),
            (Exited(135), other(), Fail, Fail),
            (Exited(136), other(), Fail, Fail),
            (Exited(139), other(), Fail, Fail),
            (Signalled(4), other(), Fail, Fail),
            (Signalled(6), other(), Fail, Fail),
            (Signalled(7), other(), Fail, Fail),
            (Signalled(8), other(), Fail, Fail),
            (Signalled(11), other(), Fail, Fail),
            // Killed from outside.
            (Exited(129), other(), Error, Error),
            (Exited(137), other(), Error, Error),
            (Exited(143), other(), Error, Error),
            (Signalled(9), other(), Error, Error),
            (Signalled(15), other(), Error, Error),
            (OutOfTime { seconds: 5 }, other(), Fail, Fail),
            (DiskFull, other(), Error, Error),
            (NotStarted("gone".into()), other(), Error, Error),
            (Lost, other(), Error, Error),
        ] {
            assert_eq!(judge_exit(Success, &ending, &missing).outcome, command, "{ending:?}");
            assert_eq!(judge_exit(Failure, &ending, &missing).outcome, not_command, "{ending:?}");
        }
    }
}
