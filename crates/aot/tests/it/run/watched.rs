//! The screen of `aot watch` in a real terminal: what it shows while a loop runs, what its keys do, and how it leaves.

use std::fs;
use std::process::Command;

use super::followed::with_agent;
use crate::repo::{Plan, Repo, STATE};
use crate::terminal::Terminal;

/// Leaves the screen.
const LEAVE: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l";

#[test]
fn a_person_watches_a_loop_and_leaves_it_running() {
    let repo = with_agent();
    let mut run = repo.start(&["run", "--json"]);
    run.hear("\"doing\"");
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("reads red.txt");
    terminal.show("running, iteration 1 of 20");
    terminal.show("agents at work");
    repo.write("next", "");
    terminal.show("writes blue.txt");
    for (columns, expected) in [(50, "[graph]"), (20, "too small"), (140, "── agents at work")] {
        terminal.resize(columns);
        terminal.show(expected);
    }
    terminal.press(b"\r");
    terminal.show("try 1, still open");
    terminal.show("writes blue.txt");
    // Nobody could let it go on here, so that it is not stopped.
    terminal.press(b"\x1a");
    terminal.show("try 1, still open");
    terminal.press(b"\x1b");
    terminal.show("[graph]");
    terminal.press(b"q");
    terminal.see("the loop goes on; `aot watch` shows it again");
    let (code, _) = terminal.end();
    assert_eq!(code, Some(0));
    repo.write("go", "");
    assert_eq!(run.end().exit, 0);
    // Of a loop that is over, the same screen shows what came of it.
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("completed, iteration 1 of 20");
    terminal.press(b"\r");
    terminal.show("It is there");
    terminal.press(b"d");
    terminal.show("A1: what landed");
    terminal.press(b"G");
    terminal.show("+one");
    terminal.press(b"qq");
    let seen = terminal.end().1;
    assert!(!String::from_utf8_lossy(&seen).contains("the loop goes on"));
}

/// The loop begins with the screen, and its end is told below it.
#[test]
fn a_run_is_watched_to_its_end() {
    let repo = with_agent();
    let mut terminal = Terminal::open(&repo, &["run", "--watch"]);
    terminal.show("reads red.txt");
    repo.write("go", "");
    terminal.see("DONE");
    assert_eq!(terminal.end().0, Some(0));
    let said = repo.aot(&["run", "--watch"]);
    assert_eq!(said.exit, 2, "{}", said.err);
}

#[test]
fn a_stop_asks_first() {
    let repo = with_agent();
    let mut run = repo.start(&["run", "--json"]);
    run.hear("\"doing\"");
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("reads red.txt");
    terminal.press(b"s");
    terminal.show("Stop the loop? [y/n] What runs finishes");
    terminal.press(b"n");
    terminal.show("q leave");
    terminal.press(b"Sy");
    terminal.show("to stop now");
    terminal.show("stopped, iteration 1 of 20");
    terminal.show("next: aot run");
    assert_eq!(run.end().exit, 10);
    terminal.press(b"\x03");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_person_confirms_at_the_terminal_and_comes_back() {
    let repo = Repo::with(&Plan {
        base_case: "      - {item: \"It reads well\", check: {type: assertion, value: \"It reads well\"}}",
        ..Plan::default()
    });
    assert_eq!(repo.aot(&["run"]).exit, 17);
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("needs your word: It reads well (press c)");
    terminal.press(b"c");
    terminal.answer("Does it hold? [y/n, Enter: later] ", "y");
    terminal.answer("Enter goes back to the screen.", "");
    terminal.show_that("confirmed", |screen| screen.contains("✓ It reads well"));
    terminal.press(b"q");
    assert_eq!(terminal.end().0, Some(0));
    assert_eq!(repo.aot(&["run"]).exit, 0);
    let said = repo.aot(&["confirm"]);
    assert_eq!(said.exit, 2, "{}", said.err);
    assert!(said.err.contains("what can be confirmed: \"It reads well\""), "{}", said.err);
}

#[test]
fn a_redirect_that_is_left_leads_back() {
    let repo = Repo::with(&Plan::default());
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("pending, iteration 0 of 20");
    terminal.press(b"r");
    terminal.see("What should be different?");
    terminal.see("> ");
    terminal.press(b"\x03");
    terminal.see("the redirect is interrupted, and nothing was changed");
    terminal.answer("Enter goes back to the screen.", "");
    terminal.show("pending, iteration 0 of 20");
    terminal.press(b"q");
    assert_eq!(terminal.end().0, Some(0));
}

#[test]
fn a_state_that_cannot_be_read_for_a_moment_keeps_the_picture() {
    let repo = Repo::with(&Plan::default());
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("pending, iteration 0 of 20");
    let text = fs::read_to_string(repo.path(STATE)).expect("a state");
    repo.write(STATE, &text[..text.len() / 2]);
    terminal.show("shown as it was");
    terminal.show("One");
    repo.write(STATE, &text.replace("max_iterations: 20", "max_iterations: 19"));
    terminal.show_that("the new state", |screen| screen.contains("of 19") && !screen.contains("shown as it"));
    terminal.press(b"q");
    assert_eq!(terminal.end().0, Some(0));
}

/// Whatever ends it: a signal, or a terminal that is gone.
#[test]
fn the_terminal_is_put_back_when_it_is_ended() {
    let repo = Repo::with(&Plan::default());
    for signal in ["-TERM", "-HUP", "-INT"] {
        let mut terminal = Terminal::open(&repo, &["watch"]);
        let before = terminal.modes();
        terminal.show("[graph]");
        assert_ne!(terminal.modes(), before, "keys come one by one");
        let pid = terminal.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill is here").success());
        assert_eq!(terminal.child.wait().expect("it ends").code(), Some(130), "{signal}");
        assert_eq!(terminal.modes(), before, "{signal}");
        let seen = terminal.end().1;
        assert!(String::from_utf8_lossy(&seen).ends_with(LEAVE), "{signal}: {seen:?}");
    }
    let mut terminal = Terminal::open(&repo, &["watch"]);
    terminal.show("[graph]");
    let mut child = terminal.close();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn without_a_terminal_it_names_what_shows_the_same() {
    let said = Repo::with(&Plan::default()).aot(&["watch"]);
    assert_eq!((said.exit, said.out.as_str()), (2, ""));
    assert!(said.err.contains("hint: without one: aot status --watch"), "{}", said.err);
}
