//! Names that must not be swapped: atoms, groups, moments, spans of time.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl AsRef<str>) -> Self {
                $name(Arc::from(text.as_ref()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name::new(text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "minLength": 1})
            }
        }
    };
}

name! {
    /// The id of an atom: `A1`, `A4_alt`.
    AtomId
}

name! {
    /// The name of an OR group.
    GroupName
}

impl AtomId {
    /// Longer ids are refused.
    pub const MAX_LENGTH: usize = 128;

    /// An id is one word: it stands in lists, in file names and in commit trailers.
    pub fn is_usable(text: &str) -> bool {
        let fits = !text.is_empty() && text.len() <= AtomId::MAX_LENGTH;
        fits && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
    }
}

/// A moment as the file writes it (ISO 8601). The text is kept, so that what was read is what is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "StampText", into = "String")]
#[schemars(with = "String", extend("format" = "date-time"))]
pub struct Stamp {
    text: String,
    at: jiff::Timestamp,
}

impl Stamp {
    /// Reads an ISO 8601 date, or date and time; without an offset it is taken as UTC.
    pub fn parse(text: &str) -> Option<Stamp> {
        let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            let civil = text
                .parse::<jiff::civil::DateTime>()
                .or_else(|_| text.parse::<jiff::civil::Date>().map(|date| date.at(0, 0, 0, 0)))
                .ok()?;
            civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
        })?;
        Some(Stamp { text: text.to_owned(), at })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn at(&self) -> jiff::Timestamp {
        self.at
    }
}

impl From<jiff::Timestamp> for Stamp {
    /// Whole seconds: nobody reads more, and files stay comparable.
    fn from(at: jiff::Timestamp) -> Stamp {
        let at = jiff::Timestamp::from_second(at.as_second()).expect("a timestamp's own second is in range");
        Stamp { text: at.to_string(), at }
    }
}

/// Tells a reader of the file, by its name, that a moment is wanted.
#[derive(Deserialize)]
#[serde(rename = "Stamp")]
struct StampText(String);

impl TryFrom<StampText> for Stamp {
    type Error = String;

    fn try_from(StampText(text): StampText) -> Result<Stamp, String> {
        Stamp::parse(&text).ok_or_else(|| format!("`{text}` is not an ISO 8601 date and time"))
    }
}

impl From<Stamp> for String {
    fn from(stamp: Stamp) -> String {
        stamp.text
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A limit in time, written `90s`, `30m`, `8h` or `2d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "SpanText", into = "String")]
#[schemars(with = "String", extend("pattern" = "^[0-9]+(s|m|h|d)$"))]
pub struct Span {
    seconds: u64,
}

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

impl Span {
    pub const fn from_seconds(seconds: u64) -> Span {
        Span { seconds }
    }

    pub fn seconds(self) -> u64 {
        self.seconds
    }

    pub fn parse(text: &str) -> Option<Span> {
        let unit = text.chars().last()?;
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let count = &text[..text.len() - 1];
        if count.is_empty() || !count.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(Span { seconds: count.parse::<u64>().ok()?.checked_mul(factor)? })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.seconds > 0 && self.seconds.is_multiple_of(*factor))
            .unwrap_or(('s', 1));
        write!(f, "{}{unit}", self.seconds / factor)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Tells a reader of the file, by its name, that a span of time is wanted.
#[derive(Deserialize)]
#[serde(rename = "Span")]
struct SpanText(String);

impl TryFrom<SpanText> for Span {
    type Error = String;

    fn try_from(SpanText(text): SpanText) -> Result<Span, String> {
        Span::parse(&text).ok_or_else(|| format!("`{text}` is not a span of time like `30m`"))
    }
}

impl From<Span> for String {
    fn from(span: Span) -> String {
        span.to_string()
    }
}
