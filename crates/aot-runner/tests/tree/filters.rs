//! Filters that the user's own configuration of git names: they work, in the workers' cage, and nobody who only looks at
//! files starts them.

use std::fs;
use std::path::Path;

use aot_core::state::IsolationMode;
use aot_runner::confinement::{Caging, Confinement};
use aot_runner::process::cage::{Kind, Network};
use aot_runner::tree::{End, GroundError, Tree};

use crate::Test;
use crate::kit::{Place, commit_of, contents, guard, land, landed, read, work, write};

pub const TESTS: &[Test] = &[
    ("filters_of_the_user_work_and_are_caged", filters_of_the_user_work_and_are_caged),
    ("large_files_of_the_user_work_in_a_cage", large_files_of_the_user_work_in_a_cage),
    ("whoever_looks_at_files_starts_no_filter", whoever_looks_at_files_starts_no_filter),
    ("a_configuration_among_the_files_is_refused", a_configuration_among_the_files_is_refused),
];

/// The cages that hold here, as what confines workers who must not read this file.
fn confinements(key: &Path) -> Vec<(Kind, Confinement)> {
    let bwrap = std::process::Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]).output();
    let has_bwrap = bwrap.is_ok_and(|output| output.status.success());
    let kinds = if has_bwrap { vec![Kind::Landlock, Kind::Bwrap] } else { vec![Kind::Landlock] };
    let variables = ["PATH", "HOME"].map(|name| (name.into(), std::env::var_os(name).unwrap_or_default()));
    let of = |kind| {
        let (writable, hidden) = (Vec::new(), vec![key.to_path_buf()]);
        let caging = Caging { kind, writable, hidden, network: Network::On };
        (kind, Confinement::AsWorkers { caging, variables: variables.to_vec() })
    };
    kinds.into_iter().map(of).collect()
}

fn configure(place: &Place, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        place.git(&["config", name, value]);
    }
}

fn filters_of_the_user_work_and_are_caged() {
    let outside = tempfile::tempdir().expect("a temporary folder");
    let outside = outside.path().canonicalize().expect("it is there");
    let (mark, key) = (outside.join("sprung"), outside.join("key"));
    fs::write(&key, "secret\n").expect("written");
    for (kind, confinement) in confinements(&key) {
        let attributes = "*.up filter=up\n*.short filter=short\n";
        let place = Place::with(&[("a.txt", "1\n"), ("tool.sh", "cat\n"), (".gitattributes", attributes)])
            .wanting(|wanted| wanted.confinement = confinement);
        configure(
            &place,
            &[
                ("filter.up.clean", "tr a-z A-Z"),
                ("filter.up.smudge", "tr A-Z a-z"),
                ("filter.short.clean", "head -c 3"),
                ("filter.tool.clean", "sh ./tool.sh %f"),
                ("filter.tool.smudge", "sh ./tool.sh %f"),
            ],
        );
        let ground = place.ground();
        // More than fits into a pipe.
        let long = "a long line of text\n".repeat(20_000);
        let tool = format!(
            "touch {} {}/$1.seen; cat {}; env | grep ^SECRET; cat\n",
            mark.display(),
            place.root.display(),
            key.display()
        );
        let mut lent = ground.lend(&work("A1", 1)).expect("a tree");
        for (path, text) in [
            ("x.up", "text\n"),
            ("empty.up", ""),
            ("long.up", &long),
            ("long.short", &long),
            ("tool.sh", &tool),
            ("x.tool", "text\n"),
            (".gitattributes", &format!("{attributes}*.tool filter=tool\n")),
        ] {
            write(lent.root(), path, text);
        }
        commit_of(land(&ground, &mut lent));
        ground.give_back(lent, End::Landed).expect("given back");
        let blob = |path: &str| place.git(&["cat-file", "blob", &format!("HEAD:{path}")]);
        assert_eq!((blob("x.up").as_str(), blob("empty.up").as_str()), ("TEXT", ""), "{kind}");
        assert_eq!(blob("long.up"), long.to_uppercase().trim_end(), "{kind}");
        assert_eq!((blob("long.short").as_str(), blob("x.tool").as_str()), ("a l", "text"), "{kind}");
        // Into the checkout, and into the next tree.
        landed(&ground, "A2", &[("y.tool", "2\n"), ("x.tool", "2\n")]);
        let lent = ground.lend(&work("A3", 1)).expect("a tree");
        for folder in [place.root.as_path(), lent.root()] {
            assert_eq!((read(folder, "x.up"), read(folder, "x.tool")), ("text\n".into(), "2\n".into()));
            assert!(read(folder, "long.up") == long, "{kind}: all of it came back");
        }
        assert_eq!(ground.changed(&lent).expect("seen"), Vec::<String>::new(), "{kind}");
        assert!(!mark.exists(), "{kind}: a worker's program ran outside of the cage");
        let files = contents(&place.root).into_keys().collect::<Vec<_>>();
        assert!(!files.iter().any(|path| path.ends_with(".seen")), "{kind}: it wrote here: {files:?}");
    }
}

