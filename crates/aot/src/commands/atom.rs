//! `aot atom …`: the deterministic operations on atoms.

use std::convert::Infallible;

use aot_core::rules::advance::{self, AttemptNumber, Proof};
use aot_core::rules::backtrack::{self, FailureOutcome};
use aot_core::rules::{Change, Ledger, Refusal, decompose, reshape};
use aot_core::state::{AtomId, Binding, Check, Checks, GroupName, NewAtom};
use aot_core::verdict::{Jobs, Verdict};
use aot_runner::checks::{Occasion, Whose};
use aot_runner::store::{Recorded, Store};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::verify::OutputShown;
use super::workspace::Workspace;
use super::{Invocation, Verb, arguments, recorded_answer, says_something, session, verify};
use crate::failure::{self, Failure};
use crate::print::{Answer, OutputFormat};
use crate::terminal::Stream;

#[derive(Debug, Subcommand)]
pub enum AtomCommand {
    Add(AtomAddArgs),
    Start(AtomStartArgs),
    Brief(AtomBriefArgs),
    Resolve(AtomResolveArgs),
    Fail(AtomFailArgs),
    Decompose(AtomDecomposeArgs),
    Withdraw(AtomWithdrawArgs),
    Remove(AtomRemoveArgs),
}

impl AtomCommand {
    pub fn verb(&self) -> &dyn Verb {
        match self {
            AtomCommand::Add(verb) => verb,
            AtomCommand::Start(verb) => verb,
            AtomCommand::Brief(verb) => verb,
            AtomCommand::Resolve(verb) => verb,
            AtomCommand::Fail(verb) => verb,
            AtomCommand::Decompose(verb) => verb,
            AtomCommand::Withdraw(verb) => verb,
            AtomCommand::Remove(verb) => verb,
        }
    }
}

/// Add an atom
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomAddArgs {
    /// What is to be done
    description: String,
    /// Its id (default: the next in sequence)
    #[arg(long)]
    id: Option<String>,
    /// What must be resolved before it
    #[arg(long, value_delimiter = ',', value_name = "A1,A2")]
    #[serde(default)]
    depends_on: Vec<String>,
    /// Make it the last choice of this OR group
    #[arg(long, value_name = "GROUP")]
    or_group: Option<String>,
    /// The command that must succeed before it counts as resolved
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Why it needs no check
    #[arg(long, value_name = "REASON", conflicts_with = "check")]
    no_check: Option<String>,
    /// The command that solves it, without any agent
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// Let a probe look into it before the first attempt
    #[arg(long)]
    #[serde(default)]
    probe: bool,
}

impl Verb for AtomAddArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let new = NewAtom {
            id: self.id.as_ref().map(AtomId::new),
            description: self.description.clone(),
            depends_on: self.depends_on.iter().map(|id| AtomId::new(id.trim())).collect(),
            or_group: self.or_group.as_ref().map(GroupName::new),
            check: self.check.clone().map(|value| Checks::Single(Check::Command { value })),
            no_check: self.no_check.clone(),
            run: self.run.clone(),
            probe: self.probe.then_some(true),
            ..NewAtom::default()
        };
        invocation.operate(
            "add an atom",
            |ledger| reshape::add(ledger, new.clone()),
            |id, _| (format!("added {id}"), json!({"id": id})),
        )
    }
}

/// Start an atom that is ready; in a host's session: with a tree to work in, and the worker's brief
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomStartArgs {
    /// The atom's id, like A1
    #[arg(value_name = "ID")]
    atom: String,
}

impl Verb for AtomStartArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let id = AtomId::new(&self.atom);
        if session::owns(invocation)? {
            return session::start(invocation, &id);
        }
        invocation.operate(
            "start an atom",
            |ledger| advance::start(ledger, &id, AttemptNumber::Uncounted),
            |(), _| (format!("{id} is in progress"), json!({"atom": id, "status": "in_progress"})),
        )
    }
}

