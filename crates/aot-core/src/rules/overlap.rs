//! Whether two atoms would get in each other's way: the same resource, or globs that could match one path (D26).
//! Looks at texts only, and says yes when it cannot tell.

use crate::state::Atom;

/// Whether an atom can be in any other's way.
pub fn may_conflict(atom: &Atom) -> bool {
    atom.resource.is_some() || !atom.writes.is_empty()
}

pub fn conflict(one: &Atom, other: &Atom) -> bool {
    let same_resource = one.resource.is_some() && one.resource == other.resource;
    same_resource || one.writes.iter().any(|a| other.writes.iter().any(|b| globs_overlap(a, b)))
}

/// Only a last name with one of these is taken for a file; any other may be a folder (`.github`, `conf.d`).
const FILE_EXTENSIONS: [&str; 40] = [
    "c", "cc", "cpp", "cs", "css", "csv", "go", "h", "hpp", "html", "java", "js", "json", "jsx", "kt",
    "lock", "lua", "md", "mjs", "php", "png", "proto", "py", "rb", "rs", "scss", "sh", "sql", "svg", "swift",
    "toml", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml", "zig", "zsh",
];

/// Whether some path is matched by both. A last name that may be a folder stands for all below it.
pub fn globs_overlap(one: &str, other: &str) -> bool {
    paths_overlap(&segments(one), &segments(other))
}

fn segments(glob: &str) -> Vec<&str> {
    let mut segments: Vec<&str> =
        glob.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
    let is_file = |name: &&str| {
        name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && FILE_EXTENSIONS.contains(&end))
    };
    if !segments.last().is_some_and(is_file) {
        segments.push("**");
    }
    segments
}

fn paths_overlap(one: &[&str], other: &[&str]) -> bool {
    match (one, other) {
        ([], rest) | (rest, []) => rest.iter().all(|segment| *segment == "**"),
        (["**", rest @ ..], _) => paths_overlap(rest, other) || paths_overlap(one, &other[1..]),
        (_, ["**", rest @ ..]) => paths_overlap(one, rest) || paths_overlap(&one[1..], other),
        ([a, one @ ..], [b, other @ ..]) => names_overlap(a, b) && paths_overlap(one, other),
    }
}

fn names_overlap(one: &str, other: &str) -> bool {
    let vague = |c: char| matches!(c, '[' | ']' | '{' | '}' | '\\' | '!');
    if one.contains(vague) || other.contains(vague) {
        return true;
    }
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // overlaps[j]: whether the rest of `one` from `i` on and the rest of `other` from `j` on have a name in common.
    let mut below = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let mut here = vec![false; other.len() + 1];
        for j in (0..=other.len()).rev() {
            here[j] = match (one.get(i), other.get(j)) {
                (None, None) => true,
                (Some('*'), _) if below[j] => true,
                (_, Some('*')) if here[j + 1] => true,
                (Some('*'), Some(_)) => here[j + 1],
                (Some(_), Some('*')) => below[j],
                (Some(a), Some(b)) => (a == b || *a == '?' || *b == '?') && below[j + 1],
                (Some(_), None) | (None, Some(_)) => false,
            };
        }
        below = here;
    }
    below[0]
}
