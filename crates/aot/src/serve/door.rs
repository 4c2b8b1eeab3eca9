//! Who may ask for what: the token, the names by which we may be called, and where a request comes from. Knows no loop.
//!
//! The page lives below a path that nobody guesses, so that a browser sends the cookie to no other server on this machine: a
//! cookie belongs to a host, whatever the port.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aot_runner::machine::{self, IfNone};
use aot_runner::plain_file;
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};

/// Bytes of the token, and of the path.
const TOKEN_BYTES: usize = 24;
const PATH_BYTES: usize = 8;

/// A token of an earlier server on the same port is let in for so many seconds, and so many of them.
const KEPT_FOR: i64 = 24 * 60 * 60;
const MOST_KEPT: usize = 16;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What every answer carries. The page loads nothing from elsewhere and nobody may frame it.
pub const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What a person has who was given the address.
#[derive(Clone, Debug)]
pub struct Token {
    secret: String,
    path: String,
}

impl Token {
    pub fn new() -> io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES + PATH_BYTES];
        fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(Token { secret: hex(&bytes[..TOKEN_BYTES]), path: hex(&bytes[TOKEN_BYTES..]) })
    }

    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Below which the page lives.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Takes as long for every guess of the same length.
    pub fn is(&self, given: &str) -> bool {
        let (given, secret) = (given.as_bytes(), self.secret.as_bytes());
        let differences = given.iter().zip(secret).fold(0, |differences, (a, b)| differences | (a ^ b));
        given.len() == secret.len() && std::hint::black_box(differences) == 0
    }

    pub fn cookie(&self) -> String {
        format!("aot={}; Path=/{}/; HttpOnly; SameSite=Strict", self.secret, self.path)
    }
}

/// Tokens of servers that had this port before, so that a page that is open goes on when the server is started again. Only
/// stamps of them are kept: whoever reads the file cannot come in with it.
#[derive(Clone, Debug, Default)]
pub struct EarlierTokens(Vec<[String; 2]>);

impl EarlierTokens {
    /// Those of this port, to which the new one is added for the next server.
    pub fn of_port(folder: &Path, port: u16, token: &Token, now: i64) -> EarlierTokens {
        let file = folder.join(port.to_string());
        let text = plain_file::read(&file, 64 << 10).unwrap_or_default();
        let text = String::from_utf8(text).unwrap_or_default();
        let is_young = |line: &&str| {
            line.split(' ')
                .next()
                .and_then(|at| at.parse::<i64>().ok())
                .is_some_and(|at| (0..KEPT_FOR).contains(&(now - at)))
        };
        let mut lines: Vec<&str> = text.lines().filter(is_young).collect();
        lines.drain(..lines.len().saturating_sub(MOST_KEPT));
        let own = format!("{now} {} {}", stamp(&token.secret), stamp(&token.path));
        // Where it cannot be kept, the page has to be opened anew the next time.
        let _ = keep(&file, &[&lines[..], &[&own]].concat().join("\n"));
        EarlierTokens(
            lines
                .iter()
                .filter_map(|line| {
                    let (_, stamps) = line.split_once(' ')?;
                    let (secret, path) = stamps.split_once(' ')?;
                    Some([secret.to_owned(), path.to_owned()])
                })
                .collect(),
        )
    }

    fn have(&self, secret: &str, path: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&[stamp(secret), stamp(path)])
    }
}

fn stamp(text: &str) -> String {
    machine::stamp(&[b"serve", text.as_bytes()], IfNone::Make)
}

fn keep(file: &Path, text: &str) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    plain_file::open(file, &mut options)?.write_all(text.as_bytes())
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLetIn {
    /// It was meant for another name, as when another site's name leads here.
    OtherHost,
    /// Another page sent it.
    OtherPage,
    /// It has no token, or not ours.
    Stranger,
    /// It would change something and is no JSON.
    NotJson,
}

