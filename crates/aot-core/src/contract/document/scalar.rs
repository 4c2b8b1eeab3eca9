//! What a plain scalar means under YAML's core schema. Knows one scalar's text; nothing of places.

use super::Kind;

pub(in crate::contract) fn resolve(text: &str) -> Kind {
    let Some(&first) = text.as_bytes().first() else { return Kind::Null };
    match first {
        b'~' | b'n' | b'N' if matches!(text, "~" | "null" | "Null" | "NULL") => Kind::Null,
        b't' | b'f' | b'T' | b'F' if bool(text).is_some() => Kind::Bool,
        b'0'..=b'9' | b'+' | b'-' | b'.' => {
            if int(text).is_some() {
                Kind::Int
            } else if float(text).is_some() {
                Kind::Float
            } else {
                Kind::Str
            }
        }
        _ => Kind::Str,
    }
}

/// Only `true` and `false`, in the three capitalisations of the core schema: `yes` and `on` are words.
pub(super) fn bool(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

pub(super) fn int(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return unsigned(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return unsigned(digits, 8);
    }
    // `str::parse` takes exactly the schema's form: one optional sign, then decimal digits.
    text.parse().ok()
}

fn unsigned(digits: &str, radix: u32) -> Option<i64> {
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(digits, radix).ok()
}

pub(super) fn float(text: &str) -> Option<f64> {
    let (negative, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    match rest {
        ".inf" | ".Inf" | ".INF" => return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        ".nan" | ".NaN" | ".NAN" if rest.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_fits = exponent
        .is_none_or(|part| part.strip_prefix(['+', '-']).unwrap_or(part).bytes().all(|b| b.is_ascii_digit()))
        && exponent.is_none_or(|part| part.ends_with(|last: char| last.is_ascii_digit()));
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) || !exponent_fits {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_mean_what_the_core_schema_says() {
        let check = |text: &str, kind: Kind| assert_eq!(resolve(text), kind, "{text:?}");
        for text in ["", "~", "null", "Null", "NULL"] {
            check(text, Kind::Null);
        }
        for text in ["true", "True", "FALSE"] {
            check(text, Kind::Bool);
        }
        for text in ["0", "-1", "+7", "007", "0x1F", "0o17", "9223372036854775807"] {
            check(text, Kind::Int);
        }
        for text in
            ["0.5", "1.", ".5", "-1e3", "1E+2", "9223372036854775808", ".inf", "-.INF", ".nan", "1.e2"]
        {
            check(text, Kind::Float);
        }
        for text in [
            "yes",
            "on",
            "No",
            "tRUE",
            "nul",
            "0x",
            "0xg",
            "0x-1",
            "0o8",
            "1_000",
            "2025-01-15",
            "12:30",
            ".",
            "-",
            "+",
            "--1",
            "1e",
            "e1",
            "1e+",
            "-.nan",
            "inf",
            "nan",
            "infinity",
            "1 2",
            "0x8000000000000000",
        ] {
            check(text, Kind::Str);
        }
    }
}
