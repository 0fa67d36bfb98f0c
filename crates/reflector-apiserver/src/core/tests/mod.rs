//! Scenarios over the whole core with virtual time.
