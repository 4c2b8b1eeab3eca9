//! Questions to the person at the terminal, line by line. Pages are printed and never drawn over, so that they are the same
//! without colour, in a narrow window and for a screen reader. A person who leaves has changed nothing.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aot_runner::answers::TypedAnswers;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{self, Failure, FailureKind};
use crate::place;
use crate::print;
use crate::screens::ink::{Ink, Paint};
use crate::terminal::{self, LineReader, Settings, Stream, Typed};
use crate::text;

/// How often a question is asked again after an answer that makes no sense.
const ASKED_AGAIN: usize = 20;

/// The exit code after an interrupt.
const INTERRUPTED: i32 = 130;

pub struct Dialogue {
    ink: Ink,
    lines: LineReader,
    /// Another program, such as an editor, has the terminal and its interrupts.
    lent: Arc<AtomicBool>,
    /// Ends the process with nothing changed.
    leave: Arc<dyn Fn() + Send + Sync>,
    typed: RefCell<TypedAnswers>,
    /// Whether the word `back` gives the questions up that are being asked.
    goes_back: Cell<bool>,
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
        Ok(Dialogue {
            ink: Ink::of(Stream::Out),
            lines: LineReader::new(),
            lent,
            leave,
            typed: RefCell::default(),
            goes_back: Cell::new(false),
        })
    }

    /// Offers what was typed in a dialogue that was left, and keeps what is typed now.
    pub fn remember(&self, typed: TypedAnswers) {
        if !typed.is_empty() {
            self.tell("Your answers from last time are suggested again; Enter takes them.");
        }
        self.typed.replace(typed);
    }

    /// The dialogue has come to its end: nothing of it is offered again.
    pub fn forget(&self) {
        self.typed.borrow_mut().forget();
    }

    /// The same questions come again, each with what was just answered.
    pub fn offer_again(&self) {
        self.typed.borrow_mut().offer_again();
    }

    /// Questions in which the word `back` leads to what came before them: then it is `None`.
    pub fn or_back<T>(&self, ask: impl FnOnce() -> Result<T, Failure>) -> Result<Option<T>, Failure> {
        let outside = self.goes_back.replace(true);
        let asked = ask();
        self.goes_back.set(outside);
        match asked {
            Err(failure) if failure.error::<WentBack>().is_some() => Ok(None),
            asked => asked.map(Some),
        }
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
        terminal::page_columns()
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
        self.ask_about(question, question, suggested)
    }

    /// The same where the words before the prompt are not what the answer is remembered by.
    pub fn ask_about(
        &self,
        subject: &str,
        question: &str,
        suggested: Option<&str>,
    ) -> Result<String, Failure> {
        let before = self.typed.borrow_mut().take(subject.trim());
        let suggested = before.as_deref().or(suggested);
        self.tell(question);
        self.suggest(suggested);
        for _ in 0..ASKED_AGAIN {
            let line = self.line("> ")?;
            match suggested {
                _ if line.eq_ignore_ascii_case(HELP) => self.help(question, suggested),
                _ if !line.is_empty() => return Ok(self.keep(subject, line)),
                Some(suggested) if before.is_some() => return Ok(self.keep(subject, suggested.to_owned())),
                Some(suggested) => return Ok(suggested.to_owned()),
                None => self.tell(&format!("  Required: {}.", self.ways_out())),
            }
        }
        // Whoever can go back loses nothing of what was said before.
        Err(if self.goes_back.get() { went_back() } else { gone() })
    }

    /// Lines until an empty one.
    pub fn ask_for_several(&self, question: &str) -> Result<Vec<String>, Failure> {
        let before = self.typed.borrow_mut().take(question.trim());
        self.tell(question);
        self.suggest(before.as_deref());
        let mut lines = Vec::new();
        loop {
            let line = self.line("> ")?;
            if line.eq_ignore_ascii_case(HELP) {
                self.help(question, before.as_deref());
                continue;
            }
            if !line.is_empty() {
                lines.push(line);
                continue;
            }
            let all = match before {
                Some(before) if lines.is_empty() => before,
                _ => lines.join("\n"),
            };
            return Ok(self.keep(question, all).lines().map(str::to_owned).collect());
        }
    }

    /// The question again, and how it can be answered or left.
    fn help(&self, question: &str, suggested: Option<&str>) {
        self.tell(question);
        let enter = if suggested.is_some() { "Enter takes what is suggested; " } else { "" };
        self.tell(&format!("  Type the answer. {enter}{}.", self.ways_out()));
        self.suggest(suggested);
    }

    fn ways_out(&self) -> &'static str {
        match self.goes_back.get() {
            true => "`back` returns to what came before; Ctrl-C leaves and changes nothing",
            false => "Ctrl-C leaves and changes nothing",
        }
    }

    fn suggest(&self, suggested: Option<&str>) {
        if let Some(suggested) = suggested.filter(|suggested| !suggested.is_empty()) {
            let shown = text::fit(&suggested.replace('\n', "; "), self.columns() - 9);
            self.say(&self.ink.paint(Paint::Dim, &format!("  Enter: {shown}")));
        }
    }

    fn keep(&self, question: &str, answer: String) -> String {
        // An answer that cannot be kept is typed again after a Ctrl-C, as it was before.
        let _ = self.typed.borrow_mut().keep(question.trim(), &answer);
        answer
    }

    /// One of a few words, or the beginning of one.
    pub fn choose<T: Copy>(&self, question: &str, words: &[(&str, T)]) -> Result<T, Failure> {
        let listed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join("/");
        let prompt = format!("[{listed}] ");
        // A prompt that does not fit would be broken in the middle of a word.
        let (above, prompt) = match text::width(&prompt) + ANSWER > self.columns() {
            true => (Some(listed.replace('/', ", ")), "> "),
            false => (None, prompt.as_str()),
        };
        for _ in 0..ASKED_AGAIN {
            self.tell(question);
            above.iter().for_each(|words| self.tell(&format!("[{words}]")));
            let typed = self.line(prompt)?.to_lowercase();
            let chosen = words.iter().find(|(word, _)| !typed.is_empty() && word.starts_with(&typed));
            match chosen {
                Some((_, chosen)) => return Ok(*chosen),
                None => self.tell(&format!("  Type one of these words: {}.", listed.replace('/', ", "))),
            }
        }
        Err(gone())
    }

    fn line(&self, prompt: &str) -> Result<String, Failure> {
        for _ in 0..ASKED_AGAIN {
            match self.lines.read(&self.ink.shown(prompt)) {
                Typed::Line(line) if self.goes_back.get() && line.eq_ignore_ascii_case(BACK) => {
                    return Err(went_back());
                }
                Typed::Line(line) => return Ok(line),
                Typed::Garbled => self.say("  These bytes are not text in this locale; type it again:"),
                Typed::Interrupted => (self.leave)(),
                Typed::End => return Err(gone()),
            }
        }
        Err(gone())
    }
}

/// The word that leads to the question before.
const BACK: &str = "back";

/// The word that says how a question can be answered.
const HELP: &str = "help";

/// Columns that are left for the word after a prompt.
const ANSWER: usize = 10;

fn went_back() -> Failure {
    Failure::new(FailureKind::Interrupted, BACK, WentBack)
}

/// The person wants to see the question before again.
#[derive(Debug, thiserror::Error)]
#[error("there is nothing to go back to")]
struct WentBack;

/// The person at the terminal has left, and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("the terminal was closed; nothing was changed")]
pub struct PersonLeft;

fn gone() -> Failure {
    place::leave();
    Failure::new(FailureKind::Interrupted, "gone_away", PersonLeft).with_hint("give the command again")
}
