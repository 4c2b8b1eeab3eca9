//! Work in the project's own folder by several at once. Nothing is compared, landed or rolled back.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use super::aside::{BeforeWork, RepositoryWatch};
use super::error::GroundError;
use super::worktrees::locked;
use super::{Lent, Loan, OpenedFor, Project, ProjectRepository, Work, intents};

#[derive(Debug)]
pub(super) struct Unisolated {
    pub root: PathBuf,
    pub repository: ProjectRepository,
    pub watch: RepositoryWatch,
    /// There while somebody works in a folder that had no repository: one that a killed run leaves is a worker's.
    note: PathBuf,
    /// Who works here, each at the place of its number.
    lent: Mutex<Vec<Option<Work>>>,
}

impl Unisolated {
    /// Takes away what a worker of a killed run made, before git is asked what is there.
    pub fn watch(project: &Project, entry: OpenedFor) -> Result<RepositoryWatch, GroundError> {
        let Project { root, sidecar, .. } = project;
        let note = note(project);
        let was_at_work = fs::symlink_metadata(&note).is_ok();
        let before = if was_at_work { BeforeWork::Nothing } else { BeforeWork::of(root) };
        let watch = RepositoryWatch::new(root, sidecar, before);
        if entry != OpenedFor::Again && was_at_work {
            watch.take_away("a worker of the run before")?;
            intents::remove(&note)?;
        }
        Ok(watch)
    }

    pub fn new(project: &Project, watch: RepositoryWatch, repository: ProjectRepository) -> Unisolated {
        let (root, note) = (project.root.clone(), note(project));
        Unisolated { root, repository, watch, note, lent: Mutex::default() }
    }

    pub fn lend(&self, work: &Work) -> Result<Lent, GroundError> {
        let mut lent = locked(&self.lent);
        if lent.iter().all(Option::is_none) && BeforeWork::of(&self.root) == BeforeWork::Nothing {
            let folder = self.note.parent().unwrap_or(&self.note);
            fs::create_dir_all(folder).map_err(GroundError::io("make the folder", folder))?;
            intents::write(&self.note, &work.atom.as_str())?;
        }
        let number = lent.iter().position(Option::is_none).unwrap_or(lent.len());
        match lent.get_mut(number) {
            Some(free) => *free = Some(work.clone()),
            None => lent.push(Some(work.clone())),
        }
        Ok(Lent { number: u32::try_from(number + 1).unwrap_or(u32::MAX), ..self.again(work) })
    }

    /// The project, as it was lent to another process of the session.
    pub fn again(&self, work: &Work) -> Lent {
        let (top, root) = (self.root.clone(), self.root.clone());
        Lent { work: work.clone(), number: 1, top, root, loan: Loan::Unisolated }
    }

    pub fn give_back(&self, work: &Work) -> Result<(), GroundError> {
        self.watch.take_away(work.atom.as_str())?;
        let mut lent = locked(&self.lent);
        lent.iter_mut().filter(|one| one.as_ref() == Some(work)).for_each(|one| *one = None);
        if lent.iter().all(Option::is_none) { intents::remove(&self.note) } else { Ok(()) }
    }
}

fn note(project: &Project) -> PathBuf {
    project.sidecar.join("unisolated.json")
}
