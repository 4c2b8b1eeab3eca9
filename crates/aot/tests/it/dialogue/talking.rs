//! Agreeing at a terminal, without an agent: prompts, keys, editors, windows, locales, and going away.

use std::fs;
use std::path::PathBuf;

use super::aligning::{SAID, WHOLE, unaligned};
use crate::repo::{Repo, STATE};
use crate::terminal::{Terminal, plain};

/// A project that says how it is tested.
fn project() -> Repo {
    let repo = unaligned();
    repo.write("Makefile", "test:\n\ttest -f one\nlint:\n\ttrue\n");
    repo.write("tests/one.sh", "test -f one\n");
    repo.git(&["add", "Makefile", "tests"]);
    repo.git(&["commit", "-qm", "Test"]);
    repo
}

fn files(repo: &Repo) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![repo.path(".")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            if entry.file_name() != ".git" {
                found.push(entry.path());
            }
            if entry.path().is_dir() && entry.file_name() != ".git" {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Answers all prompts up to the page.
fn answer_all(terminal: &mut Terminal) {
    terminal.answer("What do you want?\n> ", "Let there be one");
    terminal.answer("The goal, in a sentence\n  Enter: Let there be one\n> ", "");
    terminal.answer("Why do you want it?\n  Enter: Not stated beyond the goal.\n> ", "Numbers are needed");
    terminal.answer(
        "What should exist when it's done?\n  Enter: The changes to the project that the goal needs.\n> ",
        "A file",
    );
    terminal.see("1  make test  (Makefile)");
    terminal.press(b"1\r");
    terminal.answer("> ", "file one");
    terminal.answer("> ", "");
    terminal.answer("Enter: All of this holds: make test; one exists\n> ", "");
    terminal.answer("Enter: tests/**\n> ", "");
    terminal.see("make: **/*.mk, GNUmakefile, Makefile, makefile");
    terminal.answer("[yes/no] ", "yes");
    terminal.answer("What is out of scope?", "Two");
    terminal.answer("> ", "");
    terminal.answer("The pieces of work", "{\"description\": \"One\", \"run\": \"echo one > one\"}");
    terminal.answer("> ", "Look at it <- A1");
    terminal.answer("> ", "");
}

#[test]
fn prompts_lead_to_an_agreement() {
    let repo = project();
    let mut terminal = Terminal::open(&repo, &["align"]);
    answer_all(&mut terminal);
    terminal.see("both checks are red now");
    terminal.answer("[yes/edit/change/no] ", "");
    terminal.see("Type one of these words");
    terminal.answer("[yes/edit/change/no] ", "y");
    terminal.see("Next: aot run");
    let (code, seen) = terminal.end();
    let text = plain(&seen);
    assert_eq!(code, Some(0), "{text}");
    assert!(seen.contains(&0x1b), "colour is shown where there is some");
    // The line that says what runs is written over, again and again.
    let lines = text.lines().filter(|line| !line.contains("done, running:"));
    assert!(lines.into_iter().all(|line| line.chars().count() <= 80), "{text}");
    let state = repo.state();
    assert_eq!(state["objective"]["goal"], "Let there be one");
    assert_eq!(
        state["objective"]["protected"],
        serde_json::json!(["tests/**", "**/*.mk", "GNUmakefile", "Makefile", "makefile"])
    );
    assert_eq!(state["objective"]["base_case"]["checklist"][0]["check"]["value"], "make test");
    assert_eq!(state["objective"]["base_case"]["checklist"][1]["check"]["type"], "file");
    assert_eq!(state["scope"]["excluded"][0], "Two");
    assert_eq!(state["atoms"][1]["depends_on"][0], "A1");
    assert!(repo.read(STATE).ends_with("Let there be one\n"));
    assert_eq!(repo.aot(&["gate"]).exit, 0);
}

#[test]
fn keys_edit_the_line_and_leave_nothing_behind() {
    let repo = project();
    let mut terminal =
        Terminal::open(&repo, &["align", "--done", "d", "--protect", "x", "--exclude", "e", "--atom", "a"]);
    terminal.answer("What do you want?\n> ", "");
    terminal.see("Required: Ctrl-C leaves");
    // Backspace, the kill key, letters of two bytes, an arrow to the left, and a letter put in there.
    terminal.press(b"Wrong\x15Lef\x7ft there be gr\xc3\xb6\xc3\xb6\x7f\xc3\x9fr\x1b[De\r");
    terminal.answer("Enter: Let there be größer\n> ", "");
    terminal.answer("Why do you want it?\n  Enter: Not stated beyond the goal.\n> ", "Because");
    terminal.answer("the goal needs.\n> ", "It");
    terminal.answer("(Makefile)", "");
    terminal.see("A1 has no check of its own, so it takes the checks of the loop");
    // Another base case brings another check.
    terminal.answer("[yes/edit/change/no] ", "change");
    terminal.answer("Which part?", "checks");
    terminal.answer("What proves that it is done?", "2");
    terminal.answer("> ", "");
    terminal.answer("[yes/edit/change/no] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(repo.state()["objective"]["goal"], "Let there be größer");
    assert_eq!(repo.state()["objective"]["base_case"]["checklist"][0]["item"], "make lint");
    assert_eq!(repo.state()["atoms"][0]["check"], repo.state()["objective"]["base_case"]);
}

#[test]
fn whoever_goes_away_has_changed_nothing() {
    for leave in ["ctrl-c", "ctrl-d", "no", "closed", "killed"] {
        for late in [false, true] {
            let repo = project();
            let before = files(&repo);
            let mut terminal = Terminal::open(&repo, &["align"]);
            if late {
                answer_all(&mut terminal);
                terminal.see("[yes/edit/change/no] ");
            } else {
                terminal.see("What do you want?\n> ");
            }
            let (code, wanted) = match leave {
                "ctrl-c" => {
                    terminal.press(b"\x03");
                    (terminal.end().0, Some(130))
                }
                "ctrl-d" => {
                    terminal.press(b"\x04");
                    (terminal.end().0, Some(130))
                }
                "no" if late => {
                    terminal.press(b"no\r");
                    (terminal.end().0, Some(1))
                }
                "no" => continue,
                "closed" => {
                    let mut child = terminal.close();
                    (child.wait().expect("it ends").code(), Some(130))
                }
                _ => {
                    terminal.child.kill().expect("it is killed");
                    (terminal.end().0, None)
                }
            };
            assert_eq!(code, wanted, "{leave}, late: {late}");
            assert_eq!(files(&repo), before, "{leave}, late: {late}");
        }
    }
}

#[test]
fn an_interrupted_check_ends_with_the_dialogue() {
    let repo = project();
    let before = files(&repo);
    let words = [&SAID[..], &["--check", "touch ../began; sleep 600"]].concat();
    let mut terminal = Terminal::open(&repo, &words);
    terminal.see("Enter: tests/**");
    terminal.press(b"\r");
    terminal.answer("out of scope", "");
    let began = std::time::Instant::now();
    while !repo.path("../began").exists() {
        assert!(began.elapsed() < crate::repo::LONG);
        std::thread::yield_now();
    }
    terminal.press(b"\x03");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(130), "{}", plain(&seen));
    let began = std::time::Instant::now();
    while !repo.processes().is_empty() {
        assert!(began.elapsed() < crate::repo::LONG, "{:?}", repo.processes());
        std::thread::yield_now();
    }
    assert_eq!(files(&repo), before);
}

#[test]
fn without_colour_nothing_but_text_is_shown() {
    for environment in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let repo = project();
        let mut terminal = Terminal::with(&repo, &["align", "--no-run"], environment);
        answer_all(&mut terminal);
        terminal.answer("[yes/edit/change/no] ", "yes");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{}", plain(&seen));
        assert!(!seen.contains(&0x1b), "{environment:?}: {:?}", String::from_utf8_lossy(&seen));
    }
}

#[test]
fn pages_are_as_wide_as_the_window() {
    let repo = project();
    let long =
        "Let there be one, and let it be long enough to be broken over lines in any window that people use";
    let mut words = SAID.to_vec();
    words[15] = long;
    words.push("--no-run");
    let mut terminal = Terminal::open(&repo, &words);
    terminal.see("Enter: tests/**");
    terminal.resize(50);
    terminal.press(b"\r");
    terminal.answer("out of scope", "");
    terminal.see("[yes/edit/change/no] ");
    let narrow = terminal.text();
    let page = narrow.split("goal  ").last().expect("a page").to_owned();
    terminal.resize(200);
    terminal.press(b"change\r");
    terminal.answer("Which part?", "why");
    terminal.answer("> ", "");
    terminal.answer("[yes/edit/change/no] ", "no");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(1), "{}", plain(&seen));
    let ours = |line: &&str| !line.starts_with("  Enter") && !line.contains("/change/");
    assert!(page.lines().skip(1).filter(ours).all(|line| line.chars().count() <= 50), "{page}");
    let wide = plain(&seen);
    assert!(wide.lines().all(|line| line.chars().count() <= 80), "{wide}");
    assert!(!repo.path(STATE).exists());
}

