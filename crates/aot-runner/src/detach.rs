//! A run that goes on without its terminal: this same program in a session of its own, which writes into a log of bounded
//! size and says once that it has begun. Both sides of it; knows no loop.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::plain_file;

/// The log in the sidecar. The one before it has [`OLD`] behind its name.
const LOG: &str = "run.log";
const OLD: &str = ".old";

/// A longer log is begun anew, and the old one kept once.
const MOST_BYTES: u64 = 4 << 20;

/// Of what it says first, so much is read.
const FIRST_BYTES: u64 = 1 << 20;

/// What it says when it has begun, before the length of what stood in its log before the bound.
const BEGUN: &str = "begun ";

/// A run that was started and has not begun yet.
#[derive(Debug)]
pub struct DetachedRun {
    child: Child,
    line: UnixStream,
    log: PathBuf,
}

/// What became of it.
#[derive(Debug)]
pub enum Beginning {
    Begun {
        pid: u32,
        /// What it printed on the loop before it began, and from then on.
        head: String,
        first: String,
    },
    /// It ended before; `exit` is absent if a signal ended it.
    Failed { exit: Option<i32>, printed: String },
}

/// The log of the run that was detached last.
pub fn log_in(sidecar: &Path) -> PathBuf {
    sidecar.join(LOG)
}

impl DetachedRun {
    /// Starts the program with these words, in the folder that we are in. The sidecar is there.
    pub fn start(program: &Path, words: &[OsString], sidecar: &Path) -> io::Result<DetachedRun> {
        let log = log_in(sidecar);
        let file = new_log(&log)?;
        let (line, theirs) = UnixStream::pair()?;
        let child = Command::new(program)
            .arg0("aot")
            .args(words)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        Ok(DetachedRun { child, line, log })
    }

    /// Waits until it has begun or ended.
    pub fn wait_until_begun(mut self) -> io::Result<Beginning> {
        let mut said = String::new();
        // A line that breaks says as much as one that ends.
        let _ = BufReader::new(&self.line).read_line(&mut said);
        let mut printed = Vec::new();
        let mut read =
            |log: &Path| plain_file::open_to_read(log)?.take(FIRST_BYTES).read_to_end(&mut printed);
        match said.strip_prefix(BEGUN).and_then(|length| length.trim_end().parse::<usize>().ok()) {
            Some(length) => {
                read(&self.log)?;
                let (head, first) = printed.split_at(length.min(printed.len()));
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Ok(Beginning::Begun { pid: self.child.id(), head: text(head), first: text(first) })
            }
            None => {
                let exit = self.child.wait()?.code();
                read(&self.log)?;
                Ok(Beginning::Failed { exit, printed: String::from_utf8_lossy(&printed).into_owned() })
            }
        }
    }

    pub fn log(&self) -> &Path {
        &self.log
    }
}

/// The side of the run itself.
#[derive(Debug)]
pub struct OwnLog {
    path: PathBuf,
    /// How much stood in it before the loop.
    head: u64,
    has_begun: bool,
}

impl OwnLog {
    /// Leaves the terminal: its signals, and its end, are not meant for this process any more.
    pub fn leave_terminal(sidecar: &Path) -> OwnLog {
        // Whoever leads a session already has none to leave.
        let _ = rustix::process::setsid();
        OwnLog { path: log_in(sidecar), head: 0, has_begun: false }
    }

    /// What is printed from now on is the loop's.
    pub fn end_of_head(&mut self) {
        self.head = self.length();
    }

    /// Says that the loop has begun, once. Fails if whoever waited for it is gone.
    pub fn tell_begun(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let mut line = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        line.write_all(format!("{BEGUN}{}\n", self.head).as_bytes())?;
        Ok(rustix::stdio::dup2_stdin(File::open("/dev/null")?)?)
    }

    /// Begins a new log when this one is long.
    pub fn keep_short(&self) {
        if self.length() < MOST_BYTES {
            return;
        }
        // Where no new log can be made, the long one grows on.
        if let Ok(file) = new_log(&self.path) {
            let _ = rustix::stdio::dup2_stdout(&file);
            let _ = rustix::stdio::dup2_stderr(&file);
        }
    }

    fn length(&self) -> u64 {
        fs::symlink_metadata(&self.path).map_or(0, |found| found.len())
    }
}

/// An empty log; the one that was there before is kept.
fn new_log(path: &Path) -> io::Result<File> {
    let mut old = path.as_os_str().to_os_string();
    old.push(OLD);
    match fs::rename(path, old) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    plain_file::open(path, OpenOptions::new().append(true).create(true).mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_long_makes_room_for_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = log_in(dir.path());
        let mut first = new_log(&path).expect("a log");
        first.write_all(b"one").expect("written");
        let mut second = new_log(&path).expect("a log");
        second.write_all(b"two").expect("written");
        drop(new_log(&path).expect("a log"));
        let kept = |path: &Path| fs::read_to_string(path).expect("it is there");
        assert_eq!((kept(&path), kept(&dir.path().join("run.log.old"))), (String::new(), "two".to_owned()));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 2, "never more than two");
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("elsewhere", &path).expect("a link");
        drop(new_log(&path).expect("the link was set aside"));
        assert!(!dir.path().join("elsewhere").exists());
    }
}
