//! Instructions of the project that an agent does not read by itself: their text goes into its brief, named and bounded.

use std::path::Path;

use super::profile::Profile;
use crate::plain_file;

/// Bytes of one file that a brief carries.
const KEPT: usize = 16 << 10;

/// A longer file is no text for an agent.
const LONGEST: u64 = 1 << 20;

/// The brief with the instructions that the profile names, if there are any. A file is looked for where the agent works, then
/// in the project's own folder: what git does not track lies only there.
pub(super) fn with_brief(profile: &Profile, folder: &Path, project: &Path, brief: &str) -> Option<String> {
    let found = |name: &String| {
        let read = |place: &Path| plain_file::read(&place.join(name), LONGEST).ok();
        Some(section(name, &read(folder).or_else(|| read(project))?))
    };
    let told: String = profile.instructions.iter().filter_map(found).collect();
    (!told.is_empty()).then(|| told + brief)
}

fn section(name: &str, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let kept = &text[..text.floor_char_boundary(KEPT)];
    let cut = match text.len() - kept.len() {
        0 => String::new(),
        more => format!("\n\n[{more} more bytes are in {name}]"),
    };
    match kept.trim() {
        "" => String::new(),
        kept => format!("# Instructions of this project ({name})\n\n{kept}{cut}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_an_agent_does_not_read_stands_before_its_brief() {
        let dir = tempfile::tempdir().expect("a folder");
        let (tree, project) = (dir.path().join("tree"), dir.path().join("project"));
        fs::create_dir_all(&tree).expect("a folder");
        fs::create_dir_all(&project).expect("a folder");
        let profile = Profile { instructions: vec!["A.md".into(), "B.md".into()], ..Profile::default() };
        let told = || with_brief(&profile, &tree, &project, "Do it.");
        assert_eq!(told(), None);
        fs::write(project.join("A.md"), "Not tracked.\n").expect("a file");
        fs::write(tree.join("B.md"), "Of the tree.\n").expect("a file");
        fs::write(project.join("B.md"), "Of the checkout.\n").expect("a file");
        let expected = "# Instructions of this project (A.md)\n\nNot tracked.\n\n\
                        # Instructions of this project (B.md)\n\nOf the tree.\n\nDo it.";
        assert_eq!(told().as_deref(), Some(expected));
        fs::write(tree.join("B.md"), "ä".repeat(KEPT)).expect("a file");
        fs::remove_file(project.join("A.md")).expect("it was there");
        let long = told().expect("a text");
        assert!(long.contains("[16384 more bytes are in B.md]"), "{}", &long[long.len() - 80..]);
        std::os::unix::fs::symlink("/etc/passwd", project.join("A.md")).expect("a link");
        assert!(!told().expect("a text").contains("(A.md)"), "a link is not followed");
    }
}
