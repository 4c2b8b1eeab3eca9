//! What a cage holds, by trying it on this machine. Nothing is believed that can be looked at from outside.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::trial::{ABSTRACT, DEVICE, DOOR, LINKED, VICTIMS, WAY_OUT, WORD};
use super::{Cage, Kind, Network};
use crate::process::hosts::Hosts;
use crate::process::{Ended, Environment, Guard, How, Input, Job, Limits, Streams};

/// A trial takes milliseconds; whatever takes this long hangs.
const LONGEST: Duration = Duration::from_secs(20);

/// So often a start is measured.
const STARTS: usize = 5;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub what: String,
    pub wanted: Expected,
    /// In the system's words, or ours.
    pub happened: String,
    pub holds: Holds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Works,
    Refused,
    /// It is only measured.
    Known,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    Yes,
    /// It does not, this kind of cage never claimed that it would, and the documentation says so.
    NotClaimed,
    No,
}

/// Which cages claim to deal with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It is so without a cage too.
    Always,
    Cages,
    /// Those that have a view of the mounts of their own.
    Views,
    /// The same, and any cage of somebody who does not own the devices.
    Devices,
    /// None; the documentation says so.
    Nobody,
}

impl Claim {
    fn is_of(self, kind: Kind) -> bool {
        match (self, kind) {
            (Claim::Always, _) => true,
            (Claim::Nobody, _) | (_, Kind::None) => false,
            (Claim::Cages, Kind::Bwrap | Kind::Landlock) => true,
            (Claim::Views, kind) => kind.has_own_view(),
            (Claim::Devices, kind) => kind.has_own_view() || !rustix::process::geteuid().is_root(),
        }
    }
}

/// What is tried by writing: the word of the trial, how it is told, and who claims to deal with it.
type TrialLine = (&'static str, &'static str, Expected, Claim);

const LINES: [TrialLine; 24] = [
    ("inside", "make, change, move and delete files inside", Expected::Works, Claim::Always),
    ("null", "write to /dev/null", Expected::Works, Claim::Always),
    ("create", "make a file outside", Expected::Refused, Claim::Cages),
    ("dots", "make a file outside by way of `..`", Expected::Refused, Claim::Cages),
    ("way-out", "make a file outside through a symbolic link", Expected::Refused, Claim::Cages),
    ("proc", "make a file outside through /proc/PID/root", Expected::Refused, Claim::Cages),
    ("overwrite", "overwrite a file outside", Expected::Refused, Claim::Cages),
    ("append", "append to a file outside", Expected::Refused, Claim::Cages),
    ("truncate", "truncate a file outside", Expected::Refused, Claim::Cages),
    ("delete", "delete a file outside", Expected::Refused, Claim::Cages),
    ("rename", "rename a file outside", Expected::Refused, Claim::Cages),
    ("folder", "make a folder outside", Expected::Refused, Claim::Cages),
    ("symlink", "make a symbolic link outside", Expected::Refused, Claim::Cages),
    ("link", "write a file outside by a new hard link", Expected::Refused, Claim::Cages),
    ("temporary", "make a file in /tmp", Expected::Refused, Claim::Cages),
    ("signal", "signal a process outside", Expected::Refused, Claim::Cages),
    ("limits", "limit a process outside", Expected::Refused, Claim::Cages),
    ("priority", "slow a process outside down", Expected::Refused, Claim::Cages),
    (ABSTRACT, "ask a program outside over an abstract socket", Expected::Refused, Claim::Cages),
    (DEVICE, "change the mode of a device", Expected::Refused, Claim::Devices),
    ("mode", "change the mode of a file outside", Expected::Refused, Claim::Views),
    ("times", "change the times of a file outside", Expected::Refused, Claim::Views),
    ("linked", "write through a hard link made beforehand", Expected::Refused, Claim::Nobody),
    (DOOR, "ask a program outside over a Unix socket", Expected::Refused, Claim::Nobody),
];

/// Of these a cage that holds must hold all.
const ESSENTIAL: [&str; 7] = ["inside", "null", "create", "way-out", "overwrite", "delete", "rename"];

