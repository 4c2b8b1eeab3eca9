//! The files that decide how a tool runs a project's checks, tool by tool. A worker that leaves the tests alone and adds
//! one of these can turn a check green. Knows no files: they are patterns, and most of what they match does not exist.

use std::collections::BTreeSet;

use crate::shell_command::{SimpleCommand, simple_commands};
use crate::state::{Check, Checks};

use super::CheckTree;

/// What one command of a check obeys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    /// The tool, as people call it.
    pub tool: &'static str,
    /// Patterns relative to the project's root.
    pub globs: Vec<String>,
}

struct Tool {
    name: &'static str,
    /// Programs that are the tool.
    programs: &'static [&'static str],
    /// What `python -m` calls it, if it is a module.
    module: Option<&'static str>,
    files: &'static [&'static str],
    /// Tools that it starts, as a rule.
    starts: &'static [&'static str],
}

const PACKAGE_RUNNERS: [&str; 3] = ["npx", "bunx", "pnpx"];
const PACKAGE_RUNNER: &str = "npx";

const TOOLS: [Tool; 20] = [
    Tool {
        name: "pytest",
        programs: &["pytest", "py.test"],
        module: Some("pytest"),
        files: &[
            "**/conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "pytest.toml",
            ".pytest.toml",
            "pyproject.toml",
            "tox.ini",
            "setup.cfg",
            "*.dist-info/**",
            "*.egg-info/**",
        ],
        starts: &["python"],
    },
    Tool { name: "unittest", programs: &[], module: Some("unittest"), files: &[], starts: &["python"] },
    Tool {
        name: "tox",
        programs: &["tox"],
        module: Some("tox"),
        files: &["tox.ini", "tox.toml", "setup.cfg", "setup.py", "pyproject.toml"],
        starts: &["pytest"],
    },
    Tool {
        name: "nox",
        programs: &["nox"],
        module: Some("nox"),
        files: &["noxfile.py"],
        starts: &["pytest"],
    },
    Tool {
        name: "npm",
        programs: &["npm", "pnpm", "yarn", "bun"],
        module: None,
        files: &[
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".yarn/**",
            "pnpm-workspace.yaml",
            ".pnpmfile.*",
            "bunfig.toml",
            "node_modules/.bin/**",
        ],
        starts: &["jest", "vitest", "mocha"],
    },
    Tool {
        name: "jest",
        programs: &["jest"],
        module: None,
        files: &[
            "jest.config.*",
            "package.json",
            "babel.config.*",
            ".babelrc*",
            ".swcrc",
            "tsconfig*.json",
            "**/__mocks__/**",
        ],
        starts: &[],
    },
    Tool {
        name: "vitest",
        programs: &["vitest"],
        module: None,
        files: &["vitest.config.*", "vitest.workspace.*", "vite.config.*", "package.json", "tsconfig*.json"],
        starts: &[],
    },
    Tool {
        name: "mocha",
        programs: &["mocha"],
        module: None,
        files: &[".mocharc*", "package.json"],
        starts: &[],
    },
    Tool {
        name: "make",
        programs: &["make", "gmake"],
        module: None,
        files: &["GNUmakefile", "makefile", "Makefile", "**/*.mk"],
        starts: &[],
    },
    Tool {
        name: "just",
        programs: &["just"],
        module: None,
        files: &["justfile", "Justfile", ".justfile"],
        starts: &[],
    },
    Tool {
        name: "cargo",
        programs: &["cargo"],
        module: None,
        files: &[
            "**/Cargo.toml",
            "**/.cargo/**",
            "**/build.rs",
            "rust-toolchain*",
            ".config/nextest.toml",
            "clippy.toml",
            ".clippy.toml",
        ],
        starts: &[],
    },
    Tool {
        name: "go",
        programs: &["go"],
        module: None,
        files: &["go.mod", "go.work", "vendor/modules.txt", "**/*_test.go"],
        starts: &[],
    },
    Tool {
        name: "gradle",
        programs: &["gradle", "gradlew"],
        module: None,
        files: &[
            "**/build.gradle*",
            "settings.gradle*",
            "gradle.properties",
            "gradlew*",
            "gradle/**",
            "buildSrc/**",
        ],
        starts: &[],
    },
    Tool {
        name: "maven",
        programs: &["mvn", "mvnw"],
        module: None,
        files: &["**/pom.xml", ".mvn/**", "mvnw*"],
        starts: &[],
    },
    Tool {
        name: "rake",
        programs: &["rake"],
        module: None,
        files: &["rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb", "rakelib/**", "Gemfile", ".rspec"],
        starts: &[],
    },
    Tool { name: "rspec", programs: &["rspec"], module: None, files: &[".rspec", "Gemfile"], starts: &[] },
    Tool {
        name: "composer",
        programs: &["composer"],
        module: None,
        files: &["composer.json"],
        starts: &["phpunit"],
    },
    Tool { name: "phpunit", programs: &["phpunit"], module: None, files: &["phpunit.*"], starts: &[] },
    // Whatever a package runner starts, it starts as these say: another shell, or options for node.
    Tool {
        name: PACKAGE_RUNNER,
        programs: &[],
        module: None,
        files: &[
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            "pnpm-workspace.yaml",
            ".pnpmfile.*",
            "bunfig.toml",
            "node_modules/.bin/**",
        ],
        starts: &[],
    },
    // `python -m` looks for every module in the folder that it is started in, before it looks at its own.
    Tool { name: "python", programs: &[], module: None, files: &[], starts: &[] },
];

