//! Where collections come from: [`ListWatch`], and the one for Kubernetes.

#[cfg(feature = "kube")]
mod kube;
mod options;

use std::{fmt, future::Future, time::Duration};

use futures::stream::BoxStream;

#[cfg(feature = "kube")]
pub use self::kube::{Format, KubeListWatch, kube_client};
pub use options::{ListOptions, Selection, VersionMatch, WatchOptions};

use crate::{
    protocol::Failure,
    wire::{ListItem, ListMeta, Status, WatchEvent},
};

/// One page of a list while it arrives: batches of objects, and then, exactly once, its metadata.
pub type ListStream<K> = BoxStream<'static, Result<ListPart<K>, Failure>>;

/// A watch while it is open: batches of events. The end of the stream is a clean end of the watch; an error is the
/// last thing that comes.
pub type WatchStream<K> = BoxStream<'static, Result<Vec<WatchEvent<K>>, Failure>>;

/// A part of a page of a list.
pub enum ListPart<K> {
    /// Objects, in the order of the list. An empty batch says that bytes came, and nothing more.
    Items(Vec<ListItem<K>>),
    /// The page is complete.
    End(ListMeta),
}

impl<K> fmt::Debug for ListPart<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items(items) => f.debug_tuple("Items").field(items).finish(),
            Self::End(end) => f.debug_tuple("End").field(end).finish(),
        }
    }
}

/// A collection that can be listed and watched (client-go: *ListerWatcher*).
///
/// A source does one request at a time of what it is asked for, and nothing else: it does not retry, page, wait or
/// filter. All of that is decided by the [protocol](crate::protocol), which has to see every failure.
///
/// The futures and streams are dropped when the answer is not wanted any more; that must end the request.
///
/// ```
/// use futures::{StreamExt, stream};
/// use reflector::{
///     Object, Reflector, ResourceVersion,
///     protocol::Failure,
///     source::{ListOptions, ListPart, ListStream, ListWatch, WatchOptions, WatchStream},
///     wire::{ListItem, ListMeta},
/// };
///
/// /// Two objects that never change.
/// struct Fixed;
///
/// impl ListWatch<serde_json::Value> for Fixed {
///     async fn list(&self, _: ListOptions) -> Result<ListStream<serde_json::Value>, Failure> {
///         let object = |name| Object::from_json(format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"}}}}"#));
///         let items = ["a", "b"].map(|name| ListItem::Object(object(name).unwrap())).into();
///         let mut end = ListMeta::default();
///         end.version = ResourceVersion::new("1");
///         Ok(stream::iter([Ok(ListPart::Items(items)), Ok(ListPart::End(end))]).boxed())
///     }
///     async fn watch(&self, options: WatchOptions) -> Result<WatchStream<serde_json::Value>, Failure> {
///         if options.send_initial_events.is_some() {
///             return Err(Failure::refused(422, "Invalid", "no streaming lists here", [], None));
///         }
///         Ok(stream::pending().boxed())
///     }
///     fn describe(&self) -> String { "letters".into() }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let letters = Reflector::builder(Fixed).start();
/// letters.ready().await?;
/// assert_eq!(letters.cache().len(), 2);
/// letters.stop().await;
/// # Ok(()) }
/// ```
pub trait ListWatch<K>: Send + Sync + 'static {
    /// Asks for one page of a list. The future ends with the head of the answer, the objects come as a stream.
    ///
    /// # Errors
    ///
    /// Whatever went wrong, with the server's own words and its `Retry-After`.
    fn list(&self, options: ListOptions) -> impl Future<Output = Result<ListStream<K>, Failure>> + Send;

    /// Opens a watch. The future ends with the head of the answer.
    ///
    /// # Errors
    ///
    /// Whatever went wrong, with the server's own words and its `Retry-After`.
    fn watch(&self, options: WatchOptions) -> impl Future<Output = Result<WatchStream<K>, Failure>> + Send;

    /// Gets fresh credentials: the server has answered 401. Does nothing by default.
    fn refresh(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// What is listed and watched, for messages and as the label `resource` of metrics: `pods`, or
    /// `deployments.apps in namespace shop`. Asked once.
    fn describe(&self) -> String;
}

/// What a server's Status is to the protocol. `retry_after` is the header of that name; it is preferred to the hint in the
/// body, which mirrors it.
#[must_use]
pub fn refused(status: &Status, retry_after: Option<Duration>) -> Failure {
    let causes = status.details.causes.iter().map(|cause| (cause.reason.as_str(), cause.message.as_str()));
    let hint = status.details.retry_after_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Failure::refused(status.code, &status.reason, status.message.as_str(), causes, retry_after.or(hint))
}
