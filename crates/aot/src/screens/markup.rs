//! Texts of people and agents inside HTML, SVG and the like. Knows nothing of what they say.

use crate::text;

/// A text that is only text there: without markup, without what a terminal or a browser obeys.
pub fn escaped(given: &str) -> String {
    let mut safe = String::with_capacity(given.len());
    for c in given.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            // XML has no place for these, not even escaped.
            c if text::commands_terminal(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        let given = "<script>alert('x')</script> & \"q\"\u{1b}[31m\u{202e}\n\u{ffff}ü";
        let expected = "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;q&quot;[31m\nü";
        assert_eq!(escaped(given), expected);
    }
}
