//! Redirecting at a terminal: what is shown, the menu, yes and cancel, and whoever goes away while a loop stands still.

use super::changing::{STOPPED, stopped};
use crate::repo::{Plan, Repo, STATE};
use crate::terminal::{Terminal, plain};

#[test]
fn the_menu_makes_one_change_of_many() {
    let repo = stopped();
    let mut terminal = Terminal::open(&repo, &["redirect", "--no-agent"]);
    terminal.see("nothing runs");
    terminal.see("  redo     do an atom again, with a hint if you like\n");
    terminal.answer("make, cancel, help]\n> ", "add");
    terminal.answer("`<- A1,A2` says what it depends on\n> ", "back");
    terminal.see("make, cancel, help]\n> ");
    let page = terminal.text();
    for part in [
        "Let people log in",
        "iteration 4 of 20",
        "A6  A rate limiter",
        "tokens: A3 of A2, A3; failed: A2",
        "A5  no styles",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    terminal.press(b"make\r");
    terminal.answer("There is no change yet", "remove");
    terminal.answer("Which pending atom?\n> ", "A4");
    terminal.see("is resolved, not pending");
    terminal.answer("make, cancel, help]\n> ", "remove");
    terminal.answer("> ", "A6");
    terminal.answer("1 change so far", "limit");
    terminal.answer("> ", "max_iterations=many");
    terminal.see("whole number");
    terminal.answer("make, cancel, help]\n> ", "limit");
    terminal.answer("> ", "max_iterations=30");
    terminal.answer("2 changes so far", "depends");
    terminal.answer("> ", "A5 <- A6");
    terminal.see("exclude each other");
    terminal.answer("make, cancel, help]\n> ", "goal");
    terminal.answer("Enter: Let people log in\n> ", "Let people in");
    terminal.answer("3 changes so far", "make");
    terminal.see("Make this change?");
    terminal.press(b"edit\r");
    terminal.answer("3 changes so far", "drop");
    terminal.answer("2 changes so far", "make");
    terminal.see("[yes/edit/cancel] ");
    let text = terminal.text();
    let last = text.rsplit("limits").next().expect("a page").to_owned();
    for part in
        ["max_iterations: 20 -> 30", "- A6  A rate limiter, after A4", "the history stays, and gets 1 entry"]
    {
        assert!(last.contains(part), "{part}\n{last}");
    }
    terminal.press(b"yes\r");
    terminal.see("Next: aot run");
    let (code, seen) = terminal.end();
    let text = plain(&seen);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let state = repo.state();
    assert_eq!(state["corrections"].as_array().map(Vec::len), Some(2));
    assert_eq!(state["objective"]["goal"], "Let people log in");
    assert_eq!(state["objective"]["constraints"]["max_iterations"], 30);
}

#[test]
fn whoever_cancels_or_goes_away_has_changed_nothing() {
    for (keys, exit) in [(&b"cancel\r"[..], 1), (b"\x03", 130), (b"\x04", 130)] {
        let repo = stopped();
        let mut terminal = Terminal::open(&repo, &["redirect", "--no-agent"]);
        terminal.answer("make, cancel, help]\n> ", "remove");
        terminal.answer("> ", "A6");
        terminal.see("make, cancel, help]\n> ");
        terminal.press(keys);
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(exit), "{}", plain(&seen));
        assert_eq!(repo.read(STATE), STOPPED, "{keys:?}");
    }
}

/// Nobody has to leave the dialogue, and lose what was said so far, to get out of one question.
#[test]
fn each_question_says_how_to_answer_it_and_how_to_get_out() {
    let repo = stopped();
    let mut terminal = Terminal::running(&repo.command(&["redirect", "--no-agent"]), &[], 40);
    terminal.answer("cancel, help]\n> ", "limit");
    terminal.answer("> ", "max_iterations=30");
    terminal.answer("cancel, help]\n> ", "add");
    // It is no name of an atom.
    terminal.answer("> ", "help");
    terminal.see("What should be done?");
    terminal.see("`back` returns");
    terminal.answer("> ", "");
    terminal.see("Required: `back` returns");
    terminal.answer("> ", "back");
    terminal.see("1 change so far");
    terminal.answer("cancel, help]\n> ", "checks");
    terminal.answer("> ", "HELP");
    terminal.see("All the new checks");
    terminal.answer("> ", "back");
    terminal.answer("cancel, help]\n> ", "help");
    terminal.see("  rebind ");
    terminal.answer("cancel, help]\n> ", "make");
    terminal.answer("[yes/edit/cancel] ", "yes");
    let (code, seen) = terminal.end();
    let text = plain(&seen);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    let state = repo.state();
    assert_eq!(state["objective"]["constraints"]["max_iterations"], 30);
    assert!(!text.contains("adds") && state["corrections"].as_array().map(Vec::len) == Some(1), "{state}");
}

