//! Paths and patterns in a project: what is there. Reads no content.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// A pattern that makes us look at more entries than this is too wide.
pub const MOST_ENTRIES: usize = 1_000_000;

const DEEPEST: usize = 128;

/// A path, or a pattern with `*`, `?`, `[…]`, `{…}` and `**`, relative to the project's root.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// The folder in which everything lies that can match.
    base: PathBuf,
    matcher: Option<GlobMatcher>,
}

/// What a pattern found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedFiles {
    /// The first of them, sorted.
    pub paths: Vec<String>,
    pub reach: Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    All,
    /// There are more than were asked for.
    More,
}

impl Pattern {
    pub fn read(text: &str) -> Result<Pattern, String> {
        let text = text.trim();
        if let Some(why) = never(text) {
            return Err(why);
        }
        let plain = tidy(text);
        if !plain.contains(['*', '?', '[', '{']) {
            return Ok(Pattern { base: PathBuf::from(&plain), text: plain, matcher: None });
        }
        let glob = GlobBuilder::new(&plain)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        let steps = plain.split('/').take_while(|step| !step.contains(['*', '?', '[', '{', '\\']));
        let base: PathBuf = steps.map(|step| if step.is_empty() { "/" } else { step }).collect();
        Ok(Pattern { text: plain, base, matcher: Some(glob.compile_matcher()) })
    }

    pub fn matches(&self, path: &str) -> bool {
        match &self.matcher {
            Some(matcher) => matcher.is_match(path) || self.text == path,
            None => Path::new(path).starts_with(&self.text),
        }
    }

    /// Looks on the disk. A name with brackets in it (`app/[id]/page.tsx`) is found as it stands, too.
    pub fn find(&self, root: &Path, most: usize) -> Result<MatchedFiles, String> {
        self.look_for(Wanted::Anything, root, most)
    }

    fn look_for(&self, wanted: Wanted, root: &Path, most: usize) -> Result<MatchedFiles, String> {
        let full = root.join(&self.text);
        match fs::symlink_metadata(&full) {
            Ok(_) => return Ok(MatchedFiles { paths: vec![self.text.clone()], reach: Matched::All }),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) if self.matcher.is_none() => {
                return Err(format!("cannot look at {}: {error}", self.text));
            }
            Err(_) => {}
        }
        let Some(matcher) = &self.matcher else {
            return Ok(MatchedFiles { paths: Vec::new(), reach: Matched::All });
        };
        let mut look = Look { root, matcher, wanted, most, seen: 0, found: Vec::new() };
        look.walk(&root.join(&self.base), &self.base, 0)?;
        let mut paths = look.found;
        let reach = if paths.len() > most { Matched::More } else { Matched::All };
        paths.truncate(most);
        Ok(MatchedFiles { paths, reach })
    }

    /// All files below, for a folder that is named without a pattern.
    pub fn files(&self, root: &Path, most: usize) -> Result<MatchedFiles, String> {
        if self.matcher.is_none() && root.join(&self.text).is_dir() {
            return Pattern::read(&format!("{}/**/*", self.text))?.files(root, most);
        }
        let mut found = self.look_for(Wanted::Files, root, most)?;
        found.paths.retain(|path| fs::symlink_metadata(root.join(path)).is_ok_and(|meta| !meta.is_dir()));
        Ok(found)
    }
}

/// Why a pattern can match nothing, if that can be told from the pattern alone.
fn never(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("it is empty".into());
    }
    if text.contains('\0') {
        return Some("it has a zero byte in it".into());
    }
    if text.starts_with('~') {
        return Some("`~` is not the home folder here".into());
    }
    if text.contains("$(") || text.contains("${") || text.starts_with('$') {
        return Some("variables are not replaced in it".into());
    }
    let quoted = |quote: char| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
    if quoted('"') || quoted('\'') {
        return Some("the quotes are part of it".into());
    }
    let steps: Vec<&str> = text.split('/').collect();
    let wild = steps.iter().position(|step| step.contains(['*', '?', '[', '{']));
    let up = steps.iter().rposition(|step| *step == "..");
    if let (Some(wild), Some(up)) = (wild, up)
        && wild < up
    {
        return Some("`..` after a wildcard leads nowhere".into());
    }
    if wild.is_some() && text.ends_with('/') {
        return Some("it ends with `/`, and no path does".into());
    }
    if steps.contains(&".git") && wild.is_some() {
        return Some("patterns do not look into `.git`".into());
    }
    None
}

/// Without `./`, doubled slashes and a slash at the end.
fn tidy(text: &str) -> String {
    let kept: Vec<&str> = text.split('/').filter(|step| !step.is_empty() && *step != ".").collect();
    let tidy = kept.join("/");
    match text.starts_with('/') {
        true => format!("/{tidy}"),
        false if tidy.is_empty() => ".".into(),
        false => tidy,
    }
}

