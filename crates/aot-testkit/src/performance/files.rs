//! What the verbs cost that read a large state file, and change it, with nothing kept from before: processor time of whole
//! processes, beside a process that reads the file once with the plain parser that `aot` itself has under its strict
//! reader, into lists, maps and texts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use granit_parser::Event;

use super::measure::cpu;
use super::{Bench, Curve, Goal, Row, Samples, in_turns};
use crate::fixtures::of_size;

/// The first argument that makes the example of this bench a plain parser: the floor is a process of its own, too.
pub const PLAIN_PARSER: &str = "--parse-plainly";

pub fn measure(bench: &mut Bench) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for atoms in bench.of(&[1_000][..], &[1_000, 10_000, 100_000]).iter().copied() {
        let rounds = if atoms > 10_000 { 3 } else { bench.of(10, 15) };
        let text = of_size(atoms);
        let place = folder.path().join(atoms.to_string());
        let state = write(&place, &text);
        settle();
        let mut plain = || cpu(&mut parse_plainly(&state));
        let mut ready = || cold(&bench.aot, &state, &["ready"]);
        let mut validate = || cold(&bench.aot, &state, &["validate"]);
        let [floor, ready, validate] = in_turns(rounds, [&mut plain, &mut ready, &mut validate]);
        let mut resolve = || resolve(&bench.aot, &state, &text);
        let mut plain = || cpu(&mut parse_plainly(&state));
        let [floor_of_resolve, resolve] = in_turns(rounds, [&mut plain, &mut resolve]);
        let ready_goal = if atoms == 100_000 { Goal::AtMost(1.2) } else { Goal::None };
        for (verb, cost, floor, goal) in [
            ("ready", &ready, &floor, ready_goal),
            ("validate", &validate, &floor, Goal::None),
            ("atom resolve", &resolve, &floor_of_resolve, Goal::AtMost(1.5)),
        ] {
            let what = format!("`{verb}` cold, {atoms} atoms");
            bench.row(Row::ratio(what, cost, "one read by a plain parser", floor, goal));
        }
        // A form that the quick reader leaves to the parser.
        let folded = text.replace("    description: \"Move", "    description: >-\n      \"Move");
        let odd = write(&place.join("folded"), &folded);
        settle();
        let mut plain = || cpu(&mut parse_plainly(&odd));
        let mut ready = || cold(&bench.aot, &odd, &["ready"]);
        let [floor, ready] = in_turns(rounds.min(5), [&mut plain, &mut ready]);
        let what = format!("`ready` cold, {atoms} atoms, folded texts");
        bench.row(Row::ratio(what, &ready, "one read by a plain parser", &floor, Goal::None));
    }
    if bench.of(false, true) {
        grow(bench, folder.path());
    }
}

fn grow(bench: &mut Bench, folder: &Path) {
    let names = ["ready", "validate", "atom resolve", "one read by a plain parser"];
    let mut lines = names.map(|name| (name.to_owned(), Vec::new()));
    for atoms in [10, 100, 1_000, 10_000, 100_000, 200_000] {
        let text = of_size(atoms);
        let state = write(&folder.join(format!("grow-{atoms}")), &text);
        settle();
        let rounds = if atoms > 10_000 { 1 } else { 5 };
        let [ready, validate, resolve, plain] = in_turns(
            rounds,
            [
                &mut || cold(&bench.aot, &state, &["ready"]),
                &mut || cold(&bench.aot, &state, &["validate"]),
                &mut || resolve(&bench.aot, &state, &text),
                &mut || cpu(&mut parse_plainly(&state)),
            ],
        );
        for ((_, points), samples) in lines.iter_mut().zip([ready, validate, resolve, plain]) {
            let samples: Samples = samples;
            points.push((atoms as f64, samples.least() * 1e3));
        }
    }
    bench.curves.push(Curve {
        name: "state-file",
        title: "What reading and changing a state file costs, nothing kept from before".into(),
        x: "atoms",
        y: "ms",
        lines: lines.into(),
    });
}

/// What a program that uses a file has to hold of it at least.
#[derive(Debug)]
enum PlainValue {
    Text(String),
    List(Vec<PlainValue>),
    /// Keys and values in turns.
    Map(Vec<PlainValue>),
}

impl PlainValue {
    fn count(&self) -> usize {
        match self {
            PlainValue::Text(text) => usize::from(!text.is_empty()),
            PlainValue::List(values) | PlainValue::Map(values) => {
                values.iter().map(PlainValue::count).sum::<usize>() + 1
            }
        }
    }
}

/// What the process with [`PLAIN_PARSER`] does: reads the frontmatter of this file into a value, and counts what is in it.
pub fn count_values(state: &Path) -> usize {
    let text = fs::read_to_string(state).expect("the file is there");
    let front = text.split("---\n").nth(1).expect("it has a frontmatter");
    let mut open = vec![PlainValue::List(Vec::new())];
    let put = |open: &mut Vec<PlainValue>, value| match open.last_mut() {
        Some(PlainValue::List(values) | PlainValue::Map(values)) => values.push(value),
        Some(PlainValue::Text(_)) | None => unreachable!("only collections are open"),
    };
    for event in granit_parser::Parser::new_from_str(front) {
        match event.expect("it is YAML").0 {
            Event::Scalar(text, ..) => put(&mut open, PlainValue::Text(text.into_owned())),
            Event::SequenceStart(..) => open.push(PlainValue::List(Vec::new())),
            Event::MappingStart(..) => open.push(PlainValue::Map(Vec::new())),
            Event::SequenceEnd | Event::MappingEnd => {
                let value = open.pop().expect("it was opened");
                put(&mut open, value);
            }
            _ => {}
        }
    }
    open.iter().map(PlainValue::count).sum()
}

fn parse_plainly(state: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.arg(PLAIN_PARSER).arg(state);
    command
}

/// A verb that finds only the file.
fn cold(aot: &Path, state: &Path, verb: &[&str]) -> f64 {
    let sidecar = state.with_file_name("aot");
    if sidecar.exists() {
        fs::remove_dir_all(&sidecar).expect("it is ours");
    }
    let mut command = Command::new(aot);
    cpu(command.arg("--state").arg(state).env("AOT_TRUST", "/").args(verb))
}

/// Resolves the atom in progress, in a file that is as it was.
fn resolve(aot: &Path, state: &Path, text: &str) -> f64 {
    fs::write(state, text).expect("a file can be written");
    settle();
    let in_progress = text.matches("\n  - id: ").count() / 2 + 1;
    let id = format!("A{in_progress}");
    cold(aot, state, &["atom", "resolve", &id, "--summary", "It is done"])
}

fn write(folder: &Path, text: &str) -> PathBuf {
    let state = folder.join(".claude/aot-loop-state.md");
    fs::create_dir_all(state.parent().expect("it has one")).expect("a folder can be made");
    fs::write(&state, text).expect("a file can be written");
    state
}

/// A file that was written a moment ago is read twice, in case somebody is still writing it.
fn settle() {
    std::thread::sleep(Duration::from_millis(40));
}
