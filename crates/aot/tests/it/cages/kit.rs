//! A yard with a part inside a cage and a part outside, and jobs in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use aot_runner::process::cage::{Cage, Choice, Kind, Network, find};
use aot_runner::process::{Ended, Environment, Guard, How, Input, Job, Limits, Streams};

/// Nothing here takes this long unless it hangs.
pub const LONG: Duration = Duration::from_secs(120);

pub const MARK: &str = "AOT_TEST_MARK";

pub fn guard() -> Guard {
    Guard::new(PathBuf::from(env!("CARGO_BIN_EXE_aot")))
}

/// The cages that hold on this machine. Landlock is part of any kernel that we test on; bwrap may be missing, and then
/// that is said as loudly as a test can.
pub fn kinds() -> &'static [Kind] {
    static KINDS: OnceLock<Vec<Kind>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let mut kinds = Vec::new();
        for kind in [Kind::Bwrap, Kind::Landlock] {
            let ladder = find(&guard(), Choice::Only(kind), scratch.path());
            match ladder.as_wanted() {
                Ok(kind) => kinds.push(kind),
                Err(why) => skipped(kind, why),
            }
        }
        assert!(kinds.contains(&Kind::Landlock), "landlock does not hold here, so nothing can be tested");
        kinds
    })
}

/// Past the capturing of the test harness, which hides what passing tests print.
fn skipped(kind: Kind, why: &str) {
    let text =
        format!("\n*** SKIPPED: every test of the {kind} cage, because it does not hold here: {why}\n\n");
    // If there is no such place to write to, nobody looks.
    let _ = fs::OpenOptions::new().append(true).open("/proc/self/fd/2").map(|mut stderr| {
        let _ = std::io::Write::write_all(&mut stderr, text.as_bytes());
    });
}

/// `in` can be written, `out` cannot.
pub struct Yard {
    folder: tempfile::TempDir,
    pub kind: Kind,
    pub network: Network,
}

impl Yard {
    pub fn of(kind: Kind) -> Yard {
        let yard = Yard { folder: tempfile::tempdir().expect("a folder"), kind, network: Network::On };
        for folder in ["in", "in/tmp", "out"] {
            fs::create_dir(yard.path(folder)).expect("a folder");
        }
        fs::write(yard.path("out/file"), "as it was").expect("a file");
        yard
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("it exists").join(path)
    }

    /// A script with `$IN` and `$OUT`, and a folder for temporary files inside.
    pub fn job(&self, script: &str) -> Job {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let variable = |name: &str, path: PathBuf| (name.into(), path.into_os_string());
        Job {
            program: "/bin/bash".into(),
            arguments: vec!["-c".into(), script.into()],
            folder: self.path("in"),
            environment: Environment::OursAnd(vec![
                (MARK.into(), mark.into()),
                variable("IN", self.path("in")),
                variable("OUT", self.path("out")),
                variable("TMPDIR", self.path("in/tmp")),
            ]),
            input: Input::None,
            streams: Streams::Together,
            limits: Limits {
                wall: LONG,
                idle: None,
                grace: Duration::from_millis(100),
                head: 20_000,
                tail: 4_000,
            },
            cage: Some(self.cage()),
        }
    }

    pub fn cage(&self) -> Cage {
        Cage {
            kind: self.kind,
            writable: vec![self.path("in")],
            read_only: Vec::new(),
            hidden: Vec::new(),
            covered: Vec::new(),
            network: self.network.clone(),
        }
    }

    /// Runs it and sees that nobody of it is left the moment it has ended.
    pub fn run(&self, job: Job) -> Ended {
        let mark = mark_of(&job);
        let what = format!("{:?} under {}", job.arguments.last(), self.kind);
        let ended = in_time(&what, move || guard().run(&job).expect("the guard starts"));
        assert_eq!(alive(&mark), Vec::<String>::new(), "left by {what}");
        ended
    }

    /// How a script ended, and what it said.
    pub fn sh(&self, script: &str) -> (How, String) {
        let ended = self.run(self.job(script));
        (ended.how, String::from_utf8_lossy(&ended.output.whole().unwrap_or_default()).into_owned())
    }
}

pub fn mark_of(job: &Job) -> String {
    let variables = match &job.environment {
        Environment::OursAnd(variables) | Environment::Only(variables) => variables,
    };
    let (_, mark) = variables.iter().find(|(name, _)| name == MARK).expect("every job has one");
    format!("{MARK}={}", mark.to_string_lossy())
}

/// Calls on another thread, so that what hangs fails instead.
pub fn in_time<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody waits any more if this comes too late.
        let _ = sender.send(call());
    });
    receiver.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what} took longer than {LONG:?}"))
}

/// Every living process whose environment holds this mark.
pub fn alive(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("this is Linux").flatten() {
        let folder = entry.path();
        let Ok(environment) = fs::read(folder.join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let words = fs::read(folder.join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            found.push(format!("{}: {words}", folder.display()));
        }
    }
    found
}

/// Whether a program is on the search path.
pub fn is_here(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder: PathBuf| Path::new(&folder).join(program).is_file())
}
