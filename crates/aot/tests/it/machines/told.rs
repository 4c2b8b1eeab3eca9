//! What a driver's machine hears of what happened on hosts.

use std::process::{Command, Stdio};

use aot_testkit::machines::Machines;
use aot_testkit::project::{Project, STATE};

use super::{Driver, NO_CAGE, aot, atom, machines, project, run, server, status, wait_until};

const SECRET: &str = "sk-5f1ce3b7a90d4e8291";

#[test]
fn what_a_job_prints_comes_home_without_the_secrets_of_its_host() {
    let Some(program) = server() else { return };
    let run_it = format!("echo 'it says {SECRET} aloud'; echo > done");
    let mut machines =
        Machines::new(aot(), &program, project(&atom("A1", "", "", &run_it), "", "done"), NO_CAGE);
    machines.add_in_network("one", "127.0.0.1", &["env", &format!("SOME_API_TOKEN={SECRET}")], &[]);
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    let folder = machines.project.path(".claude/aot/output");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let texts: String = files.map(|file| std::fs::read_to_string(file.path()).expect("text")).collect();
    assert!(texts.contains("it says") && texts.contains("aloud"), "{texts:?}");
    assert!(!texts.contains(SECRET), "{texts}");
    let log = machines.project.aot(&["log", "A1"]);
    let log = String::from_utf8_lossy(&log.stdout).into_owned();
    assert!(log.contains("aloud") && !log.contains(SECRET), "{log}");
}

/// An agent of every machine's settings, as a script.
pub fn machines_with_agent(project: Project, script: &str) -> Option<Machines> {
    let program = server()?;
    project.write_program("../bin/mine", &format!("#!/bin/sh\n{script}"));
    let agent = project.path("../bin/mine").canonicalize().expect("it is there").display().to_string();
    let settings = format!(
        "[cage]\nkind = \"none\"\n[agent.mine]\nprogram = \"{agent}\"\ninput = \"prompt\"\nanswer = \"output\"\n\
         price = {{ input = 1.0, output = 1.0 }}\n"
    );
    project.write("../.config/aot/aot.toml", &settings);
    let mut machines = Machines::new(aot(), &program, project, &settings);
    machines.add("one", &[]);
    machines.add("two", &[]);
    Some(machines)
}

#[test]
fn a_red_check_is_mended_where_the_work_is() {
    let atoms = "  - {id: A1, description: \"Do A1\", status: pending, depends_on: [], check: {type: command, value: \"echo it has $(cat done); test $(cat done) = 3\"}}\n";
    let project = project(atoms, "", "done");
    let log = project.note("runs").display().to_string();
    let script = format!(
        "cat > /dev/null\necho \"${{HOME##*/}} $PWD\" >> {log}\nwc -l < {log} > done\n\
         echo '{{\"success\": true, \"summary\": \"counted\", \"artifacts\": [\"done\"], \"reason\": null}}'\n"
    );
    let Some(machines) = machines_with_agent(project, &script) else { return };
    let (exit, said) = Driver::start(&machines, &["--agent", "worker=mine"]).end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(said.matches("\"type\":\"mends\"").count(), 2, "{said}");
    let runs = machines.project.read_note("runs");
    let places: Vec<&str> = runs.lines().collect();
    assert_eq!(places.len(), 3);
    assert!(places.iter().all(|place| *place == places[0]), "one tree of one host: {places:?}");
    let state = machines.project.aot(&["show", "--json"]);
    let state: serde_json::Value = serde_json::from_slice(&state.stdout).expect("JSON");
    assert_eq!(state["control"]["spent"]["agent_runs"], 3, "{state}");
    let agents = machines.project.path(".claude/aot/agents");
    assert!(std::fs::read_dir(agents).is_ok_and(|files| files.count() > 0), "no transcript came home");
}

