//! One round: a loop, a few runs of it that are disturbed, one that is not, and what must hold then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::faults::clock;
use crate::faults::inject::{self, SmallDisk, Traces};
use crate::faults::kinds::{Calls, Doing, Fault, GitFault, KINDS, Struck, Victim};
use crate::faults::loops::LoopKind;
use crate::project::{Project, STATE};
use crate::random::Random;

/// How long the last, undisturbed run may take: a hundred times what it needs, for machines that have other things to do.
const UNDISTURBED: Duration = Duration::from_secs(120);

/// How often a person who asked for a stop has to start the run again.
const RESUMED: usize = 3;

/// What an undisturbed run came to, and how long it took.
#[derive(Clone, Debug)]
pub struct Undisturbed {
    pub files: BTreeMap<String, Vec<u8>>,
    pub took: Duration,
    /// How often it started git.
    pub git_starts: u64,
}

/// What a round was and how it went.
#[derive(Debug)]
pub struct Round {
    pub kind: LoopKind,
    pub seed: u64,
    pub faults: BTreeMap<&'static str, usize>,
    /// What did not hold, and where it can be looked at.
    pub broken: Option<(String, PathBuf)>,
}

/// Which means there are for injecting faults on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    pub strace: bool,
    pub mounts: bool,
    /// A compiler makes a library that lies about the calendar.
    pub clock: bool,
}

pub fn undisturbed(aot: &Path, kind: LoopKind) -> Undisturbed {
    let project = kind.make(aot);
    inject::wrap_git(&project);
    let began = Instant::now();
    let mut child = inject::start(&project, None);
    let exit = inject::wait(&mut child, UNDISTURBED);
    assert_eq!(exit, Some(0), "{}: {}", kind.name(), project.read_note("out"));
    let git_starts = inject::git_starts(&project);
    Undisturbed { files: project.files(), took: began.elapsed(), git_starts }
}

pub fn round(aot: &Path, kind: LoopKind, seed: u64, normal: &Undisturbed, means: Means) -> Round {
    let mut random = Random::new(seed);
    // The disk is mounted before the project is made in it, and goes after it.
    let folder = tempfile::Builder::new().prefix("aot-disk-").tempdir().expect("a folder");
    let small = means.mounts && random.percent(8) && Fault::DiskFull.fits(kind);
    let disk = small.then(|| SmallDisk::at(folder.path())).flatten();
    let project = match &disk {
        Some(_) => kind.make_in(aot, folder.path()),
        None => kind.make(aot),
    };
    inject::wrap_git(&project);
    let mut life = RoundUnderWay {
        project: &project,
        kind,
        normal,
        means,
        faults: BTreeMap::new(),
        traces: Traces::default(),
    };
    let runs = random.between(1, 4);
    let mut result = (0..runs).try_for_each(|_| life.disturb(&mut random, disk.is_some()));
    if result.is_ok() {
        result = life.finish();
    }
    let faults = std::mem::take(&mut life.faults);
    for (pid, _) in project.processes() {
        // What is left of a broken round must not go on.
        Project::kill(pid);
    }
    let broken = result.err().map(|what| (what, project.keep()));
    Round { kind, seed, faults, broken }
}

struct RoundUnderWay<'l> {
    project: &'l Project,
    kind: LoopKind,
    normal: &'l Undisturbed,
    means: Means,
    faults: BTreeMap<&'static str, usize>,
    traces: Traces,
}

