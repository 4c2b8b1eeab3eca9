//! The state file as a `State`: loaded once, changed by rules under the lock, merged with what others wrote, kept in
//! memory until another program changes it. Has no rules.

use std::cell::Cell;
use std::fmt;
use std::path::{Path, PathBuf};

use aot_core::contract::{self, Document, Finding, NotWritten, Reading};
use aot_core::hook::LoopFacts;
use aot_core::rules::{ApplyError, Change, Ledger, apply, redirect};
use aot_core::state::{AtomId, State};
use aot_core::view::View;
use blake3::Hash;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::backups;
use crate::store::cache::Cache;
use crate::store::digest::Digest;
use crate::store::error::FileError;
use crate::store::file::{Candidate, Changed, Decision, Done, StateFile, TransactError};
use crate::store::journal::{Journal, JournalEntry, Reach};
use crate::store::text::Text;
use crate::trust;

/// How many of the newest journal entries are searched for a text that was restored.
const REMEMBERED: usize = 1_000;

/// How many characters of a description are kept with the ready atoms.
const DESCRIPTION_KEPT: usize = 120;

const TREE: &str = "tree";
const ANSWERS: &str = "answers";
const READY: &str = "ready";

#[derive(Debug)]
pub struct Store {
    file: StateFile,
    journal: Journal,
    cache: Cache,
    version: String,
    parsed: Option<Parsed>,
    waiting: Vec<(Timestamp, Change)>,
    parses: Cell<u64>,
}

/// The parsed text with this hash.
#[derive(Clone, Debug)]
struct Parsed {
    hash: Hash,
    document: Document,
    state: Option<State>,
    findings: Option<Vec<Finding>>,
}

/// Answers that do not need the state itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answers {
    /// Absent if the text has errors.
    pub view: Option<View>,
    pub findings: Vec<Finding>,
}

/// The atoms that can start now, with their descriptions, as they are kept: a line each.
#[derive(Clone, Debug, Default)]
pub struct Ready(String);

impl Ready {
    fn of(state: &State, view: &View) -> Ready {
        let mut text = String::new();
        for id in &view.ready {
            let description = state.atoms.get(id).map_or("", |atom| &atom.description);
            let cut =
                description.char_indices().nth(DESCRIPTION_KEPT).map_or(description.len(), |(at, _)| at);
            text.push_str(id.as_str());
            text.push('\t');
            text.extend(description[..cut].chars().map(|c| if c.is_control() { ' ' } else { c }));
            text.push('\n');
        }
        Ready(text)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Id and the beginning of the description, in the order in which they would start.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().map(|line| line.split_once('\t').unwrap_or((line, "")))
    }
}

/// What happened to the file during a transaction; to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A copy older than our last write was saved over it; our changes were made again on top of it.
    Repaired { their_revision: u64, our_revision: u64 },
    /// An earlier text was put back whole; it was taken as meant.
    Restored { their_revision: u64, our_revision: u64 },
    /// A text that another program saved at the wrong moment has no place; it is kept here.
    Rescued(PathBuf),
    /// The journal could not be written; the state was.
    JournalFailed(String),
    /// This was typed into the file as resolved.
    NotBelieved(AtomId),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Repaired { their_revision, our_revision } => write!(
                f,
                "a copy of revision {their_revision} had been saved over revision {our_revision}; both were made one"
            ),
            Note::Restored { their_revision, our_revision } => write!(
                f,
                "the file had been put back from revision {our_revision} to revision {their_revision}; it goes on \
                 from there"
            ),
            Note::Rescued(kept) => {
                write!(f, "a text that another program saved meanwhile is kept in {}", kept.display())
            }
            Note::JournalFailed(error) => {
                write!(f, "the state is written, but the journal is not: {error}")
            }
            Note::NotBelieved(atom) => write!(
                f,
                "{atom}: `resolved` was typed into the state file, and is not believed; `aot atom start {atom}` and `aot \
                 atom resolve {atom} --summary TEXT` let the program look"
            ),
        }
    }
}