/// Whether it holds what matters most, in a few milliseconds.
pub(super) fn try_out(guard: &Guard, kind: Kind, scratch: &Path) -> Result<(), String> {
    let stage = Stage::make(scratch).map_err(|error| format!("it cannot be tried: {error}"))?;
    let said = stage.write(guard, kind)?;
    let failed =
        lines(kind, &said).find(|(word, trial)| ESSENTIAL.contains(word) && trial.holds == Holds::No);
    match failed {
        None => stage.untouched(&["mode", "times", "linked", "truncate"]),
        Some((_, trial)) => Err(format!("{}: {}", trial.what, trial.happened)),
    }
}

/// Everything that a cage claims, and what it does not, tried one by one. For people who ask what holds here.
/// `hidden` are the places of this machine that a job must not read.
pub fn prove(guard: &Guard, kind: Kind, scratch: &Path, hidden: &[PathBuf]) -> Vec<Trial> {
    let stage = match Stage::make(scratch) {
        Ok(stage) => stage.hiding(hidden),
        Err(error) => return vec![failed("make a folder for trials", &error.to_string())],
    };
    let said = match stage.write(guard, kind) {
        Ok(said) => said,
        Err(why) => return vec![failed("start a program", &why)],
    };
    let could_be_tried = |word: &str| match word {
        DOOR => stage.door.is_some(),
        ABSTRACT => stage.abstract_door.is_some(),
        // Nobody else owns one.
        DEVICE => rustix::process::geteuid().is_root(),
        _ => true,
    };
    let mut trials: Vec<Trial> =
        lines(kind, &said).filter(|(word, _)| could_be_tried(word)).map(|(_, trial)| trial).collect();
    trials.extend(stage.read(guard, kind));
    trials.extend(stage.network(guard, kind, &Network::On));
    trials.extend(stage.network(guard, kind, &Network::Off));
    if kind == Kind::Bwrap {
        trials.extend(stage.hosts(guard));
    }
    trials.push(stage.nobody_left(guard, kind));
    trials.push(stage.cost("start a program", guard, kind, &Network::On));
    if kind == Kind::Bwrap {
        let what = "start one with a list of hosts";
        trials.push(stage.cost(what, guard, kind, &Network::Hosts(Hosts::default())));
    }
    trials
}

/// Whether whatever a job starts dies with it, in a cage or not.
pub fn leaves_nobody(guard: &Guard, scratch: &Path) -> Trial {
    match Stage::make(scratch) {
        Ok(stage) => stage.nobody_left(guard, Kind::None),
        Err(error) => failed("make a folder for trials", &error.to_string()),
    }
}

fn failed(what: &str, why: &str) -> Trial {
    Trial { what: what.to_owned(), wanted: Expected::Works, happened: why.to_owned(), holds: Holds::No }
}

fn lines(kind: Kind, said: &BTreeMap<String, String>) -> impl Iterator<Item = (&'static str, Trial)> {
    LINES.iter().map(move |(word, what, wanted, claim)| {
        let happened = said.get(*word).map_or("nothing was said", String::as_str);
        (*word, trial(what, *wanted, happened, claim.is_of(kind)))
    })
}

fn trial(what: &str, wanted: Expected, happened: &str, is_claimed: bool) -> Trial {
    let as_wanted = match wanted {
        Expected::Works => happened == "ok",
        Expected::Refused => happened != "ok",
        Expected::Known => true,
    };
    let holds = match (as_wanted, is_claimed) {
        (true, _) => Holds::Yes,
        (false, true) => Holds::No,
        (false, false) => Holds::NotClaimed,
    };
    let happened = if happened == "ok" { "it works".to_owned() } else { happened.to_owned() };
    Trial { what: what.to_owned(), wanted, happened, holds }
}

/// A folder for one trial, with a part inside the cage and one outside.
struct Stage {
    folder: PathBuf,
    /// So that somebody listens at the door.
    door: Option<UnixListener>,
    /// The same under a name that no folder holds.
    abstract_door: Option<UnixListener>,
    abstract_name: String,
    /// What the job must not read: two places of its own, and those of this machine.
    hidden: Vec<PathBuf>,
}

