//! Handlers that tell the test what they see, and wait for it where they are to be slow.

use std::sync::Arc;

use reflector::{
    Object, Reflector, SharedInformer,
    informer::{EventHandler, Registration},
    wire::WatchEvent,
};
use tokio::sync::{Semaphore, mpsc};

use crate::support::*;

/// Tells everything, as text. With a gate, each event waits for a permit.
#[derive(Clone)]
pub(crate) struct Recorder {
    seen: mpsc::UnboundedSender<String>,
    gate: Option<Arc<Semaphore>>,
}

/// What a recorder has told.
pub(crate) struct Seen(mpsc::UnboundedReceiver<String>);

pub(crate) fn recorder() -> (Recorder, Seen) {
    let (seen, receiver) = mpsc::unbounded_channel();
    (Recorder { seen, gate: None }, Seen(receiver))
}

/// A recorder that stands in each event until the gate lets it go.
pub(crate) fn gated() -> (Recorder, Seen, Arc<Semaphore>) {
    let (recorder, seen) = recorder();
    let gate = Arc::new(Semaphore::new(0));
    (Recorder { gate: Some(Arc::clone(&gate)), ..recorder }, seen, gate)
}

impl Recorder {
    async fn tell(&self, what: String) {
        self.seen.send(what).ok();
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
    }
}

pub(crate) fn short(object: &Object<Json>) -> String {
    format!("{}@{}", object.name(), object.version().unwrap())
}

impl EventHandler<Json> for Recorder {
    async fn on_add(&mut self, object: Object<Json>, initial: bool) {
        self.tell(format!("{}{}", if initial { "initial " } else { "+" }, short(&object))).await;
    }

    async fn on_update(&mut self, old: Object<Json>, new: Object<Json>) {
        self.tell(format!("{}>{}", short(&old), short(&new))).await;
    }

    async fn on_delete(&mut self, last: Object<Json>, final_state_unknown: bool) {
        self.tell(format!("-{}{}", short(&last), if final_state_unknown { "?" } else { "" })).await;
    }

    async fn on_resync(&mut self, object: Object<Json>) {
        self.tell(format!("={}", short(&object))).await;
    }

    async fn on_synced(&mut self) {
        self.tell("synced".to_owned()).await;
    }
}

impl Seen {
    pub(crate) async fn next(&mut self) -> String {
        self.0.recv().await.expect("the handler is gone")
    }

    /// The next events, as one line.
    pub(crate) async fn take(&mut self, n: usize) -> String {
        let mut seen = Vec::new();
        for _ in 0..n {
            seen.push(self.next().await);
        }
        seen.join(" ")
    }

    /// What has come and was not taken.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }

    /// Everything until the handler is dropped.
    pub(crate) async fn until_dropped(mut self) -> String {
        let mut seen = Vec::new();
        while let Some(event) = self.0.recv().await {
            seen.push(event);
        }
        seen.join(" ")
    }
}

/// An informer that has not started, and its server.
pub(crate) fn informer() -> (SharedInformer<Json>, Server) {
    let (source, server) = scripted();
    (SharedInformer::new(Reflector::builder(source).seed(1)), server)
}

/// An informer that is in sync, with these objects.
pub(crate) async fn synced(
    objects: &[Object<Json>],
    version: &str,
) -> (SharedInformer<Json>, Server, Stream) {
    let (informer, mut server) = informer();
    informer.start().unwrap();
    let stream = server.sync(objects, version).await;
    informer.ready().await.unwrap();
    (informer, server, stream)
}

/// A handler that has told all that there was.
pub(crate) async fn settled(registration: &Registration, seen: &mut Seen) {
    registration.synced().await.unwrap();
    seen.rest();
}

/// The 410 that makes a reflector read everything anew.
pub(crate) fn expired() -> WatchEvent<Json> {
    let body = br#"{"kind":"Status","status":"Failure","reason":"Expired","message":"too old","code":410}"#;
    WatchEvent::Error(Box::new(reflector::wire::Status::from_body(410, None, body)))
}

/// How many tasks there are in this runtime.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
