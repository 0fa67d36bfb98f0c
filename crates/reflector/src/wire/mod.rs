//! Bytes in, objects out: response bodies cut while they arrive.
//!
//! Nothing here reads a socket, and nothing holds a whole list. A cutter is fed chunks of any size; the boundaries of
//! the chunks mean nothing.
