//! Ends many programs at once, those that run and those that would have been started next. Knows nothing of why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Killer;

/// On until it is turned off; then it stays off.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<Mutex<Wires>>);

#[derive(Debug, Default)]
struct Wires {
    off: bool,
    next: u64,
    killers: BTreeMap<u64, Killer>,
}

/// Connects one program; dropped when that has ended.
#[derive(Debug)]
#[must_use]
pub(super) struct Wire<'s> {
    switch: &'s Switch,
    number: u64,
}

impl Switch {
    pub fn turn_off(&self) {
        let mut wires = self.wires();
        wires.off = true;
        wires.killers.values().for_each(Killer::kill);
    }

    pub fn is_off(&self) -> bool {
        self.wires().off
    }

    pub(super) fn connect(&self, killer: Killer) -> Wire<'_> {
        let mut wires = self.wires();
        if wires.off {
            killer.kill();
        }
        let number = wires.next;
        wires.next += 1;
        wires.killers.insert(number, killer);
        Wire { switch: self, number }
    }

    /// A thread that panicked in between has left nothing half done.
    fn wires(&self) -> MutexGuard<'_, Wires> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wire<'_> {
    fn drop(&mut self) {
        self.switch.wires().killers.remove(&self.number);
    }
}
