//! A source whose answers are given by the test, which so plays the server: it sees each request as it is made, and
//! answers when and how it likes.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

#[cfg(feature = "kube")]
pub mod cluster;

use futures::{StreamExt, stream};
use reflector::{
    Object, ResourceVersion,
    protocol::Failure,
    source::{ListOptions, ListPart, ListStream, ListWatch, WatchOptions, WatchStream},
    wire::{ListItem, ListMeta, WatchEvent},
};
use tokio::sync::{mpsc, oneshot};

/// The type of the objects here: any JSON.
pub type Json = serde_json::Value;

/// The client's end.
pub struct Scripted(mpsc::UnboundedSender<Request>);

/// The test's end.
pub struct Server(mpsc::UnboundedReceiver<Request>);

/// One request, waiting for its answer.
pub enum Request {
    /// A page of a list.
    List(ListOptions, oneshot::Sender<Result<ListStream<Json>, Failure>>),
    /// A watch.
    Watch(WatchOptions, oneshot::Sender<Result<WatchStream<Json>, Failure>>),
    /// Fresh credentials.
    Refresh,
}

/// A source and its server.
pub fn scripted() -> (Scripted, Server) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Scripted(sender), Server(receiver))
}

impl ListWatch<Json> for Scripted {
    async fn list(&self, options: ListOptions) -> Result<ListStream<Json>, Failure> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Request::List(options, answer)).ok();
        answered.await.unwrap_or_else(|_| Err(Failure::transport("the server is gone")))
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Json>, Failure> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Request::Watch(options, answer)).ok();
        answered.await.unwrap_or_else(|_| Err(Failure::transport("the server is gone")))
    }

    async fn refresh(&self) {
        self.0.send(Request::Refresh).ok();
    }

    fn describe(&self) -> String {
        "letters in namespace ns".to_owned()
    }
}

impl Server {
    /// The next request, whatever it is.
    pub async fn next(&mut self) -> Request {
        self.0.recv().await.expect("the reflector is gone")
    }

    /// A request that has been made already, if there is one.
    pub fn try_next(&mut self) -> Option<Request> {
        self.0.try_recv().ok()
    }

    /// The next request must be a list.
    pub async fn list(&mut self) -> Listing {
        match self.next().await {
            Request::List(options, answer) => Listing { options, answer },
            Request::Watch(options, _) => panic!("expected a list, got a watch: {options:?}"),
            Request::Refresh => panic!("expected a list, got a refresh"),
        }
    }

    /// The next request must be a watch.
    pub async fn watch(&mut self) -> Watching {
        match self.next().await {
            Request::Watch(options, answer) => Watching { options, answer },
            Request::List(options, _) => panic!("expected a watch, got a list: {options:?}"),
            Request::Refresh => panic!("expected a watch, got a refresh"),
        }
    }

    /// Plays a first sync by a streaming list, and gives the stream.
    pub async fn sync(&mut self, objects: &[Object<Json>], version: &str) -> Stream {
        let stream = self.watch().await.open();
        stream.send(objects.iter().cloned().map(WatchEvent::Added).collect());
        stream.send(vec![end_bookmark(version)]);
        stream
    }
}

/// A list that waits for its answer.
pub struct Listing {
    pub options: ListOptions,
    answer: oneshot::Sender<Result<ListStream<Json>, Failure>>,
}

impl Listing {
    /// A complete page.
    pub fn page(self, objects: &[Object<Json>], version: &str, token: Option<&str>) {
        let items = objects.iter().cloned().map(ListItem::Object).collect();
        let mut end = ListMeta::default();
        end.version = ResourceVersion::new(version);
        end.continue_token = token.map(Into::into);
        self.parts(vec![Ok(ListPart::Items(items)), Ok(ListPart::End(end))]);
    }

    /// Any parts.
    pub fn parts(self, parts: Vec<Result<ListPart<Json>, Failure>>) {
        self.answer.send(Ok(stream::iter(parts).boxed())).ok();
    }

    /// A refusal.
    pub fn refuse(self, failure: Failure) {
        self.answer.send(Err(failure)).ok();
    }

    /// Whether nobody waits for the answer any more.
    pub async fn given_up(mut self) {
        self.answer.closed().await;
    }
}

/// A watch that waits for its answer.
pub struct Watching {
    pub options: WatchOptions,
    answer: oneshot::Sender<Result<WatchStream<Json>, Failure>>,
}

impl Watching {
    /// Opens the stream.
    pub fn open(self) -> Stream {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let stream = stream::poll_fn(move |cx| receiver.poll_recv(cx)).boxed();
        assert!(self.answer.send(Ok(stream)).is_ok(), "nobody waits for this watch any more");
        Stream(sender)
    }

    /// A refusal.
    pub fn refuse(self, failure: Failure) {
        self.answer.send(Err(failure)).ok();
    }

    /// Waits until nobody waits for the answer any more.
    pub async fn given_up(mut self) {
        self.answer.closed().await;
    }
}

/// An open watch. Dropping it ends the stream cleanly.
pub struct Stream(mpsc::UnboundedSender<Result<Vec<WatchEvent<Json>>, Failure>>);

impl Stream {
    /// Sends events that arrive together.
    pub fn send(&self, events: Vec<WatchEvent<Json>>) {
        assert!(self.0.send(Ok(events)).is_ok(), "the reflector has closed the stream");
    }

    /// Breaks the stream.
    pub fn fail(self, failure: Failure) {
        self.0.send(Err(failure)).ok();
    }

    /// Waits until the reflector has closed the stream.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// An object of the test.
pub fn object(name: &str, uid: &str, version: &str) -> Object<Json> {
    Object::from_json(format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    ))
    .unwrap()
}

/// The bookmark that ends the initial events.
pub fn end_bookmark(version: &str) -> WatchEvent<Json> {
    WatchEvent::Bookmark { version: ResourceVersion::new(version), initial_events_end: true }
}

/// A plain bookmark.
pub fn bookmark(version: &str) -> WatchEvent<Json> {
    WatchEvent::Bookmark { version: ResourceVersion::new(version), initial_events_end: false }
}

/// A refusal with a code and a reason.
pub fn refused(code: u16, reason: &str, message: &str) -> Failure {
    Failure::refused(code, reason, message, [], None)
}

/// What the cache holds: `a@5 b@7`.
pub fn content(cache: &reflector::Cache<Json>) -> String {
    let all: Vec<_> = cache.list().iter().map(|o| format!("{}@{}", o.name(), o.version().unwrap())).collect();
    all.join(" ")
}
