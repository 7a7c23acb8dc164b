//! NATS for Treefold: connections to servers, and the journal of an origin in a JetStream stream.
//!
//! A map of the code: [`server`] connects; [`journal`] is the journal, whose records [`journal::StreamJournal`] keeps in a
//! stream. Sources read NATS and JetStream in crate `treefold-sources`.
#![forbid(unsafe_code)]

pub mod journal;
pub mod server;

pub use journal::{StreamJournal, StreamOptions};
pub use server::{ConnectError, Server};
