//! What a project says about itself: the commands that test, lint and build it, and the folders that hold its tests. Reads
//! a few well-known files, runs nothing, and believes none of them: what is found is a suggestion.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use toml::Table;

/// So much of one file is read.
const MOST_BYTES: u64 = 256 << 10;
/// So many files of continuous integration are looked at.
const MOST_FILES: usize = 16;
/// So many commands are kept.
const MOST_COMMANDS: usize = 24;
/// A command longer than this is a script, and no suggestion.
const LONGEST: usize = 160;
/// So many names of the top folder are told.
const MOST_NAMES: usize = 60;

const TEST_FOLDERS: [&str; 6] = ["tests", "test", "spec", "__tests__", "e2e", "testdata"];

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Test,
    Lint,
    Build,
}

impl Purpose {
    pub fn word(self) -> &'static str {
        match self {
            Purpose::Test => "test",
            Purpose::Lint => "lint",
            Purpose::Build => "build",
        }
    }
}

/// A command that the project uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habit {
    pub purpose: Purpose,
    pub command: String,
    /// The file that says so.
    pub from: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Tests first; each command once, from the file that said it first.
    pub commands: Vec<Habit>,
    /// Patterns of the tests' own folders.
    pub tests: Vec<String>,
    /// What lies in the top folder.
    pub names: Vec<String>,
}

impl Habits {
    /// For whoever has to agree on something here, in lines.
    pub fn describe(&self) -> Vec<String> {
        let commands = self
            .commands
            .iter()
            .map(|habit| format!("{}: `{}` ({})", habit.purpose.word(), habit.command, habit.from));
        let mut told: Vec<String> = commands.collect();
        if !self.tests.is_empty() {
            told.push(format!("tests lie in {}", self.tests.join(", ")));
        }
        if !self.names.is_empty() {
            told.push(format!("in the top folder: {}", self.names.join(", ")));
        }
        told
    }
}

/// Looks at a project.
pub fn look(root: &Path) -> Habits {
    let names = names(root);
    let has = |name: &str| names.iter().any(|known| known == name);
    let mut found: Vec<Habit> = Vec::new();
    let mut add = |from: &str, habits: Vec<(Purpose, String)>| {
        for (purpose, command) in habits {
            if command.len() <= LONGEST && found.iter().all(|known| known.command != command) {
                found.push(Habit { purpose, command, from: from.to_owned() });
            }
        }
    };
    let of = |name: &str| read(&root.join(name));
    if let Some(text) = of("package.json") {
        let runner =
            [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lockb", "bun"), ("bun.lock", "bun")];
        let runner = runner.into_iter().find(|(lock, _)| has(lock)).map_or("npm", |(_, runner)| runner);
        add("package.json", package_json(&text, runner));
    }
    if let Some(text) = of("Cargo.toml") {
        add("Cargo.toml", cargo_toml(&text));
    }
    if let Some(text) = of("pyproject.toml") {
        add("pyproject.toml", pyproject(&text));
    }
    for (file, command) in [("tox.ini", "tox"), ("noxfile.py", "nox"), ("pytest.ini", "pytest")] {
        if has(file) {
            add(file, vec![(Purpose::Test, command.into())]);
        }
    }
    if has("go.mod") {
        let commands = [
            (Purpose::Test, "go test ./..."),
            (Purpose::Lint, "go vet ./..."),
            (Purpose::Build, "go build ./..."),
        ];
        add("go.mod", commands.map(|(purpose, command)| (purpose, command.to_owned())).to_vec());
    }
    for name in ["Makefile", "makefile", "GNUmakefile"] {
        if let Some(text) = of(name) {
            add(name, targets(&text, "make"));
        }
    }
    for name in ["justfile", "Justfile"] {
        if let Some(text) = of(name) {
            add(name, targets(&text, "just"));
        }
    }
    for (name, text) in continuous_integration(root) {
        add(&name, steps(&text));
    }
    found.sort_by_key(|habit| habit.purpose);
    found.truncate(MOST_COMMANDS);
    let tests = TEST_FOLDERS.iter().filter(|name| root.join(name).is_dir());
    Habits { commands: found, tests: tests.map(|name| format!("{name}/**")).collect(), names }
}

fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name != ".git" && name != ".claude");
    names.sort();
    names.truncate(MOST_NAMES);
    names
}