fn running() -> (Repo, std::path::PathBuf) {
    let repo = Repo::with(&Plan::default());
    let go = repo.path("../go");
    let run = format!("while [ ! -e {} ]; do sleep 0.02; done; echo one > one", go.display());
    repo.plan(&Plan { atoms: &crate::repo::atom("A1", "", &run), ..Plan::default() });
    (repo, go)
}

#[test]
fn a_running_loop_stands_while_somebody_talks_and_goes_on() {
    let (repo, go) = running();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let mut terminal = Terminal::open(&repo, &["redirect", "--no-agent"]);
    terminal.see("all stopped after");
    live.hear("\"type\":\"killed\"");
    terminal.see("make, cancel, help]\n> ");
    assert_eq!(repo.state()["control"]["redirect_requested"], true);
    assert_eq!(repo.atoms(), "A1:pending");
    let second = repo.aot(&["redirect", "--set", "max_iterations=9"]);
    assert_eq!((second.exit, second.err.contains("already under way")), (1, true), "{}", second.err);
    terminal.press(b"cancel\r");
    terminal.see("goes on as it was");
    assert_eq!(terminal.end().0, Some(1));
    live.hear("\"type\":\"started\"");
    // And once more, with a change.
    let mut terminal = Terminal::open(&repo, &["redirect", "--no-agent"]);
    terminal.answer("make, cancel, help]\n> ", "add");
    terminal.answer("> ", "{\"description\": \"Two\", \"run\": \"echo two > two\"}");
    terminal.answer("1 change so far", "make");
    terminal.answer("[yes/edit/cancel] ", "yes");
    terminal.see("the loop goes on");
    assert_eq!(terminal.end().0, Some(0));
    std::fs::write(&go, "").expect("a file");
    let ran = live.end();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    assert_eq!(repo.read("two"), "two\n");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn a_loop_whose_person_went_away_says_so_and_is_taken_up_again() {
    for leave in ["ctrl-c", "ctrl-d", "closed", "killed"] {
        let (repo, go) = running();
        let mut live = repo.start(&["run"]);
        live.hear("starts");
        let mut terminal = Terminal::open(&repo, &["redirect", "--no-agent"]);
        terminal.answer("make, cancel, help]\n> ", "limit");
        terminal.answer("> ", "max_iterations=99");
        terminal.see("1 change so far");
        match leave {
            "ctrl-c" => {
                terminal.press(b"\x03");
                assert_eq!(terminal.end().0, Some(130));
            }
            "ctrl-d" => {
                terminal.press(b"\x04");
                assert_eq!(terminal.end().0, Some(130));
            }
            "closed" => {
                terminal.close().wait().expect("it ends");
            }
            _ => {
                terminal.child.kill().expect("it is killed");
                let _ = terminal.end();
            }
        }
        let ran = live.end();
        assert_eq!(ran.exit, 10, "{leave}: {}{}", ran.out, ran.err);
        assert!(
            ran.out.contains("redirect interrupted") && ran.out.contains("aot run"),
            "{leave}: {}",
            ran.out
        );
        let state = repo.state();
        assert_eq!(state["control"]["redirect_requested"], false, "{leave}");
        assert_eq!(state["objective"]["constraints"]["max_iterations"], 20, "{leave}");
        assert_eq!(state["corrections"], serde_json::json!([]), "{leave}");
        std::fs::write(&go, "").expect("a file");
        assert_eq!(repo.run().exit, 0, "{leave}");
    }
}
