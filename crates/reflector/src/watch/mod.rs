//! A watch without a copy: every change from a known version on, as a stream.
//!
//! [`RetryWatcher`] keeps one logical watch alive over many requests. [`until`] waits on it for conditions. Both are for
//! those who need every intermediate state and can start over when the history is gone; who wants the present state and
//! no interruption takes a [`Reflector`](crate::Reflector).
//!
//! ```
//! use futures::{StreamExt, stream};
//! use reflector::{
//!     Object, ResourceVersion,
//!     protocol::Failure,
//!     source::{ListOptions, ListStream, ListWatch, WatchOptions, WatchStream},
//!     watch::RetryWatcher,
//!     wire::WatchEvent,
//! };
//!
//! # struct Letters;
//! # impl ListWatch<serde_json::Value> for Letters {
//! #     async fn list(&self, _: ListOptions) -> Result<ListStream<serde_json::Value>, Failure> {
//! #         Err(Failure::transport("not needed"))
//! #     }
//! #     async fn watch(&self, _: WatchOptions) -> Result<WatchStream<serde_json::Value>, Failure> {
//! #         let object = Object::from_json(r#"{"metadata":{"name":"a","resourceVersion":"8"}}"#).unwrap();
//! #         Ok(stream::iter([Ok(vec![WatchEvent::Added(object)])]).chain(stream::pending()).boxed())
//! #     }
//! #     fn describe(&self) -> String { "letters".into() }
//! # }
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listed = ResourceVersion::new("7").ok_or("the list has no version")?;
//! let mut letters = RetryWatcher::new(Letters, listed)?;
//! if let Some(event) = letters.next().await {
//!     assert_eq!(event?.to_string(), "ADDED a at version 8");
//! }
//! # Ok(()) }
//! ```

mod condition;
mod error;
mod event;
mod retry;

pub use condition::{UntilError, until};
pub use error::RetryWatchError;
pub use event::Event;
pub use retry::{RetryWatchBuilder, RetryWatcher};
