//! The address of a webhook, and what `curl` is given to call it. The address may be a secret: only its host is ever shown.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An address of http or https.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Webhook(String);

impl Webhook {
    pub fn parse(text: &str) -> Option<Webhook> {
        let webhook = Webhook(text.to_owned());
        let is_plain = text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\'));
        (is_plain && !webhook.host().is_empty()).then_some(webhook)
    }

    /// Whom it reaches.
    pub fn host(&self) -> &str {
        let rest = ["https://", "http://"].into_iter().find_map(|scheme| self.0.strip_prefix(scheme));
        let whole = rest.unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
        whole.rsplit('@').next().unwrap_or_default()
    }

    /// What `curl` reads on its standard input: the address and the message, which others would see on its command line.
    pub(super) fn config(&self, message: &str) -> String {
        let message = message.replace('\\', "\\\\").replace('"', "\\\"");
        format!("url = \"{}\"\ndata-raw = \"{message}\"\n", self.0)
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({})", self.host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_http_and_names_a_host() {
        let check = |text: &str, host: Option<&str>| {
            assert_eq!(Webhook::parse(text).as_ref().map(Webhook::host), host, "{text}");
        };
        check("https://hooks.example.org/T0/secret?x=1", Some("hooks.example.org"));
        check("http://localhost:8080", Some("localhost:8080"));
        check("https://ada:pw@example.org/x", Some("example.org"));
        for bad in [
            "",
            "example.org",
            "ftp://example.org",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "http://a b",
            "http://a\nurl = \"file:///x\"",
            "http://a\"b",
            "-o/x",
            "HTTP//x",
        ] {
            check(bad, None);
        }
        let shown = format!("{:?}", Webhook::parse("https://example.org/secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_message_stays_one_value() {
        let webhook = Webhook::parse("http://a/b").expect("an address");
        let config = webhook.config(r#"{"goal":"say \"hi\" \\ \n"}"#);
        assert_eq!(
            config,
            "url = \"http://a/b\"\ndata-raw = \"{\\\"goal\\\":\\\"say \\\\\\\"hi\\\\\\\" \\\\\\\\ \\\\n\\\"}\"\n"
        );
    }
}
