//! Figures of a quick pass that were kept, and whether a new pass is worse. The build that the gate tests is not optimised,
//! so these are figures of that build and not those of the table in the documentation.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::table::{Goal, Row, Unit, number};

/// A ratio that is worse by half is a failure.
const WORSE: f64 = 1.5;

pub fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/performance/baseline.toml")
}

pub fn read() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file()).unwrap_or_default();
    toml::from_str(&text).expect("the kept figures are a table of numbers")
}

pub fn write(rows: &[Row]) {
    let mut kept = read();
    kept.extend(rows.iter().map(|row| (row.what.clone(), (row.value * 1000.0).round() / 1000.0)));
    let mut text = String::from(
        "# Figures of `performance quick` with the build of the gate. `performance quick --keep` writes them.\n",
    );
    for (what, value) in kept {
        text += &format!("{what:?} = {value:?}\n");
    }
    fs::write(file(), text).expect("the sources can be written");
}

/// One line for each ratio and each count that is worse than what was kept, and for each that is not known yet, by its row.
/// Times and sizes are those of one machine, and not compared.
pub fn worse(rows: &[Row]) -> BTreeMap<String, String> {
    let kept = read();
    let judge = |row: &Row| {
        if !matches!(row.unit, Unit::Times | Unit::Millions) {
            return None;
        }
        let Some(before) = kept.get(&row.what) else {
            return Some(format!("{}: no figure was kept; performance quick --keep", row.what));
        };
        let is_worse = match row.goal {
            Goal::AtMost(_) | Goal::None => row.value > before * WORSE,
            Goal::AtLeast(_) => row.value < before / WORSE,
        };
        let (now, before, unit) = (number(row.value), number(*before), row.unit.word());
        is_worse.then(|| format!("{}: {now} {unit}, {before} was kept", row.what))
    };
    rows.iter().filter_map(|row| Some((row.what.clone(), judge(row)?))).collect()
}
