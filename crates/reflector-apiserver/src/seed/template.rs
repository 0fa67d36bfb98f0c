//! Templates: a serialised object with gaps, and what fills them.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::application::suffix;

/// Something that differs from pod to pod. In the text of a template it stands between two `\u{1}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gap {
    Name,
    Uid,
    Created,
    Started,
    Node,
    HostIp,
    PodIp,
    /// 64 hexadecimal digits.
    Digest,
    Restarts,
    /// The name of the volume with the pod's own token.
    Token,
    Ready,
    ReadyWord,
}

/// The marks of gaps in the text that [`Template::new`] takes.
pub(super) mod mark {
    pub(in crate::seed) const NAME: &str = "\u{1}n\u{1}";
    pub(in crate::seed) const UID: &str = "\u{1}u\u{1}";
    pub(in crate::seed) const CREATED: &str = "\u{1}c\u{1}";
    pub(in crate::seed) const STARTED: &str = "\u{1}s\u{1}";
    pub(in crate::seed) const NODE: &str = "\u{1}o\u{1}";
    pub(in crate::seed) const HOST_IP: &str = "\u{1}h\u{1}";
    pub(in crate::seed) const POD_IP: &str = "\u{1}p\u{1}";
    pub(in crate::seed) const DIGEST: &str = "\u{1}d\u{1}";
    pub(in crate::seed) const RESTARTS: &str = "\u{1}r\u{1}";
    pub(in crate::seed) const TOKEN: &str = "\u{1}t\u{1}";
    pub(in crate::seed) const READY: &str = "\u{1}y\u{1}";
    pub(in crate::seed) const READY_WORD: &str = "\u{1}Y\u{1}";
}

impl Gap {
    fn of(mark: &str) -> Option<Self> {
        Some(match mark {
            "n" => Self::Name,
            "u" => Self::Uid,
            "c" => Self::Created,
            "s" => Self::Started,
            "o" => Self::Node,
            "h" => Self::HostIp,
            "p" => Self::PodIp,
            "d" => Self::Digest,
            "r" => Self::Restarts,
            "t" => Self::Token,
            "y" => Self::Ready,
            "Y" => Self::ReadyWord,
            _ => return None,
        })
    }
}

/// A serialised object with gaps.
#[derive(Debug)]
pub(super) struct Template {
    /// Text, and the gap that follows it.
    parts: Vec<(String, Option<Gap>)>,
    length: usize,
}

impl Template {
    /// Cuts a text at its marks.
    pub(super) fn new(text: &str) -> Self {
        let mut pieces = text.split('\u{1}');
        let mut parts = Vec::new();
        while let Some(piece) = pieces.next() {
            parts.push((piece.to_owned(), pieces.next().and_then(Gap::of)));
        }
        Self { parts, length: text.len() + 1_024 }
    }

    /// A copy with the gaps filled.
    pub(super) fn fill(&self, filler: &mut Filler<'_>) -> String {
        let created = filler.created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let started = filler.created.checked_add(jiff::SignedDuration::from_secs(filler.rng.i64(1..40)));
        let started = started.unwrap_or(filler.created).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let node = node_name(filler.node);
        let host_ip = host_ip(filler.node);
        let ordinal = filler.ordinal;
        let pod_ip = format!("10.{}.{}.{}", 1 + ordinal / 62_500, ordinal / 250 % 250, 1 + ordinal % 250);
        let ready = filler.rng.u8(..) >= 8;
        let token = format!("kube-api-access-{}", suffix(5, filler.rng));
        let mut out = String::with_capacity(self.length);
        for (text, gap) in &self.parts {
            out.push_str(text);
            match gap {
                None => {}
                Some(Gap::Name) => out.push_str(filler.name),
                Some(Gap::Uid) => uuid(filler.rng, &mut out),
                Some(Gap::Created) => out.push_str(&created),
                Some(Gap::Started) => out.push_str(&started),
                Some(Gap::Node) => out.push_str(&node),
                Some(Gap::HostIp) => out.push_str(&host_ip),
                Some(Gap::PodIp) => out.push_str(&pod_ip),
                Some(Gap::Digest) => hex(filler.rng, 64, &mut out),
                Some(Gap::Restarts) => {
                    let restarts = if filler.rng.u8(..) < 20 { filler.rng.u8(1..30) } else { 0 };
                    // Writing to a string cannot fail.
                    let _ = write!(out, "{restarts}");
                }
                Some(Gap::Token) => out.push_str(&token),
                Some(Gap::Ready) => out.push_str(if ready { "true" } else { "false" }),
                Some(Gap::ReadyWord) => out.push_str(if ready { "True" } else { "False" }),
            }
        }
        out
    }
}

/// What fills the gaps of one pod.
pub(super) struct Filler<'a> {
    pub(super) name: &'a str,
    pub(super) created: Timestamp,
    pub(super) node: usize,
    pub(super) ordinal: usize,
    pub(super) rng: &'a mut fastrand::Rng,
}

pub(super) fn node_name(n: usize) -> String {
    format!("node-{n:04}")
}

pub(super) fn host_ip(n: usize) -> String {
    format!("192.168.{}.{}", n / 250 % 256, 1 + n % 250)
}

/// So many random hexadecimal digits.
pub(super) fn hex(rng: &mut fastrand::Rng, digits: usize, out: &mut String) {
    let mut left = digits;
    while left > 0 {
        let some = left.min(16);
        let word = rng.u64(..);
        for digit in 0..some {
            let nibble = (word >> (4 * digit) & 0xf) as u8;
            out.push(char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }));
        }
        left -= some;
    }
}

/// A random UUID of version 4.
pub(super) fn uuid(rng: &mut fastrand::Rng, out: &mut String) {
    for (digits, dash) in [(8, "-"), (4, "-4"), (3, "-a"), (3, "-"), (12, "")] {
        hex(rng, digits, out);
        out.push_str(dash);
    }
}
