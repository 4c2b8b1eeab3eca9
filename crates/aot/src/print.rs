//! What goes to standard output: one JSON object, or lines for people.

use std::io::{self, BufRead, BufWriter, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Where a text will stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Whether this stream is a terminal that shows colour.
pub fn colourful(stream: Stream) -> bool {
    let off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let watched = match stream {
        Stream::Out => io::stdout().is_terminal(),
        Stream::Err => io::stderr().is_terminal(),
    };
    !off && !dumb && watched
}

/// Whether the locale says that more than ASCII can be shown. It is asked for as the C library does.
pub fn shows_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether standard error is a terminal on which a line can be written over.
pub fn is_watched() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && io::stderr().is_terminal()
}

/// Whether a person at a terminal can answer.
pub fn is_answered() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Asks, and gives the line that was typed; `None` at the end of the input.
pub fn question(text: &str) -> Option<String> {
    match read_line(text) {
        TypedLine::Text(line) => Some(line),
        TypedLine::End | TypedLine::NotText => None,
    }
}

/// A line that a person typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedLine {
    /// Without the escape sequences of other keys, and without blanks around it.
    Text(String),
    /// Bytes that are no text in this locale.
    NotText,
    /// The end of the input.
    End,
}

/// Prints a prompt, and reads one line.
pub fn read_line(prompt: &str) -> TypedLine {
    out(|stdout| write!(stdout, "{prompt}"));
    let mut bytes = Vec::new();
    match io::stdin().lock().read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => TypedLine::End,
        Ok(_) => {
            let encoding = if shows_unicode() { Encoding::Utf8 } else { Encoding::SingleByte };
            decoded(bytes, encoding).map_or(TypedLine::NotText, |line| TypedLine::Text(typed(&line)))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    SingleByte,
}

/// Bytes as text. In a locale with one byte for each letter, bytes that are no UTF-8 are such letters.
fn decoded(bytes: Vec<u8>, encoding: Encoding) -> Option<String> {
    match (String::from_utf8(bytes), encoding) {
        (Ok(text), _) => Some(text),
        (Err(error), Encoding::SingleByte) => Some(error.into_bytes().into_iter().map(char::from).collect()),
        (Err(_), Encoding::Utf8) => None,
    }
}

/// A line without what arrows and other keys leave behind in it.
fn typed(line: &str) -> String {
    plain(line.trim_end_matches(['\r', '\n'])).trim().to_owned()
}

/// How wide the terminal is, if this is one.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// How many lines [`live`] has left on the screen, less one.
static ABOVE: AtomicUsize = AtomicUsize::new(0);

/// Writes over the lines that say what is going on; none takes them away.
pub fn live(lines: &[String]) {
    let above = ABOVE.swap(lines.len().saturating_sub(1), Ordering::Relaxed);
    let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
    // A terminal that has gone away needs no progress.
    let _ = write!(io::stderr(), "\r{up}\x1b[J{}", lines.join("\n"));
}

/// A line as a terminal would have left it: without colours and other sequences, after the last carriage return.
pub fn plain(line: &str) -> String {
    let line = line.trim_end().rsplit('\r').next().unwrap_or_default();
    let mut plain = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                // Up to and with the letter that ends the sequence.
                for c in chars.by_ref() {
                    if ('@'..='~').contains(&c) {
                        break;
                    }
                }
            }
            '\t' => plain.push_str("  "),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// What is drawn for people is this wide at most.
pub const COLUMNS: usize = 80;

/// A text cut to so many columns, with an ellipsis where it was cut; line breaks become spaces.
pub fn fit(text: &str, columns: usize) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if flat.chars().count() <= columns {
        return flat;
    }
    let cut: String = flat.chars().take(columns.saturating_sub(1)).collect();
    cut.trim_end().to_owned() + "…"
}

/// Words in lines of so many columns.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > columns {
            lines.push(fit(word, columns));
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&fit(word, columns));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Encoding, decoded, plain, typed, wrapped};

    #[test]
    fn a_typed_line_is_text_of_its_locale() {
        let said = |bytes: &[u8], encoding| decoded(bytes.to_vec(), encoding);
        assert_eq!(said("größer".as_bytes(), Encoding::SingleByte).as_deref(), Some("größer"));
        assert_eq!(said(b"gr\xf6\xdfer", Encoding::SingleByte).as_deref(), Some("größer"));
        assert_eq!(said(b"gr\xf6\xdfer", Encoding::Utf8), None);
        assert_eq!(typed("  a\x1b[Db\x1b[3~ \r\n"), "ab");
        assert_eq!(typed("\x1b[A\n"), "");
    }

    #[test]
    fn lines_of_others_are_made_plain() {
        for (line, expected) in [
            ("plain", "plain"),
            ("\x1b[1;31mred\x1b[0m and \x1b[2Kgone", "red and gone"),
            ("10%\r50%\r100%\r\n", "100%"),
            ("a\tb\x07", "a  b"),
            ("cut \x1b[3", "cut "),
        ] {
            assert_eq!(plain(line), expected, "{line:?}");
        }
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
    }
}
