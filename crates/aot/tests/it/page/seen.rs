//! What a browser shows of loops, and what it does not do with hostile texts.

use super::kit::{Server, browser, is_clean, open, wait_for_status, with_gate};
use crate::repo::{Plan, Repo, STATE, atom};

/// Two atoms; the first waits for a file.
fn gated() -> Plan<'static> {
    Plan {
        atoms: "  - {id: A1, description: \"Short\", status: pending, depends_on: [], run: \"while [ ! -e \\\"$GO\\\" ]; do sleep 0.02; done; echo one > one\"}\n  - {id: A2, description: \"Next\", status: pending, depends_on: [A1], run: \"echo two > two\"}",
        base_case: "      - {item: \"Two is there\", check: {type: file, value: two}}",
        ..Plan::default()
    }
}

#[test]
fn a_loop_is_seen_as_it_runs_and_found_again_after_the_server_was_killed() {
    let Some(mut browser) = browser() else { return };
    let repo = Repo::with(&gated());
    let go = with_gate(&repo, STATE);
    let free = std::net::TcpListener::bind(("127.0.0.1", 0))
        .expect("a port")
        .local_addr()
        .expect("it has one")
        .port();
    let port = free.to_string();
    let server = Server::start(&repo, &["--port", &port]);
    let tab = open(&mut browser, &server);
    // The token is not left in the address.
    assert_eq!(browser.ask(&tab, "location.search"), "");
    wait_for_status(&mut browser, &tab, "A1", "ready");
    let run = repo.start(&["run", "--json"]);
    wait_for_status(&mut browser, &tab, "A1", "running");
    browser.wait(&tab, "document.querySelector('#status').textContent === 'running'");
    browser.wait(&tab, "document.querySelector('#now').textContent.includes('A1')");
    drop(server);
    browser.wait(&tab, "document.body.dataset.connected === 'no'");
    std::fs::write(go, "").expect("a file");
    let server = Server::start(&repo, &["--port", &port]);
    browser.wait(&tab, "document.body.dataset.connected === 'yes'");
    for atom in ["A1", "A2"] {
        wait_for_status(&mut browser, &tab, atom, "resolved");
    }
    browser.wait(&tab, "document.querySelector('#status').textContent === 'completed'");
    browser.wait(&tab, "document.querySelector('#checks .mark').textContent === '✓'");
    browser.wait(&tab, "document.querySelector('#log').textContent.includes('the goal is proven done')");
    browser.wait(&tab, "loops.get(shown).bars.filter((bar) => bar.row === 'attempts' && bar.outcome === 'resolved').length === 2");
    assert_eq!(run.end().exit, 0);
    // Evidence of the checks, and what is known of an atom.
    browser.ask(&tab, "document.querySelector('#checks button').click()");
    browser.wait(&tab, "document.querySelector('#about').textContent.includes('Two is there')");
    browser.ask(&tab, "open('A1')");
    browser.wait(&tab, "document.querySelector('#about details .chip').textContent === 'resolved'");
    drop(server);
}

#[test]
fn keys_narrow_windows_dark_screens_and_several_loops() {
    let Some(mut browser) = browser() else { return };
    let (repo, other) = (Repo::bare(&gated()), Repo::bare(&Plan::default()));
    let named = other.path("");
    let server = Server::start(&repo, &["--loop", named.to_str().expect("a text")]);
    let tab = open(&mut browser, &server);
    let selected = "document.querySelector('.box.selected .name')?.textContent";
    for (key, expected) in [("j", "A1"), ("j", "A2"), ("k", "A1"), ("ArrowRight", "A2"), ("ArrowLeft", "A1")]
    {
        browser.press(&tab, key);
        assert_eq!(browser.ask(&tab, selected), expected, "{key}");
    }
    assert_eq!(browser.ask(&tab, "document.activeElement.getAttribute('aria-label')"), "A1, ready: Short");
    browser.press(&tab, "Enter");
    browser.wait(&tab, "!document.querySelector('#about').hidden && document.querySelector('#about').textContent.includes('Short')");
    browser.press(&tab, "Escape");
    browser.wait(&tab, "document.querySelector('#about').hidden");
    browser.press(&tab, "?");
    browser.wait(&tab, "document.querySelector('#help-dialog').open");
    browser.press(&tab, "Escape");
    browser.wait(&tab, "!document.querySelector('dialog[open]')");
    // Two loops on one page.
    assert_eq!(browser.ask(&tab, "document.querySelectorAll('#loops button').length"), 2);
    browser.press(&tab, "]");
    browser.wait(&tab, "document.querySelectorAll('#picture .box').length === 1");
    assert_eq!(
        browser.ask(&tab, "document.querySelector('#loops [aria-current]').title"),
        other.path(STATE).to_str().expect("a text")
    );
    // As narrow as a phone, nothing has to be moved sideways.
    browser.resize(&tab, 390, 844);
    browser.wait(&tab, "innerWidth === 390 && document.documentElement.scrollWidth <= 390");
    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).every((part) => part < 60)";
    assert_eq!(browser.ask(&tab, brightness), false);
    browser.prefer(&tab, "dark");
    assert_eq!(browser.ask(&tab, brightness), true);
    is_clean(&mut browser, &tab, &server);
}

