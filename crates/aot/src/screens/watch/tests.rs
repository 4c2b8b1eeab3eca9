//! What is drawn of a loop in windows of all kinds, and what keys do there.

use aot_core::contract;
use aot_core::rules::estimate::{Estimate, EstimateBasis};
use aot_core::state::Stamp;
use aot_core::verdict::Outcome;
use aot_runner::live::{HostJobNow, HostNow, HostsNow, LiveCheck, LiveJob, LiveNow};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::page::{OpenPage, PagePosition, Subject};
use super::place::Action;
use super::*;
use crate::full_screen::Key;
use crate::screens::ink::Alphabet;
use crate::screens::status::LastSeen;

const STATE: &str = "---
objective:
  goal: \"Let people log in, stay logged in over a restart of the server, and log out everywhere at once\"
  base_case:
    checklist:
      - {item: \"Login tests are green\", check: {type: command, value: \"npm test\"}}
      - {item: \"The linter is quiet\", check: {type: command, value: \"npm run lint\"}}
      - {item: \"It reads well\", check: {type: assertion, value: \"It reads well\"}}
  background_intent: Existing users need accounts that work
  deliverables: A login API
  definition_of_done: The login tests are green
  constraints: {max_iterations: 20, max_parallel_agents: 3, max_stall_count: 3, max_cost_usd: 20}
control:
  status: running
  iteration: 7
  stall_count: 1
  prev_pending_count: -1
  stop_requested: false
  stop_reason: null
  redirect_requested: false
  open: {started: [A6, A9, A10], results: 0}
  attempts: {A6: 7, A9: 7, A10: 7}
  spent: {agent_runs: 9, seconds: 812, cost_usd: 1.40, tokens: 91000}
atoms:
  - {id: A1, description: The user model, status: resolved, depends_on: []}
  - {id: A2, description: The login logic, status: pending, depends_on: [A1]}
  - {id: A3, description: Hashing of passwords, status: resolved, depends_on: [A1]}
  - {id: A4, description: \"Tokens by JWT, signed with a key from the vault that is rotated daily\", status: pending, depends_on: [A1], or_group: tokens}
  - {id: A5, description: Tokens by sessions in a table, status: pending, depends_on: [A1], or_group: tokens}
  - {id: A6, description: The table of sessions, status: in_progress, depends_on: [A1]}
  - {id: A7, description: Expiry of sessions, status: pending, depends_on: [A1, A6]}
  - {id: A8, description: The login route, status: pending, depends_on: [A3, A4]}
  - {id: A9, description: A store in Redis, status: in_progress, depends_on: [A3], or_group: store}
  - {id: A10, description: A store in Postgres, status: in_progress, depends_on: [A3], or_group: store}
  - {id: A11, description: Log out everywhere, status: pending, depends_on: [A8, A9]}
decompositions:
  - {parent: A2, children: [A3, A4, A5], reason: separate work}
  - {parent: A5, children: [A6, A7], reason: too large}
or_groups:
  tokens: {choices: [A4, A5, A5_alt], selected: A5, failed: [A4]}
  store: {choices: [A9, A10], selected: A9, failed: [], speculative: true}
bindings:
  A1: {summary: There is a user model, artifacts: []}
  A3: {summary: Hashed with bcrypt, artifacts: []}
trail:
  - {or_group: tokens, selected: A4, reason: first choice, timestamp: \"2026-11-15T20:10:00Z\"}
  - {or_group: tokens, selected: A5, reason: \"A4 failed: the vault is not reachable\", timestamp: \"2026-11-15T21:10:00Z\"}
corrections: []
---
";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a moment")
}

fn now() -> Timestamp {
    at("2026-11-15T22:04:10Z")
}

fn watched() -> Watched {
    let state = contract::read(STATE.into()).expect("YAML").state.expect("a state");
    let job = |task: &str, atom: &str, since: &str, line: Option<&str>| LiveJob {
        task: task.into(),
        atom: Some(atom.into()),
        attempt: 7,
        since: Some(since.into()),
        line: line.map(str::to_owned),
        waiting: None,
        mends: 0,
    };
    let seen = |item: &str, outcome, why: &str| LastSeen {
        item: item.into(),
        outcome,
        at: Some(Stamp::from(at("2026-11-15T22:01:10Z"))),
        why: why.into(),
    };
    let live = LiveNow {
        jobs: vec![
            job("work", "A6", "2026-11-15T22:00:00Z", Some("Edit src/sessions/table.ts")),
            LiveJob {
                mends: 1,
                ..job("work", "A9", "2026-11-15T22:03:58Z", Some("\x1b[31mnpm\x1b[0m test"))
            },
            job("probe", "A10", "2026-11-15T22:04:00Z", None),
        ],
        ..LiveNow::default()
    };
    let sentence = |moment: &str, text: &str| LogSentence { at: Some(at(moment)), text: text.into() };
    Watched {
        version: 1,
        view: View::of(&state),
        beside: OutsideState {
            now: now(),
            since: std::collections::HashMap::new(),
            base_case: vec![
                seen("Login tests are green", Some(Outcome::Pass), "exit 0"),
                seen("The linter is quiet", Some(Outcome::Fail), "exit 1: 3 problems in src/login.ts"),
                seen("It reads well", Some(Outcome::Pending), "a person has to confirm it"),
            ],
            estimate: Some(Estimate {
                seconds: 2_400,
                low: 1_500,
                high: 4_200,
                rests_on: EstimateBasis::default(),
            }),
            driver: Some("aot run (process 4711)".into()),
            live,
        },
        state,
        log: vec![
            sentence("2026-11-15T20:09:59Z", "the loop starts"),
            sentence("2026-11-15T20:10:00Z", "iteration 1 begins"),
            sentence("2026-11-15T21:10:00Z", "A4 failed: the vault is not reachable; tokens switches to A5"),
            sentence("2026-11-15T21:59:00Z", "A3 is resolved: Hashed with bcrypt"),
            sentence("2026-11-15T22:00:00Z", "iteration 7 begins"),
            sentence("2026-11-15T22:00:00Z", "A6 starts in iteration 7"),
        ],
        written: Some(at("2026-11-15T22:04:00Z")),
        problem: None,
        zone: TimeZone::UTC,
    }
}

fn ink(colour: Colour, alphabet: Alphabet) -> Ink {
    Ink { colour, alphabet, columns: 80 }
}

fn drawn_at(watched: &Watched, place: &mut ScreenPlace, (width, height): (u16, u16), ink: Ink) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal of a test");
    terminal.draw(|frame| draw(frame, watched, place, now(), ink)).expect("it draws");
    terminal.backend().to_string()
}

fn plain(watched: &Watched, size: (u16, u16)) -> String {
    drawn_at(watched, &mut ScreenPlace::new(), size, ink(Colour::Off, Alphabet::Unicode))
}

#[test]
fn windows_of_all_kinds() {
    for (name, size) in [
        ("80x24", (80, 24)),
        ("200x60", (200, 60)),
        ("60x20", (60, 20)),
        ("40x12", (40, 12)),
        ("30x5", (30, 5)),
    ] {
        insta::assert_snapshot!(name, plain(&watched(), size));
    }
}

#[test]
fn a_loop_that_has_stopped_says_why_and_what_to_type() {
    let mut watched = watched();
    let view = &mut watched.view;
    view.status = aot_core::state::LoopStatus::Stopped;
    view.stop_reason = Some("the limit of 20 iterations is reached: A6 is unresolved".into());
    view.next_steps = vec!["aot redirect --max-iterations 30".into()];
    (watched.beside.driver, watched.beside.live) = (None, LiveNow::default());
    watched.problem = Some("the state file has 1 mistake in it".into());
    insta::assert_snapshot!("stopped", plain(&watched, (80, 24)));
}

#[test]
fn checks_that_run_now_are_told() {
    let mut watched = watched();
    watched.beside.live.verifying = true;
    watched.beside.live.checks =
        vec![LiveCheck { item: "The linter is quiet".into(), outcome: "pass".into() }];
    let shown = plain(&watched, (80, 24));
    for expected in ["checks: they run now", "◐ Login tests are green  runs now", "✓ The linter is quiet"]
    {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
}

#[test]
fn hosts_are_told_with_their_jobs() {
    let mut watched = watched();
    let (jobs, now) = (watched.beside.live.jobs.clone(), now());
    let on = |job: &LiveJob, slot| HostJobNow {
        job: "A6/7".into(),
        task: job.task.clone(),
        atom: job.atom.clone(),
        attempt: job.attempt,
        slot,
        since: now,
    };
    let host = |name: &str, state: &str, jobs| HostNow {
        name: name.into(),
        state: state.into(),
        slots: 4,
        jobs,
        ..HostNow::default()
    };
    watched.beside.live.hosts = Some(HostsNow {
        engine: "http://127.0.0.1:9070/ui/".into(),
        waiting: 1,
        hosts: vec![host("one", "up", vec![on(&jobs[0], 0)]), host("two", "away", Vec::new())],
        ..HostsNow::default()
    });
    let shown = plain(&watched, (100, 30));
    for expected in [
        "hosts 1 of 8 slots busy, 1 job waiting for a slot; http://127.0.0.1:9070/ui/",
        "two: away; 0 of 4 slots",
        "on one, 4m",
    ] {
        assert!(shown.contains(expected), "{expected}:\n{shown}");
    }
}

/// Agents, files and people write these texts.
#[test]
fn nothing_that_a_terminal_obeys_reaches_a_cell() {
    let bad = "x\x1b[2J\x1b]0;title\x07\u{9b}31m\u{202e}\ry\nz";
    let mut watched = watched();
    watched.view.goal = bad.into();
    watched.view.stop_reason = Some(bad.into());
    watched.beside.driver = Some(bad.into());
    watched.log.push(LogSentence { at: None, text: bad.into() });
    for job in &mut watched.beside.live.jobs {
        (job.line, job.atom) = (Some(bad.into()), Some(bad.into()));
    }
    for check in &mut watched.beside.base_case {
        (check.item, check.why) = (bad.into(), bad.into());
    }
    watched.problem = Some(bad.into());
    for atom in watched.state.atoms_mut() {
        atom.description = bad.into();
    }
    for colour in [Colour::On, Colour::Off] {
        let shown = drawn_at(&watched, &mut ScreenPlace::new(), (100, 40), ink(colour, Alphabet::Unicode));
        assert!(!shown.chars().any(|c| c != '\n' && text::commands_terminal(c)), "{shown:?}");
        assert!(!shown.contains("[2J") && !shown.contains("title"), "{shown}");
    }
}

#[test]
fn a_terminal_without_unicode_gets_ascii() {
    let mut watched = watched();
    watched.view.goal = "größer 日本".into();
    let shown = drawn_at(&watched, &mut ScreenPlace::new(), (80, 24), ink(Colour::On, Alphabet::Ascii));
    // The backend of tests puts each line in quotes, and nothing else is added.
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn no_window_is_too_odd_to_draw() {
    let mut idle = watched();
    (idle.beside.live, idle.view.at_work) = (LiveNow::default(), Vec::new());
    (idle.beside.base_case, idle.log) = (Vec::new(), Vec::new());
    no_window_is_too_odd_for(&idle);
    no_window_is_too_odd_for(&watched());
}

fn no_window_is_too_odd_for(watched: &Watched) {
    for width in [1, 2, 7, 39, 40, 41, 79, 109, 110, 111, 500] {
        for height in [1, 2, 9, 10, 11, 19, 20, 24, 200] {
            for pane in Pane::ALL {
                let mut place = ScreenPlace::new();
                place.pane = pane;
                drawn_at(watched, &mut place, (width, height), ink(Colour::On, Alphabet::Unicode));
                let lines = vec!["a line".to_owned(); 50];
                place.page = Some(OpenPage::new(Subject::Log, "log".into(), lines, PagePosition::End));
                drawn_at(watched, &mut place, (width, height), ink(Colour::On, Alphabet::Unicode));
            }
        }
    }
}

/// Keys, and what the last of them asks for.
fn check(keys: &[Key], expected: Action) {
    let watched = watched();
    let mut place = ScreenPlace::new();
    drawn_at(&watched, &mut place, (80, 24), ink(Colour::Off, Alphabet::Unicode));
    let agents = panes::agents(&watched, now());
    let mut last = Action::None;
    for key in keys {
        last = place.press(*key, &watched, &agents);
        if let Action::Open(subject) = &last {
            let lines = vec!["a line".to_owned(); 50];
            place.page = Some(OpenPage::new(subject.clone(), "page".into(), lines, PagePosition::Top));
        }
        drawn_at(&watched, &mut place, (80, 24), ink(Colour::Off, Alphabet::Unicode));
    }
    assert_eq!(last, expected, "{keys:?}");
}

#[test]
fn keys_move_open_ask_and_leave() {
    use Key::{Down, End, Enter, Escape, Home, Interrupt, Letter, Tab, Up};
    let atom = |name: &str| Action::Open(Subject::Atom(name.into()));
    // What runs is selected until somebody moves.
    check(&[Enter], atom("A6"));
    check(&[Home, Enter], atom("A1"));
    check(&[Home, Letter('j'), Letter('k'), Enter], atom("A1"));
    check(&[Home, Down, Enter], atom("A2"));
    check(&[Home, Escape, Enter], atom("A6"));
    check(&[End, Enter], atom("A11"));
    check(&[Home, Up, Up, Down, Enter], atom("A2"));
    check(&[Home, Down, Down, Down, Enter], Action::Open(Subject::Group("tokens".into())));
    check(&[Tab, Down, Enter], atom("A9"));
    check(&[Key::BackTab, Enter], Action::Open(Subject::Log));
    check(&[Tab, Tab, Enter], Action::Open(Subject::Check("The linter is quiet".into())));
    check(&[Home, Letter('d')], Action::Open(Subject::Difference("A1".into())));
    check(&[Enter, Letter('d')], Action::Open(Subject::Difference("A6".into())));
    check(&[Tab, Tab, Letter('d')], Action::None);
    check(&[Letter('l')], Action::Open(Subject::Log));
    check(&[Letter('?')], Action::Open(Subject::Keys));
    check(&[Letter('c')], Action::Confirm);
    check(&[Letter('q')], Action::Leave);
    check(&[Interrupt], Action::Leave);
    // A page is closed first.
    check(&[Enter, Letter('q')], Action::None);
    check(&[Enter, Letter('q'), Letter('q')], Action::Leave);
    check(&[Enter, Interrupt], Action::Leave);
    // What interrupts asks.
    check(&[Letter('r')], Action::None);
    check(&[Letter('r'), Letter('y')], Action::Redirect);
    check(&[Letter('r'), Letter('n')], Action::None);
    check(&[Letter('s')], Action::None);
    check(&[Letter('s'), Letter('y')], Action::Stop(StopWhen::WhatRunsFinishes));
    check(&[Letter('S'), Letter('y')], Action::Stop(StopWhen::Now));
    check(&[Letter('s'), Letter('n')], Action::None);
    check(&[Letter('s'), Enter], Action::None);
    check(&[Letter('s'), Letter('q'), Letter('y')], Action::None);
}

#[test]
fn a_page_that_is_at_its_end_follows_what_is_added() {
    let lines = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    let mut page = OpenPage::new(Subject::Log, String::new(), lines(10), PagePosition::End);
    assert_eq!(page.shown(3), ["7", "8", "9"]);
    page.lines = lines(12);
    assert_eq!(page.shown(3), ["9", "10", "11"]);
    page.scroll(-1);
    page.lines = lines(20);
    assert_eq!(page.shown(3), ["8", "9", "10"]);
    page.scroll(isize::MAX);
    page.lines = lines(21);
    assert_eq!(page.shown(3), ["18", "19", "20"]);
    page.scroll(isize::MIN);
    assert_eq!(page.shown(3), ["0", "1", "2"]);
}
