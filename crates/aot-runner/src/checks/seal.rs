//! The fingerprint of what was agreed: the base case and the protected files (D21). Compares and names; decides nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aot_core::state::{Checks, Fingerprint, Objective};
use aot_core::verdict::{Tampered, canonical, tampered};
use jiff::Timestamp;

use crate::checks::files::Pattern;
use crate::plain_file;
use crate::store::home::Home;
use crate::tree::Project;

/// More protected files than this are not fingerprinted.
pub const MOST_FILES: usize = 200_000;

const HASH_LENGTH: usize = 32;

/// A fingerprint, and what it was taken of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    pub base_case: String,
    /// The base case itself, as the text that this is the hash of.
    checks: String,
    pub protected: String,
    /// The protected files and what they hold.
    pub files: BTreeMap<String, String>,
}

/// One thing that was changed, for a person.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Altered {
    pub what: String,
    pub how: &'static str,
    /// When, if it can be told.
    pub at: Option<String>,
}

impl Altered {
    /// In a line.
    pub fn describe(&self) -> String {
        let at = self.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
        format!("{} {}{at}", self.what, self.how)
    }
}

/// How many changes a sentence names.
const NAMED: usize = 3;

/// What was changed, in one line.
pub fn describe(altered: &[Altered]) -> String {
    let named: Vec<String> =
        altered.iter().take(NAMED).map(|altered| format!("{} {}", altered.what, altered.how)).collect();
    let more = altered.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("tampered: {}{more}", named.join(", "))
}

/// The base case, if it is not the one that was agreed on. Looks at no files, so that every step can ask.
pub fn altered_base_case(
    objective: &Objective,
    agreed: &Fingerprint,
    project: &Project,
) -> Option<Vec<Altered>> {
    let checks = canonical(objective.base_case.as_ref());
    (hash(&checks) != agreed.base_case).then(|| altered_checks(&checks, agreed, project))
}

/// The checks that were changed, as far as it is known what they were.
fn altered_checks(now: &str, agreed: &Fingerprint, project: &Project) -> Vec<Altered> {
    let kept = kept(project).filter(|kept| kept["base_case"].as_str() == Some(&agreed.base_case));
    let read = |text: &str| serde_json::from_str::<Option<Checks>>(text).ok();
    let before = kept.and_then(|kept| read(kept["checks"].as_str()?));
    let differences = match (before, read(now)) {
        (Some(before), Some(now)) => Checks::differences(before.as_ref(), now.as_ref()),
        (None, _) | (_, None) => Vec::new(),
    };
    let at = changed_at(&project.state);
    let altered = |(what, how): (String, &'static str)| Altered { what, how, at: at.clone() };
    match differences.is_empty() {
        true => vec![altered(("the base case".to_owned(), "was changed"))],
        false => differences.into_iter().map(altered).collect(),
    }
}

impl Seal {
    /// Looks at the files as they are. Patterns that cannot be read protect nothing, and the linter says so.
    pub fn of(objective: &Objective, root: &Path) -> io::Result<Seal> {
        let mut files = BTreeMap::new();
        let mut patterns = objective.protected.clone();
        patterns.sort();
        patterns.dedup();
        for glob in &patterns {
            let Ok(pattern) = Pattern::read(glob) else { continue };
            let found = pattern.files(root, MOST_FILES).map_err(io::Error::other)?;
            for path in found.paths.into_iter().filter(|path| !is_compiled(path)) {
                let id = content(&root.join(&path))?;
                files.insert(path, id);
            }
        }
        // The list itself is part of it: taking a pattern away is a change, too.
        let listed = serde_json::to_string(&(&patterns, &files)).expect("texts are plain data");
        let checks = canonical(objective.base_case.as_ref());
        Ok(Seal { base_case: hash(&checks), checks, protected: hash(&listed), files })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint { base_case: self.base_case.clone(), protected: self.protected.clone() }
    }

    /// Keeps what each file held, so that a later comparison can name those that changed. To be called by whoever
    /// records the fingerprint; without it the comparison still tells that something changed.
    pub fn keep(&self, project: &Project) -> io::Result<()> {
        Home::of(&project.state).and_then(|home| home.ready()).map_err(io::Error::other)?;
        let Seal { base_case, checks, protected, files } = self;
        let kept = serde_json::json!({
            "base_case": base_case, "checks": checks, "protected": protected, "files": files,
        });
        plain_file::write(&listing(project), kept.to_string().as_bytes())
    }

    /// What was changed since the fingerprint was taken; empty if nothing was.
    pub fn altered(&self, agreed: &Fingerprint, project: &Project) -> Vec<Altered> {
        let mut found = Vec::new();
        for part in tampered(agreed, &self.fingerprint()) {
            match part {
                Tampered::BaseCase => found.extend(altered_checks(&self.checks, agreed, project)),
                Tampered::Protected => found.extend(self.altered_files(agreed, project)),
            }
        }
        found
    }

    fn altered_files(&self, agreed: &Fingerprint, project: &Project) -> Vec<Altered> {
        let mut found = Vec::new();
        if let Some(before) = kept_files(project, &agreed.protected) {
            for (path, id) in &self.files {
                let at = || changed_at(&project.root.join(path));
                match before.get(path) {
                    None => found.push(Altered { what: path.clone(), how: "is new", at: at() }),
                    Some(old) if old != id => {
                        found.push(Altered { what: path.clone(), how: "was changed", at: at() });
                    }
                    Some(_) => {}
                }
            }
            let gone = before.keys().filter(|path| !self.files.contains_key(*path));
            found.extend(gone.map(|path| Altered { what: path.clone(), how: "is gone", at: None }));
        }
        if found.is_empty() {
            found.push(Altered {
                what: "the list of protected files".into(),
                how: "was changed, or one of these files",
                at: None,
            });
        }
        found
    }
}

/// A longer list is not ours.
const LISTING_BYTES: u64 = 64 << 20;

/// What Python keeps beside its sources: whoever runs the tests makes it, and checks do not read it.
fn is_compiled(path: &str) -> bool {
    path.split('/').any(|step| step == "__pycache__")
}

fn listing(project: &Project) -> PathBuf {
    project.sidecar.join("protected.json")
}

fn kept(project: &Project) -> Option<serde_json::Value> {
    serde_json::from_slice(&plain_file::read(&listing(project), LISTING_BYTES).ok()?).ok()
}

fn kept_files(project: &Project, protected: &str) -> Option<BTreeMap<String, String>> {
    let kept = kept(project)?;
    let same = kept["protected"].as_str() == Some(protected);
    same.then(|| serde_json::from_value(kept["files"].clone()).ok()).flatten()
}

fn changed_at(path: &Path) -> Option<String> {
    let at = path.metadata().ok()?.modified().ok()?;
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    Some(Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?.to_string())
}

fn content(path: &Path) -> io::Result<String> {
    // A link counts with where it leads, too.
    let link = fs::read_link(path).map(|to| format!("link {} ", to.display())).unwrap_or_default();
    // A pipe or a device is not opened: it may never end.
    if !path.is_file() {
        return Ok(format!("{link}no file"));
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?)?;
    Ok(format!("{link}{}", &hasher.finalize().to_hex()[..HASH_LENGTH]))
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..HASH_LENGTH].to_owned()
}