/// Modules that Python's test runners load, from 3.6 to 3.13: a file of that name in the project's root takes the place of
/// each. With spaces between them.
const MODULES: &str = "__future__ _asyncio _bisect _blake2 _bz2 _colorize _compression _contextvars _csv _datetime _decimal \
                       _elementtree _hashlib _heapq _json _lzma _opcode _opcode_metadata _posixsubprocess _pytest _random \
                       _socket _ssl _struct _typing _uuid _weakrefset argparse array ast asyncio base64 bdb binascii bisect \
                       bz2 calendar cmd code codeop collections concurrent contextlib contextvars copy copyreg csv \
                       dataclasses datetime decimal difflib dis email encodings enum fcntl fnmatch functools gettext glob \
                       grp hashlib heapq importlib iniconfig inspect json keyword linecache locale logging lzma math \
                       numbers opcode operator packaging pathlib pdb pkgutil platform pluggy pprint py pyexpat pygments \
                       pytest quopri random re readline reprlib runpy select selectors shlex shutil signal sitecustomize \
                       socket sre_compile sre_constants sre_parse ssl string struct subprocess tempfile textwrap threading \
                       token tokenize traceback types typing unicodedata unittest usercustomize uuid warnings weakref xml \
                       zipfile zlib";

/// What a command obeys, one entry for each tool that it starts.
pub fn steering(command: &str) -> Vec<Steering> {
    let mut found: Vec<Steering> = Vec::new();
    for simple in simple_commands(command) {
        let Some(tool) = tool_of(&simple) else { continue };
        let folder = folder_of(&simple);
        let mut globs = BTreeSet::new();
        collect(tool, &mut globs);
        if PACKAGE_RUNNERS.contains(&simple.name()) {
            TOOLS
                .iter()
                .filter(|tool| tool.name == PACKAGE_RUNNER)
                .for_each(|tool| collect(tool, &mut globs));
        }
        let globs = globs.into_iter().map(|glob| match &folder {
            Some(folder) => format!("{folder}/{glob}"),
            None => glob,
        });
        let steering = Steering { tool: tool.name, globs: globs.collect() };
        if !found.contains(&steering) {
            found.push(steering);
        }
    }
    found
}

/// What the commands of checks obey, each with the item that runs it.
pub fn steering_of(checks: &Checks) -> Vec<(String, Steering)> {
    let sheet = CheckTree::of(checks);
    let of_leaf = |leaf: &super::Leaf| match &leaf.check {
        Check::Command { value } | Check::NotCommand { value } => steering(value),
        Check::File { .. } | Check::NotFile { .. } | Check::Assertion { .. } | Check::Quality(_) => {
            Vec::new()
        }
    };
    let leaves = sheet.leaves.iter();
    leaves.flat_map(|leaf| of_leaf(leaf).into_iter().map(|one| (leaf.name.clone(), one))).collect()
}

