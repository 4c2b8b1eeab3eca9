//! `aot atom …`: the deterministic operations on atoms.

use std::io::Read;

use aot_core::rules::advance::{self, AttemptNumber, Proof};
use aot_core::rules::backtrack::{self, FailureOutcome};
use aot_core::rules::{Change, Ledger, Refusal, decompose, reshape};
use aot_core::state::{AtomId, Binding, Check, Checks, GroupName, NewAtom};
use aot_core::verdict::{Jobs, Verdict};
use aot_runner::checks::{Occasion, Whose};
use aot_runner::store::{Recorded, Store};
use clap::Subcommand;
use serde_json::json;

use super::workspace::Workspace;
use super::{Invocation, says_something, session, verify};
use crate::failure::{self, Failure};
use crate::print;
use crate::print::OutputFormat;

/// A list of children longer than this is not read.
const MAX_INPUT: u64 = 16 << 20;

#[derive(Debug, Subcommand)]
pub enum AtomVerb {
    /// Add an atom
    Add {
        description: String,
        /// Its id (default: the next in sequence)
        #[arg(long)]
        id: Option<String>,
        /// What must be resolved before it
        #[arg(long, value_delimiter = ',', value_name = "A1,A2")]
        depends_on: Vec<String>,
        /// Make it the last choice of this OR group
        #[arg(long, value_name = "GROUP")]
        or_group: Option<String>,
        /// The command that must succeed before it counts as resolved
        #[arg(long, value_name = "COMMAND")]
        check: Option<String>,
        /// The command that solves it, without any agent
        #[arg(long, value_name = "COMMAND")]
        run: Option<String>,
    },
    /// Start an atom that is ready; in a host's session: with a tree to work in, and the worker's brief
    Start { id: String },
    /// Print what the worker of an atom in progress is told, and where it works
    Brief { id: String },
    /// Resolve an atom in progress: its result shrinks to a summary
    Resolve {
        id: String,
        /// What it came to, in a sentence
        #[arg(long)]
        summary: String,
        /// A file that was made or changed; may be given several times
        #[arg(long = "artifact", value_name = "PATH")]
        artifacts: Vec<String>,
    },
    /// Fail an atom in progress: it goes back to pending, and its OR group to the next choice
    Fail {
        id: String,
        #[arg(long)]
        reason: String,
        /// It is too much for one go, and should be cut into parts
        #[arg(long)]
        too_large: bool,
    },
    /// Cut an atom into smaller ones, which take over what it depends on
    Decompose {
        id: String,
        /// The description of a child; may be given several times
        #[arg(long = "child", value_name = "DESCRIPTION", required_unless_present = "from")]
        children: Vec<String>,
        /// A JSON list of children with ids, dependencies and checks; `-` for standard input
        #[arg(long, value_name = "FILE", conflicts_with = "children")]
        from: Option<String>,
        #[arg(long, default_value = "Cut into smaller atoms")]
        reason: String,
    },
    /// Remove a pending atom that no other needs
    Remove { id: String },
}

pub fn run(invocation: &Invocation, verb: AtomVerb) -> Result<(), Failure> {
    match verb {
        AtomVerb::Add { description, id, depends_on, or_group, check, run } => {
            let new = NewAtom {
                id: id.map(AtomId::new),
                description,
                depends_on: depends_on.iter().map(|id| AtomId::new(id.trim())).collect(),
                or_group: or_group.map(GroupName::new),
                check: check.map(|value| Checks::Single(Check::Command { value })),
                run,
                ..NewAtom::default()
            };
            invocation.operate(
                "add an atom",
                |ledger| reshape::add(ledger, new.clone()),
                |id, _| (format!("added {id}"), json!({"id": id})),
            )
        }
        AtomVerb::Brief { id } => session::brief(invocation, &AtomId::new(id)),
        AtomVerb::Start { id } => {
            let id = AtomId::new(id);
            if session::owns(invocation)? {
                return session::start(invocation, &id);
            }
            invocation.operate(
                "start an atom",
                |ledger| advance::start(ledger, &id, AttemptNumber::Uncounted),
                |(), _| (format!("{id} is in progress"), json!({"atom": id, "status": "in_progress"})),
            )
        }
        AtomVerb::Resolve { id, summary, artifacts } => {
            says_something("--summary", &summary)?;
            let (id, binding) = (AtomId::new(id), Binding { summary, artifacts, commit: None });
            if session::owns(invocation)? {
                return session::resolve(invocation, &id, binding);
            }
            resolve(invocation, &id, binding)
        }
        AtomVerb::Fail { id, reason, too_large } => {
            says_something("--reason", &reason)?;
            let id = AtomId::new(id);
            if session::owns(invocation)? {
                return session::fail(invocation, &id, reason, too_large);
            }
            invocation.operate(
                "fail an atom",
                |ledger| backtrack::fail(ledger, &id, &reason),
                |fallout, _| {
                    let mut object = json!({"atom": id, "status": "pending"});
                    let line = match fallout {
                        FailureOutcome::Retry => {
                            object["fallout"] = json!("retry");
                            format!("{id} failed and is pending again")
                        }
                        FailureOutcome::Switched { group, to } => {
                            object["fallout"] = json!("switched");
                            object["group"] = json!(group);
                            object["selected"] = json!(to);
                            format!("{id} failed; {group} goes on with {to}")
                        }
                        FailureOutcome::Exhausted { group } => {
                            object["fallout"] = json!("exhausted");
                            object["group"] = json!(group);
                            format!("{id} failed, and {group} has no other choice: the loop has stopped")
                        }
                    };
                    (line, object)
                },
            )
        }
        AtomVerb::Decompose { id, children, from, reason } => {
            says_something("--reason", &reason)?;
            let id = AtomId::new(id);
            let children = match from {
                Some(from) => read_children(&from)?,
                None => {
                    let new = |description| NewAtom { description, ..NewAtom::default() };
                    children.into_iter().map(new).collect()
                }
            };
            invocation.operate(
                "decompose an atom",
                |ledger| decompose::decompose(ledger, &id, children.clone(), &reason),
                |added, _| {
                    let listed = added.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
                    (format!("{id} is cut into {listed}"), json!({"parent": id, "children": added}))
                },
            )
        }
        AtomVerb::Remove { id } => {
            let id = AtomId::new(id);
            invocation.operate(
                "remove an atom",
                |ledger| reshape::remove(ledger, &id),
                |(), _| (format!("removed {id}"), json!({"removed": id})),
            )
        }
    }
}

