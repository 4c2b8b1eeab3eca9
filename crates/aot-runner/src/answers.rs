//! What a person typed in a dialogue, kept until the dialogue has come to its end: whoever leaves it is offered the same again.
//! The file is the user's own and lies outside of the project. Knows no questions.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic_file::{self, Durability};
use crate::machine;
use crate::plain_file;

const FOLDER: &str = "answers";

/// A longer file is not read.
const MOST_BYTES: u64 = 1 << 20;

const HASH_CHARS: usize = 32;

/// The answers of one dialogue, by question.
#[derive(Debug, Default)]
pub struct TypedAnswers {
    /// Absent where there is no place to keep them.
    path: Option<PathBuf>,
    /// Of the dialogue before, as far as they were not offered yet.
    before: BTreeMap<String, String>,
    now: BTreeMap<String, String>,
}

impl TypedAnswers {
    /// Of the dialogue about this request, for the loop with this state file.
    pub fn of(state: &Path, request: &str) -> TypedAnswers {
        let mut hasher = blake3::Hasher::new();
        hasher.update(state.as_os_str().as_encoded_bytes()).update(b"\0").update(request.as_bytes());
        let name = &hasher.finalize().to_hex()[..HASH_CHARS];
        let path = machine::folder().map(|folder| folder.join(FOLDER).join(format!("{name}.json")));
        let read = path.as_deref().and_then(|path| plain_file::read(path, MOST_BYTES).ok());
        let before = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        TypedAnswers { path, before, now: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    /// What was answered before; it is offered once.
    pub fn take(&mut self, question: &str) -> Option<String> {
        self.before.remove(question)
    }

    /// The questions come again: what was just typed is offered.
    pub fn offer_again(&mut self) {
        self.before.append(&mut self.now);
    }

    pub fn keep(&mut self, question: &str, answer: &str) -> io::Result<()> {
        self.now.insert(question.to_owned(), answer.to_owned());
        let Some(path) = &self.path else { return Ok(()) };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let all: BTreeMap<&String, &String> = self.before.iter().chain(&self.now).collect();
        let text = serde_json::to_string(&all)?;
        atomic_file::write(path, &[text.as_bytes()], Durability::Unsynced)
    }

    /// The dialogue has come to its end.
    pub fn forget(&mut self) {
        (self.before, self.now) = (BTreeMap::new(), BTreeMap::new());
        // A file that stays is offered once more, and does no harm.
        let _ = self.path.as_deref().map(fs::remove_file);
    }
}
