//! `aot pr`: from a loop that is done to a draft pull request, when a person says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_core::state::Span;
use aot_runner::checks::quoted;
use aot_runner::hosting::{Draft, HostProgram, Hosting, OpenedDraft, PushTarget};
use aot_runner::plain_file;
use aot_runner::process::Guard;
use aot_runner::tree::{self, Delivery};
use clap::Args;
use serde_json::json;

use super::{Invocation, Verb, report, workspace};
use crate::failure::{Failure, FailureKind};
use crate::place;
use crate::print::{self, Answer, OutputFormat};
use crate::screens::report::{LoopReport, markdown};
use crate::terminal;
use crate::text;

/// The body of the request, below the sidecar.
const BODY: &str = "pull-request.md";

/// How long git and the host's program may take together.
const LIMIT: Span = Span::from_seconds(600);

/// The name of a branch is cut at this many characters.
const SLUG: usize = 48;

/// Push the work and open a draft pull request, with the report as its text
///
/// The branch of `aot run --branch` is pushed as it is. Work that landed on the branch that is checked out gets a branch of its own
/// (`aot/…`) that ends with it. `gh` or `glab` opens the draft if it is here and logged in; without them the branch is pushed and
/// the text is in a file. The default branch of the remote is never pushed to, and nothing is forced.
#[derive(Debug, Args)]
pub struct PrArgs {
    /// Push without being asked
    #[arg(long, short)]
    yes: bool,
    /// The remote (default: the one that the branch follows, or the only one)
    #[arg(long, value_name = "NAME")]
    remote: Option<String>,
    /// The branch that it is to go into (default: the default branch of the remote)
    #[arg(long, value_name = "BRANCH")]
    base: Option<String>,
    /// Also if the loop is not done: the text says that nothing is proven
    #[arg(long)]
    force: bool,
    /// How long git and the program of the host may take
    #[arg(long, value_name = "SPAN", default_value_t = LIMIT, value_parser = span)]
    timeout: Span,
}

/// What is going to be pushed, and where.
struct PushPlan {
    /// The branch that is there; otherwise one that is made, whose name may still get a number.
    branch: String,
    way: PushWay,
    commits: usize,
    target: PushTarget,
    base: Option<String>,
    program: Option<HostProgram>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PushWay {
    /// The branch that the loop made.
    AsItIs,
    /// Another one that ends with the work, because the work is on the branch of the person.
    NewBranch,
}

impl Verb for PrArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let mut store = invocation.store()?;
        let project = workspace::project(&invocation.path()?)?;
        let report = report::gather(&mut store, &project)?;
        let delivery = self.wanted(&report)?;
        let guard = Guard::new(place::this_program()?);
        let limit = Duration::from_secs(self.timeout.seconds());
        let hosting = Hosting::new(&guard, &project.root, limit);
        let is_own = store.load()?.1.control.branch.as_ref() == Some(&delivery.branch);
        let plan = self.plan(&hosting, &report, delivery, is_own)?;
        if !self.is_agreed(invocation, &plan, &report)? {
            print::line("nothing was pushed");
            return Ok(Answer::printed().with_exit(1));
        }
        let branch = match plan.way {
            PushWay::AsItIs => plan.branch.clone(),
            PushWay::NewBranch => {
                let made = tree::branch_at(&project, &plan.branch, &delivery.tip, &guard)?;
                made.ok_or_else(|| {
                    Failure::refused("no_branch", format!("no name like {} is free", plan.branch))
                })?
            }
        };
        let body = markdown(&report);
        let file = project.sidecar.join(BODY);
        plain_file::write(&file, body.as_bytes())
            .map_err(|error| Failure::world(&format!("write {}", file.display()), error))?;
        let hosting = hosting.afresh();
        hosting.push(&plan.target, &branch)?;
        let draft = Draft {
            branch: &branch,
            base: plan.base.as_deref(),
            title: &report.title(),
            body: &body,
            body_file: &file,
        };
        let opened = plan.program.map(|program| (program, hosting.draft(program, &draft)));
        let handed = HandedOver { plan: &plan, branch: &branch, delivery, file: &file };
        match opened {
            Some((program, Ok(address))) => Ok(handed.opened(program, &address)),
            Some((program, Err(error))) => Err(Failure::refused(
                "no_request",
                format!(
                    "{branch} is pushed to {}, but there is no {}: {error}",
                    plan.target.remote,
                    program.request()
                ),
            )
            .with_hint(format!("open it by hand: {}", program.to_type(&branch, &shown(&file))))),
            None => Ok(handed.pushed()),
        }
    }
}