#[derive(Debug)]
pub struct Recorded<T> {
    pub value: T,
    pub changes: Vec<Change>,
    pub notes: Vec<Note>,
    /// What others wrote since we last looked is in the state now.
    pub foreign: Foreign,
}

/// A new loop: its text, its state, and the first changes for the journal.
#[derive(Clone, Debug)]
pub struct Begun {
    pub document: Document,
    pub state: State,
    pub told: Vec<Change>,
}

/// Whether a new loop may replace an existing state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingFile {
    Refuse,
    /// It may, and the old file is kept as a backup.
    BackUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    None,
    Edited,
}

/// A text that cannot be understood, with all that is wrong with it.
#[derive(Clone, Debug)]
pub struct Unreadable {
    pub path: PathBuf,
    pub text: String,
    pub findings: Vec<Finding>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError<E> {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not a valid state file", .0.path.display())]
    Unreadable(Box<Unreadable>),
    /// The rules said no; the file is as it was.
    #[error("{0}")]
    Refused(E),
    #[error("the state file was changed by two sides in ways that exclude each other: {why}")]
    Conflict { why: String, kept: PathBuf },
    #[error("the change cannot be written into this file: {0}")]
    NotWritten(NotWritten),
}

impl Store {
    /// `version` marks cached results, so that another version of the program does not use them.
    pub fn open(path: &Path, version: &str) -> Result<Store, FileError> {
        let file = StateFile::open(path, contract::Limits::default().bytes as u64)?;
        let journal = Journal::of(file.home());
        let cache = Cache::of(file.home(), version);
        let version = version.to_owned();
        Ok(Store { file, journal, cache, version, parsed: None, waiting: Vec::new(), parses: Cell::new(0) })
    }

    pub fn path(&self) -> &Path {
        self.file.home().state()
    }

    pub fn file(&self) -> &StateFile {
        &self.file
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// How often a text was parsed: once for each that is not in the cache.
    pub fn parses(&self) -> u64 {
        self.parses.get()
    }

    /// The short answers; a text that is in the cache is not parsed.
    pub fn answers<E>(&mut self) -> Result<Answers, StoreError<E>> {
        let text = self.file.read()?;
        let kept = self.cache.get(&text.hash, ANSWERS);
        match kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            Some(answers) => Ok(answers),
            None => Ok(self.compute_answers(text).0),
        }
    }

    /// What the hooks of a host read. A file that has not changed is known by its stamp and not read again.
    pub fn loop_facts<E>(&mut self) -> Result<LoopFacts, StoreError<E>> {
        let digest = Digest::of(self.file.home(), &self.version);
        if let Some(facts) = digest.get().and_then(|kept| serde_json::from_slice(&kept).ok()) {
            return Ok(facts);
        }
        let text = self.file.read()?;
        let (stamp, fresh) = (text.stamp, text.is_fresh());
        let path = self.path().to_path_buf();
        let parsed = self.parse(text).map_err(|unreadable| StoreError::Unreadable(Box::new(unreadable)))?;
        let Some(state) = &parsed.state else {
            return Err(StoreError::Unreadable(Box::new(parsed.unreadable(path))));
        };
        let facts = LoopFacts::of(state);
        if !fresh {
            digest.put(&stamp, &serde_json::to_vec(&facts).expect("plain data"));
        }
        Ok(facts)
    }

    /// What can start now; as quick as [`Store::answers`].
    pub fn ready<E>(&mut self) -> Result<Ready, StoreError<E>> {
        let text = self.file.read()?;
        if let Some(kept) = self.cache.get(&text.hash, READY).and_then(|bytes| String::from_utf8(bytes).ok())
        {
            return Ok(Ready(kept));
        }
        match self.compute_answers(text) {
            (Answers { view: Some(_), .. }, ready) => Ok(ready),
            (Answers { view: None, .. }, _) => {
                // The text has errors, and loading returns them.
                self.load::<E>()?;
                Ok(Ready::default())
            }
        }
    }

