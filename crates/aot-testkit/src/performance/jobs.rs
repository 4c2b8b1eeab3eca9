//! What an atom costs beside its own work: a command that does nothing, without isolation in each cage, in worktrees and in
//! place; and a graph of such commands, beside programs that run graphs.
//!
//! The goals are judged by processor time, of a run and of all that it started. Time on the wall is shown beside it: both
//! sides have eight at a time, so it depends on how many processors there are, and on the disk that a run waits for.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::measure::{Samples, both, in_turns, succeed};
use super::{Bench, Goal, Pass, Row};
use crate::project::{Project, STATE};

/// How many run at a time, on both sides.
const AT_A_TIME: usize = 8;

/// How many atoms of the graph are on one level; each but those of the first depends on two of the level before.
const WIDTH: usize = 10;

/// The rivals from PyPI, made once; `AOT_PERFORMANCE_CACHE` names another place.
const PACKAGES: [&str; 3] = ["langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", "ninja==1.13.2"];

const GRAPH_IN_PYTHON: &str = include_str!("rivals/graph.py");

#[derive(Clone, Copy)]
enum Isolation {
    None,
    InPlace,
    Worktrees,
}

/// What each atom runs.
#[derive(Clone, Copy, PartialEq)]
enum AtomWork {
    Nothing,
    /// It makes a file of its own.
    File,
}

impl AtomWork {
    fn command(self, atom: usize) -> String {
        match self {
            AtomWork::Nothing => "true".to_owned(),
            AtomWork::File => format!("echo {atom} > f{atom}"),
        }
    }
}

pub fn measure(bench: &mut Bench) {
    without_isolation(bench);
    in_worktrees(bench);
    in_place(bench);
    graphs(bench);
}

/// Processor time with its goal. Time on the wall is for the full pass: beside the gate's other work it tells nothing.
fn rows(bench: &mut Bench, what: &str, against: &str, ours: &Sides, floor: &Sides, goal: Goal) {
    let row = Row::ratio(format!("{what}: processor time"), &ours.cpu(), against, &floor.cpu(), goal);
    bench.row(row);
    if bench.pass == Pass::Full {
        let what = format!("{what}: time on the wall");
        bench.row(Row::ratio(what, &ours.wall(), against, &floor.wall(), Goal::None));
    }
}

/// Both kinds of time of one side, in the order of the rounds; the first is the one to warm up.
#[derive(Default)]
struct Sides(RefCell<Vec<(f64, f64)>>);

impl Sides {
    fn sample(&self, work: impl FnOnce()) -> f64 {
        let (wall, cpu) = both(work);
        self.0.borrow_mut().push((wall, cpu));
        cpu
    }

    fn wall(&self) -> Samples {
        Samples(self.0.borrow().iter().skip(1).map(|(wall, _)| *wall).collect())
    }

    fn cpu(&self) -> Samples {
        Samples(self.0.borrow().iter().skip(1).map(|(_, cpu)| *cpu).collect())
    }
}

fn without_isolation(bench: &mut Bench) {
    let aot = bench.aot.clone();
    let (atoms, rounds) = (bench.of(100, 1000), 3);
    let floor = format!("{AT_A_TIME} threads that spawn `sh -c true` and wait");
    for (cage, goal) in [("none", 1.5), ("landlock", 2.0), ("bwrap", 5.0)] {
        let what = format!("an atom of {atoms} that does nothing, no isolation, cage {cage}");
        if let Err(why) = try_cage(&aot, cage) {
            bench.left_out(format!("{what}: {why}"));
            continue;
        }
        let (ours, spawns) = (Sides::default(), Sides::default());
        // A cage of namespaces takes so long that fewer tell as much.
        let atoms = if cage == "bwrap" { atoms / 4 } else { atoms };
        let _ = in_turns(
            rounds,
            [
                &mut || {
                    let project = project(&aot, Isolation::None, cage, &flat(atoms, AtomWork::Nothing));
                    ours.sample(|| succeed(&mut project.command(&["run", "--json"])))
                },
                &mut || spawns.sample(|| spawn(atoms)),
            ],
        );
        rows(bench, &what, &floor, &ours, &spawns, Goal::AtMost(goal));
    }
}

