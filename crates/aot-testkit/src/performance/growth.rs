//! How what a driver does grows: with the agents that work at once, the files of the repository, the lines of the journal and
//! the attempts on an atom.

use std::fs::{self, OpenOptions};
use std::io::{BufWriter, Write};
use std::process::Stdio;

use super::driver::{Repository, atom, plain_loop};
use super::measure::cpu;
use super::{Bench, Curve, Samples};
use crate::project::{Project, STATE};

const NO_CAGE: &str = "[cage]\nkind = \"none\"\n";

pub fn measure(bench: &mut Bench) {
    agents(bench);
    files(bench);
    journal(bench);
    attempts(bench);
}

type Points = Vec<(f64, f64)>;

fn show(bench: &mut Bench, curve: Curve) {
    for (name, points) in &curve.lines {
        let told: Vec<String> = points.iter().map(|(x, y)| format!("{x}: {y:.3}")).collect();
        println!("{}, {name} ({} by {}): {}", curve.title, curve.y, curve.x, told.join(", "));
    }
    bench.curves.push(curve);
}

/// The least of a few runs.
fn least(rounds: usize, mut take: impl FnMut() -> f64) -> f64 {
    Samples((0..rounds).map(|_| take()).collect()).least()
}

/// Processor time of a whole run, divided by its atoms.
fn agents(bench: &mut Bench) {
    let (numbers, atoms): (&[usize], usize) = bench.of((&[1, 8], 16), (&[1, 2, 4, 8, 16, 32, 64], 128));
    let mut list: String = (1..atoms).map(|n| atom(&format!("A{n}"), "true")).collect();
    list += &atom(&format!("A{atoms}"), "touch done");
    let cost = |agents: &usize| {
        let each = least(bench.of(1, 3), || {
            let project = Project::new(&bench.aot, NO_CAGE);
            project.write(
                STATE,
                &plain_loop(&list, &format!("max_parallel_agents: {agents}, max_iterations: 100000")),
            );
            cpu(project.command(&["run", "--json"]).stdin(Stdio::null())) / atoms as f64
        });
        (*agents as f64, each * 1e3)
    };
    let points: Points = numbers.iter().map(cost).collect();
    let lines = vec![("an atom".to_owned(), points)];
    let title = "An atom that does nothing, by agents at once".to_owned();
    show(bench, Curve { name: "agents", title, x: "agents", y: "ms", lines });
}

/// A run with trees of a run before.
fn files(bench: &mut Bench) {
    let numbers: &[usize] = bench.of(&[100, 1_000], &[100, 1_000, 10_000, 100_000]);
    let (mut first, mut last): (Points, Points) = Default::default();
    for files in numbers {
        let place = Repository::new(&bench.aot, *files);
        place.run();
        let runs: Vec<_> = (0..bench.of(1, 3)).map(|_| place.run()).collect();
        let of = |value: fn(&super::driver::Times) -> f64| {
            (*files as f64, Samples(runs.iter().map(value).collect()).least() * 1e3)
        };
        first.push(of(|times| times.until_first));
        last.push(of(|times| times.after_last));
    }
    let lines = vec![("until the first agent".to_owned(), first), ("after the last check".to_owned(), last)];
    let title = "Begin and end of a run, by files of the repository".to_owned();
    show(bench, Curve { name: "files", title, x: "files", y: "ms", lines });
}

/// The journal is longer here than the program lets it become, to see what would come of it.
fn journal(bench: &mut Bench) {
    let numbers: &[usize] = bench.of(&[100, 10_000], &[100, 10_000, 100_000, 1_000_000]);
    let project = Project::new(&bench.aot, NO_CAGE);
    let list = atom("A1", "touch done");
    project.write(STATE, &plain_loop(&list, "max_parallel_agents: 1"));
    assert!(project.aot(&["run", "--json"]).status.success());
    let path = project.path(".claude/aot/journal.jsonl");
    let own = fs::read_to_string(&path).expect("it has a journal");
    let line = own.lines().next().expect("it has a line");
    let verbs: [(&str, &[&str]); 3] = [
        ("status", &["status", "--json"]),
        ("log", &["log", "--json"]),
        ("log of an atom", &["log", "A1", "--json"]),
    ];
    let mut lines: Vec<(String, Points)> =
        verbs.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    lines.push(("a run".to_owned(), Vec::new()));
    for number in numbers {
        // The run of the round before has rotated it.
        let _ = fs::remove_file(path.with_file_name("journal.older.jsonl"));
        let file = OpenOptions::new().write(true).truncate(true).open(&path).expect("it is ours");
        let mut file = BufWriter::new(file);
        for _ in 0..*number {
            writeln!(file, "{line}").expect("there is room");
        }
        file.write_all(own.as_bytes()).and_then(|()| file.flush()).expect("there is room");
        drop(file);
        for ((_, words), (_, points)) in verbs.iter().zip(&mut lines) {
            points.push((*number as f64, least(3, || cpu(&mut project.command(words))) * 1e3));
        }
        // A run that is done already looks at its checks and ends.
        let run = cpu(&mut project.command(&["run", "--json"])) * 1e3;
        lines.last_mut().expect("it was pushed").1.push((*number as f64, run));
    }
    let title = "What looks at the journal, by its lines".to_owned();
    show(bench, Curve { name: "journal", title, x: "lines", y: "ms", lines });
}

/// An atom that always fails, each time in another way, in iteration after iteration.
fn attempts(bench: &mut Bench) {
    let numbers: &[usize] = bench.of(&[4, 16], &[4, 16, 64, 256]);
    let cost = |attempts: &usize| {
        let project = Project::new(&bench.aot, NO_CAGE);
        let limits = format!("max_parallel_agents: 1, max_iterations: {attempts}, max_stall_count: 100000");
        project.write(STATE, &plain_loop(&atom("A1", "date +%N; false"), &limits));
        let mut command = project.command(&["run", "--json"]);
        let before = super::measure::cpu_of_children();
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts");
        let took = super::measure::cpu_of_children() - before;
        let state = project.read(STATE);
        let made = state.split_once("control:").and_then(|(_, control)| control.split_once("iteration: "));
        let digits = made.map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let made: f64 = digits.and_then(|digits| digits.parse().ok()).expect("the state tells it");
        (made, took / made * 1e3)
    };
    let points: Points = numbers.iter().map(cost).collect();
    let title = "An attempt that fails, by attempts on its atom".to_owned();
    show(
        bench,
        Curve {
            name: "attempts",
            title,
            x: "attempts",
            y: "ms",
            lines: vec![("an attempt".to_owned(), points)],
        },
    );
}