impl PrArgs {
    /// The work, if it may be handed over.
    fn wanted<'r>(&self, report: &'r LoopReport) -> Result<&'r Delivery, Failure> {
        let standing = &report.standing;
        if !standing.is_proven && !self.force {
            let message =
                format!("the loop is not done ({}): its work is not proven", standing.word.to_lowercase());
            return Err(Failure::new(FailureKind::NotReady, "not_done", message).with_hint(
                "`aot run` goes on; `aot pr --force` hands it over, and says that it is not proven",
            ));
        }
        report.delivery.as_ref().ok_or_else(|| {
            let why =
                report.missing.last().cloned().unwrap_or_else(|| "it landed no commit on a branch".into());
            Failure::refused("nothing_landed", format!("there is no work of this loop to push: {why}"))
                .with_hint("`aot report` says what is known of it")
        })
    }

    fn plan(
        &self,
        hosting: &Hosting<'_>,
        report: &LoopReport,
        delivery: &Delivery,
        is_own: bool,
    ) -> Result<PushPlan, Failure> {
        let target = hosting.target(self.remote.as_deref(), &[&delivery.branch])?;
        let (branch, way) = match is_own {
            true => (delivery.branch.clone(), PushWay::AsItIs),
            false => (slug(&report.goal, report.loop_id.as_deref()), PushWay::NewBranch),
        };
        let base = self.base.clone().or_else(|| target.default_branch.clone());
        if [target.default_branch.as_ref(), base.as_ref()].contains(&Some(&branch)) {
            let message =
                format!("{branch} is the default branch of {}: aot does not push to it", target.remote);
            return Err(Failure::refused("default_branch", message).with_hint(format!(
                "push the work under another name: git push {} {branch}:NAME",
                target.remote
            )));
        }
        let program = hosting.program(&target);
        Ok(PushPlan { branch, way, commits: delivery.count, target, base, program })
    }

    fn is_agreed(
        &self,
        invocation: &Invocation,
        plan: &PushPlan,
        report: &LoopReport,
    ) -> Result<bool, Failure> {
        if invocation.format == OutputFormat::Text {
            page(plan, report).iter().for_each(|line| print::line(line));
        }
        if self.yes {
            return Ok(true);
        }
        if invocation.format == OutputFormat::Text && terminal::is_interactive() {
            return Ok(terminal::says_yes("\nPush it?"));
        }
        Err(Failure::new(FailureKind::Usage, "no_yes", "needs confirmation")
            .with_hint("pass `--yes`, or run it in a terminal"))
    }
}

fn span(given: &str) -> Result<Span, String> {
    Span::parse(given).filter(|span| span.seconds() > 0).ok_or_else(|| "it is like `90s` or `10m`".to_owned())
}