    /// Computes the answers and caches them.
    fn compute_answers(&mut self, text: Text) -> (Answers, Ready) {
        let hash = text.hash;
        let parsed = match self.parse(text) {
            Ok(parsed) => parsed,
            // A text that is not YAML has no tree to cache, and finding its error is quick.
            Err(unreadable) => {
                return (Answers { view: None, findings: unreadable.findings }, Ready::default());
            }
        };
        let findings = match &parsed.findings {
            Some(findings) => findings.clone(),
            // Findings are not computed after a change of our own.
            None => Reading::of(parsed.document.clone()).findings,
        };
        let view = parsed.state.as_ref().map(View::of);
        let ready = parsed.state.as_ref().zip(view.as_ref()).map(|(state, view)| Ready::of(state, view));
        let answers = Answers { view, findings };
        let packed = parsed.document.pack();
        let written = serde_json::to_vec(&answers).expect("answers are plain data");
        let mut sections: Vec<(&str, &[u8])> = vec![(ANSWERS, &written)];
        if let Some(Ready(lines)) = &ready {
            sections.push((READY, lines.as_bytes()));
        }
        sections.push((TREE, &packed));
        self.cache.put(&hash, &sections);
        (answers, ready.unwrap_or_default())
    }

    /// The document and the state, if the text is in order.
    pub fn load<E>(&mut self) -> Result<(&Document, &State), StoreError<E>> {
        let text = self.file.read()?;
        let path = self.path().to_path_buf();
        let parsed = self.parse(text).map_err(|unreadable| StoreError::Unreadable(Box::new(unreadable)))?;
        if parsed.state.is_none() {
            return Err(StoreError::Unreadable(Box::new(parsed.unreadable(path))));
        }
        Ok((&parsed.document, parsed.state.as_ref().expect("looked at just now")))
    }

    /// Changes the state by rules. `decide` sees the newest state, under the lock, and is asked again if another
    /// program saved meanwhile.
    pub fn change<T, E>(
        &mut self,
        purpose: &str,
        now: Timestamp,
        mut decide: impl FnMut(&mut Ledger) -> Result<T, E>,
    ) -> Result<Recorded<T>, StoreError<E>> {
        let recorded = self.transact(purpose, now, |state| {
            let mut ledger = Ledger::open(state, now);
            let value = decide(&mut ledger).map_err(StoreError::Refused)?;
            let (state, changes) = ledger.close();
            Ok((state, changes, value))
        })?;
        self.keep_tree();
        Ok(recorded)
    }

    /// Writes the text that a loop begins with, and its changes into the journal. An existing file becomes a numbered
    /// backup, or with [`ExistingFile::Refuse`] is an error.
    pub fn begin<E>(
        &mut self,
        begun: Begun,
        over: ExistingFile,
        now: Timestamp,
    ) -> Result<Option<PathBuf>, StoreError<E>> {
        self.parsed = None;
        let newest: Vec<JournalEntry<Change>> = self.journal.newest(1)?;
        let journaled = newest.last().map_or(0, |entry| entry.revision);
        let numbered = |before: u64| {
            let mut state = begun.state.clone();
            state.control.revision = Some(before + 1);
            contract::write(&begun.document, &begun.state, &state).map_err(StoreError::NotWritten)
        };
        let bytes = |document: &Document| document.text().as_bytes().to_vec();
        // Whoever begins a loop has agreed to all of it.
        let _ = trust::add_new(self.file.home().state(), None, &begun.state);
        let mut kept = None;
        let mut from = None;
        let done = if self.file.home().state().exists() {
            if over == ExistingFile::Refuse {
                return Err(FileError::Exists { path: self.path().to_path_buf() }.into());
            }
            let place = backups::next(self.file.home())?;
            let done = self.file.transact("begin another loop", |candidate| {
                backups::keep(&place, &candidate.text.bytes)?;
                from = Some(candidate.text.hash);
                let before = state_of(candidate.text).and_then(|old| old.control.revision).unwrap_or(0);
                let document = numbered(before.max(journaled))?;
                Ok::<_, StoreError<E>>(Decision::Replace(bytes(&document), ()))
            });
            kept = Some(place);
            done.map_err(|error| match error {
                TransactError::File(error) => error.into(),
                TransactError::Refused(error) => error,
            })?
        } else {
            self.file.create(&bytes(&numbered(journaled)?))?
        };
        let entry = JournalEntry {
            revision: state_of(&done.text).and_then(|state| state.control.revision).unwrap_or(0),
            at: now.to_string(),
            from: from.map(|hash: Hash| hash.to_hex().to_string()).unwrap_or_default(),
            hash: done.text.hash.to_hex().to_string(),
            changes: begun.told,
        };
        self.journal.append(&done.held, &entry)?;
        Ok(kept)
    }

