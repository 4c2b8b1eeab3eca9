//! One attempt, from its tree to its outcome: the command runs in its cage, its changes are compared with what is
//! protected, its check is run. Does not decide what follows.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use aot_core::brief::Brief;
use aot_core::coordinator::{CheckOutcome, Event, JobId, JobOutcome, Obstacle, Task};
use aot_core::state::{Atom, Binding, State};
use aot_core::verdict::{Jobs, Verdict};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::meter::Meter;
use super::workers::Workers;
use super::{Attempt, DoneWork, work_of};
use crate::checks::command::excerpt;
use crate::checks::files::Pattern;
use crate::checks::{Checker, Occasion, Whose, short_line, with_ending};
use crate::plain_file::{self, keep_newest};
use crate::process::cage::Network;
use crate::process::{Captured, Ended, Environment, How, Input, Job, Limits, Streams, Switch};
use crate::settings;
use crate::shell;
use crate::tree::{End, GroundError, Lent, Project, Sealed, TreeKind};

/// How many bytes of an output's beginning and end are kept.
const HEAD_KEPT: usize = 16 << 10;
const TAIL_KEPT: usize = 48 << 10;

/// How long a worker has to end by itself when its time is over.
const GRACE: Duration = Duration::from_secs(5);

/// Characters of the output's last line that become a summary or a reason.
const LINE_KEPT: usize = 300;

/// In the sidecar.
const OUTPUTS: &str = "output";

/// How many of the newest outputs are kept, and how many more may be there before old ones are removed.
const OUTPUTS_KEPT: usize = 200;
const OUTPUTS_SPARE: usize = 20;

/// How many paths a refusal names.
pub(super) const PATHS_NAMED: usize = 5;

/// How many paths are kept as the artifacts of an attempt.
const MOST_ARTIFACTS: usize = 50;

/// What is to be done, with all that its thread needs of the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub job: JobId,
    pub atom: Atom,
    /// The state without the other atoms and without its history.
    pub state: State,
    /// For an agent; a command and a check need none.
    pub brief: Option<Brief>,
    /// The commit that it begins at, if that is not the branch's last one.
    pub base: Option<String>,
}

/// What a worker did that came to a good end.
#[derive(Debug, Default)]
pub(super) struct WorkDone {
    pub summary: String,
    pub artifacts: Vec<String>,
    /// Ignored files that it left in its tree.
    pub ignored: Vec<String>,
    /// No file differs from what was there before.
    pub is_unchanged: bool,
}

impl Assignment {
    pub fn of(job: JobId, atom: &Atom, state: &State, brief: Option<Brief>) -> Assignment {
        Assignment { job, atom: atom.clone(), state: without_graph(state), brief, base: None }
    }
}

/// The part of a state that checks need: the objective and what people confirmed.
pub fn without_graph(state: &State) -> State {
    State {
        objective: state.objective.clone(),
        control: state.control.clone(),
        atoms: Default::default(),
        decompositions: Default::default(),
        or_groups: Default::default(),
        bindings: Default::default(),
        trail: Default::default(),
        corrections: state.corrections.clone(),
        background: state.background.clone(),
    }
}

impl Workers {
    pub(super) fn attempt(&self, attempt: &Attempt, assignment: Assignment) {
        let job = assignment.job.clone();
        let meter = Meter::of(&job);
        let outcome = self.executor.attempt(self, attempt, assignment, &meter);
        self.event(Event::Ended { job, outcome, usage: meter.take() });
    }

