//! The whole terminal as one screen: entered, drawn on, and left as it was found, whatever ends the program. Knows nothing of
//! loops.

mod backend;
mod keys;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ratatui::layout::Size;
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

pub use keys::Key;

use backend::ScreenBackend;
use keys::KeyReader;

/// The alternate screen, empty, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[0m\x1b[2J\x1b[?25l";

/// The screen as it was.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// A stop that the system lets happen begins within this time.
const STOPS_WITHIN: Duration = Duration::from_millis(300);

/// A terminal that takes nothing for so long is waited for again.
const WRITE_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// What has to be put back, if the screen is entered.
static ENTERED: Mutex<Option<Found>> = Mutex::new(None);

/// The terminal as it was found.
struct Found {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
    /// A thread that fails elsewhere does not end the screen.
    thread: ThreadId,
}

/// Why a screen has to end that nobody asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenEnd {
    /// The terminal is gone.
    Lost,
    /// Another process asked for it.
    Asked,
}

pub struct FullScreen {
    input: OwnedFd,
    output: OwnedFd,
    terminal: Terminal<ScreenBackend>,
    keys: KeyReader,
    lost: bool,
    asked: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
    /// The window that the last frame was drawn for.
    drawn: Option<Size>,
}

impl std::fmt::Debug for FullScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FullScreen").field("input", &self.input).finish_non_exhaustive()
    }
}

impl FullScreen {
    /// Enters the screen of this process's terminal.
    pub fn open() -> io::Result<FullScreen> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        FullScreen::on(input, io::stdout().as_fd().try_clone_to_owned()?)
    }

    fn on(input: OwnedFd, output: OwnedFd) -> io::Result<FullScreen> {
        let told = |signals: &[i32]| -> io::Result<Arc<AtomicBool>> {
            let is_told = Arc::new(AtomicBool::new(false));
            for signal in signals {
                flag::register(*signal, Arc::clone(&is_told))?;
            }
            Ok(is_told)
        };
        restore_on_panic();
        let mut screen = FullScreen {
            terminal: Terminal::new(ScreenBackend::new(output.try_clone()?))?,
            input,
            output,
            keys: KeyReader::default(),
            lost: false,
            asked: told(&[SIGTERM, SIGHUP])?,
            interrupted: told(&[SIGINT])?,
            continued: told(&[SIGCONT])?,
            drawn: None,
        };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        let mut entered = ENTERED.lock().unwrap_or_else(PoisonError::into_inner);
        if entered.is_none() {
            *entered = Some(Found {
                modes: tcgetattr(&self.input)?,
                input: self.input.try_clone()?,
                output: self.output.try_clone()?,
                thread: thread::current().id(),
            });
        }
        let found = entered.as_ref().expect("it was set just now");
        let mut raw = found.modes.clone();
        raw.make_raw();
        tcsetattr(&self.input, OptionalActions::Now, &raw)?;
        write_all(&found.output, ENTER)?;
        drop(entered);
        self.redraw();
        Ok(())
    }

    /// Everything is drawn anew by the next frame.
    pub fn redraw(&mut self) {
        self.drawn = None;
        // A terminal that cannot be cleared is found to be gone when it is drawn on.
        let _ = self.terminal.clear();
    }

    /// Why it has to end, if it has to.
    pub fn ended(&self) -> Option<ScreenEnd> {
        let is_asked = [&self.asked, &self.interrupted].iter().any(|flag| flag.load(Ordering::Acquire));
        if self.lost { Some(ScreenEnd::Lost) } else { is_asked.then_some(ScreenEnd::Asked) }
    }

    /// Whether the window is another one than the last frame was drawn for.
    pub fn is_resized(&self) -> bool {
        self.terminal.size().ok() != self.drawn
    }

    pub fn size(&self) -> Size {
        self.terminal.size().unwrap_or_default()
    }

    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) {
        let size = self.terminal.size().ok();
        match self.terminal.draw(render) {
            Ok(_) => self.drawn = size,
            Err(_) => self.lost = true,
        }
    }

    /// The keys that are pressed, waiting for the first no longer than this.
    pub fn keys(&mut self, longest: Duration) -> Vec<Key> {
        if self.continued.swap(false, Ordering::AcqRel) && self.enter().is_err() {
            self.lost = true;
        }
        let mut asked = [PollFd::new(&self.input, PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        match poll(&mut asked, Some(&wait)) {
            Ok(0) => return self.keys.paused(),
            Ok(_) => {}
            Err(Errno::INTR) => return Vec::new(),
            Err(_) => self.lost = true,
        }
        let events = asked[0].revents();
        if !events.contains(PollFlags::IN) {
            self.lost |= events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            return Vec::new();
        }
        let mut bytes = [0; 1024];
        match rustix::io::read(&self.input, &mut bytes) {
            Ok(0) => self.lost = true,
            Ok(count) => return self.keys.keys(&bytes[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.lost = true,
        }
        Vec::new()
    }

    /// As Ctrl-Z does elsewhere: the shell has the terminal until it lets us go on.
    pub fn suspend(&mut self) {
        restore();
        self.continued.store(false, Ordering::Release);
        // Where nobody could let us go on, the system does not stop us either.
        let stopped = kill_current_process_group(Signal::TSTP);
        let began = Instant::now();
        while stopped.is_ok() && began.elapsed() < STOPS_WITHIN && !self.continued.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(10));
        }
        self.continued.store(false, Ordering::Release);
        self.lost |= self.enter().is_err();
    }

    /// Leaves the screen while something else has the terminal. Ctrl-C is meant for that, and not for us.
    pub fn lend<T>(&mut self, run: impl FnOnce(&dyn Fn() -> bool) -> T) -> T {
        restore();
        let ran = run(&|| !self.asked.load(Ordering::Acquire));
        self.interrupted.store(false, Ordering::Release);
        self.lost |= self.enter().is_err();
        ran
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back as it was found, once.
fn restore() {
    let Some(found) = ENTERED.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    // Of a terminal that is gone nothing has to be put back.
    let _ = write_all(&found.output, LEAVE);
    let _ = tcsetattr(&found.input, OptionalActions::Now, &found.modes);
}

/// What a panic says has to be readable, so the screen is left before it is printed.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let entered = ENTERED.try_lock().map(|entered| entered.as_ref().map(|found| found.thread));
            if entered.is_ok_and(|thread| thread == Some(thread::current().id())) {
                restore();
            }
            before(panic);
        }));
    });
}

fn write_all(output: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                poll(&mut [PollFd::new(output, PollFlags::OUT)], Some(&WRITE_WAIT))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let slave = File::options().read(true).write(true).open(name.to_str().expect("a path"));
        let slave = OwnedFd::from(slave.expect("it opens"));
        let modes = || format!("{:?}", tcgetattr(&master).expect("a terminal").local_modes);
        let before = modes();
        let failed = std::panic::catch_unwind(|| {
            let copy = || slave.try_clone().expect("a copy");
            let mut screen = FullScreen::on(copy(), copy()).expect("a screen");
            assert_ne!(modes(), before);
            screen.draw(|_| panic!("a bug"));
        });
        assert!(failed.is_err());
        assert_eq!(modes(), before);
        let mut seen = [0; 4096];
        let count = File::from(master).read(&mut seen).expect("something was shown");
        assert!(seen[..count].ends_with(LEAVE), "{:?}", String::from_utf8_lossy(&seen[..count]));
    }
}
