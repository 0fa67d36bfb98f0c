//! Keeps the bytes of a value that may lie across chunks.

use crate::wire::WireError;

/// A chunk with its place in the body.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) bytes: &'a [u8],
    /// The offset of its first byte.
    pub(super) base: u64,
}

impl<'a> Chunk<'a> {
    /// The part between two offsets, as far as it lies in this chunk.
    fn part(&self, from: u64, to: u64) -> &'a [u8] {
        let index = |offset: u64| usize::try_from(offset.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let end = index(to).min(self.bytes.len());
        self.bytes.get(index(from).min(end)..end).unwrap_or_default()
    }
}

/// What is captured, and how much of it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) what: &'static str,
    /// The field of `Limits`.
    pub(super) name: &'static str,
    pub(super) limit: usize,
    /// How much of the limit earlier values used up.
    pub(super) used: usize,
}

/// The bytes of one value at a time. Those in the current chunk are copied only if the chunk ends before the value.
#[derive(Clone, Debug, Default)]
pub(super) struct Capture {
    /// The offset where the value begins; `None` while nothing is captured.
    start: Option<u64>,
    /// What earlier chunks held of it.
    earlier: Vec<u8>,
}

impl Capture {
    /// A buffer that grew beyond this for one large object is not kept for the small ones that follow.
    const KEEP: usize = 1 << 18;

    pub(super) fn begin(&mut self, start: u64) {
        self.start = Some(start);
        self.clear();
    }

    fn clear(&mut self) {
        self.earlier.clear();
        if self.earlier.capacity() > Self::KEEP {
            self.earlier = Vec::new();
        }
    }

    /// How many bytes of the open value lie before `end`.
    pub(super) fn pending(&self, end: u64) -> u64 {
        self.start.map_or(0, |start| end.saturating_sub(start))
    }

    /// The body cannot be read on from `end`: the open value may have been too large before that, which is the earlier
    /// fault. In small chunks it would have been noticed.
    pub(super) fn fault(&self, end: u64, chunk: Chunk<'_>, bound: Bound) -> Result<(), WireError> {
        let Some(start) = self.start else { return Ok(()) };
        self.check(start, chunk.part(start, end).len(), bound)
    }

    /// The chunk is over: what it holds of the open value is kept.
    pub(super) fn chunk_ends(&mut self, chunk: Chunk<'_>, bound: Bound) -> Result<(), WireError> {
        let Some(start) = self.start else { return Ok(()) };
        let part = chunk.part(start, u64::MAX);
        self.check(start, part.len(), bound)?;
        self.earlier.extend_from_slice(part);
        Ok(())
    }

    /// The value is over: gives it to `read` as one slice, with the offset of its first byte.
    pub(super) fn finish<T>(
        &mut self,
        end: u64,
        chunk: Chunk<'_>,
        bound: Bound,
        read: impl FnOnce(&[u8], u64) -> T,
    ) -> Result<T, WireError> {
        let start = self.start.take().unwrap_or(end);
        let part = chunk.part(start, end);
        self.check(start, part.len(), bound)?;
        if self.earlier.is_empty() {
            return Ok(read(part, start));
        }
        self.earlier.extend_from_slice(part);
        let result = read(&self.earlier, start);
        self.clear();
        Ok(result)
    }

    fn check(&self, start: u64, more: usize, bound: Bound) -> Result<(), WireError> {
        let Bound { what, name, limit, used } = bound;
        if self.earlier.len().saturating_add(more) > limit.saturating_sub(used) {
            return Err(WireError::TooLarge { offset: start, what, name, limit });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room_after(bytes: usize) -> usize {
        let bound = Bound { what: "", name: "", limit: usize::MAX, used: 0 };
        let (mut capture, body) = (Capture::default(), vec![0; bytes]);
        capture.begin(0);
        capture.chunk_ends(Chunk { bytes: &body, base: 0 }, bound).unwrap();
        let last = Chunk { bytes: &body[..1], base: bytes as u64 };
        assert_eq!(capture.finish(bytes as u64 + 1, last, bound, |all, _| all.len()), Ok(bytes + 1));
        capture.earlier.capacity()
    }

    #[test]
    fn the_room_of_one_huge_object_is_given_back_and_that_of_others_is_kept() {
        assert_eq!(room_after(1 << 19), 0);
        assert!(room_after(1 << 16) >= 1 << 16);
    }
}
