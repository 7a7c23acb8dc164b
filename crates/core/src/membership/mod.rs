//! Who is there: SWIM with cards, load figures and a repair of its own.
//!
//! [`Membership`] is one node's share, a value that is fed and drained like everything in core:
//!
//! ```text
//!   handle_datagram ─┐                         ┌─ poll_transmit  → the UDP socket
//!   handle_timeout  ─┼─→ Membership { View } ──┼─ poll_event     → the node
//!   join, leave,     │                         └─ poll_timeout   → the driver's clock
//!   update_card, … ──┘
//! ```
//!
//! Who is alive is decided by the `foca` crate, an implementation of SWIM with suspicion (Das, Gupta, Motivala,
//! 2002). Around it stand four things of ours:
//!
//! - **cards and load figures** ride on foca's datagrams as rumours (`datagram.rs` has the layout);
//! - **a digest** of the sender's [`View`] on every datagram: whoever sees one that differs from its own asks for
//!   what it lacks, so that nothing lost stays lost, and agreement costs eight bytes;
//! - **a word to the accused**: who suspects a member tells it so directly, and it refutes to the accuser, so
//!   that a pause must outlast probe and suspicion before it costs a life ([`config`] does the sum);
//! - **health**: who was asleep doesn't judge the others by its own clock.
//!
//! A member falsely declared down is back within a round trip, under the same [`NodeId`](crate::id::NodeId)
//! (`identity.rs` says how).

mod alarms;
pub mod card;
pub mod codec;
pub mod config;
mod contacts;
mod datagram;
mod draws;
mod event;
mod health;
mod identity;
mod inbound;
mod news;
mod outbox;
mod pace;
mod protocol;
mod rumour;
pub mod service;
pub(crate) mod sight;
mod swim;
pub mod view;
mod wire;

pub use card::{CardError, MemberCard, Roles, ServiceCard};
pub use config::MembershipConfig;
pub use event::{MembershipError, MembershipEvent};
pub use swim::Membership;
pub use view::View;
pub use wire::{CodecError, CodecProblem};

#[cfg(test)]
mod tests;
