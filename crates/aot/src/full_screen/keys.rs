//! Bytes from a terminal as keys. Knows nothing of what a key is for.

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Letter(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    BackTab,
    Enter,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Redraw,
}

/// No sequence of a key is longer; what goes on longer is no key.
const LONGEST: usize = 32;

/// Keys may arrive in pieces: what has no end yet waits for it.
#[derive(Debug, Default)]
pub struct KeyReader {
    begun: Vec<u8>,
}

impl KeyReader {
    /// The keys that are whole with these bytes.
    pub fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.begun.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while at < self.begun.len() {
            match length(&self.begun[at..]) {
                Some(length) => {
                    keys.extend(key(&self.begun[at..at + length]));
                    at += length;
                }
                None if self.begun.len() - at > LONGEST => at += 1,
                None => break,
            }
        }
        self.begun.drain(..at);
        keys
    }

    /// Nothing followed for a while: an escape alone is the key of that name.
    pub fn paused(&mut self) -> Vec<Key> {
        let is_escape = self.begun == b"\x1b";
        self.begun.clear();
        is_escape.then_some(Key::Escape).into_iter().collect()
    }
}

/// How many bytes the first key takes; none if its end is missing.
fn length(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [] | [b'\x1b'] => None,
        [b'\x1b', b'[', rest @ ..] => {
            rest.iter().position(|byte| (b'@'..=b'~').contains(byte)).map(|place| 2 + place + 1)
        }
        [b'\x1b', b'O', ..] => (bytes.len() > 2).then_some(3),
        // Escape twice is the key twice.
        [b'\x1b', b'\x1b', ..] => Some(1),
        [b'\x1b', _, ..] => Some(2),
        [first, ..] => {
            let length = match first {
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                _ => 1,
            };
            (bytes.len() >= length).then_some(length)
        }
    }
}

fn key(bytes: &[u8]) -> Option<Key> {
    Some(match bytes {
        b"\x1b" => Key::Escape,
        b"\x1b[A" | b"\x1bOA" => Key::Up,
        b"\x1b[B" | b"\x1bOB" => Key::Down,
        b"\x1b[5~" => Key::PageUp,
        b"\x1b[6~" => Key::PageDown,
        b"\x1b[H" | b"\x1bOH" | b"\x1b[1~" | b"\x1b[7~" => Key::Home,
        b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" | b"\x1b[8~" => Key::End,
        b"\x1b[Z" => Key::BackTab,
        b"\t" => Key::Tab,
        b"\r" | b"\n" => Key::Enter,
        b"\x03" => Key::Interrupt,
        b"\x1a" => Key::Suspend,
        b"\x0c" => Key::Redraw,
        _ => Key::Letter(std::str::from_utf8(bytes).ok()?.chars().next().filter(|c| !c.is_control())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces, with `|` where nothing followed for a while.
    fn check(pieces: &[&[u8]], expected: &[Key]) {
        let mut reader = KeyReader::default();
        let mut keys = Vec::new();
        for piece in pieces {
            match *piece {
                b"|" => keys.extend(reader.paused()),
                bytes => keys.extend(reader.keys(bytes)),
            }
        }
        assert_eq!(keys, expected, "{pieces:?}");
    }

    #[test]
    fn keys_are_read_whole_and_in_pieces() {
        check(&[b"jk"], &[Key::Letter('j'), Key::Letter('k')]);
        check(&[b"\x1b[A\x1bOB\x1b[5~\x1b[6~"], &[Key::Up, Key::Down, Key::PageUp, Key::PageDown]);
        check(&[b"\x1b[H\x1b[4~\t\x1b[Z\r"], &[Key::Home, Key::End, Key::Tab, Key::BackTab, Key::Enter]);
        check(&[b"\x1b", b"[", b"A"], &[Key::Up]);
        check(&[b"\x1b", b"|", b"q"], &[Key::Escape, Key::Letter('q')]);
        check(&[b"\x1b\x1b", b"|"], &[Key::Escape, Key::Escape]);
        check(&[b"\xc3", b"\xbc"], &[Key::Letter('\u{fc}')]);
        check(&[b"\x03\x1a\x0c"], &[Key::Interrupt, Key::Suspend, Key::Redraw]);
    }

    /// Function keys, a mouse, other letters with Alt, garbage: nothing happens, and the next key counts.
    #[test]
    fn what_means_nothing_here_is_left_out() {
        check(&[b"\x1b[15~\x1b[1;5C\x1bx\x1b[<0;3;4Mq"], &[Key::Letter('q')]);
        check(&[b"\xff\x00\x07q"], &[Key::Letter('q')]);
        check(&[b"\x1b[", b"|", b"q"], &[Key::Letter('q')]);
        let endless = [b"\x1b[".as_slice(), &[b'1'; 4000], b"mq"].concat();
        let mut reader = KeyReader::default();
        assert_eq!(reader.keys(&endless).last(), Some(&Key::Letter('q')));
        assert!(reader.begun.is_empty());
    }
}
