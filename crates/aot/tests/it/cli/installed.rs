//! What is installed: the version, completions, manual pages, and the packages, installed where nothing of the toolchain is.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::project::Project;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn is_here(program: &str) -> bool {
    let is_here = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|folder| folder.join(program).exists());
    if !is_here {
        assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "{program} is not here");
        eprintln!("!!! NOT TESTED WITH {program}: it is not here !!!");
    }
    is_here
}

#[test]
fn the_version_names_the_commit() {
    let project = Project::empty();
    let said = project.run(&["--version", "--json"]).object();
    assert_eq!(said["version"], env!("CARGO_PKG_VERSION"));
    let short = said["commit"].as_str().and_then(|commit| commit.get(..9));
    let words: Vec<&str> = short.into_iter().chain(said["commit_date"].as_str()).collect();
    let rest = if words.is_empty() { String::new() } else { format!(" ({})", words.join(" ")) };
    assert_eq!(project.run(&["--version"]).out, format!("aot {}{rest}\n", env!("CARGO_PKG_VERSION")));
}

/// All that carries a version carries the same.
#[test]
fn the_plugin_has_the_version_of_the_program() {
    let manifest = fs::read(Path::new(ROOT).join("plugin/.claude-plugin/plugin.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("an object");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
}

/// The build script, as cargo starts it, in a folder and with these variables.
fn build_script(script: &Path, folder: &Path, variables: &[(&str, &str)]) -> String {
    let output = Command::new(script)
        .current_dir(folder)
        .env_clear()
        .env("CARGO_PKG_VERSION", "1.2.3")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GIT_CEILING_DIRECTORIES", script.parent().expect("it has one"))
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

#[test]
fn the_build_script_asks_git_once_and_does_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let built = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "-o"])
        .arg(&script)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs"))
        .output()
        .expect("rustc is here");
    assert!(built.status.success(), "{}", text(&built));

    let crate_folder = folder.path().join("repository/crate");
    fs::create_dir_all(&crate_folder).expect("folders");
    fs::write(crate_folder.join("build.rs"), "").expect("a file");
    let without = build_script(&script, &crate_folder, &[]);
    assert!(without.contains("AOT_VERSION=1.2.3\n") && without.contains("AOT_COMMIT=\n"), "{without}");
    let no_git = build_script(&script, &crate_folder, &[("PATH", "/nowhere")]);
    assert!(no_git.contains("AOT_VERSION=1.2.3\n"), "{no_git}");
    let given = build_script(
        &script,
        &crate_folder,
        &[("AOT_COMMIT", "0123456789ab"), ("AOT_COMMIT_DATE", "2026-01-02")],
    );
    assert!(given.contains("AOT_VERSION=1.2.3 (012345678 2026-01-02)\n"), "{given}");

    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(crate_folder.parent().expect("a folder"))
            .args(words)
            .env("HOME", folder.path());
        let output = command.env("GIT_CONFIG_NOSYSTEM", "1").output().expect("git is here");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    let untracked = build_script(&script, &crate_folder, &[]);
    assert!(untracked.contains("AOT_VERSION=1.2.3\n"), "an archive in another repository: {untracked}");
    git(&["add", "."]);
    git(&["-c", "user.name=Ada", "-c", "user.email=a@b", "commit", "-qm", "One"]);
    let commit = git(&["rev-parse", "HEAD"]);
    for (arrangement, watched_file) in [
        (&["status"][..], "refs/heads/main"),
        (&["pack-refs", "--all"], "packed-refs"),
        (&["checkout", "-q", "--detach"], "HEAD"),
    ] {
        git(arrangement);
        let said = build_script(&script, &crate_folder, &[]);
        assert!(said.contains(&format!("AOT_COMMIT={commit}\n")), "{arrangement:?}: {said}");
        let watched = said.lines().filter_map(|line| line.strip_prefix("cargo::rerun-if-changed="));
        let watched: Vec<&str> = watched.collect();
        assert!(
            watched.last().is_some_and(|path| path.ends_with(watched_file)),
            "{arrangement:?}: {watched:?}"
        );
        let missing: Vec<_> = watched.iter().filter(|path| !crate_folder.join(path).exists()).collect();
        assert!(missing.is_empty(), "cargo would build anew each time: {missing:?}");
    }
}

