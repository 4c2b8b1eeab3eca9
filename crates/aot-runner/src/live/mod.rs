//! The live record: what a driver tells while it runs, a JSON object in each line, for screens in other processes. The same
//! objects that `aot run --json` prints. It begins anew with each run, is bounded, and nothing rests on it.

mod changes;
mod hosts;
mod now;
mod object;

pub use changes::ChangePoll;
pub use hosts::{HostJobNow, HostNow, HostsNow};
pub use now::{LiveCheck, LiveJob, LiveNow};
pub use object::{bound_object, objects};

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aot_core::rules::certificate::Certificate;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::message::Notice;
use crate::plain_file;

/// At this size the record becomes the older one, and the one before is forgotten.
pub const ROTATED_AT: u64 = 4 << 20;

/// So much is read at a time.
const READ_AT_ONCE: u64 = 1 << 20;

/// A longer line is not ours, and skipped.
const LONGEST_LINE: usize = 4 << 20;

const NAME: &str = "live.jsonl";
const OLDER: &str = "live.older.jsonl";

/// The driver's side. A record that cannot be written ends silently: the run does not need it.
#[derive(Debug)]
pub struct LiveRecord {
    path: PathBuf,
    older: PathBuf,
    file: Option<File>,
    size: u64,
    rotated_at: u64,
}

impl LiveRecord {
    /// Begins a record in this sidecar; that of the run before is gone.
    pub fn begin(sidecar: &Path) -> LiveRecord {
        LiveRecord::rotating_at(sidecar, ROTATED_AT)
    }

    fn rotating_at(sidecar: &Path, rotated_at: u64) -> LiveRecord {
        let (path, older) = (sidecar.join(NAME), sidecar.join(OLDER));
        // The one before may be missing.
        let _ = fs::remove_file(&older);
        let mut record = LiveRecord { path, older, file: None, size: 0, rotated_at };
        record.renew();
        record
            .write(&json!({"type": "began", "pid": std::process::id(), "at": Timestamp::now().to_string()}));
        record
    }

    pub fn tell(&mut self, notice: &Notice<'_>) {
        for object in objects(notice) {
            self.write(&object);
        }
    }

    /// The end of the run.
    pub fn end(&mut self, certificate: &Certificate) {
        let mut object = json!(certificate);
        object["type"] = json!("halted");
        object["at"] = json!(Timestamp::now().to_string());
        self.write(&object);
    }

    fn write(&mut self, object: &Value) {
        let mut line = object.to_string();
        line.push('\n');
        if self.size > 0 && self.size + line.len() as u64 > self.rotated_at {
            if fs::rename(&self.path, &self.older).is_err() {
                self.file = None;
                return;
            }
            self.renew();
        }
        let Some(file) = &mut self.file else { return };
        match file.write_all(line.as_bytes()) {
            Ok(()) => self.size += line.len() as u64,
            // A line that is torn would make the next one unreadable.
            Err(_) => self.file = None,
        }
    }

    /// A new file, so that readers see that another record begins.
    fn renew(&mut self) {
        let _ = fs::remove_file(&self.path);
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        self.file = plain_file::open(&self.path, &mut options).ok();
        self.size = 0;
    }
}

/// Follows a record: whatever is new since the last look.
#[derive(Debug)]
pub struct LiveReader {
    sidecar: PathBuf,
    file: Option<OpenRecord>,
}

#[derive(Debug)]
struct OpenRecord {
    file: File,
    inode: u64,
    /// The beginning of a line whose end is not there yet.
    torn: Vec<u8>,
}

impl LiveReader {
    /// Begins with what is there already.
    pub fn of(sidecar: &Path) -> LiveReader {
        LiveReader { sidecar: sidecar.to_path_buf(), file: None }
    }

    /// Brings what goes on now up to date.
    pub fn update(&mut self, now: &mut LiveNow) {
        self.each_new(&mut |object| now.see(&object));
    }

    /// The objects that were written since the last call, oldest first. A run that began meanwhile says so with `began`.
    pub fn read_new(&mut self) -> Vec<Value> {
        let mut objects = Vec::new();
        self.each_new(&mut |object| objects.push(object));
        objects
    }

