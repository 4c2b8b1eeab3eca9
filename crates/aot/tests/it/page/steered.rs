//! What a person does on the page: a redirect with its preview, a confirmation, a stop; and what becomes of the loop.

use super::kit::{Server, browser, is_clean, open, wait_for_status, with_gate};
use crate::repo::{Plan, Repo, STATE};

fn gated() -> Plan<'static> {
    Plan {
        atoms: "  - {id: A1, description: \"Short\", status: pending, depends_on: [], run: \"while [ ! -e \\\"$GO\\\" ]; do sleep 0.02; done; echo one > one\"}",
        ..Plan::default()
    }
}

#[test]
fn a_redirect_is_previewed_interrupts_and_the_loop_goes_on() {
    let Some(mut browser) = browser() else { return };
    let repo = Repo::with(&gated());
    let go = with_gate(&repo, STATE);
    let server = Server::start(&repo, &[]);
    let tab = open(&mut browser, &server);
    let mut run = repo.start(&["run", "--json"]);
    run.hear("\"type\":\"started\"");
    wait_for_status(&mut browser, &tab, "A1", "running");
    browser.press(&tab, "r");
    browser.wait(&tab, "document.querySelector('#redirect-dialog').open");
    browser.ask(&tab, "document.querySelector('#r-iterations').value = '33'");
    browser.ask(&tab, "document.querySelector('#show-preview').click()");
    browser
        .wait(&tab, "document.querySelector('#difference').textContent.includes('max_iterations: 20 -> 33')");
    // So far it is only shown.
    assert!(!run.heard.iter().any(|line| line.contains("killed")), "{:#?}", run.heard);
    assert!(repo.read(STATE).contains("max_iterations: 20"));
    browser.ask(&tab, "document.querySelector('#make').click()");
    run.hear("\"type\":\"killed\"");
    run.hear("\"type\":\"started\"");
    browser.wait(&tab, "!document.querySelector('dialog[open]')");
    browser.wait(&tab, "document.querySelector('#figures').textContent.includes('of 33')");
    std::fs::write(go, "").expect("a file");
    wait_for_status(&mut browser, &tab, "A1", "resolved");
    let said = run.end();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    // What the rules refuse is said where it was asked for.
    browser.ask(&tab, "redirect({ remove: 'A1' })");
    browser.ask(&tab, "document.querySelector('#show-preview').click()");
    browser.wait(&tab, "document.querySelector('#redirect-dialog .said').textContent.includes('A1')");
    assert_eq!(browser.ask(&tab, "document.querySelector('#make').hidden"), true);
}

#[test]
fn a_person_confirms_on_the_page() {
    let Some(mut browser) = browser() else { return };
    let base_case = "      - {item: \"One is there\", check: {type: file, value: one}}\n      - {item: \"It reads well\", check: {type: assertion, value: \"It reads well\"}}";
    let repo = Repo::with(&Plan { base_case, ..Plan::default() });
    let said = repo.run();
    assert_ne!(said.exit, 0, "{}", said.out);
    let server = Server::start(&repo, &[]);
    let tab = open(&mut browser, &server);
    browser.wait(&tab, "document.querySelector('[data-confirm=\"It reads well\"]')");
    browser.ask(&tab, "document.querySelector('[data-confirm=\"It reads well\"]').click()");
    browser.wait(
        &tab,
        "[...document.querySelectorAll('#checks .mark')].every((mark) => mark.textContent === '✓')",
    );
    assert_eq!(browser.ask(&tab, "document.querySelectorAll('[data-confirm]').length"), 0);
    assert_eq!(repo.state()["control"]["confirmed"][0]["item"], "It reads well");
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    browser.wait(&tab, "document.querySelector('#status').textContent === 'completed'");
    is_clean(&mut browser, &tab, &server);
}

#[test]
fn the_stop_button_stops() {
    let Some(mut browser) = browser() else { return };
    let repo = Repo::with(&gated());
    with_gate(&repo, STATE);
    let server = Server::start(&repo, &[]);
    let tab = open(&mut browser, &server);
    let mut run = repo.start(&["run", "--json"]);
    run.hear("\"type\":\"started\"");
    browser.wait(&tab, "!document.querySelector('#stop').disabled");
    browser.press(&tab, "s");
    browser.wait(&tab, "document.querySelector('#stop-dialog').open");
    browser.ask(&tab, "document.querySelector('#stop-reason').value = 'It is late'");
    browser.ask(&tab, "document.querySelector('#stop-now').click()");
    let said = run.end();
    assert_eq!(said.exit, 10, "{}{}", said.out, said.err);
    assert_eq!(said.halted()["reason"], "It is late");
    browser.wait(&tab, "document.querySelector('#status').textContent === 'stopped'");
    browser.wait(&tab, "document.querySelector('#reason').textContent.includes('It is late')");
    is_clean(&mut browser, &tab, &server);
    drop(server);
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}