#[test]
fn completions_are_scripts_that_the_shells_read() {
    let project = Project::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = project.run(&["completions", shell]);
        assert_eq!(said.code, 0, "{}", said.err);
        for verb in ["align", "run", "redirect", "completions"] {
            assert!(said.out.contains(verb), "no {verb} for {shell}");
        }
        assert!(!said.out.contains("--tied"), "hidden flags stay hidden in {shell}");
        assert_eq!(project.json(&["completions", shell])["script"], said.out.as_str());
        if ["bash", "zsh", "fish"].contains(&shell)
            && (shell == "bash" || Path::new("/usr/bin").join(shell).exists())
        {
            let script = project.root().join(shell);
            fs::write(&script, &said.out).expect("a file");
            let read = Command::new(shell).arg("-n").arg(&script).output().expect("it starts");
            assert!(read.status.success(), "{shell}: {}", text(&read));
        }
    }
    let script = "source ./bash; COMP_WORDS=(aot re); COMP_CWORD=1; _aot aot re aot; echo ${COMPREPLY[*]}";
    let offered =
        Command::new("bash").args(["-c", script]).current_dir(project.root()).output().expect("bash");
    let offered = String::from_utf8_lossy(&offered.stdout).into_owned();
    assert_eq!(offered.split_whitespace().collect::<Vec<_>>(), ["ready", "report", "redirect"]);
    assert_eq!(project.run(&["completions", "sh"]).code, 2);
}

#[test]
fn every_verb_has_a_manual_page() {
    let project = Project::empty();
    project.json(&["man", "man"]);
    let page = |name: &str| fs::read_to_string(project.root().join("man").join(name)).unwrap_or_default();
    assert!(page("aot.1").contains("aot\\-run(1)"), "{}", page("aot.1"));
    assert!(page("aot-run.1").contains("dry\\-run"), "{}", page("aot-run.1"));
    assert!(page("aot-atom-add.1").contains("depends\\-on"));
    assert_eq!(page("aot-call.1"), "", "hidden verbs have none");
}

/// `packages/build.sh` with the program that is tested.
fn packed(folder: &Path, kind: &str) -> PathBuf {
    let out = folder.join("packages");
    let output = Command::new(Path::new(ROOT).join("packages/build.sh"))
        .args(["--binary", env!("CARGO_BIN_EXE_aot"), "--out"])
        .arg(&out)
        .arg(kind)
        // A package that is unpacked at once need not be small.
        .env("DPKG_DEB_COMPRESSOR_TYPE", "none")
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", text(&output));
    let sums = fs::read_dir(&out).expect("a folder").flatten().map(|entry| entry.path());
    let sums = sums.filter(|path| path.to_string_lossy().contains("SHA256SUMS")).collect::<Vec<_>>();
    let right =
        Command::new("sha256sum").arg("-c").args(&sums).current_dir(&out).output().expect("it starts");
    assert!(sums.len() == 1 && right.status.success(), "{sums:?} {}", text(&right));
    out
}

/// A folder with all programs of the system, but for those of Rust.
fn programs_without_rust(folder: &Path) -> PathBuf {
    let programs = folder.join("programs");
    fs::create_dir(&programs).expect("a folder");
    for from in ["/usr/local/bin", "/usr/bin", "/bin"] {
        for entry in fs::read_dir(from).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_rust =
                ["cargo", "rust", "aot"].iter().any(|part| name.to_string_lossy().starts_with(part));
            if !is_rust {
                // The first one of a name counts.
                let _ = symlink(entry.path(), programs.join(name));
            }
        }
    }
    programs
}