fn read(path: &Path) -> Option<String> {
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn continuous_integration(root: &Path) -> Vec<(String, String)> {
    let folder = root.join(".github/workflows");
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = listed
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yml") || name.ends_with(".yaml"))
        .map(|name| format!(".github/workflows/{name}"))
        .collect();
    names.sort();
    names.push(".gitlab-ci.yml".into());
    let texts = names.into_iter().take(MOST_FILES).filter_map(|name| Some((read(&root.join(&name))?, name)));
    texts.map(|(text, name)| (name, text)).collect()
}

/// Scripts by their usual names. The test that npm writes by itself is none.
fn package_json(text: &str, runner: &str) -> Vec<(Purpose, String)> {
    let Ok(package) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let mut found = Vec::new();
    for (name, purpose) in [
        ("test", Purpose::Test),
        ("lint", Purpose::Lint),
        ("typecheck", Purpose::Lint),
        ("check", Purpose::Lint),
        ("build", Purpose::Build),
    ] {
        let Some(script) = package["scripts"][name].as_str() else { continue };
        if script.contains("no test specified") {
            continue;
        }
        let command = if name == "test" { format!("{runner} test") } else { format!("{runner} run {name}") };
        found.push((purpose, command));
    }
    found
}

fn cargo_toml(text: &str) -> Vec<(Purpose, String)> {
    let Ok(manifest) = text.parse::<Table>() else { return Vec::new() };
    let all = if manifest.contains_key("workspace") { " --workspace" } else { "" };
    vec![
        (Purpose::Test, format!("cargo test{all}")),
        (Purpose::Lint, format!("cargo clippy{all} --all-targets -- -D warnings")),
        (Purpose::Build, format!("cargo build{all}")),
    ]
}

fn pyproject(text: &str) -> Vec<(Purpose, String)> {
    let Ok(project) = text.parse::<Table>() else { return Vec::new() };
    let tool = |name: &str| project.get("tool").and_then(|tool| tool.get(name)).is_some();
    let mut found = Vec::new();
    if tool("pytest") || text.contains("pytest") {
        found.push((Purpose::Test, "python -m pytest".to_owned()));
    }
    if tool("tox") {
        found.push((Purpose::Test, "tox".to_owned()));
    }
    for (name, command) in [("ruff", "ruff check ."), ("mypy", "mypy ."), ("black", "black --check .")] {
        if tool(name) {
            found.push((Purpose::Lint, command.to_owned()));
        }
    }
    found
}

/// Targets of a makefile or a justfile, by their usual names.
fn targets(text: &str, runner: &str) -> Vec<(Purpose, String)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((names, rest)) = line.split_once(':') else { continue };
        if rest.starts_with('=') || line.starts_with([' ', '\t', '#', '.']) {
            continue;
        }
        for name in names.split_whitespace() {
            let purpose = match name {
                "test" | "tests" | "check" => Purpose::Test,
                "lint" | "fmt-check" | "typecheck" => Purpose::Lint,
                "build" => Purpose::Build,
                _ => continue,
            };
            found.push((purpose, format!("{runner} {name}")));
        }
    }
    found
}

/// Steps of continuous integration that test, lint or build: `run:` in its one-line and its block form, and the items of
/// `script:`.
fn steps(text: &str) -> Vec<(Purpose, String)> {
    let mut found = Vec::new();
    let mut block: Option<usize> = None;
    let mut script: Option<usize> = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('#') {
            continue;
        }
        if block.is_some_and(|of| indent <= of) {
            block = None;
        }
        if script.is_some_and(|of| indent < of || (indent == of && !bare.starts_with('-'))) {
            script = None;
        }
        let step = bare.strip_prefix("- ").unwrap_or(bare);
        let command = if block.is_some() {
            Some(bare)
        } else if let Some(command) = step.strip_prefix("run:").map(str::trim) {
            if command.starts_with(['|', '>']) || command.is_empty() {
                block = Some(indent);
                None
            } else {
                Some(command)
            }
        } else if step == "script:" {
            script = Some(indent);
            None
        } else {
            bare.strip_prefix("- ").filter(|_| script.is_some())
        };
        if let Some((purpose, command)) = command.and_then(purposeful) {
            found.push((purpose, command));
        }
    }
    found
}

