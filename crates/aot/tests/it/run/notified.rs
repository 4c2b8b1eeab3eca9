//! What tells a user of a loop's end, of a person who is needed and of a wait: once each, soon, and without holding up the loop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::repo::{LONG, Plan, Repo, STATE, atom, check};
use crate::scene::{is_there, wait_until};
use crate::terminal::Terminal;

/// Without a word in between, it waits two seconds at its end; the machine may be busy.
const SOON: Duration = Duration::from_secs(9);

/// These keys, and a cage that costs no time.
fn settings(repo: &Repo, keys: &str) {
    repo.write("../config/aot/aot.toml", &format!("[cage]\nkind = \"none\"\n[notify]\n{keys}\n"));
}

/// Each event appends what it was told, in two lines, to a file outside of the project.
fn all_told(repo: &Repo) {
    let keys = ["on_done", "on_halt", "on_person", "on_parked"].map(|key| {
        let told = "printf '%s|%s|%s|%s|%s\\n' \"$AOT_EVENT\" \"$AOT_EXIT\" \"$AOT_STATUS\" \"$AOT_REASON\" \"$AOT_PROJECT\"";
        format!("{key} = '''{{ {told}; cat; echo; }} > ../part-$$ && cat ../part-$$ >> ../told'''\n")
    });
    settings(repo, &keys.concat());
}

/// What was told so far: the variables of each event, and its object.
fn told(repo: &Repo) -> Vec<(String, Value)> {
    let text = repo.read("../told");
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks(2).map(|pair| {
        let object =
            serde_json::from_str(pair.last().expect("two lines")).unwrap_or_else(|_| panic!("{text}"));
        (pair[0].to_owned(), object)
    });
    pairs.collect()
}

