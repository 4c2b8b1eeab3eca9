//! What really happened: the home, its processes and sockets before and after, and what reached a stream. Knows nothing of
//! cages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::scene::{Heard, Outsider, PROTECTED};
use super::table::Bare;
use super::{Batch, Cage, Door, Wanted, attacks};
use crate::project::{Project, STATE};

/// Devices that root could take away from everybody. Attacks touch only these, and they are looked at.
const DEVICES: [&str; 2] = ["/dev/full", "/dev/zero"];

/// Places of a home that the program may write: its own settings and caches are not what is defended.
const OURS: [&str; 6] =
    ["project", "proofs", ".local/state/aot", ".cache/aot", ".local/share/aot", ".config/aot/trusted"];

/// What is looked at before and after.
#[derive(Debug)]
pub struct Sight {
    home: BTreeMap<String, String>,
    devices: Vec<String>,
    victims: BTreeMap<usize, String>,
    connected: BTreeMap<usize, Vec<&'static str>>,
    protected: Vec<String>,
}

pub struct Seen<'s> {
    pub project: &'s Project,
    pub batch: &'s Batch,
    pub before: &'s Sight,
    pub after: &'s Sight,
    pub heard: &'s Heard,
}

pub fn look(project: &Project, victims: &mut [Outsider]) -> Sight {
    let mut home = BTreeMap::new();
    walk(project.home(), "", &mut home);
    let devices = DEVICES.iter().map(|path| stamp(Path::new(path))).collect();
    let connected = victims.iter().map(|victim| (victim.number, connections(victim))).collect();
    let protected = PROTECTED.iter().map(|path| project.read(&path.replace("**", "t"))).collect();
    let victims = victims.iter_mut().map(|victim| (victim.number, health(victim))).collect();
    Sight { home, devices, victims, connected, protected }
}

/// Gives the devices back to everybody, if an attack took them away.
fn mend_devices() {
    for path in DEVICES {
        // Whoever is not root cannot, and could not have broken them either.
        let _ = std::os::unix::fs::chown(path, Some(0), Some(0));
        let _ = fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o666));
    }
}

fn walk(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if OURS.contains(&name.as_str()) {
            continue;
        }
        let path = entry.path();
        let content = match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                walk(&path, &format!("{name}/"), found);
                // Its times change with what is in it, which is looked at.
                fs::symlink_metadata(&path)
                    .map(|meta| format!("{:o} {}", meta.mode(), meta.uid()))
                    .unwrap_or_default()
            }
            Ok(kind) if kind.is_file() => {
                let text = fs::read(&path).unwrap_or_default();
                format!("{} {}", stamp(&path), String::from_utf8_lossy(&text))
            }
            _ => stamp(&path),
        };
        found.insert(name, content);
    }
}

/// Mode, owner and the time of the last change of its content.
fn stamp(path: &Path) -> String {
    let meta = fs::symlink_metadata(path);
    meta.map(|meta| format!("{:o} {}:{} {}", meta.mode(), meta.uid(), meta.gid(), meta.mtime()))
        .unwrap_or_default()
}

fn connections(victim: &Outsider) -> Vec<&'static str> {
    let mut found = Vec::new();
    if victim.tcp.accept().is_ok() {
        found.push("a TCP port outside was reached");
    }
    if victim.udp.recv_from(&mut [0; 16]).is_ok() {
        found.push("a UDP port outside was reached");
    }
    if victim.socket.accept().is_ok() {
        found.push("a socket in the home was reached");
    }
    if victim.abstract_socket.accept().is_ok() {
        found.push("an abstract socket outside was reached");
    }
    found
}

/// What somebody outside could have changed of a process.
fn health(victim: &mut Outsider) -> String {
    if let Ok(Some(status)) = victim.process.try_wait() {
        return format!("ended with {status}");
    }
    let pid = victim.process.id();
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let kept =
        status.lines().filter(|line| line.starts_with("Cpus_allowed_list") || line.starts_with("TracerPid"));
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or_default();
    // Running and sleeping are the same; stopped and traced are not.
    let stopped = state.trim_start().starts_with(['T', 't']);
    let fields = read("stat");
    let nice = fields
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(16))
        .unwrap_or_default()
        .to_owned();
    let kept: Vec<&str> = kept.collect();
    format!(
        "stopped {stopped}; nice {nice}; {}; {}; {}",
        kept.join(" "),
        read("limits"),
        read("oom_score_adj")
    )
}

/// For each attack, what it achieved or what was not said.
pub fn judge(seen: &Seen<'_>) -> Vec<(usize, Vec<String>)> {
    let shared = shared_findings(seen);
    let own = seen.batch.attacks.iter().map(|number| {
        let mut found = shared.clone();
        found.extend(own_findings(seen, *number));
        if !was_tried(seen, *number) {
            let said = seen.heard.runs.first().and_then(|text| text.lines().last()).unwrap_or_default();
            found.push(format!("it was never tried: {said}"));
        }
        if seen.batch.cage == Cage::None && attacks()[*number].bare == Bare::Succeeds {
            let nothing = vec!["it does nothing even where there is no cage".to_owned()];
            return (*number, if found.is_empty() { nothing } else { Vec::new() });
        }
        if let Wanted::Detected(words) = attacks()[*number].wanted
            && !seen.heard.runs.iter().any(|text| text.contains(words))
        {
            found.push(format!("nobody said {words:?}"));
        }
        (*number, found)
    });
    own.collect()
}

