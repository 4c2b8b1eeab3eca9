//! Every door of the program with inputs that nobody would write: kept examples, spoilt in seeded ways. Each is taken or
//! refused; none hangs, panics or is taken for something else. The doors of the core are fuzzed by `fuzz/`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use aot_core::rules::{Change, Refusal};
use aot_runner::settings;
use aot_runner::store::Store;
use aot_runner::store::home::Home;
use aot_runner::store::journal::Journal;

use crate::repo::{Plan, Repo, STATE};

const SETTINGS: &str = "[agents]\ndefault = \"claude\"\n[agents.models]\nworker = \"x\"\n[agent.own]\nlike = \"claude\"\nprogram = \"x\"\n[[agent.own.events]]\n[judge]\ncommand = \"x\"\ntimeout = \"3m\"\n[cage]\nkind = \"auto\"\nwritable = [\"~/x\"]\nnetwork = \"off\"\n[work]\nenvironment = [\"A_*\"]\nidle_timeout = \"9s\"\n";

const JOURNAL: &str = "{\"revision\":1,\"at\":\"2026-01-15T10:30:00Z\",\"from\":\"\",\"hash\":\"00\",\"changes\":[{\"type\":\"loop_named\",\"id\":\"x\"}]}\n{\"revision\":2,\"at\":\"x\",\"hash\":\"\",\"changes\":[]}\n";

const HOOK: &str = "{\"session_id\":\"s\",\"agent_id\":\"a\",\"agent_type\":\"aot:aot-worker\",\"cwd\":\"/p\",\"tool_name\":\"Bash\",\"tool_input\":{\"command\":\"aot status\"},\"background_tasks\":[{\"id\":\"1\",\"type\":\"agent\",\"status\":\"running\"}],\"last_assistant_message\":\"{}\"}";

/// A small generator, so that a failure can be repeated.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    /// The text with a few bytes changed, doubled, moved, cut or put in.
    fn spoilt(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let (at, length) = (self.below(bytes.len()), self.below(12));
            let end = (at + length).min(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => bytes.extend_from_within(at..end),
                3 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                4 => {
                    let odd: [&[u8]; 8] = [
                        b"\0",
                        b"\x1b[2J",
                        b"\n\n",
                        b"[[[[",
                        b"{\"a\":",
                        b"\xff\xfe",
                        "\u{202e}".as_bytes(),
                        b"9999999999999999999",
                    ];
                    let piece = odd[self.below(odd.len())];
                    bytes.splice(at..at, piece.iter().copied());
                }
                _ => bytes = bytes.repeat(2),
            }
        }
        bytes
    }
}

#[test]
fn settings_are_read_or_refused_with_a_place() {
    let place = tempfile::tempdir().expect("a folder");
    for seed in 0..3_000 {
        fs::write(place.path().join(settings::FILE), Seeded(seed).spoilt(SETTINGS)).expect("written");
        for fault in
            [settings::read(Some(place.path()), None).err(), settings::trust_items(place.path()).err()]
        {
            assert!(fault.is_none_or(|fault| fault.line > 0 && !fault.message.is_empty()), "seed {seed}");
        }
    }
}

#[test]
fn a_journal_is_read_as_far_as_it_goes() {
    let place = tempfile::tempdir().expect("a folder");
    let home = Home::of(&place.path().join("aot-loop-state.md")).expect("a home");
    home.ready().expect("a sidecar");
    for seed in 0..2_000 {
        let text = Seeded(seed).spoilt(JOURNAL);
        fs::write(home.sidecar().join("journal.jsonl"), &text).expect("written");
        let journal = Journal::of(&home);
        let newest = journal.newest::<Change>(10).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let lines = text.split(|byte| *byte == b'\n').count();
        assert!(newest.len() <= lines.min(10), "seed {seed}");
        journal.since::<Change>(0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_spoilt_sidecar_changes_no_answer() {
    let repo = Repo::with(&Plan::default());
    let state = repo.path(STATE);
    // Old enough that it is not taken for half-saved.
    let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&state).and_then(|file| file.set_modified(hour_ago)).expect("set");
    let answers = |version: &str| {
        let mut store = Store::open(&state, version).expect("opened");
        let answers = serde_json::to_value(store.answers::<Refusal>().expect("answers")).expect("plain");
        let facts = serde_json::to_value(store.loop_facts::<Refusal>().expect("facts")).expect("plain");
        (answers, facts)
    };
    let right = answers("1");
    let sidecar = repo.path(".claude/aot");
    let kept =
        ["cache", "digest", "last"].map(|name| (name, fs::read(sidecar.join(name)).unwrap_or_default()));
    for seed in 0..600 {
        for (name, bytes) in kept.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let mut seeded = Seeded(seed);
            let mut spoilt = bytes.clone();
            let at = seeded.below(spoilt.len());
            match seeded.below(3) {
                0 => spoilt.truncate(at),
                1 => spoilt[at] ^= 1 << seeded.below(8),
                _ => drop(spoilt.splice(at..at, [0xff; 40])),
            }
            fs::write(sidecar.join(name), spoilt).expect("written");
        }
        assert_eq!(answers("1"), right, "seed {seed}");
    }
}

fn ends(mut child: Child, what: &str) {
    let began = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("{what}: it does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn hooks_answer_whatever_they_are_given() {
    let repo = Repo::with(&Plan::default());
    let text = repo
        .read(STATE)
        .replace("status: pending\n  iteration", "status: running\n  session: s\n  iteration");
    repo.write(STATE, &text);
    let events =
        ["pre-tool-use", "stop", "subagent-stop", "session-start", "user-prompt-submit", "no-such-event"];
    for seed in 0..48 {
        let event = events[seed % events.len()];
        let mut hook = repo.command(&["hook", event]);
        let mut child = hook
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = Seeded(seed as u64).spoilt(HOOK);
        child.stdin.take().expect("piped").write_all(&input).expect("it reads all of it");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "seed {seed}, {event}");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!err.contains("bug"), "seed {seed}, {event}: {err}");
        let answers = out.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        assert!(answers, "seed {seed}, {event}: {out}");
    }
}

#[test]
fn the_server_ends_with_its_input_whatever_it_was_given() {
    let repo = Repo::with(&Plan::default());
    let message = |id: u64, method: &str, params: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n")
    };
    let first = message(
        1,
        "initialize",
        "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}",
    );
    let call = message(2, "tools/call", "{\"name\":\"status\",\"arguments\":{}}");
    for seed in 0..16 {
        let mut server = repo.command(&["mcp"]);
        let mut child = server
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let spoilt = Seeded(seed).spoilt(&format!("{first}{call}{call}"));
        let mut stdin = child.stdin.take().expect("piped");
        // A server that ends early has answered it, too.
        let _ = stdin.write_all(&spoilt).and_then(|()| stdin.write_all(b"\n"));
        drop(stdin);
        ends(child, &format!("seed {seed}"));
    }
    assert!(Path::new(&repo.path(STATE)).exists());
}
