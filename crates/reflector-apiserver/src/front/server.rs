//! The server: a listener, its connections, and the handle that tests hold.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};

use super::{
    auth::Auth, builder::Builder, connection::Connection, engine::Shared, log::LoggedRequest, service,
};
use crate::{
    core::{Core, Step},
    faults::{Fault, FaultId, Faults},
};

/// A running API server.
///
/// [`stop`](Self::stop) ends it and waits until all its tasks are gone; dropping it aborts them.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: Tasks,
    accepting: JoinHandle<()>,
    outages: mpsc::UnboundedSender<Order>,
}

/// A server that is down; comes back on the same port when this is dropped.
#[derive(Debug)]
#[must_use = "it is over when this is dropped"]
pub struct Outage {
    _over: oneshot::Sender<()>,
}

/// Go down, say so, and come back when the other end of the receiver has gone.
type Order = (oneshot::Sender<()>, oneshot::Receiver<()>);

impl ApiServer {
    /// A server to be set up.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a server with all defaults, on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound.
    pub async fn start() -> Result<Self, super::StartError> {
        Self::builder().start().await
    }

    pub(super) fn run(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) -> Self {
        let tasks = Tasks::default();
        let (outages, orders) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(accept(listener, address, Arc::clone(&shared), tasks.clone(), orders));
        Self { address, shared, tasks, accepting, outages }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig for kubectl and the client libraries.
    ///
    /// kubectl and client-go send no token over plain HTTP: with a token set, they are anonymous.
    pub fn kubeconfig(&self) -> String {
        let token = self.shared.with(|engine, _| engine.auth.token.clone());
        // Some libraries refuse plain HTTP unless TLS is said not to matter.
        let user = token.map_or_else(|| "{}".to_owned(), |token| format!("{{token: {token:?}}}"));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: reflector\n\
             clusters:\n- name: reflector\n  cluster: {{server: \"{}\", insecure-skip-tls-verify: true}}\n\
             users:\n- name: reflector\n  user: {user}\n\
             contexts:\n- name: reflector\n  context: {{cluster: reflector, user: reflector, namespace: default}}\n",
            self.url()
        )
    }

    /// Writes the kubeconfig to a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> io::Result<()> {
        std::fs::write(path, self.kubeconfig())
    }

    /// The server's time: since its start, by tokio's clock.
    pub fn now(&self) -> Duration {
        self.shared.now()
    }

    /// Looks at the core or changes it; whoever watches is told. Do not block in here: the whole server waits.
    pub fn with_core<R>(&self, act: impl FnOnce(&mut Core) -> R) -> R {
        self.shared.with(|engine, _| act(engine.layer.core_mut()))
    }

    /// Looks at the faults or changes them.
    pub fn with_faults<R>(&self, act: impl FnOnce(&mut Faults) -> R) -> R {
        self.shared.with(|engine, _| act(engine.layer.faults_mut()))
    }

    /// Changes who may do what, from the next request on.
    pub fn with_auth<R>(&self, act: impl FnOnce(&mut Auth) -> R) -> R {
        self.shared.with(|engine, _| act(&mut engine.auth))
    }

    /// Puts a fault in force.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.with_faults(|faults| faults.add(fault))
    }

    /// Restarts the API server over the same etcd: running watches end, the watch window starts anew.
    pub fn restart(&self) {
        self.shared.with(|engine, now| engine.layer.core_mut().restart(now));
    }

    /// The machine goes down: the port is closed, so that connections are refused, and those there were are gone. What
    /// was stored is still there when it comes back, which is as after a [restart](Self::restart).
    pub async fn go_down(&self) -> Outage {
        let ((down, is_down), (over, is_over)) = (oneshot::channel(), oneshot::channel());
        // Both fail only with a server that has ended, which is down anyway.
        let _ = self.outages.send((down, is_over));
        let _ = is_down.await;
        self.restart();
        Outage { _over: over }
    }

    /// Has the core answer a request at once, past the network, the faults and the log; for writes from the test itself.
    pub fn apply(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.shared.with(|engine, now| answer_at_once(engine.layer.core_mut(), now, request))
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.shared.with(|engine, _| engine.log().cloned().collect())
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.with(|engine, _| engine.clear_log());
    }

    /// How many exchanges are open, running watches among them.
    pub fn open_exchanges(&self) -> usize {
        self.shared.with(|engine, _| engine.layer.open_exchanges())
    }

    /// Ends the server: closes the port and all connections, and waits until every task is gone.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // The task ends as cancelled; there is nothing to learn from it.
        let _ = (&mut self.accepting).await;
        self.tasks.take().shutdown().await;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.tasks.take().abort_all();
    }
}

/// The answer as far as it comes without waiting.
fn answer_at_once(core: &mut Core, now: Duration, request: Request<Bytes>) -> Response<Bytes> {
    let id = core.open(now, request);
    let mut response = Response::new(());
    let mut body = BytesMut::new();
    loop {
        match core.poll(id, now) {
            Step::Head(head) => response = head,
            Step::Data(bytes) => body.extend_from_slice(&bytes),
            Step::Wait { .. } | Step::End => break,
        }
    }
    core.close(id);
    response.map(|()| body.freeze())
}

/// The tasks of all connections and HTTP/2 streams.
#[derive(Debug, Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended need no place any more.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    fn take(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        self.spawn(async {
            let _ = task.await;
        });
    }
}

async fn accept(
    mut listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: Tasks,
    mut outages: mpsc::UnboundedReceiver<Order>,
) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => tasks.spawn(serve(stream, Arc::clone(&shared), tasks.clone())),
                // One connection failed before it was accepted, or descriptors are short: the next may do better.
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection");
                    tokio::time::sleep(A_MOMENT).await;
                }
            },
            Some((down, over)) = outages.recv() => {
                drop(listener);
                tasks.take().shutdown().await;
                // Whoever asked may have gone; then it is over at once.
                let _ = down.send(());
                let _ = over.await;
                listener = listen_again(address).await;
            }
        }
    }
}

const A_MOMENT: Duration = Duration::from_millis(10);

/// Somebody may have the port at the moment: a client that is refused may even connect to itself.
async fn listen_again(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => tracing::debug!(%error, "cannot listen again"),
        }
        tokio::time::sleep(A_MOMENT).await;
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, tasks: Tasks) {
    /// Small, so that the core learns soon who reads slowly.
    const WRITE_BUFFER: usize = 64 * 1024;

    // Events are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let (connection, fate) = Connection::new(stream);
    let service = service_fn(move |request: Request<Incoming>| {
        service::answer(Arc::clone(&shared), Arc::clone(&fate), request)
    });
    let mut builder = auto::Builder::new(tasks);
    builder.http1().timer(TokioTimer::new()).max_buf_size(WRITE_BUFFER);
    // The numbers of a real server (golang.org/x/net/http2 as apiserver sets it up).
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .max_frame_size(256 * 1024)
        .initial_stream_window_size(256 * 1024)
        .max_send_buf_size(WRITE_BUFFER);
    if let Err(error) = builder.serve_connection(TokioIo::new(connection), service).await {
        tracing::debug!(%error, "a connection ended early");
    }
}
