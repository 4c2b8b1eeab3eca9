//! Puts a new text in the place of the old one, and takes up what a killed process left. Decides nothing about texts.
//!
//! The new text is written aside (`part-…`), synced, named `swap-BASE-NEW` by the two hashes, and exchanged with the
//! state file in one step of the system. So at every moment the state file is wholly the old or wholly the new text,
//! and what was displaced can be looked at:
//!
//! - it is the base: the change is made. The displaced file lingers for a few transactions (`displaced-…`), because an
//!   editor that had opened it before may still write into it; such a late text is found and kept as a conflict.
//! - it is not the base: an editor saved meanwhile. The two are exchanged back at once, so that the editor's text (and
//!   the file that it may still be writing into) is the state again, and the change is asked for anew.
//!
//! A process killed in between leaves a `swap-BASE-NEW` whose content tells what it is: the new text (never used), the
//! base (the change was made), or else somebody's text, which goes back to its place or is kept as a conflict.
//!
//! Where the system cannot exchange, the state file is compared once more and then renamed over, with a hard link to
//! the old one to look at; a save by rename in the few microseconds between is then lost.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use blake3::Hash;

use crate::store::conflicts;
use crate::store::error::FileError;
use crate::store::home::Home;
use crate::store::lock::{Held, LockError};
use crate::store::system::{
    cannot_exchange, create_private, exchange, is_unwritten_since_moved, open_private, same_device,
    same_file, sync_folder, take_after, was_moved_within, writable,
};
use crate::store::text::{Stamp, Text};

/// How many displaced files are watched for a late write, however old they are.
const LINGERING: usize = 4;
/// Younger ones are watched as well, if they are small: an editor on a busy machine may be that long between opening
/// and writing.
const LINGERS_FOR: Duration = Duration::from_secs(3);
const SMALL: u64 = 1 << 20;
/// More than this are never watched.
const MOST_LINGERING: usize = 32;

/// How many characters of a hash a name carries.
const HASH_CHARS: usize = 32;

/// Moments at which a test interferes or a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    HalfWritten,
    Written,
    Named,
    Compared,
    Exchanged,
    Restored,
    Recorded,
    Lingering,
}

/// Which step of the system replaces the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Exchange,
    /// For systems that cannot exchange. A file system that cannot is noticed and treated alike.
    Rename,
}

/// The best that this system offers.
pub(super) const WAY: Way = if cfg!(any(target_os = "linux", target_os = "android", target_vendor = "apple"))
{
    Way::Exchange
} else {
    Way::Rename
};

#[must_use]
pub(super) enum Put {
    /// The new text is in place, and nobody's was lost.
    Done,
    /// Another text is in place, and ours is not.
    Moved,
}

/// One transaction's hands.
pub(super) struct Hands<'a> {
    home: &'a Home,
    held: &'a Held,
    limit: u64,
    way: Way,
    at: &'a dyn Fn(Step),
    workplace: PathBuf,
    prefix: String,
    next_lingering: u64,
    /// A foreign text that was displaced for a moment and is in place again. In that moment another program could read
    /// ours instead, and save that over it; so it is safe only when it has become part of a text of ours.
    pub(super) hidden: Option<Text>,
    /// Foreign texts that could not be put back, each in a folder of its own.
    pub(super) rescued: Vec<PathBuf>,
}

