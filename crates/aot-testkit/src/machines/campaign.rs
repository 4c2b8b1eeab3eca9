//! Rounds of one loop on three hosts, in which hosts, the server and the driver are killed at random moments. What must hold
//! afterwards: completed, every atom landed once, the tree of a local run, nothing left running, and nothing was run twice
//! but what a killed host had begun.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Machines;
use crate::project::{Loop, Project, STATE};
use crate::random::Random;

/// Solved atoms; the group has a choice more, which fails.
pub const ATOMS: usize = 40;

const HOSTS: [&str; 3] = ["one", "two", "three"];
const SLOTS: &str = "3";

/// No disturbed run takes this long unless it hangs.
const ROUND: Duration = Duration::from_secs(180);

/// What can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Machine {
    Host(usize),
    Server,
    Driver,
}

/// When something is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// So long after the start of the round.
    After(Duration),
    /// When so many atoms have landed.
    Landed(usize),
}

/// One kill: when, whom, and how long it is away.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    pub at: Moment,
    pub whom: Machine,
    pub away: Duration,
}

/// What a round came to.
#[derive(Debug, Default)]
pub struct RoundOnMachines {
    pub kills: Vec<Kill>,
    pub took: Duration,
    /// Commands that were started, and those of them that a killed host lost.
    pub runs: usize,
    pub runs_again: usize,
    pub landed: usize,
    /// What did not hold, and where it can be looked at.
    pub broken: Option<(String, PathBuf)>,
}

#[derive(Debug, Default)]
pub struct MachinesTally {
    pub rounds: usize,
    pub kills: BTreeMap<&'static str, usize>,
    pub runs: usize,
    pub runs_again: usize,
    pub landed: usize,
    pub took: Duration,
    pub broken: Vec<(u64, String, PathBuf)>,
}

/// The tree that a local run makes, and how long it takes.
#[derive(Debug)]
pub struct LocalRun {
    pub tree: String,
    pub took: Duration,
}

impl Moment {
    fn is_here(self, now: Duration, project: &Project) -> bool {
        match self {
            Moment::After(after) => after <= now,
            Moment::Landed(count) => project.landed().len() >= count,
        }
    }
}

/// The project: layers of four atoms, of which each needs the one before it, and a group whose first choice fails.
pub fn project(aot: &Path) -> Project {
    let project = Project::new(aot, "[cage]\nkind = \"none\"\n");
    let log = project.note("runs").display().to_string();
    let run = |id: usize, work: &str| {
        format!("set -e; echo \"A{id} $HOME\" >> {log}; sleep 0.{}; {work}", 1 + id % 3)
    };
    let atom = |id: usize, after: &[usize], more: &str, work: &str| {
        let after: Vec<String> = after.iter().map(|id| format!("A{id}")).collect();
        format!(
            "  - {{id: A{id}, description: \"Do A{id}\", status: pending, depends_on: [{}]{more}, run: {:?}}}\n",
            after.join(", "),
            run(id, work)
        )
    };
    let mut atoms = String::new();
    for id in 1..=36 {
        let after = match id {
            1..=4 => Vec::new(),
            _ if id % 4 == 1 => vec![id - 4, id - 1],
            _ => vec![id - 4],
        };
        let sources: String = after.iter().map(|id| format!(" files/{id}")).collect();
        let check = format!(", check: {{type: command, value: \"test -s files/{id}\"}}");
        let more = if id % 5 == 0 { check.as_str() } else { "" };
        let work = format!("mkdir -p files; cat /dev/null{sources} > files/{id}; echo {id} >> files/{id}");
        atoms += &atom(id, &after, more, &work);
    }
    atoms += &atom(37, &[36], ", or_group: way", "echo no >&2; exit 3");
    atoms += &atom(38, &[36], ", or_group: way", "echo way > way");
    atoms += &atom(39, &[37], "", "cat way > files/39");
    atoms += &atom(40, &[10, 20], "", "cat files/10 files/20 > files/40");
    atoms += &atom(41, &[33, 34, 35, 39, 40], "", "cat files/* > last");
    let text = Loop {
        base_case: "      - {item: \"The last is there\", check: {type: command, value: \"test -s last\"}}",
        constraints: "max_iterations: 2000, max_parallel_agents: 8, max_stall_count: 500, max_wall_time: 1h",
        objective: "",
        atoms: &atoms,
        or_groups: "  way: {choices: [A37, A38], selected: A37, failed: []}",
    }
    .text();
    project.write("README", "A project.\n");
    project.init();
    project.write(STATE, &text);
    project
}

