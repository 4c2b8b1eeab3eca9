//! Loops on several hosts: each has a home of its own, and a real Restate server is between them and the driver.

mod guide;
mod kills;
mod parted;
mod placed;
mod steered;
mod strangers;
mod told;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use aot_testkit::machines::{Machines, server_program};
use aot_testkit::project::{Loop, Project, STATE};
use serde_json::Value;

use crate::repo::LONG;
use crate::scene::is_here;

/// The speed of cages is not what most of these tests are about.
const NO_CAGE: &str = "[cage]\nkind = \"none\"\n";

const CONSTRAINTS: &str = "max_iterations: 200, max_parallel_agents: 8, max_stall_count: 20";

fn aot() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_aot"))
}

/// The server, if it is here.
fn server() -> Option<PathBuf> {
    is_here("restate-server").then(|| server_program(aot()).expect("it is here"))
}

/// A project with these atoms, done when this file is there.
fn project(atoms: &str, groups: &str, done: &str) -> Project {
    let project = Project::new(aot(), NO_CAGE);
    project.write("README", "A project.\n");
    project.init();
    let base_case = format!("      - {{item: \"It is there\", check: {{type: file, value: {done}}}}}");
    let plan =
        Loop { base_case: &base_case, constraints: CONSTRAINTS, objective: "", atoms, or_groups: groups };
    project.write(STATE, &plan.text());
    project
}

/// The driver's machine, the server, and hosts with two slots each.
fn machines(project: Project, hosts: &[&str]) -> Option<Machines> {
    let mut machines = Machines::new(aot(), &server()?, project, NO_CAGE);
    for host in hosts {
        machines.add(host, &["--slots", "2"]);
    }
    Some(machines)
}

/// An atom that runs a command.
fn atom(id: &str, after: &str, more: &str, run: &str) -> String {
    format!(
        "  - {{id: {id}, description: \"Do {id}\", status: pending, depends_on: [{after}]{more}, run: {run:?}}}\n"
    )
}

/// A driver at work, and what it says line by line.
struct Driver {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Driver {
    fn start(machines: &Machines, more: &[&str]) -> Driver {
        Driver::of(machines.run(more))
    }

    /// Another verb that goes on.
    fn of(mut command: Command) -> Driver {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (sender, lines) = channel();
        let (out, err) = (child.stdout.take().expect("asked for"), child.stderr.take().expect("asked for"));
        let also = sender.clone();
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).all(|line| also.send(line).is_ok())
        });
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        Driver { child, lines, heard: Vec::new() }
    }

    /// Waits for a line with this.
    fn hear(&mut self, what: &str) -> String {
        let began = Instant::now();
        loop {
            match self.lines.recv_timeout(LONG.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(what) {
                        return line;
                    }
                }
                Err(_) => panic!("it never said {what:?}:\n{}", self.heard.join("\n")),
            }
        }
    }

    /// Waits for its end: the exit code and all that it said.
    fn end(mut self) -> (i32, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            if began.elapsed() > LONG {
                let _ = self.child.kill();
                self.heard.extend(self.lines.iter());
                panic!("it does not end:\n{}", self.heard.join("\n"));
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        self.heard.extend(self.lines.iter());
        (status.code().unwrap_or(-1), self.heard.join("\n"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // After a failed assertion it may be at work still.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.heard.extend(self.lines.try_iter());
            eprintln!("the driver said:\n{}", self.heard.join("\n"));
        }
    }
}

/// Runs the loop on these machines to its halt.
fn run(machines: &Machines) -> (i32, String) {
    Driver::start(machines, &[]).end()
}

/// What the loop's status says, as an object.
fn status(machines: &Machines) -> Value {
    let said = machines.project.aot(&["status", "--json"]);
    serde_json::from_slice(&said.stdout).expect("JSON")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "it never came: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
