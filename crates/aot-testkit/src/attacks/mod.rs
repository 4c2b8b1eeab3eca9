//! Attacks: what a hostile worker, check, setup script, agent or clone tries against the built program, as a table, in
//! each cage and as each user. What counts is what really happened to files, processes, sockets and secrets of a
//! temporary home, never what the program says alone.

mod judge;
mod scene;
mod table;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::random::Random;
pub use table::{Attack, attacks};

/// How many attacks share a loop, each as an atom of its own.
const TOGETHER: usize = 8;

/// Where an attack comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// An atom's command, in a worktree of its own.
    Work,
    /// The same with the network off.
    WorkOffline,
    /// The same with a network that is a list of hosts.
    WorkListed,
    /// The same, seen on a terminal instead of as JSON.
    Shown,
    /// The same in the project's own folder, in a repository and outside of one.
    InPlace,
    OutsideGit,
    /// The same without isolation, in a repository.
    Unisolated,
    /// An atom's check runs a script that the atom wrote.
    Check,
    /// The base case runs a script that was landed before.
    BaseCase,
    /// `isolation.setup` runs a script that was landed before.
    Setup,
    /// The program of an agent: it is started as Claude Code is.
    Agent,
    /// A cloned repository in which somebody types verbs that only look.
    Look,
    /// The same with verbs that write, after the person trusted what it asks for.
    Use,
    /// The same by a person who did not trust it.
    Distrusted,
}

impl Door {
    pub fn name(self) -> &'static str {
        match self {
            Door::Work => "worker",
            Door::WorkOffline => "worker, network off",
            Door::WorkListed => "worker, list of hosts",
            Door::Shown => "worker, on a terminal",
            Door::InPlace => "worker in place",
            Door::OutsideGit => "worker outside of git",
            Door::Unisolated => "worker, no isolation",
            Door::Check => "atom's check",
            Door::BaseCase => "base case",
            Door::Setup => "setup",
            Door::Agent => "agent",
            Door::Look => "clone, looking",
            Door::Use => "clone, trusted",
            Door::Distrusted => "clone, not trusted",
        }
    }

    /// What is attacked through this door is a loop of its own: several attacks would be in each other's way.
    fn is_alone(self) -> bool {
        match self {
            Door::InPlace
            | Door::OutsideGit
            | Door::Unisolated
            | Door::Look
            | Door::Use
            | Door::Distrusted => true,
            Door::Work
            | Door::WorkOffline
            | Door::WorkListed
            | Door::Shown
            | Door::Check
            | Door::BaseCase
            | Door::Setup
            | Door::Agent => false,
        }
    }
}

