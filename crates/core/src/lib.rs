//! Every decision of Treefold, as a library without I/O, clock, entropy, or access to payload bytes.
//!
//! A [`node::Node`] is a value that a driver feeds and drains. Every event that can happen to it is an
//! [`input::Input`], and every action that it can request is an [`effect::Effect`]. The driver passes in the
//! time. Random numbers come from a seeded generator. Of a payload ([`message::Payload`]) the node knows only
//! the length. The same inputs therefore give the same effects, whether they come from a socket, a test with
//! a simulated clock, or a recording.
//!
//! ```text
//!   handle_input ───▶ ┌──────┐ ───▶ poll_effect, until there is none
//!   handle_timeout ─▶ │ Node │ ───▶ poll_timeout: when to come back
//!                     └──────┘
//! ```
//!
//! A node has one task: it moves partials up a tree, as a wave, before a deadline.
//!
//! # A map of the code
//!
//! The boundary:
//!
//! - [`node`]: the value with the four methods, which dispatches each input. A node consists of a context,
//!   which all modules share (`node/context`), and one book for each module, which owns that module's tables.
//!   [`input`], [`effect`] and [`message`] are the types that cross the boundary. [`config`] is the
//!   configuration of a node at its start. [`limits`] names every limit, and [`bounds`] the range of each setting. [`error`] gives the reasons why a
//!   call is rejected or a partition is missing. [`status`] is a node's report about itself.
//! - [`id`], [`time`], [`partitions`], [`params`], [`random`], `timer`: small values that everything else is built from.
//!
//! Calls, in the order in which a call passes the modules:
//!
//! - [`call`]: `caller` checks a call, forms the tree and judges the result. `choosing` polls replicas,
//!   chooses among them and remembers how they did. `provider` is a node's part, from its parent's call to
//!   the partial that it sends up; it contains `decide`, the one function that decides. `children` handles
//!   messages from children. `repair` takes over from children that are lost or late. `hedge` asks replicas
//!   of children that are slow. `waiting` reports progress to a wave's waiting rule. `jobs` hands out
//!   operator work. `books` keeps the resources that a wave is charged for. `plan` turns options into whole
//!   numbers.
//! - [`replica`]: chooses which replica of a partition takes part, one file per policy.
//! - [`tree`]: trees as rows of seats, and their shapes; `adaptive` is the shape that uses load figures.
//! - `seat`: a node's place in a tree, the same for calls and streams: its parent, its children, how long it
//!   waits for a silent child, and what remains when a child is lost.
//! - [`wave`]: one node's part in a wave. `state` is the state machine, and `answered` is the remainder that
//!   is kept after the answer. `ask` holds the terms of the call, `losses` the losses and failed attempts,
//!   `tale` how the time was spent. `contributors` ensures that no partition counts twice. [`wave::wait`]
//!   sets the children's time and ends a wait that is not worth it. `times` remembers how long children took.
//!   `credit` bounds the bytes in flight to this node. `keep` holds answered waves for repair.
//! - `schedule`: the queue before the processors, and a bound on the retries that slowness may cause.
//!
//! Streams and pushes:
//!
//! - [`stream`]: a tree that stays, with wave after wave up and packets down; its essay lists its modules.
//! - [`push`]: calls whose locals are results that an application's workers push.
//!
//! Calls and streams both use:
//!
//! - [`membership`]: the members of the cluster and the partitions that they hold.
//! - [`load`]: how busy this node is, which load figures it knows of other nodes, and what its operators
//!   cost.
//! - [`placement`]: which partitions a node loads and gives up while nodes come and go.
//!
//! `tree` and `wave` do not depend on calls. A further use of them should need nothing new below [`call`].
//! `tests/whole/clusters` runs whole clusters of nodes on one clock and injects faults.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bounds;
pub mod call;
pub mod config;
pub mod effect;
pub mod encoding;
pub mod error;
mod hash;
pub mod id;
pub mod input;
pub mod limits;
pub mod load;
pub mod membership;
pub mod message;
pub mod node;
pub mod params;
pub mod partitions;
pub mod placement;
pub mod push;
pub mod random;
pub mod replica;
pub mod right;
pub mod schedule;
pub(crate) mod seat;
pub mod status;
pub mod stream;
pub mod time;
mod timer;
pub mod tree;
pub mod wave;
