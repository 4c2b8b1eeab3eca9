//! Who may give orders, and who gets them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use aot_runner::remote::keys::{MachineIdentity, SignedAs};
use aot_testkit::machines::Machines;
use aot_testkit::project::Project;

use super::{Driver, NO_CAGE, aot, atom, machines, project, run, server};

fn one_atom() -> Project {
    project(&atom("A1", "", "", "echo > done"), "", "done")
}

/// Calls a service as anybody on the network can, and returns what it answers.
fn call(machines: &Machines, path: &str, body: &[u8]) -> String {
    let ingress = machines.server.ingress();
    let mut stream = TcpStream::connect(&ingress).expect("the server is there");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {ingress}\r\nConnection: close\r\ncontent-type: application/octet-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_order_of_a_stranger_is_refused() {
    let Some(mut machines) = machines(one_atom(), &["one"]) else { return };
    let stranger = MachineIdentity::new().expect("a key");
    let signed = stranger.sign(SignedAs::Order, "{}".to_owned());
    for (order, why) in [
        (&b"not even an envelope"[..], "it is not signed in the way that this version understands"),
        (&signed[..], "a key that is not known here"),
    ] {
        let answer = call(&machines, "/aot-one/0/work", order);
        assert!(answer.contains("Refused") && answer.contains(why), "{answer}");
        machines.host("one").hear("an order was refused");
    }
    let asked = stranger.sign(SignedAs::Question, "{}".to_owned());
    let answer = call(&machines, "/aot-one/look/look", &asked);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    assert!(
        answer.starts_with("HTTP/1.1 200") && body.is_some_and(|body| !body.contains("slots")),
        "{answer}"
    );
    machines.host("one").hear("a question was refused");
    assert_eq!(machines.survivors(), []);
    assert_eq!(run(&machines).0, 0);
}

/// What a driver has signed for one host, or said once, moves nothing on another one or a second time.
#[test]
fn an_order_that_was_overheard_does_nothing_a_second_time() {
    let Some(mut machines) = machines(one_atom(), &["one", "two"]) else { return };
    let log = machines.project.note("runs").display().to_string();
    let text = machines.project.read(aot_testkit::project::STATE);
    let run_once = format!("echo run >> {log}; sleep 1; echo > done");
    machines.project.write(aot_testkit::project::STATE, &text.replace("echo > done", &run_once));
    let mut driver = Driver::start(&machines, &[]);
    driver.hear("\"type\":\"started\"");
    let records = machines.project.path(".claude/aot/remote");
    let mut overheard = None;
    super::wait_until("the order is written down", || {
        let files = std::fs::read_dir(&records).into_iter().flatten().flatten();
        let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        overheard = texts.find_map(|text| {
            let record: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some((record["host"].as_str()?.to_owned(), record["order"].as_str()?.to_owned()))
        });
        overheard.is_some()
    });
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    let (host, order) = overheard.expect("it was waited for");
    let other = if host == "one" { "two" } else { "one" };
    let answer = call(&machines, &format!("/aot-{other}/0/work"), order.as_bytes());
    assert!(answer.contains(&format!("it is for {host}")), "{answer}");
    let answer = call(&machines, &format!("/aot-{host}/0/work"), order.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(machines.project.read_note("runs").lines().count(), 1);
    assert_eq!(machines.project.landed(), ["A1"]);
    machines.host(other).hear("an order was refused");
    // A host that was started anew has forgotten what it did.
    machines.restart(&host);
    let answer = call(&machines, &format!("/aot-{host}/1/work"), order.as_bytes());
    assert!(answer.contains("its driver does not want it any more"), "{answer}");
    assert_eq!(machines.project.read_note("runs").lines().count(), 1);
}

#[test]
fn a_host_is_not_started_with_what_cannot_work() {
    let Some(machines) = machines(one_atom(), &[]) else { return };
    let key = machines.driver_key();
    let (on, driver) = (machines.server.address(), format!("me={key}"));
    for (more, problem) in [
        (&["--repo", "/nowhere"][..], "`/nowhere` cannot be cloned"),
        (&["--repo", ".", "--name", "B"], "`B` is no name of a host"),
        (&["--repo", ".", "--offers", "gpu, disk"], "` disk` is no word"),
        (&["--repo", ".", "--account", ""], "`` is no word"),
    ] {
        let words = ["worker", "--on", &on, "--listen", "127.0.0.1:0", "--driver", &driver];
        let said = machines.project.aot(&[&words[..], more].concat());
        let err = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{err}");
        assert!(err.contains(problem) && err.contains("hint: "), "{err}");
    }
    let drivers = machines.project.path("../.config/aot/keys/drivers");
    assert!(!drivers.exists(), "a driver was trusted by a command that was refused");
}

#[test]
fn a_host_that_nobody_trusts_gets_no_jobs_and_is_named() {
    let Some(mut machines) = machines(one_atom(), &["one"]) else { return };
    let key = machines.driver_key();
    let at = machines.begin_host("two", "127.0.0.1", &[], &["--driver", &format!("driver={key}")]);
    machines.hosts[at].hear("ready");
    let mut driver = Driver::start(&machines, &[]);
    driver.hear("two is not trusted, and gets no jobs: `aot hosts --trust two=KEY`");
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
    assert!(!machines.host("two").listen().iter().any(|line| line.contains("begins")));
}

/// One that answers with another key than the one it is known by.
#[test]
fn a_host_with_another_key_gets_no_jobs() {
    let Some(machines) = machines(one_atom(), &["one", "two"]) else { return };
    let other = MachineIdentity::new().expect("a key").public();
    machines.trust("two", &other.to_string());
    let mut driver = Driver::start(&machines, &[]);
    driver.hear("two gets no jobs");
    let (exit, said) = driver.end();
    assert_eq!(exit, 0, "{said}");
}

#[test]
fn a_driver_that_a_host_does_not_know_is_told_what_to_type_there() {
    let Some(mut machines) = machines(one_atom(), &["one"]) else { return };
    // Another machine, which has a key of its own.
    let (own, text) = (machines.project.path("../.config/aot/keys"), "another");
    let hosts = std::fs::read(own.join("hosts")).expect("one host is trusted");
    std::fs::rename(&own, own.with_file_name(text)).expect("renamed");
    std::fs::create_dir_all(&own).expect("a folder");
    std::fs::write(own.join("hosts"), hosts).expect("a file");
    let key = machines.driver_key();
    let mut driver = Driver::start(&machines, &[]);
    let line = driver.hear("one gets no jobs");
    assert!(line.contains("aot worker --driver") && line.contains(&key), "{line}");
    assert!(machines.project.aot(&["stop", "--now"]).status.success());
    let (exit, said) = driver.end();
    assert_eq!(exit, 10, "{said}");
    assert!(!machines.host("one").listen().iter().any(|line| line.contains("begins")));
}

/// The server signs its requests, and a host takes those of its server only.
#[test]
fn a_host_takes_requests_of_its_own_server_only() {
    let Some(program) = server() else { return };
    let project = one_atom();
    let pem = project.note("server.pem");
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-outform", "pem", "-out"])
        .arg(&pem)
        .stderr(std::process::Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("!!! NOT TESTED: openssl is not here, so the server has no key !!!");
        return;
    }
    let mut machines = Machines::with_server(aot(), &program, project, NO_CAGE, |server| {
        server.env("RESTATE_REQUEST_IDENTITY_PRIVATE_KEY_PEM_FILE", &pem);
    });
    let log = machines.server.log();
    let begins = log.find("publickeyv1_").expect("the server prints its key");
    let key: String = log[begins..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    machines.add("one", &["--identity-key", &key]);
    let (exit, said) = run(&machines);
    assert_eq!(exit, 0, "{said}");
    let other = "publickeyv1_AoFRStcCRPzFs1dBJQZqVUW7SUqCGZQuPz4iD6AQFrpJ".to_owned();
    let at = machines.begin_host(
        "two",
        "127.0.0.1",
        &[],
        &["--identity-key", &other, "--driver", &{
            let key = machines.driver_key();
            format!("driver={key}")
        }],
    );
    machines.hosts[at].hear("the engine does not take this host");
}

#[test]
fn what_prevents_a_run_on_hosts_is_said_with_what_to_type() {
    let project = one_atom();
    let said = |words: &[&str]| {
        let output = project.aot(&[&["run"], words].concat());
        assert_ne!(output.status.code(), Some(0), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (words, problem, hint) in [
        (
            &["--on", "restate=http://127.0.0.1:1"][..],
            "no host is trusted on this machine",
            "aot hosts --trust NAME=KEY",
        ),
        (&["--on", "nats=x"], "`nats=x` names no engine", "restate=http://127.0.0.1:9070"),
        (&["--hand-over", "origin"], "--on", "--on"),
    ] {
        let said = said(words);
        assert!(said.contains(problem) && said.contains(hint), "{words:?}: {said}");
    }
    let key = MachineIdentity::new().expect("a key").public().to_string();
    assert!(project.aot(&["hosts", "--trust", &format!("one={key}")]).status.success());
    for (on, problem, hint) in [
        ("restate=http://127.0.0.1:1", "the engine at http://127.0.0.1:1 does not answer", "restate-server"),
        ("restate=https://127.0.0.1:9070", "https is not supported", "ssh -L"),
        ("restate=there", "is not the address of a Restate server", "http://HOST:9070"),
    ] {
        let said = said(&["--on", on]);
        assert!(said.contains(problem) && said.contains(hint), "{on}: {said}");
    }
}
