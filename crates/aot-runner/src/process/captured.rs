//! What a stream printed, within a limit: its beginning, its end, and how much there was. Knows no text.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    /// Up to twice what is wanted, so that it is seldom moved.
    tail: Vec<u8>,
    total: u64,
    keep_head: usize,
    keep_tail: usize,
}

impl Captured {
    pub fn keeping(head: usize, tail: usize) -> Captured {
        Captured { keep_head: head, keep_tail: tail, ..Captured::default() }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = (self.keep_head - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.keep_tail)..];
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 2 * self.keep_tail {
            self.tail.drain(..self.tail.len() - self.keep_tail);
        }
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many bytes between the beginning and the end were not kept.
    pub fn omitted(&self) -> u64 {
        self.total - self.head.len() as u64 - self.end().len() as u64
    }

    /// All of it, if all of it was kept.
    pub fn whole(&self) -> Option<Vec<u8>> {
        (self.omitted() == 0).then(|| [&self.head, self.end()].concat())
    }

    /// The beginning, and what was kept of the rest.
    pub fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        (self.head.clone(), self.end().to_vec())
    }

    fn end(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(self.keep_tail)..]
    }
}

#[cfg(test)]
mod tests {
    use super::Captured;

    fn check(chunks: &[&str], head: &str, tail: &str, omitted: u64) {
        let mut captured = Captured::keeping(4, 3);
        chunks.iter().for_each(|chunk| captured.take(chunk.as_bytes()));
        let (first, last) = captured.parts();
        assert_eq!((first, last), (head.into(), tail.into()), "{chunks:?}");
        assert_eq!(captured.omitted(), omitted, "{chunks:?}");
        assert_eq!(captured.total(), chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>());
        assert_eq!(captured.whole().is_some(), omitted == 0);
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        check(&[], "", "", 0);
        check(&["abc"], "abc", "", 0);
        check(&["abcd", "efg"], "abcd", "efg", 0);
        check(&["ab", "cde", "fgh"], "abcd", "fgh", 1);
        check(&["abcdefghijkl"], "abcd", "jkl", 5);
        check(&["abcdef", "g", "h", "i"], "abcd", "ghi", 2);
    }
}