fn tool_of(simple: &SimpleCommand) -> Option<&'static Tool> {
    let words = &simple.words;
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let named = |name: &str| TOOLS.iter().find(|tool| tool.programs.contains(&name));
    match simple.name() {
        name if PACKAGE_RUNNERS.contains(&name) => named(word(1)).or_else(|| named("npm")),
        "bundle" | "uv" | "poetry" | "pipenv" | "hatch" | "rye" | "pdm" => {
            let inner = words.iter().skip(1).skip_while(|word| matches!(word.as_str(), "exec" | "run"));
            let inner = SimpleCommand { words: inner.cloned().collect(), ..simple.clone() };
            if inner.words.len() < words.len() && !inner.words.is_empty() { tool_of(&inner) } else { None }
        }
        name if name.starts_with("python") => {
            let module = words.iter().position(|word| word == "-m").map(|at| word(at + 1))?;
            TOOLS.iter().find(|tool| tool.module == Some(module))
        }
        name => named(name),
    }
}

/// The folder that the tool works in, if the command names one.
fn folder_of(simple: &SimpleCommand) -> Option<String> {
    let words = &simple.words;
    let after = |flags: &[&str]| {
        let at = words.iter().position(|word| flags.contains(&word.as_str()))?;
        words.get(at + 1).filter(|word| SimpleCommand::is_known(word)).cloned()
    };
    let given = match simple.name() {
        "make" | "gmake" => after(&["-C", "--directory"]),
        "npm" | "pnpm" => after(&["--prefix", "-C", "--dir"]),
        _ => None,
    };
    let folder = match (&simple.folder, given) {
        (Some(folder), Some(given)) => format!("{folder}/{given}"),
        (Some(folder), None) => folder.clone(),
        (None, Some(given)) => given,
        (None, None) => return None,
    };
    let steps: Vec<&str> = folder.split('/').filter(|step| !step.is_empty() && *step != ".").collect();
    let is_inside = !folder.starts_with('/') && steps.iter().all(|step| *step != "..");
    (is_inside && !steps.is_empty()).then(|| steps.join("/"))
}

fn collect(tool: &Tool, globs: &mut BTreeSet<String>) {
    globs.extend(tool.files.iter().map(|file| (*file).to_owned()));
    if tool.name == "python" {
        let modules = MODULES.split(' ').collect::<Vec<_>>().join(",");
        globs.insert(format!("{{{modules}}}{{.py,.pyc,.so,.*.so,/__init__.*}}"));
    }
    let started = tool.starts.iter().filter_map(|name| TOOLS.iter().find(|tool| tool.name == *name));
    started.for_each(|tool| collect(tool, globs));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_a_command_are_found() {
        let check = |command: &str, expected: &str| {
            let said: Vec<String> = steering(command)
                .into_iter()
                .map(|one| {
                    let first = one.globs.iter().find(|glob| !glob.contains('{') && !glob.contains("-info"));
                    format!("{} {}", one.tool, first.map_or("", String::as_str)).trim().to_owned()
                })
                .collect();
            assert_eq!(said.join("; "), expected, "{command}");
        };
        check("pytest -q", "pytest **/conftest.py");
        check("python3 -m pytest tests", "pytest **/conftest.py");
        check("python -m unittest discover", "unittest");
        check("uv run pytest", "pytest **/conftest.py");
        check("timeout 60 npm test", "npm **/__mocks__/**");
        check("npx jest", "jest **/__mocks__/**");
        let npx = steering("npx jest").remove(0).globs;
        assert!(
            [".npmrc", "jest.config.*"].iter().all(|file| npx.iter().any(|glob| glob == file)),
            "{npx:?}"
        );
        check("bundle exec rake test", "rake .rspec");
        check("cd web && npm test && make -C lib check", "npm web/**/__mocks__/**; make web/lib/**/*.mk");
        check("./gradlew test", "gradle **/build.gradle*");
        check("cargo test && cargo clippy", "cargo **/.cargo/**");
        check("python setup.py test", "");
        check("test -f README", "");
        check("cd /elsewhere && make", "make **/*.mk");
    }
}
