//! Rules of this repository that a compiler does not guard: who may know whom, and what may stand where.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file below a folder, with its path from the root and its text without comments.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("it can be read");
                let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                let name = path.strip_prefix(root()).expect("it lies below").display().to_string();
                found.push((name, code.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no source");
    found
}

/// No file below `folder`, save those under `except`, may hold any of these words.
fn forbid(folder: &str, except: &[&str], words: &[&str], why: &str) {
    for (path, code) in sources(folder) {
        if except.iter().any(|allowed| path.contains(allowed)) {
            continue;
        }
        for word in words {
            assert!(!code.contains(word), "{path} holds `{word}`: {why}");
        }
    }
}

#[test]
fn the_core_is_pure() {
    let world = [
        "std::fs",
        "std::process",
        "std::env",
        "std::net",
        "std::thread",
        "std::io::stdin",
        "SystemTime",
        "Instant::now",
        "Timestamp::now",
        "tokio",
        "println!",
        "async fn",
        ".await;",
        ".await?",
        ".await)",
    ];
    forbid("crates/aot-core/src", &[], &world, "the core has no IO, no clock, no environment and no async");
}

/// The rooms of the core, each with the rooms that it may use. No room may use one that uses it.
const ROOMS: [(&str, &[&str]); 9] = [
    ("state", &[]),
    ("shell_command", &[]),
    ("contract", &["state"]),
    ("rules", &["state"]),
    ("coordinator", &["rules", "state"]),
    ("verdict", &["shell_command", "state"]),
    ("brief", &["rules", "state", "verdict"]),
    ("hook", &["brief", "rules", "shell_command", "state"]),
    ("view", &["rules", "state", "verdict"]),
];

#[test]
fn rooms_use_only_the_rooms_that_they_may() {
    let lib = fs::read_to_string(root().join("crates/aot-core/src/lib.rs")).expect("it can be read");
    let mut rooms: Vec<&str> = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")).collect();
    rooms.iter_mut().for_each(|room| *room = room.trim_end_matches(';'));
    let mut listed: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
    listed.sort_unstable();
    assert_eq!(rooms, listed, "every room of the core stands in the table");
    for (path, code) in sources("crates/aot-core/src") {
        let room =
            path.trim_start_matches("crates/aot-core/src/").split(['/', '.']).next().unwrap_or_default();
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else { continue };
        for used in code.split("crate::").skip(1) {
            let used = used.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            assert!(used == room || allowed.contains(&used), "{path} uses `crate::{used}`: `{room}` may not");
        }
    }
}

#[test]
fn crates_look_in_one_direction() {
    forbid("crates/aot-core/src", &[], &["aot_runner", "aot_testkit"], "the core knows nobody");
    let doors = ["println!", "eprintln!", "print!(", "clap::", "IsTerminal"];
    forbid("crates/aot-runner/src", &["tests.rs"], &doors, "the runner has no terminal");
    forbid("crates/aot/src", &[], &["process::Command", "Command::new"], "the doors start no processes");
    forbid("crates/aot-restate/src", &[], &doors, "what carries orders has no terminal");
    forbid(
        "crates/aot-restate/src",
        &[],
        &["remote::wire", "aot_core"],
        "what carries orders cannot read them",
    );
    forbid(
        "crates/scripted-model/src",
        &[],
        &["aot_core", "aot_runner"],
        "the scripted model knows nothing of aot",
    );
}

/// In each crate one file or folder uses the crates of a protocol, and those that speak one use tokio.
#[test]
fn protocols_have_a_file_each() {
    let rooms: [(&str, &[&str], &[&str]); 10] = [
        ("crates/aot-restate/src", &["src/service.rs"], &["restate_sdk"]),
        ("crates/aot-runner/src", &[], &["restate", "aot_restate"]),
        ("crates/aot/src", &[], &["restate_sdk"]),
        ("crates/aot-runner/src", &["agents/acp/protocol.rs"], &["agent_client_protocol", "futures::"]),
        ("crates/aot/src", &[], &["agent_client_protocol"]),
        ("crates/aot-runner/src", &["agents/submit.rs"], &["rmcp::"]),
        ("crates/aot-runner/src", &["src/agents/"], &["tokio::"]),
        ("crates/aot/src", &["mcp/mod.rs"], &["rmcp::"]),
        ("crates/aot/src", &["mcp/mod.rs", "src/serve/"], &["tokio::"]),
        ("crates/aot/src", &["src/serve/"], &["axum::", "hyper::", "hyper_util::", "futures::"]),
    ];
    for (folder, files, crates) in rooms {
        forbid(folder, files, crates, "in each crate a protocol is known by one file");
    }
}

#[test]
fn only_failure_and_print_speak_to_streams() {
    let streams = ["println!", "eprintln!", "print!(", "io::stdout()", "io::stderr()"];
    forbid(
        "crates/aot/src",
        &["failure.rs", "print.rs", "terminal.rs", "full_screen/mod.rs", "mcp/mod.rs"],
        &streams,
        "one place prints errors, one prints answers, one speaks the protocol",
    );
}

#[test]
fn a_type_name_occurs_once_in_a_crate() {
    for member in ["aot-core", "aot-runner", "aot-restate", "aot", "aot-testkit", "scripted-model"] {
        let mut known: HashMap<String, String> = HashMap::new();
        for (path, code) in sources(&format!("crates/{member}/src")) {
            for name in code.lines().filter_map(type_name) {
                if let Some(other) = known.insert(name.to_owned(), path.clone()) {
                    panic!("{path} and {other} both have a type `{name}`: give each thing a name of its own");
                }
            }
        }
    }
}

/// The type that a line declares.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split_ascii_whitespace().skip_while(|word| word.starts_with("pub"));
    let keyword = words.next().filter(|word| ["struct", "enum", "trait"].contains(word));
    keyword.and(words.next()).and_then(|name| name.split(|c: char| !c.is_alphanumeric()).next())
}

#[test]
fn every_module_says_what_lives_in_it() {
    let crates = ["aot-core", "aot-runner", "aot-restate", "aot", "aot-testkit", "scripted-model"];
    for name in crates {
        for (path, _) in sources(&format!("crates/{name}/src")) {
            let text = fs::read_to_string(root().join(&path)).expect("it can be read");
            assert!(
                text.starts_with("//! ") || path.ends_with("tests.rs"),
                "{path} does not open with what lives there"
            );
        }
    }
}

/// What a person is told to type can be typed: no sign that a shell expands or a plain terminal cannot show.
#[test]
fn hints_can_be_typed() {
    for folder in ["crates/aot-core/src", "crates/aot-runner/src", "crates/aot/src"] {
        for (name, text) in sources(folder) {
            let commands = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let odd = |line: &&str| ["`aot ", "\"aot ", "/aot:", "--"].iter().any(|it| line.contains(it));
            let found = commands.filter(odd).find(|line| line.contains('…'));
            assert!(
                found.is_none(),
                "{name}: name what is to be filled in, in capitals: {}",
                found.unwrap_or_default()
            );
        }
    }
}
