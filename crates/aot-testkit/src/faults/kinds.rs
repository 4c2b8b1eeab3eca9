//! What can be done to a run, as a table. Knows neither how it is done nor what must hold afterwards.

use crate::faults::loops::LoopKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Somebody is killed with -9 at a random moment.
    Kill(Victim),
    /// A signal that asks: the driver is frozen for a while, interrupted or told to end.
    Signal(Sent),
    /// Something at the n-th start of git.
    Git(GitFault),
    /// Something at the n-th system call of a kind, in each process of the run that gets so far.
    Call(Calls, Struck),
    /// Another git holds a lock for a while.
    Locked(Lock),
    /// The file system of the project is full for a while.
    DiskFull,
    /// The driver may open no more files for a while.
    FewDescriptors,
    /// The machine's clock is set by hours, and stays so.
    ClockSet(Direction),
    /// What people do meanwhile.
    Person(Doing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    Driver,
    DriverAndGuards,
    /// All of the program's own processes: only a cage of namespaces ends what is left then, or the next run.
    AllOfOurs,
    Everybody,
    Guard,
    Worker,
    Git,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    Freeze,
    Interrupt,
    Terminate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitFault {
    Fails,
    FailsAfterItsWork,
    Dies,
    DiesAfterItsWork,
    IsSlow,
    /// The driver is killed just before or just after git worked.
    DriverDiesBefore,
    DriverDiesAfter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    Index,
    Branch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Calls {
    Write,
    Rename,
    Sync,
    Open,
    Start,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Struck {
    Killed,
    NoSpace,
    InputOutput,
    NoDescriptors,
    NoProcesses,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    Back,
    Forward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    CommitsOnTheBranch,
    EditsTheCheckout,
    SavesTheState,
    SavesAStaleCopy,
    Stops,
    StopsNow,
    Redirects,
    DeletesTheSidecar,
}

/// Each with its name and how often it is chosen.
pub const KINDS: [(Fault, &str, usize); 42] = [
    (Fault::Kill(Victim::Driver), "the driver is killed", 8),
    (Fault::Kill(Victim::DriverAndGuards), "driver and guards are killed together", 4),
    (Fault::Kill(Victim::AllOfOurs), "driver, reaper and guards are killed together", 3),
    (Fault::Kill(Victim::Everybody), "everybody is killed", 4),
    (Fault::Kill(Victim::Guard), "a guard is killed", 4),
    (Fault::Kill(Victim::Worker), "a worker is killed", 3),
    (Fault::Kill(Victim::Git), "a git is killed", 6),
    (Fault::Signal(Sent::Freeze), "the driver is frozen for a while", 2),
    (Fault::Signal(Sent::Interrupt), "the driver is interrupted", 2),
    (Fault::Signal(Sent::Terminate), "the driver is told to end", 2),
    (Fault::Git(GitFault::Fails), "git fails", 8),
    (Fault::Git(GitFault::FailsAfterItsWork), "git fails after its work", 4),
    (Fault::Git(GitFault::Dies), "git dies", 8),
    (Fault::Git(GitFault::DiesAfterItsWork), "git dies after its work", 8),
    (Fault::Git(GitFault::IsSlow), "git is slow", 4),
    (Fault::Git(GitFault::DriverDiesBefore), "the driver dies as git starts", 12),
    (Fault::Git(GitFault::DriverDiesAfter), "the driver dies as git ends", 12),
    (Fault::Locked(Lock::Index), "another git holds the index", 3),
    (Fault::Locked(Lock::Branch), "another git holds the branch", 3),
    (Fault::Call(Calls::Write, Struck::Killed), "killed at a write", 3),
    (Fault::Call(Calls::Rename, Struck::Killed), "killed at a rename", 4),
    (Fault::Call(Calls::Sync, Struck::Killed), "killed at a sync", 4),
    (Fault::Call(Calls::Open, Struck::Killed), "killed at an open", 2),
    (Fault::Call(Calls::Start, Struck::Killed), "killed at the start of a process", 4),
    (Fault::Call(Calls::Write, Struck::NoSpace), "no space at a write", 3),
    (Fault::Call(Calls::Rename, Struck::NoSpace), "no space at a rename", 2),
    (Fault::Call(Calls::Sync, Struck::InputOutput), "a sync fails", 2),
    (Fault::Call(Calls::Open, Struck::NoDescriptors), "no descriptor at an open", 2),
    (Fault::Call(Calls::Open, Struck::NoSpace), "no space at an open", 2),
    (Fault::Call(Calls::Start, Struck::NoProcesses), "a process cannot be started", 2),
    (Fault::DiskFull, "the disk is full for a while", 1),
    (Fault::FewDescriptors, "no descriptors for a while", 1),
    (Fault::ClockSet(Direction::Back), "the clock is set back by hours", 3),
    (Fault::ClockSet(Direction::Forward), "the clock is set forward by hours", 3),
    (Fault::Person(Doing::CommitsOnTheBranch), "a person commits on the branch", 3),
    (Fault::Person(Doing::EditsTheCheckout), "a person edits the checkout and undoes it", 2),
    (Fault::Person(Doing::SavesTheState), "an editor saves the state file", 6),
    (Fault::Person(Doing::SavesAStaleCopy), "an editor saves a stale copy", 3),
    (Fault::Person(Doing::Stops), "a person stops the loop", 2),
    (Fault::Person(Doing::StopsNow), "a person stops it now", 2),
    (Fault::Person(Doing::Redirects), "a person redirects it", 3),
    (Fault::Person(Doing::DeletesTheSidecar), "the sidecar is deleted between runs", 1),
];

impl Fault {
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(fault, ..)| *fault == self).map_or("", |(_, name, _)| name)
    }

    /// Whether it makes sense there.
    pub fn fits(self, kind: LoopKind) -> bool {
        match self {
            Fault::Kill(Victim::Worker) => kind.survives_dead_workers(),
            // A guard that dies takes its worker with it, and everybody includes the workers; the driver then counts a
            // failure only if it lives on.
            Fault::Kill(Victim::Guard) => kind.survives_dead_workers(),
            Fault::Kill(_) | Fault::Signal(_) => true,
            Fault::Locked(Lock::Branch) => kind.lands(),
            Fault::Locked(Lock::Index) => kind.has_git(),
            Fault::Git(_) => true,
            // System calls are struck in workers too.
            Fault::Call(..) | Fault::DiskFull => kind.survives_dead_workers(),
            Fault::FewDescriptors | Fault::ClockSet(_) => true,
            Fault::Person(Doing::CommitsOnTheBranch) => kind.lands(),
            Fault::Person(Doing::EditsTheCheckout) => kind.lands(),
            Fault::Person(_) => true,
        }
    }
}
