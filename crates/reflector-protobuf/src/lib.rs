//! serde over the protobuf form of Kubernetes objects.

mod compact;
mod de;
mod envelope;
mod error;
pub mod schema;
mod ser;
mod trim;
pub mod wire;

pub use de::{Found, MAX_DEPTH, find, from_message, from_slice, to_json};
pub use envelope::{Envelope, EnvelopeError, PREFIX};
pub use error::{Error, ErrorKind};
pub use schema::{Field, Kind, Message, Shape, Type};
pub use ser::{envelope, from_json, to_vec};
pub use trim::{PathError, Trim};
