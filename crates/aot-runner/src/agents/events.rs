//! What a headless agent prints, line by line: its answer, what it does now, what it has used, its errors. Reads as the
//! profile says, and concludes nothing.

use serde_json::Value;

use super::lines::{LineSplitter, SplitLine, has_more_values};
use super::profile::{Counting, ErrorPattern, EventRule, Profile, at};
use super::question::{AgentEvent, AgentUsage};
use crate::plain_text;

/// A longer line is passed over: agents print whole files, and what they think, do and answer is far shorter.
const LONGEST_LINE: usize = 1 << 20;

/// A line with more values is passed over as well, before it is parsed.
const MOST_VALUES: usize = 20_000;

/// Characters shown of what the agent does now.
const ACTIVITY_SHOWN: usize = 160;

/// Bytes of one text that go into the transcript.
const TEXT_KEPT: usize = 4 << 10;

/// The latest errors that are remembered.
const ERRORS_KEPT: usize = 8;

#[derive(Debug)]
pub(super) struct EventReader<'p> {
    profile: &'p Profile,
    lines: LineSplitter,
    pub answer: Option<Value>,
    /// The first name that the conversation was given.
    pub session: Option<String>,
    /// What the agent reported as wrong, the latest last.
    pub errors: Vec<String>,
    /// The error that the agent is trying to overcome by itself.
    pub retrying: Option<String>,
    counts: TokenCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct TokenCounts {
    tokens: u64,
    input: u64,
    output: u64,
    cost: Option<f64>,
}

