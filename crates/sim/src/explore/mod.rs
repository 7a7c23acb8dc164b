//! The hunt for wrong behaviour: clusters that are broken at random, and what must hold all the same.
//!
//! ```text
//!  seed ─▶ draw ─▶ Scenario ─▶ play ─▶ World ─▶ Inspection: invariants after every step
//!                     ▲                             │ broken
//!                     └───────── shrink ◀───────────┘ ─▶ report: seed, scenario as JSON, timeline
//! ```
//!
//! Production's core meets here in a minute what it meets in years of service: nodes that crash, stall and come back,
//! networks that lose, double, delay and divide, limits of one, deadlines of nothing. A failure is a seed, and a
//! seed is a failure again whenever it is played. Source: the practice of TigerBeetle's and FoundationDB's simulators.
//!
//! - [`scenario`]: one run as a plain value, with [`pushing`] for its push waves and [`streaming`] for its streams; [`draw`]: from a seed; [`kept`]:
//!   from a file. [`play()`]: in a world, healed at its end.
//! - [`invariant`]: what must hold, one file each.
//! - [`runner`]: seed after seed on several threads. [`shrink`]: the same failure from less. [`timeline`]: what the
//!   nodes said about it.

pub mod draw;
mod draw_pushing;
mod draw_streams;
pub mod invariant;
pub mod kept;
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
