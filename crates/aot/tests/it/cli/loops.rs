//! `aot loops`: the loops of one user, from the entries in their own folder.

use serde_json::{Value, json};

use crate::repo::{Plan, Repo, STATE, atom};
use crate::scene::wait_until;

fn listed(repo: &Repo) -> Vec<Value> {
    let said = repo.aot(&["loops", "--json"]);
    let object: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!((said.exit, &object["success"]), (0, &json!(true)), "{said:?}");
    object["loops"].as_array().expect("a list").clone()
}

fn states(repo: &Repo) -> String {
    let told = listed(repo).into_iter().map(|entry| {
        let folder =
            entry["project"].as_str().expect("a path").rsplit('/').next().unwrap_or_default().to_owned();
        format!("{folder}:{}", entry["state"].as_str().expect("a word"))
    });
    told.collect::<Vec<_>>().join(" ")
}

#[test]
fn every_loop_that_was_driven_is_listed_until_its_file_is_gone() {
    let repo = Repo::with(&Plan::default());
    let none = repo.aot(&["loops"]);
    assert!(none.exit == 0 && none.out.starts_with("no loop has run here yet"), "{none:?}");
    // Looking at a loop does not list it.
    repo.aot(&["status"]);
    assert_eq!(states(&repo), "");
    assert_eq!(repo.run().exit, 0);
    assert_eq!(states(&repo), "project:completed");
    let repo = repo.at("../person");
    let base_case = "      - {item: \"It is nice\", check: {type: assertion, value: \"It is nice\"}}\n";
    repo.plan(&Plan { base_case, ..Plan::default() });
    assert_eq!(repo.run().exit, 17);
    let repo = repo.at("../sleeper");
    repo.plan(&Plan { atoms: &atom("A1", "", "sleep 600"), ..Plan::default() });
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    assert_eq!(states(&repo), "sleeper:running person:needs_person project:completed");
    let running = &listed(&repo)[0];
    assert_eq!(
        json!([running["pid"], running["goal"], running["iteration"], running["resolved"], running["atoms"]]),
        json!([live.child.id(), "Let the numbers be there", 1, 0, 1]),
        "{running}"
    );
    assert!(
        running["driver"]
            .as_str()
            .is_some_and(|driver| driver.starts_with(&format!("pid {} ", live.child.id())))
    );
    assert!(running["since"].as_str().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok()), "{running}");
    assert!(running["bound"]["seconds"].as_u64().is_some_and(|seconds| seconds > 0), "{running}");
    assert_eq!(listed(&repo)[1]["reason"].as_str().map(|why| why.contains("It is nice")), Some(true));
    let text = repo.aot(&["loops"]).out;
    assert!(text.starts_with("running       ~/sleeper\n"), "{text}");
    assert!(text.contains(&format!("driven by pid {}, for ", live.child.id())), "{text}");
    live.child.kill().expect("it is killed");
    let _ = live.end();
    wait_until("nobody drives it", || states(&repo).starts_with("person"));
    assert_eq!(states(&repo), "person:needs_person sleeper:no_driver project:completed");
    // What cannot be read is not hidden.
    repo.write(STATE, "---\nschema_version: [\n");
    assert_eq!(states(&repo), "person:needs_person sleeper:unreadable project:completed");
    std::fs::remove_file(repo.path(STATE)).expect("removed");
    assert_eq!(states(&repo), "person:needs_person project:completed");
    // The list is all that is lost with its folder.
    std::fs::remove_dir_all(repo.path("../.local/share/aot/loops")).expect("it is there");
    assert_eq!(states(&repo), "");
    let repo = repo.at("../person");
    assert_eq!(repo.aot(&["confirm", "It is nice"]).exit, 0);
    assert_eq!(repo.run().exit, 0);
    assert_eq!(states(&repo), "person:completed");
}

/// What a clone brings is no entry, and what a loop says is data.
#[test]
fn entries_come_from_the_users_own_folder_and_are_shown_as_text() {
    let repo = Repo::bare(&Plan { base_case: &crate::repo::check("true"), ..Plan::default() });
    repo.write(
        ".local/share/aot/loops/1.json",
        "{\"state\": \"/etc/passwd\", \"driven\": \"2026-01-01T00:00:00Z\"}",
    );
    assert_eq!(repo.run().exit, 0);
    repo.write(STATE, &repo.read(STATE).replace("Let the numbers be there", "\\e[31mred \\e]0;t\\a\\u202e"));
    let said = repo.aot(&["loops"]);
    assert!(
        said.exit == 0 && said.out.contains("red") && !said.out.contains(['\u{1b}', '\u{202e}']),
        "{said:?}"
    );
    assert_eq!(listed(&repo).len(), 1);
}
