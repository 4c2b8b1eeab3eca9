//! System calls that a caged job may not make: they reach other processes, the user's keyrings or the network without
//! naming a file, so that neither a view of the file system nor landlock sees them. A refused call fails with `EPERM`.
//!
//! A program for another processor, such as a 32-bit one on a 64-bit system, is killed at its first call: its calls have
//! other numbers.

use super::CageError;

/// Whose processes a job can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Only those of its own cage: the numbers of all others mean nothing there.
    Own,
    /// Everybody's.
    All,
}

/// Which sockets a job can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    All,
    /// To ask the kernel and processes of this machine.
    OfThisMachine,
    /// The same, and those of the internet, because its network is its own.
    OfOwnNetwork,
}

/// From here on this thread, and whatever it starts, is refused these calls.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub fn filter_this_thread(processes: Processes, sockets: Sockets) -> Result<(), CageError> {
    let refused = |error: &dyn std::fmt::Display| CageError::Refused(format!("seccomp: {error}"));
    let program = filter::program(processes, sockets).map_err(|error| refused(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| refused(&error))
}

/// Nobody has numbered the calls of other processors for us; `aot doctor` says what does not hold there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub fn filter_this_thread(_: Processes, _: Sockets) -> Result<(), CageError> {
    Ok(())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod filter {
    use std::collections::BTreeMap;

    use nix::libc;
    use seccompiler::SeccompCmpArgLen::{Dword, Qword};
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch,
    };

    use super::{Processes, Sockets};

    /// The keyrings of a user's session hold keys, and no namespace divides them.
    const KEYRINGS: [i64; 3] = [libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];

    /// They name a process first; zero is the caller itself.
    const SCHEDULING: [i64; 4] = [
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setaffinity,
    ];

    /// They say first whether the second argument is a process, a group or a user, and which value means a user.
    const PRIORITIES: [(i64, u64); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

    /// Its other way of making sockets.
    const RING: i64 = libc::SYS_io_uring_setup;

    /// A second numbering of the same calls, which x86 processors may know.
    const X32: i64 = 0x4000_0000;

    pub fn program(processes: Processes, sockets: Sockets) -> Result<BpfProgram, BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
        let mut refuse = |call: i64, when: Vec<SeccompRule>| {
            if cfg!(target_arch = "x86_64") {
                rules.insert(call | X32, when.clone());
            }
            rules.insert(call, when);
        };
        for call in KEYRINGS {
            refuse(call, Vec::new());
        }
        match processes {
            Processes::Own => {}
            Processes::All => {
                // To look at the limits of another is harmless; to set them can end it.
                let others = vec![not(0, 0)?, SeccompCondition::new(2, Qword, SeccompCmpOp::Ne, 0)?];
                refuse(libc::SYS_prlimit64, vec![SeccompRule::new(others)?]);
                for call in SCHEDULING {
                    refuse(call, vec![SeccompRule::new(vec![not(0, 0)?])?]);
                }
                for (call, user) in PRIORITIES {
                    let whole_user = SeccompCondition::new(0, Dword, SeccompCmpOp::Eq, user)?;
                    let rules = [vec![not(1, 0)?], vec![whole_user]].map(SeccompRule::new);
                    refuse(call, rules.into_iter().collect::<Result<_, _>>()?);
                }
            }
        }
        let families: &[i32] = match sockets {
            Sockets::All => &[],
            Sockets::OfThisMachine => &[libc::AF_UNIX, libc::AF_NETLINK],
            Sockets::OfOwnNetwork => &[libc::AF_UNIX, libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6],
        };
        if !families.is_empty() {
            let others = families.iter().map(|family| not(0, family.unsigned_abs().into()));
            refuse(libc::SYS_socket, vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?]);
            refuse(RING, Vec::new());
        }
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let processor = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, SeccompAction::Allow, refused, processor)?.try_into()
    }

    fn not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, Dword, SeccompCmpOp::Ne, value)
    }
}
