//! A real terminal with somebody at it: a pseudo-terminal that the program has as its own, keys that are typed, and all
//! that was shown.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::repo::{LONG, Repo};

pub struct Terminal {
    keys: File,
    pub child: Child,
    shown: Receiver<Vec<u8>>,
    /// All that was shown so far.
    pub seen: Vec<u8>,
    /// Up to here, as text, it was waited for.
    read: usize,
}

impl Terminal {
    /// Runs the program at a terminal of 80 columns that has colour and Unicode.
    pub fn open(repo: &Repo, words: &[&str]) -> Terminal {
        Terminal::with(repo, words, &[])
    }

    pub fn with(repo: &Repo, words: &[&str], environment: &[(&str, &str)]) -> Terminal {
        Terminal::running(&repo.command(words), environment, 80)
    }

    /// Runs this command in a window of so many columns.
    pub fn running(plain: &Command, environment: &[(&str, &str)], columns: u16) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo-terminal");
        grantpt(&master).expect("ours");
        unlockpt(&master).expect("open");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let slave =
            File::options().read(true).write(true).open(name.to_str().expect("a path")).expect("it opens");
        resize(&master, columns);
        // As every terminal of today does: a letter is one, however many bytes it has.
        let mut modes = tcgetattr(&slave).expect("a terminal");
        modes.input_modes |= InputModes::IUTF8;
        tcsetattr(&slave, OptionalActions::Now, &modes).expect("it takes it");
        // The program becomes the leader of a session that has this terminal, so that keys become signals.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(plain.get_program()).args(plain.get_args());
        command.current_dir(plain.get_current_dir().expect("it has one")).env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("TERM", "xterm-256color").envs(environment.iter().copied());
        let copy = || Stdio::from(slave.try_clone().expect("a copy"));
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("setsid is here");
        drop(slave);
        let keys = File::from(master);
        let mut screen = keys.try_clone().expect("a copy");
        let (sender, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // When the program and all that it started are gone, reading fails.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { keys, child, shown, seen: Vec::new(), read: 0 }
    }

    /// Waits until this is shown, after what was waited for before.
    pub fn see(&mut self, what: &str) {
        let began = Instant::now();
        loop {
            let text = plain(&self.seen);
            if let Some(at) = text.get(self.read..).and_then(|unread| unread.find(what)) {
                self.read += at + what.len();
                return;
            }
            assert!(began.elapsed() < LONG, "it never showed {what:?}:\n{}", self.text());
            match self.shown.recv_timeout(LONG) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended without {what:?}:\n{}", self.text()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    pub fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("somebody reads");
    }

    /// Types a line after a prompt is shown.
    pub fn answer(&mut self, prompt: &str, line: &str) {
        self.see(prompt);
        self.press(format!("{line}\r").as_bytes());
    }

    pub fn resize(&self, columns: u16) {
        resize(&self.keys, columns);
    }

    /// All that was shown, as text without colours.
    pub fn text(&self) -> String {
        plain(&self.seen)
    }

    /// Waits until this stands on a screen that is drawn by places, whenever it was drawn.
    pub fn show(&mut self, what: &str) {
        self.show_that(what, |screen| screen.contains(what));
    }

    pub fn show_that(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_so(&drawn(&self.seen)) {
            assert!(began.elapsed() < LONG, "it never showed {what:?}:\n{}", drawn(&self.seen));
            match self.shown.recv_timeout(LONG) {
                Ok(bytes) => self.seen.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended without {what:?}:\n{}", drawn(&self.seen))
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// What the terminal does with keys and lines now.
    pub fn modes(&self) -> String {
        let modes = tcgetattr(&self.keys).expect("a terminal");
        format!("{:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.local_modes)
    }

    /// Waits for its end: the exit code and the last of what it shows.
    pub fn end(mut self) -> (Option<i32>, Vec<u8>) {
        let began = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status.code();
            }
            assert!(began.elapsed() < LONG, "it does not end:\n{}", self.text());
            if let Ok(bytes) = self.shown.recv_timeout(std::time::Duration::from_millis(5)) {
                self.seen.extend(bytes);
            }
        };
        // The reader ends with the last that has the terminal open, on a busy machine some time after the program.
        while let Ok(bytes) = self.shown.recv_timeout(std::time::Duration::from_secs(5)) {
            self.seen.extend(bytes);
        }
        (code, self.seen)
    }

    /// The window is closed: the program is told that its terminal is gone.
    pub fn close(self) -> Child {
        let Terminal { keys, child, shown, .. } = self;
        // The reader's copy ends with its next failure; hanging up needs both, so the terminal itself is told.
        let pid = child.id().to_string();
        drop((keys, shown));
        let done = Command::new("kill").args(["-HUP", &pid]).status().expect("kill is here");
        assert!(done.success());
        child
    }
}

fn resize(master: impl std::os::fd::AsFd, columns: u16) {
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).expect("it has a size");
}

/// What is shown, without colours and what moves the cursor; carriage returns go.
pub fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                for c in chars.by_ref() {
                    if ('@'..='~').contains(&c) {
                        break;
                    }
                }
            }
            '\r' => {}
            c => plain.push(c),
        }
    }
    plain
}

/// What is left on the screen: lines that were drawn over are gone.
pub fn screen(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = vec![String::new()];
    let mut chars = text.chars().peekable();
    let mut is_back = false;
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                let mut sequence = String::new();
                for c in chars.by_ref() {
                    sequence.push(c);
                    if ('@'..='~').contains(&c) {
                        break;
                    }
                }
                if let Some(up) = sequence.strip_suffix('A').and_then(|up| up.parse::<usize>().ok()) {
                    lines.truncate(lines.len().saturating_sub(up).max(1));
                }
                if sequence == "J" && is_back {
                    lines.last_mut().expect("there is always one").clear();
                }
            }
            '\r' => is_back = true,
            '\n' => {
                lines.push(String::new());
                is_back = false;
            }
            c => {
                let line = lines.last_mut().expect("there is always one");
                if std::mem::take(&mut is_back) {
                    line.clear();
                }
                line.push(c);
            }
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// What stands on a screen whose cells are drawn by their places. Entering and leaving it begin an empty one.
pub fn drawn(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut rows: Vec<Vec<char>> = Vec::new();
    let (mut row, mut column) = (0, 0);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.next_if_eq(&'[').is_some() => {
                let mut sequence = String::new();
                for c in chars.by_ref() {
                    sequence.push(c);
                    if ('@'..='~').contains(&c) {
                        break;
                    }
                }
                match sequence.as_str() {
                    "2J" | "?1049h" | "?1049l" => rows.clear(),
                    _ => {}
                }
                if let Some((y, x)) = sequence.strip_suffix('H').and_then(|place| place.split_once(';')) {
                    row = y.parse::<usize>().expect("a row") - 1;
                    column = x.parse::<usize>().expect("a column") - 1;
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                rows.resize(rows.len().max(row + 1), Vec::new());
                let line = &mut rows[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}
