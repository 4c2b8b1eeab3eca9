//! `aot turn`: a session that has no hooks says that its turn is over. Hands over and tells.

use aot_core::state::LoopStatus;
use aot_runner::driver;
use aot_runner::session::{self, StepReport};
use serde_json::json;

use super::hook::text;
use super::{Invocation, session as step};
use crate::failure::{self, Failure};
use crate::print::OutputFormat;
use crate::{place, print};

/// What is said while somebody redirects: nothing is judged, and nobody works.
const HELD: &str = "The loop is held for a redirect. `aot redirect …` makes the change, `aot redirect --cancel` lets the \
                    loop go on as it was.";

pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    invocation.by_person()?;
    let mut store = invocation.store()?;
    let state = store.load()?.1.clone();
    if let Some(holder) = driver::holder(store.file().home()) {
        return Err(Failure::Driven { holder });
    }
    // Only the program completes a loop; one that somebody typed is looked at as any other.
    let owner = place::session().filter(|here| state.control.session.as_ref() == Some(here));
    let typed = state.control.status == LoopStatus::Completed
        && owner.is_some_and(|owner| step::note(&store, &owner).left_running());
    let taken = typed || step::owns(invocation)?;
    if !taken {
        return Err(Failure::AtRest);
    }
    let came = session::turn_ended(store, step::run_config(invocation, &state)?)?;
    let text = match (&came.halted, &came.next) {
        (Some(certificate), _) => text::halted(certificate),
        (None, _) if state.control.redirect_requested => HELD.to_owned(),
        (None, next) => next.as_ref().map(text::instruction).unwrap_or_default(),
    };
    tell(invocation, &came, &text);
    Ok(())
}

fn tell(invocation: &Invocation, came: &StepReport, text: &str) {
    match invocation.format {
        OutputFormat::Json => {
            let mut object = json!({
                "success": true, "halted": came.halted, "changes": came.changes, "notes": came.seen.notes,
            });
            object[if came.halted.is_some() { "told" } else { "next" }] = json!(text);
            print::json(&object);
        }
        OutputFormat::Text => {
            came.seen.notes.iter().for_each(|note| failure::complain(&format!("note: {note}")));
            print::line(text);
        }
    }
}
