//! The plugin on the disk: whole, valid to the real client, found by it, and gone when it is taken away.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use scripted_model::Script;

use super::kit::{Scene, atom, claude_is_here, main_on, plugin};
use crate::repo::{Plan, Repo};

fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder).expect("below").display().to_string()),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn everything_in_the_folder_is_in_the_program() {
    let mut written = files(plugin());
    written.retain(|path| path != "bin/aot");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin");
    assert_eq!(written, files(&source));
    for path in written {
        let same =
            fs::read(plugin().join(&path)).expect("written") == fs::read(source.join(&path)).expect("there");
        assert!(same, "{path}");
    }
}

#[test]
fn no_prompt_asks_a_model_to_edit_the_state_file() {
    for path in files(plugin()).into_iter().filter(|path| path.ends_with(".md")) {
        let text = fs::read_to_string(plugin().join(&path)).expect("a prompt");
        assert!(text.contains("aot"), "{path} teaches no verb");
        let tools =
            text.lines().find(|line| line.starts_with("tools:") || line.starts_with("allowed-tools:"));
        let tools = tools.unwrap_or_default();
        assert!(!tools.contains("Write") && !tools.contains("Edit"), "{path}: {tools}");
        assert!(text.len() < 2600, "{path} has {} bytes; every one is paid for on every use", text.len());
    }
}

#[test]
fn the_real_client_finds_it_valid_without_warnings() {
    if !claude_is_here() {
        return;
    }
    let scene = Scene::new(&Plan::default(), |_| Script::new());
    let folder = plugin().to_str().expect("plain");
    let output = scene.client(&["plugin", "validate", folder]).output().expect("it starts");
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("Validation passed"), "{text}");
    assert!(!text.to_lowercase().contains("warning"), "{text}");
}