    /// The attempt in this process.
    pub(super) fn attempted(&self, attempt: &Attempt, assignment: Assignment, meter: &Meter) -> JobOutcome {
        let lost = |reason: String| JobOutcome::Lost { reason };
        if attempt.switch.is_off() {
            return lost("it was killed".into());
        }
        let Some(work) = work_of(&assignment.job) else { return lost("it works on no atom".into()) };
        let mut lent = match self.ground.lend_at(&work, assignment.base.as_deref()) {
            Ok(lent) => lent,
            Err(error) => {
                let (obstacle, reason) = obstacle(error);
                return JobOutcome::NotStarted { obstacle, reason };
            }
        };
        let unchecked = |done| (done, None);
        let worked = match (&assignment.job.task, &assignment.atom.run, &assignment.brief) {
            (Task::Work(_), Some(command), _) => {
                self.run(attempt, &assignment, &mut lent, command).map(unchecked)
            }
            (Task::Work(_), None, Some(brief)) => self
                .work(attempt, &assignment, &mut lent, brief, meter)
                .map(|(done, check)| (done, Some(check))),
            (Task::Probe(_), _, Some(brief)) => Err(self.probe(attempt, &assignment, &lent, brief, meter)),
            (Task::Check(_), ..) => {
                Ok(unchecked(WorkDone { summary: "its check was run".to_owned(), ..WorkDone::default() }))
            }
            (Task::Work(_) | Task::Probe(_) | Task::Replan, ..) => Err(lost("it has no brief".into())),
        };
        let (WorkDone { summary, artifacts, ignored, is_unchanged }, check) = match worked {
            Ok(worked) => worked,
            Err(outcome) => {
                self.give_back(lent, end_of(&outcome));
                return outcome;
            }
        };
        let check = check.unwrap_or_else(|| run_check(self, &assignment, &mut lent, &attempt.switch, meter));
        if attempt.switch.is_off() {
            self.give_back(lent, End::Discarded { reason: "it was killed".into() });
            return lost("it was killed".into());
        }
        let lands = matches!(check, CheckOutcome::None | CheckOutcome::Pass)
            && matches!(assignment.job.task, Task::Work(_));
        if lands {
            let (summary, artifacts) = (summary.clone(), artifacts.clone());
            attempt.put(DoneWork { lent, assignment, summary, artifacts, ignored, is_unchanged });
            self.discard_if_killed(attempt);
        } else {
            let end = match &check {
                CheckOutcome::Fail { reason }
                | CheckOutcome::Error { reason }
                | CheckOutcome::Pending { reason } => End::Failed { reason: reason.clone() },
                CheckOutcome::None | CheckOutcome::Pass => {
                    End::Discarded { reason: "a check leaves nothing".into() }
                }
            };
            self.give_back(lent, end);
        }
        JobOutcome::Done { summary, artifacts, check }
    }

    /// A kill a moment ago has found no work to discard.
    pub(super) fn discard_if_killed(&self, attempt: &Attempt) {
        if attempt.switch.is_off()
            && let Some(done) = attempt.take()
        {
            self.give_back(done.lent, End::Discarded { reason: "it was killed".into() });
            self.executor.settled(&done.assignment.job);
        }
    }

    /// Work that a host's agent did is examined in the same way. The tree stays lent whatever the outcome is, so that the
    /// agent can mend it.
    pub(super) fn examine(
        &self,
        attempt: &Attempt,
        assignment: Assignment,
        mut lent: Lent,
        binding: Binding,
    ) {
        let job = assignment.job.clone();
        let meter = Meter::of(&job);
        let Binding { summary, artifacts, .. } = binding;
        let (artifacts, ignored, is_unchanged, outcome) = match self.ground.seal(&mut lent) {
            Err(error) => (artifacts, Vec::new(), false, JobOutcome::Lost { reason: error.to_string() }),
            Ok(sealed) => {
                let check = match not_accepted(&assignment, &sealed) {
                    None => run_check(self, &assignment, &mut lent, &attempt.switch, &meter),
                    Some(NotAccepted { reason, .. }) => CheckOutcome::Fail { reason },
                };
                let is_unchanged = sealed.changed.is_empty() && sealed.content.is_some();
                let artifacts =
                    if artifacts.is_empty() { first_artifacts(sealed.changed) } else { artifacts };
                let outcome =
                    JobOutcome::Done { summary: summary.clone(), artifacts: artifacts.clone(), check };
                (artifacts, sealed.ignored, is_unchanged, outcome)
            }
        };
        attempt.put(DoneWork { lent, assignment, summary, artifacts, ignored, is_unchanged });
        self.event(Event::Ended { job, outcome, usage: meter.take() });
    }

