//! The evaluation of the base case: on what is committed, with the files as they were agreed on. Does not decide what
//! follows.

use std::io;
use std::time::{Duration, Instant};

use aot_core::coordinator::{self, Event, Usage};
use aot_core::state::State;
use aot_core::verdict::{Jobs, Verdict};
use jiff::Timestamp;

use super::ScoreSource;
use super::meter::Meter;
use super::workers::Workers;
use crate::checks::facts::has_begun;
use crate::checks::seal::{self, Altered, Seal};
use crate::checks::{Checker, Evaluation, Occasion, Progress, Whose};
use crate::message::{Message, Notice};
use crate::process::{Guard, Switch};
use crate::tree::{GroundError, Project, Tree};

/// Another loop that is landing in the same checkout may take so long.
const OTHER_LANDING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// How many paths a sentence names.
const PATHS_NAMED: usize = 5;

/// Why there is no verdict.
enum NotEvaluated {
    Tampered(Vec<Altered>),
    Lost(String),
}

/// What the checks could see and no commit has.
struct Uncommitted {
    /// Tracked files.
    edited: Vec<String>,
    /// Files that git does not ignore.
    untracked: Vec<String>,
}

impl From<GroundError> for NotEvaluated {
    fn from(error: GroundError) -> NotEvaluated {
        NotEvaluated::Lost(error.to_string())
    }
}

impl Workers {
    pub(super) fn verify(&self, number: u32, state: &State, switch: &Switch) {
        let _branch = self.branch_lock();
        let _tree = self.lock_shared_tree();
        let meter = Meter::default();
        let message = match self.evaluate(number, state, switch, &meter) {
            Ok((evaluation, Uncommitted { edited: uncommitted, untracked })) => {
                let unjudged = match self.config.scores {
                    ScoreSource::Nowhere => Vec::new(),
                    ScoreSource::HandedIn => evaluation.unjudged(),
                };
                let notice = Notice::Verified {
                    verdict: evaluation.verdict,
                    red: evaluation.in_the_way(),
                    unjudged: unjudged.clone(),
                    untracked: if evaluation.verdict == Verdict::Passed { untracked } else { Vec::new() },
                    took: evaluation.took,
                };
                let evaluation = match on_committed(&evaluation, &uncommitted) {
                    // Whoever coordinates has it judged and goes on.
                    coordinator::Evaluation::Pending { items: red } if !unjudged.is_empty() => {
                        coordinator::Evaluation::Failed { red }
                    }
                    evaluation => evaluation,
                };
                let event = Event::Verified { number, evaluation, usage: meter.take() };
                Message::Evaluation { number, notice, event: Some(event) }
            }
            Err(NotEvaluated::Tampered(altered)) => {
                let event = Event::Tampered { what: seal::describe(&altered) };
                Message::Evaluation { number, notice: Notice::Tampered { altered }, event: Some(event) }
            }
            Err(NotEvaluated::Lost(reason)) => lost(number, reason),
        };
        self.send(message);
    }

