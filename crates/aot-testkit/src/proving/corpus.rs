//! The projects of the proving ground: downloaded once into a cache outside of the repository, and taken apart there. Knows
//! nothing of agents and loops.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::json;

const PROJECTS: &str = include_str!("projects.toml");
const PREPARE: &str = include_str!("prepare.py");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// The version of the program that runs the tests.
    pub pytest: String,
    pub project: Vec<PublicProject>,
}

/// One project, as it is published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicProject {
    pub name: String,
    pub version: String,
    pub sha256: String,
    /// The folder with its modules, and the one from which they are imported.
    pub package: String,
    pub path: String,
    /// Modules that are not emptied.
    pub whole: Vec<String>,
}

/// Where its tests are.
pub const TESTS: &str = "tests";

/// What was found out about one emptied module.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmptiedModule {
    pub path: String,
    /// Emptied modules that it imports.
    pub depends_on: Vec<String>,
    /// They are red while it is empty, and green when it and what it imports are whole.
    pub tests: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    atoms: Vec<EmptiedModule>,
    tests: usize,
}

/// A project that is ready for a loop.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub project: PublicProject,
    /// The python that has pytest.
    pub python: PathBuf,
    /// The project as it is published, without what packaging added.
    pub reference: PathBuf,
    /// With `stubs/` and `spoiled/`.
    pub texts: PathBuf,
    pub modules: Vec<EmptiedModule>,
    /// How many tests it has, those with parameters counted once.
    pub tests: usize,
}

impl Prepared {
    /// The command that runs these tests, or all.
    pub fn test_command(&self, tests: &[String]) -> String {
        let path = &self.project.path;
        let python = self.python.display();
        let tests = if tests.is_empty() { TESTS.to_owned() } else { tests.join(" ") };
        format!(
            "PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1 {python} -m pytest -q -x -p no:cacheprovider {tests}"
        )
    }

    /// The text of an emptied module.
    pub fn stub(&self, module: &str) -> String {
        fs::read_to_string(self.texts.join("stubs").join(module)).expect("it was prepared")
    }
}

impl Corpus {
    pub fn read() -> Corpus {
        toml::from_str(PROJECTS).expect("the list of projects is in order")
    }

    /// Downloads and prepares what is not there yet.
    pub fn prepare(&self, cache: &Path, wanted: &[String]) -> Result<Vec<Prepared>, String> {
        fs::create_dir_all(cache).map_err(|error| format!("{}: {error}", cache.display()))?;
        let python = self.python(cache)?;
        let wanted = |project: &&PublicProject| wanted.is_empty() || wanted.contains(&project.name);
        self.project.iter().filter(wanted).map(|project| self.prepared(cache, &python, project)).collect()
    }

    fn python(&self, cache: &Path) -> Result<PathBuf, String> {
        let folder = cache.join(format!("pytest-{}", self.pytest));
        let python = folder.join("bin/python");
        if !folder.join("bin/pytest").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder), "")?;
            let pinned = format!("pytest=={}", self.pytest);
            run(Command::new(&python).args(["-m", "pip", "install", "-q", &pinned]), "")?;
        }
        Ok(python)
    }

    fn prepared(&self, cache: &Path, python: &Path, project: &PublicProject) -> Result<Prepared, String> {
        let PublicProject { name, version, sha256, .. } = project;
        let folder = cache.join(format!("{name}-{version}-{}", &sha256[..12]));
        let reference = folder.join(format!("{name}-{version}"));
        if !reference.exists() {
            let archives = folder.join("archive");
            fs::create_dir_all(&archives).map_err(|error| error.to_string())?;
            eprintln!("downloading {name} {version}");
            // pip refuses what has another hash.
            let pinned = archives.join("pinned.txt");
            fs::write(&pinned, format!("{name}=={version} --hash=sha256:{sha256}\n"))
                .map_err(|error| error.to_string())?;
            let mut pip = Command::new(python);
            pip.args(["-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, "--require-hashes"]);
            run(pip.arg("-r").arg(&pinned).arg("-d").arg(&archives), "")?;
            let archive = archives.join(format!("{name}-{version}.tar.gz"));
            run(
                Command::new("tar").arg("xzf").arg(archive).arg("--no-same-owner").arg("-C").arg(&folder),
                "",
            )?;
        }
        // What is found out depends on the program that finds it out.
        let texts =
            folder.join(format!("prepared-{:016x}", fingerprint(&format!("{PREPARE}{:?}", project.whole))));
        if !texts.join("plan.json").exists() {
            eprintln!("taking {name} {version} apart, which takes a few minutes and happens once");
            fs::create_dir_all(&texts).map_err(|error| error.to_string())?;
            let program = texts.join("prepare.py");
            fs::write(&program, PREPARE).map_err(|error| error.to_string())?;
            let given = json!({
                "package": project.package, "path": project.path, "tests": [TESTS], "whole": project.whole,
            });
            run(Command::new(python).arg(program).arg(&reference).arg(&texts), &given.to_string())?;
        }
        let plan = fs::read(texts.join("plan.json")).map_err(|error| error.to_string())?;
        let plan: Plan = serde_json::from_slice(&plan).map_err(|error| error.to_string())?;
        Ok(Prepared {
            project: project.clone(),
            python: python.to_path_buf(),
            reference,
            texts,
            modules: plan.atoms,
            tests: plan.tests,
        })
    }
}

/// FNV-1a: a name for a content, the same on every machine.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn run(command: &mut Command, input: &str) -> Result<(), String> {
    let fed = |command: &mut Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        child.stdin.take().expect("it is piped").write_all(input.as_bytes())?;
        child.wait()
    };
    match fed(command) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
