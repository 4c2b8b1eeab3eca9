//! Prints a value as people and programs might: with any style, indentation, comment and line end that keeps its
//! meaning.

use aot_testkit::random::Random;
use serde_json::{Map, Value};

/// The choices of one printing, drawn from a seed.
#[derive(Debug)]
pub struct Habits {
    random: Random,
    comments: usize,
    step: usize,
    list_step: usize,
    crlf: bool,
    bom: bool,
    noise: u64,
    /// A block scalar was printed last: what follows may only be a comment left of it.
    after_block_scalar: bool,
}

impl Habits {
    pub fn new(seed: u64) -> Habits {
        let mut habits = Habits {
            random: Random::new(seed),
            comments: 0,
            step: 2,
            list_step: 2,
            crlf: false,
            bom: false,
            noise: 0,
            after_block_scalar: false,
        };
        habits.step = 1 + habits.pick(4) as usize;
        habits.list_step = if habits.pick(2) == 0 { 0 } else { habits.step };
        habits.crlf = habits.pick(3) == 0;
        habits.bom = habits.pick(5) == 0;
        habits.noise = 2 + habits.pick(20);
        habits
    }

    fn pick(&mut self, choices: u64) -> u64 {
        self.random.next_u64() % choices
    }

    fn noisy(&mut self) -> bool {
        let noise = self.noise;
        self.pick(noise) == 0
    }

    fn comment(&mut self) -> String {
        self.comments += 1;
        format!("#~{} said: 'so\"", self.comments)
    }

    /// Blanks and perhaps a comment, to the end of a line.
    fn end_of_line(&mut self) -> String {
        self.after_block_scalar = false;
        if self.noisy() {
            return format!("  {}\n", self.comment());
        }
        if self.noisy() { " \t \n".to_owned() } else { "\n".to_owned() }
    }

    /// Blank lines and comment lines between two entries; comments at least in this column.
    fn between(&mut self, column: usize) -> String {
        let mut lines = String::new();
        while self.noisy() {
            if std::mem::take(&mut self.after_block_scalar) {
                lines.push_str(&format!("{}\n", self.comment()));
                continue;
            }
            match self.pick(3) {
                0 => lines.push('\n'),
                1 => lines.push_str(&format!("{}{}\n", " ".repeat(column), self.comment())),
                _ => lines.push_str(&format!("{}{}\n", " ".repeat(self.pick(6) as usize), self.comment())),
            }
        }
        lines
    }
}

/// A whole file whose frontmatter says `value`.
pub fn print(value: &Value, habits: &mut Habits) -> String {
    let Value::Object(entries) = value else { panic!("a frontmatter is a mapping") };
    let head = habits.between(0);
    let front = if entries.is_empty() || habits.pick(30) == 0 {
        format!("{}{}", flow(value, habits), habits.end_of_line())
    } else {
        let column = if habits.pick(10) == 0 { 2 } else { 0 };
        block_map(entries, column, habits)
    };
    let front = format!("{head}{front}{}", habits.between(0));
    let end = ["", "\n", "\nbody", "\n\n# Body\n---\ntext: [\n"][habits.pick(4) as usize];
    let text = format!("---\n{front}---{end}");
    let text = if habits.crlf { text.replace('\n', "\r\n") } else { text };
    if habits.bom { format!("\u{feff}{text}") } else { text }
}

/// Lines with indentation and their ends.
fn block_map(entries: &Map<String, Value>, column: usize, habits: &mut Habits) -> String {
    let mut text = String::new();
    for (at, (key, value)) in entries.iter().enumerate() {
        if at > 0 {
            text.push_str(&habits.between(column));
        }
        text.push_str(&" ".repeat(column));
        text.push_str(&scalar_key(key, habits));
        text.push_str(if habits.pick(12) == 0 { " :" } else { ":" });
        text.push_str(&behind_key(value, column, habits));
    }
    text
}

fn behind_key(value: &Value, column: usize, habits: &mut Habits) -> String {
    match value {
        Value::Null if habits.pick(2) == 0 => habits.end_of_line(),
        Value::Object(entries) if !entries.is_empty() && habits.pick(4) > 0 => {
            let inner = column + habits.step;
            format!("{}{}{}", habits.end_of_line(), habits.between(inner), block_map(entries, inner, habits))
        }
        Value::Array(items) if !items.is_empty() && habits.pick(4) > 0 => {
            let inner = column + habits.list_step;
            format!("{}{}{}", habits.end_of_line(), habits.between(inner), block_seq(items, inner, habits))
        }
        Value::String(text) if fits_block_scalar(text) && habits.pick(2) == 0 => {
            block_scalar(text, column, habits)
        }
        _ if habits.pick(12) == 0 => {
            // The value on a line of its own.
            let pad = " ".repeat(column + 1 + habits.pick(3) as usize);
            format!("{}{pad}{}{}", habits.end_of_line(), flow(value, habits), habits.end_of_line())
        }
        _ => format!(" {}{}", flow(value, habits), habits.end_of_line()),
    }
}