#[test]
fn installed_for_a_user_it_works_and_uninstalled_it_leaves_nothing() {
    let repo = Repo::with(&Plan::default());
    let home = repo.path("../home/.claude");
    let data = repo.path("../home/data");
    let aot = |words: &[&str]| {
        let mut command = repo.command(words);
        command.env("CLAUDE_CONFIG_DIR", &home).env("XDG_DATA_HOME", &data);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    aot(&["plugin", "install"]);
    assert!(home.join("skills/aot/bin/aot").exists());
    aot(&["plugin", "install", "--user"]);
    aot(&["plugin", "uninstall"]);
    assert_eq!(files(&repo.path("../home")), [""; 0]);
}

#[test]
fn installed_for_a_user_the_real_client_asks_its_hooks() {
    if !claude_is_here() {
        return;
    }
    let scene = Scene::new(&Plan::default(), |_| {
        Script::new().rule(main_on("Hello").run("aot status").say("That was all."))
    });
    let mut command = scene.repo.command(&["plugin", "install"]);
    command.env("CLAUDE_CONFIG_DIR", scene.repo.path("../home/.claude"));
    assert!(command.output().expect("it starts").status.success());
    let words = [
        "-p",
        "Hello",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
    ];
    let output = scene.client(&words).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(scene.was_told("There is an aot loop in this folder"), "{text}\n{}", scene.told());
    assert!(scene.was_told("Let the numbers be there"), "the verb is on the path");
}

#[test]
fn installed_for_a_project_it_is_registered_and_taken_away() {
    if !claude_is_here() {
        return;
    }
    let scene = Scene::new(&Plan::default(), |_| Script::new());
    let aot = |words: &[&str]| {
        let mut command = scene.repo.command(words);
        let client = scene.client(&[]);
        command.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("XDG_DATA_HOME", scene.repo.path("../data"));
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    aot(&["plugin", "install", "--project"]);
    assert!(scene.repo.read(".claude/settings.json").contains("aot@aot"));
    aot(&["plugin", "uninstall", "--project"]);
    assert!(!scene.repo.path(".claude/settings.json").exists());
    assert_eq!(files(&scene.repo.path("../data")), [""; 0]);
    let left = files(&scene.repo.path("../home/.claude/plugins/cache"));
    assert_eq!(left, [""; 0]);
}

#[test]
fn two_projects_do_not_take_each_others_marketplace_away() {
    if !claude_is_here() {
        return;
    }
    let scene = Scene::new(&Plan::default(), |_| Script::new());
    let other = scene.repo.path("../other");
    fs::create_dir_all(&other).expect("a folder");
    let aot = |folder: &Path, words: &[&str]| {
        let mut command = scene.repo.command(words);
        let client = scene.client(&[]);
        command.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("XDG_DATA_HOME", scene.repo.path("../data")).current_dir(folder);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let listed = || {
        let mut client = scene.client(&["plugin", "marketplace", "list"]);
        String::from_utf8_lossy(&client.output().expect("it starts").stdout).into_owned()
    };
    aot(&scene.repo.path("."), &["plugin", "install", "--project"]);
    aot(&other, &["plugin", "install", "--project"]);
    aot(&other, &["plugin", "uninstall", "--project"]);
    assert!(scene.repo.path("../data/aot/market/aot/bin/aot").exists(), "the first project uses it still");
    assert!(scene.repo.read(".claude/settings.json").contains("aot@aot"));
    assert!(!other.join(".claude/settings.json").exists());
    assert!(listed().contains("aot"), "{}", listed());
    aot(&scene.repo.path("."), &["plugin", "uninstall", "--project"]);
    assert_eq!(files(&scene.repo.path("../data")), [""; 0]);
}

#[test]
fn the_status_line_is_offered_and_taken_away() {
    let repo = Repo::with(&Plan::default());
    let home = repo.path("../home/.claude");
    let aot = |words: &[&str]| {
        let mut command = repo.command(words);
        command.env("CLAUDE_CONFIG_DIR", &home).env("XDG_DATA_HOME", repo.path("../home/data"));
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let settings = || fs::read_to_string(home.join("settings.json")).unwrap_or_default();
    aot(&["plugin", "install"]);
    assert_eq!(settings(), "", "only who asks for it gets it");
    aot(&["plugin", "install", "--statusline"]);
    assert!(
        settings().contains("bin/aot' statusline") && settings().contains("refreshInterval"),
        "{}",
        settings()
    );
    aot(&["plugin", "uninstall"]);
    assert_eq!(files(&repo.path("../home")), [""; 0]);
    let own = "{\"statusLine\": {\"type\": \"command\", \"command\": \"date\"}}";
    fs::write(home.join("settings.json"), own).expect("a file");
    assert!(aot(&["plugin", "install", "--statusline"]).contains("which stays"));
    aot(&["plugin", "uninstall"]);
    assert_eq!(settings(), own, "the user's own is as it was");
}

#[test]
fn the_status_line_is_a_line_and_never_fails() {
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", ""), ..Plan::default() });
    assert_eq!(repo.aot(&["statusline"]).out, "aot: agreed, not begun · 0/1 resolved\n");
    repo.step(&["run", "--session"]);
    repo.step(&["atom", "start", "A1"]);
    let line = repo.aot(&["statusline"]).out;
    assert!(line.starts_with("aot: iteration 1/20 · 0/1 resolved · A1 at work · ≤"), "{line}");
    repo.write(crate::repo::STATE, "nonsense");
    let said = repo.aot(&["statusline"]);
    assert_eq!((said.exit, said.out.as_str()), (0, ""), "{}", said.err);
    fs::remove_dir_all(repo.path(".claude")).expect("it is there");
    let said = repo.aot(&["statusline"]);
    assert_eq!((said.exit, said.out.as_str()), (0, ""), "{}", said.err);
}

/// Whatever takes the place of the client has limits; one that prints without end shows it soonest.
#[test]
fn a_client_that_never_ends_is_ended() {
    let repo = Repo::with(&Plan::default());
    repo.write("../bin/claude", "#!/bin/sh\nexec yes\n");
    let program = repo.path("../bin/claude");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut command = repo.command(&["plugin", "install", "--project"]);
    command.env("XDG_DATA_HOME", repo.path("../data")).env("CLAUDE_CONFIG_DIR", repo.path("../home"));
    command.env("PATH", format!("{}:/usr/bin:/bin", repo.path("../bin").display()));
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("it printed more than"), "{said}");
}

/// Commands that a text teaches, each as its words: in code, beginning with the program's name.
fn taught(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ");
    let blocks = text.lines().map(str::trim).filter(|line| line.starts_with("aot ")).map(str::to_owned);
    let spans = text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("aot "));
    let spans = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
    blocks.chain(spans).map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

#[test]
fn prompts_teach_verbs_and_flags_that_exist() {
    let repo = Repo::with(&Plan::default());
    let mut seen = 0;
    for path in files(plugin()).into_iter().filter(|path| path.ends_with(".md")) {
        let text = fs::read_to_string(plugin().join(&path)).expect("a prompt");
        for words in taught(&text) {
            let plain = |word: &&String| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let verb: Vec<&str> = words[1..].iter().take_while(plain).take(2).map(String::as_str).collect();
            let verb: Vec<&str> = match verb.as_slice() {
                [one, ..] if !["atom", "or", "plugin"].contains(one) => vec![*one],
                _ => verb,
            };
            let help = repo.aot(&[verb.as_slice(), &["--help"]].concat());
            assert_eq!(help.exit, 0, "{path}: {words:?}: {}", help.err);
            for flag in words.iter().filter(|word| word.starts_with("--")) {
                let flag = flag.trim_end_matches([',', '.', ';']);
                assert!(help.out.contains(flag), "{path}: {words:?}: there is no {flag}");
            }
            seen += 1;
        }
    }
    assert!(seen > 40, "only {seen} commands were found");
}

#[test]
fn it_may_write_itself_anew() {
    let place = tempfile::tempdir().expect("a folder");
    let write = |program: &Path| {
        let mut command = std::process::Command::new(program);
        command.args(["plugin", "path"]).env("XDG_DATA_HOME", place.path()).output().expect("it starts")
    };
    assert!(write(Path::new(env!("CARGO_BIN_EXE_aot"))).status.success());
    let folder = place.path().join("aot/plugin");
    let before = files(&folder);
    let again = write(&folder.join("bin/aot"));
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(files(&folder), before);
    assert_eq!(
        fs::read_dir(place.path().join("aot")).expect("there").count(),
        1,
        "nothing is left beside it"
    );
}
