//! The terminal: what it can show, the lines at its bottom that are drawn over, and lines typed by a person. Knows nothing
//! of loops.

use std::cell::RefCell;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use anstream::{AutoStream, ColorChoice};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

use crate::print;
use crate::text::{COLUMNS, harmless, plain, width, wrapped};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Whether this stream is a terminal whose user has not turned colour off.
pub fn colourful(stream: Stream) -> bool {
    let choice = match stream {
        Stream::Out => AutoStream::choice(&io::stdout()),
        Stream::Err => AutoStream::choice(&io::stderr()),
    };
    choice != ColorChoice::Never
}

/// Whether the locale can show more than ASCII, found as the C library does.
pub fn shows_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether live lines can be drawn: both streams are a terminal that can move its cursor. With standard output in a pipe,
/// they would be drawn among the output of the next program.
pub fn draws_live() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    !dumb && io::stderr().is_terminal() && io::stdout().is_terminal()
}

/// Sounds the bell of the terminal that shows errors, if it is one.
pub fn ring() {
    if io::stderr().is_terminal() {
        // A terminal that is gone needs no bell.
        let _ = io::stderr().write_all(b"\x07");
    }
}

/// Whether a person can answer questions here.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// A question that Enter answers with yes. Whoever leaves has said no.
pub fn says_yes(question: &str) -> bool {
    match read_line(&format!("{question} [Y/n] ")) {
        Typed::Line(line) => matches!(line.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"),
        Typed::Garbled | Typed::Interrupted | Typed::End => false,
    }
}

/// The width of the terminal, if there is one.
pub fn columns() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stderr())).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Nothing is readable in a narrower window.
const NARROWEST: usize = 40;

/// The room for a line on a page: as wide as the window, up to a width that is good to read. Elsewhere a page has that width.
pub fn page_columns() -> usize {
    let window = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if window == 0 { COLUMNS } else { window.clamp(NARROWEST, COLUMNS) }
}

/// The room for a live line, which must not wrap: drawing over it would leave its first half behind.
pub fn live_columns() -> usize {
    columns().unwrap_or(COLUMNS).min(COLUMNS) - 1
}

/// How many lines [`live`] has left on the screen, less one.
static ABOVE: AtomicUsize = AtomicUsize::new(0);

/// Draws over the live lines; none removes them. Each must fit into [`live_columns`].
pub fn live(lines: &[String]) {
    let above = ABOVE.swap(lines.len().saturating_sub(1), Ordering::Relaxed);
    let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
    // Progress is not needed on a terminal that is gone.
    let _ = write!(io::stderr(), "\r{up}\x1b[J{}", harmless(&lines.join("\n")));
}

/// Draws a page over the one before. In a pipe it is printed whenever it is another one.
pub fn page(text: &str, shown: &mut String) {
    if draws_live() {
        print::out(|stdout| write!(stdout, "\x1b[H\x1b[J{}", harmless(text)));
    } else if text != shown {
        print::out(|stdout| writeln!(stdout, "{}", harmless(text)));
    }
    text.clone_into(shown);
}

/// The terminal's settings, to be restored by a process that ends while a line is being edited.
#[derive(Debug)]
pub struct Settings(Option<Termios>);

impl Settings {
    pub fn save() -> Settings {
        Settings(tcgetattr(io::stdin()).ok())
    }

    pub fn restore(&self) {
        if let Some(settings) = &self.0 {
            // Without a terminal there is nothing to restore.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, settings);
        }
    }
}

/// A line that was typed, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// Without control characters, and without blanks around it.
    Line(String),
    /// Bytes that are not text in this locale.
    Garbled,
    Interrupted,
    End,
}

/// Reads lines with editing keys and a history. Where the terminal cannot move its cursor, or colour is off for a screen
/// reader, the terminal's own editing is used, and nothing but text is shown.
pub struct LineReader {
    editor: Option<RefCell<Editor<(), MemHistory>>>,
}

impl std::fmt::Debug for LineReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineReader").field("edits", &self.editor.is_some()).finish()
    }
}

impl LineReader {
    pub fn new() -> LineReader {
        let edits = colourful(Stream::Out) && shows_unicode() && is_interactive();
        let config = Config::builder().auto_add_history(true).build();
        let editor = if edits { Editor::with_history(config, MemHistory::new()).ok() } else { None };
        LineReader { editor: editor.map(RefCell::new) }
    }

    pub fn read(&self, prompt: &str) -> Typed {
        let Some(editor) = &self.editor else { return read_line(prompt) };
        match editor.borrow_mut().readline(prompt) {
            Ok(line) => Typed::Line(plain(&line).trim().to_owned()),
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => Typed::End,
        }
    }
}

/// A prompt that fits into the window, with words that are whole.
fn fitting(prompt: &str) -> String {
    let columns = page_columns();
    let lines = prompt.split('\n').map(|line| match width(line) <= columns {
        true => line.to_owned(),
        // The blank at the end of a prompt stays.
        false => wrapped(line, columns - 1).join("\n"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Asks, and reads one line as the terminal edits it.
pub fn read_line(prompt: &str) -> Typed {
    let prompt = fitting(prompt);
    print::out(|stdout| write!(stdout, "{prompt}"));
    let mut bytes = Vec::new();
    match io::stdin().lock().read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => Typed::End,
        Ok(_) => decoded(bytes, if shows_unicode() { Encoding::Unicode } else { Encoding::OneByte }),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Unicode,
    OneByte,
}

/// In a locale with one byte per letter, bytes that are not Unicode are letters.
fn decoded(bytes: Vec<u8>, encoding: Encoding) -> Typed {
    let text = match (String::from_utf8(bytes), encoding) {
        (Ok(text), _) => text,
        (Err(error), Encoding::OneByte) => error.into_bytes().into_iter().map(char::from).collect(),
        (Err(_), Encoding::Unicode) => return Typed::Garbled,
    };
    Typed::Line(plain(text.trim_end_matches(['\r', '\n'])).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_line_is_text_of_its_locale() {
        let line = |text: &str| Typed::Line(text.to_owned());
        assert_eq!(decoded("größer".into(), Encoding::OneByte), line("größer"));
        assert_eq!(decoded(b"gr\xf6\xdfer".to_vec(), Encoding::OneByte), line("größer"));
        assert_eq!(decoded(b"gr\xf6\xdfer".to_vec(), Encoding::Unicode), Typed::Garbled);
        assert_eq!(decoded(b"  a\x1b[Db\x1b[3~ \r\n".to_vec(), Encoding::Unicode), line("ab"));
        assert_eq!(decoded(b"\x1b[A\n".to_vec(), Encoding::Unicode), line(""));
    }
}
