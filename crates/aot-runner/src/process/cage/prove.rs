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

use super::trial::{DOOR, LINKED, VICTIMS, WAY_OUT, WORD};
use super::{Cage, Kind, Network};
use crate::process::{Ended, Environment, Guard, How, Input, Job, Limits, Streams};

/// A trial takes milliseconds; whatever takes this long hangs.
const LONGEST: Duration = Duration::from_secs(20);

/// So often a start is measured.
const STARTS: usize = 5;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub what: &'static str,
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

/// What is tried by writing: the word of the trial, how it is told, and which cages claim to deal with it.
type TrialLine = (&'static str, &'static str, Expected, &'static [Kind]);

const BOTH: &[Kind] = &[Kind::Bwrap, Kind::Landlock];

const LINES: [TrialLine; 20] = [
    (
        "inside",
        "make, change, move and delete files inside",
        Expected::Works,
        &[Kind::Bwrap, Kind::Landlock, Kind::None],
    ),
    ("null", "write to /dev/null", Expected::Works, &[Kind::Bwrap, Kind::Landlock, Kind::None]),
    ("create", "make a file outside", Expected::Refused, BOTH),
    ("dots", "make a file outside by way of `..`", Expected::Refused, BOTH),
    ("way-out", "make a file outside through a symbolic link", Expected::Refused, BOTH),
    ("proc", "make a file outside through /proc/PID/root", Expected::Refused, BOTH),
    ("overwrite", "overwrite a file outside", Expected::Refused, BOTH),
    ("append", "append to a file outside", Expected::Refused, BOTH),
    ("truncate", "truncate a file outside", Expected::Refused, BOTH),
    ("delete", "delete a file outside", Expected::Refused, BOTH),
    ("rename", "rename a file outside", Expected::Refused, BOTH),
    ("folder", "make a folder outside", Expected::Refused, BOTH),
    ("symlink", "make a symbolic link outside", Expected::Refused, BOTH),
    ("link", "write a file outside by a new hard link", Expected::Refused, BOTH),
    ("temporary", "make a file in /tmp", Expected::Refused, BOTH),
    ("signal", "signal a process outside", Expected::Refused, BOTH),
    ("mode", "change the mode of a file outside", Expected::Refused, &[Kind::Bwrap]),
    ("times", "change the times of a file outside", Expected::Refused, &[Kind::Bwrap]),
    ("linked", "write through a hard link made beforehand", Expected::Refused, &[]),
    ("door", "ask a program outside over a Unix socket", Expected::Refused, &[]),
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
pub fn prove(guard: &Guard, kind: Kind, scratch: &Path) -> Vec<Trial> {
    let stage = match Stage::make(scratch) {
        Ok(stage) => stage,
        Err(error) => return vec![failed("make a folder for trials", &error.to_string())],
    };
    let said = match stage.write(guard, kind) {
        Ok(said) => said,
        Err(why) => return vec![failed("start a program", &why)],
    };
    let could_be_tried = |word: &str| word != DOOR || stage.door.is_some();
    let mut trials: Vec<Trial> =
        lines(kind, &said).filter(|(word, _)| could_be_tried(word)).map(|(_, trial)| trial).collect();
    trials.extend(stage.network(guard, kind, Network::On));
    trials.extend(stage.network(guard, kind, Network::Off));
    trials.push(stage.nobody_left(guard, kind));
    trials.push(stage.cost(guard, kind));
    trials
}

/// Whether whatever a job starts dies with it, in a cage or not.
pub fn leaves_nobody(guard: &Guard, scratch: &Path) -> Trial {
    match Stage::make(scratch) {
        Ok(stage) => stage.nobody_left(guard, Kind::None),
        Err(error) => failed("make a folder for trials", &error.to_string()),
    }
}

fn failed(what: &'static str, why: &str) -> Trial {
    Trial { what, wanted: Expected::Works, happened: why.to_owned(), holds: Holds::No }
}

fn lines(kind: Kind, said: &BTreeMap<String, String>) -> impl Iterator<Item = (&'static str, Trial)> {
    LINES.iter().map(move |(word, what, wanted, claimed)| {
        let happened = said.get(*word).map_or("nothing was said", String::as_str);
        (*word, trial(what, *wanted, happened, claimed.contains(&kind)))
    })
}

fn trial(what: &'static str, wanted: Expected, happened: &str, is_claimed: bool) -> Trial {
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
    Trial { what, wanted, happened, holds }
}

/// A folder for one trial, with a part inside the cage and one outside.
struct Stage {
    folder: PathBuf,
    /// So that somebody listens at the door.
    door: Option<UnixListener>,
}

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
        Ok(Stage { folder, door })
    }

    fn inside(&self) -> PathBuf {
        self.folder.join("in")
    }

    fn outside(&self) -> PathBuf {
        self.folder.join("out")
    }

    fn write(&self, guard: &Guard, kind: Kind) -> Result<BTreeMap<String, String>, String> {
        let supervisor = std::process::id().to_string();
        let words = ["write".into(), self.inside(), self.outside(), supervisor.into()];
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
        let expected = VICTIMS.len() + 1 + usize::from(self.door.is_some());
        if count == expected { Ok(()) } else { Err("there are new files outside".into()) }
    }

    fn network(&self, guard: &Guard, kind: Kind, network: Network) -> Vec<Trial> {
        let (tcp, udp, wanted) = match network {
            Network::On => ("use TCP with the network on", "use UDP with the network on", Expected::Works),
            Network::Off => {
                ("use TCP with the network off", "use UDP with the network off", Expected::Refused)
            }
        };
        let said = (|| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            let ports = [listener.local_addr()?.port(), socket.local_addr()?.port()];
            let [tcp, udp] = ports.map(|port| PathBuf::from(port.to_string()));
            let ended = self.run(guard, Some((kind, network)), &["network".into(), tcp, udp]);
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
        let claims = |cages: &[Kind]| network == Network::On || cages.contains(&kind);
        let how = |word: &str| said.get(word).map_or("nothing was said", String::as_str);
        vec![
            trial(tcp, wanted, how("tcp"), claims(BOTH)),
            trial(udp, wanted, how("udp"), claims(&[Kind::Bwrap])),
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

    fn cost(&self, guard: &Guard, kind: Kind) -> Trial {
        const WHAT: &str = "start a program";
        let median = |cage: Option<(Kind, Network)>| {
            let mut times = Vec::new();
            for _ in 0..STARTS {
                let ended = self.run(guard, cage, &["nothing".into()])?;
                match ended.how {
                    How::Exited(0) => times.push(ended.took),
                    how => return Err(io::Error::other(format!("{how:?}"))),
                }
            }
            times.sort();
            Ok(times[STARTS / 2].as_secs_f64() * 1_000.0)
        };
        match (median(Some((kind, Network::On))), median(None)) {
            (Ok(with), Ok(without)) => Trial {
                what: WHAT,
                wanted: Expected::Known,
                happened: format!("{with:.1} ms, {without:.1} ms without"),
                holds: Holds::Yes,
            },
            (Err(error), _) | (_, Err(error)) => failed(WHAT, &error.to_string()),
        }
    }

    fn run(&self, guard: &Guard, cage: Option<(Kind, Network)>, words: &[PathBuf]) -> io::Result<Ended> {
        let cage = cage.map(|(kind, network)| Cage {
            kind,
            writable: vec![self.inside()],
            read_only: Vec::new(),
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
        How::NotStarted(why) => match text.lines().next() {
            Some(first) => Err(format!("{why}: {first}")),
            None => Err(why),
        },
        How::Exited(_) | How::Signalled(_) | How::OutOfTime | How::Silent | How::Killed | How::Lost => {
            Err(format!("the trial did not come to its end: {:?}", ended.how))
        }
    }
}