    /// The evaluation, and what it saw that is in no commit.
    fn evaluate(
        &self,
        number: u32,
        state: &State,
        switch: &Switch,
        meter: &Meter,
    ) -> Result<(Evaluation, Uncommitted), NotEvaluated> {
        let project = self.ground.verify_in(&self.config.project)?;
        let seal = Seal::of(&state.objective, &project.root)
            .map_err(|error| NotEvaluated::Lost(format!("the protected files cannot be read: {error}")))?;
        let agreed = state.control.fingerprint.as_ref();
        let altered = agreed.map(|agreed| seal.altered(agreed, &project)).unwrap_or_default();
        if !altered.is_empty() {
            return Err(NotEvaluated::Tampered(altered));
        }
        let guard = self.config.guard.under(switch);
        // Before the checks run, which may leave files behind.
        let (tree, edited) = self.look(&project, &guard, switch)?;
        let uncommitted = Uncommitted { edited, untracked: self.ground.untracked(&tree)? };
        let Some(checks) = &state.objective.base_case else {
            return Err(NotEvaluated::Lost("there is no base case".into()));
        };
        let mut on = |progress: Progress<'_>| {
            if let Progress::Ended { leaf, outcome, .. } = progress {
                let notice = Notice::Checked { item: leaf.name.clone(), outcome };
                self.send(Message::Evaluation { number, notice, event: None });
            }
        };
        let area = self.area_of_base_case(&project.root);
        let confined = self.config.confinement.confine(&self.config.project, area).map_err(|error| {
            NotEvaluated::Lost(format!("a folder for temporary files cannot be made: {error}"))
        })?;
        let confined = confined.with_variables(self.ground.variables_of_checkout());
        let wall = Duration::from_secs(state.constraints().agent_timeout().seconds().max(1));
        let evaluated = self.with_judge(switch, meter, format!("base-case-{number}"), wall, |judge| {
            let checker = Checker {
                project: &project,
                guard: &guard,
                judge,
                jobs: Jobs::default(),
                confined: &confined,
            };
            let decides = (Whose::BaseCase, Occasion::Decide);
            checker.evaluate_on(&tree, state, checks, decides, Timestamp::now(), &mut on)
        });
        self.ground.after_checks()?;
        self.pass_on_notes();
        if switch.is_off() {
            return Err(NotEvaluated::Lost("it was killed".into()));
        }
        let evaluation = evaluated.map_err(unseen)?;
        if !has_begun(state) {
            self.name_timeouts(&evaluation);
        }
        Ok((evaluation, uncommitted))
    }

    /// Without any work done, a check that uses up its time is more likely slow than red.
    fn name_timeouts(&self, evaluation: &Evaluation) {
        let seen = evaluation.sheet.leaves.iter().zip(&evaluation.seen);
        for (leaf, _) in seen.filter(|(_, (_, evidence))| evidence.out_of_time) {
            self.note(format!(
                "`{}` used up its time before any work was done; `aot redirect --check-timeout 30m` gives checks more",
                leaf.name
            ));
        }
    }

    /// The project's files as they are now, and which edits of them stay.
    fn look(
        &self,
        project: &Project,
        guard: &Guard,
        switch: &Switch,
    ) -> Result<(Tree, Vec<String>), NotEvaluated> {
        let tree = Tree::of(project, guard).map_err(unseen)?;
        if self.ground.is_surely_committed(&tree)? {
            return Ok((tree, Vec::new()));
        }
        let edited = self.uncommitted(switch)?;
        Ok((Tree::of(project, guard).map_err(unseen)?, edited))
    }

    /// Edits that stay. Those of another loop that is landing in the same checkout are committed in a moment.
    fn uncommitted(&self, switch: &Switch) -> Result<Vec<String>, GroundError> {
        let began = Instant::now();
        loop {
            let paths = self.ground.uncommitted()?;
            if paths.is_empty() || began.elapsed() > OTHER_LANDING || switch.is_off() {
                return Ok(paths);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn unseen(error: io::Error) -> NotEvaluated {
    NotEvaluated::Lost(format!("the project's files cannot be looked at: {error}"))
}

pub(super) fn lost(number: u32, reason: String) -> Message {
    let notice = Notice::note(format!("the evaluation got lost: {reason}"));
    let evaluation = coordinator::Evaluation::Lost { reason };
    let event = Event::Verified { number, evaluation, usage: Usage::default() };
    Message::Evaluation { number, notice, event: Some(event) }
}

/// What an evaluation means for the loop. It holds only on what is committed (D20).
fn on_committed(evaluation: &Evaluation, uncommitted: &[String]) -> coordinator::Evaluation {
    let red = evaluation.in_the_way();
    match evaluation.verdict {
        Verdict::Passed if !uncommitted.is_empty() => {
            let named = uncommitted.iter().take(PATHS_NAMED).cloned().collect::<Vec<_>>().join(", ");
            let reason = format!("all checks pass, but not on what is committed: commit or undo {named}");
            coordinator::Evaluation::Prevented { reason }
        }
        Verdict::Passed => coordinator::Evaluation::Passed,
        Verdict::Failed => coordinator::Evaluation::Failed { red },
        Verdict::Pending => coordinator::Evaluation::Pending { items: red },
        Verdict::Error => coordinator::Evaluation::Error { items: red },
    }
}
