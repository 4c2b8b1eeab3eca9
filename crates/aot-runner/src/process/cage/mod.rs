//! A cage for one job: everything but what is hidden can be read, only what was named can be written. Knows how to ask the system for it,
//! and how to find out what holds here; not who is caged or why.
//!
//! There is a ladder. `bwrap` gives the job a view of the file system in which all else is read-only, and a world of
//! processes of its own. Where it does not start, `landlock` lets the kernel refuse every write elsewhere. Where neither
//! holds there is no cage, and that is said.

#[cfg(target_os = "linux")]
pub(super) mod bwrap;
#[cfg(target_os = "linux")]
mod doors;
#[cfg(target_os = "linux")]
pub(super) mod landlock;
#[cfg(target_os = "linux")]
pub(super) mod mounts;
mod prove;
#[cfg(target_os = "linux")]
mod seccomp;
pub mod trial;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Guard;
use super::hosts::Hosts;
pub use prove::{Expected, Holds, Trial, leaves_nobody, prove};

/// So many bytes of paths can be named at most.
const LONGEST: u64 = 1 << 20;

/// Under landlock each file beside a hidden one is named by itself; so many of them at most.
const MOST_BESIDE: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Bwrap,
    Landlock,
    None,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    On,
    Off,
    /// Only these, through a proxy. Only `bwrap` can keep this: landlock's rules know ports, not hosts.
    Hosts(Hosts),
}

/// What a job may write and may not read, and whether it has a network. Everything else is there to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cage {
    pub kind: Kind,
    pub writable: Vec<PathBuf>,
    /// What lies in something writable and is not to be written all the same. Only `bwrap` can keep this.
    pub read_only: Vec<PathBuf>,
    /// What cannot be read, unless it or something in it is writable. See [`crate::keys`].
    pub hidden: Vec<PathBuf>,
    /// Folders that look empty. Only a cage with a view of its own can keep this.
    pub covered: Vec<PathBuf>,
    pub network: Network,
}

/// Which cage somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best that holds here.
    #[default]
    Auto,
    Only(Kind),
}

/// What was found by trying.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Ladder {
    /// The best cage that holds here, of those that were wanted.
    pub kind: Kind,
    /// The better ones, and why they do not hold here.
    pub refused: Vec<(Kind, String)>,
    pub wanted: Choice,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CageError {
    #[error("the cage was to let the job write in {}, which is not there: make it first", .0.display())]
    Missing(PathBuf),
    #[error("the cage was to let the job write in {}: {problem}", path.display())]
    Unusable { path: PathBuf, problem: String },
    #[error("the cage was to let the job write in /, which is everywhere: name the folders that it needs")]
    Everywhere,
    #[error("the cage has no more room for paths: {} bytes were named, {LONGEST} are allowed", .0)]
    TooMany(u64),
    #[error("no `bwrap` in {}", bwrap_places())]
    NoBwrap,
    #[error("a list of hosts is kept by the bwrap cage only: landlock knows ports, not hosts")]
    HostsNeedBwrap,
    #[error(
        "an agent needs its model, and only the bwrap cage keeps it from every other host: landlock knows ports, not hosts"
    )]
    AgentsNeedBwrap,
    #[error("the cage of an ordinary user cannot have port {0} of this machine, which is below {FIRST_PORT}")]
    LowPort(u16),
    #[error("this kernel has no landlock")]
    NoLandlock,
    #[error(
        "more than {MOST_BESIDE} files lie beside what the job must not read; leave it open by `cage.show`"
    )]
    TooManyBeside,
    #[error("{0}")]
    Refused(String),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Bwrap => "bwrap",
            Kind::Landlock => "landlock",
            Kind::None => "none",
        })
    }
}

impl Kind {
    pub fn parse(word: &str) -> Option<Kind> {
        [Kind::Bwrap, Kind::Landlock, Kind::None].into_iter().find(|kind| kind.to_string() == word)
    }

    /// What it does not hold, in sentences for people.
    pub fn gaps(self, network: &Network) -> Vec<&'static str> {
        const LINKS: &str =
            "a file inside that was hard-linked to one outside beforehand can be written, and both change";
        const SOCKETS: &str =
            "a program outside can be asked over a Unix socket that lies in the file system";
        match (self, network) {
            (Kind::Bwrap, _) => vec![LINKS, SOCKETS],
            (Kind::Landlock, _) if self.has_own_view() => vec![LINKS, SOCKETS],
            (Kind::Landlock, _) => vec![METADATA, LINKS, SOCKETS, SHARED],
            (Kind::None, Network::On) => vec![NOTHING],
            (Kind::None, Network::Off | Network::Hosts(_)) => vec![NOTHING, NETWORK],
        }
    }

    /// Whether a job sees mounts of its own, most of them read-only, instead of the system's.
    pub fn has_own_view(self) -> bool {
        match self {
            Kind::Bwrap => true,
            Kind::Landlock => can_mount(),
            Kind::None => false,
        }
    }
}

