//! A proxy for HTTP and HTTPS that leads to the hosts of a list and nowhere else. Knows nothing of jobs or cages.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hosts::{HostRefusal, Hosts, normal, split};

/// So many connections can be open at a time; a further one is closed at once.
const MOST_OPEN: usize = 256;

/// The longest request that is read to see where it goes.
const LONGEST_HEAD: usize = 16 << 10;

/// How long a request may take to be told, and a connection to come about.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection on which nothing moves for this long is ended. Models may think for minutes.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// So many refused hosts are told.
const MOST_TOLD: usize = 50;

/// How long nobody is let in after the system had no room for a connection.
const PAUSE: Duration = Duration::from_millis(10);

/// What a thread that copies bytes needs, and more.
const STACK: usize = 256 << 10;
const CHUNK: usize = 16 << 10;

pub struct Proxy {
    hosts: Hosts,
    open: AtomicUsize,
    told: Mutex<HashSet<String>>,
    /// Hears of each refused host once.
    tell: Box<dyn Fn(&HostRefusal) + Send + Sync>,
}

/// Where the connections of a listener go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Where they say themselves.
    Asked,
    /// To this port of this machine.
    Local(u16),
}

impl Proxy {
    pub fn new(hosts: Hosts, tell: impl Fn(&HostRefusal) + Send + Sync + 'static) -> Arc<Proxy> {
        let (open, told, tell) = (AtomicUsize::new(0), Mutex::default(), Box::new(tell));
        Arc::new(Proxy { hosts, open, told, tell })
    }

