//! `aot turn`: a session that has no hooks says that its turn is over.

use aot_core::state::LoopStatus;
use aot_runner::driver;
use clap::Args;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::hook::text;
use super::{Invocation, Verb, session as step};
use crate::failure::{self, Failure};
use crate::place;
use crate::print::Answer;

/// The next step while a redirect is under way: nothing is judged, and no worker is started.
const HELD: &str = "The loop is held for a redirect. `aot redirect FLAGS` makes the change, `aot redirect --cancel` lets the \
                    loop go on as it was.";

/// End a turn of a session: the iteration is judged, and the loop halts or says what is next
///
/// For hosts without hooks. The session is AOT_SESSION; where the plugin is installed, the host does it.
#[derive(Debug, Args, Deserialize, JsonSchema)]
pub struct TurnArgs {}

impl Verb for TurnArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        let mut store = invocation.store()?;
        let state = store.load()?.1.clone();
        if let Some(holder) = driver::holder(store.file().home()) {
            return Err(failure::driven(&holder));
        }
        // Only the program completes a loop; one whose status was typed into the file is judged like any other.
        let owner = place::session().filter(|here| state.control.session.as_ref() == Some(here));
        let typed = state.control.status == LoopStatus::Completed
            && owner.is_some_and(|owner| step::memory_of(&store, &owner).left_running());
        if !typed && !step::owns(invocation)? {
            return Err(step::not_running());
        }
        let came = step::end_turn(invocation, store)?;
        let (key, text) = match (&came.halted, &came.next) {
            (Some(certificate), _) => ("told", text::halted(certificate)),
            (None, _) if state.control.redirect_requested => ("next", HELD.to_owned()),
            (None, next) => ("next", next.as_ref().map(text::instruction).unwrap_or_default()),
        };
        let mut object = json!({
            "success": true, "halted": came.halted, "changes": came.changes, "notes": came.seen.notes,
        });
        object[key] = json!(text);
        let notes = came.seen.notes.iter().map(|note| format!("note: {note}")).collect();
        Ok(Answer::new(text, object).with_warnings(notes))
    }
}
