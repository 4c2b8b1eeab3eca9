//! `mutants [rules|hook] [WORD…]`: are the tests of the rules, or of the hooks, any good? Puts all mutants that `cargo
//! mutants` lists into one copy of the last commit, behind a switch, builds it once and runs the tests once for each; with
//! words, only for mutants whose names hold one. Prints what survives. docs/contributing/mutants.md says how to read it.
//! Needs git and cargo-mutants.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A part of the core, and the tests that guard it. The first that fails has caught the mutant. Random tests have fixed
/// seeds, so that two runs agree.
struct Area {
    name: &'static str,
    files: &'static str,
    /// A test binary, and what the names of its tests begin with.
    tests: &'static [(&'static str, &'static str)],
}

const AREAS: [Area; 2] = [
    Area {
        name: "rules",
        files: "crates/aot-core/src/rules/*.rs",
        tests: &[("it", "rules::"), ("it", "operations::")],
    },
    Area {
        name: "hook",
        files: "crates/aot-core/src/hook/**/*.rs",
        tests: &[("aot_core", "hook::"), ("it", "hook::")],
    },
];

/// Enough random lives to be worth it, few enough for hundreds of runs.
const LIVES: &str = "300";

/// A mutant that makes a test run so long is one that never ends.
const PATIENCE: Duration = Duration::from_secs(40);

/// Rounds of leaving out what does not compile: types first, then borrows.
const ROUNDS: usize = 8;

