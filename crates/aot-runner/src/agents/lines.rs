//! Splits bytes that come in chunks into lines of bounded length, and tells how many values a line of JSON can have. Does
//! not read them.

#[derive(Debug)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    longest: usize,
    /// The rest of a line that is too long is passed over.
    skipping: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SplitLine {
    Whole(Vec<u8>),
    /// Reported as soon as the limit is passed, once for each such line.
    TooLong,
}

impl LineSplitter {
    pub fn new(longest: usize) -> LineSplitter {
        LineSplitter { line: Vec::new(), longest, skipping: false }
    }

    pub fn push(&mut self, chunk: &[u8]) -> Vec<SplitLine> {
        let mut lines = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            if !self.skipping && self.line.len() + part.len() > self.longest {
                self.skipping = true;
                self.line = Vec::new();
                lines.push(SplitLine::TooLong);
            }
            if !self.skipping {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                lines.extend(self.finish());
            }
        }
        lines
    }

    /// The stream has ended, perhaps without a line feed.
    pub fn finish(&mut self) -> Option<SplitLine> {
        let line = std::mem::take(&mut self.line);
        let is_whole = !std::mem::take(&mut self.skipping) && !line.is_empty();
        is_whole.then_some(SplitLine::Whole(line))
    }
}

/// Whether a text of JSON may have more values than that. A value costs a hundred times its letters in memory, so a line is
/// counted before it is parsed. Brackets, commas and colons outside of strings are counted: no value goes without one.
pub(super) fn has_more_values(text: &[u8], most: usize) -> bool {
    let (mut count, mut bytes) = (0, text.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| **byte != b'"') {
                    if *byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'[' | b'{' | b',' | b':' => count += 1,
            _ => {}
        }
        if count > most {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{LineSplitter, SplitLine, has_more_values};

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, count) in [
            ("", 0),
            ("1", 0),
            ("[]", 1),
            ("[1,2,[3]]", 4),
            (r#"{"a":[{"b":1}]}"#, 5),
            (r#"{"a":"[,,,:{\",["}"#, 2),
            (r#"{"a":"\\",1}"#, 3),
            (r#"{"a":",,,"#, 2),
            (r#"{"a":"\"#, 2),
        ] {
            assert!(!has_more_values(text.as_bytes(), count), "{text}");
            assert!(count == 0 || has_more_values(text.as_bytes(), count - 1), "{text}");
        }
    }

    fn check(text: &str, expected: &[&str]) {
        for size in [1, 2, 7, 1000] {
            let mut splitter = LineSplitter::new(6);
            let mut lines: Vec<SplitLine> =
                text.as_bytes().chunks(size).flat_map(|chunk| splitter.push(chunk)).collect();
            lines.extend(splitter.finish());
            let shown: Vec<String> = lines
                .into_iter()
                .map(|line| match line {
                    SplitLine::Whole(line) => String::from_utf8(line).expect("text"),
                    SplitLine::TooLong => "too long".to_owned(),
                })
                .collect();
            assert_eq!(shown, expected, "{text:?} by {size}");
            assert!(splitter.line.capacity() <= 16, "{text:?} by {size}");
        }
    }

    #[test]
    fn lines_come_in_any_chunks_and_long_ones_are_reported_once() {
        check("", &[]);
        check("a\nbc", &["a\n", "bc"]);
        check("\n\n", &["\n", "\n"]);
        check("12345\nx", &["12345\n", "x"]);
        check("123456\nx\n", &["too long", "x\n"]);
        check("1234567890123456789012345678901234567890", &["too long"]);
        check("1234567890\n1234567890\nx", &["too long", "too long", "x"]);
    }
}
