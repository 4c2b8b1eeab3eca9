//! Replays what fuzzing found worth keeping.

use std::path::Path;

use aot_testkit::fuzz;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files = 0;
    for file in std::fs::read_dir(&corpus).expect("the corpus is kept in the repository") {
        let path = file.expect("the corpus can be listed").path();
        run(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        files += 1;
    }
    assert!(files > 0, "{} is empty", corpus.display());
}

#[test]
fn every_kept_input_is_read_or_refused() {
    replay("read", fuzz::read);
}

#[test]
fn every_kept_edit_is_made_or_refused() {
    replay("edit", fuzz::edit);
}

#[test]
fn every_kept_call_of_an_agent_is_ruled_on() {
    replay("hook", fuzz::hook);
}

#[test]
fn every_kept_answer_of_an_agent_is_read_or_refused() {
    replay("answer", fuzz::answer);
}
