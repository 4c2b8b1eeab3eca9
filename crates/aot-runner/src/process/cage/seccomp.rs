//! System calls that a caged job may not make: they reach other processes, the user's keyrings or the network without
//! naming a file, so that neither a view of the file system nor landlock sees them. A refused call fails with `EPERM`.
//!
//! A program for another processor, such as a 32-bit one on a 64-bit system, is killed at its first call: its calls have
//! other numbers.

use super::{CageError, Network};

/// Whose processes a job can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Only those of its own cage: the numbers of all others mean nothing there.
    Own,
    /// Everybody's.
    All,
}

/// From here on this thread, and whatever it starts, is refused these calls.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
pub fn filter_this_thread(processes: Processes, network: Network) -> Result<(), CageError> {
    let refused = |error: &dyn std::fmt::Display| CageError::Refused(format!("seccomp: {error}"));
    let program = filter::program(processes, network).map_err(|error| refused(&error))?;
    seccompiler::apply_filter(&program).map_err(|error| refused(&error))
}

/// Nobody has numbered the calls of other processors for us; `aot doctor` says what does not hold there.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
pub fn filter_this_thread(_: Processes, _: Network) -> Result<(), CageError> {
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

    use super::{Network, Processes};

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

    pub fn program(processes: Processes, network: Network) -> Result<BpfProgram, BackendError> {
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
        match (network, processes) {
            // Without a network of its own it may ask the kernel and its own processes, and nobody else.
            (Network::Off, Processes::All) => {
                let (local, kernel) = (libc::AF_UNIX as u64, libc::AF_NETLINK as u64);
                refuse(libc::SYS_socket, vec![SeccompRule::new(vec![not(0, local)?, not(0, kernel)?])?]);
                refuse(RING, Vec::new());
            }
            (Network::On, _) | (Network::Off, Processes::Own) => {}
        }
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let processor = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, SeccompAction::Allow, refused, processor)?.try_into()
    }

    fn not(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
        SeccompCondition::new(argument, Dword, SeccompCmpOp::Ne, value)
    }
}