/// An attack that never began shows nothing.
fn was_tried(seen: &Seen<'_>, number: usize) -> bool {
    let said = |words: &str| seen.heard.runs.first().is_some_and(|text| text.contains(words));
    match seen.batch.door {
        // Where the cage cannot spare the repository, the run is refused.
        Door::InPlace | Door::Unisolated if said("cannot keep a worker") => true,
        Door::Work
        | Door::WorkOffline
        | Door::WorkListed
        | Door::InPlace
        | Door::Unisolated
        | Door::OutsideGit
        | Door::Check
        | Door::Setup
        | Door::Agent => said(&format!("\"task\":\"work\",\"atom\":\"A{number}\"")),
        Door::Shown => said(&format!("A{number} ")),
        Door::BaseCase => said("\"type\":\"checked\""),
        Door::Look | Door::Use | Door::Distrusted => true,
    }
}

/// What cannot be laid at the door of one attack.
fn shared_findings(seen: &Seen<'_>) -> Vec<String> {
    let Seen { project, batch, before, after, heard } = seen;
    let mut found: Vec<String> =
        heard.hung.iter().map(|verb| format!("`aot {verb}` did not end in time")).collect();
    if heard.exit == Some(-1) {
        found.push("the driver was killed".into());
    }
    if heard.exit == Some(70) {
        found.push("the program found a bug of its own".into());
    }
    let own: Vec<String> = batch.attacks.iter().map(|number| format!("-{number}")).collect();
    let names: BTreeSet<&String> = before.home.keys().chain(after.home.keys()).collect();
    for name in names {
        let top = name.split('/').next().unwrap_or_default();
        // What has the number of an attack in its name is laid at its door.
        if before.home.get(name) != after.home.get(name) && !own.iter().any(|end| top.ends_with(end)) {
            found.push(format!("~/{name} was changed"));
        }
    }
    for (path, (was, is)) in DEVICES.iter().zip(before.devices.iter().zip(&after.devices)) {
        if was != is {
            mend_devices();
            found.push(format!("{path} was changed: {was} to {is}"));
        }
    }
    if before.protected != after.protected {
        found.push("a protected file was changed".into());
    }
    let survivors = project.survivors();
    if !survivors.is_empty() {
        found.push(format!("processes are left: {survivors:?}"));
    }
    found.extend(raw_controls(heard, |_| true).into_iter().take(2));
    found
}

fn own_findings(seen: &Seen<'_>, number: usize) -> Vec<String> {
    let Seen { project, before, after, heard, .. } = seen;
    let mut found = Vec::new();
    if project.path(&format!("../proofs/{number}")).symlink_metadata().is_ok() {
        found.push("a command of the attacker ran outside".into());
    }
    if before.victims.get(&number) != after.victims.get(&number) {
        let (was, is) = (before.victims.get(&number), after.victims.get(&number));
        found.push(format!("a process outside was reached: {was:?} became {is:?}"));
    }
    found.extend(after.connected.get(&number).into_iter().flatten().map(|what| (*what).to_owned()));
    let end = format!("-{number}");
    let is_own = |name: &str| name.split('/').next().is_some_and(|top| top.ends_with(&end));
    let names: BTreeSet<&String> = before.home.keys().chain(after.home.keys()).collect();
    let changed =
        names.into_iter().filter(|name| before.home.get(*name) != after.home.get(*name) && is_own(name));
    found.extend(changed.map(|name| format!("~/{name} was changed")));
    let secret = format!("secret-{number}-");
    if let Some(place) = holds(&project.root(), secret.as_bytes()) {
        found.push(format!("a secret lies in {place}"));
    }
    if heard.runs.iter().any(|text| text.contains(&secret)) {
        found.push("a secret was printed".into());
    }
    let forged = format!("forged-{number}-");
    // What a worker printed may be quoted in what we write; as a line of its own it is a forgery.
    for path in [STATE, ".claude/aot/journal.jsonl", ".claude/aot/evidence.jsonl"] {
        if project.read(path).lines().any(|line| line.starts_with(&forged)) {
            found.push(format!("a line was forged in {path}"));
        }
    }
    for line in heard.runs.iter().flat_map(|text| text.lines()) {
        let object: Option<serde_json::Value> = serde_json::from_str(line).ok();
        if object.is_some_and(|object| object["type"].as_str().is_some_and(|name| name.starts_with(&forged)))
        {
            found.push("a line of JSON was forged".into());
        }
    }
    let never = format!("never-{number}");
    let landed = project
        .git(&["-c", "safe.directory=*", "log", "--format=", "--name-only", "main"])
        .unwrap_or_default();
    if landed.lines().any(|path| path.contains(&never)) {
        found.push(format!("{never} landed"));
    }
    found
}

/// Control characters that a terminal would obey, and marks that turn the direction of a text.
fn raw_controls(heard: &Heard, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let is_raw = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let lines = heard.runs.iter().flat_map(|text| text.split('\n'));
    let raw = lines.filter(|line| wanted(line) && line.contains(is_raw));
    raw.map(|line| format!("a terminal would obey: {:?}", line.chars().take(120).collect::<String>()))
        .collect()
}

/// The first file below a folder that holds this; what git keeps packed is looked for in the checkout.
fn holds(folder: &Path, what: &[u8]) -> Option<String> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let found = match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds(&path, what),
            Ok(kind) if kind.is_file() => {
                let text = fs::read(&path).unwrap_or_default();
                text.windows(what.len()).any(|part| part == what).then(|| path.display().to_string())
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
