//! Prepares a tree beyond what git tracks: links to shared paths, and the `setup` command.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::snapshot::Layout;
use super::{GroundError, Project};
use crate::confinement::{Area, Confinement};
use crate::process::{Guard, How, Input, Job, Limits, Streams};

/// How long `setup` may take, and its grace period after that.
const SETUP_LIMIT: Duration = Duration::from_secs(30 * 60);
const GRACE: Duration = Duration::from_secs(5);

/// How much of its output is kept, and how many lines an error shows.
const TAIL_KEPT: usize = 8 << 10;
const LINES_TOLD: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct TreeSetup {
    /// The project's own folder.
    pub root: PathBuf,
    pub share: Vec<PathBuf>,
    pub setup: Option<String>,
    pub guard: Guard,
    pub shell: PathBuf,
    pub confinement: Confinement,
    pub project: Project,
}

/// The paths of `isolation.share`, if all of them lie below the project.
pub(super) fn shared(paths: &[String]) -> Result<Vec<PathBuf>, GroundError> {
    let one = |path: &String| {
        let parts: Option<PathBuf> = Path::new(path)
            .components()
            .filter(|part| *part != Component::CurDir)
            .map(|part| match part {
                Component::Normal(name) => Some(name),
                Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
            })
            .collect();
        parts
            .filter(|parts| !parts.as_os_str().is_empty())
            .ok_or_else(|| GroundError::BadShare { path: path.clone() })
    };
    paths.iter().map(one).collect()
}

impl TreeSetup {
    /// Links the shared paths that exist, where the tree has nothing. Returns the links as paths of the tree.
    pub fn link(&self, layout: &Layout, tree: &Path) -> Result<Vec<Vec<u8>>, GroundError> {
        let root = layout.root_in(tree);
        let mut linked = Vec::new();
        for path in &self.share {
            let (source, link) = (self.root.join(path), root.join(path));
            if fs::symlink_metadata(&source).is_err() {
                continue;
            }
            let folder = link.parent().unwrap_or(&root);
            fs::create_dir_all(folder).map_err(GroundError::io("make the folder", folder))?;
            // Git knows no empty folders: one that is there is a submodule's.
            let _ = fs::remove_dir(&link);
            match std::os::unix::fs::symlink(&source, &link) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // It is our link from an earlier attempt, or the tree's own file.
                    if fs::read_link(&link).ok().as_deref() != Some(source.as_path()) {
                        continue;
                    }
                }
                Err(error) => return Err(GroundError::io("link", &link)(error)),
            }
            linked.push([layout.prefix.as_slice(), path.as_os_str().as_bytes()].concat());
        }
        Ok(linked)
    }

    /// Runs `setup` in the project's folder of the tree, confined like a check.
    pub fn set_up(&self, top: &Path, root: &Path) -> Result<(), GroundError> {
        let Some(command) = &self.setup else { return Ok(()) };
        let confined = self
            .confinement
            .confine(&self.project, Area::Tree(top))
            .map_err(GroundError::io("make a folder for temporary files in", &self.project.sidecar))?;
        let ran = self.guard.under(&self.guard.interrupt().switch()).run(&Job {
            program: self.shell.clone().into_os_string(),
            arguments: vec!["-c".into(), command.into()],
            folder: root.to_path_buf(),
            environment: confined.environment(Vec::new()),
            input: Input::None,
            streams: Streams::Together,
            cage: confined.cage().cloned(),
            limits: Limits { wall: SETUP_LIMIT, idle: None, grace: GRACE, head: 0, tail: TAIL_KEPT },
        });
        let failed = |how: String, tail: String| GroundError::Setup { command: command.clone(), how, tail };
        let ended = ran.map_err(|error| failed(format!("could not be started ({error})"), String::new()))?;
        let how = match ended.how {
            How::Exited(0) => return Ok(()),
            How::Exited(code) => format!("ended with {code}"),
            How::Signalled(signal) => format!("was ended by signal {signal}"),
            How::NotStarted(why) | How::NoProgram(why) => format!("could not be started ({why})"),
            How::OutOfTime | How::Silent => {
                format!("took longer than {} minutes", SETUP_LIMIT.as_secs() / 60)
            }
            How::Killed | How::Lost => "was killed".to_owned(),
        };
        let (_, tail) = ended.output.parts();
        let tail = String::from_utf8_lossy(&tail).trim_end().to_owned();
        let lines: Vec<&str> = tail.lines().collect();
        Err(failed(how, lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n")))
    }
}
