//! As much of HTTP/1.1 as the clients need: one request per connection, an answer whole, in pieces, cut off or never.
//! Knows nothing of models.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Above what any client sends; a request that is larger is refused.
const LARGEST_BODY: usize = 64 << 20;
const LARGEST_LINE: u64 = 64 << 10;

#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    pub end: End,
}

#[derive(Debug)]
pub enum Body {
    Whole(String),
    /// Each piece is sent as soon as it is its turn.
    Pieces {
        pieces: Vec<String>,
        pause: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Full,
    /// Half of it, then the connection is closed.
    Cut,
    /// Half of it, then nothing until the client goes.
    Silent,
}

impl Response {
    pub fn json(status: u16, body: String) -> Response {
        let headers = vec![("content-type".into(), "application/json".into())];
        Response { status, headers, body: Body::Whole(body), end: End::Full }
    }
}

/// `None` if the client went away without asking anything.
pub fn read(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let line = read_line(&mut reader)?;
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let (method, path) = (method.to_owned(), path.to_owned());
    let mut headers = Vec::new();
    let mut length = 0;
    let mut chunked = false;
    loop {
        let line = read_line(&mut reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => {
                length = value.parse().map_err(|_| bad("a content-length that is no number"))?
            }
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            // Who waits to be told to go on sends nothing before it is.
            "expect" => {
                let mut stream = stream;
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            _ => {}
        }
        headers.push((name, value.to_owned()));
    }
    let body = if chunked { read_chunks(&mut reader)? } else { read_exactly(&mut reader, length)? };
    Ok(Some(Request { method, path, headers, body }))
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.by_ref().take(LARGEST_LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| bad("a chunk without its size"))?;
        let chunk = read_exactly(reader, size)?;
        read_line(reader)?;
        if size == 0 {
            return Ok(body);
        }
        if body.len() + size > LARGEST_BODY {
            return Err(bad("a body that is too large"));
        }
        body.extend(chunk);
    }
}

fn read_exactly(reader: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    if length > LARGEST_BODY {
        return Err(bad("a body that is too large"));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub fn write(mut stream: &TcpStream, response: &Response) -> io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {} {}\r\nconnection: close\r\n", response.status, reason(response.status));
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match &response.body {
        Body::Whole(text) => {
            head.push_str(&format!("content-length: {}\r\n\r\n", text.len()));
            stream.write_all(head.as_bytes())?;
            let sent = if response.end == End::Full { text.len() } else { text.len() / 2 };
            stream.write_all(&text.as_bytes()[..sent])?;
        }
        Body::Pieces { pieces, pause } => {
            // In chunks a client can tell an answer that was cut off from one that is complete.
            head.push_str("transfer-encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            let sent = if response.end == End::Full { pieces.len() } else { pieces.len() / 2 };
            for piece in &pieces[..sent] {
                stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())?;
                std::thread::sleep(*pause);
            }
            if response.end == End::Full {
                stream.write_all(b"0\r\n\r\n")?;
            }
        }
    }
    if response.end == End::Silent {
        wait_until_gone(stream);
    }
    Ok(())
}

/// Until the client closes the connection, or the server shuts it down.
pub fn wait_until_gone(mut stream: &TcpStream) {
    let mut unread = [0; 1024];
    while matches!(stream.read(&mut unread), Ok(count) if count > 0) {}
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Scripted",
    }
}
