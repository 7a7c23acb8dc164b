//! NetAgg's simulation (§2.4, §4.1): a data centre's flows, and what aggregation on their way does to them.
//!
//! [`cases`] has what all of them share: a case is one run of a [`Scene`](crate::flow::scene::Scene) under a name, at a
//! place on the x axis. Each other file is one curve of the paper, or several that are read off the same runs.
//!
//! In their points `fct_ms_*` are flow completion times, `hop_ms_*` those of hops (see
//! [`scene`](crate::flow::scene)); `relative_*` the same beside rack's in the same setting;
//! `response_ms_*` are jobs', until the whole result is at its master. There is no throughput.

pub mod aggregatable;
pub mod cases;
pub mod configurations;
pub mod deployments;
pub mod model;
pub mod output_ratio;
pub mod oversubscription;
pub mod rate;
pub mod stragglers;
pub mod strategies;
pub mod ten_gigabit;
