//! What goes to standard output: one JSON object, or lines for people.

use std::io::{self, BufWriter, Write};

use serde_json::Value;

use crate::failure;

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
                out(|stdout| write!(stdout, "{}{end}", self.text));
            }
        }
    }
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
    out(|stdout| writeln!(stdout, "{text}"));
}

pub fn json(value: &Value) {
    out(|stdout| {
        serde_json::to_writer(&mut *stdout, value)?;
        writeln!(stdout)
    });
}
