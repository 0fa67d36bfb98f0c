//! gzip (RFC 1952), decompressed while it arrives.

use std::{
    fmt,
    io::{ErrorKind, Write},
};

use flate2::write::MultiGzDecoder;

use super::WireError;

/// Decompresses a gzip body while it arrives.
///
/// A body may consist of many members, one after the other, as RFC 1952 §2.2 allows and as API servers from 1.37 on
/// write watches: one member per event (C25). What can be decompressed is given out at once; nothing waits for the end
/// of a member.
///
/// Memory is bounded whatever the bytes unfold to: output is handed on in slices of at most a few times 32 KiB, and
/// whoever takes them decides whether to go on.
///
/// ```
/// use reflector::wire::{Inflate, WireError};
/// # use std::io::Write;
/// # let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
/// # gz.write_all(b"hello").unwrap();
/// # let body = gz.finish().unwrap();
/// let mut inflate = Inflate::new();
/// let mut plain = Vec::new();
/// for chunk in body.chunks(3) {
///     inflate.push(chunk, |slice| {
///         plain.extend_from_slice(slice);
///         Ok::<(), WireError>(())
///     })?;
/// }
/// inflate.finish()?;
/// assert_eq!(plain, b"hello");
/// # Ok::<(), WireError>(())
/// ```
pub struct Inflate {
    decoder: MultiGzDecoder<Vec<u8>>,
    /// How many compressed bytes were taken.
    taken: u64,
    failed: Option<WireError>,
}

impl Inflate {
    /// A decoder for one body.
    #[must_use]
    pub fn new() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), taken: 0, failed: None }
    }

    /// Takes the next bytes of the body and gives all that they unfold to, in order and in slices, to `out`.
    ///
    /// # Errors
    ///
    /// [`WireError::Gzip`] if the bytes are not gzip or are damaged, or whatever `out` returned, which is not asked
    /// again then. Every further call returns an error.
    pub fn push<E: From<WireError>>(
        &mut self,
        chunk: &[u8],
        mut out: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(error) = &self.failed {
            return Err(error.clone().into());
        }
        let mut rest = chunk;
        while !rest.is_empty() {
            // Takes no more than fits its buffer of 32 KiB of output, and gives out what the call before left there.
            match self.decoder.write(rest) {
                Ok(0) => return Err(self.fail("no progress").into()),
                Ok(taken) => {
                    self.taken += taken as u64;
                    rest = rest.get(taken..).unwrap_or_default();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(&error.to_string()).into()),
            }
            self.give(&mut out)?;
        }
        if let Err(error) = self.decoder.flush() {
            return Err(self.fail(&error.to_string()).into());
        }
        self.give(&mut out)
    }

    /// Ends the body. A body of no bytes at all is complete: it unfolds to nothing.
    ///
    /// # Errors
    ///
    /// [`WireError::Truncated`] if the last member is not complete, [`WireError::Gzip`] if its checksum (the last
    /// eight bytes) does not fit or is not complete, or the error of an earlier [`push`](Self::push).
    pub fn finish(mut self) -> Result<(), WireError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.taken == 0 {
            return Ok(());
        }
        match self.decoder.try_finish() {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(WireError::Truncated { offset: self.taken, pending: 0, what: "gzip member" })
            }
            Err(_) => Err(self.fail("the last member's checksum is missing or wrong")),
        }
    }

    fn give<E: From<WireError>>(&mut self, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let slice = self.decoder.get_mut();
        if slice.is_empty() {
            return Ok(());
        }
        let result = out(slice);
        slice.clear();
        if result.is_err() {
            self.fail("its reader gave up");
        }
        result
    }

    fn fail(&mut self, what: &str) -> WireError {
        let error = WireError::Gzip { offset: self.taken, what: what.to_owned() };
        self.failed = Some(error.clone());
        error
    }
}

impl Default for Inflate {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Inflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflate").field("taken", &self.taken).finish_non_exhaustive()
    }
}
