//! `aot log`: what happened, as the journal tells it. Needs no state that can be read.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aot_core::rules::{Change, Refusal};
use aot_core::state::{Atom, AtomId};
use aot_runner::agents::{SavedTranscript, transcripts_of};
use aot_runner::checks::kept::Kept;
use aot_runner::live::{ChangePoll, LiveReader};
use aot_runner::process::Guard;
use aot_runner::store::journal::{Before, JournalEntry};
use aot_runner::tree::{self, KeptWork};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Invocation, Verb, workspace};
use crate::failure::Failure;
use crate::place;
use crate::print::{self, Answer, OutputFormat};
use crate::screens::clock;
use crate::screens::ink::{Ink, Paint};
use crate::screens::log::{beginning, draw, draw_atom, draw_kept, draw_more, is_about, is_shown};
use crate::screens::trace::{RecordedLoop, draw as draw_trace, otlp};
use crate::screens::words::sentence;
use crate::terminal::Stream;
use crate::text;

/// How many entries are shown, unless the user says otherwise.
const NUMBER: NonZeroUsize = NonZeroUsize::new(20).expect("it is not zero");

/// A log that is followed looks at least so often whether anybody reads it.
const IDLE: Duration = Duration::from_secs(5);

/// Show what happened, newest last
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct LogArgs {
    /// How many of the newest entries
    #[arg(short, value_name = "N", default_value_t = NUMBER)]
    #[serde(default = "number")]
    number: NonZeroUsize,
    /// Only what happened to this atom, attempt by attempt, with what its agents did; `replan` and `base-case` for those
    /// that were asked about the whole
    #[arg(value_name = "ATOM")]
    #[serde(rename = "atom")]
    about: Option<String>,
    /// The same
    #[arg(long, value_name = "ID", conflicts_with = "about", hide = true)]
    #[serde(skip)]
    atom: Option<String>,
    /// Show what the agents were told, too
    #[arg(long)]
    #[serde(skip)]
    briefs: bool,
    /// Go on with what happens next, until Ctrl-C; for an atom, with what its agents do
    #[arg(long, short)]
    #[serde(skip)]
    follow: bool,
    /// Write the loop as a Chrome trace, which ui.perfetto.dev opens: attempts, checks, iterations and waits over time; `-`
    /// for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["about", "atom", "briefs", "number", "follow"])]
    #[serde(skip)]
    trace: Option<PathBuf>,
    /// Write the loop as OpenTelemetry spans (OTLP as JSON), which a collector takes; `-` for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["about", "atom", "briefs", "number", "follow", "trace"])]
    #[serde(skip)]
    otlp: Option<PathBuf>,
}

fn number() -> NonZeroUsize {
    NUMBER
}

impl Verb for LogArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        if let Some(file) = &self.trace {
            return trace(invocation, file, TraceForm::Chrome);
        }
        if let Some(file) = &self.otlp {
            return trace(invocation, file, TraceForm::OpenTelemetry);
        }
        if self.follow {
            self.so_far(invocation)?.print(invocation.format);
            return self.follow(invocation);
        }
        self.so_far(invocation)
    }
}

impl LogArgs {
    fn atom(&self) -> Option<AtomId> {
        self.about.as_deref().or(self.atom.as_deref()).map(AtomId::new)
    }

    /// What happens from now on, as it happens. Ends with its reader.
    fn follow(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let store = invocation.store()?;
        let (home, journal) = (store.file().home(), store.journal());
        let (atom, ink, zone) = (self.atom(), Ink::of(Stream::Out), TimeZone::system());
        let mut last = journal.newest::<Change>(1)?.last().map_or(0, |entry| entry.revision);
        let mut day = Some(clock::day(Timestamp::now(), &zone));
        let mut live = LiveReader::of(home.sidecar());
        // What was done before is told already.
        live.read_new();
        let mut changes = ChangePoll::of(home);
        while print::is_heard() {
            let doings = live.read_new();
            // A new loop, or an older state that was restored, counts from an earlier revision again.
            let newest = journal.newest::<Change>(1)?.last().map_or(0, |entry| entry.revision);
            if newest < last {
                last = newest.saturating_sub(1);
            }
            let since = journal.since::<Change>(last)?;
            last = since.entries.last().map_or(last, |entry| entry.revision);
            for object in doings.iter().filter(|object| atom.is_some() && object["atom"] == json!(atom)) {
                let text = object["line"].as_str().or(object["reason"].as_str()).map(text::plain);
                match (invocation.format, text) {
                    (OutputFormat::Json, _) => print::json(object),
                    (OutputFormat::Text, Some(text)) => print::line(&ink.paint(Paint::Dim, &text)),
                    (OutputFormat::Text, None) => {}
                }
            }
            let is_wanted = |entry: &&JournalEntry<Change>| match &atom {
                Some(atom) => is_about(entry, atom),
                None => is_shown(entry),
            };
            let entries: Vec<JournalEntry<Change>> =
                since.entries.iter().filter(is_wanted).cloned().collect();
            match invocation.format {
                OutputFormat::Json => entries.iter().for_each(|entry| print::json(&object(entry))),
                OutputFormat::Text if entries.is_empty() => {}
                OutputFormat::Text => {
                    let page = draw_more(&entries, &mut day, &zone, ink);
                    page.lines().for_each(print::line);
                }
            }
            while print::is_heard() && !changes.wait(IDLE) {}
        }
        Ok(Answer::printed())
    }

