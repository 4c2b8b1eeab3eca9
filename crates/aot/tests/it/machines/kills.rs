//! Hosts, the server and the driver die in the middle of a loop.

use std::time::Duration;

use aot_testkit::machines::campaign::{self, ATOMS, Kill, Machine, Moment};
use aot_testkit::project::STATE;

use super::told::machines_with_agent;
use super::{Driver, aot, project, server, wait_until};

/// Three hosts, forty atoms with dependencies and a group whose first choice fails; one host, the server and the driver are
/// killed -9 once each. Every atom lands once, the tree is that of a local run, and only what the killed host had begun is
/// run twice.
#[test]
fn a_loop_survives_the_death_of_a_host_of_the_server_and_of_the_driver() {
    let Some(server) = server() else { return };
    let local = campaign::local(aot());
    let kill =
        |landed, whom, away| Kill { at: Moment::Landed(landed), whom, away: Duration::from_millis(away) };
    let kills =
        [kill(6, Machine::Host(1), 3000), kill(16, Machine::Server, 500), kill(26, Machine::Driver, 200)];
    let done = campaign::round(aot(), &server, &kills, &local);
    let whom: Vec<Machine> = done.kills.iter().map(|kill| kill.whom).collect();
    eprintln!(
        "{} atoms landed once, {} commands run, {} of them again, in {:.1} s after {whom:?} were killed; here it takes {:.1} s",
        done.landed,
        done.runs,
        done.runs_again,
        done.took.as_secs_f64(),
        local.took.as_secs_f64()
    );
    assert_eq!(done.broken, None);
    assert_eq!(whom, [Machine::Host(1), Machine::Server, Machine::Driver]);
    assert_eq!(done.landed, ATOMS);
}

/// What an agent was told of the red checks is another text after each look, and the job is the same all the same.
#[test]
fn an_agent_that_outlives_its_driver_is_found_again_whatever_the_checks_print() {
    let atoms = "  - {id: A1, description: \"Do A1\", status: pending, depends_on: []}\n";
    let project = project(atoms, "", "done");
    let text = project.read(STATE);
    let check = "{type: command, value: \"date +%N; test -e done\"}";
    project.write(STATE, &text.replace("{type: file, value: done}", check));
    let (log, go) = (project.note("runs"), project.note("go"));
    let script = format!(
        "cat > /dev/null\necho run >> {}\nwhile [ ! -e {} ]; do sleep 0.05; done\necho > done\n\
         echo '{{\"success\": true, \"summary\": \"done\", \"artifacts\": [\"done\"], \"reason\": null}}'\n",
        log.display(),
        go.display()
    );
    let Some(machines) = machines_with_agent(project, &script) else { return };
    let words = ["--agent", "worker=mine"];
    let driver = Driver::start(&machines, &words);
    wait_until("the agent works", || machines.project.read_note("runs") == "run\n");
    drop(driver);
    let mut driver = Driver::start(&machines, &words);
    driver.hear("is found again on");
    std::fs::write(go, "").expect("a file");
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(machines.project.read_note("runs"), "run\n");
    assert_eq!(machines.project.landed(), ["A1"]);
}

/// The plan was changed while nobody drove the loop: what still runs of the old one is ended, and its slots are free.
#[test]
fn jobs_that_a_new_driver_does_not_want_are_taken_back() {
    let Some(program) = server() else { return };
    let project = project(&super::atom("A1", "", "", "sleep 300"), "", "done");
    let mut machines = aot_testkit::machines::Machines::new(aot(), &program, project, super::NO_CAGE);
    machines.add("one", &["--slots", "1"]);
    let driver = Driver::start(&machines, &[]);
    wait_until("it works", || !machines.hosts[0].sleepers().is_empty());
    drop(driver);
    let text = machines.project.read(STATE);
    machines.project.write(STATE, &text.replace("sleep 300", "echo > done"));
    let (exit, said) = Driver::start(&machines, &[]).end();
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("was sent before and is not wanted any more"), "{said}");
    assert_eq!(machines.project.landed(), ["A1"]);
    assert_eq!(machines.survivors(), []);
}