impl NotLetIn {
    pub fn status(self) -> StatusCode {
        match self {
            NotLetIn::OtherHost => StatusCode::MISDIRECTED_REQUEST,
            NotLetIn::OtherPage => StatusCode::FORBIDDEN,
            NotLetIn::Stranger => StatusCode::UNAUTHORIZED,
            NotLetIn::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    pub fn text(self) -> &'static str {
        match self {
            NotLetIn::OtherHost => "this server answers to 127.0.0.1, localhost and [::1] only\n",
            NotLetIn::OtherPage => "this request comes from another page\n",
            NotLetIn::Stranger => "open the address that `aot serve` printed\n",
            NotLetIn::NotJson => "send JSON\n",
        }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPurpose {
    /// To come in with the token in the address.
    Enter,
    Look,
    Act,
}

#[derive(Clone, Debug)]
pub struct Door {
    pub port: u16,
    pub token: Token,
    pub earlier: EarlierTokens,
}

impl Door {
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), NotLetIn> {
        let purpose = match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => RequestPurpose::Enter,
            (&Method::GET | &Method::HEAD, _) => RequestPurpose::Look,
            _ => RequestPurpose::Act,
        };
        let headers = request.headers();
        let host = self.host(headers).ok_or(NotLetIn::OtherHost)?;
        if request.uri().authority().is_some_and(|named| named.as_str() != host) {
            return Err(NotLetIn::OtherHost);
        }
        if purpose == RequestPurpose::Enter {
            return Ok(());
        }
        // Browsers say from where they ask; other clients say nothing.
        let site = headers.get(SITE);
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(NotLetIn::OtherPage);
        }
        let path = request.uri().path().trim_start_matches('/').split('/').next().unwrap_or_default();
        if !self.has_token(headers, path) {
            return Err(NotLetIn::Stranger);
        }
        if purpose == RequestPurpose::Look {
            return Ok(());
        }
        let origin = one(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        if origin != Some(host) {
            return Err(NotLetIn::OtherPage);
        }
        match one(headers, &CONTENT_TYPE) {
            Some("application/json") => Ok(()),
            Some(_) | None => Err(NotLetIn::NotJson),
        }
    }

    /// The name by which we were called, if it is ours.
    fn host<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let host = one(headers, &HOST)?;
        let (name, port) = host.rsplit_once(':')?;
        let is_ours = ["127.0.0.1", "localhost", "[::1]"].contains(&name);
        (is_ours && port == self.port.to_string()).then_some(host)
    }

    fn has_token(&self, headers: &HeaderMap, path: &str) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let ours = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix("aot="));
        ours.take(MOST_KEPT)
            .any(|given| (self.token.is(given) && path == self.token.path) || self.earlier.have(given, path))
    }
}

