//! `aot report`: a night's work for whoever accepts it, as one file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aot_core::rules::Change;
use aot_runner::checks::kept::Kept;
use aot_runner::plain_file;
use aot_runner::process::Guard;
use aot_runner::store::Store;
use aot_runner::store::journal::JournalEntry;
use aot_runner::tree::{self, Project};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::{Invocation, Verb, workspace};
use crate::failure::Failure;
use crate::place;
use crate::print::{Answer, OutputFormat};
use crate::screens::log::beginning;
use crate::screens::report::{LoopReport, MARK, ReportSources, html, markdown};
use crate::text;

/// The file below the sidecar that is written unless the user names one. There it is in nobody's way: it is no file of the
/// project, so it neither shows in git nor changes what checks and confirmations were seen on.
const DEFAULT: &str = "report.html";

/// A file is known as one of ours by its first bytes.
const HEAD: u64 = 512;

/// Files that are longer are not read to find out whose they are.
const LONGEST: u64 = 64 << 20;

/// Write a report for whoever accepts the work: evidence, graph, who ran when, failures, cost, commits
///
/// One HTML file that loads nothing and runs nothing. `--markdown` prints it for a pull request, `--json` as an object.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Where it is written (default: `.claude/aot/report.html`); `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print Markdown, for a pull request
    #[arg(long)]
    markdown: bool,
    /// Replace a file that is no report
    #[arg(long)]
    force: bool,
}

impl Verb for ReportArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let mut store = invocation.store()?;
        let project = workspace::project(&invocation.path()?)?;
        let report = gather(&mut store, &project)?;
        if invocation.format == OutputFormat::Json && self.out.is_none() {
            return Ok(Answer::new("", json!(report)));
        }
        let text = if self.markdown { markdown(&report) } else { html(&report, &TimeZone::system()) };
        let file = match &self.out {
            None if self.markdown => return Ok(Answer::new(text, json!(null))),
            Some(file) if file == Path::new("-") => return Ok(Answer::new(text, json!(report))),
            Some(file) => file.clone(),
            None => project.sidecar.join(DEFAULT),
        };
        if place::is_in_job() {
            let message = "this was started by aot as a part of a loop: it may look, but not write a report";
            return Err(Failure::refused("not_a_person", message).with_hint("print it: aot report --out -"));
        }
        self.write(&file, &text)?;
        let named = file.display().to_string();
        let object = json!({"report": named, "bytes": text.len(), "proven": report.standing.is_proven});
        Ok(Answer::new(told(&named, &report, self.markdown), object))
    }
}

impl ReportArgs {
    fn write(&self, file: &Path, text: &str) -> Result<(), Failure> {
        let named = file.display().to_string();
        let world = |error: std::io::Error| Failure::world(&format!("write {named}"), error);
        if !self.force && !is_ours(file).map_err(world)? {
            let message = format!("{named} is there, and is no report of aot");
            return Err(
                Failure::refused("not_a_report", message).with_hint("name another file, or pass --force")
            );
        }
        plain_file::write(file, text.as_bytes()).map_err(world)
    }
}

/// Whether it may be replaced: it is a report, or is not there.
fn is_ours(file: &Path) -> std::io::Result<bool> {
    match plain_file::read(file, LONGEST) {
        Ok(bytes) => {
            let head = &bytes[..bytes.len().min(HEAD as usize)];
            Ok(bytes.is_empty() || String::from_utf8_lossy(head).contains(MARK))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn told(named: &str, report: &LoopReport, is_markdown: bool) -> String {
    let (passed, all) = report.passed();
    let open = if is_markdown { "" } else { "\nopen it in a browser: it needs no network" };
    format!(
        "wrote {named}: {}, {passed} of {} passed{open}",
        report.standing.word,
        text::counted(all as u64, "check")
    )
}

/// All that is known of the loop. What cannot be found out is said in the report.
pub(super) fn gather(store: &mut Store, project: &Project) -> Result<LoopReport, Failure> {
    let mut missing = Vec::new();
    let journal = store.journal();
    let mut newest = journal.newest_where(usize::MAX, |_: &JournalEntry<Change>| true)?;
    newest.entries.drain(..beginning(&newest.entries).unwrap_or(0));
    let names = |change: &Change| matches!(change, Change::LoopNamed { .. });
    if !journal.is_there() {
        missing.push(
            "There is no journal: attempts, times and runs of agents are not known. It was deleted, or nothing was \
             changed through aot yet."
                .to_owned(),
        );
    } else if !newest.entries.iter().any(|entry| entry.changes.iter().any(names)) {
        missing.push(
            "The journal does not reach back to the beginning of the loop: what is older is not in this report."
                .to_owned(),
        );
    }
    if newest.unreadable > 0 {
        let lines = text::counted(newest.unreadable as u64, "line");
        missing.push(format!("{lines} of the journal cannot be read by this aot."));
    }
    let evidence = Kept::of(project).lines();
    let driver = aot_runner::driver::holder(store.file().home());
    let guard = Guard::new(place::this_program()?);
    let (_, state) = store.load()?;
    let (branch, id) =
        (state.control.branch.as_deref(), state.control.loop_id.as_deref().unwrap_or_default());
    let delivery = match tree::delivered(project, branch, id, &guard) {
        Ok(delivery) => delivery,
        Err(error) => {
            missing.push(format!("The commits are not known: {error}."));
            None
        }
    };
    if delivery.is_none() && state.bindings.values().any(|binding| binding.commit.is_some()) {
        missing.push(
            "The commits of the loop are on no branch that is known here: merged, taken back, or gone."
                .into(),
        );
    }
    let name = project.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(LoopReport::of(ReportSources {
        state,
        entries: &newest.entries,
        evidence: &evidence,
        delivery,
        missing,
        project: &name,
        driver,
        now: Timestamp::now(),
    }))
}
