//! What a person does to a loop reaches the processes on every host.

use std::time::{Duration, Instant};

use aot_testkit::machines::Machines;

use super::{Driver, atom, machines, project, wait_until};

/// Six commands, each with a child in a session of its own, on three hosts.
fn sleepers() -> String {
    let sleep = "trap '' TERM; (setsid sleep 301 &); sleep 302";
    (1..=6).map(|n| atom(&format!("A{n}"), "", "", sleep)).collect()
}

fn all_sleep(machines: &Machines) {
    wait_until("all of them are at work", || {
        let count = machines.hosts.iter().flat_map(|host| host.sleepers()).count();
        count == 12
    });
}

fn until_nobody(machines: &Machines) -> Duration {
    let asked = Instant::now();
    wait_until("nobody is left", || machines.hosts.iter().all(|host| host.sleepers().is_empty()));
    asked.elapsed()
}

#[test]
fn a_stop_now_ends_what_runs_on_every_host() {
    let Some(machines) = machines(project(&sleepers(), "", "never"), &["one", "two", "three"]) else {
        return;
    };
    let driver = Driver::start(&machines, &[]);
    all_sleep(&machines);
    let stopped = machines.project.aot(&["stop", "--now"]);
    assert!(stopped.status.success(), "{stopped:?}");
    let took = until_nobody(&machines);
    eprintln!("twelve processes on three hosts were dead {} ms after the stop", took.as_millis());
    let (exit, said) = driver.end();
    assert_eq!(exit, 10, "{said}");
    assert_eq!(machines.survivors(), []);
}

#[test]
fn a_redirect_ends_what_runs_on_every_host_and_the_loop_goes_on() {
    let atoms = sleepers() + &atom("A7", "A1", "", "echo done > done");
    let Some(machines) = machines(project(&atoms, "", "done"), &["one", "two", "three"]) else { return };
    let driver = Driver::start(&machines, &[]);
    all_sleep(&machines);
    let mut words =
        vec!["redirect", "not that way", "--add", "{\"description\": \"Do it\", \"run\": \"echo > done\"}"];
    for id in ["A7", "A1", "A2", "A3", "A4", "A5", "A6"] {
        words.extend(["--remove", id]);
    }
    let redirecting = machines.project.command(&words).stdout(std::process::Stdio::piped()).spawn();
    let mut redirecting = redirecting.expect("it starts");
    let took = until_nobody(&machines);
    eprintln!("twelve processes on three hosts were dead {} ms after the redirect", took.as_millis());
    assert!(redirecting.wait().expect("it ends").success());
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(machines.survivors(), []);
}

#[test]
fn the_loser_of_a_race_is_ended_on_its_host() {
    let atoms = atom("A1", "", ", or_group: way", "sleep 0.5; echo 1 > done")
        + &atom("A2", "", ", or_group: way", "(setsid sleep 303 &); sleep 304; echo 2 > done");
    let groups = "  way: {choices: [A2, A1], selected: A2, failed: [], speculative: true}";
    let Some(machines) = machines(project(&atoms, groups, "done"), &["one", "two"]) else { return };
    let (exit, said) = Driver::start(&machines, &[]).end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(machines.project.landed(), ["A1"]);
    assert_eq!(machines.project.git(&["show", "main:done"]), Ok("1".to_owned()));
    assert_eq!(machines.survivors(), []);
}

#[test]
fn a_host_that_is_told_to_end_ends_its_jobs_and_others_do_them() {
    let run = "echo \"$HOME\" >> LOG; if [ \"${HOME##*/}\" = one ]; then sleep 305; fi; echo > done";
    let project = project("", "", "done");
    let log = project.note("homes").display().to_string();
    let text = project.read(aot_testkit::project::STATE);
    let atoms = format!("atoms:\n{}", atom("A1", "", "", &run.replace("LOG", &log)));
    project.write(aot_testkit::project::STATE, &text.replacen("atoms:\n", &atoms, 1));
    let Some(mut machines) = machines(project, &["one"]) else { return };
    let driver = Driver::start(&machines, &["--host-timeout", "2s"]);
    wait_until("it is at work", || !machines.host("one").sleepers().is_empty());
    machines.add("two", &[]);
    machines.host("one").signal(rustix::process::Signal::TERM);
    wait_until("it has ended", || machines.host("one").processes().is_empty());
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(machines.project.landed(), ["A1"]);
    assert_eq!(machines.project.read_note("homes").lines().count(), 2);
}

/// What could not be taken back at once is, as soon as the server is there again.
#[test]
fn a_stop_while_the_server_is_away_ends_what_runs_when_it_is_back() {
    let Some(mut machines) = machines(project(&sleepers(), "", "never"), &["one", "two", "three"]) else {
        return;
    };
    let driver = Driver::start(&machines, &[]);
    all_sleep(&machines);
    machines.server.kill();
    assert!(machines.project.aot(&["stop", "--now"]).status.success());
    machines.server.start();
    let (exit, said) = driver.end();
    assert_eq!(exit, 10, "{said}");
    until_nobody(&machines);
}
