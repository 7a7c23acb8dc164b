//! Mirrors: live state for many readers, without I/O and without a clock.
//!
//! An *origin* takes events from incoming streams, applies *rules* to them, and mirrors the others to nodes
//! that keep a state and serve it to readers (Gavrilovska, Schwan, Oleson, *Adaptable Mirroring in Cluster
//! Servers*: "mirroring" below). Like `treefold-core`, this crate decides and does not act: a caller passes in
//! the time and the bytes. Production and the simulator drive the same code.
//!
//! A map of the code:
//!
//! - [`event`]: an event, and its forms in JSON and MessagePack. [`fields`] are its content.
//! - [`rules`]: the kinds of rules, a file each; their file format, and the checks of a file.
//! - [`select`]: an origin's receiving side, which applies rules to events.
//! - [`batch`]: the encoding of mirrored events.
//! - [`origin`]: orders the mirrored events, and asks for checkpoints ([`checkpoint`], [`adapt`]). [`acknowledge`]
//!   tells sources which events are safe; [`recovery`] continues after an origin that died.
//! - [`promotion`]: a new origin takes over from the mirrors.
//! - [`change`]: changes of the rules while an origin runs.
//! - [`packet`]: the messages between an origin and its mirrors.
//! - [`mirror`]: applies packets to a [`state`]; [`keyed`] is the state that needs no code. [`log`] keeps recent
//!   packets, until they are committed and for readers that resume. [`snapshot`] is its state for those that join, and
//!   [`joining`] brings it to other mirrors in portions.
//! - [`follow`]: a mirror's part in its feed: it follows one origin, or waits for a snapshot.
//! - [`reader`]: the readers of one mirror: snapshots that many share, and places in the log. [`filter`]: the part
//!   of a feed that a reader wants, which [`opened`] packets are searched for. [`message`]: the messages that it
//!   gets; [`receiver`]: the reader's own side.
//! - [`vector`]: places in streams of events.
//! - [`replay`]: the effect of rules on a recorded trace.
//! - [`limits`]: all limits.
#![forbid(unsafe_code)]

pub mod acknowledge;
pub mod adapt;
pub mod batch;
pub mod change;
pub mod checkpoint;
pub mod event;
pub mod fields;
pub mod filter;
pub mod follow;
pub mod joining;
pub mod keyed;
pub mod limits;
pub mod log;
pub mod message;
pub mod mirror;
pub mod opened;
pub mod origin;
pub mod packet;
pub mod promotion;
pub mod reader;
pub mod receiver;
pub mod recovery;
pub mod replay;
pub mod rules;
pub mod select;
pub mod snapshot;
pub mod state;
pub mod vector;

pub use event::{Event, EventError, EventRef, Name};
pub use fields::Fields;
pub use filter::Filter;
pub use limits::MirrorLimits;
pub use vector::{Cut, Lineage, VectorTime};
