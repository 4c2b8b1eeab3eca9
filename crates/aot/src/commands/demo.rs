//! `aot demo`: a whole loop in a repository of its own, within seconds and without any model.

use std::fs;
use std::io;
use std::path::Path;

use aot_core::rules::Refusal;
use aot_runner::process::Guard;
use aot_runner::store::Store;
use aot_runner::tree;
use aot_runner::trust;
use clap::{Args, Parser};

use super::workspace::project;
use super::{Cli, Invocation, Verb};
use crate::failure::Failure;
use crate::place::{self, STATE_FILE};
use crate::print::{self, Answer, OutputFormat};

/// Watch a whole loop in a temporary folder: no model, no network, seconds
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep the folder afterwards, to look around in it
    #[arg(long)]
    keep: bool,
}

impl Verb for DemoArgs {
    fn run(&self, _: &Invocation) -> Result<Answer, Failure> {
        let trouble = |error: io::Error| {
            Failure::input("a temporary folder", error, "name another with the variable TMPDIR")
        };
        let folder = std::env::temp_dir().join(format!("aot-demo-{}", std::process::id()));
        make(&folder).map_err(trouble)?;
        let outcome = show(&folder);
        if self.keep {
            print::line(&format!("\nThe folder is kept. Look around in it:\n  cd {}", folder.display()));
            print::line("  git log --stat; aot graph; aot log");
        } else {
            fs::remove_dir_all(&folder).map_err(trouble)?;
        }
        Ok(Answer::printed().with_exit(outcome?))
    }
}

fn make(folder: &Path) -> io::Result<()> {
    let state = folder.join(STATE_FILE);
    fs::create_dir_all(state.parent().unwrap_or(folder))?;
    fs::write(&state, DEMO_STATE)?;
    fs::write(folder.join("test.sh"), DEMO_TEST)?;
    fs::write(folder.join(".gitignore"), ".claude/\n")
}

/// Runs the verbs one after the other, and answers with the exit code of the one that failed.
fn show(folder: &Path) -> Result<u8, Failure> {
    print::line(STORY);
    trust_own(folder)?;
    tree::begin(folder, "A script that tests what is to come", &Guard::new(place::this_program()?))?;
    let state = folder.join(STATE_FILE);
    for words in [&["graph"][..], &["run"]] {
        print::line(&format!("\n$ aot {}", words.join(" ")));
        let named = ["aot".into(), "--state".into(), state.clone().into_os_string()];
        let words = named.into_iter().chain(words.iter().map(std::ffi::OsString::from));
        let answer = Cli::try_parse_from(words).expect("the words are written here").answer()?;
        answer.print(OutputFormat::Text);
        if answer.exit != 0 {
            return Ok(answer.exit);
        }
    }
    print::line(CLOSING);
    Ok(0)
}

/// What the program itself has written needs no question.
fn trust_own(folder: &Path) -> Result<(), Failure> {
    let project = project(&folder.join(STATE_FILE))?;
    let mut store = Store::open(&project.state, &place::build_mark())?;
    let items = store.load::<Refusal>()?.1.trust_items();
    trust::add_for_this_process(&project.state, &items);
    Ok(())
}

const STORY: &str = "\
A loop in a repository of its own: no model, no network, nothing is installed.
Each atom is a command here; with an agent the loop is the same. Watch for
  - atoms that run side by side, each in a worktree of its own
  - a choice that fails, so that the loop goes on with the other one
  - a race of two ways, of which the first to pass its check lands
  - the end: not because somebody says so, but because test.sh passes";

const CLOSING: &str = "
The end was proven: the program ran the checks itself, afresh.
Next, in a project of yours: agree on a goal, look at what would happen, and let
it happen.
  aot align \"what you want\"
  aot run --dry-run
  aot run";

/// The base case: it is red until everything is there.
const DEMO_TEST: &str = r#"set -e
test "$(cat report/words)" = 12
test "$(cat report/lines)" = 3
test "$(head -n 1 report/sorted)" = agreed
test "$(cat report/found)" = "to be proven"
test "$(wc -l < REPORT)" -eq 4
"#;

const DEMO_STATE: &str = r#"---
objective:
  goal: "A report on a text, made and tested by a loop"
  base_case:
    checklist:
      - item: "The report is right"
        check: {type: command, value: "sh test.sh"}
      - item: "Nothing temporary is left"
        check: {type: not_file, value: "**/*.tmp"}
  background_intent: "Show what a loop does"
  deliverables: "REPORT, and what it is made of"
  definition_of_done: "test.sh passes"
  protected: [test.sh]
  constraints: {max_iterations: 12, max_parallel_agents: 4, max_stall_count: 3, agent_timeout: 1m}
control:
  status: pending
  iteration: 0
  stall_count: 0
  prev_pending_count: -1
  stop_requested: false
  stop_reason: null
  redirect_requested: false
atoms:
  - id: A1
    description: "Write the text"
    status: pending
    depends_on: []
    run: |
      sleep 0.2
      printf 'goals are agreed\nthings and words\nleft to be proven to somebody\n' > text
      echo "a text of three lines"
  - {id: A2, description: "Count it", status: pending, depends_on: [A1]}
  - id: A3
    description: "Count the words"
    status: pending
    depends_on: [A1]
    run: "mkdir -p report; sleep 0.3; wc -w < text | tr -d ' ' > report/words; echo twelve words"
    check: {type: command, value: "test -s report/words"}
  - id: A4
    description: "Count the lines"
    status: pending
    depends_on: [A1]
    run: "mkdir -p report; sleep 0.4; wc -l < text | tr -d ' ' > report/lines; echo three lines"
    check: {type: command, value: "test -s report/lines"}
  - id: A5
    description: "Sort the words with a tool that is not there"
    status: pending
    depends_on: [A1]
    or_group: sorting
    run: "mkdir -p report; sleep 0.2; sort-of-tomorrow text > report/sorted"
  - id: A6
    description: "Sort the words with sort(1)"
    status: pending
    depends_on: [A1]
    or_group: sorting
    run: "mkdir -p report; tr ' ' '\\n' < text | LC_ALL=C sort > report/sorted; echo sorted"
  - id: A7
    description: "Search by looking very carefully"
    status: pending
    depends_on: [A1]
    or_group: searching
    run: "mkdir -p report; sleep 30; grep -o 'to be proven' text > report/found"
    check: {type: command, value: "test -s report/found"}
  - id: A8
    description: "Search with grep at once"
    status: pending
    depends_on: [A1]
    or_group: searching
    run: "mkdir -p report; sleep 0.5; grep -o 'to be proven' text > report/found; echo found it"
    check: {type: command, value: "test -s report/found"}
  - id: A9
    description: "Put the report together"
    status: pending
    depends_on: [A2, A5, A7]
    run: |
      for part in words lines found; do echo "$part: $(cat report/$part)"; done > REPORT
      echo "first word: $(head -n 1 report/sorted)" >> REPORT
      echo "a report of four lines"
    check: {type: command, value: "test -s REPORT"}
decompositions:
  - {parent: A2, children: [A3, A4], reason: "Words and lines can be counted side by side"}
or_groups:
  sorting: {choices: [A5, A6], selected: A5, failed: []}
  searching: {choices: [A7, A8], selected: A7, failed: [], speculative: true}
bindings: {}
trail: []
corrections: []
---

# Original Prompt

Please make a report on a text.
"#;
