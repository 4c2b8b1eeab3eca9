//! Tells when the state file may have changed. Reads no text and does not say what changed.
//!
//! The folder of the state file is watched, not the file, because the file is replaced by others all the time. If the
//! folder is missing, the nearest one above it is watched until it appears; the project's own folder is left alone
//! otherwise, since the system tells of every file that anybody opens in a folder that is watched. Whatever is not told,
//! such as a folder replaced further up or another machine's change on a network file system, is found by a look once a
//! second.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use crate::store::home::Home;
use crate::store::text::Stamp;

/// Changes that follow each other within this time are reported as one.
const PAUSE: Duration = Duration::from_millis(2);
/// A burst that does not end is reported after this time.
const LONGEST_BURST: Duration = Duration::from_millis(15);
/// How often it is looked whether the folder is still the same, and the file.
const LOOK: Duration = Duration::from_secs(1);
/// How often the folder is looked up again when it changes while being looked up.
const TRIES: usize = 20;

/// What the watch has to say.
#[derive(Debug)]
pub enum FileNotice {
    /// The text may be another one, gone, or there again.
    Changed,
    /// Watching has failed for this reason; no change will be reported any more.
    Blind(WatchError),
}

#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error("the system's limit of file watches is reached, so {path} cannot be watched")]
    Limit { path: PathBuf },
    #[error("cannot watch {path}")]
    Failed { path: PathBuf, source: notify::Error },
    #[error("the folders above {path} keep changing, so it cannot be watched")]
    Restless { path: PathBuf },
    #[error("no thread could be started to watch {path}")]
    NoThread { path: PathBuf, source: std::io::Error },
}

