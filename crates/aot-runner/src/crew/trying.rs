//! Before its first question on this machine an agent does one small task: an agent that cannot work here costs no
//! iteration and no attempts. The task itself is in `agents::trial`.

use std::sync::PoisonError;

use super::meter::{Meter, ReportedUsage};
use super::workers::Workers;
use crate::agents::trial::{self, TrialVerdict};
use crate::agents::{AgentOutcome, Question, Report};

impl Workers {
    /// How the question ends because the agent does not work here; `None` if it does. Others wait meanwhile: they may be
    /// about to ask the same agent.
    pub(super) fn try_first(&self, question: &Question<'_>, meter: &Meter) -> Option<Report> {
        let (agent, launcher) = (question.agent, &self.config.launcher);
        if !agent.profile.try_first {
            return None;
        }
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.contains(&agent.name) || question.switch.is_off() || trial::is_known(launcher, agent) {
            return None;
        }
        let name = &agent.name;
        self.note(format!("{name} is new here, and does one small task in its cage first"));
        let trial = trial::run(launcher, agent, self.config.agent_idle, question.switch);
        let unusable = |why: String| AgentOutcome::Unusable {
            reason: format!(
                "{why} (again: aot agents --try {name}; without: try_first = false in [agent.{name}] of aot.toml)"
            ),
        };
        let outcome = match trial.verdict {
            TrialVerdict::Works => {
                self.spend(meter, &ReportedUsage::default(), trial.used);
                let (seconds, tokens) = (trial.took.as_secs(), trial.used.tokens);
                self.note(format!("{name} works here ({seconds} s, {tokens} tokens); it is remembered"));
                trial::remember(launcher, agent);
                tried.insert(name.clone());
                return None;
            }
            TrialVerdict::ToolsFail { why } => unusable(format!("its tools do not work in the cage: {why}")),
            TrialVerdict::NoAnswer(
                AgentOutcome::InvalidAnswer { reason }
                | AgentOutcome::Failed { reason }
                | AgentOutcome::TimedOut { reason },
            ) => unusable(format!("it did not do a small task: {reason}")),
            TrialVerdict::NoAnswer(outcome) => outcome,
        };
        Some(Report { outcome, used: trial.used, asked: 0 })
    }
}
