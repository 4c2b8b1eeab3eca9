//! `aot watch`: the loop on a terminal's whole screen. Reads what the driver writes, draws it again when it changes, and turns
//! keys into verbs; decides nothing.

mod look;

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use aot_core::rules::certificate::Certificate;
use aot_core::state::{AtomId, LoopStatus, State};
use aot_runner::host;
use aot_runner::live::ChangePoll;
use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use self::look::LoopReader;
use super::stop::StopArgs;
use super::{Invocation, Verb};
use crate::failure::{Failure, FailureKind};
use crate::full_screen::{FullScreen, ScreenEnd};
use crate::place;
use crate::print::{self, Answer, OutputFormat};
use crate::screens::ink::Ink;
use crate::screens::run;
use crate::screens::watch::page::{self, OpenPage, PagePosition, Subject};
use crate::screens::watch::place::{Action, ScreenPlace, StopWhen};
use crate::screens::watch::{Watched, draw, panes};
use crate::terminal::{self, Stream, Typed};

/// How long a key is waited for before the files are looked at again.
const WAIT: Duration = Duration::from_millis(40);

/// Times are drawn anew so often.
const SECOND: Duration = Duration::from_secs(1);

/// Reading takes at most this share of the time, however much is written.
const SHARE: u32 = 4;

/// The exit code after a signal.
const INTERRUPTED: u8 = 130;

/// Watch the loop on the whole screen, and steer it by keys: `?` shows them
///
/// Shows the graph, what each agent does now, the checks and the log, of a loop that runs or does not. `q` leaves, and the loop
/// goes on. Without a terminal, `aot status --watch` shows the same line by line.
#[derive(Debug, Args)]
pub struct WatchArgs {}

impl Verb for WatchArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        require_terminal(invocation)?;
        match watch(invocation, Until::Left)? {
            Left::ByKey => Ok(Answer::printed()),
            Left::ByEnd | Left::Halted(_) => Ok(Answer::printed().with_exit(INTERRUPTED)),
        }
    }
}

/// Whether the loop's end is the end of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Left,
    Halted,
}

/// How it ended.
#[derive(Debug)]
enum Left {
    ByKey,
    /// The terminal is gone, or a signal came.
    ByEnd,
    Halted(Box<Halt>),
}

/// What is told of a loop that has halted.
#[derive(Debug)]
struct Halt {
    /// Absent if its driver was killed.
    certificate: Option<Certificate>,
    state: State,
    took: Duration,
}

pub fn require_terminal(invocation: &Invocation) -> Result<(), Failure> {
    if invocation.format == OutputFormat::Text && terminal::is_interactive() && terminal::draws_live() {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Usage, "no_terminal", "the screen needs a terminal")
        .with_hint("without one: aot status --watch (with --json: an object for each change)"))
}

/// Shows a run that has just begun until it halts, and tells the end below the screen.
pub fn to_the_end(invocation: &Invocation) -> Result<Answer, Failure> {
    let halt = match watch(invocation, Until::Halted)? {
        Left::ByKey => return Ok(Answer::printed()),
        Left::ByEnd => return Ok(Answer::printed().with_exit(INTERRUPTED)),
        Left::Halted(halt) => halt,
    };
    let Halt { certificate, state, took } = *halt;
    let Some(certificate) = certificate else {
        let message = "the process that drove the loop is gone";
        return Err(Failure::refused("driver_gone", message).with_hint("`aot run` takes the loop up again"));
    };
    let lines = run::halt(Ink::of(Stream::Out), &certificate, &state, None, took);
    Ok(Answer::new(lines.join("\n"), Value::Null).with_exit(certificate.exit))
}

/// Shows the loop on the whole screen.
fn watch(invocation: &Invocation, until: Until) -> Result<Left, Failure> {
    let mut reader = LoopReader::open(invocation)?;
    let watched = reader.look()?;
    let screen = FullScreen::open().map_err(|error| Failure::world("take the terminal", error))?;
    let mut watching = Watching {
        changes: ChangePoll::of(reader.store.file().home()),
        reader,
        watched,
        place: ScreenPlace::new(),
        screen,
        ink: Ink::of(Stream::Out),
        asked: None,
        until,
    };
    let left = watching.run();
    let goes_on = watching.watched.view.status == LoopStatus::Running;
    drop(watching);
    if goes_on && matches!(left, Left::ByKey) {
        print::line("the loop goes on; `aot watch` shows it again, `aot stop` ends it");
    }
    Ok(left)
}