impl<'a> Hands<'a> {
    pub(super) fn new(
        home: &'a Home,
        held: &'a Held,
        limit: u64,
        way: Way,
        at: &'a dyn Fn(Step),
    ) -> Hands<'a> {
        let (workplace, prefix) = workplace(home);
        Hands {
            home,
            held,
            limit,
            way,
            at,
            workplace,
            prefix,
            next_lingering: 0,
            hidden: None,
            rescued: Vec::new(),
        }
    }

    /// Takes up what a killed process left, and looks at the displaced files again.
    pub(super) fn recover(&mut self) -> Result<(), FileError> {
        let names = self.names()?;
        let newest = names.iter().filter_map(|name| lingering(name)).map(|(number, _)| number).max();
        self.next_lingering = newest.map_or(0, |number| number + 1);
        for name in names {
            if name.starts_with("part-") {
                remove(&self.name(&name))?;
            } else if let Some((base, new)) = name.strip_prefix("swap-").and_then(|rest| rest.split_once('-'))
            {
                self.take_up(&self.name(&name), base, new)?;
            }
        }
        // Listed again, because what was taken up may linger now.
        let mut names = self.names()?;
        names.retain(|name| lingering(name).is_some());
        names.sort();
        let beyond = |most: usize| names.len().saturating_sub(most - 1);
        for (index, name) in names.iter().enumerate() {
            let (_, base) = lingering(name).expect("only these were retained");
            let path = self.name(name);
            let watch = match index {
                _ if index < beyond(MOST_LINGERING) => Watch::Over,
                _ if index < beyond(LINGERING) && !is_young(&path) => Watch::Enough,
                _ => Watch::GoesOn,
            };
            self.look_again(&path, base, watch)?;
        }
        Ok(())
    }

    /// Replaces `base` by `new`, unless somebody else's text is or comes in its place.
    pub(super) fn put(&mut self, base: &Text, new: &[u8]) -> Result<Put, FileError> {
        let state = self.home.state();
        let hash = blake3::hash(new);
        let Some(swap) = self.write_aside(base, new, &hash)? else { return Ok(Put::Moved) };
        if !self.held.is_whole() {
            return Err(LockError::Lost { path: self.held.path().to_path_buf() }.into());
        }
        if !self.holds(state, base) {
            return Ok(Put::Moved);
        }
        (self.at)(Step::Compared);
        let done = match self.way {
            Way::Exchange => match exchange(&swap.path, state) {
                Err(e) if cannot_exchange(&e) => self.rename_over(swap, base, new, &hash)?,
                Err(e) if e.kind() == ErrorKind::NotFound => Put::Moved,
                Err(e) => return Err(FileError::of("replace", state, e)),
                Ok(()) => self.look_at_displaced(swap.exchanged(), base, new, &hash)?,
            },
            Way::Rename => self.rename_over(swap, base, new, &hash)?,
        };
        if let Put::Done = done {
            self.hidden = None;
            sync_folder(self.home.folder())
                .map_err(|e| FileError::of("sync the folder", self.home.folder(), e))?;
        }
        Ok(done)
    }

    /// Writes the text aside and names it by the hashes; `None` if there is no state file to replace.
    fn write_aside(&self, base: &Text, new: &[u8], hash: &Hash) -> Result<Option<Aside>, FileError> {
        let state = self.home.state();
        let like = match fs::metadata(state) {
            Ok(like) => like,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(FileError::of("read", state, e)),
        };
        writable(state, &like)?;
        let mut aside = Aside::new(self.name(&format!("part-{}", std::process::id())));
        let failed = |e| FileError::of("write", &aside.path, e);
        let mut file = create_private(&aside.path).map_err(failed)?;
        let (first, rest) = new.split_at(new.len() / 2);
        file.write_all(first).map_err(failed)?;
        (self.at)(Step::HalfWritten);
        file.write_all(rest).map_err(failed)?;
        take_after(&file, &like).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        drop(file);
        (self.at)(Step::Written);
        let named = self.name(&format!("swap-{}-{}", short(&base.hash), short(hash)));
        fs::rename(&aside.path, &named).map_err(|e| FileError::of("write", &named, e))?;
        aside.path = named;
        (self.at)(Step::Named);
        Ok(Some(aside))
    }

    /// After an exchange: the displaced text is the base, or goes back.
    fn look_at_displaced(
        &mut self,
        swap: PathBuf,
        base: &Text,
        new: &[u8],
        hash: &Hash,
    ) -> Result<Put, FileError> {
        (self.at)(Step::Exchanged);
        if !base.is_surely_at(&swap) {
            let displaced = Text::read(&swap, u64::MAX);
            if !displaced.as_ref().is_ok_and(|displaced| displaced.hash == base.hash) {
                self.put_back(&swap, &short(hash))?;
                return displaced.map(|_| Put::Moved);
            }
        }
        self.record(new, hash)?;
        self.let_linger(&swap, &short(&base.hash))?;
        Ok(Put::Done)
    }

    /// Exchanges the displaced text of somebody else back into its place, where our own new text is expected. If a third
    /// text took that place meanwhile, the third, being the newest, stays, and the displaced one is kept.
    fn put_back(&mut self, swap: &Path, new: &str) -> Result<(), FileError> {
        let state = self.home.state();
        let theirs = Text::read(swap, u64::MAX).ok();
        match exchange(swap, state) {
            Ok(()) => {
                (self.at)(Step::Restored);
                if !is_hash(&Text::read(swap, u64::MAX)?.hash, new) {
                    exchange(swap, state).map_err(|e| FileError::of("put back", state, e))?;
                    return self.rescue(swap);
                }
            }
            // Somebody removed the file; then nobody's text is in the way of the displaced one.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if fs::hard_link(swap, state).is_err() {
                    return self.rescue(swap);
                }
            }
            Err(e) => return Err(FileError::of("put back", state, e)),
        }
        self.hidden = theirs;
        remove(swap)
    }

    /// The second-best way: compare, then rename. The old file is kept in sight by a hard link where that is possible.
    fn rename_over(&mut self, swap: Aside, base: &Text, new: &[u8], hash: &Hash) -> Result<Put, FileError> {
        let state = self.home.state();
        let kept = self.name(&format!("displaced-{:010}-{}", self.next_lingering, short(&base.hash)));
        let linked = fs::hard_link(state, &kept).is_ok();
        if !self.holds(if linked { &kept } else { state }, base) {
            remove_if_there(&kept)?;
            return Ok(Put::Moved);
        }
        fs::rename(&swap.path, state).map_err(|e| FileError::of("replace", state, e))?;
        // Its name is gone; nothing is left to be removed.
        let _ = swap.exchanged();
        (self.at)(Step::Exchanged);
        if linked {
            let displaced = Text::read(&kept, u64::MAX)?;
            if displaced.hash != base.hash {
                fs::rename(&kept, state).map_err(|e| FileError::of("put back", state, e))?;
                self.hidden = Some(displaced);
                return Ok(Put::Moved);
            }
            self.next_lingering += 1;
        }
        self.record(new, hash)?;
        Ok(Put::Done)
    }

    /// What a killed process left: see the head of this file.
    fn take_up(&mut self, swap: &Path, base: &str, new: &str) -> Result<(), FileError> {
        let left = Text::read(swap, u64::MAX)?.hash;
        if is_hash(&left, new) {
            return remove(swap);
        }
        let state = Text::read(self.home.state(), u64::MAX).ok();
        let made = state.filter(|state| is_hash(&state.hash, new));
        match (is_hash(&left, base), made) {
            (true, Some(state)) => {
                self.record(&state.bytes, &state.hash)?;
                self.let_linger(swap, base)
            }
            (true, None) => self.let_linger(swap, base),
            (false, Some(_)) => self.put_back(swap, new),
            (false, None) => self.rescue(swap),
        }
    }

    /// A displaced file that holds another text than it did was written into by an editor that had it open.
    fn look_again(&mut self, kept: &Path, base: &str, watch: Watch) -> Result<(), FileError> {
        if is_unwritten_since_moved(kept) {
            return if watch == Watch::GoesOn { Ok(()) } else { remove(kept) };
        }
        let text = Text::read(kept, u64::MAX)?;
        let is_state = Stamp::of(self.home.state()).is_ok_and(|state| same_file(&state, &text.stamp));
        // A link to the state file itself is what a process killed before its rename left.
        match (is_state, is_hash(&text.hash, base)) {
            (true, _) => remove(kept),
            (false, true) if watch == Watch::GoesOn => Ok(()),
            (false, true) => remove(kept),
            // An editor empties a file before it writes: what is kept now would be kept without its text.
            (false, false) if watch != Watch::Over && text.bytes.is_empty() => Ok(()),
            (false, false) => self.rescue(kept),
        }
    }

    /// Keeps the text that was hidden for a moment, if it is not the one that is in place `now`.
    pub(super) fn keep_hidden(&mut self, now: Option<&Text>) -> Result<(), FileError> {
        let hidden = self.hidden.take_if(|hidden| now.is_none_or(|now| now.hash != hidden.hash));
        if let Some(hidden) = hidden {
            let ours = Text::read(self.home.state(), u64::MAX).map(|text| text.bytes).unwrap_or_default();
            self.rescued.push(conflicts::keep(self.home, &ours, &hidden.bytes)?);
        }
        Ok(())
    }

    fn let_linger(&mut self, swap: &Path, base: &str) -> Result<(), FileError> {
        let kept = self.name(&format!("displaced-{:010}-{base}", self.next_lingering));
        self.next_lingering += 1;
        fs::rename(swap, &kept).map_err(|e| FileError::of("put aside", swap, e))?;
        (self.at)(Step::Lingering);
        Ok(())
    }

    /// Keeps a foreign text for which there is no place.
    fn rescue(&mut self, foreign: &Path) -> Result<(), FileError> {
        let ours = Text::read(self.home.state(), u64::MAX).map(|text| text.bytes).unwrap_or_default();
        self.rescued.push(conflicts::take_in(self.home, &ours, foreign)?);
        Ok(())
    }

    /// Remembers what we wrote last, so that a text of somebody else can be told from our own, and our own is not gone
    /// when somebody saves over it. Written without a sync: after a power cut it may be missing.
    fn record(&self, new: &[u8], hash: &Hash) -> Result<(), FileError> {
        let last = Last::of(self.home);
        if last.write(new, hash).is_err() {
            // An older record would make our own text look like an edit.
            remove_if_there(&last.path)?;
        }
        (self.at)(Step::Recorded);
        Ok(())
    }

    fn holds(&self, path: &Path, text: &Text) -> bool {
        text.is_surely_at(path) || Text::read(path, self.limit).is_ok_and(|now| now.hash == text.hash)
    }

    fn name(&self, name: &str) -> PathBuf {
        self.workplace.join(format!("{}{name}", self.prefix))
    }

    fn names(&self) -> Result<Vec<String>, FileError> {
        let failed = |e| FileError::of("list", &self.workplace, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.workplace).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_prefix(&self.prefix)) {
                names.push(name.to_string());
            }
        }
        Ok(names)
    }
}