/// The lent trees of eight workers, each of which is brought to the newest commit, cleaned, and read when its command has
/// ended: `checkout`, `clean`, `add`, `write-tree`. A commit that lands needs `commit-tree`, and the branch and the checkout
/// `update-ref` and `read-tree`.
fn in_worktrees(bench: &mut Bench) {
    let aot = bench.aot.clone();
    for work in [AtomWork::Nothing, AtomWork::File] {
        let (atoms, rounds) = (bench.of(24, 200), bench.of(2, 3));
        let what = match work {
            AtomWork::Nothing => format!("an atom of {atoms} that does nothing, in worktrees"),
            AtomWork::File => format!("an atom of {atoms} that lands a file, in worktrees"),
        };
        let (ours, bare) = (Sides::default(), Sides::default());
        let _ = in_turns(
            rounds,
            [
                &mut || {
                    let project = project(&aot, Isolation::Worktrees, "none", &flat(atoms, work));
                    ours.sample(|| succeed(&mut project.command(&["run", "--json"])))
                },
                &mut || {
                    let project = project(&aot, Isolation::Worktrees, "none", "");
                    bare.sample(|| bare_worktrees(&project, atoms, work))
                },
            ],
        );
        rows(bench, &what, "the git commands that it needs, bare", &ours, &bare, Goal::AtMost(1.3));
    }
}

/// One attempt at a time: the project is read into an index before and after, `add` and `write-tree` both times, and what
/// changed is kept with `commit-tree` and `update-ref`.
fn in_place(bench: &mut Bench) {
    let aot = bench.aot.clone();
    for work in [AtomWork::Nothing, AtomWork::File] {
        let (atoms, rounds) = (bench.of(12, 100), bench.of(2, 3));
        let what = match work {
            AtomWork::Nothing => format!("an atom of {atoms} that does nothing, in place"),
            AtomWork::File => format!("an atom of {atoms} that lands a file, in place"),
        };
        let (ours, bare) = (Sides::default(), Sides::default());
        let _ = in_turns(
            rounds,
            [
                &mut || {
                    let project = project(&aot, Isolation::InPlace, "none", &flat(atoms, work));
                    ours.sample(|| succeed(&mut project.command(&["run", "--json"])))
                },
                &mut || {
                    let project = project(&aot, Isolation::InPlace, "none", "");
                    bare.sample(|| bare_in_place(&project, atoms, work))
                },
            ],
        );
        rows(bench, &what, "the git commands that it needs, bare", &ours, &bare, Goal::AtMost(1.3));
    }
}

/// The same graph, each node a command, for programs that keep what is done: by files, or by checkpoints in a database.
fn graphs(bench: &mut Bench) {
    let aot = bench.aot.clone();
    let (atoms, rounds) = (bench.of(100, 1000), 2);
    let what = format!("a durable graph of {atoms} commands");
    let run = |command: &mut Command| {
        succeed(command.stdin(Stdio::null()));
    };
    let ours = |sides: &Sides| {
        let project = project(&aot, Isolation::None, "none", &graph(atoms));
        sides.sample(|| succeed(&mut project.command(&["run", "--json"])))
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path();
    let clear = || {
        fs::read_dir(place).expect("it is there").flatten().for_each(|entry| {
            fs::remove_file(entry.path()).expect("it is ours");
        });
    };
    // The gate downloads nothing: a quick pass has make only.
    let is_full = bench.pass == Pass::Full;
    let rivals = is_full.then(rivals).flatten();
    let mut found = Vec::new();
    if is_there("make") {
        let sides = (Sides::default(), Sides::default());
        let _ = in_turns(
            rounds,
            [&mut || ours(&sides.0), &mut || {
                clear();
                fs::write(place.join("Makefile"), makefile(atoms)).expect("written");
                let mut make = Command::new("make");
                sides.1.sample(|| run(make.arg(format!("-sj{AT_A_TIME}")).current_dir(place)))
            }],
        );
        found.push(("GNU make", sides, Goal::AtMost(1.5)));
    } else {
        bench.left_out(format!("{what} beside make: it is not installed"));
    }
    let ninja = [PathBuf::from("ninja")].into_iter().chain(rivals.iter().map(|bin| bin.join("ninja")));
    match ninja.into_iter().find(|ninja| is_full && is_there(ninja)) {
        Some(ninja) => {
            let sides = (Sides::default(), Sides::default());
            let _ = in_turns(
                rounds,
                [&mut || ours(&sides.0), &mut || {
                    clear();
                    fs::write(place.join("build.ninja"), ninja_file(atoms)).expect("written");
                    let mut command = Command::new(&ninja);
                    sides.1.sample(|| run(command.arg(format!("-j{AT_A_TIME}")).current_dir(place)))
                }],
            );
            found.push(("ninja", sides, Goal::AtMost(1.0)));
        }
        None if is_full => bench.left_out(format!("{what} beside ninja: it is not installed")),
        None => {}
    }
    for (name, command, goal) in [
        ("LangGraph with SQLite, nodes that run the command", "touch A{}", Goal::AtMost(0.25)),
        ("LangGraph with SQLite, nodes that start no process", "", Goal::None),
    ] {
        let Some(python) = rivals.as_ref().map(|bin| bin.join("python")).filter(|python| is_there(python))
        else {
            if is_full {
                bench.left_out(format!("{what} beside {name}: it cannot be installed"));
            }
            continue;
        };
        let sides = (Sides::default(), Sides::default());
        let _ = in_turns(
            rounds,
            [&mut || ours(&sides.0), &mut || {
                clear();
                fs::write(place.join("graph.py"), GRAPH_IN_PYTHON).expect("written");
                let mut graph = Command::new(&python);
                graph
                    .arg("graph.py")
                    .args([atoms.to_string(), WIDTH.to_string()])
                    .args(["graph.db", command]);
                sides.1.sample(|| run(graph.current_dir(place)))
            }],
        );
        found.push((name, sides, goal));
    }
    for (name, (ours, theirs), goal) in found {
        rows(bench, &format!("{what}, beside {name}"), name, &ours, &theirs, goal);
    }
}

/// A project with a loop of these atoms. It is done when the last has made its file, or at once if there are none.
fn project(aot: &Path, isolation: Isolation, cage: &str, atoms: &str) -> Project {
    let project = Project::new(aot, &format!("[cage]\nkind = \"{cage}\"\n"));
    let mode = match isolation {
        Isolation::None => "none",
        Isolation::InPlace => "in_place",
        Isolation::Worktrees => "worktree",
    };
    project.write(
        STATE,
        &format!(
            "---\nobjective:\n  goal: \"g\"\n  base_case:\n    checklist:\n      - {{item: i, check: {{type: file, value: done}}}}\n  \
             background_intent: b\n  deliverables: d\n  definition_of_done: d\n  isolation: {{mode: {mode}}}\n  \
             constraints: {{max_iterations: 5000, max_parallel_agents: {AT_A_TIME}, max_stall_count: 3}}\ncontrol:\n  \
             status: pending\n  iteration: 0\n  stall_count: 0\n  prev_pending_count: -1\n  stop_requested: false\n  \
             stop_reason: null\n  redirect_requested: false\natoms:\n{atoms}decompositions: []\nor_groups: {{}}\n\
             bindings: {{}}\ntrail: []\ncorrections: []\n---\n"
        ),
    );
    project.write("README", "Something to read.\n");
    if matches!(isolation, Isolation::Worktrees) {
        project.init();
    }
    project
}

/// Whether a run in this cage comes to its end here.
fn try_cage(aot: &Path, cage: &str) -> Result<(), String> {
    let tried = project(aot, Isolation::None, cage, &flat(1, AtomWork::Nothing)).aot(&["run", "--json"]);
    match tried.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&tried.stderr).lines().next().unwrap_or_default().to_owned()),
    }
}