fn purposeful(command: &str) -> Option<(Purpose, String)> {
    let command = command.trim().trim_matches(['"', '\'']);
    // What only continuous integration has, or what goes on in the next line, is no command here.
    if command.contains("${{") || command.contains("$CI") || command.ends_with('\\') {
        return None;
    }
    let words: Vec<&str> = command.split([' ', ':', '-', '/', '.', '_']).collect();
    let says = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let installs =
        says(&["install", "ci", "add", "apt", "curl", "checkout", "echo", "upload", "deploy", "publish"]);
    let purpose = if says(&["test", "tests", "pytest", "nextest", "jest", "vitest", "tox", "ctest"]) {
        Purpose::Test
    } else if says(&["lint", "clippy", "ruff", "mypy", "eslint", "vet", "fmt", "tsc", "typecheck", "flake8"])
    {
        Purpose::Lint
    } else if says(&["build", "compile"]) {
        Purpose::Build
    } else {
        return None;
    };
    (!installs).then(|| (purpose, command.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(habits: &[(Purpose, String)]) -> String {
        habits
            .iter()
            .map(|(purpose, command)| format!("{}={command}", purpose.word()))
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn packages_say_their_scripts() {
        let package =
            r#"{"scripts": {"test": "jest", "lint": "eslint .", "build": "tsc", "start": "node ."}}"#;
        assert_eq!(
            told(&package_json(package, "npm")),
            "test=npm test; lint=npm run lint; build=npm run build"
        );
        assert_eq!(
            told(&package_json(package, "pnpm")),
            "test=pnpm test; lint=pnpm run lint; build=pnpm run build"
        );
        let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(told(&package_json(fresh, "npm")), "");
        assert_eq!(told(&package_json("{", "npm")), "");
    }

    #[test]
    fn manifests_say_their_tools() {
        assert!(
            told(&cargo_toml("[package]\nname = \"x\""))
                .starts_with("test=cargo test; lint=cargo clippy --all")
        );
        assert!(told(&cargo_toml("[workspace]")).starts_with("test=cargo test --workspace"));
        assert_eq!(told(&cargo_toml("[")), "");
        let python = "[project]\ndependencies = []\n[tool.pytest.ini_options]\n[tool.ruff]\n";
        assert_eq!(told(&pyproject(python)), "test=python -m pytest; lint=ruff check .");
        assert_eq!(told(&pyproject("[project]\nname = \"x\"")), "");
    }

    #[test]
    fn targets_are_found_and_variables_are_not() {
        let makefile = ".PHONY: test\nX := test:lint\nall: build test\nbuild:\n\tcc x.c\ntest lint: build\n\t./run test: it\n";
        assert_eq!(told(&targets(makefile, "make")), "build=make build; test=make test; lint=make lint");
    }

    #[test]
    fn steps_of_continuous_integration() {
        let workflow = "
jobs:
  a:
    steps:
      - uses: actions/checkout@v4
      - run: npm ci
      - name: Test
        run: npm test -- --ci=false
      - run: |
          cargo fmt --check
          cargo clippy -- -D warnings
          echo done
      - name: Build
        run: \"make build\"
      - run: cargo test --features ${{ matrix.features }}
";
        assert_eq!(
            told(&steps(workflow)),
            "test=npm test -- --ci=false; lint=cargo fmt --check; lint=cargo clippy -- -D warnings; build=make build"
        );
        let gitlab = "test:\n  script:\n    - pip install .\n    - pytest -q\n  tags:\n    - test\n";
        assert_eq!(told(&steps(gitlab)), "test=pytest -q");
    }

    #[test]
    fn a_project_is_looked_at() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(look(dir.path()), Habits::default());
        write("go.mod", "module x");
        write("Makefile", "test:\n\tgo test ./...\n");
        write(".github/workflows/ci.yml", "steps:\n  - run: go test ./...\n  - run: go test -race ./...\n");
        write("tests/a.txt", "");
        fs::write(dir.path().join("package.json"), [0xff, 0x00]).expect("a file");
        let habits = look(dir.path());
        let commands: Vec<String> =
            habits.commands.iter().map(|habit| format!("{} ({})", habit.command, habit.from)).collect();
        assert_eq!(
            commands,
            [
                "go test ./... (go.mod)",
                "make test (Makefile)",
                "go test -race ./... (.github/workflows/ci.yml)",
                "go vet ./... (go.mod)",
                "go build ./... (go.mod)",
            ]
        );
        assert_eq!(habits.tests, ["tests/**"]);
        assert!(habits.describe().iter().any(|line| line.contains("Makefile")), "{:?}", habits.describe());
    }
}
