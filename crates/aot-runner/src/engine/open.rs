//! Takes a loop up: gives it a name, opens the ground that it works on, and finds what a crash left. Decides nothing.

use aot_core::coordinator::{Event, RedirectLock, Trees, UnrecordedLanding};
use aot_core::rules::gate::{Aligned, gate};
use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomId, AtomStatus, Binding, IsolationMode, LoopStatus, State};
use jiff::Timestamp;

use super::RunError;
use crate::checks::seal::{self, Altered, Seal};
use crate::crew::RunConfig;
use crate::loops;
use crate::store::{Note, Store, StoreError, hold};
use crate::tree::{Ground, GroundError, IsolationRequest, OpenedFor, TreeKind};

/// Who takes a loop up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'o> {
    /// A run, which lands on the branch that is checked out or on this one.
    Driver { branch: Option<&'o str> },
    /// The host's session with this id.
    Session(&'o str),
}

/// Writes who owns the loop, and gives it a name before its first commit. Returns what is to be told of edits.
pub(crate) fn claim(store: &mut Store, owner: Owner<'_>) -> Result<Vec<Note>, RunError> {
    let recorded = store.change("take the loop up", Timestamp::now(), |ledger| {
        let control = ledger.state().control.clone();
        match owner {
            Owner::Driver { branch: Some(branch) } if control.branch.as_deref() != Some(branch) => {
                ledger.record(Change::BranchChosen { branch: branch.to_owned() });
            }
            Owner::Session(session) if control.session.as_deref() != Some(session) => {
                ledger.record(Change::SessionTaken { session: Some(session.to_owned()) });
            }
            Owner::Driver { .. } | Owner::Session(_) => {}
        }
        if control.loop_id.is_none() {
            ledger.record(Change::LoopNamed { id: new_id() });
        }
        Ok::<(), Refusal>(())
    });
    let recorded = recorded.map_err(|error: StoreError<Refusal>| RunError::Store(error))?;
    loops::remember(store.file().home().state());
    Ok(recorded.notes)
}

/// What the first event of a process that takes a loop up needs.
pub(crate) struct Opening {
    pub aligned: Aligned,
    pub ground: Ground,
    pub begun: Event,
    /// What is not as it was agreed on.
    pub altered: Vec<Altered>,
    /// What a person should know, after the bound was shown.
    pub notes: Vec<String>,
}

impl Opening {
    pub fn of(store: &mut Store, config: &RunConfig, entry: OpenedFor) -> Result<Opening, RunError> {
        let aligned = gate(store.load::<Refusal>()?.1.clone())?;
        let state = aligned.state();
        let ground = ground(config, state, entry)?;
        check_writes(state, ground.submodules())?;
        let unrecorded = unrecorded(&ground, state)?;
        let seal = Seal::of(&state.objective, &ground.verify_root()?)
            .map_err(|error| RunError::World(format!("the protected files cannot be read: {error}")))?;
        let mut notes = ground.take_notes();
        if state.control.fingerprint.is_none() {
            if state.control.status != LoopStatus::Pending {
                notes.push("the base case had no fingerprint; it is taken as it is now".to_owned());
            }
            if let Err(error) = seal.keep(&config.project) {
                notes.push(format!("the list of protected files could not be kept: {error}"));
            }
        }
        let redirect = match hold::holder(store.file().home()) {
            Some(_) => RedirectLock::Held,
            None => RedirectLock::Free,
        };
        let agreed = state.control.fingerprint.as_ref();
        let altered = agreed.map(|agreed| seal.altered(agreed, &config.project)).unwrap_or_default();
        let begun = Event::Begun {
            unrecorded,
            fingerprint: Some(seal.fingerprint()),
            altered: (!altered.is_empty()).then(|| seal::describe(&altered)),
            redirect,
        };
        Ok(Opening { aligned, ground, begun, altered, notes })
    }
}

/// The ground that the state asks for.
pub(crate) fn ground(config: &RunConfig, state: &State, entry: OpenedFor) -> Result<Ground, RunError> {
    let isolation = state.objective.isolation.as_ref();
    let is_shared = match isolation.and_then(|isolation| isolation.mode) {
        Some(IsolationMode::InPlace | IsolationMode::None) => true,
        Some(IsolationMode::Worktree) | None => false,
    };
    // A host's session has workers of its own, and the host confines them.
    if entry == OpenedFor::Run && is_shared && !config.cage.spares_git_in(&config.project.root) {
        return Err(GroundError::OpenRepository { root: config.project.root.clone() }.into());
    }
    let wanted = IsolationRequest::of(state, config.confinement.clone());
    let wanted = IsolationRequest { writable: config.cage.writable.clone(), ..wanted };
    Ok(Ground::enter(&config.project, wanted, &config.guard, entry)?)
}

/// Refuses an atom that could change nothing but submodules, before anybody works on it.
fn check_writes(state: &State, submodules: &[String]) -> Result<(), GroundError> {
    let within = |glob: &str, submodule: &str| {
        glob.strip_prefix(submodule).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let open = state.atoms.values().filter(|atom| atom.status != AtomStatus::Resolved);
    for atom in open.filter(|atom| !atom.writes.is_empty()) {
        let found = submodules.iter().find(|path| atom.writes.iter().all(|glob| within(glob, path)));
        if let Some(path) = found {
            return Err(GroundError::OnlyInSubmodule { atom: atom.id.clone(), path: path.clone() });
        }
    }
    Ok(())
}

/// What the coordinator needs to know of the ground.
pub(crate) fn trees(ground: &Ground) -> Trees {
    match ground.trees() {
        TreeKind::Worktrees | TreeKind::Unisolated => Trees::Separate,
        TreeKind::InPlace => Trees::Shared,
    }
}

/// Commits of this loop for atoms in progress: they landed, and a crash lost the record (D23).
fn unrecorded(ground: &Ground, state: &State) -> Result<Vec<UnrecordedLanding>, RunError> {
    let running = state.atoms.values().filter(|atom| atom.status == AtomStatus::InProgress);
    let running: Vec<(AtomId, u32)> =
        running.filter_map(|atom| Some((atom.id.clone(), *state.control.attempts.get(&atom.id)?))).collect();
    if running.is_empty() {
        return Ok(Vec::new());
    }
    let found = ground.found(&running)?.into_iter().map(|found| UnrecordedLanding {
        atom: found.atom,
        attempt: found.attempt,
        binding: Binding {
            summary: found.summary,
            artifacts: found.paths,
            commit: Some(found.commit),
            unchanged: false,
        },
    });
    Ok(found.collect())
}

/// The letters of an id, and how many it has.
const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH: u32 = 26;

/// A unique id that sorts by time: the milliseconds, then a hash of what no other process has at that moment.
pub fn new_id() -> String {
    let now = Timestamp::now();
    let unique = format!("{} {} {:?}", now.as_nanosecond(), std::process::id(), std::thread::current().id());
    let random = blake3::hash(unique.as_bytes());
    let mut value = u128::from(u64::try_from(now.as_millisecond()).unwrap_or(0)) << 80;
    value |= random.as_bytes().iter().take(10).fold(0, |value, byte| value << 8 | u128::from(*byte));
    let letters = (0..LENGTH).rev().map(|place| char::from(LETTERS[(value >> (place * 5) & 31) as usize]));
    letters.collect()
}

/// The day before an id was made, because clocks differ; nothing for an id that somebody made up.
pub(crate) fn made_at(id: &str) -> Option<Timestamp> {
    let value = |letter: u8| LETTERS.iter().position(|known| *known == letter);
    let values: Option<Vec<usize>> = id.bytes().map(value).collect();
    let values = values.filter(|values| values.len() == LENGTH as usize)?;
    let whole = values
        .into_iter()
        .try_fold(0_u128, |whole, value| whole.checked_mul(32)?.checked_add(value as u128))?;
    let made = Timestamp::from_millisecond(i64::try_from(whole >> 80).ok()?).ok()?;
    made.checked_sub(jiff::SignedDuration::from_hours(24)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_when_it_was_made() {
        let day = jiff::SignedDuration::from_hours(24);
        let made = made_at(&new_id()).expect("it is an id") + day;
        assert!(Timestamp::now().duration_since(made).as_secs() < 60, "{made}");
        for made_up in ["", "01k", "the-loop", "zzzzzzzzzzzzzzzzzzzzzzzzzz"] {
            assert_eq!(made_at(made_up), None, "{made_up}");
        }
    }
}
