//! What the program costs, beside a floor or a rival that is measured in the same run: one module for each subject, one
//! table for all. Nothing is asserted in tests here: `baseline` compares a quick pass with figures that were kept, and the
//! goals are for whoever reads the table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub mod baseline;
pub mod coordinator;
mod driver;
pub mod files;
mod growth;
mod hooks;
mod jobs;
mod makespan;
pub mod measure;
pub mod page;
pub mod plot;
mod proving;
mod soak;
pub mod table;

pub use measure::{Samples, in_turns};
pub use plot::Curve;
pub use table::{Goal, Row, Unit};

/// A quick pass has few rounds and small sizes, for the gate; the full one takes a quarter of an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Quick,
    Full,
}

/// What a subject is given, and where it puts what it measured.
#[derive(Debug)]
pub struct Bench {
    /// The program that is measured.
    pub aot: PathBuf,
    pub pass: Pass,
    pub rows: Vec<Row>,
    pub curves: Vec<Curve>,
    /// What could not be measured here, and why.
    pub left_out: Vec<String>,
}

impl Bench {
    pub fn new(aot: &Path, pass: Pass) -> Bench {
        Bench { aot: aot.to_path_buf(), pass, rows: Vec::new(), curves: Vec::new(), left_out: Vec::new() }
    }

    pub fn of<T>(&self, quick: T, full: T) -> T {
        match self.pass {
            Pass::Quick => quick,
            Pass::Full => full,
        }
    }

    /// Keeps a row, and shows it at once.
    pub fn row(&mut self, row: Row) {
        println!("{}", row.line());
        self.rows.push(row);
    }

    pub fn left_out(&mut self, what: impl Into<String>) {
        let what = what.into();
        println!("left out: {what}");
        self.left_out.push(what);
    }
}

/// Its name on the command line, and how it is measured.
#[derive(Debug)]
pub struct Subject {
    pub name: &'static str,
    pub measure: fn(&mut Bench),
}

/// How often a quick pass measures a subject before it believes that it got worse.
const TRIES: usize = 3;

pub const SUBJECTS: &[Subject] = &[
    Subject { name: "coordinator", measure: coordinator::measure },
    Subject { name: "driver", measure: driver::measure },
    Subject { name: "files", measure: files::measure },
    Subject { name: "growth", measure: growth::measure },
    Subject { name: "hooks", measure: hooks::measure },
    Subject { name: "jobs", measure: jobs::measure },
    Subject { name: "makespan", measure: makespan::measure },
    Subject { name: "proving", measure: proving::measure },
    Subject { name: "soak", measure: soak::measure },
];

impl Subject {
    pub fn is_wanted(&self, words: &[String]) -> bool {
        words.is_empty() || words.iter().any(|word| self.name.contains(word.as_str()))
    }

    /// Measures it into the bench. Returns what is worse than it was, each time that it was measured: a machine that has
    /// other work for a moment is no reason to fail.
    pub fn measure_until_good(&self, bench: &mut Bench) -> Vec<String> {
        println!("\n{}", self.name);
        let mut still = None;
        for again in 0..TRIES {
            if again > 0 {
                println!("{}, once more: {}", self.name, worse_of(&still).join("; "));
            }
            let mut one = Bench::new(&bench.aot, bench.pass);
            (self.measure)(&mut one);
            let now = baseline::worse(&one.rows);
            let kept: BTreeMap<String, String> = match still {
                None => now,
                Some(before) => now.into_iter().filter(|(what, _)| before.contains_key(what)).collect(),
            };
            if kept.is_empty() || bench.pass == Pass::Full || again + 1 == TRIES {
                bench.rows.extend(one.rows);
                bench.curves.extend(one.curves);
                bench.left_out.extend(one.left_out);
                return kept.into_values().collect();
            }
            still = Some(kept);
        }
        Vec::new()
    }
}

fn worse_of(still: &Option<BTreeMap<String, String>>) -> Vec<String> {
    still.iter().flat_map(BTreeMap::values).cloned().collect()
}