/// Print what the worker of an atom in progress is told, and where it works
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomBriefArgs {
    /// The atom's id, like A1
    #[arg(value_name = "ID")]
    atom: String,
}

impl Verb for AtomBriefArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        session::brief(invocation, &AtomId::new(&self.atom))
    }
}

/// Resolve an atom in progress: its result shrinks to a summary
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomResolveArgs {
    /// The atom's id, like A1
    #[arg(value_name = "ID")]
    atom: String,
    /// What it came to, in a sentence
    #[arg(long)]
    summary: String,
    /// A file that was made or changed; may be given several times
    #[arg(long = "artifact", value_name = "PATH")]
    #[serde(default)]
    artifacts: Vec<String>,
}

impl Verb for AtomResolveArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        says_something("--summary", &self.summary)?;
        let id = AtomId::new(&self.atom);
        let binding = Binding {
            summary: self.summary.clone(),
            artifacts: self.artifacts.clone(),
            ..Binding::default()
        };
        if session::owns(invocation)? {
            return session::resolve(invocation, &id, binding);
        }
        resolve(invocation, &id, binding)
    }
}

/// Fail an atom in progress: it goes back to pending, and its OR group to the next choice
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomFailArgs {
    /// The atom's id, like A1
    #[arg(value_name = "ID")]
    atom: String,
    /// Why, for whoever tries next
    #[arg(long)]
    reason: String,
    /// It is too large for one attempt and should be decomposed
    #[arg(long)]
    #[serde(default)]
    too_large: bool,
}

impl Verb for AtomFailArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        says_something("--reason", &self.reason)?;
        let id = AtomId::new(&self.atom);
        if session::owns(invocation)? {
            return session::fail(invocation, &id, self.reason.clone(), self.too_large);
        }
        invocation.operate(
            "fail an atom",
            |ledger| backtrack::fail(ledger, &id, &self.reason),
            |outcome, _| {
                let mut object = json!({"atom": id, "status": "pending"});
                let text = match outcome {
                    FailureOutcome::Retry => {
                        object["fallout"] = json!("retry");
                        format!("{id} failed and is pending again")
                    }
                    FailureOutcome::Switched { group, to } => {
                        object["fallout"] = json!("switched");
                        object["group"] = json!(group);
                        object["selected"] = json!(to);
                        format!("{id} failed; {group} switches to {to}")
                    }
                    FailureOutcome::Exhausted { group } => {
                        object["fallout"] = json!("exhausted");
                        object["group"] = json!(group);
                        format!("{id} failed, and {group} has no other choice: the loop has stopped")
                    }
                };
                (text, object)
            },
        )
    }
}

/// Decompose an atom into smaller ones, which take over what it depends on
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomDecomposeArgs {
    /// The atom's id, like A1
    #[arg(value_name = "ID")]
    atom: String,
    /// The description of a child; may be given several times
    #[arg(long = "child", value_name = "DESCRIPTION", required_unless_present = "from", value_parser = described)]
    #[serde(deserialize_with = "arguments::atoms")]
    #[schemars(with = "Vec<arguments::AtomObject>")]
    children: Vec<NewAtom>,
    /// A JSON list of children with ids, dependencies and checks; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "children")]
    #[serde(skip)]
    from: Option<String>,
    /// Why it is decomposed
    #[arg(long, default_value = DECOMPOSED)]
    #[serde(default = "decomposed")]
    reason: String,
}

/// The reason of a decomposition, unless the user says otherwise.
const DECOMPOSED: &str = "Decomposed into smaller atoms";

fn decomposed() -> String {
    DECOMPOSED.into()
}

fn described(description: &str) -> Result<NewAtom, Infallible> {
    Ok(NewAtom { description: description.to_owned(), ..NewAtom::default() })
}

