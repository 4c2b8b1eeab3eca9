//! The workers' trees lie outside of the project, where nothing that searches the project finds them.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repo::{Plan, Repo, Said, atom, check};

fn plan<'p>(atoms: &'p str, base_case: &'p str, objective: &'p str) -> Plan<'p> {
    Plan { atoms, base_case, objective, ..Plan::default() }
}

/// Two atoms, each of which makes what a test looks for.
fn two() -> String {
    [atom("A1", "", "echo 1 > one"), atom("A2", "", "echo 2 > two")].concat()
}

const SETTINGS: &str = "[cage]\nkind = \"none\"\n";

/// The folder of the user's cache in which trees lie.
fn cache(repo: &Repo) -> PathBuf {
    repo.path("../.cache/aot/trees")
}

/// The trees in a folder, by their names.
fn inside(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The trees of all loops in the cache.
fn kept(repo: &Repo) -> Vec<PathBuf> {
    let loops = inside(&cache(repo));
    let trees = loops.iter().map(|one| cache(repo).join(one));
    trees.flat_map(|one| inside(&one).into_iter().map(move |name| one.join(name))).collect()
}

/// A project whose tests look for what the loop makes, and that finds its tests by searching.
fn searching(tests: &[(&str, &str)], command: &str) -> Repo {
    let (atoms, holds) = (two(), check(command));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    for (path, text) in tests {
        repo.write(path, text);
    }
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "Tests"]);
    repo
}