    /// Takes the work of a worker that has ended, before its check runs: what the check writes is not part of it.
    pub(super) fn seal(&self, lent: &mut Lent) -> Result<Sealed, JobOutcome> {
        self.ground.seal(lent).map_err(|error| JobOutcome::Lost { reason: error.to_string() })
    }

    /// Runs the command of an atom. Returns what it did, or why it did not succeed.
    fn run(
        &self,
        attempt: &Attempt,
        assignment: &Assignment,
        lent: &mut Lent,
        command: &str,
    ) -> Result<WorkDone, JobOutcome> {
        let scratch = self
            .scratch()
            .map_err(|error| not_started(format!("no scratch folder could be made: {error}")))?;
        let limits = Limits {
            wall: Duration::from_secs(assignment.state.constraints().agent_timeout().seconds().max(1)),
            idle: self.config.idle,
            grace: GRACE,
            head: HEAD_KEPT,
            tail: TAIL_KEPT,
        };
        let ended = self.config.guard.under(&attempt.switch).run(&Job {
            program: shell::program(assignment.state.objective.shell.as_deref(), command),
            arguments: vec!["-c".into(), command.into()],
            folder: lent.root().to_path_buf(),
            environment: Environment::Only(self.environment(assignment, lent, scratch.path())),
            input: Input::None,
            streams: Streams::Together,
            limits,
            cage: self.cage(lent, scratch.path()),
        });
        drop(scratch);
        let ended = ended.map_err(|error| not_started(format!("no process could be started: {error}")))?;
        self.keep_output(assignment, &ended);
        let failed = |reason: String| JobOutcome::Failed { reason };
        let last = last_line(&ended.output);
        let with_last = |what: String| {
            let what = if last.is_empty() { what } else { format!("{what}: {last}") };
            let output = excerpt(&ended.output);
            // The last line is told already.
            with_ending(what, Some(&output).filter(|output| output.last_lines(2).len() > 1))
        };
        match &ended.how {
            How::Exited(0) => {}
            How::Exited(code) => return Err(failed(with_last(format!("exit {code}")))),
            How::Signalled(signal) => return Err(failed(with_last(format!("ended by signal {signal}")))),
            How::OutOfTime => {
                return Err(failed(with_ending(
                    format!("its time was over after {} s", limits.wall.as_secs()),
                    Some(&excerpt(&ended.output)),
                )));
            }
            How::Silent => {
                let idle = limits.idle.unwrap_or_default().as_secs();
                return Err(failed(format!("it printed nothing for {idle} s")));
            }
            How::NotStarted(why) | How::NoProgram(why) => {
                return Err(not_started(format!("it was not started: {why}")));
            }
            How::Killed => return Err(JobOutcome::Lost { reason: "it was killed".into() }),
            How::Lost => return Err(JobOutcome::Lost { reason: "it was killed from outside".into() }),
        }
        let sealed = self.seal(lent)?;
        if let Some(NotAccepted { reason, .. }) = not_accepted(assignment, &sealed) {
            return Err(failed(reason));
        }
        let summary = match last.is_empty() {
            true => format!("`{}` succeeded", cut(command)),
            false => last,
        };
        let is_unchanged = sealed.changed.is_empty() && sealed.content.is_some();
        let artifacts = first_artifacts(sealed.changed);
        Ok(WorkDone { summary, artifacts, ignored: sealed.ignored, is_unchanged })
    }

    fn environment(&self, assignment: &Assignment, lent: &Lent, scratch: &Path) -> Vec<(OsString, OsString)> {
        let folder = scratch.as_os_str().to_owned();
        let own: [(&str, OsString); 6] = [
            ("TMPDIR", folder.clone()),
            ("TMP", folder.clone()),
            ("TEMP", folder),
            ("AOT_LOOP", self.loop_id.clone().into()),
            ("AOT_ATOM", assignment.atom.id.to_string().into()),
            ("AOT_ATTEMPT", assignment.job.attempt.to_string().into()),
        ];
        let own = own.into_iter().map(|(name, value)| (OsString::from(name), value));
        let own = own.chain(self.ground.variables(lent));
        self.config.environment.iter().cloned().chain(own).collect()
    }

