//! What the output of a check tells about its cage: the paths that it wanted to write and could not. A guess for people,
//! on which no outcome rests.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aot_core::verdict::{CageRefusal, Excerpt};
use rustix::fs::{Access, access};

use crate::process::cage::{Cage, Kind};

/// So many paths are named.
const NAMED: usize = 5;

/// How programs say that they may not write, in small letters.
const REFUSALS: [&str; 7] = [
    "read-only file system",
    "permission denied",
    "operation not permitted",
    "erofs",
    "eacces",
    "(os error 30)",
    "(os error 13)",
];

/// How programs say that there is no network.
const NO_NETWORK: [&str; 6] = [
    "name resolution",
    "could not resolve",
    "network is unreachable",
    "enotfound",
    "eai_again",
    "no such host",
];

/// Folders that hold what belongs to many programs: a folder in one of them is opened, never all of it.
const SHARED: [&str; 6] = ["", ".cache", ".config", ".local", ".local/share", ".local/state"];

/// Places that no setting opens.
const SYSTEM: [&str; 3] = ["/dev", "/proc", "/sys"];

pub(super) fn refused(output: &Excerpt, cage: &Cage, root: &Path, home: Option<&Path>) -> Vec<CageRefusal> {
    let mut found: Vec<CageRefusal> = Vec::new();
    for line in output.head.lines().chain(output.tail.lines()) {
        let small = line.to_lowercase();
        let is_refusal = REFUSALS.iter().any(|words| small.contains(words));
        for path in paths(line) {
            let is_socket = path.extension().is_some_and(|ending| ending == "sock");
            let is_outside = !cage.writable.iter().any(|open| path.starts_with(open));
            let is_systems = SYSTEM.iter().any(|system| path.starts_with(system));
            if !(is_refusal || is_socket)
                || !is_outside
                || is_systems
                || is_program(&path)
                || !could_write(&path)
            {
                continue;
            }
            let refusal =
                CageRefusal { path: path.display().to_string(), remedy: remedy(&path, cage, root, home) };
            if found.len() < NAMED && found.iter().all(|known| known.remedy != refusal.remedy) {
                found.push(refusal);
            }
        }
    }
    found
}

pub(super) fn names_the_network(output: &Excerpt) -> bool {
    let says = |text: &str| {
        let small = text.to_lowercase();
        NO_NETWORK.iter().any(|words| small.contains(words))
    };
    says(&output.head) || says(&output.tail)
}

/// The absolute paths in a line of prose.
fn paths(line: &str) -> Vec<PathBuf> {
    let is_between = |c: char| c.is_whitespace() || "\"'`‘’“”()[]{}<>,;=|".contains(c);
    let words = line.split(is_between).filter_map(|word| {
        let word = word.trim_start_matches("unix://").trim_end_matches([':', '.', '…']);
        let at = word.find('/')?;
        // `open:/a/b` holds a path, `src/a.c` and `https://…` hold none.
        let is_absolute = at == 0 || word[..at].ends_with(':');
        let path = &word[at..];
        (is_absolute && path.len() > 1 && !path.starts_with("//")).then(|| PathBuf::from(path))
    });
    words.collect()
}

/// A shell names itself before it says what was refused.
fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Whether the user could write it without a cage; otherwise it is not the cage that refuses.
fn could_write(path: &Path) -> bool {
    let there = path.ancestors().find(|folder| folder.exists());
    there.is_some_and(|there| access(there, Access::WRITE_OK).is_ok())
}

/// What to type to let it write there.
fn remedy(path: &Path, cage: &Cage, root: &Path, home: Option<&Path>) -> String {
    if let Ok(inside) = path.strip_prefix(root) {
        let first = inside.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let first = first.unwrap_or_default();
        return match cage.kind {
            Kind::Landlock if !root.join(&first).exists() => format!(
                "landlock lets a check make nothing new in the project's top folder: type `mkdir {first}` first, or \
                 install bubblewrap"
            ),
            Kind::Bwrap | Kind::Landlock | Kind::None => {
                "no check may write what belongs to git, to the host or to the loop; let it look only"
                    .to_owned()
            }
        };
    }
    let folder = to_open(path, home);
    let shown = match home.and_then(|home| folder.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => folder.display().to_string(),
    };
    let line = format!("if it may, write `[cage] writable = [\"{shown}\"]` into aot.toml");
    if folder.exists() { line } else { format!("{line}, and type `mkdir -p {shown}`") }
}