fn own_run(repo: &Repo, command: &str) -> (bool, String) {
    let done = Command::new("sh").args(["-c", command]).current_dir(repo.path(".")).output();
    let done = done.expect("it starts");
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn done_and_green(repo: &Repo, command: &str) {
    let said = repo.run();
    assert_eq!((said.exit, said.halted()["status"].as_str()), (0, Some("completed")), "{}", said.out);
    assert_eq!(kept(repo).len(), 2, "trees stay for the next run");
    let (is_green, text) = own_run(repo, command);
    assert!(is_green, "{text}");
}

/// `node --test` searches every folder for files whose names look like tests.
#[test]
fn node_finds_the_project_s_tests_and_no_worker_s() {
    if !Command::new("node").arg("--version").output().is_ok_and(|done| done.status.success()) {
        eprintln!("left out: there is no node");
        return;
    }
    let test = |name: &str| {
        format!(
            "const test = require('node:test'); const fs = require('node:fs'); const path = require('node:path');\n\
             test('{name}', () => fs.accessSync(path.join(__dirname, '..', '{name}')));\n"
        )
    };
    let (one, two) = (test("one"), test("two"));
    let repo = searching(&[("test/one.test.js", &one), ("test/two.test.js", &two)], "node --test");
    done_and_green(&repo, "node --test");
}

#[test]
fn a_script_that_searches_the_project_finds_no_tree() {
    let here = |name: &str| format!("test -e \"$(dirname \"$0\")/{name}\"\n");
    let (one, two) = (here("one"), here("two"));
    let command =
        "for file in $(find . -name '*.check' -not -path './.git/*'); do sh \"$file\" || exit 1; done";
    let repo = searching(&[("one.check", &one), ("two.check", &two)], command);
    done_and_green(&repo, command);
}

#[test]
fn trees_lie_in_the_user_s_cache_and_are_the_user_s_alone() {
    let (atoms, holds) = (two(), check("test -e one && test -e two"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    assert_eq!(repo.run().exit, 0);
    let mode = fs::metadata(cache(&repo)).expect("it was made").permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    assert!(!repo.path(".claude/aot/trees").exists());
    // Another place, as the user says it.
    let moved = repo.path("../moved");
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    let done = repo.command(&["run", "--json"]).env("XDG_CACHE_HOME", &moved).output();
    assert!(done.expect("it starts").status.success());
    assert_eq!(inside(&moved.join("aot/trees")).len(), 1);
    assert!(!cache(&repo).exists());
}

/// Where a worker is, `aot` finds the loop that lent it the tree.
#[test]
fn in_a_tree_the_loop_is_the_one_that_lent_it() {
    let aot = env!("CARGO_BIN_EXE_aot");
    let atoms = atom("A1", "", &format!("mkdir deep && cd deep && {aot} status --json > ../one"));
    let repo = Repo::with(&plan(&atoms, &check("test -s one"), ""));
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert!(repo.read("one").contains("Let the numbers be there"), "{}", repo.read("one"));
}

/// The same loop once more, with something to do.
fn anew(repo: &Repo, gone: &str, plan: &Plan<'_>) {
    fs::remove_file(repo.path(gone)).expect("it was there");
    repo.git(&["commit", "-qam", "Again"]);
    repo.plan(plan);
}

fn fallen_back(repo: &Repo, said: &Said, why: &str) {
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(inside(&repo.path(".claude/aot/trees")).len(), 2, "{}", said.out);
    let told: Vec<&str> =
        said.out.lines().filter(|line| line.contains("the workers' trees lie in the project")).collect();
    assert!(told.len() == 1 && told[0].contains(why), "{why}: {}", said.out);
}

#[test]
fn where_the_cache_cannot_be_used_trees_lie_in_the_sidecar_and_that_is_said_once() {
    let (atoms, holds) = (two(), check("test -e one && test -e two"));
    let made = || Repo::with(&plan(&atoms, &holds, ""));
    let repo = made();
    repo.write("../.cache", "a file");
    fallen_back(&repo, &repo.run(), "cannot be used");
    // The next run can use it: nothing is left in the project.
    fs::remove_file(repo.path("../.cache")).expect("it was there");
    anew(&repo, "one", &plan(&atoms, &holds, ""));
    assert_eq!(repo.run().exit, 0);
    assert!(!repo.path(".claude/aot/trees").exists());
    assert!(!kept(&repo).is_empty());

    // What workers may write is no place for the trees of others.
    let repo = made();
    fs::create_dir_all(repo.path("../.cache")).expect("made");
    repo.write("../config/aot/aot.toml", &format!("{SETTINGS}writable = [\"~/.cache\"]\n"));
    fallen_back(&repo, &repo.run(), "workers may write");

    // A cache in the project would be found by what searches the project.
    let repo = made();
    repo.write(".git/info/exclude", ".cache\n");
    let own = repo.path(".cache");
    let output = repo.command(&["run", "--json"]).env("XDG_CACHE_HOME", &own).output().expect("it starts");
    let said = Said {
        exit: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::new(),
    };
    fallen_back(&repo, &said, "lies in the project");

    // Another user could put something there.
    let repo = made();
    fs::create_dir_all(repo.path("../.cache/aot/trees")).expect("made");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(repo.path("../.cache/aot/trees"), open).expect("it is ours");
    if fs::metadata(repo.path("../.cache/aot/trees")).expect("there").uid() == 0
        && Command::new("chown").arg("65534").arg(repo.path("../.cache/aot/trees")).status().is_ok()
    {
        fallen_back(&repo, &repo.run(), "another user");
    }
}

/// What an earlier version left in the project goes.
#[test]
fn trees_of_an_earlier_version_are_removed_from_the_project() {
    let (atoms, holds) = (two(), check("test -e one && test -e two"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    assert_eq!(repo.run().exit, 0);
    anew(&repo, "one", &plan(&atoms, &holds, ""));
    let old = repo.path(".claude/aot/trees/1").display().to_string();
    repo.git(&["worktree", "add", "-q", "--detach", &old]);
    assert_eq!(repo.run().exit, 0);
    assert!(!repo.path(".claude/aot/trees").exists());
    assert!(!repo.git(&["worktree", "list"]).contains("/.claude/"));
}

/// Trees are found again after a project was moved or its cache was deleted: they are made anew, and two projects never
/// share one.
#[test]
fn a_moved_project_and_a_deleted_cache_get_trees_anew() {
    let (atoms, holds) = (two(), check("test -e one && test -e two"));
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    assert_eq!(repo.run().exit, 0);
    let before = inside(&cache(&repo));
    fs::remove_dir_all(repo.path("../.cache")).expect("deleted");
    let again = |repo: &Repo, gone: &str| {
        anew(repo, gone, &plan(&atoms, &holds, ""));
        let said = repo.run();
        assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
        let listed = repo.git(&["worktree", "list", "--porcelain"]);
        assert!(!listed.contains("prunable"), "{listed}");
        listed
    };
    again(&repo, "one");
    assert_eq!(inside(&cache(&repo)), before, "the same name as before");

    let (here, there) = (repo.path("../project"), repo.path("../there"));
    fs::rename(&here, &there).expect("moved");
    let moved = repo.at("../there");
    let listed = again(&moved, "two");
    let after = inside(&moved.path("../.cache/aot/trees"));
    assert_eq!((after.len(), before != after), (1, true), "the trees of the old place are gone: {after:?}");
    assert!(!listed.contains(&before[0]), "{listed}");

    // Another project where the first one was gets a tree of its own, and leaves the moved one's alone.
    let trees = moved.path("../.cache/aot/trees").join(&after[0]);
    assert!(!inside(&trees).is_empty());
    fs::create_dir_all(&here).expect("made");
    let other = Repo::with(&plan(&atoms, &holds, ""));
    let home = moved.path("..").canonicalize().expect("there");
    let output = other.command(&["run", "--json"]).env("HOME", &home).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(inside(&moved.path("../.cache/aot/trees")).len(), 2);
    assert!(!inside(&trees).is_empty());
}

/// A check in the project's own folder sees no tree of a session and none that lies in the sidecar, where the cage can hide it.
#[test]
fn checks_in_the_root_do_not_see_trees_in_the_project() {
    let holds = check("test -z \"$(find . -name '*.test.js')\"");
    let atoms = atom("A1", "", "echo 1 > one");
    let repo = Repo::with(&plan(&atoms, &holds, ""));
    repo.write(".git/info/exclude", ".aot\n");
    repo.write("../.cache", "a file");
    repo.write("../config/aot/aot.toml", "");
    assert_eq!(repo.aot(&["verify", "--json"]).exit, 0);
    for folder in [".aot/trees/A1-1", ".claude/aot/trees/1"] {
        repo.write(&format!("{folder}/a.test.js"), "throw 1");
    }
    let own_view = aot_runner::process::cage::Kind::Landlock.has_own_view();
    let said = repo.aot(&["verify", "--json"]);
    assert_eq!(said.exit == 0, own_view, "{}{}", said.out, said.err);
}

/// A disk of its own for the cache, on which this many files or bytes have room. Only this run sees it.
fn with_small_cache(repo: &Repo, options: &str) -> Option<Said> {
    fs::create_dir_all(repo.path("../.cache")).expect("made");
    let script = "mount -t tmpfs -o \"$1\" tmpfs \"$2\" || exit 77; shift 2; exec \"$@\"";
    let mut command = repo.command(&[]);
    let aot = command.get_program().to_owned();
    let words = ["-m", "sh", "-c", script, "sh", options];
    let mut wrapped = Command::new("unshare");
    wrapped.args(words).arg(repo.path("../.cache")).arg(aot).args(["run", "--json"]);
    wrapped.env_clear().current_dir(repo.path("."));
    let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    wrapped.envs(variables.collect::<Vec<_>>());
    command.stdin(std::process::Stdio::null());
    let done = wrapped.output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = Said { exit: done.status.code()?, out: text(&done.stdout), err: text(&done.stderr) };
    (![1, 77, 127].contains(&said.exit)).then_some(said)
}

#[test]
fn without_room_in_the_cache_trees_lie_in_the_sidecar() {
    let (atoms, holds) = (two(), check("test -e one && test -e two"));
    for (options, why) in [("size=1m", "has only 1 MiB left"), ("size=2g,nr_inodes=8", "is full")] {
        let repo = Repo::with(&plan(&atoms, &holds, ""));
        let Some(said) = with_small_cache(&repo, options) else {
            eprintln!("left out: nothing can be mounted here");
            return;
        };
        fallen_back(&repo, &said, why);
    }
}

/// Links and copies reach a tree on another disk than the project's.
#[test]
fn trees_on_another_disk_have_what_is_shared_and_copied() {
    let atoms = atom("A1", "", "cat lib/x own > one");
    let holds = check("test -s one");
    let repo = Repo::with(&plan(&atoms, &holds, "  isolation: {share: [lib], copy: [own]}"));
    repo.write(".git/info/exclude", "lib\nown\n");
    repo.write("lib/x", "shared\n");
    repo.write("own", "copied\n");
    let Some(said) = with_small_cache(&repo, "size=2g") else {
        eprintln!("left out: nothing can be mounted here");
        return;
    };
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.read("one"), "shared\ncopied\n");
    assert!(!repo.path(".claude/aot/trees").exists(), "{}", said.out);
}
