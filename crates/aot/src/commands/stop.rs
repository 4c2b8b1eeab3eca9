//! `aot stop`: no new starts; what runs finishes, or with `--now` is killed.

use aot_core::rules::{Change, Refusal};
use aot_core::state::{LoopStatus, StopKind};
use aot_runner::driver;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{Invocation, Verb, arguments, recorded_answer, session};
use crate::failure::Failure;
use crate::print::Answer;

/// Stop the loop: what runs finishes, nothing new starts
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct StopArgs {
    /// Why; it stands in the state file and in the report
    #[serde(default, deserialize_with = "arguments::text")]
    #[schemars(with = "String")]
    reason: Vec<String>,
    /// Kill what runs, instead of letting it finish
    #[arg(long)]
    #[serde(default)]
    now: bool,
}

impl StopArgs {
    /// A stop by a key.
    #[cfg(feature = "watch")]
    pub fn of_person(now: bool) -> StopArgs {
        StopArgs { reason: Vec::new(), now }
    }
}

impl Verb for StopArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let reason = Some(self.reason.join(" ")).filter(|reason| !reason.trim().is_empty());
        let mut store = invocation.store()?;
        let driver = driver::holder(store.file().home());
        if driver.is_none() && session::has_one(store.load()?.1) {
            return session::stop(invocation, self.now, reason);
        }
        let recorded = store.change("ask for a stop", jiff::Timestamp::now(), |ledger| {
            let running = match ledger.state().control.status {
                LoopStatus::Running => true,
                // A run that begins has not written so yet.
                LoopStatus::Pending | LoopStatus::Stopped => driver.is_some(),
                LoopStatus::Completed => false,
            };
            if running {
                ledger.record(Change::StopRequested { reason: reason.clone(), now: self.now });
                if driver.is_none() {
                    // No driver will read the request, so that the loop is stopped here.
                    let reason = reason.clone().unwrap_or_else(|| "stopped by hand".into());
                    let verdict = Some(StopKind::StoppedByHand);
                    ledger.record(Change::Stopped { reason, verdict });
                }
            }
            Ok::<bool, Refusal>(running)
        })?;
        let text = match (recorded.value, &driver, self.now) {
            (false, _, _) => "nothing to stop: the loop is not running".to_owned(),
            (true, None, _) => "stopped; it had no driver. `aot run` takes it up again".to_owned(),
            (true, Some(who), true) => format!("asked {who} to stop now: what runs is killed"),
            (true, Some(who), false) => {
                format!("asked {who} to stop: what runs finishes, nothing new starts")
            }
        };
        let object = json!({"stopping": recorded.value, "now": self.now, "reason": reason, "driver": driver});
        Ok(recorded_answer(&recorded, text, object))
    }
}
