//! A text of bounded size: each part is cut at its own budget, and the text notes what was cut. Knows nothing of atoms or
//! roles.

/// Marks the end of a text that was cut.
const MARK: &str = " […cut]";

/// Where the output of a failure has to be cut, its headline has at most this part of the room.
const HEADLINE_SHARE: usize = 4;

/// A brief that is being written. Every part that quotes others has a budget in bytes; the program's own sentences have
/// none, because they are short.
#[derive(Debug, Default)]
pub(super) struct BriefText {
    text: String,
    cut: Vec<String>,
    /// Whether a quote or a list has just ended; a sentence right after it would read as a part of it.
    after_block: bool,
}

/// One entry of a list, and what of it was cut.
#[derive(Debug, Default)]
pub(super) struct ListEntry {
    text: String,
    cut: Vec<String>,
}

impl BriefText {
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

    /// A sentence of the program, never cut.
    pub(super) fn paragraph(&mut self, words: &str) {
        if std::mem::take(&mut self.after_block) {
            self.text.push('\n');
        }
        self.text.push_str(words);
        self.text.push('\n');
    }

    /// A text of others, marked on every line, so that none of it can pass for a heading of the brief.
    pub(super) fn quote(&mut self, what: &str, text: &str, budget: usize) {
        let mut entry = ListEntry::default();
        entry.quote(0, what, text, budget);
        self.text.push_str(&entry.text);
        self.cut.extend(entry.cut);
        self.after_block = true;
    }

    /// Why something failed: what happened, and below it the end of the output that showed it. The end tells most, so it is
    /// kept.
    pub(super) fn failure(&mut self, what: &str, reason: &str, budget: usize) {
        let mut entry = ListEntry::default();
        entry.failure(0, what, reason, budget);
        self.text.push_str(&entry.text);
        self.cut.extend(entry.cut);
        self.after_block = true;
    }

    /// As many entries as fit, in their order, and then how many are missing.
    pub(super) fn list<T>(
        &mut self,
        what: &str,
        things: impl IntoIterator<Item = T>,
        budget: usize,
        write: impl Fn(&mut ListEntry, T),
    ) {
        // Room for the line that says how many are missing.
        let end = self.text.len() + budget.saturating_sub(64);
        let mut things = things.into_iter();
        let mut listed = 0usize;
        self.after_block = true;
        while let Some(thing) = things.next() {
            let mut entry = ListEntry::default();
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

impl ListEntry {
    /// One line of a list, at a depth.
    pub(super) fn line(&mut self, depth: usize, text: &str) {
        self.text.push_str(&"  ".repeat(depth));
        self.text.push_str("- ");
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A text of others as an item of its own.
    pub(super) fn item(&mut self, what: &str, text: &str, budget: usize) {
        let from = self.text.len();
        self.quote(1, what, text, budget);
        self.text.replace_range(from..from + 1, "-");
    }

    /// A text of others inside a list, below the line that it belongs to.
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

    /// Why something failed, with the end of its output kept.
    pub(super) fn failure(&mut self, depth: usize, what: &str, reason: &str, budget: usize) {
        let (headline, output) = reason.trim().split_once('\n').unwrap_or((reason, ""));
        self.quote_end(depth, what, headline, output, budget);
    }

    /// The same as an item of its own.
    pub(super) fn failure_item(&mut self, what: &str, reason: &str, budget: usize) {
        let from = self.text.len();
        self.failure(1, what, reason, budget);
        self.text.replace_range(from..from + 1, "-");
    }

    /// A headline, if there is one, and of an output as many of its last lines as fit.
    pub(super) fn quote_end(
        &mut self,
        depth: usize,
        what: &str,
        headline: &str,
        output: &str,
        budget: usize,
    ) {
        // Each line has an indent, a mark and an end.
        let line_mark = 2 * depth + 3;
        let cost = |line: &str| line.len() + line_mark;
        let whole: usize = headline.lines().chain(output.lines()).map(cost).sum();
        if output.is_empty() || whole + MARK.len() < budget {
            let lines: Vec<&str> = [headline, output].into_iter().filter(|text| !text.is_empty()).collect();
            self.quote(depth, what, &lines.join("\n"), budget);
            return;
        }
        let headline = clipped(headline, budget / HEADLINE_SHARE);
        // Besides the lines there is the one that says where something is missing.
        let mut room = budget.saturating_sub(cost(&headline) + cost(MARK) + MARK.len() + 1);
        let mut kept: Vec<&str> = Vec::new();
        for line in output.lines().rev() {
            let Some(left) = room.checked_sub(cost(line)) else { break };
            room = left;
            kept.push(line);
        }
        if kept.is_empty() {
            kept.extend(output.lines().last());
        }
        kept.push(MARK.trim_start());
        kept.extend(Some(headline.as_str()).filter(|headline| !headline.is_empty()));
        kept.reverse();
        self.quote(depth, what, &kept.join("\n"), budget);
        self.note_cut(format!("{what}: the beginning of its output left out"));
    }

    /// Notes that something shown in this entry is not the whole of it.
    pub(super) fn note_cut(&mut self, what: String) {
        self.cut.push(what);
    }

    /// A text as one line, for [`ListEntry::line`]; that it was cut is noted.
    pub(super) fn one_line(&mut self, what: &str, text: &str, limit: usize) -> String {
        let (line, extent) = squeezed(text, limit);
        if extent == Extent::Cut {
            self.cut.push(format!("{what}: {} bytes, cut to fit {limit}", text.len()));
        }
        line
    }

    /// A text as one line of Markdown code; that it was cut is noted.
    pub(super) fn code(&mut self, what: &str, text: &str, limit: usize) -> String {
        fenced(&self.one_line(what, text, limit))
    }
}

/// A text as one line of at most `limit` bytes, without control characters. Where the whole text matters, use
/// [`ListEntry::one_line`], which notes what was cut.
pub(super) fn one_line(text: &str, limit: usize) -> String {
    squeezed(text, limit).0
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Cut,
}

fn squeezed(text: &str, limit: usize) -> (String, Extent) {
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
            return (line, Extent::Cut);
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
        }
        line.push(c);
    }
    (line, Extent::Whole)
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