    /// Leaves changes to be written with the next [`Store::flush`].
    pub fn queue(&mut self, now: Timestamp, changes: impl IntoIterator<Item = Change>) {
        self.waiting.extend(changes.into_iter().map(|change| (now, change)));
    }

    /// Writes all waiting changes in one go, on top of whatever others wrote meanwhile. If they no longer fit, both
    /// texts are kept and it is a conflict.
    pub fn flush(&mut self, now: Timestamp) -> Result<Recorded<()>, StoreError<ApplyError>> {
        let waiting = std::mem::take(&mut self.waiting);
        let recorded = self.transact("record what happened", now, |mut state| {
            for (at, change) in &waiting {
                apply(&mut state, change, *at).map_err(StoreError::Refused)?;
            }
            Ok((state, waiting.iter().map(|(_, change)| change.clone()).collect(), ()))
        });
        match recorded {
            Err(StoreError::Refused(error)) => {
                let conflict = self.keep_conflicting(&waiting, error);
                if let StoreError::File(_) = conflict {
                    // Neither side is kept elsewhere, so that the changes must not be forgotten.
                    self.waiting = waiting;
                }
                Err(conflict)
            }
            Err(error @ (StoreError::File(_) | StoreError::Unreadable(_))) => {
                // Nothing was written; the changes stay queued.
                self.waiting = waiting;
                Err(error)
            }
            other => other,
        }
    }

    /// Whether the file differs from the text that was parsed or written last. Does not parse.
    pub fn look<E>(&mut self) -> Result<Foreign, StoreError<E>> {
        let text = self.file.read()?;
        let same = self.parsed.as_ref().is_some_and(|parsed| parsed.hash == text.hash);
        Ok(if same { Foreign::None } else { Foreign::Edited })
    }

    /// The state as it was parsed or written last.
    pub fn state(&self) -> Option<&State> {
        self.parsed.as_ref().and_then(|parsed| parsed.state.as_ref())
    }