#[cfg(target_os = "linux")]
fn can_mount() -> bool {
    mounts::can_mount()
}

#[cfg(not(target_os = "linux"))]
fn can_mount() -> bool {
    false
}

const METADATA: &str =
    "mode, owner, times and attributes of files outside can be changed, their content cannot";
const SHARED: &str = "/dev/shm and the user's other terminals can be written";
const NOTHING: &str = "nothing is caged: a job can write whatever its user can";
const NETWORK: &str = "the network is on, although it was not to be";

/// In a network of its own an ordinary user can listen from this port on.
const FIRST_PORT: u16 = 1024;

impl Network {
    /// Whether a cage of this kind keeps it; otherwise why not.
    pub fn kept_by(&self, kind: Kind) -> Result<(), CageError> {
        let Network::Hosts(hosts) = self else { return Ok(()) };
        let low = hosts.local_ports().into_iter().find(|port| *port < FIRST_PORT);
        match (kind, low) {
            (Kind::Landlock | Kind::None, _) => Err(CageError::HostsNeedBwrap),
            (Kind::Bwrap, Some(port)) if !rustix::process::geteuid().is_root() => {
                Err(CageError::LowPort(port))
            }
            (Kind::Bwrap, _) => Ok(()),
        }
    }

    /// What an agent gets of it: no agent works without its model, so the hosts of its models are open wherever there is a
    /// network of named hosts or none at all.
    pub fn with_models(&self, models: impl IntoIterator<Item = String>) -> Network {
        match self {
            Network::On => Network::On,
            Network::Off => Network::Hosts(Hosts::default().and(models)),
            Network::Hosts(hosts) => Network::Hosts(hosts.and(models)),
        }
    }

    /// Whether a cage of this kind keeps it for agents, too. Where there is no cage, that was said.
    pub fn kept_for_agents(&self, kind: Kind) -> Result<(), CageError> {
        match (self, kind) {
            (Network::Off, Kind::Landlock) => Err(CageError::AgentsNeedBwrap),
            (Network::Off, Kind::Bwrap | Kind::None) | (Network::On, _) => Ok(()),
            (Network::Hosts(_), _) => self.kept_by(kind),
        }
    }
}

impl CageError {
    pub fn hint(&self) -> &'static str {
        match self {
            CageError::HostsNeedBwrap => "install bubblewrap, or set `cage.network` to \"on\" or \"off\"",
            CageError::AgentsNeedBwrap => {
                "install bubblewrap, set `cage.network` to \"on\", or give every atom a command"
            }
            CageError::LowPort(_) => "let the service listen on a higher port, and name that",
            CageError::Missing(_)
            | CageError::Unusable { .. }
            | CageError::Everywhere
            | CageError::TooMany(_)
            | CageError::NoBwrap
            | CageError::NoLandlock
            | CageError::TooManyBeside
            | CageError::Refused(_) => "`aot doctor` shows what holds here",
        }
    }
}

impl Ladder {
    /// Whether the one that holds is one that was wanted; otherwise why not.
    pub fn as_wanted(&self) -> Result<Kind, &str> {
        match (self.wanted, self.refused.first()) {
            (Choice::Only(_), Some((_, why))) => Err(why),
            (Choice::Only(_), None) | (Choice::Auto, _) => Ok(self.kind),
        }
    }
}

/// Finds the best cage by trying: a small program of ours must be able to write inside and unable to write outside.
/// Takes a few milliseconds. `scratch` is a folder in which it may make one of its own for the moment.
pub fn find(guard: &Guard, wanted: Choice, scratch: &Path) -> Ladder {
    let rungs = match wanted {
        Choice::Auto => vec![Kind::Bwrap, Kind::Landlock],
        Choice::Only(Kind::None) => Vec::new(),
        Choice::Only(kind) => vec![kind],
    };
    let mut refused = Vec::new();
    for kind in rungs {
        match prove::try_out(guard, kind, scratch) {
            Ok(()) => return Ladder { kind, refused, wanted },
            Err(why) => refused.push((kind, why)),
        }
    }
    Ladder { kind: Kind::None, refused, wanted }
}

