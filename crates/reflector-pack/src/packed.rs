//! One byte string.

use std::{fmt, sync::Arc};

use crate::Dictionary;

/// One byte string, packed.
///
/// Takes 24 bytes and its packed length.
#[derive(Clone)]
pub struct Packed {
    bytes: Box<[u8]>,
    /// What it was packed with; none, if it is kept as it is.
    dictionary: Option<Arc<Dictionary>>,
}

impl Packed {
    /// A byte string as it is.
    pub(crate) fn stored(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), dictionary: None }
    }

    pub(crate) fn new(bytes: Box<[u8]>, dictionary: Arc<Dictionary>) -> Self {
        Self { bytes, dictionary: Some(dictionary) }
    }

    /// The original.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] cannot happen while memory holds what was written to it.
    pub fn unpack(&self) -> Result<Vec<u8>, Corrupt> {
        match &self.dictionary {
            None => Ok(self.bytes.to_vec()),
            Some(dictionary) => dictionary.unpack(&self.bytes, self.len()).ok_or(Corrupt),
        }
    }

    /// How many bytes the original has.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.dictionary {
            None => self.bytes.len(),
            // A frame begins with the length of its content (RFC 8878 §3.1.1.1.4).
            Some(_) => {
                let length = zstd_safe::get_frame_content_size(&self.bytes).ok().flatten();
                length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default()
            }
        }
    }

    /// Whether the original is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes the packed form has.
    #[must_use]
    pub fn packed_len(&self) -> usize {
        self.bytes.len()
    }

    /// What it was packed with; `None` if it is kept as it is.
    #[must_use]
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }
}

impl fmt::Debug for Packed {
    /// Lengths only: the content may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("len", &self.len()).field("packed_len", &self.packed_len()).finish()
    }
}

/// What was packed cannot be read back. That is a fault of the memory or of this crate, and not of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("packed bytes cannot be read back")]
pub struct Corrupt;