/// Whether a displaced file is still watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    GoesOn,
    /// It was watched long enough, unless somebody is writing into it.
    Enough,
    Over,
}

/// Whether a displaced file is watched although there are newer ones.
fn is_young(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() <= SMALL) && was_moved_within(path, LINGERS_FOR)
}

/// The number and the hash in the name of a displaced file. The number has leading zeros, so that names sort by it.
fn lingering(name: &str) -> Option<(u64, &str)> {
    let (number, base) = name.strip_prefix("displaced-")?.split_once('-')?;
    Some((number.parse().ok()?, base))
}

/// What we wrote last: the hash in hex, a line end, the text.
pub(super) struct Last {
    path: PathBuf,
}

impl Last {
    pub(super) fn of(home: &Home) -> Last {
        Last { path: home.sidecar().join("last") }
    }

    pub(super) fn hash(&self) -> Option<Hash> {
        use std::io::Read;
        let mut head = [0; 64];
        File::open(&self.path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
        Hash::from_hex(head).ok()
    }

    pub(super) fn text(&self, limit: u64) -> Option<Text> {
        let mut text = Text::read(&self.path, limit.saturating_add(65)).ok()?;
        let hash = Hash::from_hex(text.bytes.get(..64)?).ok()?;
        text.bytes.drain(..text.bytes.len().min(65));
        text.hash = blake3::hash(&text.bytes);
        (text.hash == hash).then_some(text)
    }

    /// Writes over the record before, which is cheaper than a new file. A record that is cut short by a death is no
    /// record, because its hash is wrong.
    pub(super) fn write(&self, bytes: &[u8], hash: &Hash) -> io::Result<()> {
        let mut file = open_private(&self.path)?;
        file.write_all(format!("{}\n", hash.to_hex()).as_bytes())?;
        file.write_all(bytes)?;
        file.set_len(65 + bytes.len() as u64)
    }
}

/// Puts a first text in place; never over another.
pub(super) fn put_new(home: &Home, bytes: &[u8]) -> Result<(), FileError> {
    let state = home.state();
    let aside = Aside::new(workplace_name(home, &format!("part-{}", std::process::id())));
    let failed = |e| FileError::of("write", &aside.path, e);
    let mut file = File::create(&aside.path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    drop(file);
    match fs::hard_link(&aside.path, state) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Err(FileError::Exists { path: state.to_path_buf() });
        }
        // A file system without hard links.
        Err(_) if fs::symlink_metadata(state).is_err() => {
            fs::rename(&aside.path, state).map_err(|e| FileError::of("write", state, e))?;
        }
        Err(_) => return Err(FileError::Exists { path: state.to_path_buf() }),
    }
    // Without it the next text would look as if somebody had edited this one; with an older one, too.
    let last = Last::of(home);
    if last.write(bytes, &blake3::hash(bytes)).is_err() {
        remove_if_there(&last.path)?;
    }
    sync_folder(home.folder()).map_err(|e| FileError::of("sync the folder", home.folder(), e))
}

