//! What has arrived and is not complete yet.

/// Bytes that were not used up, put in front of the next ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    /// How many bytes of the body were used up.
    used: u64,
}

impl Pending {
    /// Where the next byte that is not used up lies in the body.
    pub(super) fn offset(&self) -> u64 {
        self.used
    }

    /// How many bytes wait for more.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives `take` what there is; it tells how much of it is used up, until it uses nothing any more. A chunk that comes
    /// when nothing waits is not copied, but for what is left of it.
    pub(super) fn push<E>(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(&[u8], u64) -> Result<usize, E>,
    ) -> Result<(), E> {
        let mut held = std::mem::take(&mut self.bytes);
        let all = if held.is_empty() {
            chunk
        } else {
            held.extend_from_slice(chunk);
            &held
        };
        let mut rest = all;
        while !rest.is_empty() {
            let used = take(rest, self.used)?.min(rest.len());
            if used == 0 {
                break;
            }
            self.used += used as u64;
            rest = rest.get(used..).unwrap_or_default();
        }
        let left = rest.len();
        if held.is_empty() {
            self.bytes.extend_from_slice(rest);
        } else {
            let used = held.len() - left;
            held.drain(..used);
            // One huge object must not leave its room behind.
            if held.capacity() > 1 << 20 && left < held.capacity() / 4 {
                held.shrink_to_fit();
            }
            self.bytes = held;
        }
        Ok(())
    }
}
