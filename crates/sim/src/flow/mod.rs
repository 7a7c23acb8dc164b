//! A data centre as flows that share its links: NetAgg's simulation (§2.4, §4.1).
//!
//! [`world`](crate::world) simulates nodes, messages and processors. Here there are 1,024 servers and some
//! hundred thousand flows, and the only result is the time of each flow. So this room has a model of its own.
//! From core it uses only the rule by which relays form a tree.
//!
//! ```text
//!   workload ─ jobs, others ─▶ strategy ─ senders, receivers ─▶ scene ─ sizes, ways ─▶ fluid ─ ends
//!   placement                  rack, edge, on_path              topology, route       fair
//! ```
//!
//! - [`topology`], [`deployment`], [`route`]: switches, links, relays, and the ways between them.
//! - [`workload`], [`placement`]: the jobs and flows, and their servers.
//! - [`strategy`]: the places of aggregation. [`scene`]: the sizes of results, and one run of everything.
//! - [`fluid`]: the times of flows. [`fair`]: the rates of flows at one moment.
//! - [`cost`]: the cost of the machines.

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
