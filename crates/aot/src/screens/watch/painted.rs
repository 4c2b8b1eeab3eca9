//! A line that was painted for a terminal, as a line of a screen: what the other screens draw is shown here as it is. Nothing
//! that a terminal obeys comes through.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::screens::ink::{Alphabet, Ink};
use crate::text;

pub fn painted(line: &str, ink: Ink) -> Line<'static> {
    let line = text::harmless(line);
    let mut spans = Vec::new();
    let mut style = Style::default();
    let mut add = |text: &str, style: Style| {
        if !text.is_empty() {
            let text = text.replace(['\t', '\n'], " ");
            let shown = if ink.alphabet == Alphabet::Ascii { ink.shown(&text) } else { text };
            spans.push(Span::styled(shown, style));
        }
    };
    let mut rest = &*line;
    while let Some(at) = rest.find("\x1b[") {
        add(&rest[..at], style);
        let sequence = &rest[at + 2..];
        // Only colours are left, and each has its end.
        let end = sequence.find('m').unwrap_or(sequence.len());
        style = sequence[..end].split(';').fold(style, with);
        rest = sequence.get(end + 1..).unwrap_or_default();
    }
    add(rest, style);
    Line::from(spans)
}

fn with(style: Style, code: &str) -> Style {
    match code {
        "1" => style.add_modifier(Modifier::BOLD),
        "2" => style.add_modifier(Modifier::DIM),
        "9" => style.add_modifier(Modifier::CROSSED_OUT),
        "31" => style.fg(Color::Red),
        "32" => style.fg(Color::Green),
        "33" => style.fg(Color::Yellow),
        "36" => style.fg(Color::Cyan),
        _ => Style::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screens::ink::{Colour, Paint};

    /// Pieces with the first letters of what they are painted with.
    fn check(line: &str, alphabet: Alphabet, expected: &str) {
        let ink = Ink { colour: Colour::On, alphabet, columns: 80 };
        let told = painted(line, ink).spans.into_iter().map(|span| {
            let colour = span.style.fg.map(|colour| colour.to_string()).unwrap_or_default();
            format!("{colour}{}[{}]", span.style.add_modifier.bits(), span.content)
        });
        assert_eq!(told.collect::<String>(), expected, "{line:?}");
    }

    #[test]
    fn what_ink_paints_is_painted_and_nothing_else_comes_through() {
        let ink = Ink { colour: Colour::On, alphabet: Alphabet::Unicode, columns: 80 };
        let line = format!("{} {}.", ink.paint(Paint::Green, "✓"), ink.paint(Paint::Struck, "gone"));
        check(&line, Alphabet::Unicode, "Green0[✓]0[ ]258[gone]0[.]");
        check(&ink.paint(Paint::Red, "red"), Alphabet::Unicode, "Red1[red]");
        check("a\x1b[2J\x1b]0;title\x07b\x1b[8mc\u{202e}d\te", Alphabet::Unicode, "0[abcd e]");
        check("cut \x1b[3", Alphabet::Unicode, "0[cut ]");
        check("größer…", Alphabet::Ascii, "0[gr??er~]");
    }
}