impl RoundUnderWay<'_> {
    /// One run with faults in it.
    fn disturb(&mut self, random: &mut Random, small_disk: bool) -> Result<(), String> {
        let (mut timed, mut calls) = (Vec::new(), None);
        let starts = inject::git_starts(self.project);
        let span = self.normal.took.as_millis() as u64 * 12 / 10;
        for _ in 0..random.between(3, 9) {
            match self.choose(random) {
                Fault::Git(fault) => {
                    let start = starts + random.between(1, self.normal.git_starts);
                    self.plan(fault, start, random);
                }
                Fault::Call(kind, struck) => calls = Some((kind, struck, number(kind, struck, random))),
                Fault::Person(Doing::DeletesTheSidecar) => {
                    // Between runs, as the contract allows; not while half an attempt lies in the project, since what
                    // undoes it lies there.
                    let half_done =
                        !self.kind.lands() && self.project.read(STATE).contains("status: in_progress");
                    if self.project.path(".claude/aot").exists() && !half_done {
                        self.strike(Fault::Person(Doing::DeletesTheSidecar), random)?;
                    }
                }
                fault => timed.push((random.between(0, span), fault)),
            }
        }
        if small_disk {
            timed.push((random.between(0, span), Fault::DiskFull));
        }
        timed.sort_unstable();
        let mut child = inject::start(self.project, calls);
        let began = Instant::now();
        // Under a tracer the driver is its child, and is known a moment later.
        let driver = match calls {
            None => child.id().to_string(),
            Some(_) => {
                inject::traced_driver(self.project, &mut child).map_or(String::new(), |pid| pid.to_string())
            }
        };
        std::fs::write(self.project.note("driver"), driver).map_err(|error| error.to_string())?;
        for (moment, fault) in timed {
            let left = Duration::from_millis(moment).saturating_sub(began.elapsed());
            if inject::wait(&mut child, left).is_some() {
                break;
            }
            self.strike(fault, random)?;
        }
        if inject::wait(&mut child, self.normal.took * 3 + Duration::from_secs(1)).is_none() {
            self.strike(Fault::Kill(Victim::Everybody), random)?;
            let ended = inject::wait(&mut child, Duration::from_secs(20));
            ended
                .ok_or_else(|| format!("a killed run did not end\n{}", self.project.describe_processes()))?;
        }
        if let Some((kind, struck, _)) = calls {
            self.count(Fault::Call(kind, struck).name(), inject::count_struck_calls(self.project));
        }
        for name in inject::take_struck(self.project) {
            let known = KINDS.iter().find(|(_, kind, _)| *kind == name);
            self.count(known.map_or("git", |(_, kind, _)| kind), 1);
        }
        // Plans that were not reached must not strike the next run.
        let _ = std::fs::remove_dir_all(self.project.note("plan"));
        std::fs::create_dir_all(self.project.note("plan")).map_err(|error| error.to_string())
    }

    fn choose(&self, random: &mut Random) -> Fault {
        let weights: usize = KINDS.iter().map(|(.., weight)| weight).sum();
        loop {
            let mut left = random.below(weights);
            let chosen = KINDS.iter().find(|(.., weight)| {
                let found = left < *weight;
                left = left.saturating_sub(*weight);
                found
            });
            let Some((fault, ..)) = chosen else { continue };
            let possible = match fault {
                Fault::Call(..) => self.means.strace,
                // Only rounds on a small disk have one that can be full.
                Fault::DiskFull => false,
                Fault::ClockSet(_) => self.means.clock,
                _ => true,
            };
            if possible && fault.fits(self.kind) {
                return *fault;
            }
        }
    }

    /// Half of what is planned for git strikes several times in a row.
    fn plan(&self, fault: GitFault, start: u64, random: &mut Random) {
        let storm = if random.percent(50) { 1 } else { random.between(2, 12) };
        (start..start + storm).for_each(|start| inject::plan_git(self.project, fault, start));
    }

    fn strike(&mut self, fault: Fault, random: &mut Random) -> Result<(), String> {
        let done = inject::strike(self.project, fault, random, &mut self.traces)?;
        self.count(fault.name(), usize::from(done));
        Ok(())
    }

    fn count(&mut self, name: &'static str, times: usize) {
        if times > 0 {
            *self.faults.entry(name).or_default() += times;
        }
    }

    /// Whoever the faults left is given no time of its own: the next run begins at once, and everything must hold when it ends.
    fn finish(&self) -> Result<(), String> {
        let mut exit = None;
        for _ in 0..RESUMED {
            let mut child = inject::start(self.project, None);
            exit = inject::wait(&mut child, UNDISTURBED);
            if exit.is_none() {
                let (told, seen) = (self.describe(), self.project.describe_processes());
                let _ = (child.kill(), child.wait());
                return Err(format!("the undisturbed run did not end in {UNDISTURBED:?}\n{told}\n{seen}"));
            }
            if exit != Some(10) || !self.traces.stopped {
                break;
            }
        }
        if exit != Some(0) {
            return Err(format!("the undisturbed run ended with {exit:?}\n{}", self.describe()));
        }
        let broken = self.broken_promises();
        match broken.is_empty() {
            true => Ok(()),
            false => Err(format!("{}\n{}", broken.join("\n"), self.describe())),
        }
    }

    fn broken_promises(&self) -> Vec<String> {
        let RoundUnderWay { project, traces, .. } = self;
        let mut broken = Vec::new();
        let survivors = project.survivors();
        if !survivors.is_empty() {
            broken.push(format!("processes are left: {survivors:?}"));
        }
        let mut files = project.files();
        for file in &traces.commits {
            if files.remove(file).is_none() {
                broken.push(format!("a person's commit of {file} is lost"));
            }
        }
        if files != self.normal.files {
            broken.push(format!("the files differ: {}", difference(&files, &self.normal.files)));
        }
        let valid = project.aot(&["validate", "--json"]);
        if !valid.status.success() {
            broken.push(format!("the state file is not valid: {}", String::from_utf8_lossy(&valid.stdout)));
        }
        let state = project.read(STATE);
        if !state.contains("status: completed") {
            broken.push("the state does not say completed".into());
        }
        let lost = traces.notes.iter().filter(|note| !state.contains(note.as_str()));
        broken.extend(lost.map(|note| format!("an edit is lost: {note}")));
        if let Some(intent) = &traces.intent
            && !state.contains(intent.as_str())
        {
            broken.push(format!("a redirect is lost: {intent}"));
        }
        if self.kind.has_git() {
            broken.extend(self.broken_repository());
        }
        broken
    }

    fn broken_repository(&self) -> Vec<String> {
        let project = self.project;
        let mut broken = Vec::new();
        let landed = project.landed();
        for choices in self.kind.landings() {
            let times = landed.iter().filter(|atom| choices.contains(&atom.as_str())).count();
            if times != 1 {
                broken.push(format!("{choices:?} landed {times} times"));
            }
        }
        if self.kind.lands() {
            match project.git(&["status", "--porcelain", "--untracked-files=all"]) {
                Ok(status) if status.is_empty() => {}
                Ok(status) => broken.push(format!("the checkout is not clean: {status}")),
                Err(error) => broken.push(error),
            }
        }
        if let Err(error) = project.git(&["fsck", "--connectivity-only", "--no-dangling"]) {
            broken.push(error);
        }
        let locks = project.locks();
        if !locks.is_empty() {
            broken.push(format!("locks are left: {locks:?}"));
        }
        broken
    }

    /// The end of what the runs said.
    fn describe(&self) -> String {
        let out = self.project.read_note("out");
        let lines: Vec<&str> = out.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

/// Which call of its kind is struck. A kill has the driver's main thread to itself, which makes about so many of each; an
/// error meets every process, and programs open many files before they do anything.
fn number(calls: Calls, struck: Struck, random: &mut Random) -> u64 {
    let (first, last) = match (calls, struck) {
        (Calls::Write, Struck::Killed) => (1, 120),
        (Calls::Rename, Struck::Killed) => (1, 38),
        (Calls::Sync, Struck::Killed) => (1, 25),
        (Calls::Open, Struck::Killed) => (1, 160),
        (Calls::Start, Struck::Killed) => (1, 40),
        (Calls::Write, _) => (1, 40),
        (Calls::Rename | Calls::Sync, _) => (1, 12),
        (Calls::Open, _) => (15, 200),
        (Calls::Start, _) => (1, 30),
    };
    random.between(first, last)
}

fn difference(found: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) -> String {
    let names = found.keys().chain(wanted.keys()).collect::<std::collections::BTreeSet<_>>();
    let differing = names.into_iter().filter(|name| found.get(*name) != wanted.get(*name));
    let text = |content: Option<&Vec<u8>>| content.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let told =
        differing.map(|name| format!("{name}: {:?} for {:?}", text(found.get(name)), text(wanted.get(name))));
    told.collect::<Vec<_>>().join(", ")
}

/// System calls cannot be struck where there is no tracer, and disks cannot be filled by ordinary users.
pub fn means() -> Means {
    let works = |program: &str, words: &[&str]| {
        let output = std::process::Command::new(program).args(words).output();
        output.is_ok_and(|output| output.status.success())
    };
    let place = tempfile::tempdir().expect("a folder");
    Means {
        strace: works(
            "strace",
            &["-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync", "-o", "/dev/null", "true"],
        ),
        mounts: SmallDisk::at(place.path()).is_some(),
        clock: clock::library().is_some(),
    }
}