/// A screen that is shown.
struct Watching<'i> {
    reader: LoopReader<'i>,
    watched: Watched,
    place: ScreenPlace,
    screen: FullScreen,
    changes: ChangePoll,
    ink: Ink,
    /// A difference that git was asked for.
    asked: Option<Receiver<Result<(String, String), Failure>>>,
    until: Until,
}

impl Watching<'_> {
    fn run(&mut self) -> Left {
        let (mut looked, mut took) = (Instant::now(), Duration::ZERO);
        let (mut drawn, mut is_due) = (None::<Instant>, false);
        loop {
            match self.screen.ended() {
                Some(ScreenEnd::Lost | ScreenEnd::Asked) => return Left::ByEnd,
                None => {}
            }
            let mut is_new = self.take_difference();
            is_due |= self.changes.has_changed();
            if is_due && looked.elapsed() >= took * SHARE {
                let began = Instant::now();
                self.look();
                (looked, took) = (Instant::now(), began.elapsed());
                (is_due, is_new) = (false, true);
            }
            if let Some(halt) = self.halt() {
                return Left::Halted(Box::new(halt));
            }
            let is_late = drawn.is_none_or(|drawn| drawn.elapsed() >= SECOND);
            if is_late {
                self.note_driver();
            }
            if is_new || is_late || self.screen.is_resized() {
                if self.screen.is_resized() {
                    self.fill_page();
                }
                self.draw();
                drawn = Some(Instant::now());
            }
            for key in self.screen.keys(WAIT) {
                drawn = None;
                let agents = panes::agents(&self.watched, Timestamp::now());
                match self.place.press(key, &self.watched, &agents) {
                    Action::None => {}
                    Action::Leave => return Left::ByKey,
                    Action::Open(subject) => self.open(subject),
                    Action::Stop(when) => self.stop(when),
                    Action::Confirm => self.lend(&["confirm"]),
                    Action::Redirect => self.lend(&["redirect"]),
                    Action::Suspend => self.screen.suspend(),
                    Action::Redraw => self.screen.redraw(),
                }
            }
        }
    }

    /// Reads what was written. While somebody edits the file, the last picture stays.
    fn look(&mut self) {
        match self.reader.look() {
            Ok(watched) => self.watched = watched,
            Err(failure) => self.watched.problem = Some(failure.message()),
        }
        self.fill_page();
    }

    /// The end of the loop, if it is waited for and there.
    fn halt(&mut self) -> Option<Halt> {
        let is_over = self.reader.certificate.is_some() || self.watched.beside.driver.is_none();
        if self.until == Until::Left || !is_over {
            return None;
        }
        // What was written just before the end is part of it.
        self.look();
        let took = self.reader.began().map(|began| Timestamp::now().duration_since(began));
        let took = took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
        let certificate = self.reader.certificate.clone();
        Some(Halt { certificate, state: self.watched.state.clone(), took })
    }

    /// A driver that was killed writes nothing: its end is seen by its lock.
    fn note_driver(&mut self) {
        let driver = aot_runner::driver::holder(self.reader.store.file().home());
        if driver.is_some() != self.watched.beside.driver.is_some() {
            self.look();
        }
    }

    fn draw(&mut self) {
        let (watched, place, ink) = (&self.watched, &mut self.place, self.ink);
        self.screen.draw(|frame| draw(frame, watched, place, Timestamp::now(), ink));
    }

    fn page_ink(&self) -> Ink {
        Ink { columns: self.screen.size().width.into(), ..self.ink }
    }

    fn open(&mut self, subject: Subject) {
        if let Subject::Difference(atom) = &subject {
            return self.ask_difference(atom.clone());
        }
        let place = match &subject {
            Subject::Log => PagePosition::End,
            Subject::Atom(name) if panes::is_at_work(&self.watched, name) => PagePosition::End,
            Subject::Atom(_)
            | Subject::Group(_)
            | Subject::Check(_)
            | Subject::Difference(_)
            | Subject::Keys => PagePosition::Top,
        };
        self.place.page = Some(OpenPage::new(subject, String::new(), Vec::new(), place));
        self.fill_page();
    }

    /// What is open, as it is now.
    fn fill_page(&mut self) {
        let ink = self.page_ink();
        let Some(open) = &self.place.page else { return };
        let (watched, rows) = (&self.watched, self.place.known_rows());
        let (title, lines) = match &open.subject {
            Subject::Atom(name) => match self.reader.history(name, watched) {
                Ok(history) => (name.clone(), page::atom(watched, name, rows, &history, ink)),
                Err(failure) => (name.clone(), vec![failure.message()]),
            },
            Subject::Group(group) => (group.to_string(), page::group(&watched.state, group, rows, ink)),
            Subject::Check(item) => {
                let asked = watched.view.base_case.iter().find(|check| check.item == *item);
                let seen = self.reader.evidence(item);
                (item.clone(), page::check(asked, &seen, Timestamp::now(), ink))
            }
            Subject::Difference(_) => return,
            Subject::Log => ("log".to_owned(), page::log(&watched.log, &watched.zone, ink)),
            Subject::Keys => ("keys".to_owned(), page::keys(ink)),
        };
        if let Some(open) = &mut self.place.page {
            (open.title, open.lines) = (title, lines);
        }
    }

    /// Git may take its time, so the screen goes on meanwhile.
    fn ask_difference(&mut self, atom: AtomId) {
        let commit = self.watched.state.bindings.get(&atom).and_then(|binding| binding.commit.clone());
        let project = self.reader.project.clone();
        let (sender, receiver) = channel();
        let asked = std::thread::Builder::new().name("difference".into()).spawn(move || {
            // Nobody hears it if the screen has ended.
            let _ = sender.send(look::difference(&project, &atom, commit));
        });
        match asked {
            Ok(_) => self.asked = Some(receiver),
            Err(error) => self.place.note = Some(format!("git cannot be asked: {error}")),
        }
    }

    fn take_difference(&mut self) -> bool {
        let Some(answer) = self.asked.as_ref().and_then(|asked| asked.try_recv().ok()) else { return false };
        self.asked = None;
        let ink = self.page_ink();
        match answer {
            Ok((title, told)) => {
                let lines = page::difference(&told, ink);
                let subject = Subject::Difference(AtomId::new(""));
                self.place.page = Some(OpenPage::new(subject, title, lines, PagePosition::Top));
            }
            Err(failure) => self.place.note = Some(failure.message()),
        }
        true
    }

    /// By the code of `aot stop`.
    fn stop(&mut self, when: StopWhen) {
        let stopped = StopArgs::of_person(when == StopWhen::Now).run(self.reader.invocation());
        self.place.note = Some(match stopped {
            Ok(answer) => answer.text,
            Err(failure) => failure.message(),
        });
        // A warning may have been printed over the picture.
        self.screen.redraw();
    }

    /// A verb that asks questions has the terminal until it ends.
    fn lend(&mut self, words: &[&str]) {
        let refused = self.reader.invocation().by_person().and_then(|()| self.lend_to(words));
        if let Err(failure) = refused {
            self.place.note = Some(failure.message());
        }
        self.look();
    }

    fn lend_to(&mut self, words: &[&str]) -> Result<(), Failure> {
        let (program, path) = (place::this_program()?, self.reader.invocation().path()?);
        let path = std::path::absolute(&path).unwrap_or(path);
        let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
        line.extend(["--state".into(), path.into_os_string()]);
        self.screen.lend(|is_awaited| {
            let ended = host::at_terminal(&program, &line, is_awaited);
            let ended = ended.map_err(|error| Failure::world("start aot", error))?;
            match terminal::read_line("\nEnter goes back to the screen. ") {
                Typed::Line(_) | Typed::Garbled | Typed::Interrupted | Typed::End => {}
            }
            let _ = ended;
            Ok(())
        })
    }
}
