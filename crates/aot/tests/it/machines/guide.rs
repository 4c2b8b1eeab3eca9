//! The page of the guide works as written.

use std::net::TcpListener;

use super::{aot, server};
use crate::documents::{commands, root, said};

#[test]
fn the_loop_on_one_machine() {
    let Some(program) = server() else { return };
    let page = std::fs::read_to_string(root().join("docs/guide/machines.md")).expect("a page");
    let home = tempfile::tempdir().expect("a folder");
    // Other tests have servers, too: only the ports differ from what is written.
    let held = [0; 4].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
    let [ingress, admin, node, host] = held.map(|it| it.local_addr().expect("it listens").port());
    let ports = format!(
        "export RESTATE_INGRESS__BIND_ADDRESS=127.0.0.1:{ingress} RESTATE_ADMIN__BIND_ADDRESS=127.0.0.1:{admin} \
         RESTATE_BIND_ADDRESS=127.0.0.1:{node} RESTATE_ADVERTISED_ADDRESS=http://127.0.0.1:{node}/ \
         RESTATE_DISABLE_TELEMETRY=true PATH=\"{}:$PATH\"\ntrap 'kill $server $worker 2> /dev/null || true' EXIT\n",
        program.parent().expect("a folder").display()
    );
    let script = commands(&page).replace("9070", &admin.to_string());
    let listen = format!("--listen 127.0.0.1:{host} --name here");
    let told = said(&(ports + &script.replace("--name here", &listen)), home.path(), home.path());
    assert!(told.contains("\nDONE  "), "{told}");
    assert!(
        std::fs::read_to_string(home.path().join("worker.log")).is_ok_and(|log| log.contains("A1/1: done"))
    );
}

/// Flags that stand in the page's examples are flags of the program.
#[test]
fn its_flags_exist() {
    let page = std::fs::read_to_string(root().join("docs/guide/machines.md")).expect("a page");
    let joined = page.replace("\\\n", " ");
    let mut count = 0;
    for line in joined.lines().filter(|line| line.contains("aot ")) {
        let after = line.split("aot ").nth(1).unwrap_or_default();
        let Some(verb @ ("worker" | "hosts" | "run")) = after.split_whitespace().next() else { continue };
        let help = std::process::Command::new(aot()).args([verb, "--help"]).output().expect("it starts");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        for flag in after.split_whitespace().filter(|word| word.starts_with("--")) {
            let flag = flag.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
            assert!(help.contains(flag), "{verb} has no {flag}: {line}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}
