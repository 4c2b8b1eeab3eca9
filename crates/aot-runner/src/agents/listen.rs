//! What a headless agent prints, line by line: its answer, what it does now, what it has used, what is wrong. Reads as
//! the profile says, and concludes nothing.

use serde_json::Value;

use super::profile::{Count, Pattern, Price, Profile, Rule, at};
use super::question::AgentUsage;

/// A longer line is not read; agents print whole files.
const LONGEST_LINE: usize = 8 << 20;

/// Of a line about what is done now so much is shown.
const DOING_KEPT: usize = 160;

/// Of what is said so much goes into the readable transcript at a time.
const SAID_KEPT: usize = 4 << 10;

/// So many troubles are remembered, the latest ones.
const TROUBLES_KEPT: usize = 8;

#[derive(Debug)]
pub(super) struct Listener<'p> {
    profile: &'p Profile,
    line: Vec<u8>,
    /// The rest of a line that is too long is passed over.
    skipping: bool,
    pub answer: Option<Value>,
    /// What it said was wrong, the latest last.
    pub troubles: Vec<String>,
    /// What it tries to overcome by itself, and has not yet.
    pub retrying: Option<String>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    tokens: u64,
    input: u64,
    output: u64,
    cost: Option<f64>,
}

/// Something that was heard.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Doing(String),
    Said(String),
    Used(AgentUsage),
}

impl<'p> Listener<'p> {
    pub fn new(profile: &'p Profile) -> Listener<'p> {
        Listener {
            profile,
            line: Vec::new(),
            skipping: false,
            answer: None,
            troubles: Vec::new(),
            retrying: None,
            counts: Counts::default(),
        }
    }

    pub fn used(&self) -> AgentUsage {
        let Counts { tokens, input, output, cost } = self.counts;
        let priced = |price: Price| (input as f64 * price.input + output as f64 * price.output) / 1e6;
        AgentUsage { tokens: tokens + input + output, cost_usd: cost.or(self.profile.price.map(priced)) }
    }

    /// A chunk of standard error: it may tell that it tries again.
    pub fn take_errors(&mut self, chunk: &[u8]) {
        let text = String::from_utf8_lossy(chunk);
        let found = self.profile.trouble.retrying.iter().find_map(|Pattern(pattern)| pattern.find(&text));
        if let Some(found) = found {
            self.retrying = Some(found.as_str().to_owned());
        }
    }

    /// A chunk of standard output.
    pub fn take(&mut self, chunk: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.ends_with(b"\n");
            if !self.skipping && self.line.len() + part.len() <= LONGEST_LINE {
                self.line.extend_from_slice(part);
            } else {
                self.skipping = true;
                self.line.clear();
            }
            if ends {
                self.end_line(&mut pieces);
            }
        }
        pieces
    }

    /// Standard output has ended, perhaps without a line feed.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.end_line(&mut pieces);
        pieces
    }

    fn end_line(&mut self, pieces: &mut Vec<Piece>) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.skipping) {
            return;
        }
        let Ok(line) = serde_json::from_slice::<Value>(&line) else { return };
        if !line.is_object() {
            return;
        }
        let profile = self.profile;
        for rule in profile.events.iter().filter(|rule| rule.fits(&line)) {
            self.follow(rule, &line, pieces);
        }
    }

    fn follow(&mut self, rule: &Rule, line: &Value, pieces: &mut Vec<Piece>) {
        if let Some(found) = rule.answer.as_ref().and_then(|path| at(line, path).into_iter().next_back())
            && !found.is_null()
        {
            self.answer = Some(unwrapped(found));
        }
        if let Some(path) = &rule.error {
            for text in at(line, path).into_iter().filter_map(text_of) {
                self.troubled(text);
            }
        }
        let doing = joined(line, &rule.doing);
        if !doing.is_empty() {
            self.retrying = None;
            pieces.push(Piece::Doing(in_one_line(&doing)));
        }
        let retrying = joined(line, &rule.retrying);
        if !retrying.is_empty() {
            pieces.push(Piece::Doing(in_one_line(&format!("tries again: {retrying}"))));
            self.retrying = Some(retrying);
        }
        if let Some(path) = &rule.said {
            for text in at(line, path).into_iter().filter_map(text_of).filter(|text| !text.trim().is_empty())
            {
                let end = text.floor_char_boundary(SAID_KEPT);
                pieces.push(Piece::Said(text[..end].to_owned()));
            }
        }
        if self.count(rule, line) {
            self.retrying = None;
            pieces.push(Piece::Used(self.used()));
        }
    }

    /// Tells whether there was something to count.
    fn count(&mut self, rule: &Rule, line: &Value) -> bool {
        let before = self.used();
        let sum = |paths: &[String]| {
            let found: Vec<u64> =
                paths.iter().flat_map(|path| at(line, path)).filter_map(Value::as_u64).collect();
            (!found.is_empty()).then(|| found.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)))
        };
        let counts = &mut self.counts;
        for (paths, count) in [
            (&rule.tokens, &mut counts.tokens),
            (&rule.input_tokens, &mut counts.input),
            (&rule.output_tokens, &mut counts.output),
        ] {
            if let Some(found) = sum(paths) {
                *count = match rule.count {
                    Count::Each => count.saturating_add(found),
                    Count::Total => found,
                };
            }
        }
        let cost = rule.cost_usd.as_ref().and_then(|path| at(line, path).into_iter().find_map(Value::as_f64));
        if let Some(cost) = cost.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            counts.cost = Some(match rule.count {
                Count::Each => counts.cost.unwrap_or(0.0) + cost,
                Count::Total => cost,
            });
        }
        self.used() != before
    }

    fn troubled(&mut self, text: String) {
        if text.trim().is_empty() || self.troubles.last() == Some(&text) {
            return;
        }
        if self.troubles.len() == TROUBLES_KEPT {
            self.troubles.remove(0);
        }
        self.troubles.push(text);
    }
}