/// A file that is removed unless it was exchanged: from then on it is somebody's text.
struct Aside {
    path: PathBuf,
    used: bool,
}

impl Aside {
    fn new(path: PathBuf) -> Aside {
        Aside { path, used: false }
    }

    fn exchanged(mut self) -> PathBuf {
        self.used = true;
        self.path.clone()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.used {
            // What cannot be removed now is removed by the next transaction.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Files aside must be on the state file's file system: usually the sidecar is, else they are beside the state file.
fn workplace(home: &Home) -> (PathBuf, String) {
    match same_device(home.folder(), home.sidecar()) {
        true => (home.sidecar().to_path_buf(), String::new()),
        false => {
            let name = home.state().file_name().unwrap_or_default().to_string_lossy();
            (home.folder().to_path_buf(), format!(".{name}.aot-"))
        }
    }
}

fn workplace_name(home: &Home, name: &str) -> PathBuf {
    let (folder, prefix) = workplace(home);
    folder.join(format!("{prefix}{name}"))
}

fn short(hash: &Hash) -> String {
    hash.to_hex()[..HASH_CHARS].to_string()
}

fn is_hash(hash: &Hash, short: &str) -> bool {
    hash.to_hex()[..HASH_CHARS] == *short
}

fn remove(path: &Path) -> Result<(), FileError> {
    fs::remove_file(path).map_err(|e| FileError::of("remove", path, e))
}

fn remove_if_there(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(FileError::of("remove", path, e)),
        _ => Ok(()),
    }
}