#[test]
fn probes_and_judges_are_asked_on_hosts() {
    let atoms = "  - {id: A1, description: \"Do A1\", status: pending, depends_on: [], probe: true, check: {type: quality, criteria: \"clear\", rubric: [{criterion: clarity, description: \"plain\", weight: 1}], pass_threshold: 4}}\n";
    let project = project(atoms, "", "done");
    let log = project.note("roles").display().to_string();
    let script = format!(
        "brief=$(cat)\ncase \"$brief\" in\n\
         *Judge*) role=judge; answer='{{\"scores\": [{{\"criterion\": \"clarity\", \"score\": 5, \"reason\": \"plain\", \"evidence\": [\"done:1: it says so\"]}}]}}' ;;\n\
         *feasible*) role=probe; answer='{{\"feasible\": true, \"findings\": \"it can be done\", \"cost_estimate\": \"tiny\"}}' ;;\n\
         *) role=worker; echo 1 > done; answer='{{\"success\": true, \"summary\": \"done\", \"artifacts\": [\"done\"], \"reason\": null}}' ;;\n\
         esac\necho \"$role ${{HOME##*/}}\" >> {log}\necho \"$answer\"\n"
    );
    let Some(machines) = machines_with_agent(project, &script) else { return };
    let (exit, said) = Driver::start(&machines, &["--agent", "mine"]).end();
    assert_eq!(exit, 0, "{said}");
    let roles = machines.project.read_note("roles");
    let roles: Vec<(&str, &str)> = roles.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(roles.iter().map(|(role, _)| *role).collect::<Vec<_>>(), ["probe", "worker", "judge"]);
    assert!(roles.iter().all(|(_, host)| ["one", "two"].contains(host)), "{roles:?}");
    assert!(said.contains("it can be done"), "{said}");
}

#[test]
fn the_output_of_a_failure_comes_home() {
    let atoms = atom("A1", "", ", or_group: way", "echo the disk is made of cheese >&2; exit 3")
        + &atom("A2", "", ", or_group: way", "echo > done");
    let project = project(&atoms, "  way: {choices: [A1, A2], selected: A1, failed: []}", "done");
    let Some(machines) = machines(project, &["one"]) else { return };
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    assert!(machines.project.read(STATE).contains("the disk is made of cheese"), "{said}");
}

#[test]
fn hosts_slots_and_jobs_are_shown_while_they_work() {
    let sleep = "while [ ! -e GO ]; do sleep 0.05; done";
    let project = project("", "", "done");
    let go = project.note("go").display().to_string();
    let atoms =
        atom("A1", "", ", needs: [gpu]", &sleep.replace("GO", &go)) + &atom("A2", "A1", "", "echo > done");
    let text = project.read(STATE).replacen("atoms:\n", &format!("atoms:\n{atoms}"), 1);
    project.write(STATE, &text);
    let Some(mut machines) = machines(project, &["one"]) else { return };
    machines.add("two", &["--slots", "3", "--offers", "gpu"]);
    let driver = Driver::start(&machines, &[]);
    let mut now = serde_json::Value::Null;
    wait_until("a job is shown", || {
        now = status(&machines)["hosts"].clone();
        now["hosts"].as_array().is_some_and(|hosts| {
            hosts.len() == 2 && hosts.iter().any(|host| host["jobs"][0]["job"] == "A1/1")
        })
    });
    assert_eq!(now["engine"], format!("{}/ui/", machines.server.address().replace("restate=", "")));
    assert_eq!((&now["hosts"][0]["name"], &now["hosts"][1]["name"]), (&"one".into(), &"two".into()));
    assert_eq!(now["hosts"][1]["offers"][0], "gpu");
    let screen = machines.project.aot(&["status"]);
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("1 of 5 slots busy") && screen.contains("A1/1"), "{screen}");
    let hosts = machines.project.aot(&["hosts"]);
    let hosts = String::from_utf8_lossy(&hosts.stdout).into_owned();
    assert!(hosts.contains("two: 1 of 3 slots; offers gpu; A1/1"), "{hosts}");
    the_page_shows_hosts(&machines);
    std::fs::write(go, "").expect("a file");
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    // Afterwards nobody is at work, and nothing is shown that is not there any more.
    assert_eq!(status(&machines)["hosts"], serde_json::Value::Null);
}