/// Runs it on this machine.
pub fn local(aot: &Path) -> LocalRun {
    let project = project(aot);
    let began = Instant::now();
    let said = project.aot(&["run", "--json"]);
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stdout));
    LocalRun { tree: tree(&project), took: began.elapsed() }
}

fn tree(project: &Project) -> String {
    project.git(&["rev-parse", "HEAD^{tree}"]).expect("a tree")
}

/// Random kills: up to two of each kind, while the run lasts.
pub fn random_kills(random: &mut Random, local: &LocalRun) -> Vec<Kill> {
    let span = local.took.as_millis() as u64 * 3;
    let mut kills = Vec::new();
    for whom in [Machine::Host(random.below(HOSTS.len())), Machine::Server, Machine::Driver] {
        for _ in 0..random.between(0, 2) {
            let away = match whom {
                Machine::Host(_) => random.between(0, 4000),
                Machine::Server => random.between(0, 2000),
                Machine::Driver => random.between(0, 500),
            };
            let at = Duration::from_millis(random.between(100, span));
            kills.push((at, Kill { at: Moment::After(at), whom, away: Duration::from_millis(away) }));
        }
    }
    kills.sort_by_key(|(at, _)| *at);
    kills.into_iter().map(|(_, kill)| kill).collect()
}

/// One round with these kills.
pub fn round(aot: &Path, server: &Path, kills: &[Kill], local: &LocalRun) -> RoundOnMachines {
    let mut machines = Machines::new(aot, server, project(aot), "[cage]\nkind = \"none\"\n");
    for name in HOSTS {
        machines.add(name, &["--slots", SLOTS]);
    }
    let began = Instant::now();
    let mut done = RoundOnMachines::default();
    let mut killed = BTreeSet::new();
    let result = disturb(&mut machines, kills, &mut done.kills, &mut killed)
        .and_then(|()| judge(&machines, local, &killed, &mut done));
    done.took = began.elapsed();
    if let Err(what) = result {
        let heard: Vec<String> = machines.hosts.iter_mut().flat_map(|host| host.listen().to_vec()).collect();
        std::fs::write(machines.project.note("hosts"), heard.join("\n")).expect("a file");
        let (project, place) = machines.keep();
        done.broken = Some((format!("{what}; the machines: {}", place.display()), project));
    }
    done
}

