//! What an agent is started with: its command line and variables as its profile has them, with every placeholder filled
//! in, and the files that the profile wants in the scratch folder. Starts nothing.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::launcher::Launch;
use super::profile::{UserKeys, at, places};
use super::submit::AnswerFiles;
use crate::process::cage::Kind;

/// The files of one question in the scratch folder.
const SCHEMA: &str = "answer-schema.json";
pub(super) const ANSWER: &str = "answer.json";

#[derive(Debug)]
pub(super) struct AgentCommand {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    /// The folder of the question's files.
    pub folder: PathBuf,
    pub answer_files: AnswerFiles,
}

impl AgentCommand {
    /// With the name of a conversation the agent goes on with it.
    pub fn new(launch: &Launch<'_>, prompt: &str, resumed: Option<&str>) -> Result<AgentCommand, String> {
        let agent = launch.question.agent;
        let profile = &agent.profile;
        let folder = launch.folder();
        // The answer of an earlier turn must not be taken for this one's.
        let _ = fs::remove_file(folder.join(ANSWER));
        let answer_files = fs::create_dir_all(&folder).and_then(|()| {
            AnswerFiles::make(&folder, Some(launch.question.role()), &launch.question.brief.schema)
        });
        let answer_files =
            answer_files.map_err(|error| format!("its scratch folder cannot be prepared: {error}"))?;
        let placeholders = Placeholders::of(launch, &folder, prompt, resumed.unwrap_or_default());
        let flags = profile.flags(launch.question.role());
        for (name, text) in profile.files.iter().chain(&flags.files) {
            let text = placeholders.fill(text, Quoting::Escape);
            let text = match profile.keys.get(name) {
                Some(keys) => with_keys(text, keys, launch.launcher.home.as_deref()),
                None => text,
            };
            place(&folder.join(name), |path| fs::write(path, text))
                .map_err(|error| format!("{name} cannot be written: {error}"))?;
        }
        for (name, target) in &profile.links {
            let target = places(std::slice::from_ref(target), launch.launcher.home.as_deref(), &|_| None);
            for target in target.iter().filter(|target| target.exists()) {
                let link = folder.join(name);
                // Of an earlier turn.
                let _ = fs::remove_file(&link);
                place(&link, |path| std::os::unix::fs::symlink(target, path))
                    .map_err(|error| format!("{name} cannot be linked: {error}"))?;
            }
        }
        let model = agent.model.as_ref().map(|_| profile.model_arguments.as_slice()).unwrap_or_default();
        let session = match resumed {
            Some(_) => profile.session.resume.as_slice(),
            None if launch.keeps_session() => &[],
            None => &profile.session.once,
        };
        let mut arguments: Vec<&String> = Vec::new();
        for argument in &profile.arguments {
            match argument.as_str() {
                ROLE => arguments.extend(model.iter().chain(&flags.arguments)),
                SESSION => arguments.extend(session),
                _ => arguments.push(argument),
            }
        }
        let arguments = arguments
            .into_iter()
            .map(|argument| OsString::from(placeholders.fill(argument, Quoting::Verbatim)));
        // The user's own arguments have no placeholders.
        let arguments = agent.before.iter().map(OsString::from).chain(arguments).collect();
        let private = match launch.launcher.cage {
            Kind::None => None,
            Kind::Bwrap | Kind::Landlock => Some(&profile.cage_environment),
        };
        for folder in private.into_iter().flat_map(|private| private.values()) {
            // On a fresh machine nothing was brought in, and an agent may not make a folder that it is led to.
            let folder = placeholders.fill(folder, Quoting::Verbatim);
            fs::create_dir_all(&folder).map_err(|error| format!("{folder} cannot be made: {error}"))?;
        }
        let own = private.into_iter().flatten().chain(&profile.environment).chain(&flags.environment);
        let own = own.map(|(name, value)| (name.into(), placeholders.fill(value, Quoting::Verbatim).into()));
        Ok(AgentCommand {
            program: agent.program.clone().into_os_string(),
            arguments,
            environment: launch.environment().into_iter().chain(own).collect(),
            folder,
            answer_files,
        })
    }
}

fn place(path: &Path, make: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| make(path))
}

/// The top of the repository that a folder belongs to, or the folder itself.
fn top_of(folder: &Path) -> &Path {
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok()).unwrap_or(folder)
}

/// Our settings file with keys of the user's own. Without those, or if they cannot be read, ours alone.
fn with_keys(text: String, keys: &UserKeys, home: Option<&Path>) -> String {
    let from = places(std::slice::from_ref(&keys.from), home, &|_| None).into_iter().next();
    let theirs = from
        .and_then(|from| fs::read(from).ok())
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let (Some(theirs), Ok(mut ours)) = (theirs, serde_json::from_str::<Value>(&text)) else { return text };
    for path in &keys.take {
        let Some(found) = at(&theirs, path).first().copied().cloned() else { continue };
        let mut slot = &mut ours;
        for step in path.split('.') {
            if !slot.is_object() {
                *slot = Value::Object(serde_json::Map::new());
            }
            slot = &mut slot[step];
        }
        *slot = found;
    }
    ours.to_string()
}

/// The place of the role's and the model's arguments among the profile's.
const ROLE: &str = "{role_arguments}";

/// The place of the arguments that begin a conversation or go on with one.
const SESSION: &str = "{session_arguments}";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    /// For text between the quotes of JSON or TOML.
    Escape,
    Verbatim,
}

/// What the placeholders of a profile stand for.
struct Placeholders(Vec<(&'static str, String)>);

impl Placeholders {
    fn of(launch: &Launch<'_>, folder: &Path, prompt: &str, session: &str) -> Placeholders {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        Placeholders(vec![
            ("{prompt}", prompt.to_owned()),
            ("{session}", session.to_owned()),
            ("{schema}", launch.question.brief.schema.to_string()),
            ("{schema_file}", path(&folder.join(SCHEMA))),
            ("{answer_file}", path(&folder.join(ANSWER))),
            ("{folder}", path(launch.question.folder)),
            ("{top}", path(top_of(launch.question.folder))),
            ("{scratch}", path(folder)),
            ("{itself}", path(&launch.launcher.itself)),
            ("{role}", launch.question.role().word().to_owned()),
            ("{model}", launch.question.agent.model.clone().unwrap_or_default()),
        ])
    }

    fn fill(&self, text: &str, quoting: Quoting) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            rest = &rest[at..];
            match self.0.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, value)) if quoting == Quoting::Escape => {
                    let quoted = Value::String(value.clone()).to_string();
                    filled.push_str(&quoted[1..quoted.len() - 1]);
                    rest = &rest[name.len()..];
                }
                Some((name, value)) => {
                    filled.push_str(value);
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }
}