fn flat(atoms: usize, work: AtomWork) -> String {
    let atom = |atom: usize| {
        let run = if atom == atoms { "touch done".to_owned() } else { work.command(atom) };
        format!("  - {{id: A{atom}, description: d, status: pending, depends_on: [], run: \"{run}\"}}\n")
    };
    (1..=atoms).map(atom).collect()
}

/// The nodes of the level before that this one depends on.
fn before(node: usize) -> Vec<usize> {
    let (level, place) = (node / WIDTH, node % WIDTH);
    match level {
        0 => Vec::new(),
        _ => vec![(level - 1) * WIDTH + place, (level - 1) * WIDTH + (place + 1) % WIDTH],
    }
}

fn names(nodes: Vec<usize>, between: &str) -> String {
    nodes.into_iter().map(|node| format!("A{node}")).collect::<Vec<_>>().join(between)
}

fn graph(atoms: usize) -> String {
    let atom = |node: usize| {
        let (before, done) = (names(before(node), ", "), if node + 1 == atoms { "done" } else { "" });
        format!(
            "  - {{id: A{node}, description: d, status: pending, depends_on: [{before}], run: \"touch A{node} {done}\"}}\n"
        )
    };
    (0..atoms).map(atom).collect()
}

fn makefile(atoms: usize) -> String {
    let all = format!("all: {}\n", names((0..atoms).collect(), " "));
    // With `;` make starts a shell, as the others do.
    let rule = |node: usize| format!("A{node}: {}\n\t@touch A{node};\n", names(before(node), " "));
    all + &(0..atoms).map(rule).collect::<String>()
}

fn ninja_file(atoms: usize) -> String {
    let rule = |node: usize| format!("build A{node}: t {}\n", names(before(node), " "));
    "rule t\n  command = touch $out\n".to_owned() + &(0..atoms).map(rule).collect::<String>()
}

fn spawn(atoms: usize) {
    let one = || {
        let status = Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).status();
        assert!(status.expect("a shell").success());
    };
    side_by_side(atoms, |_, _| one());
}

/// Calls it for each number, with the number of the thread.
fn side_by_side(atoms: usize, work: impl Fn(usize, usize) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..AT_A_TIME {
            let work = &work;
            scope.spawn(move || (thread..atoms).step_by(AT_A_TIME).for_each(|atom| work(thread, atom)));
        }
    });
}