fn events(repo: &Repo) -> String {
    told(repo)
        .iter()
        .map(|(_, object)| object["event"].as_str().unwrap_or("?").to_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn exhausted() -> Plan<'static> {
    Plan {
        atoms: "  - {id: A1, description: \"Bad\", status: pending, depends_on: [], or_group: way, run: \"exit 3\"}",
        or_groups: "  way: {choices: [A1], selected: A1, failed: []}",
        ..Plan::default()
    }
}

#[test]
fn a_loop_that_is_done_is_told_once() {
    let repo = Repo::with(&Plan::default());
    all_told(&repo);
    let ran = repo.run();
    assert_eq!(ran.exit, 0, "{}{}", ran.out, ran.err);
    let notified = ran.objects().iter().filter(|object| object["type"] == "notified").count();
    assert_eq!((notified, events(&repo).as_str()), (1, "done"), "{}", ran.out);
    let (line, object) = &told(&repo)[0];
    let root = repo.path("");
    let project = root.to_str().expect("a text").trim_end_matches('/');
    assert_eq!(
        *line,
        format!("done|0|completed||{project}")
            .replace("||", &format!("|{}|", object["reason"].as_str().expect("a text")))
    );
    let facts = ["goal", "exit", "verdict", "status", "resolved", "atoms", "iteration", "until"]
        .map(|key| object[key].clone());
    assert_eq!(
        json!(facts),
        json!(["Let the numbers be there", 0, "completed", "completed", 1, 1, 1, null]),
        "{object}"
    );
    assert_eq!(object["state"], json!(repo.path(STATE)));
    // Looking again brings nothing new.
    assert_eq!(repo.run().exit, 0);
    assert_eq!(events(&repo), "done");
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

/// What others wrote reaches a command as data.
#[test]
fn a_reason_is_never_a_part_of_a_command() {
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", "sleep 600"), ..Plan::default() });
    all_told(&repo);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let reason = "'; touch ../pwned; $(touch ../pwned) `touch ../pwned` \u{1b}[31m\"red\"";
    assert_eq!(repo.aot(&["stop", "--now", reason]).exit, 0);
    assert_eq!(live.end().exit, 10);
    assert!(!repo.path("../pwned").exists());
    let (line, object) = &told(&repo)[0];
    let plain = reason.replace("\u{1b}[31m", "");
    assert_eq!(
        (object["reason"].as_str(), &object["verdict"]),
        (Some(plain.as_str()), &json!("stopped_by_hand"))
    );
    assert!(line.starts_with(&format!("halt|10|stopped|{plain}|")), "{line}");
    assert_eq!(told(&repo).len(), 1);
}

#[test]
fn a_person_who_is_needed_is_told() {
    let base_case = "      - {item: \"It is nice\", check: {type: assertion, value: \"It is nice\"}}\n";
    let repo = Repo::with(&Plan { base_case, ..Plan::default() });
    all_told(&repo);
    assert_eq!(repo.run().exit, 17);
    assert_eq!(events(&repo), "person");
    let (line, object) = &told(&repo)[0];
    assert!(line.starts_with("person|17|stopped|"), "{line}");
    assert!(object["reason"].as_str().is_some_and(|reason| reason.contains("It is nice")), "{object}");
    // It waits for the same, and that is known.
    assert_eq!(repo.run().exit, 17);
    assert_eq!(events(&repo), "person");
    assert_eq!(repo.aot(&["confirm", "It is nice"]).exit, 0);
    assert_eq!(repo.run().exit, 0);
    assert_eq!(events(&repo), "person done");
}

#[test]
fn a_landing_that_waits_for_edits_is_told_while_it_waits() {
    let atoms = atom("A1", "", "while [ ! -e GO ]; do sleep 0.02; done; echo done > README");
    let repo =
        Repo::with(&Plan { atoms: &atoms, base_case: &check("grep -q done README"), ..Plan::default() });
    let go = repo.path("../go");
    repo.write(STATE, &repo.read(STATE).replace("GO", go.to_str().expect("a text")));
    all_told(&repo);
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    repo.write("README", "mine\n");
    std::fs::write(&go, "").expect("a file");
    live.hear("\"type\":\"waiting\"");
    let since = Instant::now();
    wait_until("it is told", || events(&repo) == "person");
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    assert_eq!(told(&repo)[0].1["reason"], "A1 is done, and lands when you commit or undo README");
    assert_eq!(told(&repo)[0].1["exit"], json!(null), "the loop goes on");
    let listed = repo.aot(&["loops"]).out;
    assert!(listed.starts_with("needs you ") && listed.contains("A1 waits to land: README"), "{listed}");
    repo.git(&["checkout", "README"]);
    assert_eq!(live.end().exit, 0);
    assert_eq!(events(&repo), "person done");
}

/// The limit is told at its first refusal, and not again by a run that takes the parked loop up.
#[test]
fn a_parked_loop_tells_once() {
    let atoms = "  - {id: A1, description: \"Make A1\", status: pending, depends_on: []}\n";
    let repo = Repo::with(&Plan { atoms, base_case: &is_there("a.txt"), ..Plan::default() });
    all_told(&repo);
    repo.write("../agent.sh", "cat > /dev/null\necho '{\"t\": \"error\", \"v\": \"rate limit\"}'\nexit 1\n");
    let program = repo.path("../agent.sh").display().to_string();
    let agent = format!(
        "[agent.mine]\nprogram = \"/bin/sh\"\narguments = [{program:?}]\ninput = \"prompt\"\nanswer = \"event\"\n\
         try_first = false\ntrouble.limited = ['rate limit']\n\
         [[agent.mine.events]]\nwhen = {{ t = \"end\" }}\nanswer = \"v\"\n\
         [[agent.mine.events]]\nwhen = {{ t = \"error\" }}\nerror = \"v\"\n"
    );
    repo.write("../config/aot/aot.toml", &(repo.read("../config/aot/aot.toml") + &agent));
    for _ in 0..2 {
        let mut live = repo.start(&["run", "--json", "--agent", "mine"]);
        live.hear("\"type\":\"parked\"");
        wait_until("it is told", || events(&repo) == "parked");
        live.child.kill().expect("it is killed");
        let _ = live.end();
    }
    let (line, object) = &told(&repo)[0];
    assert!(line.starts_with("parked||running|mine: rate limit|"), "{line}");
    assert!(
        object["until"].as_str().is_some_and(|until| until.parse::<jiff::Timestamp>().is_ok()),
        "{object}"
    );
    assert_eq!(repo.aot(&["stop"]).exit, 0);
}

/// A command that hangs is left to a process that ends it; the loop is over long before.
#[test]
fn a_command_that_hangs_holds_up_nothing_and_ends_at_its_limit() {
    let repo = Repo::with(&exhausted());
    settings(&repo, "on_halt = \"trap '' TERM; echo $$ > ../pid; while :; do sleep 1; done\"");
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"halted\"");
    let since = Instant::now();
    assert_eq!(live.end().exit, 13);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    let pid = repo.read("../pid");
    let lives = || std::path::Path::new("/proc").join(pid.trim()).exists();
    assert!(!pid.is_empty() && lives(), "its limit has not come yet");
    wait_until("it is ended", || !lives());
    assert_eq!(repo.leftovers(), Vec::<String>::new());
}

#[test]
fn a_failure_is_said_once_and_changes_nothing() {
    let repo = Repo::with(&exhausted());
    settings(&repo, "on_halt = \"echo first >&2; echo 'no mail here' >&2; exit 4\"");
    let ran = repo.aot(&["run"]);
    assert_eq!(ran.exit, 13, "{}{}", ran.out, ran.err);
    let warning = "warning: `notify.on_halt` failed: exit 4: no mail here";
    assert_eq!(ran.err.matches("notify.on_halt").count(), 1, "{}", ran.err);
    assert!(ran.err.contains(warning), "{}", ran.err);
    // A desktop that is not there is no failure.
    settings(&repo, "desktop = true\nbell = true");
    std::fs::remove_file(repo.path(".claude/aot/notified.json")).expect("it is there");
    let mut command = repo.command(&["run"]);
    let ran = command.env("PATH", "/nowhere:/usr/bin:/bin").output().expect("it starts");
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(13) && !err.contains('\x07'), "no terminal, no bell: {err}");
}

