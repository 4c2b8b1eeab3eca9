//! The page of `aot serve`: one process that reads loops and answers a browser on this machine. Nothing is decided here: what
//! a person does on the page, this same program does as a verb (`actions`).
//!
//! `door` says who may ask, `connections` how long and how much, `follow` reads a loop while somebody looks, `model` is what
//! the page is told, `stream` tells it, and `page/` is the page itself.

mod actions;
mod connections;
mod door;
mod follow;
mod loops;
mod model;
mod routes;
mod stream;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Semaphore;

use door::{Door, EarlierTokens, Token};
use loops::Loops;
pub use loops::id;

/// So many free ports are tried until one is free on both addresses.
const TRIES: usize = 20;

/// Verbs that run at once; a person clicks one after the other.
const VERBS: usize = 2;

/// What is served.
#[derive(Debug)]
pub struct Page {
    /// This program, for verbs.
    pub program: PathBuf,
    /// The state files of the loops.
    pub states: Vec<PathBuf>,
}

/// Sockets that wait for a browser, and what it needs to come in.
#[derive(Debug)]
pub struct Bound {
    listeners: Vec<TcpListener>,
    door: Door,
}

/// Binds the loopback addresses of this machine and no other.
///
/// A server on a port that was asked for lets pages in that an earlier one there has opened; `kept` is where that is known.
pub fn bind(port: Option<u16>, kept: Option<&Path>, now: i64) -> io::Result<Bound> {
    let (listeners, bound) = match port {
        Some(port) => listen(port)?,
        None => (0..TRIES).find_map(|_| listen(0).ok()).map_or_else(|| listen(0), Ok)?,
    };
    let token = Token::new()?;
    let earlier = match (port, kept) {
        (Some(port), Some(folder)) => EarlierTokens::of_port(folder, port, &token, now),
        (None, _) | (_, None) => EarlierTokens::default(),
    };
    Ok(Bound { listeners, door: Door { port: bound, token, earlier } })
}

fn listen(port: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = first.local_addr()?.port();
    let mut listeners = vec![first];
    match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
        Ok(second) => listeners.push(second),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
        // This machine has no such address.
        Err(_) => {}
    }
    Ok((listeners, port))
}

impl Bound {
    pub fn port(&self) -> u16 {
        self.door.port
    }

    /// What a person opens.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.door.port, self.door.token.secret())
    }

    /// Answers until the process ends.
    pub fn serve(self, page: Page) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let serving = routes::Serving {
                door: Arc::new(self.door),
                loops: Arc::new(Loops::follow(&page.states)?),
                program: page.program,
                verbs: Arc::new(Semaphore::new(VERBS)),
            };
            let app = routes::router(serving);
            let permits = Arc::new(Semaphore::new(connections::MOST));
            let mut accepting = Vec::new();
            for listener in self.listeners {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                accepting.push(tokio::spawn(connections::accept(
                    listener,
                    app.clone(),
                    Arc::clone(&permits),
                )));
            }
            for task in accepting {
                task.await.map_err(io::Error::other)?;
            }
            Ok(())
        })
    }
}
