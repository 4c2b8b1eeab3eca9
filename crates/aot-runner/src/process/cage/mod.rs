//! A cage for one job: everything can be read, only what was named can be written. Knows how to ask the system for it,
//! and how to find out what holds here; not who is caged or why.
//!
//! There is a ladder. `bwrap` gives the job a view of the file system in which all else is read-only, and a world of
//! processes of its own. Where it does not start, `landlock` lets the kernel refuse every write elsewhere. Where neither
//! holds there is no cage, and that is said.

#[cfg(target_os = "linux")]
pub(super) mod bwrap;
#[cfg(target_os = "linux")]
pub(super) mod landlock;
mod prove;
pub mod trial;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Guard;
pub use prove::{Expected, Holds, Trial, leaves_nobody, prove};

/// So many bytes of paths can be named at most.
const LONGEST: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Bwrap,
    Landlock,
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    On,
    Off,
}

/// What a job may write, and whether it has a network. Everything else is there to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cage {
    pub kind: Kind,
    pub writable: Vec<PathBuf>,
    /// What lies in something writable and is not to be written all the same. Only `bwrap` can keep this.
    pub read_only: Vec<PathBuf>,
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
    #[error("this kernel has no landlock")]
    NoLandlock,
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
    pub fn gaps(self, network: Network) -> Vec<&'static str> {
        const LINKS: &str =
            "a file inside that was hard-linked to one outside beforehand can be written, and both change";
        const SOCKETS: &str =
            "a program outside can be asked over a Unix socket that lies in the file system";
        match (self, network) {
            (Kind::Bwrap, Network::On | Network::Off) => vec![LINKS, SOCKETS],
            (Kind::Landlock, Network::On) => vec![METADATA, LINKS, SOCKETS, SHARED],
            (Kind::Landlock, Network::Off) => vec![METADATA, LINKS, SOCKETS, SHARED, NOT_TCP],
            (Kind::None, Network::On) => vec![NOTHING],
            (Kind::None, Network::Off) => vec![NOTHING, NETWORK],
        }
    }
}

const METADATA: &str =
    "mode, owner, times and attributes of files outside can be changed, their content cannot";
const SHARED: &str = "/dev/shm and the user's other terminals can be written";
const NOT_TCP: &str = "of the network only TCP is off: UDP is not";
const NOTHING: &str = "nothing is caged: a job can write whatever its user can";
const NETWORK: &str = "the network is on, although it was to be off";

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
        let writable = self.writable.iter().map(resolve).collect::<Result<_, _>>()?;
        // What is not there cannot be written to.
        let read_only =
            self.read_only.iter().filter(|path| path.exists()).map(resolve).collect::<Result<_, _>>()?;
        Ok(Cage { writable, read_only, ..*self })
    }

    /// For the line to the guard: a path may hold any byte but zero.
    pub(super) fn encoded(&self) -> Result<Vec<u8>, CageError> {
        let network: &[u8] = match self.network {
            Network::On => b"on",
            Network::Off => b"off",
        };
        let read_only = self.read_only.len().to_string();
        let mut bytes = [self.kind.to_string().as_bytes(), network, read_only.as_bytes()].join(&0);
        for path in self.read_only.iter().chain(&self.writable) {
            bytes.push(0);
            bytes.extend(path.as_os_str().as_bytes());
        }
        let length = bytes.len() as u64;
        if length > LONGEST { Err(CageError::TooMany(length)) } else { Ok(bytes) }
    }

    pub(super) fn decoded(bytes: &[u8]) -> Option<Cage> {
        let mut parts = bytes.split(|byte| *byte == 0);
        let kind = Kind::parse(std::str::from_utf8(parts.next()?).ok()?)?;
        let network = match parts.next()? {
            b"on" => Network::On,
            b"off" => Network::Off,
            _ => return None,
        };
        let count: usize = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        let mut paths: Vec<PathBuf> = parts.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        if count > paths.len() {
            return None;
        }
        let writable = paths.split_off(count);
        Some(Cage { kind, writable, read_only: paths, network })
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
            for (kind, network) in [(Kind::Bwrap, Network::On), (Kind::Landlock, Network::Off)] {
                let cage = Cage { kind, writable: writable.clone(), read_only: vec!["/s".into()], network };
                assert_eq!(Cage::decoded(&cage.encoded().expect("it is short")), Some(cage));
            }
        }
        assert_eq!(Cage::decoded(b""), None);
        assert_eq!(Cage::decoded(b"tin\0on"), None);
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
                network: Network::On,
            };
            let said = cage.resolved().expect_err("it is refused").to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
