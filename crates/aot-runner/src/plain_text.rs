//! What agents, commands and files say, without what a terminal obeys and without what makes a text look like another one.
//! Knows no stream and no width.

use anstream::adapter::strip_str;

/// A line as a terminal would show it: without escape sequences, after the last carriage return, with tabs as spaces.
pub fn line(line: &str) -> String {
    let line = strip_str(line.trim_end()).to_string();
    let shown = line.trim_end().rsplit('\r').next().unwrap_or_default();
    text(&shown.replace('\t', "  "))
}

/// The same for a text that keeps its lines and tabs.
pub fn text(text: &str) -> String {
    let text = strip_str(text).to_string();
    let is_shown = |c: &char| matches!(c, '\n' | '\t') || !(c.is_control() || changes_direction(*c));
    text.chars().filter(is_shown).collect()
}

/// Marks that turn the direction of writing.
pub fn changes_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_are_made_plain() {
        for (given, expected) in [
            ("plain", "plain"),
            ("\x1b[1;31mred\x1b[0m and \x1b[2Kgone", "red and gone"),
            ("10%\r50%\r100%\r\n", "100%"),
            ("100%\r\x1b[0m", "100%"),
            ("a\tb\x07", "a  b"),
            ("cut \x1b[3", "cut"),
            ("\x1b]0;a title\x07text \x1b]8;;http://localhost\x1b\\link\x1b]8;;\x1b\\", "text link"),
            ("\x1bPq#0\x1b\\after", "after"),
            ("safe\u{202e}txt.exe", "safetxt.exe"),
        ] {
            assert_eq!(line(given), expected, "{given:?}");
        }
    }

    #[test]
    fn texts_keep_their_lines_and_tabs() {
        assert_eq!(text("\x1b[1ma\x1b[0m\tb\x07\n\u{202e}c\n"), "a\tb\nc\n");
    }
}
