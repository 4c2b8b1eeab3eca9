//! Turns an agent's message, which comes in pieces, into one line about what it does now and whole lines for the
//! transcript. Reports nothing twice, and knows no protocol.

use super::events::in_one_line;
use super::question::{AgentEvent, Listener};
use crate::plain_text;

/// Bytes of a line that are reported at a time.
const LONGEST: usize = 4 << 10;

pub(super) struct ProgressReporter<'l> {
    listener: Listener<'l>,
    /// The line of a message that has not ended.
    line: String,
    /// Whether the message has had a line that was reported as the activity.
    has_activity: bool,
    activity: String,
}

impl<'l> ProgressReporter<'l> {
    pub fn new(listener: Listener<'l>) -> ProgressReporter<'l> {
        ProgressReporter { listener, line: String::new(), has_activity: false, activity: String::new() }
    }

    /// A piece of a message.
    pub fn says(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') || self.line.len() > LONGEST {
                self.end_line();
            }
        }
    }

    /// Something else than a message, so the message has ended.
    pub fn does(&mut self, what: &str) {
        self.pause();
        let what = in_one_line(what);
        if !what.is_empty() && what != self.activity {
            (self.listener)(AgentEvent::Activity(&what));
            self.activity = what;
        }
    }

    /// A tool could not do its work.
    pub fn tool_failed(&self, why: &str) {
        let why = in_one_line(&plain_text::text(why));
        if !why.is_empty() {
            (self.listener)(AgentEvent::ToolError(&why));
        }
    }

    /// A line of the transcript that is no message, and does not end one.
    pub fn note(&self, line: &str) {
        let line = &line[..line.floor_char_boundary(LONGEST)];
        (self.listener)(AgentEvent::Text(&format!("{}\n", plain_text::text(line).trim_end())));
    }

    /// The message has ended, as far as it came.
    pub fn pause(&mut self) {
        if !self.line.is_empty() {
            self.line.push('\n');
            self.end_line();
        }
        self.has_activity = false;
    }

    fn end_line(&mut self) {
        let line = plain_text::text(&std::mem::take(&mut self.line));
        let doing = in_one_line(&line);
        if self.has_activity || doing.is_empty() {
            (self.listener)(AgentEvent::Text(&line));
            return;
        }
        self.has_activity = true;
        (self.listener)(AgentEvent::Activity(&doing));
        if doing.ends_with('…') {
            (self.listener)(AgentEvent::Text(&line));
        }
        self.activity = doing;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn check(report: impl Fn(&mut ProgressReporter<'_>), expected: &[&str]) {
        let events = Mutex::new(Vec::new());
        let listener = |event: AgentEvent<'_>| {
            events.lock().expect("no panic").push(match event {
                AgentEvent::Activity(line) => format!("> {line}"),
                AgentEvent::Text(text) => text.to_owned(),
                AgentEvent::ToolError(line) => format!("! {line}"),
                AgentEvent::Usage(used) => format!("{used:?}"),
            });
        };
        report(&mut ProgressReporter::new(&listener));
        assert_eq!(events.into_inner().expect("no panic"), expected);
    }

    #[test]
    fn lines_are_whole_and_the_first_is_the_activity() {
        check(
            |progress| {
                ["I lo", "ok at", " it.\nThen", " I\n", "\nwrite"]
                    .iter()
                    .for_each(|part| progress.says(part));
                progress.does("Write\tsrc/a.rs");
                progress.does("Write src/a.rs");
                progress.says("Do");
                progress.note("\u{1b}]0;title\u{7}\u{1b}[31mrefused\u{1b}[0m: \u{7}rm\u{1b}");
                progress.says("ne.");
                progress.pause();
            },
            &["> I look at it.", "Then I\n", "\n", "write\n", "> Write src/a.rs", "refused: rm\n", "> Done."],
        );
    }

    #[test]
    fn a_line_without_end_is_reported_in_pieces() {
        check(
            |progress| progress.says(&"ä".repeat(3000)),
            &[&format!("> {}…", "ä".repeat(160)), &"ä".repeat(3000)],
        );
    }
}
