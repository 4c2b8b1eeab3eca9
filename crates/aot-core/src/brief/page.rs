//! A page of bounded size: what is written on it is cut where its part ends, and the page remembers what was cut.
//! Knows nothing of atoms or roles.

/// Follows what was cut short.
const MARK: &str = " […cut]";

/// Text in the making. Every part that holds foreign text has a budget in bytes; our own words are short by nature.
#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
    cut: Vec<String>,
    /// Whether a quote or a list has just ended: words that followed at once would be taken for a part of it.
    after_block: bool,
}

/// One entry of a list, and what of it was cut.
#[derive(Debug, Default)]
pub(super) struct Entry {
    text: String,
    cut: Vec<String>,
}

impl Page {
    pub(super) fn title(&mut self, words: &str) {
        self.text.push_str("# ");
        self.text.push_str(words);
        self.text.push('\n');
    }

    pub(super) fn heading(&mut self, words: &str) {
        self.text.push_str("\n## ");
        self.text.push_str(words);
        self.text.push('\n');
        self.after_block = false;
    }

    /// Our own words: never cut.
    pub(super) fn say(&mut self, words: &str) {
        if std::mem::take(&mut self.after_block) {
            self.text.push('\n');
        }
        self.text.push_str(words);
        self.text.push('\n');
    }

    /// Foreign text, marked as such on every line, so that it cannot pass for a heading of ours.
    pub(super) fn quote(&mut self, what: &str, text: &str, budget: usize) {
        let mut entry = Entry::default();
        entry.quote(0, what, text, budget);
        self.text.push_str(&entry.text);
        self.cut.extend(entry.cut);
        self.after_block = true;
    }

    /// Entries in their order, as many as fit; the first that does not ends the list, and how many are missing is
    /// said. What lies behind the end is counted, not written.
    pub(super) fn list<T>(
        &mut self,
        what: &str,
        things: impl IntoIterator<Item = T>,
        budget: usize,
        write: impl Fn(&mut Entry, T),
    ) {
        // Room for the line that says how many are missing.
        let end = self.text.len() + budget.saturating_sub(64);
        let mut things = things.into_iter();
        let mut listed = 0usize;
        self.after_block = true;
        while let Some(thing) = things.next() {
            let mut entry = Entry::default();
            write(&mut entry, thing);
            if self.text.len() + entry.text.len() > end {
                let missing = 1 + things.count();
                self.text.push_str(&format!("- … and {missing} more, left out for size\n"));
                self.cut.push(format!("{what}: {missing} of {} left out", listed + missing));
                return;
            }
            self.text.push_str(&entry.text);
            self.cut.extend(entry.cut);
            listed += 1;
        }
    }

    pub(super) fn into_parts(self) -> (String, Vec<String>) {
        (self.text, self.cut)
    }
}

impl Entry {
    /// One line of a list, at a depth.
    pub(super) fn line(&mut self, depth: usize, text: &str) {
        self.text.push_str(&"  ".repeat(depth));
        self.text.push_str("- ");
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Foreign text as an item of its own.
    pub(super) fn item(&mut self, what: &str, text: &str, budget: usize) {
        let from = self.text.len();
        self.quote(1, what, text, budget);
        self.text.replace_range(from..from + 1, "-");
    }

    /// Foreign text inside a list, below the line it belongs to.
    pub(super) fn quote(&mut self, depth: usize, what: &str, text: &str, budget: usize) {
        let indent = "  ".repeat(depth);
        let next_line = format!("\n{indent}> ");
        let room = budget.saturating_sub(MARK.len() + 1);
        let mut quoted = format!("{indent}> ");
        let mut whole = true;
        let mut bytes = [0; 4];
        for c in text.trim().chars() {
            let written = match c {
                '\n' => &next_line,
                '\r' => "",
                c if c.is_control() && c != '\t' => " ",
                c => c.encode_utf8(&mut bytes),
            };
            if quoted.len() + written.len() > room {
                whole = false;
                break;
            }
            quoted.push_str(written);
        }
        self.text.push_str(&quoted);
        if !whole {
            self.text.push_str(MARK);
            self.cut.push(format!("{what}: {} bytes, cut to fit {budget}", text.len()));
        }
        self.text.push('\n');
    }

    /// Notes that something shown in this entry is not the whole of it.
    pub(super) fn note_cut(&mut self, what: String) {
        self.cut.push(what);
    }

    /// A text as one line, for [`Entry::line`]; that it was cut is noted.
    pub(super) fn one_line(&mut self, what: &str, text: &str, limit: usize) -> String {
        let (line, whole) = squeezed(text, limit);
        if whole == Whole::No {
            self.cut.push(format!("{what}: {} bytes, cut to fit {limit}", text.len()));
        }
        line
    }

    /// A text as one line of Markdown code; that it was cut is noted.
    pub(super) fn code(&mut self, what: &str, text: &str, limit: usize) -> String {
        fenced(&self.one_line(what, text, limit))
    }
}

/// A text as one line of at most `limit` bytes, without control characters. For what is a reference by intent; where
/// the whole would matter, [`Entry::one_line`] notes what was cut.
pub(super) fn one_line(text: &str, limit: usize) -> String {
    squeezed(text, limit).0
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Yes,
    No,
}

fn squeezed(text: &str, limit: usize) -> (String, Whole) {
    const ELLIPSIS: char = '…';
    let room = limit.saturating_sub(ELLIPSIS.len_utf8());
    let mut line = String::new();
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = !line.is_empty();
            continue;
        }
        if line.len() + usize::from(gap) + c.len_utf8() > room {
            line.push(ELLIPSIS);
            return (line, Whole::No);
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
        }
        line.push(c);
    }
    (line, Whole::Yes)
}

/// Text of at most `limit` bytes, with a mark where it was longer.
pub(super) fn clipped(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub(MARK.len()));
    format!("{}{MARK}", text[..end].trim_end())
}

/// A line as Markdown code, whatever backticks stand in it.
fn fenced(line: &str) -> String {
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest == 0 {
        return format!("`{line}`");
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {line} {fence}")
}
