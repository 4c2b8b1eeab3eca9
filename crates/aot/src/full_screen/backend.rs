//! Draws cells by the sequences that every terminal knows. Collects them, so that a frame is written in one piece.

use std::io;
use std::os::fd::OwnedFd;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use rustix::termios::tcgetwinsize;

use crate::text;

/// A larger window shows nothing beside this.
const LARGEST: Size = Size { width: 500, height: 200 };

/// A terminal that does not tell its size has this one.
const USUAL: Size = Size { width: 80, height: 24 };

#[derive(Debug)]
pub struct ScreenBackend {
    output: OwnedFd,
    bytes: Vec<u8>,
}

impl ScreenBackend {
    pub fn new(output: OwnedFd) -> ScreenBackend {
        ScreenBackend { output, bytes: Vec::new() }
    }

    fn add(&mut self, sequence: &str) {
        self.bytes.extend_from_slice(sequence.as_bytes());
    }
}

impl Backend for ScreenBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next: Option<(u16, u16)> = None;
        let mut style = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.add(&format!("\x1b[{};{}H", y + 1, x + 1));
            }
            if style != Some((cell.fg, cell.modifier)) {
                style = Some((cell.fg, cell.modifier));
                self.add(&colours(cell));
            }
            self.add(cell.symbol());
            let width = u16::try_from(text::width(cell.symbol())).unwrap_or(1);
            next = Some((x.saturating_add(width.max(1)), y));
        }
        self.add("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.add("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.add("\x1b[?25h");
        Ok(())
    }

    /// The cursor is hidden, and every frame sets it.
    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.add(&format!("\x1b[{};{}H", y + 1, x + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.add("\x1b[0m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.add(match clear_type {
            ClearType::All => "\x1b[0m\x1b[2J",
            ClearType::AfterCursor => "\x1b[0m\x1b[J",
            ClearType::BeforeCursor => "\x1b[0m\x1b[1J",
            ClearType::CurrentLine => "\x1b[0m\x1b[2K",
            ClearType::UntilNewLine => "\x1b[0m\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(&self.output)?;
        Ok(match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => USUAL,
            (width, height) => Size { width: width.min(LARGEST.width), height: height.min(LARGEST.height) },
        })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        super::write_all(&self.output, &self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// The colours of a cell, whatever they were before. Only those that our screens paint with are known.
fn colours(cell: &Cell) -> String {
    let mut codes = String::from("\x1b[0");
    for (modifier, code) in [
        (Modifier::BOLD, ";1"),
        (Modifier::DIM, ";2"),
        (Modifier::REVERSED, ";7"),
        (Modifier::CROSSED_OUT, ";9"),
    ] {
        if cell.modifier.contains(modifier) {
            codes.push_str(code);
        }
    }
    codes.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    codes.push('m');
    codes
}
