//! The hash of a tree: the same for the same content, another for another.

use aot_runner::process::Guard;
use aot_runner::tree::{Project as Paths, Tree};

use super::kit::Project;

fn tree(project: &Project) -> Tree {
    let guard = Guard::new(env!("CARGO_BIN_EXE_aot").into());
    let paths = Paths {
        root: project.root(),
        state: project.path(".claude/aot-loop-state.md"),
        sidecar: project.path(".claude/aot"),
        cache: None,
        repository: aot_runner::tree::ProjectRepository::Searched,
    };
    Tree::of(&paths, &guard).expect("files can be read")
}

#[test]
fn in_git_the_content_counts_and_nothing_else() {
    let project = Project::in_git("    {type: command, value: \"true\"}");
    project.write(".gitignore", "built/\n");
    project.write("a", "one");
    project.write("deep/b", "two");
    std::os::unix::fs::symlink("a", project.path("link")).expect("a link");
    let first = tree(&project);
    let hash = || tree(&project).hash().to_owned();
    assert_eq!(first.hash(), hash());
    project.write(".claude/aot/journal.jsonl", "x");
    project.write(".claude/aot-loop-state.md", "x");
    project.write("built/c", "x");
    assert_eq!(first.hash(), hash(), "ours and what is ignored do not count");
    project.git(&["add", "-A"]);
    assert_eq!(first.hash(), hash(), "nor does the index");
    project.git(&["commit", "-qm", "x"]);
    assert_eq!(first.hash(), hash(), "nor does a commit");
    project.write("a", "three");
    assert_eq!(first.changed(&tree(&project)), ["a"]);
    project.write("a", "one");
    assert_eq!(first.hash(), hash());
    std::fs::remove_file(project.path("deep/b")).expect("it is there");
    project.write("new\nname", "");
    std::fs::remove_file(project.path("link")).expect("it is there");
    std::os::unix::fs::symlink("deep", project.path("link")).expect("a link");
    assert_eq!(first.changed(&tree(&project)), ["deep/b", "link", "new\nname"]);
    let other = tree(&project);
    project.git(&["add", "-A"]);
    project.git(&["commit", "-qm", "y"]);
    assert_eq!(other.changed(&tree(&project)), ["new\nname"], "only odd names are hashed in another way");
    let before = tree(&project);
    std::fs::set_permissions(project.path("a"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    assert_eq!(before.changed(&tree(&project)), ["a"]);
}

#[test]
fn outside_git_the_folder_counts() {
    let project = Project::with("    {type: command, value: \"true\"}");
    project.write("a", "one");
    project.write("deep/b", "two");
    let first = tree(&project);
    project.write(".claude/aot/journal.jsonl", "x");
    assert_eq!(first.hash(), tree(&project).hash());
    project.write("deep/c", "three");
    assert_eq!(first.changed(&tree(&project)), ["deep/c"]);
    assert_eq!(first.paths().collect::<Vec<_>>(), ["a", "deep/b"]);
}