/// Why a pattern can match nothing here: as [`never`], or because a file stands where it wants a folder.
pub fn never_matches(root: &Path, text: &str) -> Option<String> {
    let pattern = match Pattern::read(text) {
        Ok(pattern) => pattern,
        Err(why) => return Some(why),
    };
    let folders =
        if pattern.matcher.is_some() { Some(pattern.base.as_path()) } else { pattern.base.parent() };
    for folder in folders.into_iter().flat_map(Path::ancestors) {
        if folder.as_os_str().is_empty() || folder.components().any(|part| part == Component::ParentDir) {
            continue;
        }
        if fs::metadata(root.join(folder)).is_ok_and(|meta| meta.is_file()) {
            return Some(format!("`{}` is a file, not a folder", folder.display()));
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Anything,
    Files,
}

struct Look<'l> {
    root: &'l Path,
    matcher: &'l GlobMatcher,
    wanted: Wanted,
    most: usize,
    seen: usize,
    found: Vec<String>,
}

/// Folders of ours in a project, with the trees of workers.
const OURS: [&str; 2] = [".claude/aot", ".aot"];

impl Look<'_> {
    fn walk(&mut self, folder: &Path, relative: &Path, depth: usize) -> Result<(), String> {
        let Ok(inside) = fs::read_dir(folder) else { return Ok(()) };
        let mut inside: Vec<fs::DirEntry> = inside.flatten().collect();
        inside.sort_by_key(fs::DirEntry::file_name);
        for entry in inside {
            self.seen += 1;
            if self.seen > MOST_ENTRIES {
                let place = self.root.display();
                return Err(format!(
                    "more than {MOST_ENTRIES} entries would have to be looked at in {place}"
                ));
            }
            if self.found.len() > self.most {
                return Ok(());
            }
            if entry.file_name() == ".git" {
                continue;
            }
            let path = relative.join(entry.file_name());
            // Copies that others work on prove nothing about the project.
            if OURS.iter().any(|ours| path == Path::new(ours)) {
                continue;
            }
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_wanted = self.wanted == Wanted::Anything || !is_folder;
            if is_wanted && self.matcher.is_match(&path) {
                self.found.push(path.to_string_lossy().into_owned());
            }
            // Links to folders are not followed: they may lead in circles.
            if is_folder && depth < DEEPEST {
                self.walk(&entry.path(), &path, depth + 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for path in
            ["src/a.ts", "src/deep/b.ts", "app/[id]/page.tsx", "dist/x.js", ".git/config", "README.md"]
        {
            let full = dir.path().join(path);
            fs::create_dir_all(full.parent().expect("it has one")).expect("folders");
            fs::write(full, "").expect("a file");
        }
        dir
    }

    #[test]
    fn paths_and_patterns_find_what_is_there() {
        let dir = project();
        let check = |pattern: &str, expected: &str| {
            let found = Pattern::read(pattern).and_then(|pattern| pattern.find(dir.path(), 9));
            let found = found.map_or_else(|why| format!("! {why}"), |found| found.paths.join(" "));
            assert_eq!(found, expected, "{pattern}");
        };
        check("README.md", "README.md");
        check("./src//a.ts", "src/a.ts");
        check("src/", "src");
        check("nope", "");
        check("src/a.ts/x", "");
        check("src/*.ts", "src/a.ts");
        check("src/**/*.ts", "src/a.ts src/deep/b.ts");
        check("**/*.ts", "src/a.ts src/deep/b.ts");
        check("{src,dist}/*.{ts,js}", "dist/x.js src/a.ts");
        check("app/[id]/page.tsx", "app/[id]/page.tsx");
        check("**/config", "");
        check("src/[", "! unclosed character class; missing ']'");
        check("~/x", "! `~` is not the home folder here");
        check("src/*/../a.ts", "! `..` after a wildcard leads nowhere");
    }

    /// A folder is no file, and does not count among the first.
    #[test]
    fn files_are_found_behind_folders() {
        let dir = project();
        for (pattern, expected) in
            [("app/**", "app/[id]/page.tsx"), ("app", "app/[id]/page.tsx"), ("*", "README.md")]
        {
            let found = Pattern::read(pattern)
                .and_then(|pattern| pattern.files(dir.path(), 1))
                .expect("it can be read");
            assert_eq!(
                (found.paths.join(" "), found.reach),
                (expected.to_owned(), Matched::All),
                "{pattern}"
            );
        }
    }

    #[test]
    fn patterns_that_can_never_match_are_told() {
        let dir = project();
        for (pattern, never) in [
            ("src/**/*.rs", false),
            ("later/*.js", false),
            ("README.md/*.js", true),
            ("README.md/x", true),
            ("$HOME/x", true),
            ("'src/a.ts'", true),
            ("src/*/", true),
        ] {
            assert_eq!(never_matches(dir.path(), pattern).is_some(), never, "{pattern}");
        }
    }
}