#[test]
fn a_locale_of_one_byte_letters_is_spoken() {
    let repo = project();
    repo.write("Makefile", "test: # größer\n\ttest -f one\n");
    let words = [
        "align",
        "--deliverable",
        "…",
        "--done",
        "d",
        "--protect",
        "x",
        "--exclude",
        "e",
        "--atom",
        "→ A",
        "--no-run",
    ];
    let mut terminal = Terminal::with(&repo, &words, &[("LC_ALL", "C")]);
    terminal.see("What do you want?\n> ");
    terminal.press(b"Gr\xf6\xdfer\r");
    terminal.answer("Enter: Gr??er\n> ", "");
    terminal.see("Why do you want it?\n  Enter: Not stated beyond the goal.\n> ");
    // Unicode is understood as well.
    terminal.press("Fähig\r".as_bytes());
    terminal.answer("(Makefile)", "1");
    terminal.answer("> ", "");
    terminal.answer("[yes/edit/change/no] ", "yes");
    terminal.see("Next: aot run");
    let typed = "Fähig".as_bytes().to_vec();
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    // The terminal echoes what was typed; all the rest is ASCII.
    let echo = |line: &&[u8]| {
        !line.windows(typed.len()).any(|part| part == &typed[..]) && !line.starts_with(b"> Gr")
    };
    let shown = seen.split(|byte| *byte == b'\n').filter(echo);
    for line in shown {
        assert!(line.is_ascii(), "{:?}", String::from_utf8_lossy(line));
    }
    assert_eq!(repo.state()["objective"]["goal"], "Größer");
    assert_eq!(repo.state()["objective"]["background_intent"], "Fähig");
}

