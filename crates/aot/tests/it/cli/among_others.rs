//! The state file among others: many processes at once, kills, editors that know nothing of the lock.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use aot_testkit::fixtures::{COMPLETE, INITIAL_LEGACY};
use serde_json::json;

use super::project::Project;

fn count(variable: &str, ordinary: usize) -> usize {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(ordinary)
}

#[test]
fn four_processes_at_once_lose_no_update() {
    let each = count("AOT_UPDATES", 60);
    let project = Project::with(INITIAL_LEGACY);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let project = &project;
            scope.spawn(move || {
                for update in 0..each {
                    let id = format!("W{writer}_{update}");
                    let ran = project.run(&["atom", "add", "One more", "--id", &id]);
                    assert_eq!(ran.code, 0, "{}", ran.err);
                }
            });
        }
    });
    let state = project.json(&["show"]);
    assert_eq!(state["atoms"].as_array().expect("a list").len(), 1 + 4 * each);
    assert_eq!(state["control"]["revision"], json!(4 * each));
}

#[test]
fn a_writer_killed_at_any_moment_leaves_the_old_or_the_new_file() {
    let kills = count("AOT_KILLS", 60);
    let project = Project::with(COMPLETE);
    let mut atoms = 5;
    let mut died_after = 0;
    for round in 0..kills {
        let mut child = project
            .command(&["atom", "add", "One more"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        // From before the program has begun to after it has ended.
        std::thread::sleep(Duration::from_micros((round as u64 * 7_919) % 9_000));
        let _ = child.kill();
        child.wait().expect("it was started");
        let state = project.json(&["show"]);
        let now = state["atoms"].as_array().expect("a list").len();
        assert!(now == atoms || now == atoms + 1, "from {atoms} to {now}");
        died_after += now - atoms;
        atoms = now;
    }
    println!("{died_after} of {kills} had written before they died");
    project.json(&["atom", "add", "The last one"]);
    let left: Vec<String> = fs::read_dir(project.root().join(".claude"))
        .expect("it is there")
        .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left.len(), 2, "the state file and its folder, and nothing else: {left:?}");
}

#[test]
fn an_edit_of_a_stale_copy_is_made_one_with_ours() {
    let project = Project::with(INITIAL_LEGACY);
    project.json(&["atom", "add", "Second"]);
    let stale = project.text();
    project.json(&["atom", "add", "Third"]);
    project.json(&["atom", "start", "A1"]);
    // An editor that loaded the file before saves over what came after.
    project.write(
        &stale
            .replace("# Original Prompt", "# What was asked")
            .replace("max_iterations: 20", "max_iterations: 30"),
    );
    let ran = project.run(&["atom", "add", "Fourth"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("had been saved over"), "{}", ran.err);
    let state = project.json(&["show"]);
    let ids: Vec<&str> =
        state["atoms"].as_array().expect("a list").iter().map(|a| a["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["A1", "A2", "A3", "A4"]);
    assert_eq!(state["atoms"][0]["status"], "in_progress");
    assert_eq!(state["objective"]["constraints"]["max_iterations"], json!(30));
    assert!(state["body"].as_str().expect("text").contains("What was asked"));
    assert_eq!(state["control"]["revision"], json!(4));
}

#[test]
fn an_edit_of_a_copy_from_before_our_first_write_is_made_one_with_ours() {
    let project = Project::with(INITIAL_LEGACY);
    project.json(&["atom", "add", "Second"]);
    project.write(&INITIAL_LEGACY.replace("Ship it", "Ship it soon"));
    project.json(&["atom", "add", "Third"]);
    let state = project.json(&["show"]);
    assert_eq!(state["atoms"].as_array().expect("a list").len(), 3);
    assert_eq!(state["objective"]["goal"], "Ship it soon");
}

#[test]
fn an_earlier_text_put_back_whole_is_taken_as_meant() {
    let project = Project::with(INITIAL_LEGACY);
    project.json(&["atom", "add", "Second"]);
    project.json(&["atom", "add", "Third"]);
    project.write(INITIAL_LEGACY);
    let ran = project.run(&["atom", "add", "Another second"]);
    assert!(ran.err.contains("had been put back"), "{}", ran.err);
    let state = project.json(&["show"]);
    assert_eq!(state["atoms"].as_array().expect("a list").len(), 2);
    assert_eq!(state["atoms"][1]["description"], "Another second");
    assert_eq!(state["control"]["revision"], json!(3));
}

#[test]
fn edits_that_exclude_each_other_are_a_conflict_with_both_texts_kept() {
    let project = Project::with(COMPLETE);
    project.json(&["atom", "add", "Sixth"]);
    let stale = project.text();
    project.json(&["atom", "start", "A6"]);
    // The stale copy has lost the very atom that was started since.
    let from = stale.find("  - id: A6").expect("it was added");
    let to = stale.find("# === Decompositions").expect("it follows");
    let theirs = format!("{}\n{}", &stale[..from], &stale[to..]);
    project.write(&theirs);
    let ran = project.run(&["atom", "add", "Seventh", "--json"]);
    assert_eq!((ran.code, ran.object()["error"]["code"].as_str()), (4, Some("conflict")), "{}", ran.err);
    assert_eq!(project.text(), theirs);
    let kept = fs::read_dir(project.root().join(".claude/aot/conflicts")).expect("both are kept").next();
    let kept = kept.expect("one conflict").expect("readable").path();
    assert_eq!(fs::read_to_string(kept.join("theirs.md")).expect("kept"), theirs);
    assert!(fs::read_to_string(kept.join("ours.md")).expect("kept").contains("A6"));
    // It is told once; from there the file stands as it is.
    assert_eq!(project.run(&["atom", "add", "Seventh"]).code, 0);
}

#[test]
fn an_editor_that_ignores_the_lock_and_our_writers_lose_nothing() {
    let rounds = count("AOT_UPDATES", 40);
    let project = Project::with(INITIAL_LEGACY);
    let mut edits = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for update in 0..rounds {
                let id = format!("W{update}");
                let ran = project.run(&["atom", "add", "One more", "--id", &id]);
                assert_eq!(ran.code, 0, "{}", ran.err);
            }
        });
        // Reads, thinks, and saves by rename, whatever happened in between.
        while !writer.is_finished() {
            let text = project.text();
            std::thread::sleep(Duration::from_millis(3));
            let changed = format!("{text}\nnote {edits}\n");
            let aside = project.root().join(".claude/editing");
            fs::write(&aside, changed).expect("it can be written");
            fs::rename(&aside, project.state()).expect("it can be renamed");
            edits += 1;
            std::thread::sleep(Duration::from_millis(30));
        }
    });
    project.json(&["atom", "add", "The last one"]);
    let state = project.json(&["show"]);
    let ids: Vec<&str> =
        state["atoms"].as_array().expect("a list").iter().map(|a| a["id"].as_str().expect("an id")).collect();
    let missing: Vec<usize> =
        (0..rounds).filter(|update| !ids.contains(&format!("W{update}").as_str())).collect();
    let kept = fs::read_dir(project.root().join(".claude/aot/conflicts"))
        .map(|entries| entries.count())
        .unwrap_or(0);
    assert!(missing.is_empty() || kept > 0, "lost without a word: {missing:?}");
    let notes = state["body"].as_str().expect("text").matches("note ").count();
    println!(
        "{notes} notes of the editor, {} of {rounds} updates, {kept} conflicts kept",
        rounds - missing.len()
    );
    assert!(notes == edits || kept > 0, "{notes} of {edits} notes are there, and nothing was kept aside");
}
