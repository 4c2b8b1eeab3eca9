//! The end of a job for a driver elsewhere: instead of landing here, finished work becomes a commit that is handed over.

use std::sync::Arc;

use aot_core::coordinator::JobId;

use super::workers::Workers;
use super::{Crew, DoneWork};
use crate::tree::{End, GroundError, TreeKind};

/// Where work for a driver elsewhere begins and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct HandOverPlace<'p> {
    pub address: &'p str,
    pub reference: &'p str,
    pub base: &'p str,
    /// Where the reference was when the job began here: at the base, or at what an earlier try has made.
    pub at: &'p str,
}

/// What became of finished work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// It changed nothing.
    Nothing {
        ignored: Vec<String>,
    },
    Commit {
        commit: String,
        ignored: Vec<String>,
    },
    /// The driver does not take it any more.
    TooLate,
}

/// Work that its check has passed.
#[derive(Debug)]
#[must_use]
pub struct FinishedWork(DoneWork);

/// The ground of a crew, for threads beside it.
#[derive(Clone, Debug)]
pub struct SharedGround(Arc<Workers>);

impl Crew {
    pub fn shared_ground(&self) -> SharedGround {
        SharedGround(Arc::clone(&self.workers))
    }

    pub fn trees(&self) -> TreeKind {
        self.workers.ground.trees()
    }

    /// Takes what a job has left to land. Its attempt is over.
    pub fn finished(&mut self, job: &JobId) -> Option<FinishedWork> {
        Some(FinishedWork(self.attempts.remove(job)?.take()?))
    }
}

impl SharedGround {
    /// Makes the commit available that a job begins at, and tells where its reference is; none if the driver took it away.
    pub fn bring(&self, place: &HandOverPlace<'_>) -> Result<Option<String>, GroundError> {
        self.0.ground.bring(place.address, place.reference, place.base)
    }

    pub fn hand_over(
        &self,
        work: FinishedWork,
        place: &HandOverPlace<'_>,
        message: &str,
    ) -> Result<HandOver, GroundError> {
        let ground = &self.0.ground;
        let DoneWork { mut lent, ignored, .. } = work.0;
        let handed = ground.as_commit(&mut lent, message).and_then(|commit| {
            let Some(commit) = commit else { return Ok(HandOver::Nothing { ignored }) };
            match ground.hand_over(place.address, place.reference, place.at, &commit)? {
                true => Ok(HandOver::Commit { commit, ignored }),
                false => Ok(HandOver::TooLate),
            }
        });
        let end = match &handed {
            Ok(HandOver::Nothing { .. } | HandOver::Commit { .. }) => End::Landed,
            Ok(HandOver::TooLate) => End::Discarded { reason: "the driver does not want it any more".into() },
            Err(error) => End::Failed { reason: error.to_string() },
        };
        self.0.give_back(lent, end);
        handed
    }
}
