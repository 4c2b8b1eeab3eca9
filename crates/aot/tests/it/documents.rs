//! Documents whose commands are run: all console blocks of a page, in order, in one shell.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// The commands of a page: what its console blocks have behind `$ `, with the lines that belong to it.
pub fn commands(page: &str) -> String {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let script: String = blocks.collect::<String>().replace("\n$ ", "\n");
    script.strip_prefix("$ ").expect("the first block begins with a command").to_owned()
}

/// Runs a script from a folder, with an empty home that has a name for git, and answers with all that it said.
pub fn said(script: &str, folder: &Path, home: &Path) -> String {
    fs::write(home.join(".gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n").expect("a file");
    let aot = Path::new(env!("CARGO_BIN_EXE_aot")).parent().expect("a folder");
    let output = Command::new("sh")
        .args(["-e", "-c", &format!("exec 2>&1\n{script}")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", aot.display()))
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{script}\n---\n{text}");
    text
}
