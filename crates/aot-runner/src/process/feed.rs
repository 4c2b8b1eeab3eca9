//! A way to go on talking to a program that runs: a FIFO whose other end is its standard input. Knows no words.
//!
//! It has a name in the file system, so that it reaches a program behind any cage, and loses it as soon as the program
//! has it: nobody else is to read what was meant for it, or to speak in our place.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::sys::stat::Mode;
use rustix::fs::OFlags;

use super::Input;

/// Dropped, the program's input is at its end.
#[derive(Debug)]
pub struct Feed {
    writer: File,
    /// Until the program has its own: without any reader nothing can be written. What waits for it is what fits in a
    /// pipe, which is 64 KiB and more than a greeting.
    waiting: Option<UnreadFeed>,
}

/// The name of a feed, until it is dropped.
#[derive(Debug)]
pub struct UnreadFeed {
    path: PathBuf,
    _reader: OwnedFd,
}

impl Feed {
    /// A new one under a name that is free.
    pub fn make(path: &Path) -> io::Result<Feed> {
        nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        let path = path.to_path_buf();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let reader = rustix::fs::open(&path, flags, rustix::fs::Mode::empty())?;
        let writer = File::options().write(true).open(&path)?;
        Ok(Feed { writer, waiting: Some(UnreadFeed { path, _reader: reader }) })
    }

    /// For the job that is to hear it.
    pub fn input(&self) -> Input {
        match &self.waiting {
            Some(waiting) => Input::File(waiting.path.clone()),
            None => Input::None,
        }
    }

    /// To be called when the program has said something, and so has opened its input. From now on writing fails if it
    /// has ended.
    pub fn reached(&mut self) {
        self.waiting = None;
    }

    /// Passes everything on that comes from there, to its end. The name stays for as long as the answer is kept: all may
    /// have been written before the program opens its input.
    pub fn pour(self, mut from: impl Read + Send + 'static) -> io::Result<Option<UnreadFeed>> {
        let Feed { mut writer, waiting } = self;
        // A program that ends early leaves the rest unread, and that is its right.
        std::thread::Builder::new().name("pour".into()).spawn(move || io::copy(&mut from, &mut writer))?;
        Ok(waiting)
    }
}

impl Write for Feed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for UnreadFeed {
    fn drop(&mut self) {
        // Whoever clears the folder removes it as well.
        let _ = fs::remove_file(&self.path);
    }
}
