//! Conversations between the machine and servers of all kinds, each named after the rule it shows.

mod properties;
mod rates;
mod rig;
mod server;
mod wedges;
