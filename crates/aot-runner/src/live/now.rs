//! What goes on now, folded from the objects of a live record. Reads no file and has no clock.

use serde::Serialize;
use serde_json::Value;

use super::hosts::HostsNow;

/// How many notes are remembered.
const NOTES: usize = 50;

/// What a driver does at the moment. Of a driver that was killed it says what it did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveNow {
    /// When the run began.
    pub began: Option<String>,
    /// What runs, the oldest first.
    pub jobs: Vec<LiveJob>,
    /// The checks of the base case run now.
    pub verifying: bool,
    /// What the checks of the base case came to, in the last evaluation or so far.
    pub checks: Vec<LiveCheck>,
    /// The newest notes.
    pub notes: Vec<String>,
    /// The hosts that do the jobs, if they are not done on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsNow>,
    /// The loop has halted.
    pub is_over: bool,
}

/// A worker, a probe, a check or the coordinator agent at work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveJob {
    /// `probe`, `work`, `check` or `replan`.
    pub task: String,
    pub atom: Option<String>,
    pub attempt: u64,
    /// When it began, as far as the record tells.
    pub since: Option<String>,
    /// What its agent does now.
    pub line: Option<String>,
    /// Why its work cannot land yet.
    pub waiting: Option<String>,
    /// How often its agent was asked to mend what is red.
    pub mends: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveCheck {
    pub item: String,
    pub outcome: String,
}

impl LiveNow {
    /// One more object. Those of types that are not known change nothing.
    pub fn see(&mut self, object: &Value) {
        let text = |key: &str| object[key].as_str().map(str::to_owned);
        match object["type"].as_str().unwrap_or_default() {
            "began" => *self = LiveNow { began: text("at"), ..LiveNow::default() },
            "started" => {
                let since = text("at");
                self.job(object).since = since;
            }
            "doing" => {
                let line = text("line");
                self.job(object).line = line;
            }
            "mends" => self.job(object).mends += 1,
            "waiting" => {
                let reason = match object["paths"].as_array() {
                    Some(paths) if !paths.is_empty() => {
                        paths.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                    }
                    _ => text("reason").unwrap_or_default(),
                };
                self.job(object).waiting = Some(reason);
            }
            "ended" | "killed" => self.jobs.retain(|job| !job.is_of(object)),
            "verifying" => {
                self.verifying = true;
                self.checks.clear();
            }
            "checked" => {
                let (item, outcome) = (text("item").unwrap_or_default(), text("outcome").unwrap_or_default());
                self.checks.push(LiveCheck { item, outcome });
            }
            "evaluated" => self.verifying = false,
            "note" => {
                self.notes.extend(text("text"));
                if self.notes.len() > NOTES {
                    self.notes.remove(0);
                }
            }
            "hosts" => self.hosts = serde_json::from_value(object.clone()).ok(),
            "halted" => {
                self.jobs.clear();
                self.hosts = None;
                self.verifying = false;
                self.is_over = true;
            }
            _ => {}
        }
    }

    /// The job that an object is about. Its start may have been forgotten.
    fn job(&mut self, object: &Value) -> &mut LiveJob {
        let place = self.jobs.iter().position(|job| job.is_of(object)).unwrap_or_else(|| {
            self.jobs.push(LiveJob {
                task: object["task"].as_str().unwrap_or_default().to_owned(),
                atom: object["atom"].as_str().map(str::to_owned),
                attempt: object["attempt"].as_u64().unwrap_or_default(),
                since: None,
                line: None,
                waiting: None,
                mends: 0,
            });
            self.jobs.len() - 1
        });
        &mut self.jobs[place]
    }
}

impl LiveJob {
    fn is_of(&self, object: &Value) -> bool {
        Some(self.task.as_str()) == object["task"].as_str()
            && self.atom.as_deref() == object["atom"].as_str()
            && Some(self.attempt) == object["attempt"].as_u64()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What runs after some objects: `began; started A1; doing A1 it reads` and so on, all of attempt 1.
    fn check(objects: &str, expected: &str) {
        let mut now = LiveNow::default();
        for words in objects.split("; ") {
            let mut words = words.splitn(3, ' ');
            let (kind, atom, rest) = (words.next(), words.next(), words.next());
            now.see(&json!({
                "type": kind, "task": "work", "atom": atom, "attempt": 1, "at": "then", "line": rest, "reason": rest,
                "item": atom, "outcome": rest, "text": rest,
            }));
        }
        let mut told: Vec<String> = now
            .jobs
            .iter()
            .map(|job| {
                let mut told = job.atom.clone().unwrap_or_default();
                told.extend(job.since.iter().map(|since| format!(" since {since}")));
                told.extend(job.line.iter().map(|line| format!(": {line}")));
                told.extend(job.waiting.iter().map(|waiting| format!(" waits: {waiting}")));
                told + &"+".repeat(job.mends as usize)
            })
            .collect();
        told.extend(now.checks.iter().map(|check| format!("{}={}", check.item, check.outcome)));
        told.extend(now.verifying.then(|| "verifying".to_owned()));
        told.extend(now.is_over.then(|| "over".to_owned()));
        assert_eq!(told.join(", "), expected, "{objects}");
    }

    #[test]
    fn what_goes_on_is_folded_from_the_record() {
        check("began", "");
        check("began; started A1; started A2", "A1 since then, A2 since then");
        check("started A1; doing A1 reads a.rs; doing A1 writes", "A1 since then: writes");
        check("started A1; mends A1; mends A1", "A1 since then++");
        check("started A1; waiting A1 a.rs", "A1 since then waits: a.rs");
        check("started A1; started A2; ended A1; killed A2", "");
        check("doing A3 goes on", "A3: goes on");
        check("verifying; checked tests pass", "tests=pass, verifying");
        check(
            "verifying; checked tests fail; evaluated; verifying; checked tests pass; evaluated",
            "tests=pass",
        );
        check("started A1; began", "");
        check("started A1; halted", "over");
        check("note; unknown A1", "");
    }
}
