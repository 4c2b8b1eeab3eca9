//! How each fault is done to a run. Knows nothing of what must hold afterwards.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::faults::clock;
use crate::faults::kinds::{Calls, Doing, Fault, GitFault, Lock, Sent, Struck, Victim};
use crate::project::{ProcessKind, Project, STATE};
use crate::random::Random;

/// How long a verb may take beside a loop that is disturbed. The program itself gives a driver a minute to stand still.
const VERB: Duration = Duration::from_secs(40);

/// What people did that has to be found again in the end.
#[derive(Debug, Default)]
pub struct Traces {
    /// Lines that editors added to the body of the state file.
    pub notes: Vec<String>,
    /// Files that a person committed.
    pub commits: Vec<String>,
    /// What the last redirect that was accepted set the intent to.
    pub intent: Option<String>,
    /// Whether a person asked for a stop, so that a run may end with that.
    pub stopped: bool,
}

/// A wrapper of git comes first on the PATH of the run: at the numbered starts it does what is planned for them, and notes
/// that it did.
pub fn wrap_git(project: &Project) {
    let real =
        ["/usr/bin/git", "/bin/git", "/usr/local/bin/git"].into_iter().find(|path| Path::new(path).exists());
    let notes = project.note("").display().to_string();
    let script = r#"#!/bin/sh
printf x >> "@NOTES@starts"
n=$(stat -c %s "@NOTES@starts")
[ -e "@NOTES@plan/$n" ] && . "@NOTES@plan/$n"
exec @REAL@ "$@"
"#;
    project.write_program(
        "../bin/git",
        &script.replace("@NOTES@", &notes).replace("@REAL@", real.unwrap_or("git")),
    );
    fs::create_dir_all(project.note("plan")).expect("a folder");
    fs::write(project.note("starts"), "").expect("a file");
    fs::write(project.note("struck"), "").expect("a file");
}

/// Plans a fault for a start of git from here on.
pub fn plan_git(project: &Project, fault: GitFault, start: u64) {
    let git = "/usr/bin/git \"$@\"";
    // Whoever is to die may be gone already.
    let kill = "kill -9 $(cat @NOTES@driver) 2> /dev/null";
    let what = match fault {
        GitFault::Fails => "echo 'fatal: it does not work today' >&2; exit 128".to_owned(),
        GitFault::FailsAfterItsWork => format!("{git}; echo 'fatal: it did not work' >&2; exit 128"),
        GitFault::Dies => "kill -9 $$".to_owned(),
        GitFault::DiesAfterItsWork => format!("{git}; kill -9 $$"),
        GitFault::IsSlow => "sleep 0.3".to_owned(),
        GitFault::DriverDiesBefore => kill.to_owned(),
        GitFault::DriverDiesAfter => format!("{git}; code=$?; {kill}; exit $code"),
    };
    let notes = project.note("").display().to_string();
    let text = format!("echo '{}' >> @NOTES@struck; {what}\n", Fault::Git(fault).name());
    let text = text.replace("@NOTES@", &notes);
    fs::write(project.note(&format!("plan/{start}")), text).expect("a file");
}

/// How often git was started so far.
pub fn git_starts(project: &Project) -> u64 {
    fs::metadata(project.note("starts")).map_or(0, |found| found.len())
}

/// Takes the names of the git faults that struck since the last time.
pub fn take_struck(project: &Project) -> Vec<String> {
    let struck = project.read_note("struck");
    fs::write(project.note("struck"), "").expect("a file");
    struck.lines().map(str::to_owned).collect()
}

/// The command that starts the run, with a fault in its system calls if that is wanted.
///
/// An error is injected into every process of the run that gets so far; a kill into the driver's main thread alone, because the
/// tracer kills only where it looks at every system call, and then everything else would crawl.
pub fn start(project: &Project, calls: Option<(Calls, Struck, u64)>) -> Child {
    let plain = project.command(&["run", "--json"]);
    let mut command = match calls {
        None => plain,
        Some((calls, struck, number)) => {
            let calls = match calls {
                Calls::Write => "write,writev,pwrite64",
                Calls::Rename => "rename,renameat,renameat2,link,linkat",
                Calls::Sync => "fsync,fdatasync",
                Calls::Open => "openat,mkdir,mkdirat",
                Calls::Start => "clone,clone3,fork,vfork",
            };
            let how = match struck {
                Struck::Killed => "signal=KILL",
                Struck::NoSpace => "error=ENOSPC",
                Struck::InputOutput => "error=EIO",
                Struck::NoDescriptors => "error=EMFILE",
                Struck::NoProcesses => "error=EAGAIN",
            };
            let mut traced = Command::new("strace");
            project.dress(&mut traced);
            if struck != Struck::Killed {
                traced.args(["-f", "--seccomp-bpf"]);
            }
            traced.args(["-qq", "-o"]).arg(project.note("calls"));
            traced.args([
                "-e",
                &format!("trace={calls}"),
                "-e",
                &format!("inject={calls}:{how}:when={number}"),
            ]);
            traced.arg(plain.get_program()).args(plain.get_args());
            traced
        }
    };
    clock::dress(project, &mut command);
    let out = fs::OpenOptions::new().create(true).append(true).open(project.note("out")).expect("a file");
    let err = out.try_clone().expect("a descriptor");
    command.stdout(out).stderr(err).spawn().expect("the run starts")
}

