//! Real agents whose network is a list of hosts, or off: they reach their model through the proxy, and nothing else.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aot_runner::process::Guard;
use aot_runner::process::cage::{Choice, Kind, find};
use scripted_model::{Rule, Script};

use crate::repo::{Plan, Repo};
use crate::scene::{Scene, atom, file, is_here, is_there, solved};

/// An address that no variable exempts from the proxy. What comes there is passed on to the model.
fn beside(model: &str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.2:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it has one"));
    let model = model.trim_start_matches("http://").to_owned();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            let there = TcpStream::connect(&model).expect("the model is here");
            let (client, there) = (Arc::new(client), Arc::new(there));
            for (from, to) in [(Arc::clone(&client), Arc::clone(&there)), (there, client)] {
                std::thread::spawn(move || {
                    // Either side may end it.
                    let _ = std::io::copy(&mut &*from, &mut &*to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (url, count)
}

fn bwrap_is_here() -> bool {
    let guard = Guard::new(env!("CARGO_BIN_EXE_aot").into());
    let scratch = tempfile::tempdir().expect("a folder");
    find(&guard, Choice::Only(Kind::Bwrap), scratch.path()).as_wanted().is_ok()
}

/// What the settings say of the network.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// An empty list: where its model is, the agent's variables say.
    Nothing,
    /// A list with its model, because the agent has settings of its own for that.
    Model,
    Off,
}

fn works(agent: &str, program: &str, wanted: Wanted) {
    if !is_here(program) || !bwrap_is_here() {
        return;
    }
    let other = TcpListener::bind("127.0.0.2:0").expect("a port");
    other.set_nonblocking(true).expect("it is ours");
    let closed = other.local_addr().expect("it has one").to_string();
    let attack = format!("curl -sS http://{closed}/; curl -sS --noproxy '*' http://{closed}/; true");
    let script = Script::new().rule(
        Rule::on("solve A1").write("a.txt", "made").run(&attack).answer(solved("a.txt is made", &["a.txt"])),
    );
    let atoms = atom("A1", "", &file("a.txt"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() }, script);
    let (url, count) = beside(&scene.model.url());
    scene.at(&url);
    let network = match wanted {
        Wanted::Nothing => "[]".to_owned(),
        Wanted::Model => format!("[{:?}]", url.trim_start_matches("http://")),
        Wanted::Off => "\"off\"".to_owned(),
    };
    scene.settings(&format!("[cage]\nkind = \"bwrap\"\nnetwork = {network}\n"));
    let said = scene.run(agent);
    assert_eq!(said.exit, 0, "{}{}\n{}", said.out, said.err, scene.transcripts());
    assert_eq!(scene.repo.landed("main"), "A1");
    assert!(count.load(Ordering::Relaxed) > 0, "it asked its model through the proxy");
    assert!(other.accept().is_err(), "it reached a host that is not on the list");
    let told = scene.transcripts();
    assert!(
        told.contains(&format!("kept it from reaching {closed}; if it may, write `network = [")),
        "{told}"
    );
    assert!(told.contains("under `[cage]` in aot.toml"), "{told}");
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

#[test]
fn claude_works_through_the_proxy() {
    works("claude", "claude", Wanted::Nothing);
}

#[test]
fn claude_works_without_a_network() {
    works("claude", "claude", Wanted::Off);
}

#[test]
fn gemini_works_without_a_network() {
    works("gemini", "gemini", Wanted::Off);
}

/// Landlock cannot leave an agent its model alone. What is solved by commands needs no agent, and is.
#[test]
fn without_a_network_no_agent_starts_under_landlock() {
    let started = |atoms: &str, agent: &[&str]| {
        let repo = Repo::with(&Plan { atoms, base_case: &is_there("a.txt"), ..Plan::default() });
        repo.write("agent.sh", "#!/bin/sh\ntouch ../asked\n");
        repo.write("../config/aot/aot.toml", "[cage]\nkind = \"landlock\"\nnetwork = \"off\"\n");
        let said = repo.aot(&[&["run"], agent].concat());
        assert!(!repo.path("../asked").exists());
        said
    };
    let said = started(&atom("A1", "", &file("a.txt")), &["--agent", "acp:sh agent.sh"]);
    assert_ne!(said.exit, 0);
    for part in ["landlock knows ports, not hosts", "install bubblewrap"] {
        assert!(said.err.contains(part), "{}", said.err);
    }
    let said = started(&crate::repo::atom("A1", "", "echo > a.txt"), &[]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
}

#[test]
fn codex_works_through_the_proxy() {
    works("codex", "codex", Wanted::Model);
}

#[test]
fn gemini_works_through_the_proxy() {
    works("gemini", "gemini", Wanted::Nothing);
}

#[test]
fn opencode_works_through_the_proxy() {
    works("opencode", "opencode", Wanted::Model);
}
