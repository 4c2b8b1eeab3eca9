//! A network that is a list of hosts: what a job reaches through the proxy, what it does not reach past it, and what is
//! said of it. Hosts are addresses of this machine's loopback, on which the tests listen.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

use aot_runner::process::cage::{Kind, Network};
use aot_runner::process::hosts::Hosts;
use aot_runner::process::{Ended, How};

use super::kit::{LONG, Yard, guard, in_time, kinds};
use crate::repo::{Plan, Repo, check};

/// An address that no variable exempts from the proxy.
const ELSEWHERE: &str = "127.0.0.2";

/// Says hello to whoever asks, and remembers what was asked.
struct Greeter {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Greeter {
    fn at(address: &str) -> Greeter {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let keep = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                greet(stream, &keep);
            }
        });
        Greeter { port, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("nobody panics").clone()
    }
}

fn greet(mut stream: TcpStream, heard: &Mutex<Vec<String>>) {
    let mut bytes = [0; 4096];
    heard.lock().expect("nobody panics").push(String::new());
    let Ok(count) = stream.read(&mut bytes) else { return };
    let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
    *heard.lock().expect("nobody panics").last_mut().expect("it was put there") = text;
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
}

fn listed(words: &[String]) -> Network {
    Network::Hosts(Hosts::parse(words).expect("they are hosts"))
}

/// A yard whose network is this list, if there is a cage that keeps it here.
fn yard(words: &[String]) -> Option<Yard> {
    let mut yard = kinds().contains(&Kind::Bwrap).then(|| Yard::of(Kind::Bwrap))?;
    yard.network = listed(words);
    Some(yard)
}

fn said(ended: &Ended) -> String {
    String::from_utf8_lossy(&ended.output.whole().unwrap_or_default()).into_owned()
}

#[test]
fn a_listed_host_is_reached_through_the_proxy() {
    let server = Greeter::at(ELSEWHERE);
    let host = format!("{ELSEWHERE}:{}", server.port);
    let Some(yard) = yard(std::slice::from_ref(&host)) else { return };
    for (script, way) in [
        (format!("curl -sS http://{host}/a"), "GET /a HTTP/1.1"),
        (format!("curl -sS --proxytunnel http://{host}/b"), "GET /b HTTP/1.1"),
        (format!("http_proxy=$HTTP_PROXY curl -sS -H 'Host: other' http://{host}/c"), "GET /c HTTP/1.1"),
    ] {
        let (how, told) = yard.sh(&script);
        assert_eq!((how, told.as_str()), (How::Exited(0), "hello\n"), "{script}");
        let heard = server.heard().pop().expect("it was asked");
        assert!(heard.starts_with(way), "{heard}");
        assert!(heard.contains(&format!("Host: {host}")) && !heard.contains("Host: other"), "{heard}");
    }
}