#[test]
fn the_page_is_changed_in_an_editor_or_part_by_part() {
    let repo = project();
    repo.write("../sloppy", "#!/bin/sh\nif grep -q 'goal: \\[' \"$1\"; then sed -i 's/goal: \\[/goal: Mended/' \"$1\"; else sed -i 's/goal: .*/goal: [/' \"$1\"; fi\n");
    let sloppy = format!("sh {}", repo.path("../sloppy").display());
    for (editor, typed, goal) in [
        ("sed -i -e 's/Numbers, please/Edited/g'", &["e"][..], "Edited."),
        ("false", &["e"], "Numbers, please."),
        (sloppy.as_str(), &["e", "drop"], "Numbers, please."),
        (sloppy.as_str(), &["e", "edit"], "Mended"),
        ("", &["e"], "Numbers, please."),
    ] {
        let words = [&SAID[..], &["--force", "--no-run", "--exclude", "e", "--protect", "x"]].concat();
        let environment = if editor.is_empty() { vec![] } else { vec![("EDITOR", editor)] };
        let mut terminal = Terminal::with(&repo, &words, &environment);
        terminal.answer("[yes/edit/change/no] ", typed[0]);
        if let Some(then) = typed.get(1) {
            terminal.answer("Edit it again, or drop this edit?", then);
        }
        terminal.answer("[yes/edit/change/no] ", "change");
        terminal.answer("Which part?", "protected");
        terminal.answer("> ", "src/**, docs/**");
        terminal.answer("[yes/edit/change/no] ", "yes");
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(0), "{editor}: {}", plain(&seen));
        assert_eq!(repo.state()["objective"]["goal"], goal, "{editor}");
        assert_eq!(repo.state()["objective"]["protected"][1], "docs/**");
    }
}

