//! The scripted model as a program, for trying clients by hand: prints its address, and runs until it is killed.

use std::error::Error;
use std::path::Path;

use scripted_model::{Script, ScriptedModel};

const USAGE: &str = "usage: scripted-model SCRIPT.json [LOG.jsonl [PORT]]";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let script = words.first().ok_or(USAGE)?;
    let script: Script = serde_json::from_str(&std::fs::read_to_string(script)?)?;
    let port = words.get(2).map_or(Ok(0), |port| port.parse())?;
    let model = ScriptedModel::start_on(port, script, words.get(1).map(Path::new))?;
    println!("{}", model.url());
    loop {
        std::thread::park();
    }
}