fn block_seq(items: &[Value], column: usize, habits: &mut Habits) -> String {
    let mut text = String::new();
    let gap = 1 + habits.pick(2) as usize;
    for (at, value) in items.iter().enumerate() {
        if at > 0 {
            text.push_str(&habits.between(column));
        }
        text.push_str(&" ".repeat(column));
        text.push('-');
        let inner = column + 1 + gap;
        let compact = |lines: &str| format!("{}{}", " ".repeat(gap), lines.trim_start_matches(' '));
        text.push_str(&match value {
            Value::Object(entries) if !entries.is_empty() && habits.pick(4) > 0 => {
                let own_lines = (habits.pick(6) == 0).then(|| habits.end_of_line());
                let lines = block_map(entries, inner, habits);
                own_lines.map_or_else(|| compact(&lines), |end| format!("{end}{lines}"))
            }
            Value::Array(items) if !items.is_empty() && habits.pick(4) > 0 => {
                let own_lines = (habits.pick(6) == 0).then(|| habits.end_of_line());
                let lines = block_seq(items, inner, habits);
                own_lines.map_or_else(|| compact(&lines), |end| format!("{end}{lines}"))
            }
            Value::Object(_) | Value::Array(_) => format!(" {}{}", flow(value, habits), habits.end_of_line()),
            scalar => behind_key(scalar, column, habits),
        });
    }
    text
}

fn fits_block_scalar(text: &str) -> bool {
    text.chars()
        .all(|char| char == '\n' || (!char.is_control() && !"\u{feff}\u{2028}\u{2029}".contains(char)))
        && text.chars().any(|char| char != '\n' && char != ' ')
}

/// Any string of printable lines, with the indicators it needs and some it does not.
fn block_scalar(text: &str, column: usize, habits: &mut Habits) -> String {
    let content = text.trim_end_matches('\n');
    let trailing = text.len() - content.len();
    let width = 1 + habits.pick(4) as usize;
    let needs_width = content.starts_with([' ', '\n']) || habits.pick(4) == 0;
    let mut header = String::from(" |");
    if needs_width {
        header.push_str(&width.to_string());
    }
    // Blank lines after the content belong to it under `+` and to nobody otherwise.
    let blank_lines = match trailing {
        0 => {
            header.push('-');
            habits.pick(2) as usize
        }
        1 if habits.pick(3) > 0 => habits.pick(3) as usize,
        more => {
            header.push('+');
            more - 1
        }
    };
    let pad = " ".repeat(column + width);
    let lines = content
        .split('\n')
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{pad}{line}\n") });
    let comment = if habits.noisy() { format!(" {}", habits.comment()) } else { String::new() };
    let lines: String = lines.collect();
    habits.after_block_scalar = true;
    format!("{header}{comment}\n{lines}{}", "\n".repeat(blank_lines))
}

fn scalar_key(text: &str, habits: &mut Habits) -> String {
    if is_word(text) && habits.pick(4) > 0 { text.to_owned() } else { quoted(text, habits) }
}

/// A value in flow style; collections may take several lines.
fn flow(value: &Value, habits: &mut Habits) -> String {
    match value {
        Value::Null => ["null", "~", "Null"][habits.pick(3) as usize].to_owned(),
        Value::String(text) if is_word(text) && habits.pick(3) > 0 => text.clone(),
        Value::String(text) => broken(quoted(text, habits), habits),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items = items.iter().map(|item| flow(item, habits)).collect();
            bracketed('[', items, ']', habits)
        }
        Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| {
                    let key = scalar_key(key, habits);
                    if value.is_null() && habits.pick(2) == 0 {
                        key
                    } else {
                        format!("{key}: {}", flow(value, habits))
                    }
                })
                .collect();
            bracketed('{', entries, '}', habits)
        }
    }
}

fn bracketed(open: char, parts: Vec<String>, close: char, habits: &mut Habits) -> String {
    let pad = " ".repeat(12);
    let mut text = String::from(open);
    let spread = habits.pick(5) == 0;
    let last = parts.len();
    for (at, part) in parts.into_iter().enumerate() {
        if spread {
            text.push_str(&format!("{}{pad}", habits.end_of_line()));
        }
        text.push_str(&part);
        if at + 1 < last || (spread && habits.pick(2) == 0) {
            text.push_str(if spread { "," } else { ", " });
        }
    }
    if spread {
        text.push_str(&format!("{}{pad}", habits.end_of_line()));
    }
    text.push(close);
    text
}

fn is_word(text: &str) -> bool {
    let words = text.split(' ');
    let is_plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'/')
    };
    words.clone().all(is_plain) && !matches!(text, "null" | "true" | "false")
}

fn quoted(text: &str, habits: &mut Habits) -> String {
    let is_tame = text.chars().all(|char| !char.is_control() && !"\u{feff}\u{2028}\u{2029}".contains(char));
    if is_tame && habits.pick(2) == 0 {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut quoted = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            ' '..='~' => quoted.push(char),
            char if char.is_alphanumeric() && habits.pick(2) == 0 => quoted.push(char),
            char => quoted.push_str(&format!("\\U{:08x}", char as u32)),
        }
    }
    quoted.push('"');
    quoted
}

/// A long text may be broken over lines, with the break escaped.
fn broken(mut quoted: String, habits: &mut Habits) -> String {
    let is_breakable =
        quoted.starts_with('"') && quoted.len() > 8 && quoted.is_ascii() && !quoted.contains(['\\', ' ']);
    if is_breakable && habits.pick(4) == 0 {
        quoted.insert_str(4, "\\\n              ");
    }
    quoted
}