fn the_page_shows_hosts(machines: &Machines) {
    let Some(mut browser) = crate::page::browser() else { return };
    let mut serve = Driver::of(machines.project.command(&["serve", "--json"]));
    let told: serde_json::Value = serde_json::from_str(&serve.hear("address")).expect("JSON");
    let tab = browser.open(1200, 800);
    browser.go(&tab, told["address"].as_str().expect("an address"));
    browser.wait(&tab, "document.querySelector('#now').textContent.includes('A1 works on two')");
    browser.wait(&tab, "document.querySelector('#now').textContent.includes('two: 1 of 3 slots')");
    browser.wait(&tab, "document.querySelector('#figures').textContent.includes('1 of 5 slots busy')");
    let link = browser.ask(&tab, "document.querySelector('#figures a').href");
    assert_eq!(link, format!("{}/ui/", machines.server.address().replace("restate=", "")));
    if let Some(folder) = std::env::var_os("AOT_PICTURES") {
        std::fs::write(std::path::Path::new(&folder).join("hosts.base64"), browser.picture(&tab))
            .expect("a file");
    }
}

/// Work goes to the hosts and comes back over git's own protocol, as it does between machines.
#[test]
fn work_travels_through_a_remote_that_hosts_reach_over_the_network() {
    let Some(program) = server() else { return };
    let project = two_steps();
    let bare = project.path("../served/p.git");
    std::fs::create_dir_all(bare.parent().expect("it has one")).expect("folders");
    project.git(&["clone", "-q", "--bare", ".", &bare.display().to_string()]).expect("a clone");
    let served = GitDaemon::start(&project);
    let address = served.address(&bare);
    project.git(&["remote", "add", "shared", &address]).expect("a remote");
    let mut machines = Machines::new(aot(), &program, project, NO_CAGE);
    machines.add("one", &["--repo", &address]);
    let (exit, said) = Driver::start(&machines, &["--hand-over", "shared"]).end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(machines.project.landed(), ["A1", "A2"]);
    let left = machines.project.git(&["ls-remote", "shared", "refs/aot/*"]);
    assert_eq!(left, Ok(String::new()), "references of jobs stay");
}

/// Without a remote it goes through a repository of the driver's.
#[test]
fn work_travels_through_the_drivers_own_repository_when_there_is_no_remote() {
    let Some(program) = server() else { return };
    let project = two_steps();
    let served = GitDaemon::start(&project);
    let repository = served.address(&project.path(".git"));
    let mut machines = Machines::new(aot(), &program, project, NO_CAGE);
    machines.add("one", &["--repo", &repository]);
    let (exit, said) = Driver::start(&machines, &["--reached-by", &served.begins()]).end();
    assert_eq!(exit, 0, "{said}");
    assert_eq!(machines.project.landed(), ["A1", "A2"]);
}

fn two_steps() -> Project {
    project(&(atom("A1", "", "", "echo 1 > one") + &atom("A2", "A1", "", "cat one one > done")), "", "done")
}

/// Serves what lies in the project's home, by its whole path.
struct GitDaemon {
    child: std::process::Child,
    port: u16,
}

impl GitDaemon {
    fn start(project: &Project) -> GitDaemon {
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = free.expect("a free port").port();
        // Started by git it would outlive git.
        let programs = project.git(&["--exec-path"]).expect("git is here");
        let mut command = Command::new(std::path::Path::new(&programs).join("git-daemon"));
        project.dress(&mut command);
        let words = ["--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1"];
        command.args(words).arg(format!("--port={port}")).arg(project.home());
        let mut child = command.stderr(Stdio::null()).spawn().expect("git is here");
        wait_until("it listens", || {
            assert_eq!(child.try_wait().expect("it can be waited for"), None, "git daemon has ended");
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        GitDaemon { child, port }
    }

    /// How addresses of what it serves begin.
    fn begins(&self) -> String {
        format!("git://127.0.0.1:{}", self.port)
    }

    fn address(&self, repository: &std::path::Path) -> String {
        let repository = repository.canonicalize().expect("it is there");
        format!("{}{}", self.begins(), repository.display())
    }
}

impl Drop for GitDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
