//! The proving ground with a real client: Claude Code, whose model is a script on loopback. Each module is wrong at first,
//! and the model gets it right in the same conversation when it is told what the tests said.

use std::path::{Path, PathBuf};

use scripted_model::{Rule, Script, ScriptedModel};
use serde_json::json;

use super::agent::Patience;
use super::corpus::Prepared;
use super::faults::Misdeed;
use super::scene::{LoopRun, Minds, Workforce, run_loop};

/// Messages of a conversation, at most: a client may answer in more than one.
const LONGEST: usize = 12;

/// How pytest names a test that fails, and one that cannot even be read.
const EVIDENCE: [&str; 2] = ["FAILED ", "ERROR"];

/// Where `clients/install.sh` puts the client.
pub fn client() -> Option<PathBuf> {
    let target = std::env::current_exe().ok()?;
    let client = target.parent()?.parent()?.parent()?.join("clients/bin/claude");
    client.exists().then_some(client)
}

pub fn run_with_client(aot: &Path, prepared: &Prepared, client: &Path) -> LoopRun {
    let wrong = vec![vec![Misdeed::Wrong]; prepared.modules.len()];
    let minds = Minds::new(prepared, &wrong, Patience::Mends, std::time::Duration::ZERO);
    let knowledge = minds.arguments.knowledge.display().to_string();
    let mut script = Script::new();
    for (place, module) in prepared.modules.iter().enumerate() {
        let (atom, path) = (format!("solve A{}", place + 1), &module.path);
        let solved = |words: &str| json!({"success": true, "summary": words, "artifacts": [path], "reason": null, "too_large": false});
        let copy = |folder: &str| format!("cp {knowledge}/{folder}/{path} {path} && echo WROTE {folder}");
        for turn in 2..LONGEST {
            for mark in EVIDENCE {
                let mends = || Rule::on(&atom).and("Not done yet").and(mark).from_turn(turn);
                script = script
                    .rule(mends().after("Received").say("Done."))
                    .rule(mends().after("WROTE reference").answer(solved("It is whole again.")))
                    .rule(mends().run(&copy("reference")));
            }
        }
        let first = Rule::on(&atom).without("Not done yet");
        script = script.rule(first.run(&copy("spoiled")).answer(solved("It is written.")));
    }
    let model = ScriptedModel::start(script).expect("a port of loopback");
    run_loop(aot, prepared, &minds, &Workforce::Client { program: client.to_path_buf(), model: model.url() })
}
