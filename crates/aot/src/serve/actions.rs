//! What a person does on the page: the same verbs as on the command line, by this same program. Decides nothing.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use aot_runner::host;
use aot_runner::process::Switch;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::mcp::answers::{error_object, object};

/// A redirect waits until everything stands still; whatever takes this long hangs.
const LIMIT: Duration = Duration::from_secs(180);

/// What can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAction {
    Stop,
    Redirect,
    Preview,
    Confirm,
}

impl PageAction {
    pub fn named(name: &str) -> Option<PageAction> {
        match name {
            "stop" => Some(PageAction::Stop),
            "redirect" => Some(PageAction::Redirect),
            "preview" => Some(PageAction::Preview),
            "confirm" => Some(PageAction::Confirm),
            _ => None,
        }
    }
}

/// What `aot confirm` takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PersonClaim {
    item: String,
    holds: bool,
}

/// Performs it on the loop with this state file. The thread that calls this waits for the verb.
pub fn perform(program: &Path, state: &Path, action: PageAction, mut wanted: Map<String, Value>) -> Value {
    let mut words: Vec<OsString> =
        vec!["--tied".into(), "--json".into(), "--state".into(), state.as_os_str().to_owned()];
    match action {
        PageAction::Stop => words.extend(["call".into(), "stop".into()]),
        PageAction::Redirect | PageAction::Preview => {
            wanted.insert("preview".into(), json!(action == PageAction::Preview));
            words.extend(["call".into(), "redirect".into()]);
        }
        PageAction::Confirm => {
            match serde_json::from_value::<PersonClaim>(Value::Object(std::mem::take(&mut wanted))) {
                Ok(claim) => {
                    words.push("confirm".into());
                    words.extend((!claim.holds).then(|| "--no".into()));
                    words.extend(["--".into(), claim.item.into()]);
                }
                Err(error) => return error_object("usage", &error.to_string(), "nothing was done"),
            }
        }
    }
    let input = match action {
        PageAction::Confirm => Vec::new(),
        PageAction::Stop | PageAction::Redirect | PageAction::Preview => {
            Value::Object(wanted).to_string().into_bytes()
        }
    };
    let verb = host::Verb { words, variables: Vec::new(), input, limit: LIMIT };
    match host::answer(program, &verb, &Switch::default()) {
        Ok(answer) => object(&answer),
        Err(error) => error_object("world", &format!("the verb cannot be started: {error}"), "try again"),
    }
}