struct Mutant {
    name: String,
    file: String,
    /// From and to which byte of the file.
    function: (usize, usize),
    span: (usize, usize),
    replacement: String,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    Switched,
    /// It stands outside a function, as in a constant, which is made before any switch.
    Fixed,
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let copy = Folder(std::env::temp_dir().join(format!("aot-mutants-{}", std::process::id())));
    output_of(Command::new("git").args(["clone", "--quiet"]).arg(&root).arg(&copy.0));
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let named = words.first().and_then(|first| AREAS.iter().find(|area| area.name == first));
    if named.is_some() {
        words.remove(0);
    }
    try_all(named.unwrap_or(&AREAS[0]), &words, &copy.0, &root.join("target/mutants"));
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

fn try_all(area: &Area, words: &[String], tree: &Path, target: &Path) {
    let mutants = list(area, tree);
    let mut left_out: BTreeSet<usize> =
        (0..mutants.len()).filter(|n| mutants[*n].kind == Kind::Fixed).collect();
    for number in &left_out {
        println!("not tried {}", mutants[*number].name);
    }
    let fixed = left_out.len();
    leave_out_unviable(tree, target, &mutants, &mut left_out);
    let unviable = left_out.len() - fixed;
    let tests = build_tests(tree, target);
    assert!(survives(area, tree, &tests, usize::MAX) == Verdict::Missed, "the tests fail without any mutant");

    let wanted = |mutant: &Mutant| words.is_empty() || words.iter().any(|word| mutant.name.contains(word));
    let (mut caught, mut missed, mut endless) = (0, 0, 0);
    for (number, mutant) in mutants.iter().enumerate().filter(|(_, mutant)| wanted(mutant)) {
        if left_out.contains(&number) {
            continue;
        }
        match survives(area, tree, &tests, number) {
            Verdict::Caught => caught += 1,
            Verdict::Missed => {
                missed += 1;
                println!("missed    {}", mutant.name);
            }
            Verdict::Endless => {
                endless += 1;
                println!("endless   {}", mutant.name);
            }
        }
    }
    println!(
        "{caught} caught, {endless} endless, {missed} missed, {unviable} do not compile, {fixed} not tried"
    );
}

fn list(area: &Area, tree: &Path) -> Vec<Mutant> {
    let arguments = ["mutants", "--list", "--json", "-p", "aot-core", "-f", area.files];
    let listed = output_of(Command::new("cargo").args(arguments).current_dir(tree));
    let listed: Vec<Value> = serde_json::from_str(&listed).expect("cargo-mutants lists in JSON");
    let word = |value: &Value| value.as_str().expect("a text").to_owned();
    listed
        .iter()
        .map(|mutant| {
            let text = fs::read_to_string(tree.join(word(&mutant["file"]))).expect("it is in the copy");
            let bytes = |span: &Value| (offset(&text, &span["start"]), offset(&text, &span["end"]));
            let span = bytes(&mutant["span"]);
            let function = &mutant["function"];
            let is_fixed = function.is_null();
            Mutant {
                name: word(&mutant["name"]),
                file: word(&mutant["file"]),
                function: if is_fixed { span } else { bytes(&function["span"]) },
                span,
                replacement: word(&mutant["replacement"]),
                kind: if is_fixed { Kind::Fixed } else { Kind::Switched },
            }
        })
        .collect()
}

/// Lines and columns count from one, and columns count characters.
fn offset(text: &str, place: &Value) -> usize {
    let number = |name: &str| place[name].as_u64().expect("a number") as usize - 1;
    let line: usize = text.split_inclusive('\n').take(number("line")).map(str::len).sum();
    line + text[line..].chars().take(number("column")).map(char::len_utf8).sum::<usize>()
}

/// Builds the copy again and again, without the mutants that the compiler complains of.
fn leave_out_unviable(tree: &Path, target: &Path, mutants: &[Mutant], left_out: &mut BTreeSet<usize>) {
    let library = tree.join("crates/aot-core/src/lib.rs");
    let head = fs::read_to_string(&library).expect("the core has a root");
    fs::write(&library, head + "pub mod mutant;\n").expect("the copy is ours");
    let switch = "//! The mutant that is alive.\n\nstatic ALIVE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();\n\n\
        pub fn alive() -> usize {\n    let named = || std::env::var(\"AOT_MUTANT\").ok()?.parse().ok();\n    \
        *ALIVE.get_or_init(|| named().unwrap_or(usize::MAX))\n}\n";
    fs::write(tree.join("crates/aot-core/src/mutant.rs"), switch).expect("the copy is ours");
    let originals: BTreeMap<&str, String> = mutants
        .iter()
        .map(|mutant| {
            (mutant.file.as_str(), fs::read_to_string(tree.join(&mutant.file)).expect("it is there"))
        })
        .collect();
    for _ in 0..ROUNDS {
        let mut owners: HashMap<(String, u64), usize> = HashMap::new();
        for (file, text) in &originals {
            let woven = weave(file, text, mutants, left_out, &mut owners);
            fs::write(tree.join(file), woven).expect("the copy is ours");
        }
        let errors = compile(tree, target, &["check", "-p", "aot-core"]).1;
        if errors.is_empty() {
            return;
        }
        let blamed: BTreeSet<usize> = errors.iter().filter_map(|place| owners.get(place)).copied().collect();
        assert!(!blamed.is_empty(), "the copy does not compile, and no mutant is to blame: {errors:?}");
        left_out.extend(blamed);
    }
    panic!("after {ROUNDS} rounds there are still mutants that do not compile");
}

/// Every function with mutants becomes a choice between its bodies. Notes which line belongs to whose body.
fn weave(
    file: &str,
    text: &str,
    mutants: &[Mutant],
    left_out: &BTreeSet<usize>,
    owners: &mut HashMap<(String, u64), usize>,
) -> String {
    let mut functions: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (number, mutant) in mutants.iter().enumerate() {
        if mutant.file == file && !left_out.contains(&number) {
            functions.entry(mutant.function).or_default().push(number);
        }
    }
    let mut woven = String::new();
    let mut at = 0;
    for ((from, to), numbers) in functions {
        let signature = text[from..to].find("fn ").expect("a function") + from;
        let body = text[signature..to].find('{').expect("a function has a body") + signature + 1;
        let boxed = boxed(&text[signature..body - 1]);
        let (open, close) = if boxed.is_some() { ("Box::new({", "}),") } else { ("{", "}") };
        woven.push_str(&text[at..signature]);
        woven.push_str(boxed.as_deref().unwrap_or(&text[signature..body - 1]));
        woven.push_str("{ match crate::mutant::alive() {\n");
        for number in numbers {
            let mutant = &mutants[number];
            let first = woven.lines().count() as u64 + 1;
            let (before, after) = (&text[body..mutant.span.0], &text[mutant.span.1..to - 1]);
            woven.push_str(&format!("{number} => {open} {before}{}{after} {close}\n", mutant.replacement));
            let last = woven.lines().count() as u64;
            owners.extend((first..=last).map(|line| ((file.to_owned(), line), number)));
        }
        woven.push_str(&format!("_ => {open}{}{close}\n}}}}", &text[body..to - 1]));
        at = to;
    }
    woven + &text[at..]
}

/// The signature of a function that returns an `impl Iterator`, with a box for it: two bodies of one type can stand behind
/// one switch.
fn boxed(signature: &str) -> Option<String> {
    let (before, iterator) = signature.split_once("-> impl ")?;
    let named = before.split_once("<'").and_then(|(_, rest)| rest.split(['>', ',']).next());
    Some(format!("{before}-> Box<dyn {} + '{}> ", iterator.trim_end(), named.unwrap_or("_")))
}

fn build_tests(tree: &Path, target: &Path) -> HashMap<String, PathBuf> {
    let arguments = ["test", "--no-run", "-p", "aot-core", "--lib", "--test", "it"];
    let (built, errors) = compile(tree, target, &arguments);
    assert!(errors.is_empty(), "the tests do not compile: {errors:?}");
    built
}

/// The executables by their names, and the places of errors.
fn compile(tree: &Path, target: &Path, arguments: &[&str]) -> (HashMap<String, PathBuf>, Vec<(String, u64)>) {
    let output = Command::new("cargo")
        .args(arguments)
        .args(["--message-format=json", "--quiet"])
        .envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(tree)
        .stderr(Stdio::null())
        .output()
        .expect("cargo can be run");
    let (mut built, mut errors) = (HashMap::new(), Vec::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(path) = message["executable"].as_str() {
            built.insert(message["target"]["name"].as_str().unwrap_or_default().to_owned(), path.into());
        }
        if message["message"]["level"] != "error" {
            continue;
        }
        for span in message["message"]["spans"].as_array().into_iter().flatten() {
            let place = (span["file_name"].as_str(), span["line_start"].as_u64());
            if let ((Some(file), Some(line)), true) = (place, span["is_primary"] == true) {
                errors.push((file.to_owned(), line));
            }
        }
    }
    assert!(output.status.success() || !errors.is_empty(), "cargo {arguments:?} failed");
    (built, errors)
}

#[derive(PartialEq)]
enum Verdict {
    Caught,
    Missed,
    Endless,
}

fn survives(area: &Area, tree: &Path, tests: &HashMap<String, PathBuf>, number: usize) -> Verdict {
    for (binary, subject) in area.tests {
        let mut child = Command::new(&tests[*binary])
            .args(["--quiet", subject])
            .env("LIVES", LIVES)
            .env("AOT_MUTANT", number.to_string())
            .env("INSTA_UPDATE", "no")
            .current_dir(tree.join("crates/aot-core"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a test that was built can be run");
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                child.kill().expect("a child can be killed");
                child.wait().expect("a child can be waited for");
                return Verdict::Endless;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !status.success() {
            return Verdict::Caught;
        }
    }
    Verdict::Missed
}

fn output_of(command: &mut Command) -> String {
    let output =
        command.stderr(Stdio::inherit()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout).expect("the output is UTF-8")
}