impl Cage {
    /// With every path as the kernel sees it. What is missing is named.
    pub(super) fn resolved(&self) -> Result<Cage, CageError> {
        let resolve = |path: &PathBuf| match path.canonicalize() {
            Ok(real) if real == Path::new("/") => Err(CageError::Everywhere),
            Ok(real) => Ok(real),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CageError::Missing(path.clone())),
            Err(error) => Err(CageError::Unusable { path: path.clone(), problem: error.to_string() }),
        };
        let writable: Vec<PathBuf> = self.writable.iter().map(resolve).collect::<Result<_, _>>()?;
        // What is not there can neither be written to nor read.
        let existing = |paths: &[PathBuf]| {
            paths.iter().filter(|path| path.exists()).map(resolve).collect::<Result<Vec<_>, _>>()
        };
        let read_only = existing(&self.read_only)?;
        let mut hidden = existing(&self.hidden)?;
        hidden.retain(|path| !writable.contains(path));
        let mut covered = existing(&self.covered)?;
        covered.retain(|path| path.is_dir() && !writable.iter().any(|open| open.starts_with(path)));
        self.network.kept_by(self.kind)?;
        Ok(Cage { writable, read_only, hidden, covered, kind: self.kind, network: self.network.clone() })
    }

    /// For the line to the guard: a path may hold any byte but zero.
    pub(crate) fn encoded(&self) -> Result<Vec<u8>, CageError> {
        let network = match &self.network {
            Network::On => "on".to_owned(),
            Network::Off => "off".to_owned(),
            // There is no space in the name of a host.
            Network::Hosts(hosts) => ["hosts"]
                .into_iter()
                .chain(hosts.words().iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
        };
        let counts = [&self.read_only, &self.hidden, &self.covered].map(|paths| paths.len().to_string());
        let words = [self.kind.to_string(), network].into_iter().chain(counts).collect::<Vec<_>>();
        let mut bytes = words.join("\0").into_bytes();
        let few = self.read_only.iter().chain(&self.hidden).chain(&self.covered);
        for path in few.chain(&self.writable) {
            bytes.push(0);
            bytes.extend(path.as_os_str().as_bytes());
        }
        let length = bytes.len() as u64;
        if length > LONGEST { Err(CageError::TooMany(length)) } else { Ok(bytes) }
    }

    pub(crate) fn decoded(bytes: &[u8]) -> Option<Cage> {
        let mut parts = bytes.split(|byte| *byte == 0);
        let kind = Kind::parse(std::str::from_utf8(parts.next()?).ok()?)?;
        let mut words = std::str::from_utf8(parts.next()?).ok()?.split(' ').map(str::to_owned);
        let network = match words.next()?.as_str() {
            "on" => Network::On,
            "off" => Network::Off,
            "hosts" => Network::Hosts(Hosts::parse(&words.collect::<Vec<_>>())?),
            _ => return None,
        };
        let mut count = || std::str::from_utf8(parts.next()?).ok()?.parse::<usize>().ok();
        let counts = [count()?, count()?, count()?];
        let mut paths = parts.map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let few = counts.map(|count| paths.by_ref().take(count).collect::<Vec<_>>());
        if few.each_ref().map(Vec::len) != counts {
            return None;
        }
        let [read_only, hidden, covered] = few;
        Some(Cage { kind, writable: paths.collect(), read_only, hidden, covered, network })
    }

    /// Whether the job lives in shared memory itself, so that all of it must not be opened as a matter of course.
    #[cfg(target_os = "linux")]
    fn lives_in(&self, folder: &Path, place: &str) -> bool {
        folder.starts_with(place) || self.writable.iter().any(|path| path.starts_with(place))
    }
}

/// Only these: a `bwrap` that is found by the search path of a job could be the job's own.
const BWRAP: [&str; 5] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/wrappers/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

fn bwrap_places() -> String {
    BWRAP.map(|path| path.trim_end_matches("/bwrap")).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cage_comes_through_the_line_as_it_was() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/a \xff\nb"));
        for writable in [vec![], vec![odd.clone()], vec!["/x".into(), odd]] {
            let hosts = Hosts::parse(&["a.b".into(), "*.c.d:1".into()]).expect("they are hosts");
            for (kind, network) in [
                (Kind::Bwrap, Network::On),
                (Kind::Landlock, Network::Off),
                (Kind::Bwrap, Network::Hosts(hosts)),
                (Kind::Bwrap, Network::Hosts(Hosts::default())),
            ] {
                let (read_only, hidden) = (vec!["/s".into()], vec!["/k".into(), "/l".into()]);
                let covered = vec!["/t".into()];
                let cage = Cage { kind, writable: writable.clone(), read_only, hidden, covered, network };
                assert_eq!(Cage::decoded(&cage.encoded().expect("it is short")), Some(cage));
            }
        }
        assert_eq!(Cage::decoded(b""), None);
        assert_eq!(Cage::decoded(b"tin\0on"), None);
        assert_eq!(Cage::decoded(b"bwrap\0on\x002\x000\x000\0/a"), None);
    }

    #[test]
    fn what_cannot_be_let_through_is_named() {
        for (path, expected) in [
            ("/no/such/folder", "in /no/such/folder, which is not there"),
            ("/usr/..", "in /, which is everywhere"),
            ("/dev/null/x", "in /dev/null/x: "),
        ] {
            let cage = Cage {
                kind: Kind::Landlock,
                writable: vec![path.into()],
                read_only: Vec::new(),
                hidden: Vec::new(),
                covered: Vec::new(),
                network: Network::On,
            };
            let said = cage.resolved().expect_err("it is refused").to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
