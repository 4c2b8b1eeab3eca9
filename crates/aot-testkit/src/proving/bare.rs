//! The same agents without a loop that checks: all at once with `xargs -P`, and one after the other in a shell loop that
//! believes what they say. Both are what people really write. And with `make`, which knows what needs what and runs the checks.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::corpus::{Prepared, TESTS};
use super::judge::{changed_in, run_tests};
use super::scene::{IDLE_SECONDS, Minds, atom, lay_out_empty, task};

/// How often a shell loop asks for one module.
const TRIES: usize = 5;

/// What came of it.
#[derive(Clone, Debug)]
pub struct BareRun {
    pub said_done: bool,
    /// With the tests as they were agreed on.
    pub tests_pass: bool,
    pub tests_changed: usize,
    pub took: Duration,
}

/// Every agent once, so many at a time, and then the tests.
pub fn with_xargs(prepared: &Prepared, minds: &Minds) -> BareRun {
    let atoms = format!("{{ echo {}; }}", atoms(prepared).join("; echo "));
    let agent = agent_words(minds, IDLE_SECONDS);
    let one = format!("AOT_ATOM={{}} {agent} < briefs/{{}} > /dev/null 2>&1 || true");
    let parallel = minds.parallel;
    run(prepared, minds, &format!("{atoms} | xargs -P {parallel} -I{{}} sh -c '{one}'; echo DONE"))
}

/// Each agent once, after those whose modules it imports, and then its check; all of them in one folder.
pub fn with_make(prepared: &Prepared, minds: &Minds) -> BareRun {
    let agent = agent_words(minds, 600);
    let name = |path: &str| atom(&prepared.modules, path);
    let mut rules = format!("all: {}\n", atoms(prepared).join(" "));
    for module in &prepared.modules {
        let needs: Vec<String> = module.depends_on.iter().map(|path| name(path)).collect();
        let (id, check) = (name(&module.path), prepared.test_command(&module.tests));
        rules += &format!(
            "{id}: {}\n\t@AOT_ATOM={id} {agent} < briefs/{id} > /dev/null 2>&1\n\t@{check} > /dev/null 2>&1\n",
            needs.join(" ")
        );
    }
    fs::write(minds.path("rules.make"), rules).expect("a file");
    let (parallel, rules) = (minds.parallel, minds.path("rules.make"));
    run(prepared, minds, &format!("make -s -j {parallel} -f {} && echo DONE", rules.display()))
}

/// One module after the other, each until an agent says that it is done.
pub fn with_shell_loop(prepared: &Prepared, minds: &Minds) -> BareRun {
    let tries: Vec<String> = (1..=TRIES).map(|number| number.to_string()).collect();
    let agent = agent_words(minds, 1);
    let script = format!(
        "for atom in {atoms}; do\n  for try in {tries}; do\n    AOT_ATOM=$atom {agent} < briefs/$atom > said 2> /dev/null\n    \
         grep -q '\"success\":true' said && continue 2\n  done\n  exit 1\ndone\necho DONE\n",
        atoms = atoms(prepared).join(" "),
        tries = tries.join(" "),
    );
    run(prepared, minds, &script)
}

fn atoms(prepared: &Prepared) -> Vec<String> {
    prepared.modules.iter().map(|module| atom(&prepared.modules, &module.path)).collect()
}

fn agent_words(minds: &Minds, seconds: u64) -> String {
    let program = std::env::current_exe().expect("it runs");
    format!("timeout {seconds} {} {}", program.display(), minds.arguments.words().join(" "))
}

fn run(prepared: &Prepared, minds: &Minds, script: &str) -> BareRun {
    let folder = minds.path("bare");
    fs::create_dir_all(&folder).expect("a folder");
    lay_out_empty(&folder, prepared);
    fs::create_dir_all(folder.join("briefs")).expect("a folder");
    for module in &prepared.modules {
        let test = prepared.test_command(&module.tests);
        let brief = format!("{}. Its tests: {test}. Nobody may change {TESTS}.\n", task(module));
        fs::write(folder.join("briefs").join(atom(&prepared.modules, &module.path)), brief).expect("a file");
    }
    let clock = Instant::now();
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .expect("sh is here");
    let tests = run_tests(&folder, &prepared.test_command(&[]));
    let took = clock.elapsed();
    let changed = changed_in(&folder.join(TESTS), &prepared.reference.join(TESTS));
    put_back(&folder, prepared);
    // What decides is the tests as they were agreed on.
    let agreed = if changed == 0 { tests } else { run_tests(&folder, &prepared.test_command(&[])) };
    BareRun {
        said_done: String::from_utf8_lossy(&done.stdout).trim_end().ends_with("DONE"),
        tests_pass: agreed.is_ok(),
        tests_changed: changed,
        took,
    }
}

fn put_back(folder: &Path, prepared: &Prepared) {
    let tests = format!("{}/.", prepared.reference.join(TESTS).display());
    let status = Command::new("cp").arg("-R").arg(tests).arg(folder.join(TESTS)).status();
    assert!(status.is_ok_and(|status| status.success()), "the tests cannot be copied");
}
