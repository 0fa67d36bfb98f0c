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

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for so many bytes, and leaves so many of them.
    fn room_after(bytes: usize, left: usize) -> usize {
        let mut pending = Pending::default();
        for part in vec![0; bytes].chunks(bytes / 4) {
            let use_up = |all: &[u8], _| Ok::<_, ()>(if all.len() == bytes { bytes - left } else { 0 });
            pending.push(part, use_up).unwrap();
        }
        assert_eq!((pending.len(), pending.offset()), (left, (bytes - left) as u64));
        pending.bytes.capacity()
    }

    #[test]
    fn the_room_of_one_huge_object_is_given_back_and_that_of_others_is_kept() {
        assert!(room_after(4 << 20, 10) < 1000);
        assert!(room_after(4 << 20, 2 << 20) >= 4 << 20, "it is needed");
        assert!(room_after(1 << 19, 10) >= 1 << 19);
    }
}
