//! serde over the protobuf form of Kubernetes objects.

mod envelope;
pub mod schema;
pub mod wire;

pub use envelope::{Envelope, EnvelopeError, PREFIX};
pub use schema::{Field, Kind, Message, Shape, Type};