    /// Keeps the output of an attempt for people; nothing depends on it (D32).
    fn keep_output(&self, assignment: &Assignment, ended: &Ended) {
        if ended.output.total() == 0 && ended.refused.is_empty() {
            return;
        }
        let folder = self.config.project.sidecar.join(OUTPUTS);
        let path = folder.join(format!("{}-{}.txt", assignment.atom.id, assignment.job.attempt));
        let (mut text, tail) = ended.output.parts();
        if ended.output.omitted() > 0 {
            text.extend_from_slice(format!("\n[… {} bytes left out …]\n", ended.output.omitted()).as_bytes());
        }
        text.extend_from_slice(&tail);
        if let Network::Hosts(listed) = &self.config.cage.network {
            for refusal in &ended.refused {
                text.extend_from_slice(format!("\naot: {}\n", refusal.describe(listed)).as_bytes());
            }
        }
        let kept = plain_file::folder(&self.config.project.sidecar, &folder)
            .and_then(|()| plain_file::write(&path, &text));
        if let Err(error) = kept {
            self.note(format!("the output of {} could not be kept: {error}", assignment.atom.id));
        }
        keep_newest(&folder, OUTPUTS_KEPT, OUTPUTS_SPARE);
    }
}

pub(super) fn not_started(reason: String) -> JobOutcome {
    JobOutcome::NotStarted { obstacle: Obstacle::World, reason }
}

/// Why no tree could be lent. All but a command of the person's own is the system's doing, and may pass.
pub(super) fn obstacle(error: GroundError) -> (Obstacle, String) {
    match error {
        GroundError::Setup { key, command, how, tail } => {
            (Obstacle::Setup { output: tail }, format!("`isolation.{key}` {how}: {command}"))
        }
        error => (Obstacle::World, error.to_string()),
    }
}

/// Removes all but the newest outputs.
pub fn clear_outputs(project: &Project) {
    keep_newest(&project.sidecar.join(OUTPUTS), OUTPUTS_KEPT, 0);
}

/// Runs the check of the atom: only what the program itself saw counts (D22).
pub(super) fn run_check(
    workers: &Workers,
    assignment: &Assignment,
    lent: &mut Lent,
    switch: &Switch,
    meter: &Meter,
) -> CheckOutcome {
    let Some(checks) = &assignment.atom.check else { return CheckOutcome::None };
    let project = workers.ground.project_in(lent, &workers.config.project);
    let guard = workers.config.guard.under(switch);
    let confined = match workers.config.confinement.confine(&workers.config.project, workers.area(lent)) {
        Ok(confined) => confined.with_variables(workers.ground.variables(lent)),
        Err(error) => {
            return CheckOutcome::Error { reason: format!("no scratch folder could be made: {error}") };
        }
    };
    let name = format!("{}-{}", assignment.atom.id, assignment.job.attempt);
    let wall = Duration::from_secs(assignment.state.constraints().agent_timeout().seconds().max(1));
    let evaluated = workers.with_judge(switch, meter, name, wall, |judge| {
        let checker =
            Checker { project: &project, guard: &guard, judge, jobs: Jobs::default(), confined: &confined };
        let whose = Whose::Atom(&assignment.atom.id);
        checker.evaluate(&assignment.state, checks, whose, Occasion::Decide, Timestamp::now(), &mut |_| {})
    });
    let evaluation = match evaluated {
        Ok(evaluation) => evaluation,
        Err(error) => {
            return CheckOutcome::Error { reason: format!("the tree cannot be looked at: {error}") };
        }
    };
    if !evaluation.changed.is_empty()
        && let Err(problem) = undo_check(workers, assignment, lent)
    {
        return CheckOutcome::Error {
            reason: format!("what its check changed cannot be taken back: {problem}"),
        };
    }
    let reason = first_red(&evaluation);
    match evaluation.verdict {
        Verdict::Passed => CheckOutcome::Pass,
        Verdict::Failed => CheckOutcome::Fail { reason },
        Verdict::Error => CheckOutcome::Error { reason },
        Verdict::Pending => CheckOutcome::Pending { reason },
    }
}

