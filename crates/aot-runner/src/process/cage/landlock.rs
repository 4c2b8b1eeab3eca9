//! The cage that the kernel keeps without any help: a thread gives up its rights, and what it starts has none either.

use std::fs;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::{Cage, CageError, Network};

/// What ordinary programs write although it is no file. Terminals that they open themselves are among `pts`.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Semaphores and shared memory of ordinary programs.
const SHARED_MEMORY: &str = "/dev/shm";

/// What a superuser in a cage keeps: files of others in its own folders. All that reaches around a file system, such as
/// mounting, raw devices and looking into other processes, is given up.
pub(super) const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// From here on this thread, and whatever it starts, writes only where the cage says. There is no way back.
pub fn restrict_this_thread(cage: &Cage, folder: &Path) -> Result<(), CageError> {
    let refused = |error: RulesetError| CageError::Refused(format!("landlock: {error}"));
    let status = restrict(cage, folder).map_err(refused)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
        RulesetStatus::NotEnforced => return Err(CageError::NoLandlock),
    }
    give_up_powers().map_err(|error| CageError::Refused(format!("cannot give up capabilities: {error}")))
}

/// The kernel's own version decides how much of this is enforced: an older one does not know all of it.
fn restrict(cage: &Cage, folder: &Path) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_write(ABI::V4))?;
    match cage.network {
        Network::On => {}
        Network::Off => rules = rules.handle_access(AccessNet::from_all(ABI::V4))?,
    }
    // The guard is outside, so that the job can neither end it nor us.
    let mut rules = rules.scope(Scope::from_all(ABI::V6))?.create()?;
    for path in &cage.writable {
        rules = allow(rules, path)?;
    }
    for device in DEVICES {
        rules = allow(rules, Path::new(device))?;
    }
    if !cage.lives_in(folder, SHARED_MEMORY) {
        rules = allow(rules, Path::new(SHARED_MEMORY))?;
    }
    rules.restrict_self()
}

/// A device that is not here needs no rule; that a path of the user is there was seen before.
fn allow(rules: landlock::RulesetCreated, path: &Path) -> Result<landlock::RulesetCreated, RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let is_folder = fs::metadata(path).is_ok_and(|meta| meta.is_dir());
    rules.add_rule(PathBeneath::new(place, if is_folder { below() } else { within() }))
}

/// Everything but making devices.
fn below() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V4) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
}

fn within() -> BitFlags<AccessFs> {
    make_bitflags!(AccessFs::{WriteFile | Truncate})
}

/// An exec does not give them back, because landlock came with "no new privileges".
fn give_up_powers() -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: effective & KEPT,
            permitted: permitted & KEPT,
            inheritable: inheritable & KEPT,
        },
    )
}
