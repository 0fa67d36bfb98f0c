//! Refusals.

use reflector_protobuf::{Envelope, Kind, PREFIX};

/// The JSON of a Status in protobuf; `None` if it is something else.
pub(in crate::wire) fn status_json(body: &[u8]) -> Option<Vec<u8>> {
    if !body.starts_with(&PREFIX) {
        return None;
    }
    let envelope = Envelope::parse(body).ok().filter(|envelope| envelope.kind == "Status")?;
    let mut json = Vec::new();
    reflector_protobuf::to_json(Kind::find("v1", "Status")?, envelope.raw, &mut json).ok()?;
    Some(json)
}