/// What shows it is a program on the PATH; a text is one argument, and no markup.
#[test]
fn the_desktop_and_the_bell_are_used_where_there_is_one() {
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", "sleep 600"), ..Plan::default() });
    repo.write("../bin/notify-send", "#!/bin/sh\nprintf '%s\\n' \"$@\" > ../shown\n");
    let made = Command::new("chmod").arg("+x").arg(repo.path("../bin/notify-send")).status();
    assert!(made.expect("chmod").success());
    settings(&repo, "desktop = true\nbell = true");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", repo.path("../bin").display());
    let mut terminal = Terminal::with(&repo, &["run"], &[("PATH", &path)]);
    terminal.see("starts: Do A1");
    assert_eq!(repo.aot(&["stop", "--now", "--", "-x <b>late</b> & more"]).exit, 0);
    let (exit, seen) = terminal.end();
    assert_eq!(exit, Some(10));
    assert_eq!(seen.iter().filter(|byte| **byte == 7).count(), 1, "{}", String::from_utf8_lossy(&seen));
    let shown = repo.read("../shown");
    let text = "Let the numbers be there: -x &lt;b&gt;late&lt;/b&gt; &amp; more";
    assert_eq!(shown, format!("--app-name=aot\n--\naot: halt\n{text}\n"));
}

