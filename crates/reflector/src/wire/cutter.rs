//! The cutters of one format or the other.

use super::{Limits, ListItem, ListMeta, TypeMeta, WatchEvent, WireError, json, protobuf};

/// Cuts a list into its items while it arrives. See the [module](crate::wire) for an example.
///
/// `items` may come before or after `metadata` (custom resources sort their members), may be null or absent, and
/// members that are not known here are skipped without being kept. Items without `kind` or `apiVersion` get them,
/// written at the front; items that have both are kept byte by byte. Each object has an allocation of its own and of
/// its exact size, so that one survivor does not hold on to the page it came with (RF-27).
///
/// Memory: the unfinished item, and the list's own metadata. Whether there were items at all, and whether the list
/// was complete, is only known when [`finish`](Self::finish) says so. A clone goes on from the same byte.
#[derive(Clone, Debug)]
pub struct ListCutter<K> {
    form: ListForm<K>,
    /// How many bytes may still come.
    room: usize,
    limit: usize,
    failed: Option<WireError>,
}

#[derive(Clone, Debug)]
enum ListForm<K> {
    Json(Box<json::list::ListCutter<K>>),
    Protobuf(Box<protobuf::list::ListCutter<K>>),
}

impl<K> ListCutter<K> {
    /// A cutter for one list in JSON.
    ///
    /// `types` is what items that lack `kind` or `apiVersion` are; with `None` it is taken from the list's own kind,
    /// less its `List`, provided that the list tells before the items come.
    #[must_use]
    pub fn new(types: Option<TypeMeta>, limits: Limits) -> Self {
        Self::with(ListForm::Json(Box::new(json::list::ListCutter::new(types, limits))), limits)
    }

    /// A cutter for one list in protobuf: `k8s\0`, and an envelope that says what the list is.
    #[must_use]
    pub fn protobuf(limits: Limits) -> Self {
        Self::with(ListForm::Protobuf(Box::new(protobuf::list::ListCutter::new(limits))), limits)
    }

    fn with(form: ListForm<K>, limits: Limits) -> Self {
        let limit = limits.list_bytes_max;
        Self { form, room: limit, limit, failed: None }
    }

    /// Takes the next bytes of the body and appends the items that end in them.
    ///
    /// # Errors
    ///
    /// [`WireError`] if the body cannot be read on; items that ended before the fault have been appended. Every
    /// further call returns the same error.
    pub fn push(&mut self, chunk: &[u8], items: &mut Vec<ListItem<K>>) -> Result<(), WireError> {
        once(&mut self.failed, || {
            // What still fits comes first, so that it does not matter in what chunks the bytes come.
            let fits = chunk.get(..self.room).unwrap_or(chunk);
            match &mut self.form {
                ListForm::Json(cutter) => cutter.push(fits, items)?,
                ListForm::Protobuf(cutter) => cutter.push(fits, items)?,
            }
            self.room -= fits.len();
            if fits.len() < chunk.len() {
                let (what, name) = ("the list", "list_bytes_max");
                return Err(WireError::TooLarge { offset: 0, what, name, limit: self.limit });
            }
            Ok(())
        })
    }

    /// Ends the list, and tells what it said of itself.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] if the document is not complete, [`WireError::NotAList`] if it is something else, or
    /// the error of an earlier [`push`](Self::push).
    pub fn finish(self) -> Result<ListMeta, WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.form {
            ListForm::Json(cutter) => cutter.finish(),
            ListForm::Protobuf(cutter) => cutter.finish(),
        }
    }
}

/// Cuts a watch stream into its events while it arrives.
///
/// In JSON, a stream is a sequence of values; newlines between them mean nothing, `type` may follow `object`, and one
/// chunk may hold many events or a part of one. Each object has an allocation of its own and of its exact size.
///
/// Memory: the unfinished event. A clone goes on from the same byte.
///
/// ```
/// use reflector::wire::{Limits, WatchCutter, WatchEvent};
///
/// let mut cutter = WatchCutter::<serde::de::IgnoredAny>::new(None, Limits::default());
/// let mut events = Vec::new();
/// cutter.push(br#"{"type":"DELETED","object":{"kind":"Node","apiVersion":"v1","meta"#, &mut events)?;
/// assert!(events.is_empty());
/// cutter.push(br#"data":{"name":"n1","resourceVersion":"5"}}}"#, &mut events)?;
/// assert!(matches!(&events[..], [WatchEvent::Deleted(node)] if node.name() == "n1"));
/// cutter.finish()?;
/// # Ok::<(), reflector::wire::WireError>(())
/// ```
#[derive(Clone, Debug)]
pub struct WatchCutter<K> {
    form: WatchForm<K>,
    failed: Option<WireError>,
}

#[derive(Clone, Debug)]
enum WatchForm<K> {
    Json(Box<json::watch::WatchCutter<K>>),
    Protobuf(Box<protobuf::watch::WatchCutter<K>>),
}

impl<K> WatchCutter<K> {
    /// A cutter for one stream in JSON.
    ///
    /// `types` is what objects that lack `kind` or `apiVersion` are; they get them, written at the front. API servers
    /// write both into every watched object, so with `None` nothing is filled in.
    #[must_use]
    pub fn new(types: Option<TypeMeta>, limits: Limits) -> Self {
        Self { form: WatchForm::Json(Box::new(json::watch::WatchCutter::new(types, limits))), failed: None }
    }

    /// A cutter for one stream in protobuf: frames of four bytes of length and one event each.
    #[must_use]
    pub fn protobuf(limits: Limits) -> Self {
        Self { form: WatchForm::Protobuf(Box::new(protobuf::watch::WatchCutter::new(limits))), failed: None }
    }

    /// Takes the next bytes of the stream and appends the events that end in them.
    ///
    /// A `Status` that comes without an event around it is a [`WatchEvent::Error`] too.
    ///
    /// # Errors
    ///
    /// [`WireError`] if the stream cannot be read on; events that ended before the fault have been appended. Every
    /// further call returns the same error.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<WatchEvent<K>>) -> Result<(), WireError> {
        once(&mut self.failed, || match &mut self.form {
            WatchForm::Json(cutter) => cutter.push(chunk, events),
            WatchForm::Protobuf(cutter) => cutter.push(chunk, events),
        })
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] if the stream ended in the middle of an event, which is lost; all before it have been
    /// given out. Or the error of an earlier [`push`](Self::push).
    pub fn finish(self) -> Result<(), WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        match self.form {
            WatchForm::Json(cutter) => cutter.finish(),
            WatchForm::Protobuf(cutter) => cutter.finish(),
        }
    }
}

/// A cutter that has failed is spent: it is not asked again, and says the same.
fn once(
    failed: &mut Option<WireError>,
    push: impl FnOnce() -> Result<(), WireError>,
) -> Result<(), WireError> {
    match failed {
        Some(error) => Err(error.clone()),
        None => push().inspect_err(|error| *failed = Some(error.clone())),
    }
}