/// What has to become of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It has no effect outside of the worker's own tree.
    Prevented,
    /// It has none either, and the program says so in words that hold this.
    Detected(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cage {
    Bwrap,
    Landlock,
    /// To see that an attack is one.
    None,
}

impl Cage {
    pub fn name(self) -> &'static str {
        match self {
            Cage::Bwrap => "bwrap",
            Cage::Landlock => "landlock",
            Cage::None => "none",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// Whoever runs the campaign.
    Ourselves,
    /// Somebody without rights, if the campaign is run by root.
    Nobody,
}

/// Every cage that is here, as everybody whom we can be; and none.
pub fn places() -> Vec<(Cage, User)> {
    let users: &[User] = match rustix::process::geteuid().is_root() {
        true => &[User::Ourselves, User::Nobody],
        false => &[User::Ourselves],
    };
    let cages = [Cage::Bwrap, Cage::Landlock].into_iter().filter(|cage| scene::is_here(*cage));
    let caged = cages.flat_map(|cage| users.iter().map(move |user| (cage, *user)));
    caged.chain([(Cage::None, User::Ourselves)]).collect()
}

/// One attack under one cage as one user.
#[derive(Clone, Debug)]
pub struct Trial {
    pub attack: usize,
    pub cage: Cage,
    pub user: User,
    /// What it achieved, or what was not said; empty if it came to what is wanted.
    pub found: Vec<String>,
}

/// Which attacks are tried where.
#[derive(Clone, Debug)]
pub struct AttackCampaign {
    pub aot: PathBuf,
    pub extent: Extent,
    /// Only attacks whose description holds this.
    pub filter: String,
    pub threads: usize,
}

#[derive(Clone, Debug)]
pub enum Extent {
    /// Every attack in each of these places.
    Whole(Vec<(Cage, User)>),
    /// Each attack that ends by itself in one place, in turn; what has not begun after this time is left out. A seed decides
    /// the order.
    Sample { places: Vec<(Cage, User)>, time: Duration, seed: u64 },
}

#[derive(Debug, Default)]
pub struct AttackReport {
    pub results: Vec<Trial>,
    pub took: Duration,
}

/// One loop, and the attacks that share it.
#[derive(Clone, Debug)]
struct Batch {
    cage: Cage,
    user: User,
    door: Door,
    attacks: Vec<usize>,
}

impl AttackCampaign {
    pub fn run(&self) -> AttackReport {
        let began = Instant::now();
        // An ordinary user may be unable to enter the folder in which the program was built.
        let public = tempfile::Builder::new().prefix("aot-bin-").tempdir().expect("a folder");
        let aot = publish(&self.aot, public.path());
        let batches = self.batches();
        let time = match &self.extent {
            Extent::Whole(_) => Duration::MAX,
            Extent::Sample { time, .. } => *time,
        };
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    while began.elapsed() < time
                        && let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let found = scene::play(&aot, batch);
                        for failed in found.iter().filter(|trial| !trial.found.is_empty()) {
                            // At once: a whole campaign takes minutes.
                            eprintln!("FAILED {:?}: {}", failed, attacks()[failed.attack].what);
                        }
                        results.lock().expect("no scene panics").extend(found);
                    }
                });
            }
        });
        let mut results = results.into_inner().expect("no scene panics");
        results.sort_by_key(|result| (result.attack, result.cage, result.user));
        AttackReport { results, took: began.elapsed() }
    }

    fn batches(&self) -> Vec<Batch> {
        match &self.extent {
            Extent::Whole(places) => places.iter().flat_map(|place| self.batches_in(*place)).collect(),
            Extent::Sample { places, seed, .. } => {
                let mut random = Random::new(*seed);
                let everywhere: Vec<Vec<Batch>> =
                    places.iter().map(|place| self.batches_in(*place)).collect();
                let longest = everywhere.iter().map(Vec::len).max().unwrap_or_default();
                // The n-th batch of the n-th place: batches are alike everywhere, save for what a place does not cover.
                let turn = |n: usize| everywhere[n % everywhere.len()].get(n).cloned();
                let mut chosen: Vec<Batch> = (0..longest).filter_map(turn).collect();
                for last in (1..chosen.len()).rev() {
                    chosen.swap(last, random.below(last + 1));
                }
                chosen
            }
        }
    }

    fn batches_in(&self, (cage, user): (Cage, User)) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for (number, attack) in attacks().iter().enumerate() {
            let left_out = attack.endless && matches!(self.extent, Extent::Sample { .. });
            if !attack.what.contains(&self.filter) || !attack.is_for(cage) || left_out {
                continue;
            }
            let alone = attack.alone || attack.door.is_alone();
            let fits = |batch: &&mut Batch| {
                batch.door == attack.door
                    && batch.attacks.len() < TOGETHER
                    && batch.attacks.iter().all(|other| !attacks()[*other].alone)
            };
            match batches.iter_mut().find(fits).filter(|_| !alone) {
                Some(batch) => batch.attacks.push(number),
                None => batches.push(Batch { cage, user, door: attack.door, attacks: vec![number] }),
            }
        }
        batches
    }
}

fn publish(aot: &Path, place: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let public = place.join("aot");
    std::fs::copy(aot, &public).expect("the program is copied");
    for path in [place, public.as_path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    public
}

impl AttackReport {
    pub fn failed(&self) -> Vec<&Trial> {
        self.results.iter().filter(|result| !result.found.is_empty()).collect()
    }
}

impl fmt::Display for AttackReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for result in &self.results {
            let attack = &attacks()[result.attack];
            let user = if result.user == User::Nobody { "ordinary user" } else { "ourselves" };
            let wanted = match attack.wanted {
                _ if result.cage == Cage::None => "is one",
                Wanted::Prevented => "prevented",
                Wanted::Detected(_) => "detected",
            };
            let came = if result.found.is_empty() {
                wanted.to_owned()
            } else {
                format!("FAILED: {}", result.found.join("; "))
            };
            writeln!(
                f,
                "{:>3} {:<22} {:<9} {user:<14} {:<64} {came}",
                result.attack,
                attack.door.name(),
                result.cage.name(),
                attack.what
            )?;
        }
        let distinct: std::collections::BTreeSet<usize> =
            self.results.iter().map(|result| result.attack).collect();
        write!(
            f,
            "{} attacks, {} trials, {} failed, {:.0} s",
            distinct.len(),
            self.results.len(),
            self.failed().len(),
            self.took.as_secs_f64()
        )
    }
}
