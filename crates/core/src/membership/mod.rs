//! Cluster membership: SWIM with cards, load figures and its own repair.
//!
//! [`Membership`] is one node's share: a value that is fed and drained like everything in core:
//!
//! ```text
//!   handle_datagram ─┐                         ┌─ poll_transmit  → the UDP socket, a connection
//!   handle_timeout  ─┼─→ Membership { View } ──┼─ poll_event     → the node
//!   join, leave,     │                         └─ poll_timeout   → the driver's clock
//!   update_card, … ──┘
//! ```
//!
//! The `foca` crate decides which members are alive. It implements SWIM with suspicion (Das, Gupta, Motivala,
//! 2002). Treefold adds five things:
//!
//! - **Cards and load figures** travel in foca's datagrams as rumours (`datagram.rs` has the layout).
//! - **A digest** of the sender's [`View`] is on every datagram. A node that receives a digest different from
//!   its own asks for what it lacks. So nothing stays lost, and agreement costs eight bytes.
//! - **Accusations**: a node that suspects a member tells it so directly, and the member refutes to the
//!   accuser. A pause is therefore fatal only if it lasts longer than probe and suspicion ([`config`] has the
//!   calculation).
//! - **Connections where UDP is blocked**: a suspected member gets its datagrams over a connection too
//!   (`carriers.rs`).
//! - **Health**: a node that was asleep does not judge the others by its own clock.
//!
//! A member falsely declared down is back within a round trip, under the same [`NodeId`](crate::id::NodeId)
//! (`identity.rs` describes how).

mod alarms;
pub mod card;
mod carriers;
mod claims;
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
mod providers;
mod rumour;
pub mod service;
mod sieve;
pub(crate) mod sight;
mod swim;
mod sync;
pub mod view;
mod wire;

pub use card::{CardError, MemberCard, Roles, ServiceCard};
pub use carriers::Transmit;
pub use config::MembershipConfig;
pub use event::{MembershipError, MembershipEvent};
pub use swim::Membership;
pub use view::View;
pub use wire::{CodecError, CodecProblem};

#[cfg(test)]
mod tests;