impl WatchError {
    pub fn hint(&self) -> String {
        match self {
            WatchError::Limit { .. } => {
                "raise it: `sysctl fs.inotify.max_user_watches` and `fs.inotify.max_user_instances`".into()
            }
            WatchError::Failed { .. } => {
                "see the cause; the state file can be used without being watched".into()
            }
            WatchError::Restless { .. } => "repeat when the folders are at rest".into(),
            WatchError::NoThread { .. } => "raise the limit of processes (`ulimit -u`)".into(),
        }
    }
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watch {
    signals: Sender<Signal>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Signal {
    /// The state file itself.
    File,
    /// A folder above it.
    Folder,
    Failed(notify::Error),
    Stop,
}

impl Watch {
    /// After this returns, `tell` is called for every change, on a thread of its own.
    pub fn new(home: &Home, tell: impl FnMut(FileNotice) + Send + 'static) -> Result<Watch, WatchError> {
        let (signals, received) = channel();
        let state = home.state().to_path_buf();
        let armed = Armed::new(&state, &signals)?;
        let stamp = Stamp::of(&state).ok();
        let mut post = Post { state, stamp, armed, signals: signals.clone(), received, tell };
        let thread = std::thread::Builder::new().name("aot-watch".into()).spawn(move || post.stand());
        match thread {
            Ok(thread) => Ok(Watch { signals, thread: Some(thread) }),
            Err(source) => Err(WatchError::NoThread { path: home.state().to_path_buf(), source }),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // If the receiver is gone, the thread has ended already.
        let _ = self.signals.send(Signal::Stop);
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            // A panic of `tell` was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The watching thread.
struct Post<F> {
    state: PathBuf,
    stamp: Option<Stamp>,
    armed: Armed,
    signals: Sender<Signal>,
    received: Receiver<Signal>,
    tell: F,
}

/// What a burst of signals comes to.
enum Burst {
    File,
    Folder,
    Failed(notify::Error),
    Stop,
}

impl<F: FnMut(FileNotice)> Post<F> {
    fn stand(&mut self) {
        loop {
            let burst = self.burst();
            match burst {
                Burst::Stop => return,
                Burst::Failed(source) => {
                    let path = self.state.clone();
                    return (self.tell)(FileNotice::Blind(WatchError::Failed { path, source }));
                }
                Burst::File | Burst::Folder => {}
            }
            // The watches come before the telling, so that what happens after the telling is seen.
            let moved = match self.armed.renew(&self.state, &self.signals) {
                Ok(moved) => moved,
                Err(error) => return (self.tell)(FileNotice::Blind(error)),
            };
            let stamp = Stamp::of(&self.state).ok();
            if matches!(burst, Burst::File) || moved || stamp != self.stamp {
                self.stamp = stamp;
                (self.tell)(FileNotice::Changed);
            }
        }
    }

    /// Waits for a signal and for the pause after it.
    fn burst(&self) -> Burst {
        let mut burst = Burst::Folder;
        let mut signal = match self.received.recv_timeout(LOOK) {
            Ok(signal) => signal,
            Err(RecvTimeoutError::Timeout) => return burst,
            Err(RecvTimeoutError::Disconnected) => Signal::Stop,
        };
        let end = Instant::now() + LONGEST_BURST;
        loop {
            match signal {
                Signal::File => burst = Burst::File,
                Signal::Folder => {}
                Signal::Failed(error) => return Burst::Failed(error),
                Signal::Stop => return Burst::Stop,
            }
            if Instant::now() >= end {
                return burst;
            }
            signal = match self.received.recv_timeout(PAUSE) {
                Ok(signal) => signal,
                Err(RecvTimeoutError::Timeout) => return burst,
                Err(RecvTimeoutError::Disconnected) => Signal::Stop,
            };
        }
    }
}

/// The system's watch on the folder as it is.
#[derive(Debug)]
struct Armed {
    folder: Option<WatchedFolder>,
    _watcher: RecommendedWatcher,
}

/// A folder, and which one it is.
#[derive(Debug, PartialEq, Eq)]
struct WatchedFolder {
    path: PathBuf,
    dev: u64,
    ino: u64,
}

impl Armed {
    fn new(state: &Path, signals: &Sender<Signal>) -> Result<Armed, WatchError> {
        for _ in 0..TRIES {
            let found = folder(state);
            let mut watcher = watcher(state, signals.clone()).map_err(|e| failed(state, e))?;
            let watched = match &found {
                Some(WatchedFolder { path, .. }) => watcher.watch(path, RecursiveMode::NonRecursive),
                None => Ok(()),
            };
            // Looked up again, because a folder replaced in between would be watched in vain.
            match watched {
                Ok(()) if found == folder(state) => return Ok(Armed { folder: found, _watcher: watcher }),
                Err(e) if found == folder(state) => return Err(failed(state, e)),
                _ => {}
            }
        }
        Err(WatchError::Restless { path: state.to_path_buf() })
    }

    /// Watches the folder that is there now; says whether it is another one than before.
    fn renew(&mut self, state: &Path, signals: &Sender<Signal>) -> Result<bool, WatchError> {
        if folder(state) == self.folder {
            return Ok(false);
        }
        *self = Armed::new(state, signals)?;
        Ok(true)
    }
}

/// The state file's folder, or the nearest one above that exists.
fn folder(state: &Path) -> Option<WatchedFolder> {
    state.ancestors().skip(1).find_map(|folder| {
        let found = fs::metadata(folder).ok().filter(|found| found.is_dir())?;
        let Stamp { dev, ino, .. } = Stamp::from(&found);
        Some(WatchedFolder { path: folder.to_path_buf(), dev, ino })
    })
}

fn watcher(state: &Path, signals: Sender<Signal>) -> notify::Result<RecommendedWatcher> {
    let state = state.to_path_buf();
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        let signal = match event {
            Ok(event) => signal(&event, &state),
            Err(error) => Some(Signal::Failed(error)),
        };
        if let Some(signal) = signal {
            // If the receiver is gone, the watch is being dropped.
            let _ = signals.send(signal);
        }
    })
}

/// What an event means for the state file.
fn signal(event: &Event, state: &Path) -> Option<Signal> {
    if event.need_rescan() {
        return Some(Signal::File);
    }
    match event.kind {
        // Opened, read, closed.
        EventKind::Access(_) => None,
        _ if event.paths.iter().any(|path| path == state) => Some(Signal::File),
        _ if event.paths.iter().any(|path| state.starts_with(path)) => Some(Signal::Folder),
        _ => None,
    }
}

fn failed(state: &Path, error: notify::Error) -> WatchError {
    let path = state.to_path_buf();
    match error.kind {
        notify::ErrorKind::MaxFilesWatch => WatchError::Limit { path },
        // Too many instances.
        notify::ErrorKind::Io(ref e) if e.raw_os_error() == Some(24) => WatchError::Limit { path },
        _ => WatchError::Failed { path, source: error },
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Generous: the point is that it is told at all.
    const SOON: Duration = Duration::from_secs(20);

    type Act<'a> = (&'a str, &'a dyn Fn(&Path));

    /// After each act the change is told, and the next one as well.
    fn check(acts: &[Act]) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let root = dir.path().canonicalize().expect("it exists");
        let state = root.join("project/.claude/aot-loop-state.md");
        fs::create_dir_all(root.join("project/.claude/aot")).expect("made");
        fs::write(&state, "a\n").expect("written");
        let (told, heard) = channel();
        let home = Home::of(&state).expect("a home");
        let _watch = Watch::new(&home, move |notice| told.send(notice).expect("heard")).expect("watching");
        for (name, act) in acts {
            // What is left of the act before; a telling too many is no harm.
            while heard.recv_timeout(Duration::from_millis(30)).is_ok() {}
            act(&state);
            match heard.recv_timeout(SOON) {
                Ok(FileNotice::Changed) => {}
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    fn write(state: &Path) {
        fs::write(state, "another\n").expect("written");
    }

    fn rename(state: &Path) {
        fs::write(state.with_extension("new"), "renamed\n").expect("written");
        fs::rename(state.with_extension("new"), state).expect("renamed");
    }

    fn replace_folder(state: &Path) {
        let folder = state.parent().expect("a folder");
        fs::create_dir(folder.with_extension("new")).expect("made");
        fs::write(folder.with_extension("new").join("aot-loop-state.md"), "new folder\n").expect("written");
        fs::rename(folder, folder.with_extension("old")).expect("moved");
        fs::rename(folder.with_extension("new"), folder).expect("moved");
        fs::remove_dir_all(folder.with_extension("old")).expect("deleted");
    }

    #[test]
    fn every_way_of_changing_it_is_told() {
        check(&[
            ("in place", &write),
            ("by rename", &rename),
            ("in place after a rename", &write),
            ("deleted", &|state| fs::remove_file(state).expect("deleted")),
            ("created", &write),
            ("appended", &|state| {
                use std::io::Write;
                let mut file = fs::OpenOptions::new().append(true).open(state).expect("opened");
                file.write_all(b"more\n").expect("written");
            }),
            ("folder replaced", &replace_folder),
            ("in place in the new folder", &write),
            ("by rename in the new folder", &rename),
            ("folder deleted", &|state| {
                fs::remove_dir_all(state.parent().expect("a folder")).expect("deleted")
            }),
            ("folder made and file in it", &|state| {
                fs::create_dir_all(state.parent().expect("a folder")).expect("made");
                write(state);
            }),
            ("in place in the folder made", &write),
            ("project deleted", &|state| {
                fs::remove_dir_all(state.ancestors().nth(2).expect("a project")).expect("deleted");
            }),
            ("project made", &|state| {
                fs::create_dir_all(state.parent().expect("a folder")).expect("made");
                write(state);
            }),
            ("in place in the project made", &write),
            ("project replaced", &|state| {
                let project = state.ancestors().nth(2).expect("a project");
                fs::create_dir_all(project.with_extension("new").join(".claude")).expect("made");
                fs::rename(project, project.with_extension("old")).expect("moved");
                fs::rename(project.with_extension("new"), project).expect("moved");
            }),
            ("in place in the project replaced", &write),
        ]);
    }

    #[test]
    fn our_own_exchange_is_told() {
        let exchange = |state: &Path| {
            let file = crate::store::file::StateFile::open(state, 1_000).expect("a state file");
            let done = file.transact("test", |candidate| {
                let longer = [&candidate.text.bytes[..], b"x"].concat();
                Ok::<_, std::convert::Infallible>(crate::store::file::Decision::Replace(longer, ()))
            });
            drop(done.expect("replaced"));
        };
        check(&[("first", &exchange), ("second", &exchange), ("in place", &write), ("third", &exchange)]);
    }

    #[test]
    fn other_files_and_readers_are_not_told() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let state = dir.path().canonicalize().expect("it exists").join("aot-loop-state.md");
        fs::write(&state, "a\n").expect("written");
        let (told, heard) = channel();
        let home = Home::of(&state).expect("a home");
        let _watch = Watch::new(&home, move |notice| told.send(notice).expect("heard")).expect("watching");
        for number in 0..100 {
            fs::write(state.with_file_name(format!("other-{number}")), "x").expect("written");
            fs::read(&state).expect("read");
        }
        // The telling of this change comes after those of all that was before.
        fs::remove_file(&state).expect("deleted");
        assert!(matches!(heard.recv_timeout(SOON), Ok(FileNotice::Changed)));
        assert!(!state.exists());
        assert!(heard.try_recv().is_err(), "told once");
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let home = Home::of(&dir.path().join("aot-loop-state.md")).expect("a home");
        let (told, heard) = channel();
        drop(Watch::new(&home, move |notice| told.send(notice).expect("heard")).expect("watching"));
        assert!(heard.recv().is_err(), "nobody can tell any more");
    }
}