#[test]
fn a_loop_that_is_there_is_replaced_only_after_a_yes() {
    let repo = project();
    assert_eq!(repo.aot(&WHOLE).exit, 0);
    let first = repo.read(STATE);
    let words = [&SAID[..15], &["Another", "--no-run", "--exclude", "e", "--protect", "x"]].concat();
    for (word, exit) in [("no", 1), ("yes", 0)] {
        let mut terminal = Terminal::open(&repo, &words);
        terminal.answer("[yes/edit/change/no] ", "yes");
        terminal.answer("[no/yes] ", word);
        let (code, seen) = terminal.end();
        assert_eq!(code, Some(exit), "{}", plain(&seen));
        assert_eq!(repo.read(STATE) == first, word == "no");
    }
    assert_eq!(repo.read(".claude/aot/backups/1.md"), first);
    assert_eq!(repo.state()["objective"]["goal"], "Another");
}

#[test]
fn a_file_is_shown_and_agreed_on() {
    let repo = project();
    repo.write("agreement.yml", "goal: One\nbackground_intent: b\ndeliverables: d\ndefinition_of_done: x\nbase_case: {type: file, value: one}\natoms: [A thing]\n");
    let mut terminal = Terminal::open(&repo, &["align", "--from", "agreement.yml"]);
    terminal.see("the check is red now");
    terminal.press(b"yes\r");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(repo.state()["atoms"][0]["description"], "A thing");
}