/// What is refused is refused by the proxy, is told once for each host, and never arrives.
#[test]
fn another_host_is_refused_and_told_once() {
    let (server, other) = (Greeter::at(ELSEWHERE), Greeter::at(ELSEWHERE));
    let host = format!("{ELSEWHERE}:{}", server.port);
    let Some(yard) = yard(std::slice::from_ref(&host)) else { return };
    let port = other.port;
    let asked = "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; cat <&3 & printf";
    for script in [
        format!("curl -sS http://{ELSEWHERE}:{port}/; curl -sS http://{ELSEWHERE}:{port}/ -p"),
        format!("{asked} 'CONNECT {ELSEWHERE}:{port} HTTP/1.1\\r\\n\\r\\n' >&3; wait"),
        format!("{asked} 'CONNECT [::ffff:{ELSEWHERE}]:{port} HTTP/1.1\\r\\n\\r\\n' >&3; wait"),
    ] {
        let ended = yard.run(yard.job(&script));
        let told = said(&ended);
        let line = format!("`network = [\"{host}\", \"{ELSEWHERE}:{port}\"]` under `[cage]` in aot.toml");
        assert!(told.contains(&line), "{script}: {told}");
        let refused: Vec<String> =
            ended.refused.iter().map(|refusal| format!("{}:{}", refusal.host, refusal.port)).collect();
        assert_eq!(refused, [format!("{ELSEWHERE}:{port}")], "{script}");
    }
    for script in [
        format!("{asked} 'CONNECT 2130706434:{port} HTTP/1.1\\r\\n\\r\\n' >&3; wait"),
        format!("{asked} 'CONNECT 127.2:{port} HTTP/1.1\\r\\n\\r\\n' >&3; wait"),
        format!("{asked} 'CONNECT {host}@{ELSEWHERE}:{port} HTTP/1.1\\r\\n\\r\\n' >&3; wait"),
        format!("{asked} 'GET http://{host}@{ELSEWHERE}:{port}/ HTTP/1.1\\r\\n\\r\\n' >&3; wait"),
        format!("{asked} 'GET / HTTP/1.1\\r\\nHost: {ELSEWHERE}:{port}\\r\\n\\r\\n' >&3; wait"),
        format!("{asked} '\\x05\\x01\\x00' >&3; exec 3>&-; kill %1; wait"),
        format!(
            "{asked} 'GET http://{host}/ HTTP/1.1\\r\\n\\r\\nGET http://{ELSEWHERE}:{port}/ HTTP/1.1\\r\\n\\r\\n' >&3; wait"
        ),
        format!("head -c 20000 /dev/zero | tr '\\0' x | curl -sS http://{ELSEWHERE}:{port}/ -H @-"),
    ] {
        yard.sh(&script);
    }
    assert_eq!(other.heard(), [""; 0]);
}

/// The cage has a network of its own with nothing in it: there is nothing to get around the proxy by.
#[test]
fn there_is_no_way_past_the_proxy() {
    let server = Greeter::at(ELSEWHERE);
    let host = format!("{ELSEWHERE}:{}", server.port);
    let Some(yard) = yard(std::slice::from_ref(&host)) else { return };
    let udp = UdpSocket::bind((ELSEWHERE, 0)).expect("a port");
    udp.set_nonblocking(true).expect("it is ours");
    let datagrams = udp.local_addr().expect("it has one").port();
    let port = server.port;
    let python = |words: &str| format!("python3 -c \"import socket as s; {words}\"");
    // What is tried here works where the network is on.
    let open = Yard::of(Kind::Bwrap);
    for script in [
        format!("curl -sS --noproxy '*' http://{host}/"),
        format!("exec 3<>/dev/tcp/{ELSEWHERE}/{port}"),
        python(&format!("s.create_connection(('{ELSEWHERE}', {port}))")),
        format!("echo x > /dev/udp/{ELSEWHERE}/{datagrams}"),
    ] {
        let (how, told) = open.sh(&script);
        assert_eq!(how, How::Exited(0), "{script}: {told}");
    }
    assert!(udp.recv(&mut [0; 8]).is_ok(), "a datagram arrives");
    let before = server.heard().len();
    for script in [
        format!("curl -sS --noproxy '*' http://{host}/"),
        format!("NO_PROXY='*' no_proxy='*' curl -sS http://{host}/"),
        format!("unset ${{!h*}} ${{!H*}} ${{!A*}} ${{!a*}}; curl -sS http://{host}/"),
        format!("exec 3<>/dev/tcp/{ELSEWHERE}/{port}"),
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        python(&format!("s.create_connection(('::1', {port}))")),
        python(&format!("s.create_connection(('::ffff:{ELSEWHERE}', {port}))")),
        python("s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP)"),
        python("s.socket(s.AF_PACKET, s.SOCK_RAW)"),
        python("s.socket(s.AF_VSOCK, s.SOCK_STREAM)"),
        python("s.getaddrinfo('example.org', 80)"),
        python(&format!("x=s.socket(s.AF_INET, s.SOCK_STREAM, 262); x.connect(('{ELSEWHERE}', {port}))")),
        "ip link add d0 type dummy || ip route add default dev lo".to_owned(),
    ] {
        let (how, told) = yard.sh(&script);
        assert!(matches!(how, How::Exited(code) if code != 0), "{script}: {how:?} {told}");
    }
    yard.sh(&format!("echo x > /dev/udp/{ELSEWHERE}/{datagrams}; unshare -rn curl -sS http://{host}/"));
    assert!(udp.recv(&mut [0; 8]).is_err(), "a datagram arrived");
    assert_eq!(server.heard().len(), before, "{:?}", server.heard());
}

