//! What a loop has landed, for a reviewer: nothing that a worker committed decides what is seen of it.

use std::fs;

use aot_runner::tree::{Delivery, branch_at, delivered};

use crate::Test;
use crate::kit::{LOOP, Place, guard};

pub const TESTS: &[Test] = &[
    ("a_worker_cannot_hide_what_it_did", a_worker_cannot_hide_what_it_did),
    ("much_is_bounded", much_is_bounded),
    ("a_branch_ends_with_the_work", a_branch_ends_with_the_work),
];

fn commit(place: &Place, atom: &str) {
    place.git(&["add", "-A"]);
    let trailers = format!("Aot-Loop: {LOOP}\nAot-Atom: {atom}\nAot-Attempt: 1");
    place.git(&["commit", "-q", "-m", &format!("Do {atom}"), "-m", &trailers]);
}

fn seen(place: &Place) -> Delivery {
    delivered(&place.project(), None, LOOP, &guard()).expect("git answers").expect("there are commits")
}

fn a_worker_cannot_hide_what_it_did() {
    let place = Place::in_folder("below", &[("kept.txt", "kept\n")]);
    assert_eq!(delivered(&place.project(), None, LOOP, &guard()).expect("git answers"), None);
    // Programs of the user that attributes of the work would choose.
    let ran = place.top.join("../ran");
    let evil = format!("sh -c 'touch {}; true' --", ran.display());
    for setting in ["diff.external", "diff.evil.textconv", "diff.evil.command"] {
        place.git(&["config", setting, &evil]);
    }
    place.write(".gitattributes", "*.js -diff\n*.txt diff=evil binary\n");
    place.write("hidden.js", "steal()\n");
    place.write("odd name\u{1b}[2J:(top)\n.txt", "odd\n");
    place.write("kept.txt", "kept\nand more\n");
    fs::write(place.root.join("picture.txt"), b"\0\x01PNG\n").expect("a file");
    fs::write(place.root.join("large.txt"), vec![b'x'; 200 << 10]).expect("a file");
    commit(&place, "A1");
    let delivery = seen(&place);
    assert!(!ran.exists(), "a program of the configuration ran");
    let [one] = delivery.commits.as_slice() else { panic!("{delivery:?}") };
    for line in ["+steal()\n", "+odd\n", "+and more\n", "(not text)\n"] {
        assert!(one.difference.contains(line), "{line}: {}", one.difference);
    }
    assert!(!one.difference.contains("PNG"), "{}", one.difference);
    let cut = one.cut.as_deref().unwrap_or_default();
    assert!(cut.contains("too large to be shown: below/large.txt") && cut.contains("not text"), "{cut}");
    assert_eq!((one.atom.as_str(), one.subject.as_str(), one.files.len()), ("A1", "Do A1", 6));
    assert_eq!((delivery.branch.as_str(), delivery.count, delivery.is_alone), ("main", 1, true));
    assert_eq!(delivery.base, Some(place.tip("HEAD^")));
}

fn much_is_bounded() {
    let place = Place::with(&[("a", "0\n")]);
    for number in 1..=105 {
        place.write("a", &format!("{number}\n{}", "line\n".repeat(number * 40)));
        commit(&place, &format!("A{number}"));
    }
    let delivery = seen(&place);
    assert_eq!((delivery.count, delivery.commits.len(), delivery.files), (105, 105, 1));
    let bytes: usize = delivery.commits.iter().map(|one| one.difference.len()).sum();
    assert!(bytes <= 600 << 10, "{bytes}");
    let last = delivery.commits.last().expect("commits");
    assert_eq!(
        (last.difference.as_str(), last.cut.as_deref()),
        ("", Some("there is no room for more differences"))
    );
    assert!(delivery.commits[0].difference.contains("-0\n"), "{:?}", delivery.commits[0]);
}

fn a_branch_ends_with_the_work() {
    let place = Place::with(&[("a", "0\n")]);
    place.write("a", "1\n");
    commit(&place, "A1");
    let (work, guard) = (seen(&place).tip, guard());
    place.git(&["commit", "-q", "--allow-empty", "-m", "Mine"]);
    let made = |commit: &str| branch_at(&place.project(), "aot/x", commit, &guard).expect("git answers");
    assert!(!seen(&place).is_alone);
    assert_eq!((made(&work).as_deref(), place.tip("aot/x")), (Some("aot/x"), work.clone()));
    assert_eq!(made(&work).as_deref(), Some("aot/x"), "it is there already");
    // It goes on to what lies before it, and leaves one that went another way.
    let mine = place.tip("main");
    assert_eq!((made(&mine).as_deref(), place.tip("aot/x")), (Some("aot/x"), mine.clone()));
    place.git(&["branch", "-q", "-f", "aot/x", "HEAD~2"]);
    place.git(&["worktree", "add", "-q", "../other", "aot/x"]);
    assert_eq!((made(&mine).as_deref(), place.tip("aot/x-2")), (Some("aot/x-2"), mine));
    assert_ne!(place.tip("aot/x"), place.tip("main"));
}
