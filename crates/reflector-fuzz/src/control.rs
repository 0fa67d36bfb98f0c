//! The first bytes of an input say how the rest of it is used.

use reflector::wire::Limits;

/// What is not the body: choices, and where to cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    choices: u8,
    seed: u8,
}

impl Control {
    /// How many bytes of an input it takes.
    pub(crate) const LEN: usize = 2;

    /// Splits an input.
    pub(crate) fn split(input: &[u8]) -> Option<(Self, &[u8])> {
        let (&[choices, seed], body) = input.split_first_chunk::<{ Self::LEN }>()?;
        Some((Self { choices, seed }, body))
    }

    /// One of eight choices.
    pub(crate) fn chose(self, bit: u8) -> bool {
        self.choices >> bit & 1 == 1
    }

    /// Limits: the default ones, or some that small inputs reach.
    pub(crate) fn limits(self) -> Limits {
        if self.chose(0) {
            Limits::default().object_bytes_max(200).envelope_bytes_max(60).depth_max(8).list_bytes_max(1500)
        } else {
            Limits::default()
        }
    }

    /// A place in a body, its end included.
    pub(crate) fn place(self, len: usize) -> usize {
        usize::from(self.seed).wrapping_mul(0x9e37_79b9) % (len + 1)
    }

    /// The body in several cuts: byte by byte, in two parts, and in parts of varying length.
    pub(crate) fn cuts(self, body: &[u8]) -> Vec<Vec<&[u8]>> {
        let place = self.place(body.len());
        let mut varying = Vec::new();
        let mut state = u32::from(self.seed) | 0x100;
        let mut rest = body;
        while !rest.is_empty() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Empty chunks are allowed too.
            let (chunk, more) = rest.split_at(((state >> 24) as usize % 33).min(rest.len()));
            varying.push(chunk);
            rest = more;
        }
        vec![body.chunks(1).collect(), vec![&body[..place], &body[place..]], varying]
    }
}
