//! A loop of a thousand atoms with fifty changes a second, seen in a real browser: frames, how long a change takes to be
//! seen, and the memory of the server. `AOT_BIN` names another binary than the one that was just built, `AOT_ATOMS` another
//! number of atoms.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aot_core::rules::{Change, Refusal};
use aot_core::state::{AtomId, Binding};
use aot_runner::store::Store;
use aot_testkit::browser::{Browser, program};
use aot_testkit::fixtures::of_size;
use serde_json::Value;

const ATOMS: usize = 1_000;
const MOST_CHANGES: u32 = 500;
const EACH: Duration = Duration::from_millis(20);

/// Counts frames and the longest gap between two, and notes when each atom was drawn anew.
const METER: &str = "window.met = {frames: 0, gaps: [], seen: {}, began: performance.now()};
(function frame(at) {
  if (met.last !== undefined) met.gaps.push(at - met.last);
  met.last = at; met.frames += 1; requestAnimationFrame(frame);
})(performance.now());
new MutationObserver((changes) => changes.forEach((change) => {
  const box = change.target.closest?.('.box');
  if (!box) return;
  const key = loops.get(shown).graph.boxes[box.dataset.at].id + ' ' + loops.get(shown).statuses[box.dataset.at];
  met.seen[key] ??= Date.now();
})).observe(document.querySelector('#picture'), {subtree: true, attributes: true, attributeFilter: ['class']});";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let atoms = std::env::var("AOT_ATOMS").ok().and_then(|count| count.parse().ok()).unwrap_or(ATOMS);
    let Some(program) = program() else { return println!("chromium is not installed") };
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join(".claude/aot-loop-state.md");
    std::fs::create_dir_all(state.parent().expect("it has one")).expect("a folder");
    std::fs::write(&state, of_size(atoms)).expect("a file");
    let mut store = Store::open(&state, "bench").expect("a store");
    let (server, address) = serve(folder.path(), &state);
    let mut browser = Browser::start(&program);
    let tab = browser.open(1360, 860);
    let began = Instant::now();
    browser.go(&tab, &address);
    browser.wait(&tab, &format!("document.querySelectorAll('#picture .box').length === {atoms}"));
    println!("{atoms} atoms are shown after {} ms", began.elapsed().as_millis());
    std::thread::sleep(Duration::from_secs(2));
    println!("memory of the server at rest: {}", memory(server.0.id()));
    browser.ask(&tab, METER);
    let written = change(&mut store, atoms);
    std::thread::sleep(Duration::from_millis(500));
    let met = browser.ask(&tab, "met.took = performance.now() - met.began, met");
    println!("memory of the server afterwards: {}", memory(server.0.id()));
    report(&met, &written);
}

fn serve(home: &Path, state: &Path) -> (Server, String) {
    let program = std::env::var_os("AOT_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_aot").into());
    let mut child = Command::new(program)
        .args(["serve", "--json", "--state"])
        .arg(state)
        .env("HOME", home)
        .env_remove("XDG_DATA_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("it was asked for");
    BufReader::new(out).read_line(&mut line).expect("it says where it is");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    (Server(child), said["address"].as_str().expect("an address").to_owned())
}

/// Starts and resolves one pending atom after the other; when each of it was written.
fn change(store: &mut Store, atoms: usize) -> HashMap<String, u128> {
    let mut written = HashMap::new();
    let began = Instant::now();
    let mut late = Duration::ZERO;
    let count = MOST_CHANGES.min(u32::try_from(atoms).expect("not so many") / 2 * 2 - 4);
    for number in 0..count {
        let atom = AtomId::new(format!("A{}", atoms / 2 + 2 + number as usize / 2));
        let (change, word) = match number % 2 {
            0 => (Change::AtomStarted { atom: atom.clone(), attempt: Some(1) }, "running"),
            _ => {
                let binding =
                    Binding { summary: "Done".into(), artifacts: Vec::new(), commit: None, unchanged: false };
                (Change::AtomResolved { atom: atom.clone(), binding }, "claimed")
            }
        };
        store
            .change("measure", jiff::Timestamp::now(), |ledger| {
                ledger.record(change.clone());
                Ok::<(), Refusal>(())
            })
            .expect("it is written");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_millis();
        written.insert(format!("{atom} {word}"), now);
        let next = EACH * (number + 1);
        match next.checked_sub(began.elapsed()) {
            Some(left) => std::thread::sleep(left),
            None => late = late.max(began.elapsed().saturating_sub(next)),
        }
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{count} changes in {took:.1} s: {:.1} a second, late by at most {late:?}",
        f64::from(count) / took
    );
    written
}

fn report(met: &Value, written: &HashMap<String, u128>) {
    let took = met["took"].as_f64().expect("a time");
    let frames = met["frames"].as_f64().expect("a count");
    let mut gaps: Vec<f64> = met["gaps"].as_array().expect("gaps").iter().filter_map(Value::as_f64).collect();
    gaps.sort_by(f64::total_cmp);
    let at = |part: f64| gaps[((gaps.len() - 1) as f64 * part) as usize];
    println!(
        "{:.1} frames a second; between two: half within {:.1} ms, 95 % within {:.1} ms, 99 % within {:.1} ms, the longest {:.1} ms",
        1000.0 * frames / took,
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0)
    );
    let seen = met["seen"].as_object().expect("what was seen");
    let mut delays: Vec<i128> = written
        .iter()
        .filter_map(|(key, written)| {
            Some(i128::from(seen.get(key)?.as_u64()?) - i128::try_from(*written).ok()?)
        })
        .collect();
    delays.sort_unstable();
    if delays.is_empty() {
        return println!("no change was seen");
    }
    let at = |part: f64| delays[((delays.len() - 1) as f64 * part) as usize];
    println!(
        "{} of {} changes were seen by themselves; half within {} ms, 95 % within {} ms, all within {} ms",
        delays.len(),
        written.len(),
        at(0.5),
        at(0.95),
        at(1.0)
    );
}

fn memory(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    format!("{} now, {} at most", line("VmRSS:"), line("VmHWM:"))
}
