//! `aot log`: what happened, as the journal tells it. Needs no state that can be read.

use std::num::NonZeroUsize;

use aot_core::rules::Change;
use aot_core::state::AtomId;
use aot_runner::agents::{SavedTranscript, transcripts_of};
use aot_runner::store::journal::{Before, Entry};
use aot_runner::tree::{self, KeptWork};
use clap::Args;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::{Invocation, workspace};
use crate::failure::{self, Failure};
use crate::print::OutputFormat;
use crate::print::{self, Stream};
use crate::screens::ink::{Ink, Paint};
use crate::screens::log::{draw, draw_atom, draw_kept, is_about, is_told};
use crate::screens::words::told;

#[derive(Debug, Args)]
pub struct LogArgs {
    /// How many of the newest entries
    #[arg(short, value_name = "N", default_value = "20")]
    number: NonZeroUsize,
    /// Only what happened to this atom, attempt by attempt, with what its agents did; `replan` and `base-case` for those
    /// that were asked about the whole
    #[arg(value_name = "ATOM")]
    about: Option<String>,
    /// The same
    #[arg(long, value_name = "ID", conflicts_with = "about", hide = true)]
    atom: Option<String>,
    /// Show what the agents were told, too
    #[arg(long)]
    briefs: bool,
}

pub fn run(invocation: &Invocation, args: &LogArgs) -> Result<(), Failure> {
    let store = invocation.store()?;
    let atom = args.about.as_deref().or(args.atom.as_deref()).map(AtomId::new);
    let is_wanted = |entry: &Entry<Change>| match (&atom, invocation.format) {
        (Some(atom), _) => is_about(entry, atom),
        (None, OutputFormat::Text) => is_told(entry),
        (None, OutputFormat::Json) => true,
    };
    let newest = store.journal().newest_where(args.number.get(), is_wanted)?;
    let kept = kept(invocation, atom.as_ref())?;
    let agents = match &atom {
        Some(atom) => transcripts_of(&workspace::project(&invocation.path()?)?.sidecar, atom.as_str()),
        None => Vec::new(),
    };
    if invocation.format == OutputFormat::Json {
        let entries = newest.entries.iter().filter(|entry| is_wanted(entry));
        print::json(&json!({
            "entries": entries.map(object).collect::<Vec<Value>>(),
            "journal": store.journal().is_there(),
            "earlier": newest.before == Before::More,
            "unreadable": newest.unreadable,
            "kept": kept.iter().map(kept_object).collect::<Vec<Value>>(),
            "agents": agents.iter().map(transcript_object).collect::<Vec<Value>>(),
        }));
        return Ok(());
    }
    let (ink, zone) = (Ink::of(Stream::Out), TimeZone::system());
    let page = match &atom {
        // Whoever deletes it loses the history and nothing else (D32).
        _ if !store.journal().is_there() => {
            "there is no journal: nothing was changed through aot, or its folder was deleted".into()
        }
        Some(_) if !newest.entries.iter().any(is_wanted) && !agents.is_empty() => String::new(),
        Some(atom) if !newest.entries.iter().any(is_wanted) => {
            format!("the journal tells nothing about {atom}")
        }
        None if !newest.entries.iter().any(is_wanted) => "the journal tells nothing yet".into(),
        Some(atom) => draw_atom(&newest, atom, &zone, ink),
        None => draw(&newest, &zone, ink),
    };
    if !page.trim_end().is_empty() {
        print::line(page.trim_end());
    }
    for agent in &agents {
        print::line(&format!("\n{}", ink.paint(Paint::Bold, &agent.title)));
        if args.briefs {
            print::line(&format!("{}\n", agent.brief));
        }
        agent.run.lines().for_each(|line| print::line(&print::plain(line)));
    }
    print::out(|stdout| write!(stdout, "{}", draw_kept(&kept, args.number.get(), ink)));
    Ok(())
}

/// The work of attempts that did not land.
fn kept(invocation: &Invocation, atom: Option<&AtomId>) -> Result<Vec<KeptWork>, Failure> {
    let project = workspace::project(&invocation.path()?)?;
    let mut kept = match tree::kept(&project, None) {
        Ok(kept) => kept,
        // Without git there is nothing to tell; the journal is told all the same.
        Err(error) => {
            failure::complain(&format!("warning: {error}"));
            Vec::new()
        }
    };
    kept.retain(|work| atom.is_none_or(|atom| work.atom == *atom));
    Ok(kept)
}

fn transcript_object(kept: &SavedTranscript) -> Value {
    let SavedTranscript { path, title, brief, run } = kept;
    json!({"path": path, "title": title, "brief": brief, "run": run})
}

fn kept_object(work: &KeptWork) -> Value {
    let KeptWork { atom, attempt, reference, at, reason } = work;
    json!({"atom": atom, "attempt": attempt, "ref": reference, "at": at.to_string(), "reason": reason})
}

fn object(entry: &Entry<Change>) -> Value {
    let told: Vec<String> = entry.changes.iter().filter_map(|change| told(change, &entry.changes)).collect();
    json!({"revision": entry.revision, "at": entry.at, "told": told, "changes": entry.changes})
}
