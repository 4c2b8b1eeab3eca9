//! Questions to whoever sits at the terminal, line by line: the terminal's own editing, no drawing over, so that it is the
//! same without colour, in a narrow window and for a reader of screens. Whoever goes away has changed nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{self, Failure, FailureKind};
use crate::place;
use crate::print::{self, COLUMNS, Stream, TypedLine};
use crate::screens::ink::{Ink, Paint};

/// So often a line that makes no sense is asked for again.
const ASKED_AGAIN: usize = 20;

/// The exit code of whoever was interrupted.
const INTERRUPTED: i32 = 130;

/// Narrower than this nothing can be read anyway.
const NARROWEST: usize = 40;

/// A person who can be asked.
#[derive(Debug)]
pub struct Dialogue {
    ink: Ink,
    /// Somebody else has the terminal, and its interrupts are theirs.
    lent: Arc<AtomicBool>,
}

impl Dialogue {
    /// Begins to listen: Ctrl-C, a closed terminal and a wish to end leave everything as it was.
    /// `leaving` is done before the end.
    pub fn open(left: &'static str, leaving: impl Fn() + Send + 'static) -> Result<Dialogue, Failure> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| Failure::world("listen to signals", error))?;
        let lent = Arc::new(AtomicBool::new(false));
        let elsewhere = Arc::clone(&lent);
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if signal == SIGINT && elsewhere.load(Ordering::Acquire) {
                    continue;
                }
                leaving();
                failure::complain(&format!("\n{left}"));
                place::leave();
                std::process::exit(INTERRUPTED);
            }
        });
        Ok(Dialogue { ink: Ink::of(Stream::Out), lent })
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

    /// How wide a page is: as the window is now, and never wider than a page.
    pub fn columns(&self) -> usize {
        print::columns().unwrap_or(COLUMNS).clamp(NARROWEST, COLUMNS)
    }

    pub fn say(&self, text: &str) {
        print::line(&self.ink.shown(text));
    }

    /// Words of ours, in lines.
    pub fn tell(&self, text: &str) {
        for line in text.lines() {
            print::wrapped(line, self.columns()).iter().for_each(|line| self.say(line));
        }
    }

    /// A line in answer to a question; Enter alone takes what is suggested.
    pub fn ask(&self, question: &str, suggested: Option<&str>) -> Result<String, Failure> {
        self.tell(question);
        if let Some(suggested) = suggested.filter(|suggested| !suggested.is_empty()) {
            let shown = print::fit(&suggested.replace('\n', "; "), self.columns() - 9);
            self.say(&self.ink.paint(Paint::Dim, &format!("  Enter: {shown}")));
        }
        for _ in 0..ASKED_AGAIN {
            match self.line("> ")? {
                line if !line.is_empty() => return Ok(line),
                _ => match suggested {
                    Some(suggested) => return Ok(suggested.to_owned()),
                    None => self.say("  Something has to stand here; Ctrl-C leaves everything as it was."),
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

    /// One of a few words; its first letter is enough. Enter alone takes the first, unless a word is wanted.
    pub fn choose<T: Copy>(&self, question: &str, words: &[(&str, T)]) -> Result<T, Failure> {
        let listed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("/");
        for _ in 0..ASKED_AGAIN {
            self.tell(question);
            let said = self.line(&format!("[{listed}] "))?.to_lowercase();
            let meant =
                words.iter().find(|(word, _)| *word == said || (!said.is_empty() && word.starts_with(&said)));
            match meant {
                Some((_, meant)) => return Ok(*meant),
                None => self.say(&format!("  One of these words is wanted: {}.", listed.replace('/', ", "))),
            }
        }
        Err(gone())
    }

    fn line(&self, prompt: &str) -> Result<String, Failure> {
        for _ in 0..ASKED_AGAIN {
            match print::read_line(&self.ink.shown(prompt)) {
                TypedLine::Text(line) => return Ok(line),
                TypedLine::NotText => self.say("  That is no text of this terminal's alphabet; once more:"),
                TypedLine::End => return Err(gone()),
            }
        }
        Err(gone())
    }
}

/// The person at the terminal has left, and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("nobody answers any more; nothing was changed")]
pub struct PersonLeft;

fn gone() -> Failure {
    place::leave();
    Failure::new(FailureKind::Interrupted, "gone_away", PersonLeft).with_hint("give the command again")
}
