//! Prints what reading and editing a state file costs. Run it with `--release`.

use std::fmt::Write;
use std::time::Instant;

use aot_core::contract::document::{Document, Limits};
use aot_core::contract::edit::{Edit, PathStep};
use serde_json::json;

fn main() {
    println!(
        "{:>8} {:>10} {:>10} {:>8} {:>10} {:>10} {:>10}",
        "atoms", "bytes", "parse ms", "ns/byte", "unpack ms", "leaf ms", "push ms"
    );
    for atoms in [1_000, 10_000, 100_000] {
        measure(atoms);
    }
    if let Some(peak) = peak_memory() {
        println!("peak memory {peak}");
    }
}

fn measure(atoms: usize) {
    let text = state(atoms);
    let bytes = text.len();
    let limits = Limits::default();
    let (parse, mut document) =
        best(|| text.clone(), |text| Document::parse(text, &limits).expect("a good document"));
    let packed = document.pack();
    let (unpack, _) = best(|| text.clone(), |text| Document::unpack(text, &packed).expect("its own pack"));
    let middle: Vec<PathStep> = vec!["atoms".into(), (atoms / 2).into(), "status".into()];
    let mut turn = false;
    let (leaf, ()) = best(
        || (),
        |()| {
            turn = !turn;
            let status = if turn { "in_progress" } else { "resolved" };
            document
                .edit(&[Edit::Set { path: middle.clone(), value: json!(status) }])
                .expect("a leaf is set");
        },
    );
    let mut next = atoms;
    let (push, ()) = best(
        || (),
        |()| {
            next += 1;
            let atom = json!({"id": format!("A{next}"), "description": "One more thing to do", "status": "pending", "depends_on": ["A1"]});
            document
                .edit(&[Edit::Push { path: vec!["atoms".into()], value: atom }])
                .expect("an atom is added");
        },
    );
    document.check_consistency().expect("the edits left the document consistent");
    let per_byte = parse * 1e6 / bytes as f64;
    println!("{atoms:>8} {bytes:>10} {parse:>10.2} {per_byte:>8.1} {unpack:>10.2} {leaf:>10.3} {push:>10.3}");
}

/// The shortest of a few runs, in milliseconds, and the last result.
fn best<I, T>(prepare: impl Fn() -> I, mut run: impl FnMut(I) -> T) -> (f64, T) {
    const RUNS: usize = 5;
    let mut timed = || {
        let input = prepare();
        let start = Instant::now();
        let result = run(input);
        (start.elapsed().as_secs_f64() * 1e3, result)
    };
    let mut best = timed();
    for _ in 1..RUNS {
        let (time, result) = timed();
        best = (best.0.min(time), result);
    }
    best
}

fn state(atoms: usize) -> String {
    let mut text =
        "---\nobjective:\n  goal: \"Everything\"\ncontrol:\n  status: running   # now\natoms:\n".to_owned();
    for at in 1..=atoms {
        let write = writeln!(
            text,
            "  - id: A{at}\n    description: \"The part of the work that has the number {at} and says \\\"so\\\"\"\n    \
             status: pending                         # pending | in_progress | resolved\n    depends_on: [A{}, A{}]\n",
            at / 2,
            at / 3
        );
        write.expect("a string takes every text");
    }
    text + "bindings: {}\ntrail: []\ncorrections: []\n---\n\n# Original Prompt\n"
}

fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
}
