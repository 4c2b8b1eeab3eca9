//! Nothing is waited for past the bound: a git that hangs, an edit that nobody commits, a setup without an end. Ctrl-C, a
//! stop and a redirect end each of them at once, nobody is left, and the next run goes on.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::repo::{LONG, Live, Plan, Repo, STATE, atom, check};

/// What hangs would hang for much longer; a busy machine needs a while.
const SOON: Duration = Duration::from_secs(60);

const ENDS: [&str; 4] = ["interrupt", "stop", "redirect", "time"];

/// A git before the real one on the PATH. It hangs in one command, or does something else, until it is healed.
struct HangingGit<'r> {
    repo: &'r Repo,
}

impl HangingGit<'_> {
    fn new<'r>(repo: &'r Repo, command: &str) -> HangingGit<'r> {
        HangingGit::that(repo, command, "exec sleep 1000")
    }

    fn that<'r>(repo: &'r Repo, command: &str, does: &str) -> HangingGit<'r> {
        let real = std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))
            .map(|folder| folder.join("git"))
            .find(|path| path.is_file())
            .expect("git is here");
        let folder = repo.path("../bin");
        let (real, healed, pid) = (real.display(), folder.join("healed"), folder.join("pid"));
        let script = format!(
            "#!/bin/sh\nfor word; do\n  if [ \"$word\" = {command} ] && [ ! -e {} ]; then\n    echo $$ > {}.new; mv {}.new {}; {does}\n  fi\ndone\nexec {real} \"$@\"\n",
            healed.display(),
            pid.display(),
            pid.display(),
            pid.display(),
        );
        repo.write("../bin/git", &script);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.join("git"), mode).expect("it can be started");
        HangingGit { repo }
    }

    fn start(&self, words: &[&str]) -> Live {
        let path = std::env::var_os("PATH").expect("a PATH");
        let path = std::iter::once(self.repo.path("../bin")).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path.collect::<Vec<PathBuf>>()).expect("no colon in it");
        self.repo.start_dressed(words, |command| {
            command.env("PATH", path);
        })
    }

    /// The process that hangs now.
    fn hangs(&self) -> String {
        let began = Instant::now();
        loop {
            let pid = std::fs::read_to_string(self.repo.path("../bin/pid")).unwrap_or_default();
            if !pid.is_empty() {
                return pid.trim().to_owned();
            }
            assert!(began.elapsed() < LONG, "git was never called");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn heal(&self) {
        self.repo.write("../bin/healed", "");
    }
}

/// A git that is killed while it moves the checkout leaves its lock there. It is known for ours, and does not keep the loop
/// waiting.
#[test]
fn a_git_that_dies_in_a_landing_does_not_block_the_next() {
    let constraints = "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_wall_time: 1m";
    let repo = Repo::with(&Plan { constraints, ..Plan::default() });
    let healed = repo.path("../bin/healed").display().to_string();
    let dies = format!(
        "case \"$*\" in *'read-tree -m -u'*) : > \"$GIT_DIR/index.lock\"; : > {healed}; kill -9 $$ ;; esac"
    );
    let said = HangingGit::that(&repo, "read-tree", &dies).start(&["run", "--json"]).end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.path("../bin/healed").exists(), "no git has died");
    assert!(!repo.path(".git/index.lock").exists());
}

/// A git before 2.45 merges no trees, and gets commits of them.
#[test]
fn a_git_that_merges_no_trees_merges_commits() {
    let run = |own: &str, other: &str| {
        format!(
            "touch ../../../../../{own}; while [ ! -e ../../../../../{other} ]; do sleep 0.02; done; echo {own} > {own}"
        )
    };
    let atoms = atom("A1", "", &run("one", "two")) + &atom("A2", "", &run("two", "one"));
    let base_case = check("test -e one -a -e two");
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &base_case, ..Plan::default() });
    let asked = repo.path("../asked").display().to_string();
    let refuses = format!("case \"$*\" in *--merge-base=*) : > {asked}; exit 129 ;; esac");
    let said = HangingGit::that(&repo, "merge-tree", &refuses).start(&["run", "--json"]).end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.path("../asked").exists(), "nothing was merged");
    assert_eq!((repo.read("one"), repo.read("two")), ("one\n".into(), "two\n".into()));
}

