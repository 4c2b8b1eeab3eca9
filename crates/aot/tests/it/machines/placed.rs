//! Which host does a job.

use std::collections::BTreeSet;

use super::{Driver, NO_CAGE, aot, atom, machines, project, run, server, status, wait_until};
use aot_testkit::machines::Machines;
use aot_testkit::project::{Project, STATE};

/// A project whose atoms may name a file beside it, as `LOG`.
fn logging(atoms: &str, done: &str) -> Project {
    let project = project("  - {id: A0, description: \"Replaced\"}\n", "", done);
    let log = project.note("log").display().to_string();
    let text =
        project.read(STATE).replace("  - {id: A0, description: \"Replaced\"}\n", &atoms.replace("LOG", &log));
    project.write(STATE, &text);
    project
}

fn lines(machines: &Machines) -> Vec<String> {
    machines.project.read_note("log").lines().map(str::to_owned).collect()
}

#[test]
fn an_atom_goes_where_what_it_needs_is_offered() {
    let on = "echo \"${HOME##*/}\" >> LOG; echo >";
    let atoms =
        (1..=3).map(|n| atom(&format!("A{n}"), "", ", needs: [gpu, big-disk]", &format!("{on} f{n}")));
    let atoms = atoms.collect::<String>() + &atom("A4", "A1, A2, A3", "", "echo > done");
    let Some(mut machines) = machines(logging(&atoms, "done"), &["one", "two"]) else { return };
    machines.add("three", &["--slots", "1", "--offers", "gpu,big-disk"]);
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    assert_eq!(lines(&machines), ["three", "three", "three"]);
}

#[test]
fn what_nobody_offers_is_named_while_it_is_waited_for() {
    let atoms = atom("A1", "", ", needs: [gpu]", "echo > done");
    let Some(mut machines) = machines(project(&atoms, "", "done"), &["one"]) else { return };
    let mut driver = Driver::start(&machines, &[]);
    driver.hear("no host offers gpu: one (up)");
    assert_eq!(status(&machines)["hosts"]["waiting"], 1);
    machines.add("two", &["--offers", "gpu"]);
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
}

#[test]
fn atoms_with_one_resource_are_never_at_work_at_once() {
    let work = "echo begin >> LOG; sleep 0.2; echo end >> LOG; echo >";
    let atoms = (1..=6).map(|n| atom(&format!("A{n}"), "", ", resource: db", &format!("{work} f{n}")));
    let atoms = atoms.collect::<String>() + &atom("A7", "A1, A2, A3, A4, A5, A6", "", "echo > done");
    let Some(machines) = machines(logging(&atoms, "done"), &["one", "two", "three"]) else { return };
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    let lines = lines(&machines);
    assert_eq!(lines.len(), 12);
    assert!(lines.chunks(2).all(|pair| pair == ["begin", "end"]), "{lines:?}");
}

#[test]
fn a_host_that_fails_its_jobs_is_left_out_and_named() {
    let work = "echo \"${HOME##*/}\" >> LOG; sleep 0.2; echo >";
    let atoms = (1..=9).map(|n| atom(&format!("A{n}"), "", "", &format!("{work} f{n}")));
    let after = (1..=9).map(|n| format!("A{n}")).collect::<Vec<_>>().join(", ");
    let atoms = atoms.collect::<String>() + &atom("B", &after, "", "echo > done");
    let Some(mut machines) = machines(logging(&atoms, "done"), &["one"]) else { return };
    // Its repository is gone, so it cannot begin anything.
    let gone = machines.project.home().join("gone.git");
    machines.project.git(&["clone", "-q", "--bare", ".", &gone.display().to_string()]).expect("a clone");
    machines.add("two", &["--slots", "3", "--repo", &gone.display().to_string()]);
    std::fs::remove_dir_all(&gone).expect("it is ours");
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    assert!(said.contains("two is left out: 3 jobs in a row failed there"), "{said}");
    let hosts: BTreeSet<String> = lines(&machines).into_iter().collect();
    assert_eq!(hosts, BTreeSet::from(["one".to_owned()]));
}