#[test]
fn a_port_of_this_machine_is_reached_by_its_number_and_no_other() {
    let (server, other) = (Greeter::at("127.0.0.1"), Greeter::at("127.0.0.1"));
    let Some(yard) = yard(&[format!("localhost:{}", server.port)]) else { return };
    for address in [format!("127.0.0.1:{}", server.port), format!("localhost:{}", server.port)] {
        let (how, told) = yard.sh(&format!(
            "curl -sS http://{address}/ && curl -sS -x $HTTP_PROXY --noproxy '' http://{address}/"
        ));
        assert_eq!((how, told.as_str()), (How::Exited(0), "hello\nhello\n"), "{address}");
    }
    let (how, told) = yard.sh(&format!("curl -sS http://127.0.0.1:{}/", other.port));
    assert!(matches!(how, How::Exited(code) if code != 0), "{told}");
    assert_eq!(other.heard(), [""; 0]);
}

/// Its own servers are not taken for somebody else's.
#[test]
fn what_a_job_serves_itself_it_reaches() {
    let Some(yard) = yard(&[]) else { return };
    let script = "echo own > file; python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 & \
                  for i in $(seq 200); do curl -s http://localhost:8123/file && exit; sleep 0.05; done; exit 1";
    let (how, told) = yard.sh(script);
    assert_eq!((how, told.as_str()), (How::Exited(0), "own\n"));
}

/// A connection that is open when the job ends is closed, however the job ends.
#[test]
fn connections_end_with_the_job() {
    for ends in [true, false] {
        let listener = TcpListener::bind((ELSEWHERE, 0)).expect("a port");
        let host = listener.local_addr().expect("it has one").to_string();
        let Some(yard) = yard(std::slice::from_ref(&host)) else { return };
        let rest = if ends { "head -n 1 <&3" } else { "sleep 100" };
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}; printf 'CONNECT {host} HTTP/1.1\\r\\n\\r\\nhere' >&3; {rest}"
        );
        let running = guard().start(&yard.job(&script)).expect("it starts");
        let killer = running.killer().expect("a killer");
        let (mut there, _) = listener.accept().expect("somebody comes");
        there.set_read_timeout(Some(LONG)).expect("it is ours");
        let mut text = [0; 4];
        there.read_exact(&mut text).expect("it is told");
        assert_eq!(&text, b"here");
        if !ends {
            killer.kill();
        }
        let ended = in_time("the job", move || running.wait());
        assert_eq!(ended.how, if ends { How::Exited(0) } else { How::Killed });
        assert_eq!(there.read(&mut text).unwrap_or(0), 0, "the connection is closed");
    }
}

