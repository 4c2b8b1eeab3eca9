//! The names of hosts as names of services, and what of a text may stand in the path of a request.

const PREFIX: &str = "aot-";

/// More of a name than this says nothing more.
const MOST_CHARACTERS: usize = 100;

/// The service of this host. Restate allows letters, digits, `_`, `-` and `.` in the name of a service.
pub fn service(host: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' };
    let name: String = host.chars().take(MOST_CHARACTERS).map(allowed).collect();
    format!("{PREFIX}{name}")
}

/// The host of this service; `None` for services of others.
pub fn host(service: &str) -> Option<&str> {
    service.strip_prefix(PREFIX)
}

/// A text as one segment of a path or as a value of a query.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A text between quotes in a query.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