/// Of the stage's own: a file, and a folder with a file in it.
const HIDDEN_FILE: &str = "key.json";
const HIDDEN_FOLDER: &str = "keys";

/// So deep and so many entries are looked at for a file that shows whether a folder can be read.
const DEEPEST: usize = 4;
const MOST_LOOKED_AT: usize = 200;

impl Stage {
    fn make(scratch: &Path) -> io::Result<Stage> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = scratch.canonicalize()?.join(format!("cage-{}-{count}", std::process::id()));
        match fs::remove_dir_all(&folder) {
            // One of a process that was killed and had our number.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (inside, outside) = (folder.join("in"), folder.join("out"));
        fs::create_dir_all(&inside)?;
        fs::create_dir(&outside)?;
        for victim in VICTIMS {
            fs::write(outside.join(victim), victim)?;
        }
        fs::write(outside.join(LINKED), LINKED)?;
        // Where there are no hard links there is nothing to try, and the trial makes a file of its own.
        let _ = fs::hard_link(outside.join(LINKED), inside.join(LINKED));
        symlink(&outside, inside.join(WAY_OUT))?;
        // The name of a socket is short; in a deep folder there is none.
        let door = UnixListener::bind(outside.join(DOOR)).ok();
        let abstract_name = format!("aot-trial-{}-{count}", std::process::id());
        let abstract_door = super::trial::abstract_address(&abstract_name).ok();
        let abstract_door = abstract_door.and_then(|address| UnixListener::bind_addr(&address).ok());
        fs::write(outside.join(HIDDEN_FILE), "a key")?;
        fs::create_dir(outside.join(HIDDEN_FOLDER))?;
        fs::write(outside.join(HIDDEN_FOLDER).join("key"), "another key")?;
        let hidden = [HIDDEN_FILE, HIDDEN_FOLDER].map(|name| outside.join(name)).to_vec();
        Ok(Stage { folder, door, abstract_door, abstract_name, hidden })
    }

    fn hiding(mut self, hidden: &[PathBuf]) -> Stage {
        self.hidden.extend_from_slice(hidden);
        self
    }

    fn inside(&self) -> PathBuf {
        self.folder.join("in")
    }

