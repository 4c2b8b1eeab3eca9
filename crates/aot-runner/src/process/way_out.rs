//! The one way out of a cage whose network is a list of hosts. The cage has a network of its own with nothing in it but
//! loopback. There the guard within opens listening sockets, and hands them to the guard outside, which alone accepts
//! what comes and asks the proxy where it may go.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::cage::Network;
use super::hosts::{HostRefusal, Hosts, MOST_LOCAL_PORTS};
use super::proxy::{Destination, Proxy};

/// The proxy's socket, and one for each port of this machine that is named.
const MOST_SOCKETS: usize = MOST_LOCAL_PORTS + 1;

/// Said with the sockets. No report begins with it.
const SOCKETS: u8 = b'+';

/// How programs find the proxy. What a job serves to itself it reaches by itself: there is nothing else on its loopback.
const PROXY: [&str; 6] = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
const OWN: &str = "localhost,127.0.0.1,::1";

/// Without it Node leaves the others alone.
const NODE: (&str, &str) = ("NODE_USE_ENV_PROXY", "1");

/// The network as a guard within a cage of namespaces finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InnerNetwork {
    Shared,
    /// Only loopback, of its own.
    Empty,
    /// The same, with sockets for the proxy and for these ports of this machine.
    Proxied(Vec<u16>),
}

impl InnerNetwork {
    pub fn of(network: &Network) -> InnerNetwork {
        match network {
            Network::On => InnerNetwork::Shared,
            Network::Off => InnerNetwork::Empty,
            Network::Hosts(hosts) => InnerNetwork::Proxied(hosts.local_ports()),
        }
    }

    /// For the words of a guard.
    pub fn word(&self) -> String {
        match self {
            InnerNetwork::Shared => "shared".to_owned(),
            InnerNetwork::Empty => "empty".to_owned(),
            InnerNetwork::Proxied(ports) => {
                ports.iter().fold("proxied".to_owned(), |word, port| format!("{word},{port}"))
            }
        }
    }

    pub fn read(word: &str) -> Option<InnerNetwork> {
        let mut words = word.split(',');
        match words.next()? {
            "shared" => Some(InnerNetwork::Shared),
            "empty" => Some(InnerNetwork::Empty),
            "proxied" => {
                words.map(|port| port.parse().ok()).collect::<Option<_>>().map(InnerNetwork::Proxied)
            }
            _ => None,
        }
    }
}

/// Within: opens the sockets, hands them out, and says by which variables programs find the proxy.
pub fn open(line: &UnixStream, ports: &[u16]) -> io::Result<Vec<(&'static str, String)>> {
    let mut listeners = Vec::new();
    for port in ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map_err(|error| {
            io::Error::other(format!("port {port} of this machine cannot be opened in the cage: {error}"))
        })?;
        listeners.push(listener);
    }
    let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = format!("http://{}", proxy.local_addr()?);
    listeners.push(proxy);
    send(line, &listeners)?;
    let found = PROXY.map(|name| (name, address.clone())).into_iter();
    let own = NO_PROXY.map(|name| (name, OWN.to_owned()));
    Ok(found.chain(own).chain([(NODE.0, NODE.1.to_owned())]).collect())
}

fn send(line: &UnixStream, listeners: &[TcpListener]) -> io::Result<()> {
    let files: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("too many ports of this machine are named"));
    }
    loop {
        match sendmsg(line, &[IoSlice::new(&[SOCKETS])], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Outside: serves the sockets that come out of the cage. Returns what came instead if there were none: the first byte of
/// a report, or nothing if the cage did not come about.
pub fn serve(inner: &UnixStream, hosts: &Hosts, refusals: &Arc<RefusalLine>) -> io::Result<Vec<u8>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let into = &mut [IoSliceMut::new(&mut byte)];
        match recvmsg(inner, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let mut listeners: Vec<TcpListener> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            listeners.extend(files.map(TcpListener::from));
        }
    }
    let refusals = Arc::clone(refusals);
    let proxy = Proxy::new(hosts.clone(), move |refusal| refusals.tell(refusal));
    let local = hosts.local_ports().into_iter().map(Destination::Local);
    for (listener, destination) in listeners.into_iter().zip(local.chain([Destination::Asked])) {
        proxy.serve(listener, destination)?;
    }
    Ok(if byte == [SOCKETS] { Vec::new() } else { byte[..count].to_vec() })
}

/// Tells the supervisor which hosts were refused, before the report.
#[derive(Debug)]
pub struct RefusalLine(Mutex<Option<UnixStream>>);

impl RefusalLine {
    pub fn new(line: UnixStream) -> RefusalLine {
        RefusalLine(Mutex::new(Some(line)))
    }

    fn tell(&self, refusal: &HostRefusal) {
        if let Some(line) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // If nobody is there to hear it, the job ends anyway.
            let _ = line.write_all(refusal.line().as_bytes());
        }
    }

    /// Nothing is told from here on, so that the report is the last word.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_as_it_was_written() {
        for network in [
            InnerNetwork::Shared,
            InnerNetwork::Empty,
            InnerNetwork::Proxied(vec![]),
            InnerNetwork::Proxied(vec![80, 5432]),
        ] {
            assert_eq!(InnerNetwork::read(&network.word()), Some(network));
        }
        for other in ["", "on", "proxied,x", "proxied,70000"] {
            assert_eq!(InnerNetwork::read(other), None, "{other}");
        }
    }
}