fn bare_worktrees(project: &Project, atoms: usize, work: AtomWork) {
    let tree = |thread: usize| project.path(&format!("../trees/{thread}"));
    for thread in 0..AT_A_TIME.min(atoms) {
        let path = tree(thread).display().to_string();
        project.git(&["worktree", "add", "-q", "--force", "--detach", &path, "main"]).expect("a tree");
    }
    let landing = std::sync::Mutex::new(());
    side_by_side(atoms, |thread, atom| {
        let tree = tree(thread);
        git(project, &tree, &["checkout", "-q", "--force", "--detach", "main"]);
        git(project, &tree, &["clean", "-ffdqx"]);
        shell(&tree, &work.command(atom));
        git(project, &tree, &["add", "-A"]);
        let made = git(project, &tree, &["write-tree"]);
        if work == AtomWork::File {
            let _turn = landing.lock().expect("nobody panics");
            let tip = git(project, &project.root(), &["rev-parse", "main"]);
            let base = git(project, &tree, &["rev-parse", "HEAD"]);
            let merged = match base == tip {
                true => made,
                false => {
                    let ours = git(project, &tree, &["commit-tree", &made, "-p", &base, "-m", "d"]);
                    git(project, &tree, &["merge-tree", "--write-tree", &tip, &ours])
                }
            };
            let commit = git(project, &tree, &["commit-tree", &merged, "-p", &tip, "-m", "d"]);
            git(project, &project.root(), &["read-tree", "-m", "-u", &tip, &commit]);
            git(project, &project.root(), &["update-ref", "refs/heads/main", &commit, &tip]);
        }
    });
}

fn bare_in_place(project: &Project, atoms: usize, work: AtomWork) {
    let (root, shadow) = (project.root(), project.path("../shadow.git"));
    git(project, &root, &["init", "-q", "--bare", &shadow.display().to_string()]);
    let shadow = format!("--git-dir={}", shadow.display());
    let git = |words: &[&str]| {
        let words: Vec<&str> = [shadow.as_str(), "--work-tree=."].iter().chain(words).copied().collect();
        git(project, &root, &words)
    };
    let mut tip = None;
    for atom in 0..atoms {
        git(&["add", "-A"]);
        let before = git(&["write-tree"]);
        shell(&root, &work.command(atom));
        git(&["add", "-A"]);
        let after = git(&["write-tree"]);
        if before != after {
            let parent: Vec<&str> = tip.iter().flat_map(|tip: &String| ["-p", tip.as_str()]).collect();
            let words: Vec<&str> = ["commit-tree", "-m", "d", &after].into_iter().chain(parent).collect();
            let commit = git(&words);
            git(&["update-ref", "refs/heads/aot", &commit]);
            tip = Some(commit);
        }
    }
}

fn git(project: &Project, folder: &Path, words: &[&str]) -> String {
    // A program that is looked for in another `PATH` is started by `fork`, which copies what this process knows of its memory:
    // by the end of a full pass that costs more than git.
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file());
        found.expect("git is here")
    });
    let mut git = Command::new(&*PROGRAM);
    project.dress(&mut git);
    let done = git.args(words).current_dir(folder).output().expect("git is here");
    assert!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
}

fn shell(folder: &Path, command: &str) {
    succeed(Command::new("/bin/sh").args(["-c", command]).current_dir(folder).stdin(Stdio::null()));
}

fn is_there(program: impl AsRef<Path>) -> bool {
    let tried = Command::new(program.as_ref()).arg("--version").stdin(Stdio::null()).output();
    tried.is_ok_and(|output| output.status.success())
}

/// Where the programs of the rivals from PyPI are. They are installed once.
fn rivals() -> Option<PathBuf> {
    let named = std::env::var_os("AOT_PERFORMANCE_CACHE").map(PathBuf::from);
    let place =
        named.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache/aot-performance")))?;
    let rivals = place.join("rivals");
    let bin = rivals.join("bin");
    let has_all = || {
        let mut asked = Command::new(bin.join("pip"));
        let listed = asked.args(["freeze"]).stdin(Stdio::null()).output().ok()?;
        let listed = String::from_utf8_lossy(&listed.stdout).to_lowercase();
        Some(PACKAGES.iter().all(|package| listed.lines().any(|line| line == *package)))
    };
    if has_all() == Some(true) {
        return Some(bin);
    }
    fs::create_dir_all(&place).ok()?;
    let run = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let made = run(Command::new("python3").args(["-m", "venv"]).arg(&rivals))
        && run(Command::new(bin.join("pip")).args(["install", "-q"]).args(PACKAGES));
    made.then_some(bin)
}
