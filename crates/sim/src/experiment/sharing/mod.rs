//! Sharing a node's processors among applications (NetAgg §3.2.1 and §4.2.3).
//!
//! - [`policy`]: who has the next turn: lotteries with fixed and with adaptive weights, and core's own rule.
//! - [`node`]: processors, and applications that always have something to do.
//! - [`fair_shares`]: how the policies do while shares and tasks change.

pub mod fair_shares;
pub mod node;
pub mod policy;
