//! One command -> evidence.

use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use aot_core::shell_command::{SimpleCommand, simple_commands};
use aot_core::verdict::{CommandExit, Evidence, Excerpt, ExpectedExit, MissingProgram, Outcome, judge_exit};

use super::CheckContext;
use super::refused::{names_the_network, refused};
use crate::process::cage::Network;
use crate::process::{Captured, How, Input, Job, Limits, Streams};
use crate::shell;
use crate::survey;

/// Of each output so much is kept, of its beginning and of its end.
const HEAD_KEPT: usize = 4 << 10;
const TAIL_KEPT: usize = 12 << 10;

/// A disk with less than this is full.
const NO_ROOM: u64 = 1 << 20;

/// How long a check may live on after its time is over.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Set for every check to the state file it belongs to, so that a check that asks for its own verification is refused.
pub const CHECKING: &str = "AOT_CHECKING";

pub(super) fn look(work: &CheckContext<'_>, command: &str, wanted: ExpectedExit) -> (Outcome, Evidence) {
    let checker = work.checker;
    let seconds = work.state.constraints().check_timeout().seconds().max(1);
    let limits = Limits {
        wall: Duration::from_secs(seconds),
        idle: None,
        grace: GRACE,
        head: HEAD_KEPT,
        tail: TAIL_KEPT,
    };
    let mut evidence = work.evidence(command, "");
    let mut kept_from = Vec::new();
    let ran = checker.guard.run(&Job {
        program: shell::program(work.state.objective.shell.as_deref(), command),
        arguments: vec!["-c".into(), command.into()],
        folder: checker.project.root.clone(),
        environment: checker
            .confined
            .environment(vec![(CHECKING.into(), checker.project.state.clone().into_os_string())]),
        input: Input::None,
        streams: Streams::Together,
        limits,
        cage: checker.confined.cage().cloned(),
    });
    let ending = match ran {
        Ok(ended) => {
            evidence.milliseconds = ended.took.as_millis() as u64;
            evidence.left_running = ended.left;
            evidence.output = Some(excerpt(&ended.output));
            kept_from = ended.refused;
            match ended.how {
                How::Exited(code) => {
                    evidence.exit = Some(code);
                    CommandExit::Exited(code)
                }
                How::Signalled(signal) => {
                    evidence.signal = Some(signal);
                    CommandExit::Signalled(signal)
                }
                How::NotStarted(why) | How::NoProgram(why) => CommandExit::NotStarted(why),
                How::OutOfTime | How::Silent => {
                    evidence.out_of_time = true;
                    CommandExit::OutOfTime { seconds }
                }
                How::Killed | How::Lost => CommandExit::Lost,
            }
        }
        Err(error) => CommandExit::NotStarted(error.to_string()),
    };
    let ending = match ending {
        CommandExit::Exited(code) if code != 0 && is_disk_full(work, evidence.output.as_ref()) => {
            CommandExit::DiskFull
        }
        ending => ending,
    };
    let missing = match ending {
        CommandExit::Exited(126 | 127) => missing(&checker.project.root, command, evidence.output.as_ref()),
        _ => MissingProgram::Elsewhere(None),
    };
    let ruling = judge_exit(wanted, &ending, &missing);
    evidence.why = ruling.why;
    evidence.hint = ruling.hint;
    if ruling.outcome != Outcome::Pass
        && let (Some(cage), Some(output)) = (checker.confined.cage(), &evidence.output)
    {
        evidence.refused = refused(output, cage, &checker.project.root, checker.confined.home());
        if let Some(first) = evidence.refused.first() {
            evidence.hint = format!("the cage keeps it from writing `{}`: {}", first.path, first.remedy);
        } else if let (Network::Hosts(listed), Some(first)) = (&cage.network, kept_from.first()) {
            evidence.hint = first.describe(listed);
        } else if cage.network == Network::Off && names_the_network(output) {
            evidence.hint =
                "it has no network; if it needs one, write `[cage] network = \"on\"` into aot.toml".into();
        }
    }
    (ruling.outcome, evidence)
}

