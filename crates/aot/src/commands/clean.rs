//! `aot clean`: removes what runs keep for the next one. No work is in it.

use aot_runner::driver;
use aot_runner::process::Guard;
use aot_runner::store::home::Home;
use aot_runner::tree;
use clap::Args;
use serde_json::json;

use super::workspace::project;
use super::{Invocation, Verb};
use crate::failure::Failure;
use crate::place;
use crate::print::Answer;

/// Remove the workers' trees and the checks' caches, which runs keep for the next one
///
/// Work that did not land is kept elsewhere, and stays. Trees of a session stay, too.
#[derive(Debug, Args)]
pub struct CleanArgs {}

impl Verb for CleanArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let path = invocation.path()?;
        let project = project(&path)?;
        let lock = driver::acquire(&Home::of(&path)?)?;
        let trees = tree::clean(&project, &Guard::new(place::this_program()?))?;
        drop(lock);
        let text = match trees {
            0 => "there were no trees".to_owned(),
            1 => "removed 1 tree".to_owned(),
            more => format!("removed {more} trees"),
        };
        Ok(Answer::new(text, json!({"success": true, "trees": trees})))
    }
}