/// How many system calls were struck, as the tracer wrote it down: a call in which a process was killed has no result.
pub fn count_struck_calls(project: &Project) -> usize {
    let text = project.read_note("calls");
    text.lines().filter(|line| line.contains("(INJECTED") || line.ends_with("= ?")).count()
}

/// Who is who in the run that is under way.
pub fn driver(project: &Project) -> Option<Pid> {
    project.processes().into_iter().find(|(_, part)| *part == ProcessKind::Driver).map(|(pid, _)| pid)
}

/// The driver that a tracer starts, as soon as it is there.
pub fn traced_driver(project: &Project, tracer: &mut Child) -> Option<Pid> {
    loop {
        let found = driver(project);
        if found.is_some() || wait(tracer, Duration::from_millis(2)).is_some() {
            return found;
        }
    }
}

/// Does it, and says whether it was done.
pub fn strike(
    project: &Project,
    fault: Fault,
    random: &mut Random,
    traces: &mut Traces,
) -> Result<bool, String> {
    match fault {
        Fault::Kill(victim) => Ok(kill(project, victim, random)),
        Fault::Signal(sent) => Ok(signal(project, sent)),
        Fault::FewDescriptors => Ok(few_descriptors(project)),
        Fault::DiskFull => Ok(fill_disk(project)),
        Fault::Locked(lock) => Ok(hold(project, lock)),
        Fault::ClockSet(direction) => Ok(clock::set(project, direction, random)),
        Fault::Person(doing) => person(project, doing, random, traces),
        Fault::Git(_) | Fault::Call(..) => Ok(false),
    }
}

fn kill(project: &Project, victim: Victim, random: &mut Random) -> bool {
    let all = project.processes();
    let chosen: Vec<Pid> = match victim {
        Victim::Everybody => {
            all.iter().filter(|(_, part)| *part != ProcessKind::Tracer).map(|(pid, _)| *pid).collect()
        }
        Victim::DriverAndGuards => {
            let ends = |part: &ProcessKind| matches!(part, ProcessKind::Driver | ProcessKind::Guard);
            all.iter().filter(|(_, part)| ends(part)).map(|(pid, _)| *pid).collect()
        }
        Victim::AllOfOurs => {
            let ours: Vec<Pid> = all.iter().filter(|(_, part)| part.is_ours()).map(|(pid, _)| *pid).collect();
            // Stopped first, so that none of them sees another one die.
            ours.iter().filter(|pid| kill_process(**pid, Signal::STOP).is_ok()).count();
            ours
        }
        Victim::Driver => one(&all, ProcessKind::Driver, random),
        Victim::Guard => one(&all, ProcessKind::Guard, random),
        Victim::Worker => one(&all, ProcessKind::Worker, random),
        Victim::Git => one(&all, ProcessKind::Git, random),
    };
    // Not `any`: all of them are to die.
    chosen.into_iter().filter(|pid| Project::kill(*pid)).count() > 0
}

fn one(all: &[(Pid, ProcessKind)], part: ProcessKind, random: &mut Random) -> Vec<Pid> {
    let fitting: Vec<Pid> = all.iter().filter(|(_, found)| *found == part).map(|(pid, _)| *pid).collect();
    if fitting.is_empty() { Vec::new() } else { vec![*random.pick(&fitting)] }
}

fn signal(project: &Project, sent: Sent) -> bool {
    let Some(driver) = driver(project) else { return false };
    match sent {
        Sent::Interrupt => kill_process(driver, Signal::INT).is_ok(),
        Sent::Terminate => kill_process(driver, Signal::TERM).is_ok(),
        Sent::Freeze => {
            let frozen = kill_process(driver, Signal::STOP).is_ok();
            std::thread::sleep(Duration::from_millis(150));
            frozen && kill_process(driver, Signal::CONT).is_ok()
        }
    }
}

