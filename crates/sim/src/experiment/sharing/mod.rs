//! Shares a node's processors among applications (NetAgg §3.2.1 and §4.2.3).
//!
//! - [`policy`]: chooses the next task: lotteries with fixed and with adaptive weights, and core's own rule.
//! - [`node`]: processors, and applications that always have tasks.
//! - [`fair_shares`]: compares the policies while shares and tasks change.

pub mod fair_shares;
pub mod node;
pub mod policy;
