//! What this user trusts, by content: hashes of commands and settings, in a file of the user's for each state file and each
//! `aot.toml`. What comes with a clone cannot write there. Decides nothing about what needs trust.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aot_core::state::{State, TrustItem};

use crate::machine;
use crate::plain_file;

const FOLDER: &str = "trusted";
/// A longer list is begun anew, at the cost of a question.
const LIST_BYTES: u64 = 4 << 20;
const HASH_CHARS: usize = 32;

/// Those items of a file that this user has not trusted yet.
pub fn lacking<'s>(file: &Path, items: Vec<TrustItem<'s>>) -> Vec<TrustItem<'s>> {
    if items.is_empty() {
        return items;
    }
    let known = known(file);
    let mut seen = HashSet::new();
    items.into_iter().filter(|item| !known.contains(&hash(item)) && seen.insert(hash(item))).collect()
}

/// Trusts these items of a file from now on.
pub fn add(file: &Path, items: &[TrustItem<'_>]) -> io::Result<()> {
    let known = known(file);
    let new: Vec<String> = items.iter().map(hash).filter(|hash| !known.contains(hash)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let list = list(file).ok_or_else(|| io::Error::new(ErrorKind::NotFound, "there is no home folder"))?;
    let folder = list.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let is_long = fs::symlink_metadata(&list).is_ok_and(|found| found.len() > LIST_BYTES);
    let mut options = OpenOptions::new();
    options.create(true);
    // Appended in one write, so that two processes lose nothing.
    match is_long {
        true => options.write(true).truncate(true),
        false => options.append(true),
    };
    let mut file_of_hashes = plain_file::open(&list, &mut options)?;
    file_of_hashes.write_all(format!("# {}\n{}\n", file.display(), new.join("\n")).as_bytes())
}

/// Trusts these items of a file as long as this process runs.
pub fn add_for_this_process(file: &Path, items: &[TrustItem<'_>]) {
    let mut trusted = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    trusted.extend(items.iter().map(|item| (file.to_path_buf(), hash(item))));
}

static HERE: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// What a change through this program brought into a state file is trusted: a person typed it, or agents added it within a
/// loop that a person started. What was there before is not.
pub(crate) fn add_new(file: &Path, old: Option<&State>, new: &State) -> io::Result<()> {
    let (before, now) = (old.map(State::trust_items).unwrap_or_default(), new.trust_items());
    if before == now {
        return Ok(());
    }
    let before: HashSet<String> = before.iter().map(hash).collect();
    let brought: Vec<_> = now.into_iter().filter(|item| !before.contains(&hash(item))).collect();
    add(file, &brought)
}

fn known(file: &Path) -> HashSet<String> {
    let read = list(file).and_then(|list| plain_file::read(&list, LIST_BYTES).ok()).unwrap_or_default();
    let here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let here = here.iter().filter(|(other, _)| other == file).map(|(_, hash)| hash.clone());
    String::from_utf8_lossy(&read).lines().map(str::to_owned).chain(here).collect()
}

/// Where the hashes of a file are kept.
fn list(file: &Path) -> Option<PathBuf> {
    let name = &blake3::hash(file.as_os_str().as_encoded_bytes()).to_hex()[..HASH_CHARS];
    Some(machine::folder()?.join(FOLDER).join(name))
}

fn hash(item: &TrustItem<'_>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(item.kind.len() as u64).to_le_bytes()).update(item.kind.as_bytes());
    hasher.update(item.text.as_bytes()).finalize().to_hex()[..HASH_CHARS].to_owned()
}
