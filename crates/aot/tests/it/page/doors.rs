//! Who is let in, and how much and how long anybody may ask: over plain connections, as any program on the machine can.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::kit::{PATIENCE, Server};
use crate::repo::{Plan, Repo, STATE};

const HOST: &str = "host: HOST";
const COOKIE: &str = "cookie: COOKIE";
const ORIGIN: &str = "origin: http://HOST";
const JSON: &str = "content-type: application/json";

fn served() -> (Repo, Server) {
    let repo = Repo::bare(&Plan::default());
    let server = Server::start(&repo, &[]);
    (repo, server)
}

#[test]
fn strangers_other_names_and_other_pages_are_turned_away() {
    let (repo, server) = served();
    let page = server.ask("GET HOME/", &[HOST, COOKIE], "");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<!doctype html>"), "{page}");
    for (request, headers, expected) in [
        // Without a token, with another one, and with one that is too long or empty.
        ("GET /", vec![HOST], "401"),
        ("GET /?token=", vec![HOST], "401"),
        ("GET /?token=00", vec![HOST], "401"),
        ("GET HOME/", vec![HOST], "401"),
        ("GET HOME/events", vec![HOST], "401"),
        ("GET HOME/", vec![HOST, "cookie: aot=0"], "401"),
        ("GET HOME/", vec![HOST, "cookie: COOKIEx"], "401"),
        // Another name that leads here, as by DNS rebinding.
        ("GET HOME/", vec!["host: evil.example", COOKIE], "421"),
        ("GET HOME/", vec!["host: 127.0.0.1", COOKIE], "421"),
        ("GET HOME/", vec![HOST, HOST, COOKIE], "4"),
        ("GET http://evil.example/", vec![HOST, COOKIE], "421"),
        // A page of another server on this machine.
        ("GET HOME/events", vec![HOST, COOKIE, "sec-fetch-site: same-site"], "403"),
        ("POST HOME/loops/x/stop", vec![HOST, COOKIE, JSON], "403"),
        ("POST HOME/loops/x/stop", vec![HOST, COOKIE, JSON, "origin: http://127.0.0.1:1"], "403"),
        ("POST HOME/loops/x/stop", vec![HOST, COOKIE, JSON, "origin: null"], "403"),
        ("POST HOME/loops/x/stop", vec![HOST, COOKIE, ORIGIN, "content-type: text/plain"], "415"),
        ("OPTIONS HOME/loops/x/stop", vec![HOST, ORIGIN, "access-control-request-method: POST"], "401"),
        // What is not there: loops, atoms, actions, and paths that want out.
        ("POST HOME/loops/x/stop", vec![HOST, COOKIE, ORIGIN, JSON], "404"),
        ("GET HOME/loops/x/atoms/A1", vec![HOST, COOKIE], "404"),
        ("GET HOME/../../etc/passwd", vec![HOST, COOKIE], "404"),
        ("GET HOME/%2e%2e/%2e%2e/etc/passwd", vec![HOST, COOKIE], "404"),
        ("GET //etc/passwd", vec![HOST, COOKIE], "401"),
        ("GET /0123456789abcdef/", vec![HOST, COOKIE], "401"),
        ("DELETE HOME/", vec![HOST, COOKIE, ORIGIN, JSON], "405"),
    ] {
        let said = server.ask(request, &headers, "");
        assert!(said.starts_with(&format!("HTTP/1.1 {expected}")), "{request} {headers:?}: {said}");
        assert!(!said.contains("access-control-allow"), "{request}: {said}");
        assert!(!said.contains(server.token()), "{request}: {said}");
    }
    assert_eq!(repo.atoms(), "A1:pending");
}