fn few_descriptors(project: &Project) -> bool {
    let Some(driver) = driver(project) else { return false };
    let ours = rustix::process::getrlimit(Resource::Nofile);
    let few = Rlimit { current: Some(6), maximum: ours.maximum };
    let Ok(before) = prlimit(Some(driver), Resource::Nofile, few) else { return false };
    std::thread::sleep(Duration::from_millis(200));
    // It may be gone meanwhile.
    let _ = prlimit(Some(driver), Resource::Nofile, before);
    true
}

/// Another git holds a lock for a while; nobody has to hold it already.
fn hold(project: &Project, lock: Lock) -> bool {
    let lock = project.path(match lock {
        Lock::Index => ".git/index.lock",
        Lock::Branch => ".git/refs/heads/main.lock",
    });
    if fs::File::create_new(&lock).is_err() {
        return false;
    }
    std::thread::sleep(Duration::from_millis(400));
    fs::remove_file(&lock).is_ok()
}

/// Fills what is left of a small file system, for a while.
fn fill_disk(project: &Project) -> bool {
    let filler = project.path("../filler");
    let Ok(mut file) = fs::File::create(&filler) else { return false };
    let block = vec![b'x'; 64 * 1024];
    while file.write_all(&block).is_ok() {}
    while file.write_all(b"x").is_ok() {}
    std::thread::sleep(Duration::from_millis(400));
    fs::remove_file(&filler).is_ok()
}

fn person(project: &Project, doing: Doing, random: &mut Random, traces: &mut Traces) -> Result<bool, String> {
    let name = format!("{:x}", random.next_u64());
    match doing {
        Doing::CommitsOnTheBranch => {
            let file = format!("person-{name}");
            project.write(&file, "mine\n");
            for _ in 0..50 {
                let done = project
                    .git(&["add", &file])
                    .and_then(|_| project.git(&["commit", "-qm", "Mine", "--", &file]));
                if done.is_ok() {
                    traces.commits.push(file);
                    return Ok(true);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // Somebody held the repository all the time; the person gives up and leaves nothing.
            for _ in 0..200 {
                if project.git(&["rm", "-q", "--cached", "--ignore-unmatch", &file]).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = fs::remove_file(project.path(&file));
            Ok(false)
        }
        Doing::EditsTheCheckout => {
            let before = project.read("log");
            project.write("log", "an edit that is not committed\n");
            std::thread::sleep(Duration::from_millis(random.between(1, 200)));
            project.write("log", &before);
            Ok(true)
        }
        Doing::SavesTheState | Doing::SavesAStaleCopy => {
            let text = project.read(STATE);
            if !text.contains("# Original Prompt") {
                return Ok(false);
            }
            if doing == Doing::SavesAStaleCopy {
                std::thread::sleep(Duration::from_millis(random.between(5, 120)));
            }
            let text = format!("{text}note-{name}\n");
            match random.percent(50) {
                true => project.write(STATE, &text),
                false => {
                    let aside = project.path(".claude/.state.swp");
                    fs::write(&aside, &text).expect("a file");
                    fs::rename(&aside, project.path(STATE)).expect("it is moved");
                }
            }
            traces.notes.push(format!("note-{name}"));
            Ok(true)
        }
        Doing::Stops | Doing::StopsNow => {
            traces.stopped = true;
            let words: &[&str] =
                if doing == Doing::Stops { &["stop", "--json"] } else { &["stop", "--now", "--json"] };
            Ok(verb(project, words)?.status.success())
        }
        Doing::Redirects => {
            traces.stopped = true;
            let intent = format!("intent-{name}");
            let done =
                verb(project, &["redirect", "--intent", &intent, "--no-agent", "--json"])?.status.success();
            if done {
                traces.intent = Some(intent);
            }
            Ok(done)
        }
        Doing::DeletesTheSidecar => Ok(fs::remove_dir_all(project.path(".claude/aot")).is_ok()),
    }
}

/// A verb that has to end by itself.
fn verb(project: &Project, words: &[&str]) -> Result<Output, String> {
    let mut command = project.command(words);
    clock::dress(project, &mut command);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("{words:?} cannot be started: {error}"))?;
    if wait(&mut child, VERB).is_none() {
        let seen = project.describe_processes();
        let _ = (child.kill(), child.wait());
        return Err(format!("`aot {}` did not end in {VERB:?}\n{seen}", words.join(" ")));
    }
    child.wait_with_output().map_err(|error| error.to_string())
}

/// Its exit code, if it ends in time; -1 for a signal.
pub fn wait(child: &mut Child, limit: Duration) -> Option<i32> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.code().unwrap_or(-1)),
            Ok(None) | Err(_) if began.elapsed() > limit => return None,
            Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// A small file system of its own, where that is allowed.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn at(folder: &Path) -> Option<SmallDisk> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m,mode=755", "aot"])
            .arg(folder)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(folder.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Whoever still works in it keeps it until they are gone.
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}
