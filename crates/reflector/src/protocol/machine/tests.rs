//! Conversations between the machine and servers of all kinds, each named after the rule it shows.

mod absent;
mod backoff;
mod classification;
mod contact;
mod fallback;
mod first_sync;
mod list;
mod properties;
mod rates;
mod resync;
mod rig;
mod server;
mod silence;
mod versions;
mod watch;
mod wedges;
