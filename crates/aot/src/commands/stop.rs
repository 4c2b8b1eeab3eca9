//! `aot stop`: no new starts; what runs finishes, or with `--now` is killed.

use aot_core::rules::{Change, Refusal};
use aot_core::state::{LoopStatus, Verdict};
use aot_runner::driver;
use clap::Args;
use serde_json::json;

use super::{Invocation, session};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub struct StopArgs {
    /// Why; it stands in the state file and in the report
    reason: Vec<String>,
    /// Kill what runs, instead of letting it finish
    #[arg(long)]
    now: bool,
}

pub fn run(invocation: &Invocation, args: &StopArgs) -> Result<(), Failure> {
    invocation.by_person()?;
    let reason = Some(args.reason.join(" ")).filter(|reason| !reason.trim().is_empty());
    let mut store = invocation.store()?;
    let driver = driver::holder(store.file().home());
    if driver.is_none() && session::has_one(store.load()?.1) {
        return session::stop(invocation, args.now, reason);
    }
    let recorded = store.change("ask for a stop", jiff::Timestamp::now(), |ledger| {
        let running = ledger.state().control.status == LoopStatus::Running;
        if running {
            ledger.record(Change::StopRequested { reason: reason.clone(), now: args.now });
            if driver.is_none() {
                // Nobody is there to do it.
                let reason = reason.clone().unwrap_or_else(|| "stopped by hand".into());
                let verdict = Some(Verdict::StoppedByHand);
                ledger.record(Change::Stopped { reason, verdict });
            }
        }
        Ok::<bool, Refusal>(running)
    })?;
    let line = match (recorded.value, &driver, args.now) {
        (false, _, _) => "nothing to stop: the loop is not running".to_owned(),
        (true, None, _) => "stopped; nobody was driving it. `aot run` takes it up again".to_owned(),
        (true, Some(who), true) => format!("asked {who} to stop now: what runs is killed"),
        (true, Some(who), false) => format!("asked {who} to stop: what runs finishes, nothing new starts"),
    };
    let object = json!({"stopping": recorded.value, "now": args.now, "reason": reason, "driver": driver});
    invocation.told(&recorded, &line, object);
    Ok(())
}
