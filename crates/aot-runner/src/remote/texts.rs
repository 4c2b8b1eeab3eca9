//! What a job leaves to read: transcripts of its agents and the output of its command, bounded and without secrets, on the
//! way from a host's sidecar into the driver's. Nothing depends on it (D32).

use std::borrow::Cow;
use std::io;
use std::path::Path;

use aot_core::coordinator::{Answer, JobOutcome};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::wire::{JobEnding, JobRequest, KeptText};
use crate::agents::redact::{Secrets, sounds_secret};
use crate::plain_file;

/// The folders of the sidecar that hold such texts.
const FOLDERS: [&str; 2] = ["agents", "output"];

/// Of one text, and of all texts of a job.
const TEXT_BYTES: u64 = 256 << 10;
const ALL_BYTES: usize = 1 << 20;

/// What this host must not tell: the values of its variables that sound like secrets.
pub fn secrets() -> Secrets {
    Secrets::new(std::env::vars().filter(|(name, _)| sounds_secret(name)).map(|(_, value)| value))
}

/// The same without secrets in any of its texts.
pub fn redacted<T: Serialize + DeserializeOwned>(secrets: &Secrets, told: T) -> T {
    let mut value = serde_json::to_value(&told).expect("it can be written as JSON");
    redact(secrets, &mut value);
    // Only texts are different, so that it is read as it was written.
    serde_json::from_value(value).unwrap_or(told)
}

fn redact(secrets: &Secrets, value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(redacted) = secrets.redact(text) {
                *text = redacted;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| redact(secrets, value)),
        Value::Object(fields) => fields.values_mut().for_each(|value| redact(secrets, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The texts of the job on this host.
pub fn of_job(sidecar: &Path, request: &JobRequest, secrets: &Secrets) -> Vec<KeptText> {
    let begins = begins(request);
    let mut texts = Vec::new();
    let mut bytes = 0;
    for folder in FOLDERS {
        let entries = std::fs::read_dir(sidecar.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.starts_with(&begins));
        names.sort();
        for name in names {
            let Ok(text) = plain_file::read(&sidecar.join(folder).join(&name), TEXT_BYTES) else { continue };
            let text = secrets.redact(&String::from_utf8_lossy(&text)).into_owned();
            bytes += text.len();
            if bytes > ALL_BYTES {
                return texts;
            }
            texts.push(KeptText { name: format!("{folder}/{name}"), text });
        }
    }
    texts
}

/// Keeps them here. A name that is not one of this job's is left out: a host writes nowhere else.
pub fn keep(sidecar: &Path, request: &JobRequest, texts: &[KeptText]) -> io::Result<()> {
    let begins = begins(request);
    for KeptText { name, text } in texts {
        let Some((folder, file)) = name.split_once('/') else { continue };
        let is_plain = file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !FOLDERS.contains(&folder) || !file.starts_with(&begins) || !is_plain || text.len() > ALL_BYTES {
            continue;
        }
        let folder = sidecar.join(folder);
        plain_file::folder(sidecar, &folder)?;
        plain_file::write(&folder.join(file), text.as_bytes())?;
    }
    Ok(())
}

/// What the names of the job's files begin with; ids of atoms are safe in a path.
fn begins(request: &JobRequest) -> String {
    let job = request.job();
    let whose = job.task.atom().map_or("replan", |atom| atom.as_str());
    format!("{whose}-{}.", job.attempt)
}

/// How a job ended, in a word.
pub fn word(ending: &JobEnding) -> String {
    let told = |what: &str, reason: &str| format!("{what}: {}", reason.lines().next().unwrap_or_default());
    match ending {
        JobEnding::Busy => "busy".into(),
        JobEnding::Attempt(outcome) => match outcome {
            JobOutcome::Done { .. } => "done".into(),
            JobOutcome::Probed { .. } => "probed".into(),
            JobOutcome::Failed { reason } => told("failed", reason),
            JobOutcome::TooLarge { reason } => told("too large", reason),
            JobOutcome::Refused { reason, .. } => told("refused", reason),
            JobOutcome::Unable { reason, .. } => told("unable", reason),
            JobOutcome::NotStarted { reason, .. } => told("not started", reason),
            JobOutcome::Lost { reason } => told("lost", reason),
        },
        JobEnding::Replan(Answer::Plan(_)) => "planned".into(),
        JobEnding::Replan(
            Answer::Failed { reason }
            | Answer::Refused { reason, .. }
            | Answer::Unable { reason, .. }
            | Answer::NotStarted { reason, .. },
        ) => told("no plan", reason),
        JobEnding::Refused { reason } => told("not taken", reason),
    }
}
