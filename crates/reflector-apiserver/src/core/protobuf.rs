//! Protobuf, as far as refusals need it: the envelope and the `Status` (`apimachinery/pkg/apis/meta/v1/generated.proto`).
//!
//! proto2 as gogo writes it: fields in the order of their numbers, texts and numbers that are no pointers also when empty.

use super::status::{Cause, Details, Status};

/// What every Kubernetes protobuf document begins with.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }
}

/// The document of a Status.
pub(super) fn status(status: &Status) -> Vec<u8> {
    let list_meta = Message::default().text(1, "").text(2, "").text(3, &status.continue_token);
    let mut message = Message::default()
        .bytes(1, &list_meta.0)
        .text(2, "Failure")
        .text(3, &status.message)
        .text(4, status.reason);
    if let Some(given) = &status.details {
        message = message.bytes(5, &details(given));
    }
    let message = message.number(6, u64::from(status.code));
    let types = Message::default().text(1, "v1").text(2, "Status");
    let unknown = Message::default().bytes(1, &types.0).bytes(2, &message.0).text(3, "").text(4, "");
    [MAGIC, &unknown.0].concat()
}

fn details(details: &Details) -> Vec<u8> {
    let mut message =
        Message::default().text(1, &details.name).text(2, &details.group).text(3, &details.kind);
    for Cause { reason, message: why, field } in &details.causes {
        let cause = Message::default().text(1, reason).text(2, why).text(3, field);
        message = message.bytes(4, &cause.0);
    }
    message.number(5, details.retry_after).text(6, &details.uid).0
}
