//! Prepares a tree beyond what git tracks: links to shared paths, copies, and the `setup` command.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::slots::Slot;
use super::snapshot::{Layout, has_plain_parents};
use super::{GroundError, Project, copies};
use crate::confinement::{Area, Confinement};
use crate::ports::Ports;
use crate::process::{Guard, How, Input, Job, Limits, Streams};
use crate::shell;

/// How long `setup` and `teardown` may take, and their grace period after that.
const SETUP_LIMIT: Duration = Duration::from_secs(30 * 60);
const TEARDOWN_LIMIT: Duration = Duration::from_secs(5 * 60);
const GRACE: Duration = Duration::from_secs(5);

/// How much of its output is kept, and how many lines an error shows.
const TAIL_KEPT: usize = 8 << 10;
const LINES_TOLD: usize = 20;

#[derive(Clone, Debug)]
pub(super) struct TreeSetup {
    /// The project's own folder.
    pub root: PathBuf,
    pub share: Vec<PathBuf>,
    /// Relative to the top of the tree.
    pub copy: Vec<PathBuf>,
    pub setup: Option<String>,
    pub teardown: Option<String>,
    pub guard: Guard,
    pub shell: Option<String>,
    pub ports: Ports,
    pub confinement: Confinement,
    pub project: Project,
}

/// The paths of this key of `isolation`, if all of them lie below the project.
pub(super) fn paths(key: &'static str, paths: &[String]) -> Result<Vec<PathBuf>, GroundError> {
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
            .ok_or_else(|| GroundError::BadPath { key, path: path.clone() })
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
            if !make_folders(tree, &link)? {
                continue;
            }
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

    /// Whether a new tree needs more than links.
    pub fn makes_something(&self) -> bool {
        self.setup.is_some() || !self.copy.is_empty()
    }

    /// Copies what is to be copied, and runs `setup` in the project's folder of the tree, confined like a check.
    pub fn set_up(&self, layout: &Layout, slot: &Slot) -> Result<(), GroundError> {
        for path in &self.copy {
            let (source, copy) = (layout.top.join(path), slot.top.join(path));
            // What a link leads to is not the project's.
            let is_there = has_plain_parents(&layout.top, &source) && fs::symlink_metadata(&source).is_ok();
            if is_there && make_folders(&slot.top, &copy)? {
                copies::copy(&source, &copy).map_err(GroundError::io("copy", &source))?;
            }
        }
        let Some(command) = &self.setup else { return Ok(()) };
        self.run(command, "setup", SETUP_LIMIT, layout, slot)
    }

    /// Ends what `setup` began.
    pub fn tear_down(&self, layout: &Layout, slot: &Slot) -> Result<(), GroundError> {
        let Some(command) = &self.teardown else { return Ok(()) };
        self.run(command, "teardown", TEARDOWN_LIMIT, layout, slot)
    }

    fn run(
        &self,
        command: &str,
        key: &'static str,
        limit: Duration,
        layout: &Layout,
        slot: &Slot,
    ) -> Result<(), GroundError> {
        let confined = self
            .confinement
            .confine(&self.project, Area::Tree(&slot.top))
            .map_err(GroundError::io("make a folder for temporary files in", &self.project.sidecar))?;
        let ran = self.guard.under(&self.guard.interrupt().switch()).run(&Job {
            program: shell::program(self.shell.as_deref(), command),
            arguments: vec!["-c".into(), command.into()],
            folder: layout.root_in(&slot.top),
            environment: confined.environment(self.ports.variables(slot.number).to_vec()),
            input: Input::None,
            streams: Streams::Together,
            cage: confined.cage().cloned(),
            limits: Limits { wall: limit, idle: None, grace: GRACE, head: 0, tail: TAIL_KEPT },
        });
        let failed =
            |how: String, tail: String| GroundError::Setup { key, command: command.to_owned(), how, tail };
        let ended = ran.map_err(|error| failed(format!("could not be started ({error})"), String::new()))?;
        let how = match ended.how {
            How::Exited(0) => return Ok(()),
            How::Exited(code) => format!("ended with {code}"),
            How::Signalled(signal) => format!("was ended by signal {signal}"),
            How::NotStarted(why) | How::NoProgram(why) => format!("could not be started ({why})"),
            How::OutOfTime | How::Silent => {
                format!("took longer than {} minutes", limit.as_secs() / 60)
            }
            How::Killed | How::Lost => "was killed".to_owned(),
        };
        let (_, tail) = ended.output.parts();
        let tail = String::from_utf8_lossy(&tail).trim_end().to_owned();
        let lines: Vec<&str> = tail.lines().collect();
        Err(failed(how, lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n")))
    }
}

/// Makes the folders above a path of a tree. Not through a link or a file that the branch has in their place: a worker
/// could have put it there, and it could lead anywhere.
fn make_folders(top: &Path, full: &Path) -> Result<bool, GroundError> {
    let mut folders: Vec<&Path> = full.ancestors().skip(1).take_while(|folder| *folder != top).collect();
    folders.reverse();
    for folder in folders {
        match fs::symlink_metadata(folder) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Ok(false),
            Err(_) => fs::create_dir(folder).map_err(GroundError::io("make the folder", folder))?,
        }
    }
    Ok(true)
}
