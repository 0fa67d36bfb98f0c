//! A local copy of a remote collection, true for ever.
