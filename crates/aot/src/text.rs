//! Text for a terminal: how many columns it takes, cut, wrapped, and without escape sequences. Writes to no stream.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Pages are at most this wide.
pub const COLUMNS: usize = 80;

/// The columns that a text takes; one letter may take two, or none.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to this many columns, with an ellipsis where it was cut. Line breaks become spaces.
pub fn fit(text: &str, columns: usize) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if flat.width() <= columns {
        return flat;
    }
    let mut room = columns.saturating_sub(1);
    let fits = |c: &char| {
        let left = room.checked_sub(c.width().unwrap_or(0));
        room = left.unwrap_or(0);
        left.is_some()
    };
    let kept: String = flat.chars().take_while(fits).collect();
    kept.trim_end().to_owned() + "…"
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

/// A line as a terminal would show it: without escape sequences, after the last carriage return.
pub fn plain(line: &str) -> String {
    let line = anstream::adapter::strip_str(line.trim_end()).to_string();
    let line = line.rsplit('\r').next().unwrap_or_default();
    let mut plain = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => plain.push_str("  "),
            c if c.is_control() || changes_direction(c) => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Marks that turn the direction of writing, by which a text can look like another one.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_are_made_plain() {
        for (line, expected) in [
            ("plain", "plain"),
            ("\x1b[1;31mred\x1b[0m and \x1b[2Kgone", "red and gone"),
            ("10%\r50%\r100%\r\n", "100%"),
            ("a\tb\x07", "a  b"),
            ("cut \x1b[3", "cut "),
            ("\x1b]0;a title\x07text \x1b]8;;http://localhost\x1b\\link\x1b]8;;\x1b\\", "text link"),
            ("\x1bPq#0\x1b\\after", "after"),
            ("safe\u{202e}txt.exe", "safetxt.exe"),
        ] {
            assert_eq!(plain(line), expected, "{line:?}");
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
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("two\nlines", 20, "two lines"),
        ] {
            assert_eq!(fit(text, columns), expected, "{text}");
            assert!(width(&fit(text, columns)) <= columns);
        }
    }
}