#[test]
fn every_answer_says_how_strictly_it_is_to_be_taken() {
    let (_repo, server) = served();
    for (request, headers) in
        [("GET HOME/", vec![HOST, COOKIE]), ("GET /", vec![HOST]), ("GET HOME/x", vec![HOST, COOKIE])]
    {
        let said = server.ask(request, &headers, "").to_ascii_lowercase();
        for expected in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
            "x-content-type-options: nosniff\r\n",
            "referrer-policy: no-referrer\r\n",
            "cache-control: no-store\r\n",
            "x-frame-options: deny\r\n",
        ] {
            assert!(said.contains(expected), "{request}: {expected} is missing in {said}");
        }
    }
    let entered = server.ask(&format!("GET /?token={}", server.token()), &[HOST], "");
    assert!(entered.starts_with("HTTP/1.1 303"), "{entered}");
    let cookie = entered.lines().find(|line| line.starts_with("set-cookie: ")).expect("a cookie");
    // The path keeps the cookie from other servers on this machine.
    let expected =
        format!("set-cookie: aot={}; Path={}/; HttpOnly; SameSite=Strict", server.token(), server.home());
    assert_eq!(cookie, expected);
    assert!(server.token().len() >= 32, "{}", server.token());
}

#[test]
fn requests_without_end_are_cut_off() {
    let (_repo, server) = served();
    // A body that is too long, by its own word and by what comes.
    let body = format!("{{\"reason\":\"{}\"}}", "x".repeat(1 << 20));
    let one = &server.loops[0];
    let said = server.ask(&format!("POST HOME/loops/{one}/stop"), &[HOST, COOKIE, ORIGIN, JSON], &body);
    assert!(said.starts_with("HTTP/1.1 413") || said.is_empty(), "{said}");
    // A head that is too long.
    let long = format!("x: {}", "y".repeat(64 << 10));
    let said = server.ask("GET HOME/", &[HOST, COOKIE, &long], "");
    assert!(said.starts_with("HTTP/1.1 431") || said.is_empty(), "{said}");
    let many: Vec<String> = (0..200).map(|number| format!("x{number}: y")).collect();
    let many: Vec<&str> = [HOST, COOKIE].into_iter().chain(many.iter().map(String::as_str)).collect();
    let said = server.ask("GET HOME/", &many, "");
    assert!(said.starts_with("HTTP/1.1 431") || said.is_empty(), "{said}");
    // What is no request at all, and no JSON.
    assert!(server.say(b"\0\x01\x02 nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    let said = server.ask(&format!("POST HOME/loops/{one}/stop"), &[HOST, COOKIE, ORIGIN, JSON], "{");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    // It still answers.
    assert!(server.ask("GET HOME/", &[HOST, COOKIE], "").starts_with("HTTP/1.1 200"));
}

#[test]
fn slow_clients_are_left_and_others_are_answered_meanwhile() {
    let (_repo, server) = served();
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
            stream.write_all(b"GET / HTTP/1.1\r\nhost: 127").expect("it takes the beginning");
            stream
        })
        .collect();
    assert!(server.ask("GET HOME/", &[HOST, COOKIE], "").starts_with("HTTP/1.1 200"));
    for stream in &mut slow {
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut said = Vec::new();
        stream.read_to_end(&mut said).expect("the server closes it");
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[test]
fn a_job_of_a_loop_gets_no_page() {
    let repo = Repo::bare(&Plan::default());
    let said = repo.command(&["serve", "--json"]).env("AOT_JOB", "1").output().expect("it starts");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("not_a_person"), "{text}");
    assert!(repo.path(STATE).exists());
}

#[test]
fn all_loops_that_were_driven_stand_on_one_page() {
    let repo = Repo::with(&Plan::default()).at("../elsewhere");
    let said = repo.aot(&["serve", "--all", "--json"]);
    assert!(said.out.contains("no_loop"), "{said:?}");
    let repo = repo.at("../project");
    assert_eq!(repo.run().exit, 0);
    let server = Server::start(&repo.at("../elsewhere"), &["--all"]);
    assert_eq!(server.loops.len(), 1);
}
