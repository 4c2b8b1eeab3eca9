//! An agent's private folder: what of the user's it is given before it starts, and its login, which comes back if the
//! agent refreshed it. Nothing else of what an agent writes there outlives its run.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::profile::Profile;
use crate::atomic_file::{self, Durability};

/// A longer login is none.
const LONGEST: u64 = 1 << 20;

/// So many entries of a folder of the user's are linked.
const MOST_LINKED: usize = 10_000;

/// A login that was brought in.
#[derive(Debug)]
pub(super) struct BroughtLogin {
    copy: PathBuf,
    from: PathBuf,
    text: Vec<u8>,
}

/// Brings in what the profile names. `places` finds where something of the user's is.
pub(super) fn bring_in(
    profile: &Profile,
    folder: &Path,
    places: &dyn Fn(&[String]) -> Vec<PathBuf>,
) -> io::Result<Vec<BroughtLogin>> {
    let first = |names: &[String]| places(names).into_iter().find_map(|place| place.canonicalize().ok());
    for (name, mirror) in &profile.mirrors {
        let own = folder.join(name);
        fs::create_dir_all(&own)?;
        let Some(of) = first(&mirror.of) else { continue };
        for entry in fs::read_dir(of)?.flatten().take(MOST_LINKED) {
            if !mirror.without.iter().any(|name| entry.file_name() == name.as_str()) {
                symlink(entry.path(), own.join(entry.file_name()))?;
            }
        }
    }
    let mut logins = Vec::new();
    for (name, names) in profile.copies.iter().chain(&profile.logins) {
        let Some(from) = first(names) else { continue };
        // What we cannot read, the agent could not have read either.
        let Ok(text) = read(&from) else { continue };
        let copy = folder.join(name);
        copy.parent().map_or(Ok(()), fs::create_dir_all)?;
        write_own(&copy, &text)?;
        if profile.logins.contains_key(name) {
            logins.push(BroughtLogin { copy, from, text });
        }
    }
    Ok(logins)
}

/// Takes a refreshed login back. One that somebody else has refreshed meanwhile stays as it is.
pub(super) fn bring_back(logins: &[BroughtLogin]) -> Result<(), String> {
    for BroughtLogin { copy, from, text } in logins {
        // A link that the agent laid leads to something that is not ours to read.
        if copy.canonicalize().ok().as_ref() != Some(copy) {
            continue;
        }
        let Ok(now) = read(copy) else { continue };
        if now == *text || read(from).ok().as_ref() != Some(text) || !is_refreshed(text, &now) {
            continue;
        }
        let mode = fs::metadata(from).map(|meta| meta.permissions());
        let written = atomic_file::write(from, &[&now], Durability::Synced)
            .and_then(|()| mode.and_then(|mode| fs::set_permissions(from, mode)));
        written.map_err(|error| format!("the new login could not be kept in {}: {error}", from.display()))?;
    }
    Ok(())
}

/// A refreshed login is JSON with the same keys as before and other values of the same kinds: tokens, times.
fn is_refreshed(before: &[u8], now: &[u8]) -> bool {
    match (serde_json::from_slice(before), serde_json::from_slice(now)) {
        (Ok(before @ Value::Object(_)), Ok(now)) => is_alike(&before, &now),
        _ => false,
    }
}

fn is_alike(before: &Value, now: &Value) -> bool {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            now.iter().all(|(key, now)| before.get(key).is_some_and(|before| is_alike(before, now)))
        }
        (Value::Array(_), Value::Array(now)) => now.iter().all(|now| !now.is_object() && !now.is_array()),
        (Value::Null, now) => !now.is_object() && !now.is_array(),
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (_, Value::Null) => true,
        _ => false,
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}

/// For nobody else's eyes.
fn write_own(path: &Path, text: &[u8]) -> io::Result<()> {
    const MODE: u32 = 0o600;
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(MODE))?;
    io::Write::write_all(&mut file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_login_comes_back() {
        let before = r#"{"oauth": {"token": "a", "expires": 1, "scopes": ["x"], "plan": null}}"#;
        for (now, expected) in [
            (r#"{"oauth": {"token": "b", "expires": 2, "scopes": ["x", "y"], "plan": "max"}}"#, true),
            (r#"{"oauth": {"token": "b"}}"#, true),
            (r#"{"oauth": {"token": null}}"#, true),
            (r#"{}"#, true),
            (r#"{"oauth": {"token": "b", "helper": "/bin/evil"}}"#, false),
            (r#"{"oauth": {"token": "b"}, "hooks": {}}"#, false),
            (r#"{"oauth": {"token": {"command": "evil"}}}"#, false),
            (r#"{"oauth": {"scopes": [{"command": "evil"}]}}"#, false),
            (r#"{"oauth": {"plan": {"command": "evil"}}}"#, false),
            (r#"{"oauth": "b"}"#, false),
            (r#"["oauth"]"#, false),
            ("echo evil", false),
            ("", false),
        ] {
            assert_eq!(is_refreshed(before.as_bytes(), now.as_bytes()), expected, "{now}");
        }
        assert!(!is_refreshed(b"no JSON", b"{}"));
    }

    #[test]
    fn somebody_elses_login_and_links_stay_as_they_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("it is there");
        let (from, copy) = (folder.join("from.json"), folder.join("copy.json"));
        let login = |text: &str| {
            fs::write(&from, r#"{"token": "a"}"#).expect("a file");
            let _ = fs::remove_file(&copy);
            fs::write(&copy, text).expect("a file");
            [BroughtLogin { copy: copy.clone(), from: from.clone(), text: br#"{"token": "a"}"#.to_vec() }]
        };
        let kept = || fs::read_to_string(&from).expect("it is there");
        bring_back(&login(r#"{"token": "b"}"#)).expect("it can be written");
        assert_eq!(kept(), r#"{"token": "b"}"#);
        let logins = login(r#"{"token": "b"}"#);
        fs::write(&from, r#"{"token": "of another"}"#).expect("a file");
        bring_back(&logins).expect("nothing is written");
        assert_eq!(kept(), r#"{"token": "of another"}"#);
        let logins = login("");
        fs::write(folder.join("other.json"), r#"{"token": "c"}"#).expect("a file");
        fs::remove_file(&copy).expect("it was there");
        symlink(folder.join("other.json"), &copy).expect("a link");
        bring_back(&logins).expect("nothing is written");
        assert_eq!(kept(), r#"{"token": "a"}"#);
    }
}
