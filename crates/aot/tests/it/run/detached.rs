//! `aot run --detach`: the loop goes on without its terminal, and is found, followed and stopped from elsewhere.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use crate::repo::{Plan, Repo, STATE, Said, atom};
use crate::scene::wait_until;
use crate::terminal::Terminal;

/// A loop whose first atom waits for a file outside of its tree.
fn waiting() -> (Repo, PathBuf) {
    let atoms = atom("A1", "", "while [ ! -e GO ]; do sleep 0.02; done; echo one > one");
    let repo = Repo::with(&Plan { atoms: &atoms, ..Plan::default() });
    let go = repo.path("../go");
    repo.write(STATE, &repo.read(STATE).replace("GO", go.to_str().expect("a text")));
    (repo, go)
}

fn status(repo: &Repo) -> Value {
    let said = repo.aot(&["status", "--json"]);
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"))
}

fn wait_for_the_end(repo: &Repo) {
    wait_until("it has ended", || status(repo)["driver"].is_null());
}

fn log(repo: &Repo) -> String {
    repo.read(".claude/aot/run.log")
}

/// The number of the process that went on, as its last line says.
fn pid(said: &Said) -> String {
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    said.halted()["pid"].to_string()
}

/// The terminal is gone with the process at it, and the signal that comes with that ends nothing.
#[test]
fn a_loop_goes_on_when_its_terminal_closes() {
    let (repo, go) = waiting();
    let mut terminal = Terminal::open(&repo, &["run", "--detach"]);
    terminal.see("goal     Let the numbers be there");
    terminal.see("bound    ");
    terminal.see("drives the loop; this terminal may be closed");
    terminal.see("log      .claude/aot/run.log");
    terminal.see("next     aot status, aot watch, aot stop");
    // All that was at the terminal has ended: otherwise this would wait.
    assert_eq!(terminal.end().0, Some(0));
    let driver = status(&repo)["driver"].as_str().expect("it is driven").to_owned();
    let pid =
        driver.strip_prefix("pid ").and_then(|rest| rest.split(' ').next()).expect("a number").to_owned();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    assert_eq!(
        (fields[3], fields[4]),
        (pid.as_str(), "0"),
        "a session of its own, without a terminal: {stat}"
    );
    std::fs::write(go, "").expect("a file");
    wait_for_the_end(&repo);
    assert_eq!(status(&repo)["status"], "completed");
    assert!(log(&repo).contains("goal     Let") && log(&repo).contains("\nDONE  "), "{}", log(&repo));
    assert!(!log(&repo).contains('\u{1b}'), "no colours: {}", log(&repo));
    assert!(repo.aot(&["log"]).out.contains("the goal is proven done"), "{}", repo.aot(&["log"]).out);
    assert_eq!(repo.landed("main"), "A1");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn a_detached_loop_is_stopped_and_killed_and_taken_up_like_any_other() {
    let (repo, go) = waiting();
    let said = repo.aot(&["run", "--detach", "--json"]);
    let first = pid(&said);
    let types: Vec<String> =
        said.objects().iter().map(|object| object["type"].as_str().unwrap_or("?").to_owned()).collect();
    assert_eq!(
        (types.first().map(String::as_str), types.last().map(String::as_str)),
        (Some("bound"), Some("detached"))
    );
    // There is one driver, and the second says so as it would at a terminal.
    let second = repo.aot(&["run", "--detach"]);
    assert_eq!(second.exit, repo.aot(&["run"]).exit, "{second:?}");
    assert!(second.err.contains(&format!("this loop is driven already, by pid {first} ")), "{second:?}");
    assert!(second.out.is_empty() && !repo.path(".claude/aot/run.log.old").exists(), "{second:?}");
    assert_eq!(repo.aot(&["stop", "--now", "it", "is", "late"]).exit, 0);
    wait_for_the_end(&repo);
    assert_eq!(status(&repo)["stop_reason"], "it is late");
    // And again, until the machine goes down.
    let again = pid(&repo.aot(&["run", "--detach", "--json"]));
    let killed = std::process::Command::new("kill").args(["-KILL", &again]).status().expect("kill is here");
    assert!(killed.success());
    wait_for_the_end(&repo);
    std::fs::write(go, "").expect("a file");
    let resumed = repo.run();
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    assert_eq!(repo.landed("main"), "A1");
    // A killed process that the system has not cleared away yet still owns its scratch folder.
    let left = repo.leftovers().into_iter().filter(|left| !left.contains("/aot/scratch/"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

/// What it says and its exit code are those of a run at the terminal.
#[test]
fn a_run_that_cannot_begin_says_why_and_leaves_nobody() {
    let repo = Repo::with(&Plan::default());
    repo.write("README", "not committed\n");
    let plain = repo.aot(&["run"]);
    assert!(plain.exit != 0, "{plain:?}");
    let detached = repo.aot(&["run", "--detach"]);
    let problem = plain.err.lines().find(|line| line.starts_with("error: ")).expect("an error");
    assert!(detached.exit == plain.exit && detached.err.contains(problem), "{plain:?} {detached:?}");
    let json = repo.aot(&["run", "--detach", "--json"]);
    assert!(json.exit == plain.exit && json.halted()["error"]["message"].is_string(), "{json:?}");
    assert_eq!(repo.leftovers(), [" M README".replace(" M", "status  M")], "only the edit");
    assert_eq!(repo.aot(&["run", "--detach", "--dry-run"]).exit, 2);
}

/// Whatever filled the log, the run goes on in a new one, and keeps no more than the one before.
#[test]
fn a_long_log_makes_room_for_a_new_one() {
    let (repo, go) = waiting();
    pid(&repo.aot(&["run", "--detach", "--json"]));
    let path = repo.path(".claude/aot/run.log");
    let mut file = std::fs::File::options().append(true).open(path).expect("it is there");
    file.write_all(&vec![b'x'; 4 << 20]).expect("written");
    std::fs::write(go, "").expect("a file");
    wait_for_the_end(&repo);
    let (new, old) = (log(&repo), repo.read(".claude/aot/run.log.old"));
    assert!(old.starts_with("{") && old.len() > 4 << 20, "{}", old.len());
    assert!(new.len() < 1 << 20, "{}", new.len());
    assert!(new.lines().last().is_some_and(|line| line.contains("\"halted\"")), "{new}");
}

/// Until it has begun, a run belongs to whoever waits for it.
#[test]
fn a_run_that_nobody_waits_for_ends_at_once() {
    let (repo, _) = waiting();
    // Its standard input takes no line.
    let said = repo.aot(&["run", "--detached"]);
    assert_eq!(said.exit, 130, "{said:?}");
    assert_eq!(status(&repo)["status"], "stopped");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

/// A new loop asks before it leaves the terminal, and shows its page once.
#[test]
fn questions_come_before_the_loop_leaves_the_terminal() {
    let repo = Repo::with(&Plan::default());
    std::fs::remove_dir_all(repo.path(".claude")).expect("removed");
    let made = r#"{"description": "Make it", "run": "echo 1 > made"}"#;
    let words =
        ["run", "Let it be made", "--check", "test -f made", "--atom", made, "--branch", "night", "--detach"];
    let mut terminal = Terminal::open(&repo, &words);
    terminal.answer("Start?", "");
    terminal.see("bound    ");
    terminal.see("next     aot status, aot watch, aot stop");
    let shown = terminal.text();
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(shown.matches("\ngoal ").count(), 0, "the page was enough: {shown}");
    wait_for_the_end(&repo);
    assert_eq!(
        (status(&repo)["status"].as_str(), repo.landed("night").as_str()),
        (Some("completed"), "A1"),
        "{}",
        log(&repo)
    );
}
