//! Many similar byte strings in little memory.
//!
//! The objects of one collection resemble each other: a pod of a deployment differs from the next in a few names,
//! addresses and times. One at a time they compress badly, since a compressor finds little to refer to within a few
//! kilobytes; together they cannot be read one by one. So a [`Packer`] learns dictionaries from them (zstd, RFC 8878 §5),
//! and packs each one by itself against one of these.
//!
//! ```
//! use reflector_pack::{Options, Packer};
//!
//! let pods: Vec<Vec<u8>> = (0..200)
//!     .map(|i| format!("{{\"name\":\"cart-{i}\",\"image\":\"registry.example/cart:1.2\",\"node\":\"n{}\"}}", i % 7).into())
//!     .collect();
//! let packer = Packer::new(Options::default());
//! packer.learn(&pods);
//! let packed = packer.pack(&pods[42]);
//! assert!(packed.packed_len() < pods[42].len());
//! assert_eq!(packed.unpack()?, pods[42]);
//! # Ok::<(), reflector_pack::Corrupt>(())
//! ```
//!
//! A list comes in the order of its keys, and neighbours are more alike than any two of its objects. So what comes
//! together is packed together ([`Packer::pack_batch`]), with a small dictionary of its own where that pays.
//!
//! Collections change: after a rollout nothing looks like what the dictionary was made from. The packer notices that
//! what it packs has become larger, and learns anew from what comes by. Whatever was packed before keeps its own
//! dictionary, which goes when the last of them goes.

mod dictionary;
mod packed;
mod packer;
mod samples;

pub use dictionary::Dictionary;
pub use packed::{Corrupt, Packed};
pub use packer::{Options, Packer};