/// Drives the loop to its end through the kills.
fn disturb(
    machines: &mut Machines,
    kills: &[Kill],
    done: &mut Vec<Kill>,
    killed: &mut BTreeSet<PathBuf>,
) -> Result<(), String> {
    let began = Instant::now();
    let mut left = kills.iter().copied().peekable();
    let mut back: Vec<(Duration, Machine)> = Vec::new();
    let mut driver = Some(drive(machines));
    loop {
        let now = began.elapsed();
        if now > ROUND {
            driver.iter_mut().for_each(|child| drop(child.kill()));
            return Err("it does not end".into());
        }
        if let Some(child) = &mut driver
            && let Some(status) = child.try_wait().map_err(|error| error.to_string())?
        {
            // One that begins while the server is away says so and ends; a person starts it again.
            if status.code() != Some(0) && finds_no_server(&machines.project) {
                driver = None;
                back.push((now + Duration::from_secs(1), Machine::Driver));
                continue;
            }
            // Whoever is away when it ends comes back, so that everything can be looked at.
            for (_, whom) in back {
                come_back(machines, whom, &mut None);
            }
            return match status.code() {
                Some(0) => Ok(()),
                code => Err(format!("the run ended with {code:?}")),
            };
        }
        if let Some(at) = back.iter().position(|(at, _)| *at <= now) {
            let (_, whom) = back.swap_remove(at);
            come_back(machines, whom, &mut driver);
            continue;
        }
        if let Some(kill) = left.next_if(|kill| kill.at.is_here(now, &machines.project)) {
            if !back.iter().any(|(_, whom)| *whom == kill.whom) {
                strike(machines, kill.whom, &mut driver, killed);
                back.push((now + kill.away, kill.whom));
                done.push(kill);
            }
            continue;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn finds_no_server(project: &Project) -> bool {
    project.read_note("out").lines().last().is_some_and(|line| line.contains("\"code\":\"engine\""))
}

fn drive(machines: &Machines) -> Child {
    let out = std::fs::OpenOptions::new().create(true).append(true).open(machines.project.note("out"));
    let out = out.expect("a file");
    let mut command: Command = machines.run(&["--host-timeout", "3s"]);
    command.stderr(out.try_clone().expect("a descriptor")).stdout(out).stdin(Stdio::null());
    command.spawn().expect("the driver starts")
}

fn strike(
    machines: &mut Machines,
    whom: Machine,
    driver: &mut Option<Child>,
    killed: &mut BTreeSet<PathBuf>,
) {
    match whom {
        Machine::Host(number) => {
            let host = &mut machines.hosts[number];
            host.kill();
            killed.insert(host.home.clone());
        }
        Machine::Server => machines.server.kill(),
        Machine::Driver => {
            if let Some(mut child) = driver.take() {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn come_back(machines: &mut Machines, whom: Machine, driver: &mut Option<Child>) {
    match whom {
        // It says that it is ready when the server is; nobody waits for that here.
        Machine::Host(number) => machines.restart_later(number),
        Machine::Server => machines.server.start(),
        Machine::Driver => *driver = Some(drive(machines)),
    }
}

/// What must hold after a round.
fn judge(
    machines: &Machines,
    local: &LocalRun,
    killed: &BTreeSet<PathBuf>,
    done: &mut RoundOnMachines,
) -> Result<(), String> {
    let project = &machines.project;
    let landed = project.landed();
    done.landed = landed.len();
    let once: BTreeSet<&String> = landed.iter().collect();
    if landed.len() != ATOMS || once.len() != ATOMS {
        return Err(format!("{} landings of {} atoms: {landed:?}", landed.len(), once.len()));
    }
    if tree(project) != local.tree {
        return Err("the tree is not that of a local run".into());
    }
    let mut runs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for line in project.read_note("runs").lines() {
        let (atom, home) = line.split_once(' ').unwrap_or((line, ""));
        runs.entry(atom.to_owned()).or_default().push(PathBuf::from(home));
    }
    done.runs = runs.values().map(Vec::len).sum();
    for (atom, homes) in &runs {
        let lost = homes.iter().filter(|home| killed.contains(*home)).count();
        done.runs_again += homes.len() - 1;
        if homes.len() - 1 > lost {
            return Err(format!("{atom} was run {} times, {lost} of them on killed hosts", homes.len()));
        }
    }
    let left = machines.survivors();
    if !left.is_empty() {
        return Err(format!("still at work: {left:?}"));
    }
    let kept = std::fs::read_dir(project.path(".claude/aot/remote")).into_iter().flatten().count();
    if kept > 0 {
        return Err(format!("{kept} records of jobs stay"));
    }
    Ok(())
}

/// So many rounds with random kills.
pub fn campaign(aot: &Path, server: &Path, seed: u64, rounds: usize) -> MachinesTally {
    let began = Instant::now();
    let local = local(aot);
    let mut tally = MachinesTally::default();
    for number in 0..rounds {
        let seed = seed.wrapping_add(number as u64);
        let kills = random_kills(&mut Random::new(seed), &local);
        let done = round(aot, server, &kills, &local);
        tally.add(seed, done);
        if (number + 1) % 10 == 0 {
            println!("{} of {rounds} rounds, {} broken", number + 1, tally.broken.len());
        }
    }
    tally.took = began.elapsed();
    tally
}

impl MachinesTally {
    fn add(&mut self, seed: u64, done: RoundOnMachines) {
        self.rounds += 1;
        for kill in &done.kills {
            *self.kills.entry(kill.whom.name()).or_default() += 1;
        }
        self.runs += done.runs;
        self.runs_again += done.runs_again;
        self.landed += done.landed;
        self.broken.extend(done.broken.map(|(what, place)| (seed, what, place)));
    }
}

impl Machine {
    fn name(self) -> &'static str {
        match self {
            Machine::Host(_) => "host",
            Machine::Server => "server",
            Machine::Driver => "driver",
        }
    }
}

impl fmt::Display for MachinesTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MachinesTally { rounds, kills, runs, runs_again, landed, took, broken } = self;
        writeln!(f, "{rounds} rounds in {} s", took.as_secs())?;
        for (whom, count) in kills {
            writeln!(f, "  {count:5}  {whom} killed")?;
        }
        writeln!(f, "  {runs:5}  commands run, {runs_again} of them again because their host was killed")?;
        writeln!(f, "  {landed:5}  atoms landed of {}", rounds * ATOMS)?;
        for (seed, what, place) in broken {
            writeln!(f, "broken: AOT_SEED={seed}: {what}; look at {}", place.display())?;
        }
        write!(f, "{} passed, {} failed", rounds - broken.len(), broken.len())
    }
}
