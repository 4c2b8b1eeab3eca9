//! Lines of a stream with a limit: a longer one is not kept in memory, and another line is given in its place. Knows nothing of
//! what the lines are for, except where a message has its id.

use std::collections::VecDeque;

use serde_json::Value;

/// Kept of the beginning and of the end of a line that is too long.
const ENDS: usize = 4 << 10;

/// The line that is given in the place of a long one with this beginning and this end; none if it is empty.
type Replace = fn(&[u8], &[u8]) -> Vec<u8>;

#[derive(Debug)]
pub struct BoundedLines {
    longest: usize,
    replace: Replace,
    /// The line that has not ended yet; only the ends of one that is too long.
    line: Vec<u8>,
    tail: VecDeque<u8>,
    is_too_long: bool,
    /// Whole lines that are to be given out, from `given` on.
    whole: Vec<u8>,
    given: usize,
}

impl BoundedLines {
    pub fn of(longest: usize, replace: Replace) -> BoundedLines {
        let (line, whole) = (Vec::new(), Vec::new());
        BoundedLines { longest, replace, line, tail: VecDeque::new(), is_too_long: false, whole, given: 0 }
    }

    /// At most so many bytes of whole lines; none if more has to be taken in first.
    pub fn give(&mut self, most: usize) -> &[u8] {
        let from = self.given;
        self.given = self.whole.len().min(from + most);
        &self.whole[from..self.given]
    }

    /// Takes in what was read. To be called when everything before was given out.
    pub fn take(&mut self, mut chunk: &[u8]) {
        self.whole.drain(..self.given);
        self.given = 0;
        while let Some(at) = chunk.iter().position(|byte| *byte == b'\n') {
            self.extend(&chunk[..at]);
            self.end_line();
            chunk = &chunk[at + 1..];
        }
        self.extend(chunk);
    }

    fn extend(&mut self, part: &[u8]) {
        if !self.is_too_long {
            self.line.extend_from_slice(part);
            if self.line.len() > self.longest {
                self.is_too_long = true;
                self.tail = self.line[self.line.len().saturating_sub(ENDS)..].iter().copied().collect();
                self.line.truncate(ENDS);
                self.line.shrink_to_fit();
            }
            return;
        }
        self.tail.extend(&part[part.len().saturating_sub(ENDS)..]);
        let over = self.tail.len().saturating_sub(ENDS);
        self.tail.drain(..over);
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            line = (self.replace)(&line, self.tail.make_contiguous());
            self.tail.clear();
            if line.is_empty() {
                return;
            }
        }
        self.whole.append(&mut line);
        self.whole.push(b'\n');
    }
}

/// The `id` of a message, of which only the beginning and the end are known: a number or a text.
pub fn id_in(head: &[u8], tail: &[u8]) -> Option<Value> {
    let id_after = |text: &str| {
        let value = text.trim_start().strip_prefix(':')?;
        let mut values = serde_json::Deserializer::from_str(value).into_iter::<Value>();
        values.next()?.ok().filter(|id| id.is_number() || id.is_string())
    };
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    // What stands before the parameters is the message's own; behind them, the last one is.
    let own = &head[..head.find("\"params\"").unwrap_or(head.len())];
    let first = own.find("\"id\"").and_then(|at| id_after(&own[at + 4..]));
    first.or_else(|| tail.rfind("\"id\"").and_then(|at| id_after(&tail[at + 4..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out of these chunks, with a limit of ten bytes.
    fn check(chunks: &[&str], expected: &str) {
        let replace: Replace = |head, tail| [b"<", head, b"|", tail, b">"].concat();
        let mut lines = BoundedLines::of(10, replace);
        chunks.iter().for_each(|chunk| lines.take(chunk.as_bytes()));
        assert_eq!(String::from_utf8_lossy(&lines.whole), expected, "{chunks:?}");
    }

    #[test]
    fn long_lines_are_replaced_and_the_others_pass() {
        check(&["one\ntwo\n"], "one\ntwo\n");
        check(&["o", "ne\nt", "wo"], "one\n");
        check(&["ten bytes.\n"], "ten bytes.\n");
        check(&["eleven byte\nnext\n"], "<eleven byte|eleven byte>\nnext\n");
        check(&["eleven", " byte", "s and more", "\nnext\n"], "<eleven byte|eleven bytes and more>\nnext\n");
    }

    #[test]
    fn memory_is_bounded_and_the_ends_are_kept() {
        let mut lines = BoundedLines::of(10, |head, tail| [head, tail].concat());
        lines.take(&[b'a'; 100_000]);
        lines.take(&[b'b'; 100_000]);
        assert!(lines.line.capacity() <= 2 * ENDS && lines.tail.len() == ENDS);
        lines.take(b"\n");
        assert_eq!(lines.give(3), b"aaa");
        assert_eq!(lines.give(usize::MAX >> 1).len(), 2 * ENDS - 2);
        assert_eq!(lines.give(1), b"");
        assert_eq!(lines.whole.len(), 2 * ENDS + 1);
        assert!(lines.whole.starts_with(b"a") && lines.whole.ends_with(b"b\n"));
    }

    #[test]
    fn ids_are_found_on_either_side_of_the_parameters() {
        for (head, tail, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"params":{"id":8"#, r#""}}"#, Some("7")),
            (r#"{"id": "x\"y" ,"params":"#, "", Some(r#""x\"y""#)),
            (r#"{"params":{"id":8"#, r#"},"id" : 9}"#, Some("9")),
            (r#"{"method":"m","params":{"id":8"#, r#"xxxx"}}"#, None),
            (r#"{"id":{"no":1},"params":"#, "", None),
            ("{\"id\"", "", None),
        ] {
            let found = id_in(head.as_bytes(), tail.as_bytes()).map(|id| id.to_string());
            assert_eq!(found.as_deref(), id, "{head} … {tail}");
        }
    }
}
