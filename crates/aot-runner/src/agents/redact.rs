//! Removes secrets from transcripts: what looks like one, and every value that was given to an agent as one.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Replaces a secret.
pub const MARK: &str = "[redacted]";

/// A shorter value is no secret, and its removal would tear words apart.
const SHORTEST: usize = 8;

/// Headers, assignments, and the beginnings by which keys are known.
static PATTERNS: LazyLock<Regex> = LazyLock::new(|| {
    let named = r#"(?i)(?P<name>(?:proxy-)?authorization|x-api-key|x-goog-api-key|api[_-]?key|access[_-]?token|refresh[_-]?token|client[_-]?secret|secret[_-]?access[_-]?key|password|passwd)(?P<between>\\?["']?\s*[:=]\s*\\?["']?(?:bearer\s+|basic\s+|token\s+)?)(?P<value>[^\s"'\\,;&}]{6,})"#;
    let bearer = r"(?P<bearer>(?i:bearer)\s+)[A-Za-z0-9._~+/=-]{12,}";
    let keys = r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})";
    let private = r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)-----END [A-Z ]*PRIVATE KEY-----";
    Regex::new(&format!("{private}|{named}|{bearer}|{keys}")).expect("the patterns are right")
});

/// The values that must not be seen.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    pub fn new(values: impl IntoIterator<Item = String>) -> Secrets {
        let mut values: Vec<String> = values.into_iter().filter(|value| value.len() >= SHORTEST).collect();
        // The longest first: one may be a part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Secrets(values)
    }

    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for value in &self.0 {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), MARK));
            }
        }
        let replaced = PATTERNS.replace_all(&text, |found: &Captures<'_>| {
            match (found.name("name"), found.name("bearer")) {
                (Some(name), _) => format!("{}{}{MARK}", name.as_str(), &found["between"]),
                (None, Some(bearer)) => format!("{}{MARK}", bearer.as_str()),
                (None, None) => MARK.to_owned(),
            }
        });
        match replaced {
            Cow::Borrowed(_) => text,
            Cow::Owned(replaced) => Cow::Owned(replaced),
        }
    }
}

/// Whether a variable of this name holds a secret.
pub fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "AUTH"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out_and_the_rest_stays() {
        let secrets = Secrets::new(["hunter2hunter2".to_owned(), "short".to_owned()]);
        for (text, expected) in [
            ("nothing here, short words stay", "nothing here, short words stay"),
            ("it is hunter2hunter2!", "it is [redacted]!"),
            ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"),
            ("{\"authorization\": \"Basic Zm9vOmJhcg==\"}", "{\"authorization\": \"Basic [redacted]\"}"),
            ("curl -H 'x-api-key: k-123456'", "curl -H 'x-api-key: [redacted]'"),
            ("{\\\"api_key\\\":\\\"abcdef123\\\"}", "{\\\"api_key\\\":\\\"[redacted]\\\"}"),
            ("key sk-0123456789abcdefghij end", "key [redacted] end"),
            ("ghp_0123456789abcdefghijKLMN", "[redacted]"),
            ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
            ("Bearer 0123456789abcdef", "Bearer [redacted]"),
            ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[redacted]"),
            ("PASSWORD=correct-horse", "PASSWORD=[redacted]"),
            ("the author of task-force-one", "the author of task-force-one"),
            ("password: ", "password: "),
        ] {
            assert_eq!(secrets.redact(text), expected);
        }
    }

    #[test]
    fn names_of_secrets_are_known() {
        for (name, expected) in
            [("ANTHROPIC_API_KEY", true), ("GH_TOKEN", true), ("HOME", false), ("npm_config_authToken", true)]
        {
            assert_eq!(sounds_secret(name), expected, "{name}");
        }
    }
}