/// An agent that is limited on hosts of one account; those of another one go on.
#[test]
fn a_limit_holds_for_all_hosts_of_an_account_and_for_no_others() {
    let Some(program) = server() else { return };
    let atoms = (1..=4)
        .map(|n| format!("  - {{id: A{n}, description: \"Do A{n}\", status: pending, depends_on: [], check: {{type: file, value: f{n}}}}}\n"));
    let atoms = atoms.collect::<String>() + &atom("A5", "A1, A2, A3, A4", "", "echo > done");
    let project = logging(&atoms, "done");
    let log = project.note("log").display().to_string();
    project.write_program(
        "../bin/mine",
        &format!(
            "#!/bin/sh\nfile=$(grep -o 'f[1-4]' | head -n 1)\necho \"${{HOME##*/}}\" >> {log}\n\
             case \"$HOME\" in */three) ;; *) echo 'rate limit, try again in 600 seconds'; exit 1 ;; esac\n\
             echo > \"$file\"\necho '{{\"success\": true, \"summary\": \"it is there\", \"artifacts\": [], \"reason\": null}}'\n"
        ),
    );
    let program_of_agent =
        project.path("../bin/mine").canonicalize().expect("it is there").display().to_string();
    let settings = format!(
        "[cage]\nkind = \"none\"\n[agent.mine]\nprogram = \"{program_of_agent}\"\ninput = \"prompt\"\nanswer = \"output\"\n\
         [agent.mine.trouble]\nlimited = ['rate limit', 'try again in (?<seconds>\\d+)']\n"
    );
    project.write("../.config/aot/aot.toml", &settings);
    let mut machines = Machines::new(super::aot(), &program, project, &settings);
    machines.add("one", &["--slots", "2", "--account", "first"]);
    machines.add("two", &["--slots", "2", "--account", "first"]);
    machines.add("three", &["--slots", "1", "--account", "second"]);
    let (exit, said) = Driver::start(&machines, &["--agent", "worker=mine"]).end();
    assert_eq!(exit, 0, "{said}");
    let lines = lines(&machines);
    let on = |host: &str| lines.iter().filter(|line| *line == host).count();
    assert_eq!(on("three"), 4, "{lines:?}");
    // At most what was under way when the first of them was told.
    assert!((1..=4).contains(&(on("one") + on("two"))), "{lines:?}");
    assert!(!said.contains("\"type\":\"parked\""), "{said}");
}

#[test]
fn a_host_has_the_cages_of_a_run_here() {
    let Some(program) = server() else { return };
    let atoms = atom(
        "A1",
        "",
        "",
        "cat $HOME/.config/aot/keys/this-machine > stolen 2> err; echo no > $HOME/outside 2> err; grep -c . stolen; echo > done",
    );
    let mut machines = Machines::new(super::aot(), &program, project(&atoms, "", "done"), "");
    machines.add("one", &[]);
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    assert_eq!(
        machines.project.git(&["show", "main:stolen"]),
        Ok(String::new()),
        "a worker read the host's key"
    );
    assert!(!machines.host("one").home.join("outside").exists(), "a worker wrote outside of its tree");
    assert_ne!(machines.project.git(&["show", "main:err"]), Ok(String::new()));
}

/// Each driver knows its own jobs only: how many slots are left the host says.
#[test]
fn two_loops_share_a_host() {
    let Some(program) = server() else { return };
    let waits = |project: &Project, go: &str, log: &str| {
        let run = format!("echo run >> {log}; while [ ! -e {go} ]; do sleep 0.05; done; echo > done");
        let text =
            project.read(STATE).replacen("atoms:\n", &format!("atoms:\n{}", atom("A1", "", "", &run)), 1);
        project.write(STATE, &text);
    };
    let (one, other) = (project("", "", "done"), project("", "", "done"));
    let (go, log) = (one.note("go").display().to_string(), one.note("log").display().to_string());
    waits(&one, &go, &log);
    waits(&other, &go, &log);
    let mut machines = Machines::new(aot(), &program, one, NO_CAGE);
    machines.add("one", &["--slots", "2"]);
    // The same person has both projects.
    for file in ["this-machine", "hosts"] {
        let key = machines.project.read(&format!("../.config/aot/keys/{file}"));
        other.write(&format!("../.config/aot/keys/{file}"), &key);
    }
    let first = Driver::start(&machines, &[]);
    wait_until("the first loop works", || machines.project.read_note("log").lines().count() == 1);
    let on = machines.server.address();
    let second = Driver::of(other.command(&["run", "--json", "--on", &on]));
    wait_until("both work", || machines.project.read_note("log").lines().count() == 2);
    std::fs::write(go, "").expect("a file");
    for driver in [first, second] {
        let (exit, said) = driver.end();
        assert_eq!(exit, 0, "{said}");
    }
}
