//! How long the loop waits when something outside of it is not available: a start that was refused by a rate limit, a
//! network that is down, a full disk, an evaluation of the base case that got lost (D12). Knows no clock; the ledger has
//! the time.

use jiff::{SignedDuration, Timestamp};

use super::{Change, Ledger};
use crate::state::{Span, Stamp};

/// The first wait for a provider, unless it names one; each further one is twice as long.
pub const FIRST_WAIT_SECONDS: u64 = 30;
pub const LONGEST_WAIT_SECONDS: u64 = 3600;

/// The same for this machine: asking it again costs nothing, and one failed command is soon over.
const FIRST_WAIT_FOR_WORLD_SECONDS: u64 = 1;
const LONGEST_WAIT_FOR_WORLD_SECONDS: u64 = 30;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// A provider of agents: its limits, the network to it.
    Provider,
    /// This machine: disk, descriptors, processes, git.
    World,
}

/// So many characters of a reason are kept.
const REASON_KEPT: usize = 300;

/// The loop stops when so many evaluations in a row got lost, after seven minutes of waits: what loses them has to be
/// repaired by a person.
pub const MAX_LOST_EVALUATIONS: u32 = 19;

/// Parks the loop. `before` counts the refusals in a row before this one. A longer wait that is under way stays.
pub fn park(ledger: &mut Ledger, waits: Waits, before: u32, reason: &str, retry_after: Option<Span>) {
    let (first, longest) = match waits {
        Waits::Provider => (FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS),
        Waits::World => (FIRST_WAIT_FOR_WORLD_SECONDS, LONGEST_WAIT_FOR_WORLD_SECONDS),
    };
    let doubled = first.saturating_mul(1 << before.min(16)).min(longest);
    let wait = retry_after.map_or(doubled, |span| span.seconds().clamp(1, LONGEST_WAIT_SECONDS));
    let wait = SignedDuration::from_secs(i64::try_from(wait).expect("a wait has a limit"));
    let until = ledger.now().checked_add(wait).unwrap_or(Timestamp::MAX);
    let current = ledger.state().control.parked_until.as_ref().map(|until| until.at());
    if current.is_none_or(|current| current < until) {
        ledger.record(Change::Parked { until: Stamp::from(until), reason: Some(shortened(reason)) });
    }
}

/// Whether a wait goes on. One that is longer than any was begun under another clock, which was set back since: it is over.
pub fn is_due_later(now: Timestamp, until: Timestamp) -> bool {
    let longest = SignedDuration::from_secs(LONGEST_WAIT_SECONDS.cast_signed());
    now < until && now.duration_until(until) <= longest
}

/// The first line of a reason, as far as a screen shows it.
fn shortened(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    match line.char_indices().nth(REASON_KEPT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