    fn outside(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn write(&self, guard: &Guard, kind: Kind) -> Result<BTreeMap<String, String>, String> {
        let supervisor = super::trial::name_of_process(std::process::id());
        let (inside, outside) = (self.inside(), self.outside());
        let words = ["write".into(), inside, outside, supervisor.into(), (&self.abstract_name).into()];
        said(self.run(guard, Some((kind, Network::On)), &words))
    }

    /// What was outside is still there as it was, save what no cage of this kind protects.
    fn untouched(&self, save: &[&str]) -> Result<(), String> {
        let outside = self.outside();
        for name in VICTIMS.iter().filter(|name| !save.contains(name)) {
            match fs::read(outside.join(name)) {
                Ok(text) if text == name.as_bytes() => {}
                Ok(_) => return Err(format!("a file outside was changed ({name})")),
                Err(_) => return Err(format!("a file outside is gone ({name})")),
            }
        }
        let count = fs::read_dir(&outside).map_err(|error| error.to_string())?.count();
        let expected = VICTIMS.len() + 3 + usize::from(self.door.is_some());
        if count == expected { Ok(()) } else { Err("there are new files outside".into()) }
    }

    /// Each hidden place, by a file in it that we can read ourselves. An empty one shows nothing.
    fn read(&self, guard: &Guard, kind: Kind) -> Vec<Trial> {
        let witnesses: Vec<(&PathBuf, PathBuf, String)> = self
            .hidden
            .iter()
            .filter_map(|place| {
                let file = file_in(place, DEEPEST)?;
                let digest = super::trial::digest(&file).ok()?;
                Some((place, file, digest))
            })
            .collect();
        let files = witnesses.iter().map(|(_, file, _)| file.clone());
        let words: Vec<PathBuf> = [PathBuf::from("read")].into_iter().chain(files).collect();
        let said = match said(self.run(guard, Some((kind, Network::On)), &words)) {
            Ok(said) => said,
            Err(why) => return vec![failed("read what is hidden", &why)],
        };
        let outside = self.outside();
        let tried = witnesses.iter().enumerate().map(|(number, (place, _, digest))| {
            let what = match place.strip_prefix(&outside) {
                Ok(own) if own == Path::new(HIDDEN_FILE) => "read a hidden file".to_owned(),
                Ok(_) => "read a file in a hidden folder".to_owned(),
                Err(_) => format!("read {}", place.display()),
            };
            let happened = match said.get(&number.to_string()) {
                Some(told) if told == digest => "ok",
                // Something else stood in its place.
                Some(told) if told.len() == digest.len() && !told.contains(' ') => "nothing is there",
                Some(told) => told,
                None => "nothing was said",
            };
            trial(&what, Expected::Refused, happened, Claim::Cages.is_of(kind))
        });
        tried.collect()
    }

    fn network(&self, guard: &Guard, kind: Kind, network: &Network) -> Vec<Trial> {
        let (tcp, udp, wanted) = match network {
            Network::On => ("use TCP with the network on", "use UDP with the network on", Expected::Works),
            Network::Off | Network::Hosts(_) => {
                ("use TCP with the network off", "use UDP with the network off", Expected::Refused)
            }
        };
        let said = (|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            let ports = [listener.local_addr()?.port(), socket.local_addr()?.port()];
            let [tcp, udp] = ports.map(|port| PathBuf::from(port.to_string()));
            let ended = self.run(guard, Some((kind, network.clone())), &["network".into(), tcp, udp]);
            let mut said = said(ended).map_err(io::Error::other)?;
            // What was sent is here already, if it came at all: on this machine nothing is on its way.
            if socket.recv(&mut [0; 8]).is_err() {
                said.entry("udp".into()).and_modify(|how| {
                    if how == "ok" {
                        *how = "nothing arrives".into();
                    }
                });
            }
            io::Result::Ok(said)
        })();
        let said = match said {
            Ok(said) => said,
            Err(error) => return vec![failed(tcp, &error.to_string())],
        };
        let claim = match network {
            Network::On => Claim::Always,
            Network::Off | Network::Hosts(_) => Claim::Cages,
        };
        let how = |word: &str| said.get(word).map_or("nothing was said", String::as_str);
        vec![
            trial(tcp, wanted, how("tcp"), claim.is_of(kind)),
            trial(udp, wanted, how("udp"), claim.is_of(kind)),
        ]
    }

    /// One port of this machine is on the list, another is not.
    fn hosts(&self, guard: &Guard) -> Vec<Trial> {
        const NAMED: &str = "reach a host that is on the list";
        let said = (|| {
            let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
            let (named, other) = (listen()?, listen()?);
            let (open, closed) = (named.local_addr()?.port(), other.local_addr()?.port());
            let hosts = Hosts::default().and([format!("localhost:{open}")]);
            let words = ["hosts".to_owned(), open.to_string(), closed.to_string()].map(PathBuf::from);
            said(self.run(guard, Some((Kind::Bwrap, Network::Hosts(hosts))), &words))
                .map_err(io::Error::other)
        })();
        let said = match said {
            Ok(said) => said,
            Err(error) => return vec![failed(NAMED, &error.to_string())],
        };
        let how = |word: &str| said.get(word).map_or("nothing was said", String::as_str);
        let refused = |what: &str, word: &str| trial(what, Expected::Refused, how(word), true);
        vec![
            trial(NAMED, Expected::Works, how("named"), true),
            refused("reach another host by the proxy", "other"),
            refused("reach another host past the proxy", "past"),
            refused("send to one past the proxy (UDP)", "udp"),
            refused("ask the host of a virtual machine", "vsock"),
        ]
    }

