//! Sources: programs, files and brokers whose events enter a feed at its origin.
//!
//! ```text
//!  files ─┐                                    ┌─▶ Origin ═▶ mirrors
//!  TCP   ─┼─▶ events ─▶ Feeder ─▶ Intake ──────┤
//!  HTTP  ─┤      ▲ refusals, acknowledgements  │
//!  NATS  ─┘      └─────────────────────────────┘
//! ```
//!
//! Every kind of source turns bytes into events and gives them to an [`Intake`], which the origin is. They have these
//! properties in common:
//!
//! - **No event is invented or left out.** Streams and numbers come from the source. An event without a number is
//!   refused, and so is one that leaves a gap; the refusal says which number the origin expects.
//! - **A busy origin stops the source**, not the process: a source stops reading its socket, file or consumer until
//!   there is room. Every buffer is bounded by [`SourceLimits`].
//! - **Acknowledged is the origin's word.** A source confirms events to its peer once the origin has acknowledged them,
//!   and not before.
//!
//! A map of the code: [`intake`] is the way into the origin, [`feeder`] gives it events; [`recording`] reads files,
//! [`replay`] offers them in their time; [`tcp`], [`http`], `nats` and `jetstream` are live sources; without the feature `nats` the last two are absent.
//! `elements` cuts JSON documents into events; `reply` has the answers in JSON; [`listen`] has their addresses; [`stop`] ends sources; [`limits`] has all
//! limits.
#![forbid(unsafe_code)]

mod elements;
pub mod feeder;
pub mod http;

pub mod intake;
#[cfg(feature = "nats")]
pub mod jetstream;

pub mod limits;
pub mod listen;
#[cfg(feature = "nats")]
mod message;
#[cfg(feature = "nats")]
pub mod nats;
pub mod recording;
pub mod replay;
mod reply;
pub mod stop;
pub mod tcp;

pub use feeder::{Counts, Feeder, Tally};
pub use intake::Intake;
pub use limits::SourceLimits;
pub use listen::Reach;
#[cfg(feature = "nats")]
pub use message::Key;
pub use stop::{Stop, Stopper};