fn is_gone(pid: &str) -> bool {
    let began = Instant::now();
    while std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| !words.is_empty()) {
        if began.elapsed() > SOON {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn plan(end: &str, objective: &'static str) -> Plan<'static> {
    Plan {
        objective,
        constraints: match end {
            "time" => "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_wall_time: 4s",
            _ => "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3",
        },
        ..Plan::default()
    }
}

/// Ends a run that waits, in one of the ways in which that is done, and says with which code it ended.
fn end(repo: &Repo, how: &str, live: Live, heal: impl FnOnce()) -> i32 {
    let asked = Instant::now();
    match how {
        "interrupt" => live.signal("-INT"),
        "stop" => assert_eq!(repo.aot(&["stop", "--now"]).exit, 0),
        "redirect" => {
            let said = repo.aot(&["redirect", "--accept", "--json"]);
            assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
            assert!(asked.elapsed() < SOON, "the redirect took {:?}", asked.elapsed());
            heal();
        }
        _ => {}
    }
    let said = live.end();
    assert!(asked.elapsed() < SOON, "{how}: it took {:?}: {}{}", asked.elapsed(), said.out, said.err);
    eprintln!("{how}: it ended after {} ms", asked.elapsed().as_millis());
    said.exit
}

fn code(how: &str) -> i32 {
    match how {
        "interrupt" => 130,
        "stop" => 10,
        "time" => 15,
        _ => 0,
    }
}

/// The time is over; a person who wants it to go on gives it more.
fn give_time(repo: &Repo) {
    let text = repo.read(STATE).replace("max_wall_time: 4s", "max_wall_time: 1h");
    repo.write(STATE, &text);
}

fn goes_on(repo: &Repo, name: &str) {
    give_time(repo);
    let said = repo.run();
    assert_eq!(said.exit, 0, "{name}: {}{}", said.out, said.err);
    assert_eq!(repo.landed("main"), "A1", "{name}");
    assert_eq!(repo.leftovers(), Vec::<String>::new(), "{name}");
}

fn check_git(command: &str) {
    for how in ENDS {
        let name = format!("{command}, {how}");
        let repo = Repo::with(&plan(how, ""));
        let git = HangingGit::new(&repo, command);
        let live = git.start(&["run", "--json"]);
        let pid = git.hangs();
        if how == "redirect" {
            // What hangs goes on hanging. What the loop starts after the redirect does not hang.
            git.heal();
        }
        assert_eq!(end(&repo, how, live, || {}), code(how), "{name}");
        assert!(is_gone(&pid), "{name}: its git lives on");
        git.heal();
        goes_on(&repo, &name);
    }
}

#[test]
fn a_git_that_hangs_before_the_branch_moves_is_ended() {
    check_git("commit-tree");
}

#[test]
fn a_git_that_hangs_in_the_checkout_is_ended() {
    check_git("read-tree");
}

#[test]
fn a_git_that_hangs_at_the_branch_is_ended() {
    check_git("update-ref");
}

#[test]
fn a_git_that_hangs_while_a_tree_is_made_is_ended() {
    check_git("worktree");
}

/// Before the loop begins there is nothing to redirect or to stop.
#[test]
fn a_git_that_hangs_at_the_start_ends_with_an_interrupt() {
    let repo = Repo::with(&Plan::default());
    let git = HangingGit::new(&repo, "ls-tree");
    let live = git.start(&["run", "--json"]);
    let pid = git.hangs();
    assert_eq!(end(&repo, "interrupt", live, || {}), 130);
    assert!(is_gone(&pid));
    git.heal();
    goes_on(&repo, "at the start");
}

/// A driver that is killed takes its git along, and the next one finds nothing of it at work.
#[test]
fn git_dies_with_a_driver_that_is_killed() {
    for command in ["commit-tree", "read-tree", "update-ref"] {
        let repo = Repo::with(&Plan::default());
        let git = HangingGit::new(&repo, command);
        let mut live = git.start(&["run", "--json"]);
        let pid = git.hangs();
        live.child.kill().expect("it is killed");
        let _ = live.end();
        assert!(is_gone(&pid), "{command}: its git lives on");
        goes_on(&repo, command);
    }
}

#[test]
fn a_setup_without_an_end_is_ended() {
    for how in ENDS {
        let repo =
            Repo::with(&plan(how, "  isolation: {setup: \"test -e ../../../../../go || sleep 1000\"}"));
        let mut live = repo.start(&["run", "--json"]);
        live.hear("\"type\":\"started\"");
        if how == "redirect" {
            repo.write("../go", "");
        }
        assert_eq!(end(&repo, how, live, || {}), code(how), "{how}");
        repo.write("../go", "");
        goes_on(&repo, how);
    }
}

#[test]
fn an_edit_that_nobody_commits_is_not_waited_for_past_the_bound() {
    for how in ENDS {
        let atoms = "  - {id: A1, description: \"One\", status: pending, depends_on: [], run: \"while [ ! -e ../../../../../go ]; do sleep 0.02; done; echo one > one\"}";
        let repo = Repo::with(&Plan { atoms, ..plan(how, "") });
        repo.write("one", "zero\n");
        repo.git(&["add", "one"]);
        repo.git(&["commit", "-qm", "zero"]);
        let text =
            repo.read(STATE).replace("{type: file, value: one}", "{type: command, value: \"grep one one\"}");
        repo.write(STATE, &text);
        let mut live = repo.start(&["run", "--json"]);
        live.hear("\"type\":\"started\"");
        repo.write("one", "mine\n");
        repo.write("../go", "");
        live.hear("uncommitted");
        let commit = || drop(repo.git(&["checkout", "-q", "one"]));
        assert_eq!(end(&repo, how, live, commit), code(how), "{how}");
        if how != "redirect" {
            assert_eq!(repo.read("one"), "mine\n", "{how}: the edit is still there");
            commit();
        }
        goes_on(&repo, how);
    }
}

/// The same program with few descriptors to open.
fn with_descriptors(repo: &Repo, most: u32) -> std::process::Output {
    let aot = repo.command(&["run", "--json"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("ulimit -n {most}; exec \"$@\""), "sh"]);
    command.arg(aot.get_program()).args(aot.get_args());
    command.current_dir(aot.get_current_dir().expect("it has a folder"));
    for (name, value) in aot.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().expect("it starts")
}

/// What the system refuses is the world's refusal: said plainly, waited for until the bound, and gone on from.
#[test]
fn a_system_without_descriptors_is_told_plainly() {
    for most in [6, 8, 10, 12, 14, 16, 20, 24, 32] {
        let repo = Repo::with(&plan("time", ""));
        let said = with_descriptors(&repo, most);
        let text =
            [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        let exit = said.status.code().unwrap_or(-1);
        assert!(exit >= 0 && exit != 70 && !text.contains("bug"), "{most}: exit {exit}: {text}");
        eprintln!("{most} descriptors: exit {exit}");
        goes_on(&repo, &format!("{most} descriptors"));
    }
}