#[test]
fn texts_of_agents_do_no_harm() {
    let Some(mut browser) = browser() else { return };
    let evil = "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'>\u{1b}[31mred\u{1b}]0;title\u{7}\u{202e}gnp.exe";
    let atoms = format!(
        "{}  - {{id: A2, description: \"Next\", status: pending, depends_on: [A1], or_group: \"<b>g\"}}",
        atom("A1", "", "true").replace(", run: \"true\"", "")
    );
    let repo = Repo::bare(&Plan {
        atoms: &atoms,
        or_groups: "  \"<b>g\": {choices: [A2], selected: A2, failed: []}",
        ..Plan::default()
    });
    repo.write(
        STATE,
        &repo.read(STATE).replace("Let the numbers be there", "</title><script>window.owned = 3</script>"),
    );
    let server = Server::start(&repo, &[]);
    let tab = open(&mut browser, &server);
    for words in [
        vec!["atom", "add", evil],
        vec!["atom", "start", "A1"],
        vec!["atom", "resolve", "A1", "--summary", evil, "--artifact", evil],
        vec!["atom", "start", "A2"],
        vec!["atom", "fail", "A2", "--reason", evil],
    ] {
        let said = repo.aot(&words);
        assert!(said.exit == 0, "{words:?}: {}{}", said.out, said.err);
    }
    let transcript =
        format!("worker of A1\n\nThe brief\n\n---------------- what it did ----------------\n{evil}\n");
    repo.write(".claude/aot/agents/A1-1.worker.txt", &transcript);
    wait_for_status(&mut browser, &tab, "A1", "claimed");
    browser.wait(&tab, "document.querySelector('#log').textContent.includes('<script>window.owned')");
    for id in ["A1", "A2", "A3", "<b>g"] {
        browser.ask(&tab, &format!("open({})", serde_json::json!(id)));
        browser.wait(&tab, "document.querySelectorAll('#about section').length > 0");
        if id == "A1" {
            browser.wait(&tab, "document.querySelector('#about').textContent.includes('worker of A1')");
        }
        browser.ask(&tab, "[...document.querySelectorAll('details')].forEach((one) => { one.open = true; })");
    }
    browser.ask(&tab, "redirect({ redo: 'A1' })");
    assert_eq!(browser.ask(&tab, "typeof window.owned"), "undefined");
    let harmful = "document.querySelectorAll('img, b, script:not([src=\"page.js\"])').length";
    assert_eq!(browser.ask(&tab, harmful), 0);
    let commands = "/[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.outerHTML)";
    assert_eq!(browser.ask(&tab, commands), false);
    is_clean(&mut browser, &tab, &server);
}

/// What is handed to whoever accepts the work: the report of a loop whose command prints markup.
#[test]
fn a_report_opens_from_its_file_and_asks_for_nothing_else() {
    let Some(mut browser) = browser() else { return };
    let evil =
        "<script>window.owned = 1</script><img src=https://elsewhere.example/x onerror='window.owned = 2'>";
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", "echo one > one; cat evil"), ..Plan::default() });
    repo.write("evil", evil);
    repo.git(&["add", "evil"]);
    repo.git(&["commit", "-qm", evil]);
    let ran = repo.aot(&["run"]);
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    let said = repo.aot(&["report"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let file = repo.path(".claude/aot/report.html").canonicalize().expect("a report");
    let address = format!("file://{}", file.display());
    let tab = browser.open(1200, 900);
    browser.go(&tab, &address);
    browser.ask(&tab, "[...document.querySelectorAll('details')].forEach((one) => { one.open = true; })");
    let text = browser.ask(&tab, "document.body.innerText").to_string();
    assert!(text.contains("DONE") && text.contains("<script>window.owned"), "{text}");
    assert_eq!(browser.ask(&tab, "typeof window.owned"), "undefined");
    assert_eq!(browser.ask(&tab, "document.querySelectorAll('script, img, link, iframe').length"), 0);
    let mut asked = browser.requests(&tab);
    asked.retain(|one| one != "about:blank");
    assert_eq!(asked, [address]);
    assert_eq!(browser.complaints(&tab), Vec::<String>::new());
}