    /// The one that is left behind holds a lock; once it is dead, the lock can be had.
    fn nobody_left(&self, guard: &Guard, kind: Kind) -> Trial {
        const WHAT: &str = "leave a process behind in a session of its own";
        let lock = self.inside().join("lock");
        let ended = self.run(guard, Some((kind, Network::On)), &["leave".into(), lock.clone()]);
        match ended {
            Ok(Ended { how: How::Exited(0), .. }) => {}
            Ok(ended) => return failed(WHAT, &format!("it could not be tried: {:?}", ended.how)),
            Err(error) => return failed(WHAT, &error.to_string()),
        }
        let gone = File::open(&lock).is_ok_and(|file| file.try_lock().is_ok());
        trial(WHAT, Expected::Refused, if gone { "it was killed with the job" } else { "ok" }, true)
    }

    fn cost(&self, what: &str, guard: &Guard, kind: Kind, network: &Network) -> Trial {
        let median = |cage: Option<(Kind, Network)>| {
            let mut times = Vec::new();
            for _ in 0..STARTS {
                let ended = self.run(guard, cage.clone(), &["nothing".into()])?;
                match ended.how {
                    How::Exited(0) => times.push(ended.took),
                    how => return Err(io::Error::other(format!("{how:?}"))),
                }
            }
            times.sort();
            Ok(times[STARTS / 2].as_secs_f64() * 1_000.0)
        };
        match (median(Some((kind, network.clone()))), median(None)) {
            (Ok(with), Ok(without)) => Trial {
                what: what.to_owned(),
                wanted: Expected::Known,
                happened: format!("{with:.1} ms, {without:.1} ms without"),
                holds: Holds::Yes,
            },
            (Err(error), _) | (_, Err(error)) => failed(what, &error.to_string()),
        }
    }

    fn run(&self, guard: &Guard, cage: Option<(Kind, Network)>, words: &[PathBuf]) -> io::Result<Ended> {
        let cage = cage.map(|(kind, network)| Cage {
            kind,
            writable: vec![self.inside()],
            read_only: Vec::new(),
            hidden: self.hidden.clone(),
            covered: Vec::new(),
            network,
        });
        guard.run(&Job {
            program: guard.program.clone().into_os_string(),
            arguments: [PathBuf::from(WORD)].iter().chain(words).map(|word| word.clone().into()).collect(),
            folder: self.inside(),
            environment: Environment::Only(Vec::new()),
            input: Input::None,
            streams: Streams::Together,
            limits: Limits { wall: LONGEST, idle: None, grace: Duration::ZERO, head: 16 << 10, tail: 0 },
            cage,
        })
    }
}

/// A file with something in it, at this place or within.
fn file_in(place: &Path, deep: usize) -> Option<PathBuf> {
    let meta = fs::symlink_metadata(place).ok()?;
    if meta.is_file() {
        return (meta.len() > 0 && File::open(place).is_ok()).then(|| place.to_path_buf());
    }
    let entries = fs::read_dir(place).ok().filter(|_| meta.is_dir() && deep > 0)?;
    entries.flatten().take(MOST_LOOKED_AT).find_map(|entry| file_in(&entry.path(), deep - 1))
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left of a trial is in nobody's way.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a trial said, if it came to an end.
fn said(ended: io::Result<Ended>) -> Result<BTreeMap<String, String>, String> {
    let ended = ended.map_err(|error| error.to_string())?;
    let bytes = ended.output.whole().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match ended.how {
        How::Exited(0) => {
            let pairs = text.lines().filter_map(|line| line.split_once('\t'));
            Ok(pairs.map(|(word, how)| (word.to_owned(), how.to_owned())).collect())
        }
        How::NotStarted(why) | How::NoProgram(why) => match text.lines().next() {
            Some(first) => Err(format!("{why}: {first}")),
            None => Err(why),
        },
        How::Exited(_) | How::Signalled(_) | How::OutOfTime | How::Silent | How::Killed | How::Lost => {
            Err(format!("the trial did not come to its end: {:?}", ended.how))
        }
    }
}