fn large_files_of_the_user_work_in_a_cage() {
    if std::process::Command::new("git-lfs").arg("version").output().is_err() {
        return eprintln!("SKIPPED large_files_of_the_user_work_in_a_cage: no git-lfs");
    }
    let key = tempfile::NamedTempFile::new().expect("a file");
    for (kind, confinement) in confinements(key.path()) {
        let attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";
        let place = Place::with(&[("a.txt", "1\n"), (".gitattributes", attributes)])
            .wanting(|wanted| wanted.confinement = confinement);
        configure(
            &place,
            &[
                ("filter.lfs.clean", "git-lfs clean -- %f"),
                ("filter.lfs.smudge", "git-lfs smudge -- %f"),
                ("filter.lfs.process", "git-lfs filter-process"),
                ("filter.lfs.required", "true"),
            ],
        );
        let ground = place.ground();
        landed(&ground, "A1", &[("x.bin", "large\n"), ("y.bin", "larger\n")]);
        let pointer = place.git(&["cat-file", "blob", "HEAD:x.bin"]);
        assert!(pointer.starts_with("version https://git-lfs.github.com/spec/v1"), "{kind}: {pointer}");
        assert_eq!((place.read("x.bin"), place.status()), ("large\n".into(), String::new()), "{kind}");
        let lent = ground.lend(&work("A2", 1)).expect("a tree");
        assert_eq!(read(lent.root(), "y.bin"), "larger\n", "{kind}");
        assert_eq!(ground.changed(&lent).expect("seen"), Vec::<String>::new());
    }
}

/// The configuration may be that of a repository which somebody copied, and the files those of a worker.
fn whoever_looks_at_files_starts_no_filter() {
    let outside = tempfile::tempdir().expect("a temporary folder");
    let mark = outside.path().join("sprung");
    let evil = format!("touch {}; cat", mark.display());
    let place = Place::with(&[("a.txt", "1\n"), (".gitattributes", "* filter=evil merge=evil\n")]);
    for name in ["filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor"] {
        place.git(&["config", name, &evil]);
    }
    place.git(&["config", "filter.evil.required", "true"]);
    let before = Tree::of(&place.project(), &guard()).expect("it is looked at");
    place.write("a.txt", "2\n");
    place.write("b.txt", "3\n");
    let after = Tree::of(&place.project(), &guard()).expect("it is looked at");
    assert_eq!(before.changed(&after), ["a.txt", "b.txt"]);
    for mode in [IsolationMode::InPlace, IsolationMode::None] {
        let place = Place::at(&place.root).wanting(|wanted| wanted.mode = Some(mode));
        let ground = place.ground();
        let lent = ground.lend(&work("A1", 1)).expect("lent");
        let known = Tree::of(&ground.project_in(&lent, &place.project()), &guard()).expect("looked at");
        assert_eq!(known.hash(), after.hash(), "whoever looks sees the same");
        ground.give_back(lent, End::Failed { reason: "no".into() }).expect("given back");
    }
    assert!(!mark.exists(), "a filter was started");
    // Its name cannot be told to git, so that it could not be kept from running.
    place.git(&["config", "filter.e=vil.clean", &evil]);
    let refused = Tree::of(&place.project(), &guard()).expect_err("it is refused").to_string();
    assert!(refused.contains("filter.e=vil.clean"), "{refused}");
}

fn a_configuration_among_the_files_is_refused() {
    let check = |value: &str, mode: Option<IsolationMode>, is_refused: bool| {
        let place = Place::with(&[("a.txt", "1\n")]).wanting(|wanted| wanted.mode = mode);
        place.git(&["config", "include.path", value]);
        let opened = place.open();
        assert_eq!(matches!(opened, Err(GroundError::Included { .. })), is_refused, "{value}: {opened:?}");
    };
    for mode in [None, Some(IsolationMode::InPlace), Some(IsolationMode::None)] {
        // Nobody has written it yet; a worker could.
        check("../.gitconfig", mode, true);
        check("../settings/git", mode, true);
        check("more", mode, false);
        check("/etc/gitconfig-of-mine", mode, false);
        check("~/.gitconfig-of-mine", mode, false);
    }
}
