//! The tutorial works as written: every command of its console blocks, in order, in one shell.

use std::path::Path;
use std::process::Command;

#[test]
fn every_command_of_the_tutorial_works() {
    let tutorial = include_str!("../../../../../docs/tutorial.md");
    let blocks = tutorial.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let script: String = blocks.collect::<String>().replace("\n$ ", "\n");
    let script = script.strip_prefix("$ ").expect("the first block begins with a command");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let aot = Path::new(env!("CARGO_BIN_EXE_aot")).parent().expect("a folder");
    let output = Command::new("sh")
        .args(["-e", "-x", "-c", script])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", aot.display()))
        .env("HOME", folder.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for expected in ["the check is red now", "counting goes on with A2", "DONE  the base case holds"] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}
