//! Response bodies: pulled from the core as fast as the connection takes them.

use std::{
    fmt,
    future::Future,
    io::Write,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http_body::{Frame, SizeHint};
use tokio::{sync::watch, time};

use super::{connection::Fate, engine::Shared};
use crate::faults::{Cut, Exchange, Step};

/// How often the connection gets its turn before a cut: HTTP/2 hands data from task to task.
const FLUSHES: usize = 4;

/// The answer broke off on purpose.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the answer breaks off")]
pub(super) struct Broken;

/// An open exchange; dropping it tells the core that nobody listens any more.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) shared: Arc<Shared>,
    pub(super) exchange: Exchange,
    pub(super) fate: Arc<Fate>,
    /// What to wait for, taken with the last step, so that nothing that comes after it is missed.
    bell: Option<watch::Receiver<()>>,
}

impl Open {
    pub(super) fn new(shared: Arc<Shared>, exchange: Exchange, fate: Arc<Fate>) -> Self {
        Self { shared, exchange, fate, bell: None }
    }

    /// The next step. What changes from here on rings the bell.
    pub(super) fn poll(&mut self) -> Step {
        let (step, bell) = self.shared.with(|engine, now| {
            let step = engine.layer.poll(self.exchange, now);
            let bell = matches!(step, Step::Wait { .. }).then(|| engine.bell(self.exchange));
            (step, bell)
        });
        self.bell = bell;
        step
    }

    /// Waits until something changed or the time has come.
    pub(super) fn wait(&self, until: Option<std::time::Duration>) -> impl Future<Output = ()> + Send + use<> {
        let mut bell = self.bell.clone();
        let deadline = until.map(|until| self.shared.instant(until));
        async move {
            let rings = async {
                match &mut bell {
                    // The other end lives in `Shared`; without it the server is gone.
                    Some(bell) => drop(bell.changed().await),
                    None => std::future::pending().await,
                }
            };
            let timer = async {
                match deadline {
                    Some(deadline) => time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = rings => {}
                () = timer => {}
            }
        }
    }

    /// Breaks off.
    pub(super) fn cut(&self, cut: Cut) -> Option<Broken> {
        match cut {
            Cut::Close => Some(Broken),
            Cut::Reset => {
                self.fate.reset();
                Some(Broken)
            }
            Cut::Blackhole => {
                self.fate.die();
                None
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.with(|engine, _| engine.layer.close(self.exchange));
    }
}

/// A response body.
#[derive(Debug)]
pub(super) enum Body {
    /// Complete, with a Content-Length.
    Full(Bytes),
    /// Pulled step by step.
    Stream(Box<Stream>),
}

/// What is still to come.
pub(super) struct Stream {
    open: Open,
    /// Bytes that were pulled to see how long the body is.
    prefix: Bytes,
    /// A step that was pulled with them.
    next: Option<Step>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Has what came before a cut had its chance to leave?
    flushed: bool,
    over: bool,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("open", &self.open).field("over", &self.over).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(open: Open, prefix: Bytes, next: Option<Step>, compress: bool) -> Self {
        // Level 1, as apiserver's `defaultGzipContentEncodingLevel`.
        let encoder = compress.then(|| GzEncoder::new(Vec::new(), Compression::new(1)));
        Self { open, prefix, next, waiting: None, encoder, flushed: false, over: false }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            if !self.prefix.is_empty() {
                let prefix = std::mem::take(&mut self.prefix);
                match self.encode(prefix) {
                    Some(bytes) => return Poll::Ready(Some(Ok(bytes))),
                    None => continue,
                }
            }
            if let Some(waiting) = &mut self.waiting {
                match waiting.as_mut().poll(cx) {
                    Poll::Ready(()) => self.waiting = None,
                    Poll::Pending => return Poll::Pending,
                }
            }
            let step = self.next.take().unwrap_or_else(|| self.open.poll());
            match step {
                Step::Data(bytes) => {
                    if let Some(bytes) = self.encode(bytes) {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                // There is one head only, and it is gone.
                Step::Head(_) => {}
                Step::Wait { until } => self.waiting = Some(Box::pin(self.open.wait(until))),
                Step::End => {
                    self.over = true;
                    if let Some(encoder) = self.encoder.take() {
                        return Poll::Ready(Some(Ok(encoder.finish().unwrap_or_default().into())));
                    }
                }
                // The connection drops what is in its buffer when a body fails: pause, so that it is written first.
                Step::Cut(cut) if !self.flushed => {
                    self.flushed = true;
                    self.next = Some(Step::Cut(cut));
                    self.waiting = Some(Box::pin(async {
                        for _ in 0..FLUSHES {
                            tokio::task::yield_now().await;
                        }
                    }));
                }
                Step::Cut(cut) => {
                    if let Some(broken) = self.open.cut(cut) {
                        self.over = true;
                        return Poll::Ready(Some(Err(broken)));
                    }
                    self.waiting = Some(Box::pin(std::future::pending()));
                }
            }
        }
    }

    fn encode(&mut self, bytes: Bytes) -> Option<Bytes> {
        let Some(encoder) = &mut self.encoder else {
            return Some(bytes).filter(|bytes| !bytes.is_empty());
        };
        // Writing to memory cannot fail.
        let _ = encoder.write_all(&bytes);
        let out = std::mem::take(encoder.get_mut());
        (!out.is_empty()).then(|| out.into())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Self::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => stream.poll(cx).map_ok(Frame::data),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_empty(),
            Self::Stream(stream) => stream.over,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
