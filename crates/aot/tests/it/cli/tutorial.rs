//! The tutorial works as written: every command of its console blocks, in order, in one shell.

use crate::documents::{commands, said};

#[test]
fn every_command_of_the_tutorial_works() {
    let tutorial = include_str!("../../../../../docs/tutorial.md");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = said(&commands(tutorial), folder.path(), folder.path());
    for expected in ["the check is red now", "counting switches to A2", "DONE  all checks pass"] {
        assert!(text.contains(expected), "`{expected}` is missing:\n{text}");
    }
}