type Emit<'e> = &'e mut dyn FnMut(AgentEvent<'_>);

impl<'p> EventReader<'p> {
    pub fn new(profile: &'p Profile) -> EventReader<'p> {
        EventReader {
            profile,
            lines: LineSplitter::new(LONGEST_LINE),
            answer: None,
            session: None,
            errors: Vec::new(),
            retrying: None,
            counts: TokenCounts::default(),
        }
    }

    pub fn used(&self) -> AgentUsage {
        let TokenCounts { tokens, input, output, cost } = self.counts;
        let priced = self.profile.price.map(|price| price.of(input, output));
        AgentUsage { tokens: tokens + input + output, cost_usd: cost.or(priced) }
    }

    /// A chunk of standard error: it may say that the agent tries again.
    pub fn take_errors(&mut self, chunk: &[u8]) {
        let text = String::from_utf8_lossy(chunk);
        let found = self.profile.errors.retrying.iter().find_map(|ErrorPattern(pattern)| pattern.find(&text));
        if let Some(found) = found {
            self.retrying = Some(found.as_str().to_owned());
        }
    }

    /// A chunk of standard output.
    pub fn take(&mut self, chunk: &[u8], emit: Emit<'_>) {
        for line in self.lines.push(chunk) {
            self.take_line(line, emit);
        }
    }

    /// Standard output has ended, perhaps without a line feed.
    pub fn finish(&mut self, emit: Emit<'_>) {
        if let Some(line) = self.lines.finish() {
            self.take_line(line, emit);
        }
    }

    fn take_line(&mut self, line: SplitLine, emit: Emit<'_>) {
        let line = match line {
            SplitLine::Whole(line) => line,
            SplitLine::TooLong => {
                let limit = LONGEST_LINE >> 20;
                return emit(AgentEvent::Text(&format!("[a line of more than {limit} MiB was left out]")));
            }
        };
        if has_more_values(&line, MOST_VALUES) {
            return emit(AgentEvent::Text(&format!(
                "[a line of more than {MOST_VALUES} values was left out]"
            )));
        }
        let Ok(line @ Value::Object(_)) = serde_json::from_slice::<Value>(&line) else { return };
        let profile = self.profile;
        for rule in profile.events.iter().filter(|rule| rule.fits(&line)) {
            self.follow(rule, &line, emit);
        }
    }

    fn follow(&mut self, rule: &EventRule, line: &Value, emit: Emit<'_>) {
        if let Some(found) = rule.answer.as_ref().and_then(|path| at(line, path).into_iter().next_back())
            && !found.is_null()
        {
            self.answer = Some(unwrapped(found));
        }
        if self.session.is_none() {
            let found = rule.session.as_ref().and_then(|path| at(line, path).into_iter().next());
            self.session = found.and_then(Value::as_str).map(str::to_owned);
        }
        if let Some(path) = &rule.error {
            for text in at(line, path).into_iter().filter_map(text_of) {
                self.add_error(text);
            }
        }
        if let Some(path) = &rule.tool_error {
            for text in at(line, path).into_iter().filter_map(text_of) {
                match (in_one_line(&text).as_str(), self.profile.errors.is_everyday(&text)) {
                    ("", _) => {}
                    (line, true) => emit(AgentEvent::Text(&format!("[failed: {line}]"))),
                    (line, false) => emit(AgentEvent::ToolError(line)),
                }
            }
        }
        let doing = joined(line, &rule.activity);
        if !doing.is_empty() {
            self.retrying = None;
            emit(AgentEvent::Activity(&in_one_line(&doing)));
        }
        let retrying = joined(line, &rule.retrying);
        if !retrying.is_empty() {
            emit(AgentEvent::Activity(&in_one_line(&format!("tries again: {retrying}"))));
            self.retrying = Some(retrying);
        }
        if let Some(path) = &rule.text {
            for text in at(line, path).into_iter().filter_map(text_of).filter(|text| !text.trim().is_empty())
            {
                let end = text.floor_char_boundary(TEXT_KEPT);
                emit(AgentEvent::Text(&text[..end]));
            }
        }
        if self.count(rule, line) {
            self.retrying = None;
            emit(AgentEvent::Usage(self.used()));
        }
    }

    /// Returns whether there was something to count.
    fn count(&mut self, rule: &EventRule, line: &Value) -> bool {
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
                    Counting::Each => count.saturating_add(found),
                    Counting::Total => found,
                };
            }
        }
        let cost = rule.cost_usd.as_ref().and_then(|path| at(line, path).into_iter().find_map(Value::as_f64));
        if let Some(cost) = cost.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            counts.cost = Some(match rule.count {
                Counting::Each => counts.cost.unwrap_or(0.0) + cost,
                Counting::Total => cost,
            });
        }
        self.used() != before
    }

    fn add_error(&mut self, text: String) {
        if text.trim().is_empty() || self.errors.last() == Some(&text) {
            return;
        }
        if self.errors.len() == ERRORS_KEPT {
            self.errors.remove(0);
        }
        self.errors.push(text);
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

/// The beginning of a text of others, without what a terminal obeys.
pub(super) fn in_one_line(text: &str) -> String {
    let text = plain_text::text(&text.replace('\r', "\n"));
    let line = text.split_whitespace().collect::<Vec<&str>>().join(" ");
    match line.char_indices().nth(ACTIVITY_SHOWN) {
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

    /// Everything that was emitted, by these chunks of standard output.
    fn shown<'c>(reader: &mut EventReader<'_>, chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<String> {
        let mut shown = Vec::new();
        let mut emit = |event: AgentEvent<'_>| {
            shown.push(match event {
                AgentEvent::Activity(line) => format!("> {line}"),
                AgentEvent::Text(text) => text.to_owned(),
                AgentEvent::ToolError(line) => format!("! {line}"),
                AgentEvent::Usage(used) => format!("{} tokens", used.tokens),
            });
        };
        chunks.into_iter().for_each(|chunk| reader.take(chunk, &mut emit));
        reader.finish(&mut emit);
        shown
    }

    #[test]
    fn lines_come_in_any_pieces() {
        let profile = profile("[[events]]\nwhen = { t = \"a\" }\nanswer = \"v\"\ndoing = [\"n\", \"c\"]");
        let text = b"noise\n{\"t\":\"a\",\"n\":\"Bash\",\"c\":\"npm\\n test\",\"v\":\"{\\\"x\\\":1}\"}\n{\"t\":\"b\",\"v\":2}";
        for size in [1, 2, 7, 1000] {
            let mut reader = EventReader::new(&profile);
            assert_eq!(shown(&mut reader, text.chunks(size)), ["> Bash npm test"]);
            assert_eq!(reader.answer, Some(json!({"x": 1})));
        }
    }

    #[test]
    fn errors_of_tools_are_told_unless_they_belong_to_the_work() {
        let profile = profile(
            "trouble.everyday = ['^Exit code \\d+']\n[[events]]\nwhen = { t = \"r\" }\ntool_error = \"c[].text\"",
        );
        let mut reader = EventReader::new(&profile);
        let lines = "{\"t\":\"r\",\"c\":[{\"text\":\"EROFS: read-only\\n file system\"},{\"text\":\"Exit code 1\"},{\"text\":\"Exit code 1\\nmkdir: Permission denied\"}]}\n\
                     {\"t\":\"x\",\"c\":[{\"text\":\"no\"}]}\n";
        let expected = [
            "! EROFS: read-only file system",
            "[failed: Exit code 1]",
            "! Exit code 1 mkdir: Permission denied",
        ];
        assert_eq!(shown(&mut reader, [lines.as_bytes()]), expected);
        assert!(reader.errors.is_empty(), "the agent may go on");
    }

    #[test]
    fn usage_is_added_up_or_replaced() {
        let events = "[[events]]\nwhen = { t = \"each\" }\ninput_tokens = [\"u.i\", \"u.c\"]\noutput_tokens = [\"u.o\"]\n\
                      [[events]]\nwhen = { t = \"all\" }\ncount = \"total\"\ninput_tokens = [\"i\"]\noutput_tokens = [\"o\"]\ncost_usd = \"c\"";
        let profile = profile(&format!("price = {{ input = 1.0, output = 10.0 }}\n{events}"));
        let mut reader = EventReader::new(&profile);
        let mut print = |line: Value| {
            shown(&mut reader, [format!("{line}\n").as_bytes()]);
            reader.used()
        };
        let used = print(json!({"t": "each", "u": {"i": 100, "c": 50, "o": 10}}));
        assert_eq!((used.tokens, used.cost_usd), (160, Some(0.00025)));
        assert_eq!(print(json!({"t": "each", "u": {"i": 100, "o": 10}})).tokens, 270);
        let used = print(json!({"t": "all", "i": 300, "o": 30, "c": 0.5}));
        assert_eq!((used.tokens, used.cost_usd), (330, Some(0.5)));
        assert_eq!(print(json!({"t": "all", "i": -3, "c": "much"})).tokens, 330);
    }

    #[test]
    fn a_line_without_end_is_passed_over_and_reported() {
        let profile = profile("[[events]]\nanswer = \"v\"");
        let mut reader = EventReader::new(&profile);
        let long = [b'x'; 1 << 20];
        let chunks = [&b"{\"v\":{\"a\":\""[..]]
            .into_iter()
            .chain([&long[..]; 2])
            .chain([&b"\"}}\n{\"v\":{\"b\":1}}\n"[..]]);
        assert_eq!(shown(&mut reader, chunks), ["[a line of more than 1 MiB was left out]"]);
        assert_eq!(reader.answer, Some(json!({"b": 1})));
    }

    #[test]
    fn a_line_of_too_many_values_is_passed_over_and_reported() {
        let profile = profile("[[events]]\nanswer = \"v\"");
        let mut reader = EventReader::new(&profile);
        let many = format!("{{\"v\":[{}0]}}\n{{\"v\":{{\"b\":1}}}}\n", "0,".repeat(MOST_VALUES));
        assert_eq!(
            shown(&mut reader, [many.as_bytes()]),
            ["[a line of more than 20000 values was left out]"]
        );
        assert_eq!(reader.answer, Some(json!({"b": 1})));
    }
}
