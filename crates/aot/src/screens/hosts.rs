//! The hosts of a loop in lines: one for each, with its slots and what it does. Draws what the driver tells.

use aot_runner::live::{HostNow, HostsNow};

use crate::text;

/// So many jobs of one host are named.
const JOBS: usize = 4;

/// All of them in a line, with the address of the engine's own page.
pub fn summary(now: &HostsNow) -> String {
    let busy: usize = now.hosts.iter().map(|host| host.jobs.len()).sum();
    let slots: u32 = now.hosts.iter().map(|host| host.slots).sum();
    let waiting = match now.waiting {
        0 => String::new(),
        count => format!(", {} waiting for a slot", text::counted(count.into(), "job")),
    };
    let away = if now.engine_away { ", the engine does not answer" } else { "" };
    format!("{busy} of {slots} slots busy{waiting}{away}; {}", now.engine)
}

pub fn line(host: &HostNow) -> String {
    let mut parts = vec![format!("{} of {} slots", host.jobs.len(), host.slots)];
    if host.state != "up" {
        parts.insert(0, host.state.clone());
    }
    parts.extend(host.why.clone());
    if !host.offers.is_empty() {
        parts.push(format!("offers {}", host.offers.join(", ")));
    }
    let named: Vec<&str> = host.jobs.iter().take(JOBS).map(|job| job.job.as_str()).collect();
    if !named.is_empty() {
        let more = host.jobs.len().saturating_sub(JOBS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{}{more}", named.join(" ")));
    }
    text::plain(&format!("{}: {}", host.name, parts.join("; ")))
}