    fn transact<T, E>(
        &mut self,
        purpose: &str,
        now: Timestamp,
        mut decide: impl FnMut(State) -> Result<(State, Vec<Change>, T), StoreError<E>>,
    ) -> Result<Recorded<T>, StoreError<E>> {
        let (file, journal) = (&self.file, &self.journal);
        let (cache, parses, mut parsed) = (&self.cache, &self.parses, self.parsed.take());
        let remembered = parsed.as_ref().map(|parsed| parsed.hash);
        let mut from = None;
        let done = file.transact(purpose, |candidate| {
            from = Some(candidate.text.hash);
            let seen = match read(cache, parses, parsed.take(), candidate.text.clone(), file.home().state()) {
                Ok(seen) => parsed.insert(seen),
                Err(unreadable) => return Ok(Decision::Doubt(StoreError::Unreadable(Box::new(unreadable)))),
            };
            let Some(old) = &seen.state else {
                let unreadable = seen.unreadable(file.home().state().to_path_buf());
                return Ok(Decision::Doubt(StoreError::Unreadable(Box::new(unreadable))));
            };
            let merged = merge(file, journal, candidate, old)?;
            let (mut new, mut changes, value) = decide(merged.state.unwrap_or_else(|| old.clone()))?;
            changes.splice(0..0, merged.changes);
            let base = old.control.revision.unwrap_or(0).max(merged.our_revision);
            if changes.is_empty() && merged.notes.is_empty() {
                return Ok(Decision::Keep((None, changes, merged.notes, value)));
            }
            new.control.revision = Some(base + 1);
            let document = contract::write(&seen.document, old, &new).map_err(StoreError::NotWritten)?;
            // Before the text stands, so that a process killed in between asks nobody again. Without a home folder the
            // person is asked.
            let _ = trust::add_new(file.home().state(), Some(old), &new);
            let bytes = document.text().as_bytes().to_vec();
            Ok(Decision::Replace(bytes, (Some((document, new)), changes, merged.notes, value)))
        });
        let done = match done {
            Ok(done) => done,
            Err(TransactError::File(error)) => return Err(error.into()),
            Err(TransactError::Refused(error)) => {
                if let (StoreError::Conflict { .. }, Ok(text)) = (&error, file.read()) {
                    // Reported once, with both texts kept; the file is accepted as it is now.
                    file.accept(&text)?;
                }
                self.parsed = parsed;
                return Err(error);
            }
        };
        let Done { value: (written, changes, mut notes, value), text, change, rescued, held } = done;
        let foreign =
            if remembered.is_some() && remembered != from { Foreign::Edited } else { Foreign::None };
        notes.extend(rescued.into_iter().map(Note::Rescued));
        if let Some((document, state)) = written {
            if change == Changed::Yes {
                let entry = JournalEntry {
                    revision: state.control.revision.unwrap_or(0),
                    at: now.to_string(),
                    from: from.map(|hash| hash.to_hex().to_string()).unwrap_or_default(),
                    hash: text.hash.to_hex().to_string(),
                    changes: changes.clone(),
                };
                if let Err(error) = self.journal.append(&held, &entry) {
                    notes.push(Note::JournalFailed(error.to_string()));
                }
            }
            parsed = Some(Parsed { hash: text.hash, document, state: Some(state), findings: None });
        }
        drop(held);
        self.parsed = parsed;
        Ok(Recorded { value, changes, notes, foreign })
    }

    fn parse(&mut self, text: Text) -> Result<&Parsed, Unreadable> {
        let read = read(&self.cache, &self.parses, self.parsed.take(), text, self.file.home().state())?;
        Ok(self.parsed.insert(read))
    }

    /// Caches the tree, so that the next process need not parse the text.
    fn keep_tree(&self) {
        if let Some(parsed) = &self.parsed {
            self.cache.put(&parsed.hash, &[(TREE, &parsed.document.pack())]);
        }
    }