/// `aot/let-it-build`, from the first words of the goal.
fn slug(goal: &str, loop_id: Option<&str>) -> String {
    let mut slug = String::new();
    for c in goal.lines().next().unwrap_or_default().chars() {
        match c {
            c if c.is_ascii_alphanumeric() => slug.push(c.to_ascii_lowercase()),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let cut =
        slug.get(..SLUG).map_or(slug.as_str(), |cut| cut.rsplit_once('-').map_or(cut, |(words, _)| words));
    let name = cut.trim_end_matches('-');
    match (name, loop_id) {
        ("", None) => "aot/loop".to_owned(),
        ("", Some(id)) => {
            format!("aot/{}", id.chars().filter(char::is_ascii_alphanumeric).collect::<String>())
        }
        (name, _) => format!("aot/{name}"),
    }
}

fn page(plan: &PushPlan, report: &LoopReport) -> Vec<String> {
    let PushTarget { remote, address, .. } = &plan.target;
    let commits = text::counted(plan.commits as u64, "commit");
    let mut lines = vec![format!("pushes {} ({commits})", plan.branch)];
    if let (PushWay::NewBranch, Some(branch)) = (plan.way, &report.branch) {
        lines.push(format!("       a new branch that ends with the work on {branch}; {branch} is not moved"));
    }
    lines.push(format!("to     {remote}, {address}"));
    lines.push(match (plan.program, &plan.base) {
        (Some(program), Some(base)) => {
            format!("opens  a draft {} into {base}, by {}", program.request(), program.name())
        }
        (Some(program), None) => format!("opens  a draft {}, by {}", program.request(), program.name()),
        (None, _) => "opens  nothing: neither gh nor glab is here and logged in".to_owned(),
    });
    if !report.standing.is_proven {
        lines.push(format!(
            "the loop is not done ({}): the text says that nothing is proven",
            report.standing.word.to_lowercase()
        ));
    }
    lines.iter().map(|line| text::fit(line, terminal::page_columns())).collect()
}

/// Work that was pushed.
struct HandedOver<'h> {
    plan: &'h PushPlan,
    branch: &'h str,
    delivery: &'h Delivery,
    file: &'h Path,
}

impl HandedOver<'_> {
    fn opened(&self, program: HostProgram, draft: &OpenedDraft) -> Answer {
        let (address, what) = match draft {
            OpenedDraft::New(address) => (address, format!("opened a draft {}", program.request())),
            OpenedDraft::BeforeAlready(address) => (
                address,
                format!("the branch has a {} already, which has the new commits now", program.request()),
            ),
        };
        let told = format!("{what}: {address}{}", self.left_behind());
        Answer::new(told, self.object(Some(program), Some(address)))
    }

    fn pushed(&self) -> Answer {
        let file = shown(self.file);
        let to_type = [HostProgram::Gh, HostProgram::Glab].map(|program| program.to_type(self.branch, &file));
        let told = format!(
            "pushed {} to {}\nno {}: neither gh nor glab is here and logged in. Its text is in {file}\nopen it on the page of the \
             host, or type one of:\n  {}\n  {}{}",
            self.branch,
            self.plan.target.remote,
            HostProgram::Gh.request(),
            to_type[0],
            to_type[1],
            self.left_behind()
        );
        Answer::new(told, self.object(None, None))
    }

    /// The branch of the person has the commits too.
    fn left_behind(&self) -> String {
        let Delivery { branch, base, is_alone, .. } = self.delivery;
        match (self.plan.way, base) {
            (PushWay::AsItIs, _) => String::new(),
            (PushWay::NewBranch, Some(base)) if *is_alone => {
                format!(
                    "\n{branch} still has the commits; to take them off it: git reset --keep {}",
                    &base[..10]
                )
            }
            (PushWay::NewBranch, _) => {
                format!(
                    "\n{branch} still has the commits; to take them back on it: aot undo --branch {}",
                    quoted(branch)
                )
            }
        }
    }

    fn object(&self, program: Option<HostProgram>, address: Option<&str>) -> serde_json::Value {
        json!({
            "success": true,
            "branch": self.branch,
            "made": self.plan.way == PushWay::NewBranch,
            "remote": self.plan.target.remote,
            "base": self.plan.base,
            "commits": self.plan.commits,
            "opened_by": program.map(HostProgram::name),
            "address": address,
            "text": self.file,
        })
    }
}

/// A path from where we are, if it is shorter.
fn shown(file: &Path) -> String {
    let here = place::here()
        .and_then(|here| here.canonicalize().map_err(|error| Failure::world("look here", error)));
    let near: Option<PathBuf> =
        here.ok().and_then(|here| file.strip_prefix(here).ok().map(Path::to_path_buf));
    near.as_deref().unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn a_branch_is_named_after_the_goal() {
        for (goal, expected) in [
            ("Fix the failing tests", "aot/fix-the-failing-tests"),
            ("  Größe: 3 × 4?\nand more", "aot/gr-e-3-4"),
            ("../../etc; rm -rf ~ && --force", "aot/etc-rm-rf-force"),
            (
                "Let every request of every user be answered within a second",
                "aot/let-every-request-of-every-user-be-answered",
            ),
            ("日本語", "aot/l1"),
        ] {
            assert_eq!(slug(goal, Some("l-1")), expected, "{goal}");
        }
        assert_eq!(slug("", None), "aot/loop");
    }
}
