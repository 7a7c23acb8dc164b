//! How busy a node is: measured, summed up, told, and remembered of others (DAC §4.5).
//!
//! * [`cost`]: what a local and a reduction take here, learned from what they took.
//! * [`index`]: the work that waits here, predicted by those costs.
//! * [`latency`]: how long requests have been taking here, by how busy they found the node.
//! * [`figure`]: that as it travels: on partials, in gossip, in answer to a poll.
//! * [`announce`]: when a figure is worth telling, and what a stale one is worth.
//! * [`table`]: the last figure of each other node, and what has been placed there since.

pub mod announce;
pub mod cost;
pub mod figure;
pub mod index;
pub mod latency;
pub mod table;
