//! A host that cannot be reached for a while: in a network namespace whose link is cut; where the system has none, a host
//! that stands still.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::{Driver, NO_CAGE, aot, atom, project, server, wait_until};
use aot_testkit::machines::Machines;
use aot_testkit::project::{Project, STATE};

/// A network of two: the driver and the server are at one end, a host at the other.
struct Network {
    name: String,
    number: u32,
}

impl Network {
    /// Absent where this user or this system cannot make one.
    fn new() -> Option<Network> {
        let number = std::process::id() % 250;
        let network = Network { name: format!("aot{}", std::process::id()), number };
        let (near, far) = (network.near(), network.far());
        let (near_link, far_link) = (network.link(), format!("{}b", network.link()));
        let name = network.name.as_str();
        let steps = [
            vec!["netns", "add", name],
            vec!["link", "add", &near_link, "type", "veth", "peer", "name", &far_link, "netns", name],
        ];
        let near_mask = format!("{near}/30");
        let far_mask = format!("{far}/30");
        let more = [
            vec!["addr", "add", &near_mask, "dev", &near_link],
            vec!["link", "set", &near_link, "up"],
            vec!["-n", name, "addr", "add", &far_mask, "dev", &far_link],
            vec!["-n", name, "link", "set", &far_link, "up"],
            vec!["-n", name, "link", "set", "lo", "up"],
        ];
        let is_made = steps.iter().chain(&more).all(|words| ip(words));
        if !is_made {
            eprintln!("network namespaces cannot be made here: a host stands still instead");
        }
        is_made.then_some(network)
    }

    fn near(&self) -> String {
        format!("10.93.{}.1", self.number)
    }

    fn far(&self) -> String {
        format!("10.93.{}.2", self.number)
    }

    fn link(&self) -> String {
        format!("aot{}", self.number)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&["link", "del", &self.link()]);
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(words: &[&str]) -> bool {
    let done = Command::new("ip").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// The host `far`, and how it is cut off.
struct Parted {
    machines: Machines,
    network: Option<Network>,
}

impl Parted {
    fn new(project: Project) -> Option<Parted> {
        let program = server()?;
        let network = Network::new();
        let (near, far, prefix) = match &network {
            Some(network) => {
                (network.near(), network.far(), vec!["ip", "netns", "exec", network.name.as_str()])
            }
            None => ("127.0.0.1".to_owned(), "127.0.0.1".to_owned(), Vec::new()),
        };
        let mut machines = Machines::in_network(aot(), &program, project, NO_CAGE, &near);
        machines.add_in_network("far", &far, &prefix, &[]);
        Some(Parted { machines, network })
    }

    fn cut(&mut self) {
        match &self.network {
            Some(network) => assert!(ip(&["link", "set", &network.link(), "down"])),
            None => self.machines.host("far").signal(Signal::STOP),
        }
    }

    fn heal(&mut self) {
        match &self.network {
            Some(network) => assert!(ip(&["link", "set", &network.link(), "up"])),
            None => self.machines.host("far").signal(Signal::CONT),
        }
    }
}

/// An atom that says on which host it begins, and ends when it may.
fn waiting() -> Project {
    let project = project("", "", "done");
    let (log, go) = (project.note("log").display().to_string(), project.note("go").display().to_string());
    let run = format!(
        "echo \"${{HOME##*/}}\" >> {log}; while [ \"${{HOME##*/}}\" = far ] && [ ! -e {go} ]; do sleep 0.05; done; echo > done"
    );
    let text = project.read(STATE).replacen("atoms:\n", &format!("atoms:\n{}", atom("A1", "", "", &run)), 1);
    project.write(STATE, &text);
    project
}

#[test]
fn a_parted_host_goes_on_and_what_it_brings_is_taken_when_it_is_back() {
    let Some(mut parted) = Parted::new(waiting()) else { return };
    let driver = Driver::start(&parted.machines, &["--host-timeout", "60s"]);
    wait_until("it has begun", || parted.machines.project.read_note("log") == "far\n");
    parted.cut();
    std::fs::write(parted.machines.project.note("go"), "").expect("a file");
    // It ends while nobody can be told.
    wait_until("the job has ended", || {
        let workers = parted.machines.at_work();
        !workers.iter().any(|(_, kind)| *kind == aot_testkit::project::ProcessKind::Worker)
    });
    parted.heal();
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(parted.machines.project.read_note("log"), "far\n");
    assert_eq!(parted.machines.project.landed(), ["A1"]);
    assert_eq!(parted.machines.survivors(), []);
}

#[test]
fn the_jobs_of_a_parted_host_go_to_others_and_what_it_brings_late_is_refused() {
    let Some(mut parted) = Parted::new(waiting()) else { return };
    let mut driver = Driver::start(&parted.machines, &["--host-timeout", "2s"]);
    wait_until("it has begun", || parted.machines.project.read_note("log") == "far\n");
    parted.cut();
    driver.hear("far has not answered for 2 s: its jobs go to other hosts");
    let near = parted.machines.server.ip().to_owned();
    parted.machines.add_in_network("near", &near, &[], &[]);
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(parted.machines.project.read_note("log"), "far\nnear\n");
    let landed = parted.machines.project.git(&["rev-parse", "main"]);
    std::fs::write(parted.machines.project.note("go"), "").expect("a file");
    if parted.network.is_none() {
        parted.heal();
    }
    // Where work is handed over it reaches: only the fence keeps it out.
    parted.machines.host("far").hear("its result came too late");
    parted.heal();
    assert_eq!(parted.machines.project.git(&["rev-parse", "main"]), landed);
    assert_eq!(parted.machines.project.landed(), ["A1"]);
    assert_eq!(parted.machines.survivors(), []);
}

/// When it is back it ends what others have taken over, and works on; nobody takes it for a host that fails.
#[test]
fn a_host_that_stood_still_gets_jobs_again() {
    let Some(program) = server() else { return };
    let project = project("", "", "done");
    let go = project.note("go").display().to_string();
    let log = project.note("log").display().to_string();
    let wait = format!("echo run >> {log}; while [ ! -e {go} ]; do sleep 0.05; done");
    let atoms: String = (1..=6).map(|n| atom(&format!("A{n}"), "", "", &wait)).collect::<String>()
        + &atom("A7", "A1, A2, A3, A4, A5, A6", "", "echo > done");
    let text = project.read(STATE).replacen("atoms:\n", &format!("atoms:\n{atoms}"), 1);
    project.write(STATE, &text);
    let mut machines = Machines::new(aot(), &program, project, NO_CAGE);
    machines.add("one", &["--slots", "3"]);
    let mut driver = Driver::start(&machines, &["--host-timeout", "2s"]);
    wait_until("all slots have jobs", || machines.project.read_note("log").lines().count() == 3);
    machines.host("one").signal(Signal::STOP);
    driver.hear("one has not answered for 2 s: its jobs go to other hosts");
    machines.host("one").signal(Signal::CONT);
    driver.hear("one answers again");
    std::fs::write(machines.project.note("go"), "").expect("a file");
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert!(!said.contains("left out"), "{said}");
    assert_eq!(machines.survivors(), []);
}