/// The folder to open for a path: as deep as it exists, but none that belongs to many programs.
fn to_open(path: &Path, home: Option<&Path>) -> PathBuf {
    let is_shared = |folder: &Path| {
        let in_home = home.and_then(|home| folder.strip_prefix(home).ok());
        in_home.is_some_and(|below| SHARED.iter().any(|shared| below == Path::new(shared)))
            || folder.parent().is_none()
            || home.is_some_and(|home| home.starts_with(folder))
    };
    let mut folders: Vec<&Path> = path.ancestors().collect();
    folders.reverse();
    let mut chosen = path;
    for folder in folders {
        if is_shared(folder) {
            continue;
        }
        chosen = folder;
        // A folder that is missing is opened where it begins; a file is opened by its folder.
        let child = path.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
        let goes_on = child.is_some_and(|child| folder.join(child).is_dir());
        if !goes_on {
            break;
        }
    }
    chosen.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::cage::Network;

    #[test]
    fn the_path_and_the_line_to_type_are_found() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().canonicalize().expect("it exists");
        let root = home.join("project");
        for folder in ["project/.git", ".cache/pip", ".gradle/caches"] {
            std::fs::create_dir_all(home.join(folder)).expect("a folder");
        }
        let check = |kind: Kind, said: &str, expected: &str| {
            let cage = Cage {
                kind,
                writable: vec![root.join("src")],
                read_only: Vec::new(),
                hidden: Vec::new(),
                covered: Vec::new(),
                network: Network::On,
            };
            let output =
                Excerpt { head: said.replace("HOME", &home.display().to_string()), ..Excerpt::default() };
            let found = refused(&output, &cage, &root, Some(&home));
            let told: Vec<String> = found.into_iter().map(|one| one.remedy).collect();
            assert!(
                told.len() == usize::from(!expected.is_empty()) && told.join("").contains(expected),
                "{said}: {told:?}"
            );
        };
        let go = "failed to initialize build cache at HOME/.cache/go-build: mkdir HOME/.cache/go-build: read-only file system";
        check(
            Kind::Bwrap,
            go,
            "`[cage] writable = [\"~/.cache/go-build\"]` into aot.toml, and type `mkdir -p ~/.cache/go-build`",
        );
        let pip = "PermissionError: [Errno 13] Permission denied: 'HOME/.cache/pip/x/y'";
        check(Kind::Landlock, pip, "[\"~/.cache/pip\"]` into aot.toml");
        let gradle = "Could not create 'HOME/.gradle/caches/journal-1/x.lock' (Read-only file system)";
        check(Kind::Bwrap, gradle, "[\"~/.gradle/caches\"]");
        check(Kind::Bwrap, "touch: cannot touch 'HOME/x': Read-only file system", "[\"~/x\"]");
        check(
            Kind::Bwrap,
            "touch: cannot touch 'HOME/project/.git/x': Read-only file system",
            "let it look only",
        );
        check(
            Kind::Landlock,
            "mkdir: cannot create directory 'HOME/project/target': Permission denied",
            "`mkdir target`",
        );
        // It may write there, or nothing says that it may not.
        check(Kind::Landlock, "HOME/project/src/a.c: Permission denied", "");
        check(Kind::Bwrap, "/bin/sh: 1: ./check.sh: Permission denied", "");
        check(
            Kind::Bwrap,
            "mkdir: cannot create directory ‘HOME/.cache/y’: Read-only file system",
            "[\"~/.cache/y\"]",
        );
        check(Kind::Bwrap, "wrote HOME/.cache/pip/x", "");
        check(Kind::Bwrap, "see https://example.org/a: permission denied", "");
        check(Kind::Bwrap, "/proc/sys/x: Read-only file system", "");
    }
}
