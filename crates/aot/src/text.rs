//! Text for a terminal: how many columns it takes, cut, wrapped, and without escape sequences. Writes to no stream.

use std::borrow::Cow;

use aot_runner::plain_text::changes_direction;
pub use aot_runner::plain_text::line as plain;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Pages are at most this wide.
pub const COLUMNS: usize = 80;

/// The columns that a text takes; one letter may take two, or none.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to this many columns, with an ellipsis where it was cut. Line breaks become spaces.
pub fn fit(text: &str, columns: usize) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    let shown = text.chars().filter(|c| !changes_direction(*c));
    let flat: String = shown.map(|c| if commands_terminal(c) { ' ' } else { c }).collect();
    if flat.width() <= columns {
        return flat;
    }
    if columns == 0 {
        return String::new();
    }
    let mut room = columns - 1;
    let fits = |c: &char| {
        let left = room.checked_sub(c.width().unwrap_or(0));
        room = left.unwrap_or(0);
        left.is_some()
    };
    let kept: String = flat.chars().take_while(fits).collect();
    kept.trim_end().to_owned() + "…"
}

/// `1 agent run`, `2 agent runs`.
pub fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// `once`, `twice`, `3 times`.
pub fn times(number: usize) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        many => format!("{many} times"),
    }
}

/// Wraps words to lines of this many columns.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.width() + 1 + word.width() > columns {
            lines.push(fit(word, columns));
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&fit(word, columns));
    }
    lines
}

/// A name and a text beside it, wrapped to a window; further lines begin below the text.
pub fn beside(name: &str, indent: usize, text: &str, columns: usize) -> Vec<String> {
    let lines = wrapped(text, columns.saturating_sub(indent)).into_iter().enumerate();
    lines
        .map(|(place, line)| format!("{:<indent$}{line}", if place == 0 { name } else { "" }))
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// A page without anything that a terminal obeys, other than line ends, tabs and colours of ours. Whatever a worker, a file or
/// git wrote may be in it, so everything printed goes through here.
pub fn harmless(page: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !commands_terminal(c) || matches!(c, '\n' | '\t');
    if page.chars().all(is_plain) {
        return Cow::Borrowed(page);
    }
    let mut kept = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b' {
            let (sequence, after) = rest.split_at(escape_length(rest));
            if is_colour(sequence) {
                kept.push_str(sequence);
            }
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\r' if rest.starts_with('\n') => {}
            // What stands before it would be hidden by what stands behind it.
            '\r' => kept.push(' '),
            c if is_plain(c) => kept.push(c),
            _ => {}
        }
    }
    Cow::Owned(kept)
}

/// Characters that a terminal acts upon or that make a text look like another one; JSON has them escaped.
pub fn commands_terminal(c: char) -> bool {
    c.is_control() || changes_direction(c) || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The bytes of the escape sequence at the beginning of a text; one that never ends takes the rest of its line.
fn escape_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let end = |at: usize, c: char| at + c.len_utf8();
    match chars.next() {
        None => text.len(),
        Some((_, '[')) => {
            for (at, c) in chars {
                match c {
                    '@'..='~' => return end(at, c),
                    ' '..='?' => {}
                    // Not part of any sequence.
                    _ => return at,
                }
            }
            text.len()
        }
        Some((_, ']' | 'P' | 'X' | '^' | '_')) => {
            for (at, c) in chars {
                match c {
                    '\x07' => return end(at, c),
                    '\x1b' if text[at..].starts_with("\x1b\\") => return at + 2,
                    '\x1b' | '\n' => return at,
                    _ => {}
                }
            }
            text.len()
        }
        Some((at, c)) if c.is_control() => at,
        Some((at, c)) => end(at, c),
    }
}

/// Whether a sequence sets a colour or ends it, as our own screens do. Hidden, blinking and turned text is not ours.
fn is_colour(sequence: &str) -> bool {
    let Some(codes) = sequence.strip_prefix("\x1b[").and_then(|rest| rest.strip_suffix('m')) else {
        return false;
    };
    let ours =
        |code: &str| matches!(code.parse(), Ok(0 | 1 | 2 | 4 | 9 | 22 | 24 | 30..=37 | 39 | 90..=97_u8));
    codes.is_empty() || codes.split(';').all(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        for (page, expected) in [
            ("plain\n\ttext\n", "plain\n\ttext\n"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b[2J\x1b[Hgone\x1b[8mhidden\x1b[5mblink\x1b[7mturned", "gonehiddenblinkturned"),
            ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]52;c;aGk=\nnext line", "\nnext line"),
            ("\x1bPq\x1b\\\x1b_x\x1b\\\x1bcreset", "reset"),
            ("real\rfake\r\nend", "real fake\nend"),
            ("\u{9b}31m\u{90}x\u{7f}\x08\x07\0", "31mx"),
            ("safe\u{202e}txt.exe\u{2066}\u{2069}\u{200f}", "safetxt.exe"),
            ("cut \x1b[31", "cut "),
            ("cut \x1b", "cut "),
            ("\x1b[31\u{2028}m", "m"),
            ("größer 日本 e\u{301}", "größer 日本 e\u{301}"),
        ] {
            assert_eq!(harmless(page), expected, "{page:?}");
        }
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("日本 日本語", 8), ["日本", "日本語"]);
    }

    #[test]
    fn a_cut_text_takes_no_more_columns_than_it_may() {
        for (text, columns, expected) in [
            ("four", 4, "four"),
            ("fives", 4, "fiv…"),
            ("日本", 4, "日本"),
            ("日本語", 4, "日…"),
            ("日本語", 5, "日本…"),
            ("none", 0, ""),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("two\nlines", 20, "two lines"),
            ("\x1b[32mgreen\x1b[0m \x1b]0;title\x07\u{202e}turned", 20, "green turned"),
        ] {
            assert_eq!(fit(text, columns), expected, "{text}");
            assert!(width(&fit(text, columns)) <= columns);
        }
    }
}
