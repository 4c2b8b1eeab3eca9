//! The cage that the kernel keeps without any help: a thread gives up its rights, and what it starts has none either.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::seccomp::{Processes, Sockets, filter_this_thread};
use super::{Cage, CageError, MOST_BESIDE, Network, mounts};
use crate::process::way_out::InnerNetwork;

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

/// From here on this thread, and whatever it starts, writes and reads only where the cage says. There is no way back.
pub fn restrict_this_thread(cage: &Cage, folder: &Path) -> Result<(), CageError> {
    if mounts::can_mount() {
        let closed = mounts::close_outside(cage, folder);
        closed.map_err(|error| CageError::Refused(format!("mounts of its own: {error}")))?;
    }
    let (readable, writable) = (readable(cage)?, writable(cage)?);
    let status = restrict(cage, folder, &readable, &writable).map_err(refused)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {}
        RulesetStatus::NotEnforced => return Err(CageError::NoLandlock),
    }
    give_up_powers().map_err(|error| CageError::Refused(format!("cannot give up capabilities: {error}")))?;
    let sockets = match cage.network {
        Network::On => Sockets::All,
        Network::Off | Network::Hosts(_) => Sockets::OfThisMachine,
    };
    filter_this_thread(Processes::All, sockets)
}

/// The same within a cage of namespaces, which leaves two ways: abstract Unix sockets belong to a network that may be
/// shared, and keyrings to the user. Kernels before 6.12 do not know how to close the first.
///
/// A network of its own divides the internet's protocols, and no others: a virtual machine could still ask its host.
pub fn complete_namespaces(network: &InnerNetwork) -> Result<(), CageError> {
    scope().map_err(refused)?;
    let sockets = match network {
        InnerNetwork::Shared => Sockets::All,
        InnerNetwork::Empty | InnerNetwork::Proxied(_) => Sockets::OfOwnNetwork,
    };
    filter_this_thread(Processes::Own, sockets)
}

/// A cage of landlock within this one could not move files between folders unless this one says that it may; and if it
/// does, no cage of namespaces can be built within. The superuser, whose powers are given up, can build none anyway.
fn scope() -> Result<RestrictionStatus, RulesetError> {
    let rules = Ruleset::default().scope(Scope::from_all(ABI::V6))?;
    if rustix::process::geteuid().is_root() {
        let rules = rules.handle_access(AccessFs::Refer)?.create()?;
        allow(rules, Path::new("/"), AccessFs::Refer.into())?.restrict_self()
    } else {
        rules.create()?.restrict_self()
    }
}

fn refused(error: RulesetError) -> CageError {
    CageError::Refused(format!("landlock: {error}"))
}

/// The kernel's own version decides how much of this is enforced: an older one does not know all of it.
fn restrict(
    cage: &Cage,
    folder: &Path,
    readable: &[PathBuf],
    writable: &[PathBuf],
) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_write(ABI::V4) | AccessFs::ReadFile)?;
    match cage.network {
        Network::On => {}
        Network::Off | Network::Hosts(_) => rules = rules.handle_access(AccessNet::from_all(ABI::V4))?,
    }
    // The guard is outside, so that the job can neither end it nor us.
    let mut rules = rules.scope(Scope::from_all(ABI::V6))?.create()?;
    for path in readable {
        rules = allow(rules, path, AccessFs::ReadFile.into())?;
    }
    for path in writable {
        rules = allow(rules, path, changed() | AccessFs::ReadFile)?;
    }
    let shared = (!cage.lives_in(folder, SHARED_MEMORY)).then_some(SHARED_MEMORY);
    for device in DEVICES.into_iter().chain(shared) {
        rules = allow(rules, Path::new(device), changed() | AccessFs::ReadFile)?;
    }
    rules.restrict_self()
}

/// What is not here needs no rule; that a path of the user is there was seen before.
fn allow(
    rules: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, RulesetError> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let is_folder = fs::metadata(path).is_ok_and(|meta| meta.is_dir());
    let of_a_file = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
    rules.add_rule(PathBeneath::new(place, if is_folder { access } else { access & of_a_file }))
}

/// Everything but making devices.
fn changed() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V4) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock})
}

/// Landlock can open and not close. So that some places stay closed, everything beside them is opened, from the root
/// down. What comes to lie directly in a folder on the way after this cannot be read.
fn readable(cage: &Cage) -> Result<Vec<PathBuf>, CageError> {
    let is_root = rustix::process::geteuid().is_root();
    // The superuser could read whole disks there; the devices that a job needs are opened by name.
    let devices = is_root.then(|| PathBuf::from("/dev"));
    let closed: Vec<&PathBuf> = cage.hidden.iter().chain(&devices).collect();
    let mut open = Vec::new();
    beside(Path::new("/"), &closed, &mut open)?;
    Ok(open)
}

/// A folder that holds something hidden is opened in parts as well: whoever could move the hidden file within it would
/// leave it where the next job reads it. Nothing can be made directly in the folders on the way.
fn writable(cage: &Cage) -> Result<Vec<PathBuf>, CageError> {
    let closed: Vec<&PathBuf> = cage.hidden.iter().collect();
    let mut open = Vec::new();
    for path in &cage.writable {
        beside(path, &closed, &mut open)?;
    }
    Ok(open)
}

fn beside(folder: &Path, closed: &[&PathBuf], open: &mut Vec<PathBuf>) -> Result<(), CageError> {
    let within: Vec<&PathBuf> = closed.iter().copied().filter(|path| path.starts_with(folder)).collect();
    if within.is_empty() {
        open.push(folder.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if open.len() >= MOST_BESIDE {
            return Err(CageError::TooManyBeside);
        }
        match entry.file_type() {
            // What a link leads to is opened where it lies.
            Ok(kind) if kind.is_symlink() => {}
            _ if within.iter().any(|closed| **closed == path) => {}
            _ => beside(&path, &within, open)?,
        }
    }
    Ok(())
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
