//! serde over the protobuf form of Kubernetes objects, driven by a table of fields.
//!
//! A Kubernetes server speaks protobuf for its built-in types: about half the bytes of JSON, and much less work where
//! only some fields are wanted. Whatever type reads an object's JSON through serde reads its protobuf here, and gets an
//! equal value: the structs of `k8s-openapi`, `serde_json::Value`, or a struct with three fields of one's own. There
//! are no generated types.
//!
//! ```
//! use reflector_protobuf::{Envelope, Kind, from_slice};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize)]
//! struct Service {
//!     metadata: Metadata,
//!     spec: Spec,
//! }
//!
//! #[derive(Deserialize)]
//! struct Metadata {
//!     name: String,
//! }
//!
//! #[derive(Deserialize)]
//! struct Spec {
//!     ports: Vec<Port>,
//! }
//!
//! #[derive(Deserialize)]
//! struct Port {
//!     port: u16,
//! }
//!
//! # let body = b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Service\x12\x0e\x0a\x05\x0a\x03dns\x12\x05\x0a\x03\x18\xd2\x09";
//! // What a server answers to `Accept: application/vnd.kubernetes.protobuf`.
//! let envelope = Envelope::parse(body)?;
//! let kind = Kind::find(envelope.api_version, envelope.kind).ok_or("a kind without protobuf")?;
//! let service: Service = from_slice(kind, envelope.raw)?;
//! assert_eq!(service.metadata.name, "dns");
//! assert_eq!(service.spec.ports[0].port, 1234);
//!
//! let mut json = Vec::new();
//! reflector_protobuf::to_json(kind, envelope.raw, &mut json)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What equal means
//!
//! Protobuf leaves some things open that JSON does not. The table says how Go writes each field, and so what a server's
//! JSON would have:
//!
//! - A zero on the wire is a value behind a Go pointer (`replicas: 0`), and nothing where JSON omits it.
//! - What is not on the wire but always in JSON is given as Go's zero value (`containers: null`).
//! - An empty list and none are one in protobuf. Who takes any value gets null; who asks for a list gets an empty one,
//!   and who asks for an `Option` gets `None`.
//!
//! Fields that the table does not know, as a newer server may send, are skipped: JSON would have them.
//!
//! # Speed
//!
//! Nothing is allocated for a message, and what is not wanted is not looked at: six fields of a pod cost some 1/35 of
//! what `serde_json` needs to read the whole pod into the struct of `k8s-openapi`. Reading that whole struct from
//! protobuf costs about as much as from JSON: most of it is spent on making the struct. (Example `speed`.)

mod compact;
mod de;
mod envelope;
mod error;
pub mod fuzz;
pub mod schema;
mod ser;
mod trim;
pub mod wire;

pub use de::{Found, MAX_DEPTH, find, from_message, from_slice, to_json};
pub use envelope::{Envelope, EnvelopeError, PREFIX};
pub use error::{Error, ErrorKind};
pub use schema::{Field, Kind, Message, Shape, Type};
pub use ser::{envelope, from_json, to_vec};
pub use trim::{PathError, Trim, path};
