//! Workers that set traps for the program outside of their cage, through git and through their checks.

use std::process::Command;

use crate::repo::{Plan, Repo, atom, check};

/// The cages that hold here. Without one a worker could do everything by itself, so only what git is led to do counts.
fn cages() -> Vec<&'static str> {
    let bwrap = Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]).output();
    let has_bwrap = bwrap.is_ok_and(|output| output.status.success());
    if !has_bwrap {
        eprintln!("SKIPPED bwrap in run::traps: it does not start here");
    }
    let mut cages = vec!["landlock", "none"];
    if has_bwrap {
        cages.push("bwrap");
    }
    cages
}

fn caged(repo: Repo, cage: &str) -> Repo {
    repo.write("../config/aot/aot.toml", &format!("[cage]\nkind = \"{cage}\"\n"));
    repo
}

fn checked(id: &str, after: &str, run: &str, check: &str) -> String {
    let atom = atom(id, after, run);
    let atom = atom.strip_suffix("}\n").expect("it ends so").to_owned();
    format!("{atom}, check: {{type: command, value: {check:?}}}}}\n")
}

/// A repository in the place of the worker's own, in which every program that git could run leaves a mark.
const TRAP: &str = "rm -rf .git; git init -q .; for key in core.fsmonitor filter.evil.clean filter.evil.smudge diff.external; \
                    do git config $key 'touch SPRUNG; cat'; done; echo '* filter=evil' > .gitattributes; echo 1 > one";

#[test]
fn a_repository_that_a_worker_makes_runs_nothing_outside() {
    for cage in cages() {
        for place in ["worktree", "in_place", "outside", "none"] {
            let holds = check("test -e one");
            let objective = match place {
                "worktree" | "outside" => String::new(),
                mode => format!("  isolation: {{mode: {mode}}}"),
            };
            // In place, the repository of the user is not the worker's to replace.
            let trap =
                if matches!(place, "worktree" | "outside") { TRAP } else { &TRAP["rm -rf .git; ".len()..] };
            let plan = Plan { base_case: &holds, objective: &objective, ..Plan::default() };
            let repo = caged(if place == "outside" { Repo::bare(&plan) } else { Repo::with(&plan) }, cage);
            let repo = if matches!(place, "in_place" | "none") { repo.at("below") } else { repo };
            let mark = repo.path("../sprung-outside");
            let trap = trap.replace("SPRUNG", mark.to_str().expect("a text"));
            let atoms = checked("A1", "", &trap, "test -e one");
            repo.plan(&Plan { atoms: &atoms, ..plan });
            let said = repo.run();
            assert!(!mark.exists(), "{cage}, {place}: {}{}", said.out, said.err);
            // A later run, and verbs that look at the files, are not led into it either.
            repo.aot(&["verify", "--json"]);
            repo.run();
            assert!(!mark.exists(), "{cage}, {place}, later: {}{}", said.out, said.err);
            match place {
                "worktree" => {
                    assert_eq!((said.exit, repo.landed("main").as_str()), (0, "A1"), "{cage}: {}", said.out)
                }
                "in_place" | "outside" => {
                    assert!(!repo.path(".git").exists(), "{cage}, {place}");
                    assert!(said.out.contains("cannot hold repositories"), "{cage}, {place}: {}", said.out);
                }
                _ => {
                    assert!(!repo.path(".git").exists(), "{cage}, {place}");
                    assert!(said.out.contains("A1 made a repository at .git"), "{cage}: {}", said.out);
                }
            }
        }
    }
}

#[test]
fn what_a_check_writes_never_lands() {
    for cage in cages() {
        let spoil = "echo spoiled > tests/t; echo x > aot.toml; echo x > by-check";
        let run = format!("printf '%s\\n' {:?} > run-tests; echo 1 > one", spoil);
        let plan = Plan {
            atoms: &checked("A1", "", &run, "sh ./run-tests"),
            base_case: &check("test -e one"),
            objective: "  protected: [\"tests/**\"]",
            ..Plan::default()
        };
        let repo = caged(Repo::with(&plan), cage);
        repo.write("tests/t", "tests\n");
        repo.git(&["add", "tests"]);
        repo.git(&["commit", "-qm", "Tests"]);
        let said = repo.run();
        assert_eq!(said.exit, 0, "{cage}: {}{}", said.out, said.err);
        assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "one\nrun-tests");
        assert_eq!(repo.read("tests/t"), "tests\n");
        assert!(
            said.out.contains("the check of A1 changed aot.toml, by-check, tests/t"),
            "{cage}: {}",
            said.out
        );
    }
}

#[test]
fn what_a_worker_leaves_ignored_helps_no_other_check() {
    let atoms = [
        checked("A1", "", "mkdir ignored; echo 1 > ignored/left; echo 1 > one", "test -e ignored/left"),
        checked("A2", "A1", "echo 2 > two", "test -e ignored/left"),
    ]
    .concat();
    let repo = Repo::with(&Plan {
        atoms: &atoms,
        base_case: &check("test -e two"),
        constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 1",
        ..Plan::default()
    });
    let said = repo.run();
    assert_ne!(said.exit, 0, "{}{}", said.out, said.err);
    assert_eq!(repo.landed("main"), "A1");
    let told = "A1 landed without what git ignores, which its check could see: ignored";
    assert!(said.out.contains(told), "{}", said.out);
}

