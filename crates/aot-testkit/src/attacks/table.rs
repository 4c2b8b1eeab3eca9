//! The table: what is tried, through which door, and what has to become of it. In the scripts, `@PROOF@` is a file outside
//! that only a command outside of the cage can make; `@VICTIM@`, `@FOLDER@` and `@SHELL@` are files and a folder of the
//! home; `@PID@` is a process of the user, with a secret in its environment; `@SOCKET@`, `@ABSTRACT@`, `@TCP@` and `@UDP@`
//! are listened on outside; `@SECRET@` is a text that must not be found in the project or in what the program says.

mod clones;
mod git;
mod homes;
mod lives;
mod streams;

use std::sync::OnceLock;

use super::{Cage, Door, Wanted};

#[derive(Clone, Copy, Debug)]
pub struct Attack {
    pub what: &'static str,
    pub door: Door,
    pub script: &'static str,
    /// A script that prepares the home or the project before the first commit, outside of any cage.
    pub before: &'static str,
    /// The same after the first commit, so that our own git does not fall for it.
    pub after: &'static str,
    pub wanted: Wanted,
    /// It has a loop of its own.
    pub alone: bool,
    /// It goes on until its time is over.
    pub endless: bool,
    pub bare: Bare,
    pub only: Only,
}

/// What becomes of an attack where there is no cage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bare {
    /// It succeeds: the cage is what prevents it, and the script does what it says.
    Succeeds,
    /// It is prevented by something else than the cage.
    Prevented,
    /// It is not tried: it would harm whoever runs the campaign.
    Skipped,
}

/// Where an attack is covered. What is open elsewhere is said in SECURITY.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    Everywhere,
    /// Only a cage of namespaces closes it.
    Bwrap,
}

impl Attack {
    const fn new(door: Door, what: &'static str, script: &'static str, bare: Bare) -> Attack {
        let (wanted, only) = (Wanted::Prevented, Only::Everywhere);
        Attack { what, door, script, before: "", after: "", wanted, alone: false, endless: false, bare, only }
    }

    const fn before(self, before: &'static str) -> Attack {
        Attack { before, ..self }
    }

    const fn after(self, after: &'static str) -> Attack {
        Attack { after, ..self }
    }

    const fn says(self, words: &'static str) -> Attack {
        Attack { wanted: Wanted::Detected(words), ..self }
    }

    const fn alone(self) -> Attack {
        Attack { alone: true, ..self }
    }

    /// With a loop of its own.
    const fn endless(self) -> Attack {
        Attack { alone: true, endless: true, ..self }
    }

    const fn only(self, only: Only) -> Attack {
        Attack { only, ..self }
    }

    pub fn is_for(&self, cage: Cage) -> bool {
        match cage {
            Cage::Bwrap => true,
            Cage::Landlock => self.only == Only::Everywhere,
            Cage::None => self.bare == Bare::Succeeds,
        }
    }
}

/// All of them; an attack is known by its place.
pub fn attacks() -> &'static [Attack] {
    static ALL: OnceLock<Vec<Attack>> = OnceLock::new();
    ALL.get_or_init(|| {
        [git::ATTACKS, homes::attacks(), lives::ATTACKS, streams::ATTACKS, clones::ATTACKS].concat()
    })
}
