//! Writes `docs/performance.md` and its plots from what was measured: the part between two marks is made here, the text
//! around it is a person's. Measures nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Bench, Pass};

const BEGIN: &str = "<!-- measured: begin -->\n";
const END: &str = "<!-- measured: end -->\n";

pub fn write(docs: &Path, bench: &Bench, seconds: u64) {
    let page = docs.join("performance.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let (before, rest) = text.split_once(BEGIN).expect("the page has the mark of the beginning");
    let (_, after) = rest.split_once(END).expect("the page has the mark of the end");
    let how = match bench.pass {
        Pass::Quick => format!("A quick pass of {seconds} s: small sizes, few rounds, and no pictures."),
        Pass::Full => format!("The pass took {seconds} s."),
    };
    let mut made = format!("{}\n{how}\n\n", machine(&bench.aot));
    made += "| what | figure | half of the rounds | goal | against | ours / theirs |\n|---|---|---|---|---|---|\n";
    for row in &bench.rows {
        let figure = match row.is_met() {
            Some(true) => format!("**{}**", row.figure_text()),
            Some(false) => format!("{}, not met", row.figure_text()),
            None => row.figure_text(),
        };
        let (spread, goal) = (row.spread_text(), row.goal_text());
        made +=
            &format!("| {} | {figure} | {spread} | {goal} | {} | {} |\n", row.what, row.against, row.sides);
    }
    for what in &bench.left_out {
        made += &format!("\nNot measured: {what}.\n");
    }
    // Two points make no line.
    for curve in bench.curves.iter().filter(|_| bench.pass == Pass::Full) {
        let name = format!("img/growth-{}.svg", curve.name);
        fs::write(docs.join(&name), curve.svg()).expect("the picture can be written");
        made += &format!("\n![{}]({name})\n", curve.title);
    }
    fs::write(&page, format!("{before}{BEGIN}\n{made}\n{END}{after}")).expect("the page can be written");
}

/// The machine and the versions of what was measured.
fn machine(aot: &Path) -> String {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |line| line.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: Vec<&str> = kernel.trim().split('.').take(2).collect();
    let said = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().map(|it| it.stdout).unwrap_or_default();
        String::from_utf8_lossy(&output).lines().next().unwrap_or("not here").trim().to_owned()
    };
    let aot = said(&aot.display().to_string(), &["--version"]);
    let versions = [
        aot,
        said("git", &["--version"]),
        said("rustc", &["--version"]),
        said("make", &["--version"]),
        format!("ninja {}", said("ninja", &["--version"])),
        said("python3", &["--version"]),
    ];
    let place = std::env::temp_dir().display().to_string();
    let files = said("stat", &["-f", "-c", "%T", &place]);
    format!("{model}, {cores} cores, Linux {}, files on {files}; {}.", kernel.join("."), versions.join("; "))
}
