//! Numbers and ports for work that goes on side by side: each tree has a number and ten ports of its own, so that servers of
//! several workers do not get into each other's way. Nothing is kept from using others.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

/// A port of each loop's range and those after it; above what needs a superuser, below what the system hands out by itself.
const FIRST: u16 = 20_000;
const RANGE: u16 = 1_000;
const RANGES: u16 = 12;

pub const PORTS_EACH: u16 = 10;

/// The last port of a range belongs to the run that holds it.
const HELD: u16 = RANGE - 1;

/// So many numbers have ports of their own; higher ones begin anew.
const NUMBERS: u32 = (HELD / PORTS_EACH) as u32;

/// The ports of one loop.
#[derive(Clone, Debug)]
pub struct Ports {
    first: u16,
    /// As long as it is open, no other run of this machine takes the same range.
    _held: Option<Arc<TcpListener>>,
}

impl Ports {
    /// The range that the loop with this key always has.
    pub fn of(key: &str) -> Ports {
        Ports { first: range(own_range(key)), _held: None }
    }

    /// The same, or if another run has it now, the next one that is free.
    pub fn hold(key: &str) -> Ports {
        let own = own_range(key);
        let free = (0..RANGES).map(|step| range((own + step) % RANGES)).find_map(|first| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first + HELD)).ok()?;
            Some(Ports { first, _held: Some(Arc::new(listener)) })
        });
        free.unwrap_or_else(|| Ports::of(key))
    }

    /// What whoever works in the tree with this number is told. The project's own folder has the number 0.
    pub fn variables(&self, number: u32) -> [(OsString, OsString); 2] {
        let place = u16::try_from(number % NUMBERS).unwrap_or(0);
        let port = self.first + place * PORTS_EACH;
        [("AOT_SLOT".into(), number.to_string().into()), ("AOT_PORT".into(), port.to_string().into())]
    }
}

fn own_range(key: &str) -> u16 {
    let hash = blake3::hash(key.as_bytes());
    u16::from(hash.as_bytes()[0]) % RANGES
}

fn range(number: u16) -> u16 {
    FIRST + number * RANGE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(ports: &Ports, number: u32) -> u16 {
        let [_, (name, value)] = ports.variables(number);
        assert_eq!(name, "AOT_PORT");
        value.into_string().expect("a text").parse().expect("a number")
    }

    #[test]
    fn every_number_has_ten_ports_of_its_own() {
        let ports = Ports::of("a loop");
        let all: std::collections::BTreeSet<u16> = (0..NUMBERS).map(|number| port(&ports, number)).collect();
        assert_eq!(all.len(), NUMBERS as usize);
        assert!(all.iter().zip(all.iter().skip(1)).all(|(one, next)| one + PORTS_EACH <= *next));
        assert!(*all.last().expect("one") + PORTS_EACH <= ports.first + HELD);
        assert_eq!(port(&ports, NUMBERS), port(&ports, 0));
    }

    #[test]
    fn two_runs_have_different_ports() {
        let (one, other) = (Ports::hold("a loop"), Ports::hold("a loop"));
        // Other programs may hold all of them.
        if one._held.is_some() && other._held.is_some() {
            assert_ne!(one.first, other.first);
        }
    }
}
