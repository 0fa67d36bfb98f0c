//! A reflector that is in sync, and what its subscribers are told.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use reflector::{Event, Object, Reflector, ResourceVersion, Subscription, wire::WatchEvent};

use crate::support::*;

/// A reflector that has streamed these objects, as of a version.
pub(crate) async fn synced(objects: &[Object<Json>], version: &str) -> (Reflector<Json>, Server, Stream) {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).seed(1).start();
    let stream = server.sync(objects, version).await;
    letters.ready().await.unwrap();
    (letters, server, stream)
}

/// Waits until the copy is current as of a version.
pub(crate) async fn until_version(letters: &Reflector<Json>, version: &str) {
    let mut status = letters.handle().watch_status();
    status.wait_for(|status| status.version == ResourceVersion::new(version)).await.unwrap();
}

/// An `ERROR` of the stream.
pub(crate) fn error(code: u16, reason: &str) -> WatchEvent<Json> {
    let body =
        format!(r#"{{"kind":"Status","status":"Failure","reason":"{reason}","message":"m","code":{code}}}"#);
    WatchEvent::Error(Box::new(reflector::wire::Status::from_body(code, None, body.as_bytes())))
}

pub(crate) fn short(object: &Object<Json>) -> String {
    format!("{}@{}", object.name(), object.version().unwrap())
}

/// Everything that can be had now: `=a@1` for what was there, `+a@1`, `a@1>a@2`, `-a@2`, `-a@2?`.
pub(crate) fn told(subscription: &mut Subscription<Json>) -> String {
    let events = std::iter::from_fn(|| subscription.next().now_or_never().flatten());
    events.map(|event| line(&event)).collect::<Vec<_>>().join(" ")
}

pub(crate) fn line(event: &Event<Json>) -> String {
    match event {
        Event::Added { object, initial } => format!("{}{}", if *initial { '=' } else { '+' }, short(object)),
        Event::Updated { old, new } => format!("{}>{}", short(old), short(new)),
        Event::Deleted { last, final_state_unknown } => {
            format!("-{}{}", short(last), if *final_state_unknown { "?" } else { "" })
        }
        Event::Synced => "synced".to_owned(),
        other => format!("{other:?}"),
    }
}

/// What somebody holds who does what the events say, and who is strict about it.
#[derive(Default)]
pub(crate) struct Fold(BTreeMap<String, String>);

impl Fold {
    pub(crate) fn follow(&mut self, subscription: &mut Subscription<Json>) {
        while let Some(Some(event)) = subscription.next().now_or_never() {
            match event {
                Event::Added { object, .. } => {
                    assert!(self.0.insert(object.name().to_owned(), short(&object)).is_none(), "told twice");
                }
                Event::Updated { old, new } => {
                    let held = self.0.insert(new.name().to_owned(), short(&new));
                    assert_eq!(held, Some(short(&old)));
                }
                Event::Deleted { last, .. } => assert!(self.0.remove(last.name()).is_some(), "never told of"),
                _ => {}
            }
        }
    }

    pub(crate) fn content(&self) -> String {
        self.0.values().cloned().collect::<Vec<_>>().join(" ")
    }
}