#[test]
fn a_repository_that_a_check_makes_is_taken_away() {
    for cage in cages() {
        for place in ["outside", "worktree", "none"] {
            let plan = Plan {
                atoms: &checked("A1", "", "echo 1 > one", "test -e one"),
                base_case: &check("git init -q . 2> /dev/null; test -e one"),
                objective: if place == "none" { "  isolation: {mode: none}" } else { "" },
                ..Plan::default()
            };
            let repo = if place == "outside" { Repo::bare(&plan) } else { Repo::with(&plan).at("below") };
            let repo = caged(repo, cage);
            repo.plan(&plan);
            let said = repo.run();
            assert_eq!(said.exit, 0, "{cage}, {place}: {}{}", said.out, said.err);
            assert!(!repo.path(".git").exists(), "{cage}, {place}: {}", said.out);
            // Under landlock there may be nobody who could make it.
            let is_told = said.out.contains("a check made a repository at .git; it was moved");
            assert!(is_told || cage == "landlock", "{cage}, {place}: {}", said.out);
        }
    }
}

#[test]
fn filters_of_the_user_work_in_the_cage() {
    for cage in cages() {
        let plan = Plan {
            atoms: &checked("A1", "", "echo text > a.up", "grep -qx text a.up"),
            base_case: &check("grep -qx text a.up"),
            ..Plan::default()
        };
        let repo = caged(Repo::with(&plan), cage);
        repo.write(".gitattributes", "*.up filter=up\n");
        repo.git(&["add", ".gitattributes"]);
        repo.git(&["commit", "-qm", "Attributes"]);
        let mark = repo.path("../sprung-outside");
        let clean = format!("touch {} 2> /dev/null; tr a-z A-Z", mark.display());
        for (name, command) in [("clean", clean.as_str()), ("smudge", "tr A-Z a-z"), ("required", "true")] {
            repo.git(&["config", &format!("filter.up.{name}"), command]);
        }
        let said = repo.run();
        assert_eq!(said.exit, 0, "{cage}: {}{}", said.out, said.err);
        assert_eq!(mark.exists(), cage == "none", "{cage}");
        assert_eq!(repo.git(&["cat-file", "blob", "HEAD:a.up"]), "TEXT", "{cage}");
        assert_eq!((repo.read("a.up"), repo.git(&["status", "--porcelain"])), ("text\n".into(), "".into()));
    }
}

/// A loop whose repository has the submodule `lib`.
fn with_submodule(plan: &Plan<'_>, cage: &str) -> Repo {
    let repo = caged(Repo::with(plan), cage);
    let library = Repo::with(&Plan::default());
    let url = library.path(".").to_str().expect("a text").to_owned();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    repo.git(&["commit", "-qm", "A library"]);
    repo
}

/// Landlock by itself cannot spare a part of what it opens.
fn is_read_only(cage: &str) -> bool {
    cage == "bwrap" || cage == "landlock" && rustix::process::geteuid().is_root()
}

const FILLED: &str = "  isolation: {setup: \"mkdir -p lib && echo library > lib/README\"}";

/// Where the cage can close a part of what it opens, the write itself is refused. Elsewhere the attempt is.
#[test]
fn an_edit_in_a_submodule_is_refused_and_not_lost_in_silence() {
    for cage in cages() {
        let plan = Plan {
            atoms: &checked("A1", "", "echo changed > lib/README", "grep -q changed lib/README"),
            base_case: &check("grep -q changed lib/README"),
            constraints: "max_iterations: 20, max_parallel_agents: 3, max_stall_count: 1",
            objective: FILLED,
            ..Plan::default()
        };
        let repo = with_submodule(&plan, cage);
        let said = repo.run();
        assert_ne!(said.exit, 0, "{cage}: {}{}", said.out, said.err);
        let told = match is_read_only(cage) {
            true => "Read-only file system",
            false => "it changed files in a submodule",
        };
        assert!(said.out.contains(told) && said.out.contains("lib"), "{cage}: {}", said.out);
        assert_eq!(repo.atoms(), "A1:pending", "{cage}");
    }
}

/// The folder of a submodule can be neither moved away nor replaced where it is read-only; what lies beside it lands, and
/// its content can be read.
#[test]
fn work_beside_a_submodule_lands() {
    for cage in cages() {
        let tried = match is_read_only(cage) {
            true => "mv lib gone; rm -rf lib; echo 2 > lib/README; git rm -qf lib; ",
            false => "",
        };
        let run = format!("{tried}cp lib/README one");
        let plan = Plan {
            atoms: &checked("A1", "", &run, "grep -q library one"),
            base_case: &check("grep -q library one"),
            objective: FILLED,
            ..Plan::default()
        };
        let repo = with_submodule(&plan, cage);
        let said = repo.run();
        assert_eq!(said.exit, 0, "{cage}: {}{}", said.out, said.err);
        assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "one", "{cage}");
        assert_eq!(repo.leftovers(), [""; 0], "{cage}");
    }
}

#[test]
fn an_atom_that_writes_only_in_a_submodule_is_refused_before_the_work() {
    let atoms = |writes: &str| {
        let atom = atom("A1", "", "touch ../../../../../started; echo 1 > one");
        atom.replace(", run:", &format!(", writes: [{writes}], run:"))
    };
    for (writes, is_refused) in [
        ("\"lib/**\"", true),
        ("lib", true),
        ("lib/a, lib/b", true),
        ("\"lib/**\", one", false),
        ("library", false),
    ] {
        let plan = Plan { atoms: &atoms(writes), objective: FILLED, ..Plan::default() };
        let repo = with_submodule(&plan, "none");
        let said = repo.run();
        assert_eq!(said.exit != 0, is_refused, "{writes}: {}{}", said.out, said.err);
        if is_refused {
            let told = format!("{}{}", said.out, said.err);
            for part in ["A1 writes only in the submodule lib", "run a loop in lib itself"] {
                assert!(told.contains(part), "{told}");
            }
            assert_eq!((repo.landed("main"), repo.atoms()), (String::new(), "A1:pending".into()));
        }
    }
}
