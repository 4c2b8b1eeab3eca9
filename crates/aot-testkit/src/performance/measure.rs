//! Takes samples: of time on the wall, of processor time, of instructions. Both sides of a comparison take turns, so that
//! whatever else the machine does concerns both.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

/// What one side costs, once for each round, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn least(&self) -> f64 {
        self.quantile(0.0)
    }

    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }

    /// Round by round, against another side that took turns with this one.
    pub fn against(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }
}

/// Measures each side once in every round, the first round only to warm up.
pub fn in_turns<const SIDES: usize>(
    rounds: usize,
    mut sides: [&mut dyn FnMut() -> f64; SIDES],
) -> [Samples; SIDES] {
    let mut taken: [Samples; SIDES] = std::array::from_fn(|_| Samples::default());
    for round in 0..=rounds {
        for (side, samples) in sides.iter_mut().zip(&mut taken) {
            let sample = side();
            if round > 0 {
                samples.0.push(sample);
            }
        }
    }
    taken
}

/// Seconds on the wall.
pub fn wall(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// Seconds of processor time of a command and all of its children that it waited for.
pub fn cpu(command: &mut Command) -> f64 {
    let before = cpu_of_children();
    succeed(command);
    cpu_of_children() - before
}

/// Seconds on the wall, and of processor time of this process and of all children that it waited for.
pub fn both(work: impl FnOnce()) -> (f64, f64) {
    let used = || used_by(UsageWho::RUSAGE_SELF) + cpu_of_children();
    let before = used();
    let wall = wall(work);
    (wall, used() - before)
}

/// Runs it to its end without a word.
pub fn succeed(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it can be started");
    assert!(status.success(), "{command:?} ended with {status}");
}

pub(super) fn cpu_of_children() -> f64 {
    used_by(UsageWho::RUSAGE_CHILDREN)
}

fn used_by(who: UsageWho) -> f64 {
    let usage = getrusage(who).expect("the kernel counts");
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// Instructions of one process, counted by callgrind: the same whatever else the machine does. `None` without valgrind.
pub fn instructions(command: &Command) -> Option<f64> {
    instructions_reading(command, Path::new("/dev/null"))
}

/// The same of a process that reads this file as its standard input.
pub fn instructions_reading(command: &Command, input: &Path) -> Option<f64> {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    counted.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        counted.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => counted.env(name, value),
            None => counted.env_remove(name),
        };
    }
    let output = counted.stdin(File::open(input).ok()?).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

/// Megabytes that a process has in memory: now, and at most.
pub fn memory(pid: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let kilobytes = line.split_ascii_whitespace().nth(1).and_then(|text| text.parse::<f64>().ok());
        kilobytes.unwrap_or(f64::NAN) / 1024.0
    };
    (line("VmRSS"), line("VmHWM"))
}

/// Seconds of processor time of a process that still runs, without its children.
pub fn cpu_of(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after.split_ascii_whitespace().skip(11).take(2).filter_map(|text| text.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}