    fn so_far(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let store = invocation.store()?;
        let atom = self.atom();
        let is_wanted = |entry: &JournalEntry<Change>| match (&atom, invocation.format) {
            (Some(atom), _) => is_about(entry, atom),
            (None, OutputFormat::Text) => is_shown(entry),
            (None, OutputFormat::Json) => true,
        };
        // An atom of the loop before may have had the same name, and tries are counted from the first.
        let count = if atom.is_some() { usize::MAX } else { self.number.get() };
        let mut newest = store.journal().newest_where(count, is_wanted)?;
        let mut begun = None;
        if atom.is_some()
            && let Some(place) = beginning(&newest.entries)
        {
            newest.entries.drain(..place);
            newest.before = Before::Nothing;
            begun = newest.entries[0].at.parse::<Timestamp>().ok();
        }
        let is_of_this_loop = |at: Timestamp| begun.is_none_or(|begun| at >= begun);
        let (kept, warnings) = kept(invocation, atom.as_ref())?;
        let mut agents = match &atom {
            Some(atom) => transcripts_of(&workspace::project(&invocation.path()?)?.sidecar, atom.as_str()),
            None => Vec::new(),
        };
        agents.retain(|agent| is_of_this_loop(agent.at));
        if let Some(atom) = &atom
            && agents.is_empty()
            && !newest.entries.iter().any(is_wanted)
        {
            known(invocation, atom)?;
        }
        let entries = || newest.entries.iter().filter(|entry| is_wanted(entry));
        let json = || {
            json!({
                "entries": entries().map(object).collect::<Vec<Value>>(),
                "journal": store.journal().is_there(),
                "earlier": newest.before == Before::More,
                "forgotten": newest.before == Before::Forgotten,
                "unreadable": newest.unreadable,
                "kept": kept.iter().map(kept_object).collect::<Vec<Value>>(),
                "agents": agents.iter().map(transcript_object).collect::<Vec<Value>>(),
            })
        };
        let text = || {
            let (ink, zone) = (Ink::of(Stream::Out), TimeZone::system());
            let page = match &atom {
                // A journal that was deleted loses the history and nothing else (D32).
                _ if !store.journal().is_there() => {
                    "there is no journal: nothing was changed through aot, or its folder was deleted".into()
                }
                Some(_) if entries().next().is_none() && !agents.is_empty() => String::new(),
                Some(atom) if entries().next().is_none() => {
                    format!("the journal says nothing about {atom}")
                }
                None if entries().next().is_none() => "the journal is empty".into(),
                Some(atom) => draw_atom(&newest, atom, self.number.get(), &zone, ink),
                None => draw(&newest, &zone, ink),
            };
            let mut lines: Vec<String> = Some(page.trim_end().to_owned()).into_iter().collect();
            lines.retain(|page| !page.is_empty());
            for agent in &agents {
                lines.push(format!("\n{}", ink.paint(Paint::Bold, &agent.title)));
                if self.briefs {
                    lines.push(format!("{}\n", agent.brief));
                }
                lines.extend(agent.run.lines().map(text::plain));
            }
            lines.push(draw_kept(&kept, self.number.get(), ink));
            lines.join("\n")
        };
        Ok(Answer::lazy(invocation.format, text, json).with_warnings(warnings))
    }
}

#[derive(Clone, Copy)]
enum TraceForm {
    Chrome,
    OpenTelemetry,
}

