//! Connections with limits: how many, how long a request may take to arrive, how long a reader may stand still. Knows no paths.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at once; further ones wait until one is over.
pub const MOST: usize = 64;

/// The head of a request has arrived within this time, or the connection is closed.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// The longest head, in bytes, and its headers.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 64;

/// A reader that takes nothing for so long is left.
const STANDSTILL: Duration = Duration::from_secs(20);

/// After an error of the system, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

pub async fn accept(listener: TcpListener, app: Router, permits: Arc<Semaphore>) {
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(converse(stream, app.clone(), permit));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn converse(stream: TcpStream, app: Router, permit: OwnedSemaphorePermit) {
    // Changes are small, and wanted at once.
    let _ = stream.set_nodelay(true);
    let stream = TokioIo::new(PatientStream { stream, patience: Box::pin(sleep(STANDSTILL)), stands: false });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(stream, TowerToHyperService::new(app))
        .await;
    // A browser that goes away in the middle is no failure of ours.
    drop((served, permit));
}

/// A connection whose other end may let us wait only so long before it takes more.
struct PatientStream {
    stream: TcpStream,
    patience: Pin<Box<Sleep>>,
    /// The last write has to wait.
    stands: bool,
}

impl PatientStream {
    fn wait<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stands = false;
            return written;
        }
        if !self.stands {
            self.stands = true;
            self.patience.as_mut().reset(Instant::now() + STANDSTILL);
        }
        match self.patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