impl Verb for AtomDecomposeArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        says_something("--reason", &self.reason)?;
        let id = AtomId::new(&self.atom);
        let children = match &self.from {
            Some(from) => read_children(from)?,
            None => self.children.clone(),
        };
        invocation.operate(
            "decompose an atom",
            |ledger| decompose::decompose(ledger, &id, children.clone(), &self.reason),
            |added, _| {
                let listed = added.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
                (format!("{id} is decomposed into {listed}"), json!({"parent": id, "children": added}))
            },
        )
    }
}

/// Withdraw a decomposition: its children go, and the atom is solved whole again; possible while none of them is resolved
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomWithdrawArgs {
    /// The atom that was decomposed, like A1
    #[arg(value_name = "ID")]
    atom: String,
}

impl Verb for AtomWithdrawArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let id = AtomId::new(&self.atom);
        invocation.operate(
            "withdraw a decomposition",
            |ledger| decompose::withdraw(ledger, &id),
            |gone, _| {
                let listed = gone.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
                (format!("{id} is whole again; removed {listed}"), json!({"parent": id, "removed": gone}))
            },
        )
    }
}

/// Remove a pending atom that no other needs
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct AtomRemoveArgs {
    /// The atom's id, like A1
    #[arg(value_name = "ID")]
    atom: String,
}

impl Verb for AtomRemoveArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        let id = AtomId::new(&self.atom);
        invocation.operate(
            "remove an atom",
            |ledger| reshape::remove(ledger, &id),
            |(), _| (format!("removed {id}"), json!({"removed": id})),
        )
    }
}

/// Resolves an atom, and the parents above it whose checks pass now (D3, D22).
fn resolve(invocation: &Invocation, id: &AtomId, binding: Binding) -> Result<Answer, Failure> {
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
            // The atom itself is resolved; its parent stays open until its own check passes.
            Err(failure) => match failure.error::<CheckFailed>() {
                Some(failed) => waits = Some((above, failed.verdict)),
                None => return Err(failure),
            },
        }
    }
    let resolved = resolved(&recorded.changes);
    let mut line = format!("resolved {}", resolved.join(", and with it "));
    let mut object = json!({"atom": id, "status": "resolved", "resolved": resolved});
    if let Some((above, verdict)) = waits {
        line += &format!("\nnot yet {above}: its own check does not pass");
        object["waits"] = json!({"atom": above, "verdict": verdict});
    }
    Ok(recorded_answer(&recorded, line, object))
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
    // A change that the rules refuse anyway is refused before the check is run.
    let mut trial = Ledger::open(state.clone(), now);
    advance::resolve(&mut trial, id, binding.clone(), Proof::Seen)?;
    let state = state.clone();
    let workspace = Workspace::open(&invocation.path()?, Jobs::default())?;
    let seen =
        workspace.checkout().evaluate(&state, &check, Whose::Atom(id), Occasion::Decide, &mut |_| ())?;
    if seen.verdict == Verdict::Passed {
        return Ok(Some(check));
    }
    if invocation.format == OutputFormat::Text {
        failure::complain(&verify::table(&seen, OutputShown::Ending, Stream::Err));
    }
    let failed = CheckFailed { atom: id.clone(), verdict: seen.verdict };
    Err(Failure::refused("check_failed", failed)
        .with_hint(format!(
            "make the check pass and try again, or give up with `aot atom fail {id} --reason \"WHY\"`"
        ))
        .with_detail("evidence", verify::object(&seen)))
}

/// The check of an atom did not pass.
#[derive(Debug, thiserror::Error)]
#[error("the check of atom `{atom}` {}, so the atom is not resolved", ended(*verdict))]
struct CheckFailed {
    atom: AtomId,
    verdict: Verdict,
}

fn ended(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Error => "could not be run",
        Verdict::Pending => "waits for a judge or a person",
    }
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
    let hint = r#"give a JSON list like [{"description": "TEXT", "id": "A9", "depends_on": ["A1"]}]"#;
    let (name, bytes) = arguments::read_file(from, hint)?;
    serde_json::from_slice(&bytes).map_err(|error| Failure::input(name.display(), error, hint))
}
