//! `aot undo`: takes back all that a loop has landed, when a person says so.

use aot_core::rules::Refusal;
use aot_core::rules::redirect::take_back;
use aot_core::verdict::Jobs;
use aot_runner::driver;
use aot_runner::tree::{Undo, UndoPlan, UndoWay, Undone};
use clap::Args;
use serde_json::json;

use super::workspace::Workspace;
use super::{Invocation, Verb, recorded_answer, session};
use crate::failure::{Failure, FailureKind};
use crate::print::{self, Answer, OutputFormat};
use crate::terminal;
use crate::text;

/// So many commits are named before the question.
const SHOWN: usize = 12;

/// Take back all that the loop has landed
///
/// By a revert commit for each of its commits, the newest first. A branch that was made with `aot run --branch` and has nothing
/// else on it goes back to where it began. Commits of yours stay. Where there is no git, the files are as they were before the
/// loop, but for what you changed elsewhere. If something is in the way, nothing is changed. The atoms are open again
/// afterwards: `aot run` does them again.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Take it back without being asked
    #[arg(long, short)]
    yes: bool,
    /// The branch to take it back on (default: the one that is checked out, or else the one that the loop lands on)
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
}

impl Verb for UndoArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let mut store = invocation.store()?;
        let lock = driver::acquire(store.file().home())?;
        session::check_free(store.load()?.1)?;
        let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
        let undo = workspace.undo(store.load()?.1, self.branch.as_deref())?;
        if !self.is_agreed(invocation, undo.plan())? {
            print::line("nothing was taken back");
            return Ok(Answer::printed().with_exit(1));
        }
        let plan = undo.plan().clone();
        let undone = Undo::perform(undo)?;
        let description = format!("undone: {}", told(&plan));
        let recorded = store.change("take the work back", jiff::Timestamp::now(), |ledger| {
            take_back(ledger, description.clone());
            Ok::<(), Refusal>(())
        })?;
        drop(lock);
        let object = json!({"undo": plan, "before": undone.before, "now": undone.now});
        Ok(recorded_answer(&recorded, done(&plan, &undone), object))
    }
}

impl UndoArgs {
    fn is_agreed(&self, invocation: &Invocation, plan: &UndoPlan) -> Result<bool, Failure> {
        if invocation.format == OutputFormat::Text {
            page(plan).iter().for_each(|line| print::line(line));
        }
        if self.yes {
            return Ok(true);
        }
        if invocation.format == OutputFormat::Text && terminal::is_interactive() {
            return Ok(terminal::says_yes("\nTake it back?"));
        }
        Err(Failure::new(FailureKind::Usage, "no_yes", "needs confirmation")
            .with_hint("pass `--yes`, or run it in a terminal"))
    }
}

fn page(plan: &UndoPlan) -> Vec<String> {
    let how = match plan.way {
        UndoWay::Revert => "with a revert commit for each".to_owned(),
        UndoWay::Reset => format!("by moving {} back: nothing else is on it", branch_of(plan)),
        UndoWay::InPlace => "in the files of the project; edits of yours elsewhere stay".to_owned(),
    };
    let mut lines = vec![format!("takes back {}, {how}", told(plan))];
    for one in plan.commits.iter().take(SHOWN) {
        let line = format!("  {}  {}  {}", &one.commit[..7], one.atom, one.subject);
        lines.push(text::fit(&line, terminal::page_columns()));
    }
    if plan.commits.len() > SHOWN {
        lines.push(format!("  and {} more", plan.commits.len() - SHOWN));
    }
    lines
}

/// `3 commits on main`.
fn told(plan: &UndoPlan) -> String {
    let count = plan.commits.len() as u64;
    match &plan.branch {
        Some(branch) => format!("{} on {branch}", text::counted(count, "commit")),
        None => format!("{} in place", text::counted(count, "change")),
    }
}

fn branch_of(plan: &UndoPlan) -> &str {
    plan.branch.as_deref().unwrap_or_default()
}

fn done(plan: &UndoPlan, undone: &Undone) -> String {
    let (branch, before) = (branch_of(plan), &undone.before[..7]);
    match plan.way {
        UndoWay::Revert => format!("undone: {}; before it, {branch} was at {before}", told(plan)),
        UndoWay::Reset => format!("undone: {}; `git branch -f {branch} {before}` brings it back", told(plan)),
        UndoWay::InPlace => format!("undone: {}", told(plan)),
    }
}
