//! `aot demo`: the verbs at work on a small file, in a folder of its own.

use clap::{Args, Parser};

use super::Cli;
use crate::failure::Failure;
use crate::place::STATE_FILE;
use crate::print;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep the folder afterwards
    #[arg(long)]
    keep: bool,
}

/// Each step: what it shows, and the words a person would type.
const STEPS: [(&str, &[&str]); 11] = [
    ("A goal was agreed and cut into atoms; tokens can be made in two ways.", &["show"]),
    ("The gate is open: everything a loop needs is there.", &["gate"]),
    ("What can start now? The longest remaining path comes first.", &["ready"]),
    ("Work begins, and one atom shrinks to a summary.", &["atom", "start", "A1"]),
    ("", &["atom", "resolve", "A1", "--summary", "There is a user model", "--artifact", "src/user.rs"]),
    ("The first way to make tokens fails: the group goes to the next one.", &["atom", "start", "A3"]),
    ("", &["atom", "fail", "A3", "--reason", "the library is gone"]),
    ("The other way works.", &["atom", "start", "A4"]),
    ("", &["atom", "resolve", "A4", "--summary", "Sessions in a table", "--artifact", "src/session.rs"]),
    ("Nonsense is refused, and the file stays as it was.", &["atom", "start", "A4"]),
    ("Where things stand:", &["show"]),
];

pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let trouble = |error: std::io::Error| Failure::Input {
        what: "a temporary folder".into(),
        problem: error.to_string(),
        hint: "name another with the variable TMPDIR".into(),
    };
    let folder = std::env::temp_dir().join(format!("aot-demo-{}", std::process::id()));
    let state = folder.join(STATE_FILE);
    std::fs::create_dir_all(state.parent().unwrap_or(&folder)).map_err(trouble)?;
    std::fs::write(&state, DEMO_STATE).map_err(trouble)?;
    let outcome = walk(&state);
    if args.keep {
        print::line(&format!("The folder is kept: {}", folder.display()));
    } else {
        std::fs::remove_dir_all(&folder).map_err(trouble)?;
    }
    outcome
}

fn walk(state: &std::path::Path) -> Result<(), Failure> {
    for (text, words) in STEPS {
        if !text.is_empty() {
            print::line(&format!("\n# {text}"));
        }
        print::line(&format!(
            "$ aot {}",
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        ));
        let named = ["aot".into(), "--state".into(), state.to_path_buf().into_os_string()];
        let words = named.into_iter().chain(words.iter().map(std::ffi::OsString::from));
        let cli = Cli::try_parse_from(words).expect("the steps are written here");
        match cli.answer() {
            Ok(()) => {}
            Err(Failure::Refused(refusal)) => {
                print::line(&format!("error: {refusal}\nhint: {}", refusal.hint()));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("\"{word}\"") } else { word.to_owned() }
}

const DEMO_STATE: &str = r#"---
objective:
  goal: "Let people log in"
  base_case:
    checklist:
      - item: "Login tests are green"
        check: {type: command, value: "cargo test login"}
  background_intent: "Existing users need accounts that work"
  deliverables: "A login API"
  definition_of_done: "The login tests are green"
  constraints: {max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3}
control:
  status: pending
  iteration: 0
  stall_count: 0
  prev_pending_count: -1
  stop_requested: false
  stop_reason: null
  redirect_requested: false
atoms:
  - {id: A1, description: "The user model", status: pending, depends_on: []}
  - {id: A2, description: "Hashing of passwords", status: pending, depends_on: [A1]}
  - {id: A3, description: "Tokens by JWT", status: pending, depends_on: [A1], or_group: tokens}
  - {id: A4, description: "Tokens by sessions", status: pending, depends_on: [A1], or_group: tokens}
  - {id: A5, description: "The login route", status: pending, depends_on: [A2, A3]}
decompositions: []
or_groups:
  tokens: {choices: [A3, A4], selected: A3, failed: []}   # tried in this order
bindings: {}
trail: []
corrections: []
---

# Original Prompt

Please let people log in.
"#;
