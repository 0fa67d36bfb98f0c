//! A socket that can go dead or be reset.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

const ALIVE: u8 = 0;
const DEAD: u8 = 1;
const RESET: u8 = 2;

/// What becomes of a connection; shared with the exchanges on it.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicU8);

impl Fate {
    /// Nothing is read or written any more; the socket stays open.
    pub(super) fn die(&self) {
        self.0.store(DEAD, Ordering::Release);
    }

    /// The peer gets a reset.
    pub(super) fn reset(&self) {
        self.0.store(RESET, Ordering::Release);
    }

    /// What an operation must return instead of being done.
    fn check<T>(&self) -> Option<Poll<io::Result<T>>> {
        match self.0.load(Ordering::Acquire) {
            ALIVE => None,
            // Never woken on purpose: the server's end drops the connection.
            DEAD => Some(Poll::Pending),
            _ => Some(Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))),
        }
    }
}

/// A TCP connection with its fate.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    fate: Arc<Fate>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> (Self, Arc<Fate>) {
        let fate = Arc::new(Fate::default());
        (Self { stream, fate: Arc::clone(&fate) }, fate)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.fate.0.load(Ordering::Acquire) == RESET {
            // With zero linger, closing sends RST instead of FIN. Where that fails the peer sees an early end.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.fate.check() {
            Some(verdict) => verdict,
            None => Pin::new(&mut self.stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.fate.check() {
            Some(verdict) => verdict,
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.fate.check() {
            Some(verdict) => verdict,
            None => Pin::new(&mut self.stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.fate.check() {
            Some(verdict) => verdict,
            None => Pin::new(&mut self.stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.fate.check() {
            Some(verdict) => verdict,
            None => Pin::new(&mut self.stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
