//! Scores that an agent of a host's session handed in. They are kept beside the state file with the tree that was judged,
//! and are an answer for that tree only. Strict reading and arithmetic are those of any other judge.

use std::path::{Path, PathBuf};

use aot_core::brief::JudgeAnswer;
use aot_core::state::Quality;
use aot_core::verdict::Excerpt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::judge::{Judge, JudgeReply, Request};
use crate::atomic_file::{self, Durability};
use crate::plain_file;
use crate::process::Guard;
use crate::tree::{Project, Tree};

/// A longer file is not ours.
const LONGEST: u64 = 4 << 20;

/// So many judgements are kept; the oldest are forgotten first.
const KEPT: usize = 64;

/// Scores for one check, as they were handed in.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Judgement {
    item: String,
    check: Quality,
    tree: String,
    answer: Value,
}

/// The judge of a session without a judge of its own: whatever was handed in.
#[derive(Debug)]
pub struct HandedInScores {
    pub sidecar: PathBuf,
    pub guard: Guard,
}

/// Keeps scores for a check of the project as it is now.
pub fn keep(
    project: &Project,
    tree: &Tree,
    (item, check): (&str, &Quality),
    answer: &JudgeAnswer,
) -> std::io::Result<()> {
    let mut kept = read(&project.sidecar);
    kept.retain(|one| one.item != item);
    if kept.len() >= KEPT {
        kept.remove(0);
    }
    let (tree, answer) = (tree.hash().to_owned(), json!(answer));
    kept.push(Judgement { item: item.to_owned(), check: check.clone(), tree, answer });
    let text = serde_json::to_vec(&kept)?;
    atomic_file::write(&path(&project.sidecar), &[&text], Durability::Unsynced)
}

impl Judge for HandedInScores {
    fn name(&self) -> String {
        "an agent of the session".into()
    }

    fn ask(&self, request: &Request<'_>) -> JudgeReply {
        let Ok(tree) = Tree::of(request.project, &self.guard) else { return JudgeReply::NotJudged };
        let is_asked_for = |one: &Judgement| {
            one.item == request.item && one.check == *request.quality && one.tree == tree.hash()
        };
        match read(&self.sidecar).into_iter().find(is_asked_for) {
            Some(one) => JudgeReply::Answer { text: one.answer.to_string(), beside: Excerpt::default() },
            None => JudgeReply::NotJudged,
        }
    }
}

fn read(sidecar: &Path) -> Vec<Judgement> {
    let text = plain_file::read(&path(sidecar), LONGEST).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn path(sidecar: &Path) -> PathBuf {
    sidecar.join("scores.json")
}
