//! Searches for wrong behaviour: plays clusters with random faults and checks their invariants.
//!
//! ```text
//!  seed ─▶ draw ─▶ Scenario ─▶ play ─▶ World ─▶ Inspection: invariants after every step
//!                     ▲                             │ broken
//!                     └───────── shrink ◀───────────┘ ─▶ report: seed, scenario as JSON, timeline
//! ```
//!
//! In a minute, the production core meets conditions here that would take years of service: nodes that crash,
//! stall and come back, networks that lose, duplicate, delay and divide, limits of one, deadlines of nothing.
//! A seed identifies a failure, because it fails again each time it is played. Source: the practice of
//! TigerBeetle's and FoundationDB's simulators.
//!
//! - [`scenario`]: one run as a plain value, with [`pushing`] for its push waves, [`streaming`] for its
//!   streams and [`feeding`] for its feed of mirrors. [`draw`] draws it from a seed, [`kept`] reads it from a file, and [`play()`] plays it in a
//!   world and heals the world at the end.
//! - [`invariant`]: the conditions that must hold, one file each.
//! - [`runner`]: plays seed after seed on several threads. [`shrink`] makes a failing scenario smaller.
//!   [`timeline`] lists the messages that led to the failure.

pub mod draw;
mod draw_feed;
mod draw_placing;
mod draw_pushing;
mod draw_streams;
pub mod feeding;
pub mod invariant;
pub mod kept;
pub mod placing;
pub mod play;
pub mod pushing;
pub mod runner;
pub mod scenario;
pub mod shrink;
pub mod streaming;
pub mod timeline;

pub use invariant::Violation;
pub use play::{Played, play};
pub use runner::{Hunt, Tally};
pub use scenario::Scenario;
