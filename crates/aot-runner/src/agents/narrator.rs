//! Tells what an agent does from words that come in pieces: one line about now, and the rest in whole lines. Nothing is
//! told twice. Knows no protocol.

use super::listen::in_one_line;
use super::question::AgentEvent;

/// Of a line so much is told at a time.
const LONGEST: usize = 4 << 10;

pub(super) struct Narrator<'h> {
    hear: &'h (dyn Fn(AgentEvent<'_>) + Sync),
    /// The line of a message that has not ended.
    line: String,
    /// Whether the message has had a line that was told as what is done now.
    told: bool,
    doing: String,
}

impl<'h> Narrator<'h> {
    pub fn new(hear: &'h (dyn Fn(AgentEvent<'_>) + Sync)) -> Narrator<'h> {
        Narrator { hear, line: String::new(), told: false, doing: String::new() }
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

    /// Something else than a message, which has ended therefore.
    pub fn does(&mut self, what: &str) {
        self.pause();
        let what = in_one_line(what);
        if !what.is_empty() && what != self.doing {
            (self.hear)(AgentEvent::Activity(&what));
            self.doing = what;
        }
    }

    /// A line of the transcript that is no message, and does not end one.
    pub fn note(&self, line: &str) {
        let line = &line[..line.floor_char_boundary(LONGEST)];
        (self.hear)(AgentEvent::Text(&format!("{}\n", without_colours(line).trim_end())));
    }

    /// The message has ended, as far as it came.
    pub fn pause(&mut self) {
        if !self.line.is_empty() {
            self.line.push('\n');
            self.end_line();
        }
        self.told = false;
    }

    fn end_line(&mut self) {
        let line = without_colours(&std::mem::take(&mut self.line));
        let doing = in_one_line(&line);
        if self.told || doing.is_empty() {
            (self.hear)(AgentEvent::Text(&line));
            return;
        }
        self.told = true;
        (self.hear)(AgentEvent::Activity(&doing));
        if doing.ends_with('…') {
            (self.hear)(AgentEvent::Text(&line));
        }
        self.doing = doing;
    }
}

/// Text without what moves and colours a terminal.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => {
                let is_sequence = rest.next() == Some('[');
                // It ends with a letter, and numbers come before.
                if is_sequence {
                    rest.find(|c| ('@'..='~').contains(c));
                }
            }
            '\n' | '\t' => plain.push(c),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn check(tell: impl Fn(&mut Narrator<'_>), expected: &[&str]) {
        let heard = Mutex::new(Vec::new());
        let hear = |piece: AgentEvent<'_>| {
            heard.lock().expect("nobody panics").push(match piece {
                AgentEvent::Activity(line) => format!("> {line}"),
                AgentEvent::Text(text) => text.to_owned(),
                AgentEvent::Usage(used) => format!("{used:?}"),
            });
        };
        tell(&mut Narrator::new(&hear));
        assert_eq!(heard.into_inner().expect("nobody panics"), expected);
    }

    #[test]
    fn lines_are_whole_and_the_first_is_what_it_does() {
        check(
            |narrator| {
                ["I lo", "ok at", " it.\nThen", " I\n", "\nwrite"]
                    .iter()
                    .for_each(|part| narrator.says(part));
                narrator.does("Write\tsrc/a.rs");
                narrator.does("Write src/a.rs");
                narrator.says("Do");
                narrator.note("\u{1b}[31mrefused\u{1b}[0m: \u{7}rm\u{1b}");
                narrator.says("ne.");
                narrator.pause();
            },
            &["> I look at it.", "Then I\n", "\n", "write\n", "> Write src/a.rs", "refused: rm\n", "> Done."],
        );
    }

    #[test]
    fn what_has_no_end_is_told_in_pieces() {
        check(
            |narrator| narrator.says(&"ä".repeat(3000)),
            &[&format!("> {}…", "ä".repeat(160)), &"ä".repeat(3000)],
        );
    }
}
