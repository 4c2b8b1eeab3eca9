//! `aot completions` and `aot man`: what packages install beside the program, made from the command line itself.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::{Cli, Invocation, Verb};
use crate::failure::Failure;
use crate::print::Answer;

/// Print the completion script of a shell
///
/// bash: aot completions bash > ~/.local/share/bash-completion/completions/aot
///
/// zsh: aot completions zsh > a folder of $fpath, as _aot
///
/// fish: aot completions fish > ~/.config/fish/completions/aot.fish
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

impl Verb for CompletionsArgs {
    fn run(&self, _: &Invocation) -> Result<Answer, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown(), "aot", &mut script);
        let script = String::from_utf8(script).expect("our help is text");
        let json = json!({"shell": self.shell.to_string(), "script": script});
        Ok(Answer::new(script, json))
    }
}

/// The command line without what is hidden, which a shell would offer like everything else.
fn shown() -> Command {
    let all = Cli::command();
    let about = all.get_about().cloned().unwrap_or_default();
    Command::default()
        .name("aot")
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned())
}

/// Write the manual pages into a folder, one for each verb
#[derive(Debug, Args)]
pub struct ManArgs {
    folder: PathBuf,
}

impl Verb for ManArgs {
    fn run(&self, _: &Invocation) -> Result<Answer, Failure> {
        let world = |error| Failure::world("write the manual pages", error);
        std::fs::create_dir_all(&self.folder).map_err(world)?;
        // A page says which release it describes; the commit is the business of `aot --version`.
        let command = Cli::command().version(env!("CARGO_PKG_VERSION"));
        clap_mangen::generate_to(command, &self.folder).map_err(world)?;
        let text = format!("the manual pages are in {}", self.folder.display());
        Ok(Answer::new(text, json!({"success": true, "path": self.folder})))
    }
}