    /// Serves a listener for as long as this process lives.
    pub fn serve(self: &Arc<Proxy>, listener: TcpListener, destination: Destination) -> io::Result<()> {
        let proxy = Arc::clone(self);
        thread(move || {
            loop {
                match listener.accept() {
                    Ok((job, _)) => proxy.take(job, destination),
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        })
    }

    fn take(self: &Arc<Proxy>, job: TcpStream, destination: Destination) {
        if self.open.fetch_add(1, Ordering::AcqRel) >= MOST_OPEN {
            self.open.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let proxy = Arc::clone(self);
        let started = thread(move || {
            // Whatever goes wrong, the connection ends, and that is what the job sees.
            let _ = match destination {
                Destination::Asked => proxy.answer(&job),
                Destination::Local(port) => connect_locally(port).map(|there| join(&job, &there)),
            };
            let _ = job.shutdown(Shutdown::Both);
            proxy.open.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            // Without room for a thread the connection is closed.
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn answer(&self, mut job: &TcpStream) -> io::Result<()> {
        let (head, rest) = read_head(job)?;
        let Some(request) = ProxyRequest::read(&head) else {
            return reply(job, "400 Bad Request", "this is a proxy for HTTP and HTTPS");
        };
        let there = match self.connect(&request) {
            Ok(there) => there,
            Err(Unconnected::Refused(refusal)) => {
                self.refuse(&refusal);
                return reply(job, "403 Forbidden", &refusal.describe(&self.hosts));
            }
            Err(Unconnected::Failed(error)) => {
                return reply(job, "502 Bad Gateway", &format!("{}: {error}", request.host));
            }
        };
        match &request.forwarded {
            None => job.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
            Some(head) => (&there).write_all(head)?,
        }
        (&there).write_all(&rest)?;
        join(job, &there);
        Ok(())
    }

    fn connect(&self, request: &ProxyRequest) -> Result<TcpStream, Unconnected> {
        let ProxyRequest { host, port, .. } = request;
        let refused =
            |address| Unconnected::Refused(HostRefusal { host: host.clone(), port: *port, address });
        if !self.hosts.allow(host, *port) {
            return Err(refused(None));
        }
        let found = (host.as_str(), *port).to_socket_addrs().map_err(Unconnected::Failed)?;
        let mut last = refused(None);
        for address in found {
            if !self.hosts.allow_address(host, address.ip(), *port) {
                last = refused(Some(address.ip()));
                continue;
            }
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(there) => return Ok(there),
                Err(error) => last = Unconnected::Failed(error),
            }
        }
        Err(last)
    }

    fn refuse(&self, refusal: &HostRefusal) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD && told.insert(format!("{}:{}", refusal.host, refusal.port)) {
            (self.tell)(refusal);
        }
    }
}

enum Unconnected {
    Refused(HostRefusal),
    Failed(io::Error),
}

fn thread(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("proxy".into()).stack_size(STACK).spawn(work).map(drop)
}

fn connect_locally(port: u16) -> io::Result<TcpStream> {
    let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, PATIENCE);
    connect((Ipv4Addr::LOCALHOST, port).into()).or_else(|_| connect((Ipv6Addr::LOCALHOST, port).into()))
}

fn reply(mut job: &TcpStream, status: &str, why: &str) -> io::Result<()> {
    let text = format!("aot: {why}\n");
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n", text.len());
    job.write_all(format!("{head}Connection: close\r\n\r\n{text}").as_bytes())
}

/// Up to the empty line, and what came after it already.
fn read_head(mut job: &TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((bytes, rest));
        }
        let left = PATIENCE.saturating_sub(began.elapsed());
        if bytes.len() > LONGEST_HEAD || left.is_zero() {
            return Err(ErrorKind::InvalidData.into());
        }
        job.set_read_timeout(Some(left))?;
        match job.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

/// What a job asks of the proxy.
#[derive(Debug, PartialEq, Eq)]
struct ProxyRequest {
    host: String,
    port: u16,
    /// What the server is told instead; a tunnel has none.
    forwarded: Option<Vec<u8>>,
}

/// Fields that are between a client and its proxy, or that the proxy sets itself.
const OWN_FIELDS: [&str; 5] = ["host", "connection", "proxy-connection", "proxy-authorization", "keep-alive"];

impl ProxyRequest {
    fn read(head: &[u8]) -> Option<ProxyRequest> {
        let head = std::str::from_utf8(head).ok()?;
        let (first, fields) = head.split_once("\r\n")?;
        let mut words = first.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        if method == "CONNECT" {
            let (host, port) = split(target)?;
            return Some(ProxyRequest { host: normal(host)?, port: port?, forwarded: None });
        }
        let rest = target.strip_prefix("http://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = split(authority)?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let is_own = |field: &&str| {
            let name = field.split(':').next().unwrap_or_default();
            OWN_FIELDS.iter().any(|own| name.trim().eq_ignore_ascii_case(own))
        };
        let fields = fields.split("\r\n").filter(|field| !field.is_empty() && !is_own(field));
        // One request for each connection: the next may be for another host.
        let mut forwarded =
            format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
        for field in fields {
            forwarded.push_str(field);
            forwarded.push_str("\r\n");
        }
        forwarded.push_str("\r\n");
        let (host, port) = (normal(host)?, port.unwrap_or(80));
        Some(ProxyRequest { host, port, forwarded: Some(forwarded.into_bytes()) })
    }
}

/// Copies both ways, until both have ended or nothing has moved for too long.
fn join(job: &TcpStream, there: &TcpStream) {
    let (began, moved) = (Instant::now(), AtomicU64::new(0));
    let is_idle =
        || began.elapsed().saturating_sub(Duration::from_millis(moved.load(Ordering::Relaxed))) >= IDLE;
    let pass = |mut from: &TcpStream, mut to: &TcpStream| -> io::Result<()> {
        from.set_read_timeout(Some(IDLE))?;
        to.set_write_timeout(Some(IDLE))?;
        let mut chunk = [0; CHUNK];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return to.shutdown(Shutdown::Write),
                Ok(count) => to.write_all(&chunk[..count])?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !is_idle() => continue,
                Err(error) => return Err(error),
            }
            moved.store(began.elapsed().as_millis() as u64, Ordering::Relaxed);
        }
    };
    // A connection that breaks one way is no use the other way.
    let pass_or_break = |from: &TcpStream, to: &TcpStream| {
        if pass(from, to).is_err() {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        }
    };
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().name("proxy".into()).stack_size(STACK);
        match other.spawn_scoped(scope, || pass_or_break(job, there)) {
            Ok(_) => pass_or_break(there, job),
            Err(_) => drop(there.shutdown(Shutdown::Both)),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let read = |text: &str| ProxyRequest::read(text.as_bytes());
        let tunnel = read("CONNECT A.b:443 HTTP/1.1\r\nHost: a.b\r\n\r\n").expect("a request");
        assert_eq!((tunnel.host.as_str(), tunnel.port, tunnel.forwarded), ("a.b", 443, None));
        for (asked, host, port, forwarded) in [
            (
                "GET http://a.b:81/x?y HTTP/1.1\r\nHost: other\r\nProxy-Connection: keep-alive\r\nA: b\r\n\r\n",
                "a.b",
                81,
                "GET /x?y HTTP/1.1\r\nHost: a.b:81\r\nConnection: close\r\nA: b\r\n\r\n",
            ),
            (
                "GET http://a.b HTTP/1.0\r\n\r\n",
                "a.b",
                80,
                "GET / HTTP/1.0\r\nHost: a.b\r\nConnection: close\r\n\r\n",
            ),
            (
                "GET http://[fd00::1]?x HTTP/1.1\r\nhost : z\r\n\r\n",
                "fd00::1",
                80,
                "GET /?x HTTP/1.1\r\nHost: [fd00::1]\r\nConnection: close\r\n\r\n",
            ),
        ] {
            let plain = read(asked).expect("a request");
            assert_eq!((plain.host.as_str(), plain.port), (host, port));
            assert_eq!(String::from_utf8(plain.forwarded.expect("a head")).expect("a text"), forwarded);
        }
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "CONNECT a.b HTTP/1.1\r\n\r\n",
            "CONNECT a.b:443 HTTP/1.1 x\r\n\r\n",
            "CONNECT a@b:443 HTTP/1.1\r\n\r\n",
            "x\r\n\r\n",
            "GET ftp://a/ HTTP/1.1\r\n\r\n",
            "GET http://listed@evil/ HTTP/1.1\r\n\r\n",
            "GET http://a\nb/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
