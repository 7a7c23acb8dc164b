//! Every decision of Treefold, and nothing else: no I/O, no clock, no entropy, no payload bytes.
//!
//! A [`node::Node`] is a value that a driver feeds and drains. Whatever can happen to it is an [`input::Input`],
//! whatever it can want done an [`effect::Effect`]; the time is handed in, random numbers come from a seeded
//! generator, and a payload ([`message::Payload`]) has a length and nothing else. So the same inputs give the same
//! effects wherever they come from: a socket, a test with a clock of its own, or a recording.
//!
//! ```text
//!   handle_input ───▶ ┌──────┐ ───▶ poll_effect, until there is none
//!   handle_timeout ─▶ │ Node │ ───▶ poll_timeout: when to come back
//!                     └──────┘
//! ```
//!
//! What it decides is one thing seen from several sides: partials climb a tree, as a wave, by a deadline.
//!
//! # A map of the code
//!
//! The boundary:
//!
//! - [`node`]: the value with the four methods; where each input goes. A node is a context that all rooms share
//!   (`node/context`) and a book for each room, which owns its tables. [`input`], [`effect`], [`message`]: what is
//!   said across. [`config`]: what a node is told at its start; [`limits`]: every limit there is, by name;
//!   [`error`]: why a call is turned away, why a partition is missing; [`status`]: what a node says of itself.
//! - [`id`], [`time`], [`partitions`], [`random`], `timer`: the small values that everything else is made of.
//!
//! A call's way, in the order of the files that it passes:
//!
//! - [`call`]: `caller` checks a call, forms the tree and judges the end; `choosing` has replicas polled, chosen and
//!   remembered; `provider` is a node's
//!   part from the parent's call to the partial it sends up, with `settle`, the one place that decides; `children`
//!   takes in what children send; `repair` takes over from those that are lost or late; `hedge` asks replicas of
//!   those that are slow; `waiting` tells a wave's rule how it goes; `jobs` hands out operator work; `books` keeps
//!   what a wave is charged; `plan` turns options into whole numbers.
//! - [`replica`]: which of a partition's replicas takes part, one policy a file.
//! - [`tree`]: trees as rows of seats, and the shapes they can have; `adaptive` is the one that looks at load.
//! - `seat`: a node's place in a tree, the same for calls and streams: its parent, its children, how long it bears with a
//!   silent one, what a lost one leaves.
//! - [`wave`]: one node's part in a wave. `state` is the machine and `answered` what is left of it after the answer; `ask` is
//!   what was asked, `losses` what went wrong, `tale` how the time went; `contributors` sees that nobody counts twice,
//!   [`wave::wait`] sets the children's time and ends a wait that is not worth it, `times` remembers what children
//!   took, `credit` bounds the bytes on their way here, `keep` those kept for repair.
//! - `schedule`: the queue before the processors, and how many retries slowness may cause.
//!
//! A stream's:
//!
//! - [`stream`]: a tree that stays, with wave after wave up and packets down; its rooms are listed there.
//!
//! - [`push`]: calls whose locals are an application's own workers, which push.
//!
//! What both rest on:
//!
//! - [`membership`]: who is there and what they hold.
//! - [`load`]: how busy this node is, what it has heard of the others, and what its operators cost.
//!
//! A tree and a wave know nothing of calls; whoever adds another use of them should need nothing new below
//! [`call`]. `tests/cluster` puts whole clusters of nodes on one clock and breaks them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod call;
pub mod config;
pub mod effect;
pub mod encoding;
pub mod error;
pub mod id;
pub mod input;
pub mod limits;
pub mod load;
pub mod membership;
pub mod message;
pub mod node;
pub mod partitions;
pub mod push;
pub mod random;
pub mod replica;
pub mod schedule;
pub(crate) mod seat;
pub mod status;
pub mod stream;
pub mod time;
mod timer;
pub mod tree;
pub mod wave;