/// Too many are turned away, and none of it stays.
#[test]
fn a_crowd_of_connections_is_bounded() {
    let server = Greeter::at(ELSEWHERE);
    let host = format!("{ELSEWHERE}:{}", server.port);
    let Some(yard) = yard(std::slice::from_ref(&host)) else { return };
    let script = format!(
        "python3 - <<'END'\n\
         import os, socket, subprocess, time\n\
         port = int(os.environ['HTTP_PROXY'].rsplit(':', 1)[1])\n\
         crowd = [socket.create_connection(('127.0.0.1', port)) for _ in range(300)]\n\
         ask = lambda: subprocess.run(['curl', '-s', 'http://{host}/'], stdout=subprocess.DEVNULL).returncode\n\
         print('turned away' if ask() else 'let in')\n\
         for one in crowd: one.close()\n\
         while ask(): time.sleep(0.05)\n\
         print('let in')\n\
         END"
    );
    let (how, told) = yard.sh(&script);
    assert_eq!((how, told.as_str()), (How::Exited(0), "turned away\nlet in\n"));
}

#[test]
fn only_bwrap_takes_a_list() {
    for kind in [Kind::Landlock, Kind::None] {
        let mut yard = Yard::of(kind);
        yard.network = listed(&["example.org".to_owned()]);
        let refused = guard().run(&yard.job("true")).expect_err("it is refused");
        assert!(refused.to_string().contains("landlock knows ports, not hosts"), "{refused}");
    }
}

/// Started by root, this is not tried: root can have any port.
#[test]
fn a_low_port_of_this_machine_is_named() {
    let network = listed(&["localhost:80".to_owned()]);
    match network.kept_by(Kind::Bwrap) {
        Ok(()) => assert!(rustix::process::geteuid().is_root()),
        Err(why) => assert!(why.to_string().contains("cannot have port 80"), "{why}"),
    }
}

fn repo(kind: Kind, hosts: &str, command: &str) -> Repo {
    let atoms = format!(
        "  - {{id: A1, description: \"One\", status: pending, depends_on: [], run: {command:?}, check: {{type: file, value: one}}}}"
    );
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &check("test -e one"), ..Plan::default() });
    repo.write("../config/aot/aot.toml", &format!("[cage]\nkind = \"{kind}\"\nnetwork = [{hosts}]\n"));
    repo
}

/// Workers and checks are kept to the list, and the log of an attempt has the line to type.
#[test]
fn a_loop_keeps_to_the_list_and_says_what_to_type() {
    if !kinds().contains(&Kind::Bwrap) {
        return;
    }
    let (server, other) = (Greeter::at(ELSEWHERE), Greeter::at(ELSEWHERE));
    let (open, closed) = (format!("{ELSEWHERE}:{}", server.port), format!("{ELSEWHERE}:{}", other.port));
    let reach = format!("curl -sSf http://{open}/ && ! curl -sSf http://{closed}/");
    let repo = repo(Kind::Bwrap, &format!("{open:?}"), &format!("{reach} && touch one"));
    let said = repo.run();
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let told = repo.read(".claude/aot/output/A1-1.txt");
    let line = format!("`network = [\"{open}\", \"{closed}\"]` under `[cage]` in aot.toml");
    assert!(told.contains(&line), "{told}");

    let wants = format!("curl -sSf http://{closed}/");
    repo.plan(&Plan { base_case: &check(&wants), ..Plan::default() });
    let looked = repo.aot(&["verify", "--json"]);
    assert!(looked.out.contains(&line.replace('"', "\\\"")), "{}{}", looked.out, looked.err);
    repo.plan(&Plan { base_case: &check(&reach), ..Plan::default() });
    let looked = repo.aot(&["verify", "--json"]);
    assert_eq!(looked.exit, 0, "{}{}", looked.out, looked.err);
    assert_eq!(other.heard(), [""; 0]);
}

#[test]
fn a_loop_whose_list_nobody_can_keep_does_not_start() {
    for kind in [Kind::Landlock, Kind::None] {
        let repo = repo(kind, "\"example.org\"", "touch one");
        let said = repo.aot(&["run"]);
        assert_ne!(said.exit, 0);
        for part in ["landlock knows ports, not hosts", "install bubblewrap"] {
            assert!(said.err.contains(part), "{kind}: {}", said.err);
        }
        assert!(!repo.path("one").exists());
    }
}