    /// The same, one after the other: a long record is never in memory as a whole.
    pub fn each_new(&mut self, see: &mut dyn FnMut(Value)) {
        if self.file.is_none() {
            // Of a record that was rotated, what is older comes first.
            if let Ok(mut older) = open_record(&self.sidecar.join(OLDER)) {
                older.read_to_end(see);
            }
            self.file = open_record(&self.sidecar.join(NAME)).ok();
        }
        let Some(open) = &mut self.file else { return };
        open.read_to_end(see);
        if inode(&self.sidecar.join(NAME)) != Some(open.inode) {
            // It was rotated or begun anew; what was written just before that stands in the old file.
            open.read_to_end(see);
            self.file = open_record(&self.sidecar.join(NAME)).ok();
            if let Some(open) = &mut self.file {
                open.read_to_end(see);
            }
        }
    }
}

impl OpenRecord {
    /// Tells all whole lines that can be read.
    fn read_to_end(&mut self, see: &mut dyn FnMut(Value)) {
        loop {
            let mut bytes = Vec::new();
            let Ok(count) = (&mut self.file).take(READ_AT_ONCE).read_to_end(&mut bytes) else { return };
            self.torn.extend_from_slice(&bytes);
            let Some(end) = self.torn.iter().rposition(|byte| *byte == b'\n') else {
                if self.torn.len() > LONGEST_LINE {
                    self.torn.clear();
                }
                if count == 0 {
                    return;
                }
                continue;
            };
            let rest = self.torn.split_off(end + 1);
            let lines = std::mem::replace(&mut self.torn, rest);
            let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(&mut *see);
            if count == 0 {
                return;
            }
        }
    }
}

fn open_record(path: &Path) -> io::Result<OpenRecord> {
    let mut file = plain_file::open_to_read(path)?;
    let found = file.metadata()?;
    if found.len() > 4 * ROTATED_AT {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is not a live record"));
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(OpenRecord { file, inode: found.ino(), torn: Vec::new() })
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reader: &mut LiveReader) -> Vec<String> {
        let word = |object: &Value| match object["text"].as_str() {
            Some(text) => text.to_owned(),
            None => object["type"].as_str().unwrap_or("?").to_owned(),
        };
        reader.read_new().iter().map(word).collect()
    }

    #[test]
    fn a_reader_sees_each_line_once_through_rotations_and_new_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut early = LiveReader::of(folder.path());
        assert!(told(&mut early).is_empty(), "there is no record yet");
        let mut record = LiveRecord::rotating_at(folder.path(), 400);
        record.tell(&Notice::note("one"));
        assert_eq!(told(&mut early), ["began", "one"]);
        assert!(told(&mut early).is_empty(), "nothing is told twice");
        let mut expected = Vec::new();
        for number in 0..20 {
            let text = format!("note {number}");
            record.tell(&Notice::note(&text));
            expected.push(text);
            if number % 3 == 0 {
                assert_eq!(told(&mut early), expected);
                expected.clear();
            }
        }
        assert_eq!(told(&mut early), expected);
        let late = told(&mut LiveReader::of(folder.path()));
        assert!(late.ends_with(&["note 18".to_owned(), "note 19".to_owned()]), "{late:?}");
        let size = |name: &str| fs::metadata(folder.path().join(name)).expect("there").len();
        assert!(size(NAME) <= 400 && size(OLDER) <= 400, "it is bounded");
        let mut second = LiveRecord::begin(folder.path());
        second.tell(&Notice::note("again"));
        assert_eq!(told(&mut early), ["began", "again"]);
        assert_eq!(told(&mut LiveReader::of(folder.path())), ["began", "again"]);
    }

    #[test]
    fn a_torn_line_is_told_when_it_is_whole_and_garbage_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(NAME);
        fs::write(&path, "{\"type\": \"note\", \"te").expect("written");
        let mut reader = LiveReader::of(folder.path());
        assert!(told(&mut reader).is_empty());
        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b"xt\": \"whole\"}\ngarbage\n\xff\n{\"type\": \"x\"}\n").expect("written");
        assert_eq!(told(&mut reader), ["whole", "x"]);
    }
}