/// A new user's machine: an empty home, npm, git, and no Rust.
#[test]
fn the_npm_package_installs_without_scripts_or_downloads_and_the_demo_is_done() {
    if !is_here("npm") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let packages = packed(folder.path(), "npm");
    let tarballs = fs::read_dir(&packages).expect("a folder").flatten().map(|entry| entry.path());
    let tarballs: Vec<PathBuf> =
        tarballs.filter(|path| path.extension().is_some_and(|end| end == "tgz")).collect();
    assert_eq!(tarballs.len(), 2, "{tarballs:?}");
    let (home, prefix) = (folder.path().join("home"), folder.path().join("prefix"));
    fs::create_dir_all(&home).expect("a folder");
    let path =
        std::env::join_paths([prefix.join("bin"), programs_without_rust(folder.path())]).expect("plain");
    let start = |program: &str, words: &[&str]| {
        let mut command = Command::new("env");
        command
            .arg("-i")
            .arg(format!("PATH={}", path.to_string_lossy()))
            .arg(format!("HOME={}", home.display()));
        command.arg("LC_ALL=C.UTF-8").arg(program).args(words).current_dir(&home);
        command
    };
    let no_rust = start("sh", &["-c", "command -v cargo rustc aot"]).output().expect("it starts");
    assert_eq!(text(&no_rust), "", "nothing of Rust, and no aot yet");
    let words = ["install", "-g", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"];
    let installed = start("npm", &words).arg(&prefix).args(&tarballs).output().expect("it starts");
    assert!(installed.status.success(), "{}", text(&installed));
    assert!(prefix.join("share/man/man1/aot-run.1").exists(), "npm links the manual pages");
    let demo = start("aot", &["demo"]).output().expect("it starts");
    assert!(demo.status.success() && text(&demo).contains("\nDONE  "), "{}", text(&demo));
    let refused = start("aot", &["status"]).output().expect("it starts");
    assert_eq!(refused.status.code(), Some(4), "exit codes come through: {}", text(&refused));
    let json = start("aot", &["--version", "--json"]).output().expect("it starts");
    let json: Value = serde_json::from_slice(&json.stdout).expect("one object");
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    // A signal to the wrapper ends the run as it would end the program itself.
    let align =
        ["align", "g", "--intent", "i", "--deliverable", "d", "--done", "d", "--file", "one", "--yes"];
    let atom = r#"{"description": "Never", "run": "sleep 1000"}"#;
    let aligned = start("aot", &align).args(["--atom", atom]).output().expect("it starts");
    assert!(aligned.status.success(), "{}", text(&aligned));
    let mut run = start("aot", &["run"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(run.stdout.take().expect("it was asked for")).lines().map_while(Result::ok);
    for line in lines {
        if line.contains("starts: Never") {
            let process = i32::try_from(run.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process(process, Signal::TERM).expect("it runs");
        }
    }
    assert_eq!(run.wait().expect("it ends").code(), Some(130));
    // Without the package for this system the wrapper says what is missing.
    let system = prefix.join("lib/node_modules/@aot-loop");
    fs::remove_dir_all(system).expect("it was installed");
    let lost = start("aot", &["demo"]).output().expect("it starts");
    assert!(lost.status.code() == Some(70) && text(&lost).contains("hint: "), "{}", text(&lost));
}

#[test]
fn the_debian_package_has_the_program_its_completions_and_its_manual() {
    if !is_here("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let packages = packed(folder.path(), "deb");
    let package = fs::read_dir(&packages).expect("a folder").flatten().map(|entry| entry.path());
    let package =
        package.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb")).expect("one");
    let root = folder.path().join("root");
    let unpacked = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root).output().expect("it starts");
    assert!(unpacked.status.success(), "{}", text(&unpacked));
    for file in [
        "usr/bin/aot",
        "usr/share/bash-completion/completions/aot",
        "usr/share/zsh/vendor-completions/_aot",
        "usr/share/fish/vendor_completions.d/aot.fish",
        "usr/share/man/man1/aot.1.gz",
        "usr/share/man/man1/aot-run.1.gz",
        "usr/share/doc/aot/copyright",
    ] {
        assert!(root.join(file).is_file(), "{file} is missing");
    }
    let mode = root.join("usr/bin/aot").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let version = Command::new(root.join("usr/bin/aot")).arg("--version").output().expect("it starts");
    assert!(text(&version).starts_with("aot "), "{}", text(&version));
    let fields = Command::new("dpkg-deb").args(["-f"]).arg(&package).output().expect("it starts");
    let fields = text(&fields);
    for field in ["Package: aot\n", concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n"), "git (>= 1:2.38)"]
    {
        assert!(fields.contains(field), "{field}: {fields}");
    }
}
