//! Marks and colours: the same on every screen. Knows nothing of what is drawn with them.

use aot_core::view::DisplayStatus;

use crate::terminal::{self, Stream};
use crate::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    Green,
    Red,
    Yellow,
    Cyan,
    Dim,
    Bold,
    Struck,
    Plain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    On,
    Off,
}

/// Which characters a terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    Unicode,
    Ascii,
}

/// What a stream can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    pub colour: Colour,
    pub alphabet: Alphabet,
    /// The room for a line.
    pub columns: usize,
}

impl Ink {
    pub fn of(stream: Stream) -> Ink {
        let colour = if terminal::colourful(stream) { Colour::On } else { Colour::Off };
        let alphabet = if terminal::shows_unicode() { Alphabet::Unicode } else { Alphabet::Ascii };
        Ink { colour, alphabet, columns: terminal::page_columns() }
    }

    pub fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Green => "32",
            Paint::Red => "1;31",
            Paint::Yellow => "33",
            Paint::Cyan => "36",
            Paint::Dim => "2",
            Paint::Bold => "1",
            Paint::Struck => "2;9",
            Paint::Plain => return text.to_owned(),
        };
        if self.colour == Colour::Off || text.is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// One of two signs, as the alphabet has them.
    pub fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self.alphabet {
            Alphabet::Unicode => unicode,
            Alphabet::Ascii => ascii,
        }
    }

    /// A text as the alphabet can show it: without Unicode, what has no likeness in ASCII is a question mark.
    pub fn shown(self, text: &str) -> String {
        if self.alphabet == Alphabet::Unicode {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '…' => shown.push('~'),
                '‘' | '’' => shown.push('\''),
                '“' | '”' | '„' => shown.push('"'),
                '–' | '—' | '−' => shown.push('-'),
                '→' => shown.push('>'),
                '\u{a0}' => shown.push(' '),
                c if c.is_ascii() => shown.push(c),
                _ => shown.push('?'),
            }
        }
        shown
    }

    /// A text cut to so many columns; as wide as it was if it fits.
    pub fn fit(self, text: &str, columns: usize) -> String {
        let cut = text::fit(text, columns);
        match (self.alphabet, cut.strip_suffix('…')) {
            (Alphabet::Ascii, Some(kept)) if cut != text => format!("{kept}~"),
            _ => cut,
        }
    }

    pub fn mark(self, standing: DisplayStatus) -> String {
        let (sign, paint) = match standing {
            DisplayStatus::Resolved => (self.sign("✓", "*"), Paint::Green),
            DisplayStatus::Claimed => ("~", Paint::Yellow),
            DisplayStatus::Running => (self.sign("◐", ">"), Paint::Cyan),
            DisplayStatus::Ready => (self.sign("○", "o"), Paint::Bold),
            DisplayStatus::Pending => (self.sign("○", "o"), Paint::Plain),
            DisplayStatus::Dormant => (self.sign("◌", "."), Paint::Dim),
            DisplayStatus::Failed => (self.sign("✗", "x"), Paint::Red),
        };
        self.paint(paint, sign)
    }
}
