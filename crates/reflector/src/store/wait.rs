//! Waiting for what a cache will show.

use std::sync::atomic::Ordering;

use super::Cache;

/// All writers of the cache are gone, so it will not change any more: the reflector has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reflector has ended, and the cache does not change any more")]
pub struct Stopped;

impl<K> Cache<K> {
    /// Whether all writers are gone, that is, the reflector has ended. The content stays as it is then.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Asks at once, and again after each publication, until there is an answer.
    ///
    /// What is published while `decide` runs leads to another question, so no change is missed; changes that come
    /// together lead to one. Dropping the future leaves nothing behind.
    pub(crate) async fn until<T>(&self, mut decide: impl FnMut() -> Option<T>) -> Result<T, Stopped> {
        let mut published = self.shared.published.subscribe();
        loop {
            // Looked at before the content: what is decided then is decided of the last content.
            let stopped = self.is_stopped();
            if let Some(answer) = decide() {
                return Ok(answer);
            }
            if stopped || published.changed().await.is_err() {
                return Err(Stopped);
            }
        }
    }
}