/// Whether the output complains of a full disk, and the disk is indeed full: the words alone could be the work's own.
fn is_disk_full(work: &CheckContext<'_>, output: Option<&Excerpt>) -> bool {
    let says = |text: &str| text.contains("No space left on device") || text.contains("ENOSPC");
    let is_said = output.is_some_and(|output| says(&output.head) || says(&output.tail));
    let project = work.checker.project;
    let is_full = |folder: &Path| survey::room(folder).is_ok_and(|bytes| bytes < NO_ROOM);
    is_said && (is_full(&project.root) || is_full(&project.sidecar))
}

pub(crate) fn excerpt(captured: &Captured) -> Excerpt {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (bytes, omitted) = (captured.total(), captured.omitted());
    match captured.whole() {
        Some(whole) => Excerpt { head: text(whole), tail: String::new(), bytes, omitted },
        None => {
            let (head, tail) = captured.parts();
            Excerpt { head: text(head), tail: text(tail), bytes, omitted }
        }
    }
}

/// Which program was not found: the one that the shell names, or the first in the command that cannot be run.
fn missing(root: &Path, command: &str, output: Option<&Excerpt>) -> MissingProgram {
    let said = output.map(|output| output.last_lines(5)).unwrap_or_default();
    let named: Vec<&str> = said.iter().rev().filter_map(|line| named_missing(line)).collect();
    let simple = simple_commands(command);
    let folders: Vec<&str> =
        simple.iter().filter_map(|simple| simple.folder.as_deref()).chain([""]).collect();
    let in_project = |name: &str| folders.iter().any(|folder| lies_in(root, &root.join(folder).join(name)));
    if let Some(name) = named.first() {
        return match name.contains('/') && in_project(name) {
            true => MissingProgram::InProject((*name).to_owned()),
            false => MissingProgram::Elsewhere(Some((*name).to_owned())),
        };
    }
    let own = simple.iter().map(SimpleCommand::program).find(|program| {
        let runs = |folder: &&str| is_executable(&root.join(folder).join(program));
        program.contains('/') && in_project(program) && !folders.iter().any(runs)
    });
    match own {
        Some(program) => MissingProgram::InProject(program.to_owned()),
        None => MissingProgram::Elsewhere(None),
    }
}

/// `sh: 1: jest: not found`, `bash: line 1: ./x.sh: No such file or directory`, `zsh:1: command not found: jest`.
fn named_missing(line: &str) -> Option<&str> {
    let line = line.trim();
    for end in [": not found", ": command not found", ": No such file or directory", ": Permission denied"] {
        if let Some(before) = line.strip_suffix(end) {
            return before.rsplit(": ").next().map(str::trim).filter(|name| !name.is_empty());
        }
    }
    let name = line.split_once("command not found: ").map(|(_, name)| name.trim());
    name.filter(|name| !name.is_empty() && !name.contains(' '))
}

fn lies_in(root: &Path, path: &Path) -> bool {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                tidy.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => tidy.push(part),
        }
    }
    tidy.starts_with(root)
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_program_is_named() {
        let root = Path::new("/project");
        let check = |command: &str, said: &str, expected: &str| {
            let output = Excerpt { head: said.to_owned(), ..Excerpt::default() };
            let found = match missing(root, command, Some(&output)) {
                MissingProgram::InProject(name) => format!("own {name}"),
                MissingProgram::Elsewhere(name) => format!("other {}", name.unwrap_or_default()),
            };
            assert_eq!(found, expected, "{command} said {said}");
        };
        check("jest", "sh: 1: jest: not found\n", "other jest");
        check("jest", "bash: line 1: jest: command not found\n", "other jest");
        check("jest", "zsh:1: command not found: jest\n", "other jest");
        check("./a.sh", "sh: 1: ./a.sh: not found", "own ./a.sh");
        check("./a.sh", "sh: 1: ./a.sh: Permission denied", "own ./a.sh");
        check("./a.sh 2>/dev/null", "", "own ./a.sh");
        check("cd x && ../../../bin/no", "", "other ");
        check("bash scripts/x.sh", "bash: scripts/x.sh: No such file or directory", "own scripts/x.sh");
        check("/opt/x/y", "sh: 1: /opt/x/y: not found", "other /opt/x/y");
        check("/project/y", "sh: 1: /project/y: not found", "own /project/y");
        check("exit 127", "", "other ");
    }
}