/// The loop of today as a trace, in a file or on standard output.
fn trace(invocation: &Invocation, file: &Path, form: TraceForm) -> Result<Answer, Failure> {
    let mut store = invocation.store()?;
    let mut newest = store.journal().newest_where(usize::MAX, |_: &JournalEntry<Change>| true)?;
    newest.entries.drain(..beginning(&newest.entries).unwrap_or(0));
    let evidence = Kept::of(&workspace::project(&invocation.path()?)?).lines();
    // The journal is drawn without names where the state cannot be read.
    let (goal, descriptions) = match store.load::<Refusal>() {
        Ok((_, state)) => {
            let described = |atom: &Arc<Atom>| (atom.id.clone(), atom.description.clone());
            (state.objective.goal.clone(), state.atoms.values().map(described).collect())
        }
        Err(_) => (String::new(), HashMap::new()),
    };
    let (entries, now) = (&newest.entries[..], Timestamp::now());
    let recorded = RecordedLoop { goal: &goal, descriptions, entries, evidence: &evidence, now };
    let drawn = match form {
        TraceForm::Chrome => draw_trace(&recorded),
        TraceForm::OpenTelemetry => otlp::draw(&recorded, super::VERSION),
    };
    let warnings = match newest.unreadable {
        0 => Vec::new(),
        count => vec![format!("warning: {} cannot be read by this aot", text::counted(count as u64, "line"))],
    };
    if file == Path::new("-") {
        print::json(&drawn);
        return Ok(Answer::printed().with_warnings(warnings));
    }
    if place::is_in_job() {
        let message = "this was started by aot as a part of a loop: it may look, but not write a trace";
        return Err(Failure::refused("not_a_person", message).with_hint("print it: aot log --trace -"));
    }
    let named = file.display().to_string();
    fs::write(file, drawn.to_string()).map_err(|error| Failure::world(&format!("write {named}"), error))?;
    let (written, how) = match form {
        TraceForm::Chrome => {
            (&drawn["traceEvents"], "open it in https://ui.perfetto.dev or chrome://tracing")
        }
        TraceForm::OpenTelemetry => {
            (&drawn["resourceSpans"][0]["scopeSpans"][0]["spans"], "send it to a collector's /v1/traces")
        }
    };
    let events = written.as_array().map_or(0, Vec::len);
    let object = json!({"trace": named, "events": events});
    Ok(Answer::new(format!("wrote {named}: {how}"), object).with_warnings(warnings))
}

/// Refuses a name that the loop does not know. Where the state cannot be read, nobody can tell.
fn known(invocation: &Invocation, atom: &AtomId) -> Result<(), Failure> {
    let whole = ["replan", "base-case"];
    let mut store = invocation.store()?;
    let Ok((_, state)) = store.load::<Refusal>() else { return Ok(()) };
    if whole.contains(&atom.as_str()) || state.atoms.contains_key(atom) {
        return Ok(());
    }
    Err(Refusal::UnknownAtom(atom.clone()).into())
}

/// The work of attempts that did not land, and what could not be found out about it.
fn kept(invocation: &Invocation, atom: Option<&AtomId>) -> Result<(Vec<KeptWork>, Vec<String>), Failure> {
    let project = workspace::project(&invocation.path()?)?;
    // Of an atom, what another loop did under the same name is left out.
    let loop_id = atom.and_then(|_| {
        let mut store = invocation.store().ok()?;
        store.load::<Refusal>().ok()?.1.control.loop_id.clone()
    });
    // Without git there is no such work; the journal is shown all the same.
    let (mut kept, warnings) =
        match tree::kept(&project, loop_id.as_deref(), &Guard::new(place::this_program()?)) {
            Ok(kept) => (kept, Vec::new()),
            Err(error) => (Vec::new(), vec![format!("warning: {error}")]),
        };
    kept.retain(|work| atom.is_none_or(|atom| work.atom == *atom));
    Ok((kept, warnings))
}

fn transcript_object(kept: &SavedTranscript) -> Value {
    let SavedTranscript { path, title, brief, run, at: _ } = kept;
    json!({"path": path, "title": title, "brief": brief, "run": run})
}

fn kept_object(work: &KeptWork) -> Value {
    let KeptWork { atom, attempt, reference, at, reason, git_dir } = work;
    json!({
        "atom": atom, "attempt": attempt, "ref": reference, "at": at.to_string(), "reason": reason,
        "git_dir": git_dir,
    })
}

fn object(entry: &JournalEntry<Change>) -> Value {
    let told: Vec<String> =
        entry.changes.iter().filter_map(|change| sentence(change, &entry.changes)).collect();
    json!({"revision": entry.revision, "at": entry.at, "told": told, "changes": entry.changes})
}