#[test]
fn the_doctor_says_what_is_missing() {
    let repo = Repo::with(&Plan::default());
    settings(&repo, "on_done = \"true\"\nwebhook = \"https://hooks.example.org/secret\"\ndesktop = true");
    let mut command = repo.command(&["doctor", "--json"]);
    let output = command.env("PATH", "/nowhere").output().expect("it starts");
    let object: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let said: Vec<&str> = object["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .skip_while(|finding| finding["what"] != "notify")
        .take(3)
        .filter_map(|finding| finding["message"].as_str())
        .collect();
    let expected = [
        "on_done, the webhook at hooks.example.org, the desktop",
        "`notify.webhook` needs curl, which is not installed",
        "`notify.desktop` shows nothing here: notify-send is not installed",
    ];
    assert_eq!(said, expected, "{object}");
}

/// Killed after its halt was written: whatever was begun is finished, what was told is not told again, and what was not
/// told is told by the next run.
#[test]
fn a_driver_that_is_killed_at_its_end_leaves_one_telling() {
    let repo = Repo::with(&exhausted());
    settings(&repo, "on_halt = \"sleep 0.3; cat >> ../told; echo >> ../told\"");
    let count = || repo.read("../told").lines().count();
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"notified\"");
    live.child.kill().expect("it is killed");
    let _ = live.end();
    wait_until("it is told all the same", || count() == 1);
    assert_eq!(repo.run().exit, 13);
    assert_eq!(count(), 1, "it is the same halt");
    // As if it had been killed a moment earlier.
    let mark = repo.read(".claude/aot/notified.json");
    let mut mark: Value = serde_json::from_str(&mark).expect("an object");
    (mark["under_way"], mark["halt"]) = (json!(true), json!(null));
    repo.write(".claude/aot/notified.json", &mark.to_string());
    let ran = repo.run();
    assert_eq!(ran.exit, 13, "{}{}", ran.out, ran.err);
    assert_eq!(count(), 2, "{}", ran.out);
    assert_eq!(repo.run().exit, 13);
    assert_eq!(count(), 2);
}

/// A server of HTTP that gives this answer to every request, and what it was asked.
fn server(answer: &str) -> (u16, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, asked) = channel();
    let answer = answer.replace("PORT", &port.to_string());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                if let Some(count) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = count.trim().parse().expect("a number");
                }
                head += &line;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the body");
            let _ = (&stream).write_all(answer.as_bytes());
            if sender.send((head, String::from_utf8_lossy(&body).into_owned())).is_err() {
                return;
            }
        }
    });
    (port, asked)
}

fn has_curl() -> bool {
    let is_here = Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(is_here || std::env::var_os("CI").is_none_or(|value| value != "true"), "curl is not installed");
    if !is_here {
        eprintln!("!!! NOT TESTED WITH A WEBHOOK: curl is not installed !!!");
    }
    is_here
}

#[test]
fn a_webhook_gets_the_same_object() {
    if !has_curl() {
        return;
    }
    let repo = Repo::with(&exhausted());
    let (port, asked) = server("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    // Settings of the user's curl do not count.
    repo.write("../.curlrc", "location\nurl = \"http://127.0.0.1:1/\"\n");
    settings(
        &repo,
        &format!("webhook = \"http://127.0.0.1:{port}/hook/[1-3]?key=x\"\non_halt = \"cat > ../told\""),
    );
    let ran = repo.run();
    assert_eq!((ran.exit, ran.err.as_str()), (13, ""), "{}", ran.out);
    let (head, body) = asked.recv_timeout(LONG).expect("it was asked");
    assert!(head.starts_with("POST /hook/[1-3]?key=x HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/json"), "{head}");
    assert_eq!(body, repo.read("../told"));
    let object: Value = serde_json::from_str(&body).expect("an object");
    assert_eq!((&object["event"], &object["verdict"]), (&json!("halt"), &json!("exhausted")));
    assert!(asked.try_recv().is_err(), "once");
}

#[test]
fn a_webhook_that_redirects_is_not_followed_and_its_address_stays_secret() {
    if !has_curl() {
        return;
    }
    for (answer, why) in [
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:PORT/elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "it answered 302",
        ),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "it answered 500"),
    ] {
        let repo = Repo::with(&exhausted());
        let (port, asked) = server(answer);
        settings(&repo, &format!("webhook = \"http://127.0.0.1:{port}/secret\""));
        let ran = repo.aot(&["run"]);
        assert_eq!(ran.exit, 13, "{}{}", ran.out, ran.err);
        let warning = format!("warning: the webhook at 127.0.0.1:{port} was not reached: {why}\n");
        assert!(ran.err.contains(&warning) && !ran.err.contains("secret"), "{}", ran.err);
        assert_eq!(asked.iter().take(1).count(), 1);
        assert!(asked.try_recv().is_err(), "it was followed");
    }
}
