//! A loop of very many atoms that do nothing, in a few minutes: whether the driver's memory, its open files and the folder
//! beside the state file stay as they are.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::driver::{Driver, atom, own_memory, plain_loop};
use super::{Bench, Curve, Goal, Row, Samples, Unit};
use crate::project::{Project, STATE};

pub fn measure(bench: &mut Bench) {
    let atoms = bench.of(300, 10_000);
    let project = Project::new(&bench.aot, "[cage]\nkind = \"none\"\n");
    let last = atom(&format!("A{atoms}"), "echo the last one; touch done");
    let mut list: String = (1..atoms).map(|n| atom(&format!("A{n}"), "echo a line of output")).collect();
    list += &last;
    project.write(STATE, &plain_loop(&list, "max_parallel_agents: 8, max_iterations: 100000"));
    let mut driver = Driver::start(&project, &["run", "--json"]);
    let sidecar = project.path(".claude/aot");
    let pid = rustix::process::Pid::from_raw(driver.child.id().cast_signed()).expect("a child has a number");
    let mut taken: Vec<Sample> = Vec::new();
    while driver.child.try_wait().expect("it can be asked").is_none() {
        std::thread::sleep(Duration::from_millis(bench.of(100, 1000)));
        let files = fs::read_dir(format!("/proc/{}/fd", driver.child.id())).map(Iterator::count).unwrap_or(0);
        // The text itself, and copies of it that are bounded in number, are as long as the loop is.
        let sample = Sample { memory: own_memory(pid), files: files as f64, sidecar: history(&sidecar) };
        if sample.memory.is_finite() && files > 0 {
            taken.push(sample);
        }
    }
    assert!(driver.child.wait().expect("it ended").success(), "the loop did not end well");
    if taken.len() < 4 {
        return bench.left_out("the soak: the loop ended before it could be looked at four times");
    }
    let quarter = |from: usize, value: fn(&Sample) -> f64| {
        let all = taken.len();
        Samples(taken[all * from / 4..all * (from + 1) / 4].iter().map(value).collect())
    };
    let mut row = |what: &str, value: fn(&Sample) -> f64, unit: Unit, goal: Goal| {
        let (second, end) = (quarter(1, value), quarter(3, value));
        let value = match unit {
            Unit::Times => end.median() / second.median(),
            _ => end.quantile(1.0),
        };
        let row = Row::figure(format!("soak of {atoms} atoms: {what}"), &Samples(vec![value]), unit, goal);
        bench.row(row.compared_with("itself in its second quarter"));
    };
    row("open files of the driver at the end", |sample| sample.files, Unit::Times, Goal::AtMost(1.2));
    row("memory of the driver at the end", |sample| sample.memory, Unit::Times, Goal::AtMost(1.2));
    row("history beside the state file", |sample| sample.sidecar, Unit::Megabytes, Goal::AtMost(96.0));
    let of = |value: fn(&Sample) -> f64| -> Vec<(f64, f64)> {
        let share = |place: usize| (place + 1) as f64 / taken.len() as f64 * atoms as f64;
        taken.iter().enumerate().map(|(place, sample)| (share(place), value(sample))).collect()
    };
    bench.curves.push(Curve {
        name: "soak",
        title: format!("A loop of {atoms} atoms"),
        x: "atoms",
        y: "MB, files",
        lines: vec![
            ("memory, MB".to_owned(), of(|sample| sample.memory)),
            ("open files".to_owned(), of(|sample| sample.files)),
            ("history, MB".to_owned(), of(|sample| sample.sidecar)),
        ],
    });
}

struct Sample {
    memory: f64,
    files: f64,
    sidecar: f64,
}

/// Megabytes of what is written about the past: journal, evidence, live record, outputs, transcripts.
fn history(sidecar: &Path) -> f64 {
    let mut bytes = 0;
    for entry in fs::read_dir(sidecar).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.ends_with(".jsonl") {
            bytes += entry.metadata().map_or(0, |meta| meta.len());
        } else if path.is_dir() {
            let inside = fs::read_dir(&path).into_iter().flatten().flatten();
            bytes += inside.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum::<u64>();
        }
    }
    bytes as f64 / f64::from(1 << 20)
}