/// What is found at each path first, in one text.
fn joined(line: &Value, paths: &[String]) -> String {
    let first =
        |path: &String| at(line, path).into_iter().filter_map(text_of).find(|text| !text.trim().is_empty());
    paths.iter().filter_map(first).collect::<Vec<_>>().join(" ")
}

/// An answer may be an object, or a text that is one.
pub(super) fn unwrapped(value: &Value) -> Value {
    match value.as_str().map(serde_json::from_str::<Value>) {
        Some(Ok(inner)) if inner.is_object() => inner,
        Some(_) | None => value.clone(),
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        Value::Object(_) | Value::Array(_) | Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
    }
}

pub(super) fn in_one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(DOING_KEPT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn profile(events: &str) -> Profile {
        let table = format!("program = \"x\"\n{events}").parse().expect("TOML");
        Profile::named("x", Some(&table)).expect("a table").expect("a profile")
    }

    #[test]
    fn lines_come_in_any_pieces() {
        let profile = profile("[[events]]\nwhen = { t = \"a\" }\nanswer = \"v\"\ndoing = [\"n\", \"c\"]");
        let text = b"noise\n{\"t\":\"a\",\"n\":\"Bash\",\"c\":\"npm\\n test\",\"v\":\"{\\\"x\\\":1}\"}\n{\"t\":\"b\",\"v\":2}";
        for size in [1, 2, 7, 1000] {
            let mut listener = Listener::new(&profile);
            let mut pieces: Vec<Piece> = text.chunks(size).flat_map(|chunk| listener.take(chunk)).collect();
            pieces.extend(listener.finish());
            assert_eq!(pieces, [Piece::Doing("Bash npm test".into())]);
            assert_eq!(listener.answer, Some(json!({"x": 1})));
        }
    }

    #[test]
    fn usage_is_added_up_or_replaced() {
        let events = "[[events]]\nwhen = { t = \"each\" }\ninput_tokens = [\"u.i\", \"u.c\"]\noutput_tokens = [\"u.o\"]\n\
                      [[events]]\nwhen = { t = \"all\" }\ncount = \"total\"\ninput_tokens = [\"i\"]\noutput_tokens = [\"o\"]\ncost_usd = \"c\"";
        let profile = profile(&format!("price = {{ input = 1.0, output = 10.0 }}\n{events}"));
        let mut listener = Listener::new(&profile);
        let mut say = |line: Value| {
            let mut text = line.to_string();
            text.push('\n');
            listener.take(text.as_bytes());
            listener.used()
        };
        let used = say(json!({"t": "each", "u": {"i": 100, "c": 50, "o": 10}}));
        assert_eq!((used.tokens, used.cost_usd), (160, Some(0.00025)));
        assert_eq!(say(json!({"t": "each", "u": {"i": 100, "o": 10}})).tokens, 270);
        let used = say(json!({"t": "all", "i": 300, "o": 30, "c": 0.5}));
        assert_eq!((used.tokens, used.cost_usd), (330, Some(0.5)));
        assert_eq!(say(json!({"t": "all", "i": -3, "c": "much"})).tokens, 330);
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let profile = profile("[[events]]\nanswer = \"v\"");
        let mut listener = Listener::new(&profile);
        listener.take(b"{\"v\":{\"a\":\"");
        for _ in 0..9 {
            listener.take(&[b'x'; 1 << 20]);
        }
        listener.take(b"\"}}\n{\"v\":{\"b\":1}}\n");
        assert_eq!(listener.answer, Some(json!({"b": 1})));
    }
}
