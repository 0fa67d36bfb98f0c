//! Where collections come from.

mod options;

pub use options::{ListOptions, Selection, VersionMatch, WatchOptions};