/// Resolves an atom, and the parents above it whose checks pass now (D3, D22).
fn resolve(invocation: &Invocation, id: &AtomId, binding: Binding) -> Result<(), Failure> {
    invocation.by_person()?;
    let mut store = invocation.store()?;
    let (mut recorded, mut parent) = resolve_one(invocation, &mut store, id, &binding)?;
    let mut waits = None;
    while let Some(above) = parent.take() {
        match resolve_one(invocation, &mut store, &above, &binding) {
            Ok((further, next)) => {
                recorded.changes.extend(further.changes);
                recorded.notes.extend(further.notes);
                parent = next;
            }
            // What was asked for is done; the parent above it is another matter.
            Err(Failure::CheckFailed { verdict, .. }) => waits = Some((above, verdict)),
            Err(other) => return Err(other),
        }
    }
    let resolved = resolved(&recorded.changes);
    let mut line = format!("resolved {}", resolved.join(", and with it "));
    let mut object = json!({"atom": id, "status": "resolved", "resolved": resolved});
    if let Some((above, verdict)) = waits {
        line += &format!("\nnot yet {above}: its own check does not pass");
        object["waits"] = json!({"atom": above, "verdict": verdict});
    }
    invocation.told(&recorded, &line, object);
    Ok(())
}

fn resolve_one(
    invocation: &Invocation,
    store: &mut Store,
    id: &AtomId,
    binding: &Binding,
) -> Result<(Recorded<()>, Option<AtomId>), Failure> {
    let seen = see_check(invocation, store, id, binding)?;
    let mut parent = None;
    let recorded = store.change("resolve an atom", jiff::Timestamp::now(), |ledger| {
        // The check that passed must still be the one that the atom has.
        let check = ledger.state().atoms.get(id).and_then(|atom| atom.check.as_ref());
        let proof = if seen.is_some() && seen.as_ref() == check { Proof::Seen } else { Proof::None };
        advance::resolve(ledger, id, binding.clone(), proof)?;
        parent = advance::waits_for_check(ledger, id);
        Ok::<(), Refusal>(())
    })?;
    Ok((recorded, parent))
}

/// Runs the atom's own check, and answers with the check that passed; `None` if the atom has none (D22).
fn see_check(
    invocation: &Invocation,
    store: &mut Store,
    id: &AtomId,
    binding: &Binding,
) -> Result<Option<Checks>, Failure> {
    let now = jiff::Timestamp::now();
    let (_, state) = store.load()?;
    let Some(check) = state.atoms.get(id).and_then(|atom| atom.check.clone()) else { return Ok(None) };
    // What would be refused anyway is refused before anything is run.
    let mut trial = Ledger::open(state.clone(), now);
    advance::resolve(&mut trial, id, binding.clone(), Proof::Seen).map_err(Failure::Refused)?;
    let state = state.clone();
    let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
    let seen = workspace.evaluate(&state, &check, Whose::Atom(id), Occasion::Decide, &mut |_| ())?;
    if seen.verdict == Verdict::Passed {
        return Ok(Some(check));
    }
    if invocation.format == OutputFormat::Text {
        failure::complain(&verify::table(&seen, print::Stream::Err));
    }
    Err(Failure::CheckFailed { atom: id.clone(), verdict: seen.verdict, evidence: verify::object(&seen) })
}

fn resolved(changes: &[Change]) -> Vec<&str> {
    let mut resolved = Vec::new();
    for change in changes {
        if let Change::AtomResolved { atom, .. } = change {
            resolved.push(atom.as_str());
        }
    }
    resolved
}

fn read_children(from: &str) -> Result<Vec<NewAtom>, Failure> {
    let what = if from == "-" { "standard input".to_owned() } else { from.to_owned() };
    let unreadable = |problem: String| Failure::Input {
        what: what.clone(),
        problem,
        hint: r#"give a JSON list like [{"description": "…", "id": "A9", "depends_on": ["A1"]}]"#.into(),
    };
    let mut text = String::new();
    let read = if from == "-" {
        std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut text)
    } else {
        std::fs::File::open(from).and_then(|file| file.take(MAX_INPUT).read_to_string(&mut text))
    };
    let length = read.map_err(|error| unreadable(error.to_string()))?;
    if length as u64 == MAX_INPUT {
        return Err(unreadable(format!("it is longer than {} MiB", MAX_INPUT >> 20)));
    }
    serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
}