#[test]
fn an_atom_that_waits_for_nothing_known_is_asked_for_again() {
    let repo = project();
    let flags =
        ["align", "--done", "d", "--protect", "x", "--exclude", "e", "--intent", "i", "--deliverable", "r"];
    let mut terminal =
        Terminal::open(&repo, &[&flags[..], &["--goal", "g", "--check", "test -e one"]].concat());
    terminal.answer("The pieces of work", "x <- A9");
    terminal.answer("> ", "");
    terminal.see("A9");
    terminal.answer("The pieces of work", "x");
    terminal.answer("> ", "");
    terminal.answer("[yes/edit/change/no] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(repo.state()["atoms"][0]["description"], "x");
}

#[test]
fn back_leads_to_the_question_before() {
    let repo = project();
    let mut terminal = Terminal::open(&repo, &["align", "--no-run"]);
    terminal.answer("What do you want?\n> ", "Let there be one");
    terminal.answer("The goal, in a sentence\n  Enter: Let there be one\n> ", "back");
    terminal.answer("There is no question before this one.", "Let there be two");
    terminal.answer("Why do you want it?", "back");
    terminal.answer("The goal, in a sentence\n  Enter: Let there be two\n> ", "");
    terminal.answer("Why do you want it?", "Because");
    terminal.answer("What should exist when it's done?", "It");
    terminal.answer("(Makefile)", "file one");
    terminal.answer("> ", "2");
    terminal.answer("> ", "");
    terminal.answer("When is it done, in words?", "BACK");
    // A list is offered as a whole.
    terminal.answer("  Enter: file one; 2\n> ", "");
    terminal.answer("When is it done, in words?", "Now");
    terminal.answer("Which files may no worker change?", "none");
    terminal.answer("[yes/no] ", "back");
    terminal.answer("Which files may no worker change?", "README");
    terminal.answer("[yes/no] ", "no");
    terminal.answer("What is out of scope?", "");
    terminal.answer("The pieces of work", "");
    // From a part that was to be changed, back to the page.
    terminal.answer("[yes/edit/change/no] ", "change");
    terminal.answer("Which part?", "why");
    terminal.answer("Why do you want it?", "back");
    terminal.answer("[yes/edit/change/no] ", "change");
    terminal.answer("Which part?", "back");
    terminal.answer("[yes/edit/change/no] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    let objective = &repo.state()["objective"];
    assert_eq!(
        (&objective["goal"], &objective["background_intent"]),
        (&"Let there be two".into(), &"Because".into())
    );
    assert_eq!(objective["base_case"]["checklist"][1]["check"]["value"], "make lint");
    assert_eq!(objective["protected"], serde_json::json!(["README"]));
}

#[test]
fn what_was_typed_survives_an_interrupt() {
    let repo = project();
    let before = files(&repo);
    let mut terminal = Terminal::open(&repo, &["align"]);
    terminal.answer("What do you want?\n> ", "Let there be one");
    terminal.answer("The goal, in a sentence", "One");
    terminal.answer("Why do you want it?", "");
    terminal.answer("What should exist when it's done?", "A file");
    terminal.answer("(Makefile)", "file one");
    terminal.answer("> ", "1");
    terminal.answer("> ", "");
    terminal.see("When is it done, in words?");
    terminal.press(b"\x03");
    assert_eq!((terminal.end().0, files(&repo)), (Some(130), before));
    // Another request is another dialogue.
    let mut terminal = Terminal::open(&repo, &["align", "Something else"]);
    terminal.answer("The goal, in a sentence\n  Enter: Something else\n> ", "\x03");
    terminal.end();
    let mut terminal = Terminal::open(&repo, &["align", "--no-run"]);
    terminal.see("Your answers from last time are suggested again; Enter takes them.");
    terminal.answer("What do you want?\n  Enter: Let there be one\n> ", "");
    terminal.answer("The goal, in a sentence\n  Enter: One\n> ", "");
    terminal.answer("Why do you want it?\n  Enter: Not stated beyond the goal.\n> ", "");
    terminal.answer("What should exist when it's done?\n  Enter: A file\n> ", "");
    terminal.answer("  Enter: file one; 1\n> ", "");
    for question in
        ["When is it done", "Which files may no worker change?", "[yes/no] ", "out of scope", "The pieces"]
    {
        terminal.answer(question, if question.contains("yes") { "no" } else { "" });
    }
    terminal.answer("[yes/edit/change/no] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert_eq!(repo.state()["objective"]["goal"], "One");
    assert_eq!(repo.state()["objective"]["base_case"]["checklist"][1]["check"]["value"], "make test");
    // What was agreed on is not offered any more.
    let mut terminal = Terminal::open(&repo, &["align", "--force"]);
    terminal.see("What do you want?\n> ");
    terminal.press(b"\x03");
    let (_, seen) = terminal.end();
    assert!(!plain(&seen).contains("last time"), "{}", plain(&seen));
}

#[test]
fn limits_and_patterns_are_changed_on_the_page() {
    let repo = project();
    let words = [&SAID[..], &["--no-run", "--exclude", "e", "--protect", "nowhere/**"]].concat();
    let mut terminal = Terminal::open(&repo, &words);
    terminal.see("the protected pattern `nowhere/**` matches no file");
    terminal.answer("[yes/edit/change/no] ", "change");
    terminal.answer("Which part?", "limits");
    terminal.answer("max_wall_time", "max_iterations=7");
    terminal.answer("> ", "max_wall_time=soon");
    terminal.answer("> ", "max_cost_usd=3");
    terminal.answer("> ", "");
    terminal.see("--set: ");
    terminal.see("7 iterations, 3 at a time");
    terminal.answer("[yes/edit/change/no] ", "change");
    let shown = terminal.text().len();
    terminal.answer("Which part?", "protected");
    terminal.answer("  Enter: nowhere/**\n> ", "README");
    terminal.answer("[yes/edit/change/no] ", "yes");
    let (code, seen) = terminal.end();
    assert_eq!(code, Some(0), "{}", plain(&seen));
    assert!(!plain(&seen)[shown..].contains("matches no file"), "{}", &plain(&seen)[shown..]);
    let constraints = &repo.state()["objective"]["constraints"];
    assert_eq!(
        (&constraints["max_iterations"], &constraints["max_cost_usd"]),
        (&7.into(), &3.0.into()),
        "{constraints}"
    );
}