    fn keep_conflicting(
        &mut self,
        waiting: &[(Timestamp, Change)],
        error: ApplyError,
    ) -> StoreError<ApplyError> {
        let ours = serde_json::to_vec_pretty(&waiting.iter().map(|(_, change)| change).collect::<Vec<_>>());
        let theirs = self.file.read().map(|text| text.bytes).unwrap_or_default();
        match self.file.keep_conflict(&ours.unwrap_or_default(), &theirs) {
            Ok(kept) => StoreError::Conflict { why: error.to_string(), kept },
            Err(error) => error.into(),
        }
    }
}

impl Parsed {
    fn unreadable(&self, path: PathBuf) -> Unreadable {
        let text = self.document.text().to_owned();
        Unreadable { path, text, findings: self.findings.clone().unwrap_or_default() }
    }
}

/// A text as a state: from memory, from the cache, or by reading it.
fn read(
    cache: &Cache,
    parses: &Cell<u64>,
    parsed: Option<Parsed>,
    text: Text,
    path: &Path,
) -> Result<Parsed, Unreadable> {
    if let Some(parsed) = parsed.filter(|parsed| parsed.hash == text.hash) {
        return Ok(parsed);
    }
    let document = match unpacked(cache, &text) {
        Some(document) => Ok(document),
        None => {
            parses.set(parses.get() + 1);
            Document::from_bytes(text.bytes.clone(), &contract::Limits::default())
        }
    };
    match document {
        Ok(document) => {
            let Reading { document, state, findings } = Reading::of(document);
            Ok(Parsed { hash: text.hash, document, state, findings: Some(findings) })
        }
        Err(error) => Err(Unreadable {
            path: path.to_path_buf(),
            text: String::from_utf8_lossy(&text.bytes).into_owned(),
            findings: vec![error.into()],
        }),
    }
}

fn unpacked(cache: &Cache, text: &Text) -> Option<Document> {
    let packed = cache.get(&text.hash, TREE)?;
    Document::unpack(String::from_utf8(text.bytes.clone()).ok()?, &packed)
}

/// What others' edits make of the state in the text.
struct Merged {
    /// Another one than the text says, if our changes had to be made again or not all of it is believed.
    state: Option<State>,
    our_revision: u64,
    /// What of the text is not believed.
    changes: Vec<Change>,
    notes: Vec<Note>,
}

impl Merged {
    /// Takes back results that were typed into the text; `wrote` is what we wrote last.
    fn without_unproven(mut self, wrote: &State, theirs: &State) -> Merged {
        self.changes = redirect::unproven_results(wrote, self.state.as_ref().unwrap_or(theirs));
        if self.changes.is_empty() {
            return self;
        }
        let mut state = self.state.take().unwrap_or_else(|| theirs.clone());
        for change in &self.changes {
            if let Change::ResultNotBelieved { atom, .. } = change {
                self.notes.push(Note::NotBelieved(atom.clone()));
            }
            apply(&mut state, change, Timestamp::UNIX_EPOCH).expect("the rule has just looked at this state");
        }
        self.state = Some(state);
        self
    }
}

/// Merges a text that is not the one we wrote last. An edit of that text, or of a newer one, is taken as it is. To an edit
/// of an older copy our later changes are applied again from the journal, so that neither side loses anything. An
/// earlier text that was restored whole is taken as meant. Anything else is a conflict. Results that were typed are not
/// believed, whatever the edit was made of.
fn merge<E>(
    file: &StateFile,
    journal: &Journal,
    candidate: Candidate,
    theirs: &State,
) -> Result<Merged, StoreError<E>> {
    let as_it_is = |our_revision, note: Option<Note>| {
        let notes = note.into_iter().collect();
        Merged { state: None, our_revision, changes: Vec::new(), notes }
    };
    let Some(ours) = candidate.ours else { return Ok(as_it_is(0, None)) };
    let Some(wrote) = state_of(ours) else { return Ok(as_it_is(0, None)) };
    let our_revision = wrote.control.revision.unwrap_or(0);
    let their_revision = theirs.control.revision.unwrap_or(0);
    let other_loop = theirs.control.loop_id.is_some() && theirs.control.loop_id != wrote.control.loop_id;
    if other_loop {
        return Ok(as_it_is(our_revision, None));
    }
    if their_revision >= our_revision {
        return Ok(as_it_is(our_revision, None).without_unproven(&wrote, theirs));
    }
    let hex = candidate.text.hash.to_hex();
    let remembered: Vec<JournalEntry<Change>> = journal.newest(REMEMBERED)?;
    if remembered.iter().any(|entry| entry.hash == *hex || entry.from == *hex) {
        return Ok(as_it_is(our_revision, Some(Note::Restored { their_revision, our_revision })));
    }
    let conflict = |why: String| {
        let kept = file.keep_conflict(&ours.bytes, &candidate.text.bytes)?;
        Err(StoreError::Conflict { why, kept })
    };
    let since = journal.since::<Change>(their_revision)?;
    let last = since.entries.last().map(|entry| entry.hash.as_str());
    if since.reach == Reach::Gap || last != Some(ours.hash.to_hex().as_str()) {
        return conflict(format!(
            "a copy of revision {their_revision} was saved over revision {our_revision}, and the journal does not \
             tell what happened between them"
        ));
    }
    let mut state = theirs.clone();
    for entry in &since.entries {
        let at = entry.at.parse::<Timestamp>().unwrap_or(Timestamp::UNIX_EPOCH);
        for change in &entry.changes {
            if let Err(error) = apply(&mut state, change, at) {
                return conflict(format!("revision {} no longer fits: {error}", entry.revision));
            }
        }
    }
    let repaired = as_it_is(our_revision, Some(Note::Repaired { their_revision, our_revision }));
    Ok(Merged { state: Some(state), ..repaired }.without_unproven(&wrote, theirs))
}

fn state_of(text: &Text) -> Option<State> {
    contract::read(text.bytes.clone()).ok()?.state
}