/// The value of a header that stands once.
fn one<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::to_str);
    match (values.next(), values.next()) {
        (Some(Ok(value)), None) => Some(value),
        (None | Some(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        Door {
            port: 7000,
            token: Token { secret: "ab".repeat(TOKEN_BYTES), path: "x".into() },
            earlier: EarlierTokens::default(),
        }
    }

    /// Headers as `name: value` lines; `T` is the token.
    fn check(method: &str, path: &str, lines: &[&str], expected: Result<(), NotLetIn>) {
        let door = door();
        let mut request = Request::builder().method(method).uri(path);
        for line in lines {
            let (name, value) = line.split_once(": ").expect("a header");
            request = request.header(name, value.replace('T', door.token.secret()));
        }
        let request = request.body(()).expect("a request");
        assert_eq!(door.check(&request), expected, "{method} {path} {lines:?}");
    }

    #[test]
    fn requests_are_let_in_or_not() {
        let (host, cookie, origin) =
            ("host: 127.0.0.1:7000", "cookie: aot=T", "origin: http://127.0.0.1:7000");
        let json = "content-type: application/json";
        check("GET", "/", &[host], Ok(()));
        check("GET", "/x/", &[host, cookie], Ok(()));
        check("GET", "/x/", &[host, "cookie: a=b; aot=T; c=d"], Ok(()));
        check("GET", "/x/", &[host, "cookie: aot=old", cookie], Ok(()));
        check("GET", "/x/", &["host: localhost:7000", cookie], Ok(()));
        check("GET", "/x/", &["host: [::1]:7000", cookie], Ok(()));
        check("GET", "/x/", &[host, cookie, "sec-fetch-site: same-origin"], Ok(()));
        check("POST", "/x/", &[host, cookie, origin, json], Ok(()));
        check(
            "POST",
            "/x/",
            &["host: localhost:7000", cookie, "origin: http://localhost:7000", json],
            Ok(()),
        );

        let stranger = Err(NotLetIn::Stranger);
        check("GET", "/x/", &[host], stranger);
        check("GET", "/x/", &[host, "cookie: aot="], stranger);
        check("GET", "/x/", &[host, "cookie: aot=TT"], stranger);
        check("GET", "/x/", &[host, "cookie: baot=T"], stranger);
        check("POST", "/x/", &[host, origin, json], stranger);
        check("GET", "/y/", &[host, cookie], stranger);
        check("GET", "//x/y", &[host, cookie], Ok(()));

        let other_host = Err(NotLetIn::OtherHost);
        for wrong in [
            "host: evil.example:7000",
            "host: 127.0.0.1:7001",
            "host: 127.0.0.1",
            "host: 127.0.0.1.evil.example:7000",
            "host: ::1:7000",
            "host: 0.0.0.0:7000",
        ] {
            check("GET", "/", &[wrong], other_host);
            check("GET", "/x/", &[wrong, cookie], other_host);
        }
        check("GET", "/x/", &[cookie], other_host);
        check("GET", "/x/", &[host, host, cookie], other_host);
        check("GET", "http://evil.example:7000/x/", &[host, cookie], other_host);

        let other_page = Err(NotLetIn::OtherPage);
        check("GET", "/x/", &[host, cookie, "sec-fetch-site: same-site"], other_page);
        check("GET", "/x/", &[host, cookie, "sec-fetch-site: cross-site"], other_page);
        check("POST", "/x/", &[host, cookie, json], other_page);
        check("POST", "/x/", &[host, cookie, json, "origin: null"], other_page);
        check("POST", "/x/", &[host, cookie, json, "origin: http://localhost:7000"], other_page);
        check("POST", "/x/", &[host, cookie, json, "origin: http://127.0.0.1:7001"], other_page);
        check("POST", "/x/", &[host, cookie, json, "origin: https://127.0.0.1:7000"], other_page);
        check("POST", "/x/", &[host, cookie, json, origin, origin], other_page);
        check("POST", "/x/", &[host, cookie, origin, "content-type: text/plain"], Err(NotLetIn::NotJson));
        check("POST", "/x/", &[host, cookie, origin], Err(NotLetIn::NotJson));
        check("DELETE", "/x/", &[host, cookie], other_page);
    }

    #[test]
    fn tokens_of_a_port_are_let_in_for_a_day_and_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("it is there").join("serve");
        let tokens: Vec<Token> = (0..3).map(|_| Token::new().expect("a token")).collect();
        let started = |at: usize, now: i64| EarlierTokens::of_port(&folder, 7000, &tokens[at], now);
        let has = |earlier: &EarlierTokens, at: usize| earlier.have(&tokens[at].secret, &tokens[at].path);
        assert!(!has(&started(0, 1_000), 0), "there was none before");
        let second = started(1, 2_000);
        assert!(has(&second, 0) && !has(&second, 1));
        assert!(!second.have(&tokens[0].secret, &tokens[1].path));
        let third = started(2, 1_500 + KEPT_FOR);
        assert!(!has(&third, 0) && has(&third, 1), "the first is older than a day");
        assert!(!has(&EarlierTokens::of_port(&folder, 7001, &tokens[2], 3_000), 0));
        let kept = fs::read_to_string(folder.join("7000")).expect("it is kept");
        assert!(tokens.iter().all(|token| !kept.contains(&token.secret) && !kept.contains(&token.path)));
    }
}
