//! A data centre as flows that share its links: NetAgg's simulation (§2.4, §4.1).
//!
//! Nodes, messages and processors are [`world`](crate::world)'s; here are 1,024 servers and some hundred thousand flows,
//! and nothing is asked but how long each takes. So this room has a model of its own, and of core only the rule by which
//! relays form a tree.
//!
//! ```text
//!   workload ─ jobs, others ─▶ strategy ─ who sends to whom ─▶ scene ─ sizes, ways ─▶ fluid ─ ends
//!   placement                  rack, edge, on_path             topology, route       fair
//! ```
//!
//! - [`topology`], [`deployment`], [`route`]: switches, links, where relays are, and the ways between.
//! - [`workload`], [`placement`]: what is sent by whom.
//! - [`strategy`]: where it is aggregated; [`scene`]: how large that makes it, and one run of all.
//! - [`fluid`]: how long flows take; [`fair`]: how fast they are at a moment.
//! - [`cost`]: what the machines cost.

pub mod cost;
pub mod deployment;
pub mod fair;
pub mod fluid;
pub mod placement;
pub mod route;
pub mod scene;
pub mod strategy;
pub mod topology;
pub mod workload;
