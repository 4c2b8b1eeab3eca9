//! What goes to standard output: one JSON object, or lines for people.

use std::io::{self, BufWriter, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use crate::failure;
use crate::text;

/// What the user asked for: text for people, or with `--json` one object for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    Text,
    Json,
}

/// What a verb answers. Only the half that was asked for has to be there: see [`Answer::lazy`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub text: String,
    pub json: Value,
    /// What people read beside the text, on standard error; programs find it in the object.
    pub warnings: Vec<String>,
    pub exit: u8,
}

impl Answer {
    pub fn new(text: impl Into<String>, json: Value) -> Answer {
        Answer { text: text.into(), json, ..Answer::default() }
    }

    /// Makes only the half that is printed, because a large state costs time to draw.
    pub fn lazy(format: OutputFormat, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) -> Answer {
        match format {
            OutputFormat::Text => Answer::new(text(), Value::Null),
            OutputFormat::Json => Answer::new("", json()),
        }
    }

    /// For verbs that have printed what they had to say while they ran.
    pub fn printed() -> Answer {
        Answer::default()
    }

    pub fn with_exit(self, exit: u8) -> Answer {
        Answer { exit, ..self }
    }

    pub fn with_warnings(self, warnings: Vec<String>) -> Answer {
        Answer { warnings, ..self }
    }

    pub fn print(&self, format: OutputFormat) {
        match format {
            OutputFormat::Json if self.json.is_null() => {}
            OutputFormat::Json => json(&self.json),
            OutputFormat::Text => {
                self.warnings.iter().for_each(|warning| failure::complain(warning));
                let end = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
                out(|stdout| write!(stdout, "{}{end}", text::harmless(&self.text)));
            }
        }
    }
}

/// Whether standard output still has a reader: what follows a loop ends with it.
pub fn is_heard() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let left = poll(&mut asked, Some(&Timespec::default())).is_ok_and(|count| count > 0);
    !(left && asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

/// Writes to standard output in one piece. A reader that has gone away is no failure of ours.
pub fn out(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let written = write(&mut stdout).and_then(|()| stdout.flush());
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // Nothing is left to tell it with but the exit code's own channel.
        let _ = writeln!(io::stderr(), "error: cannot write to standard output: {error}");
    }
}

pub fn line(text: &str) {
    out(|stdout| writeln!(stdout, "{}", text::harmless(text)));
}

pub fn json(value: &Value) {
    out(|stdout| {
        value.serialize(&mut Serializer::with_formatter(&mut *stdout, Harmless))?;
        writeln!(stdout)
    });
}

/// JSON in which every character that a terminal would act upon is escaped, not only those that JSON forbids.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(text::commands_terminal) {
            let c = rest[at..].chars().next().expect("one was found");
            writer.write_all(&rest.as_bytes()[..at])?;
            // All of them are below U+10000.
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_character_that_a_terminal_obeys() {
        let value = serde_json::json!({"a\u{202e}": "x\u{9b}31m\u{7f}\n\u{1b}[2J \u{2028}ü\"\\"});
        let mut written = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut written, Harmless)).expect("written");
        let text = String::from_utf8(written).expect("text");
        assert_eq!(text, r#"{"a\u202e":"x\u009b31m\u007f\n\u001b[2J \u2028ü\"\\"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