/// What a check writes never lands (D21), and the next one must not see it.
fn undo_check(workers: &Workers, assignment: &Assignment, lent: &Lent) -> Result<(), GroundError> {
    let undone = workers.ground.undo_since_sealed(lent)?;
    if !undone.is_empty() && workers.ground.trees() == TreeKind::Worktrees {
        let (atom, undone) = (&assignment.atom.id, named(&undone));
        workers.note(format!(
            "the check of {atom} changed {undone}; that is not part of the work and does not land"
        ));
    }
    workers.pass_on_notes();
    Ok(())
}

/// Work that is refused before its check runs.
pub(super) struct NotAccepted {
    pub reason: String,
    /// What it changed and may not.
    pub protected: Vec<String>,
}

pub(super) fn not_accepted(assignment: &Assignment, sealed: &Sealed) -> Option<NotAccepted> {
    let protected = protected(&assignment.state.objective.protected, &sealed.changed);
    let reason = match protected.is_empty() {
        true => sealed.cannot_land.clone()?,
        false => changed_protected(&protected),
    };
    Some(NotAccepted { reason, protected })
}

pub(super) fn changed_protected(touched: &[String]) -> String {
    format!("it changed what is protected: {}", named(touched))
}

/// The first paths, and how many more there are.
pub(super) fn named(paths: &[String]) -> String {
    let first = paths.iter().take(PATHS_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(PATHS_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The first check that did not pass, and how many more there are.
fn first_red(evaluation: &crate::checks::Evaluation) -> String {
    match &evaluation.in_the_way()[..] {
        [] => String::new(),
        [one] => format!("{}: {}", one.item, one.reason),
        [first, rest @ ..] => {
            let (what, ending) = first.reason.split_once('\n').unwrap_or((&first.reason, ""));
            format!("{}: {what} (and {} more)\n{ending}", first.item, rest.len()).trim_end().to_owned()
        }
    }
}

fn end_of(outcome: &JobOutcome) -> End {
    match outcome {
        JobOutcome::Failed { reason } | JobOutcome::TooLarge { reason } => {
            End::Failed { reason: reason.clone() }
        }
        JobOutcome::Lost { reason }
        | JobOutcome::Refused { reason, .. }
        | JobOutcome::Unable { reason, .. }
        | JobOutcome::NotStarted { reason, .. } => End::Discarded { reason: reason.clone() },
        JobOutcome::Done { .. } | JobOutcome::Probed { .. } => {
            End::Discarded { reason: "it leaves nothing".into() }
        }
    }
}

/// The changed paths that no worker may change (D21).
pub(super) fn protected(patterns: &[String], changed: &[String]) -> Vec<String> {
    // The settings confine workers: a worker that could change them could open the next one's cage.
    let own = settings::FILE.to_owned();
    let patterns = patterns.iter().chain([&own]);
    let patterns: Vec<Pattern> = patterns.filter_map(|pattern| Pattern::read(pattern).ok()).collect();
    let touched = changed.iter().filter(|path| patterns.iter().any(|pattern| pattern.matches(path)));
    touched.cloned().collect()
}

pub(super) fn first_artifacts(mut paths: Vec<String>) -> Vec<String> {
    paths.truncate(MOST_ARTIFACTS);
    paths
}

fn last_line(output: &Captured) -> String {
    let (head, tail) = output.parts();
    let text = String::from_utf8_lossy(if tail.is_empty() { &head } else { &tail }).into_owned();
    let lines = text.lines().rev().map(|line| short_line(line).trim().to_owned());
    cut(&lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE_KEPT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
