//! Ends many programs at once, those that run and those that would have been started next. Knows nothing of why.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// On until it is turned off; then it stays off.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<Mutex<Wires>>);

#[derive(Default)]
struct Wires {
    off: bool,
    next: u64,
    ends: BTreeMap<u64, Box<dyn Fn() + Send>>,
}

/// Connects one program; dropped when that has ended.
#[derive(Debug)]
#[must_use]
pub struct Wire<'s> {
    switch: &'s Switch,
    number: u64,
}

impl Switch {
    pub fn turn_off(&self) {
        let mut wires = self.wires();
        wires.off = true;
        wires.ends.values().for_each(|end| end());
    }

    pub fn is_off(&self) -> bool {
        self.wires().off
    }

    /// Calls this when the switch is turned off, and at once if it is off already. Others wait meanwhile, so that it
    /// must neither wait itself nor ask the switch.
    pub fn connect(&self, end: impl Fn() + Send + 'static) -> Wire<'_> {
        let mut wires = self.wires();
        if wires.off {
            end();
        }
        let number = wires.next;
        wires.next += 1;
        wires.ends.insert(number, Box::new(end));
        Wire { switch: self, number }
    }

    /// A thread that panicked in between has left nothing half done.
    fn wires(&self) -> MutexGuard<'_, Wires> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wire<'_> {
    fn drop(&mut self) {
        self.switch.wires().ends.remove(&self.number);
    }
}

impl fmt::Debug for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wires").field("off", &self.off).field("connected", &self.ends.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::Switch;

    #[test]
    fn whoever_is_connected_is_told_once() {
        let switch = Switch::default();
        let (sender, told) = mpsc::channel();
        let tell = |name: &'static str| {
            let sender = sender.clone();
            move || sender.send(name).expect("the test listens")
        };
        let gone = switch.connect(tell("gone"));
        let here = switch.connect(tell("here"));
        drop(gone);
        switch.turn_off();
        let late = switch.connect(tell("late"));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["here", "late"]);
        drop((here, late));
        switch.turn_off();
        assert_eq!(told.try_iter().count(), 0);
    }
}
