//! Questions to the person at the terminal, line by line. Pages are printed and never drawn over, so that they are the same
//! without colour, in a narrow window and for a screen reader. A person who leaves has changed nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{self, Failure, FailureKind};
use crate::place;
use crate::print;
use crate::screens::ink::{Ink, Paint};
use crate::terminal::{self, LineReader, Settings, Stream, Typed};
use crate::text::{self, COLUMNS};

/// How often a question is asked again after an answer that makes no sense.
const ASKED_AGAIN: usize = 20;

/// The exit code after an interrupt.
const INTERRUPTED: i32 = 130;

/// Nothing is readable in a narrower window.
const NARROWEST: usize = 40;

pub struct Dialogue {
    ink: Ink,
    lines: LineReader,
    /// Another program, such as an editor, has the terminal and its interrupts.
    lent: Arc<AtomicBool>,
    /// Ends the process with nothing changed.
    leave: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Dialogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialogue").field("ink", &self.ink).field("lines", &self.lines).finish_non_exhaustive()
    }
}

impl Dialogue {
    /// Ctrl-C, a closed terminal and a request to end call `leaving`, print `left` and end the process.
    pub fn open(left: &'static str, leaving: impl Fn() + Send + Sync + 'static) -> Result<Dialogue, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| Failure::world("listen to signals", error))?;
        let settings = Settings::save();
        let leave: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            settings.restore();
            leaving();
            failure::complain(&format!("\n{left}"));
            place::leave();
            std::process::exit(INTERRUPTED);
        });
        let lent = Arc::new(AtomicBool::new(false));
        let (elsewhere, leave_on_signal) = (Arc::clone(&lent), Arc::clone(&leave));
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if signal != SIGINT || !elsewhere.load(Ordering::Acquire) {
                    leave_on_signal();
                }
            }
        });
        Ok(Dialogue { ink: Ink::of(Stream::Out), lines: LineReader::new(), lent, leave })
    }

    /// Lends the terminal to a program of the person's, such as an editor.
    pub fn undisturbed<T>(&self, run: impl FnOnce() -> T) -> T {
        self.lent.store(true, Ordering::Release);
        let ran = run();
        self.lent.store(false, Ordering::Release);
        ran
    }

    pub fn ink(&self) -> Ink {
        self.ink
    }

    /// The width of a page: that of the window now, within limits.
    pub fn columns(&self) -> usize {
        terminal::columns().unwrap_or(COLUMNS).clamp(NARROWEST, COLUMNS)
    }

    pub fn say(&self, text: &str) {
        print::line(&self.ink.shown(text));
    }

    /// Prints a text wrapped to the window.
    pub fn tell(&self, text: &str) {
        for line in text.lines() {
            text::wrapped(line, self.columns()).iter().for_each(|line| self.say(line));
        }
    }

    /// A line in answer to a question; Enter alone takes what is suggested.
    pub fn ask(&self, question: &str, suggested: Option<&str>) -> Result<String, Failure> {
        self.tell(question);
        if let Some(suggested) = suggested.filter(|suggested| !suggested.is_empty()) {
            let shown = text::fit(&suggested.replace('\n', "; "), self.columns() - 9);
            self.say(&self.ink.paint(Paint::Dim, &format!("  Enter: {shown}")));
        }
        for _ in 0..ASKED_AGAIN {
            match self.line("> ")? {
                line if !line.is_empty() => return Ok(line),
                _ => match suggested {
                    Some(suggested) => return Ok(suggested.to_owned()),
                    None => self.say("  An answer is needed; Ctrl-C leaves and changes nothing."),
                },
            }
        }
        Err(gone())
    }

    /// Lines until an empty one.
    pub fn ask_for_several(&self, question: &str) -> Result<Vec<String>, Failure> {
        self.tell(question);
        let mut lines = Vec::new();
        loop {
            match self.line("> ")? {
                line if line.is_empty() => return Ok(lines),
                line => lines.push(line),
            }
        }
    }

    /// One of a few words, or the beginning of one.
    pub fn choose<T: Copy>(&self, question: &str, words: &[(&str, T)]) -> Result<T, Failure> {
        let listed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("/");
        for _ in 0..ASKED_AGAIN {
            self.tell(question);
            let typed = self.line(&format!("[{listed}] "))?.to_lowercase();
            let chosen = words.iter().find(|(word, _)| !typed.is_empty() && word.starts_with(&typed));
            match chosen {
                Some((_, chosen)) => return Ok(*chosen),
                None => self.say(&format!("  Type one of these words: {}.", listed.replace('/', ", "))),
            }
        }
        Err(gone())
    }

    fn line(&self, prompt: &str) -> Result<String, Failure> {
        for _ in 0..ASKED_AGAIN {
            match self.lines.read(&self.ink.shown(prompt)) {
                Typed::Line(line) => return Ok(line),
                Typed::Garbled => self.say("  These bytes are not text in this locale; type it again:"),
                Typed::Interrupted => (self.leave)(),
                Typed::End => return Err(gone()),
            }
        }
        Err(gone())
    }
}

/// The person at the terminal has left, and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("the terminal was closed; nothing was changed")]
pub struct PersonLeft;

fn gone() -> Failure {
    place::leave();
    Failure::new(FailureKind::Interrupted, "gone_away", PersonLeft).with_hint("give the command again")
}
