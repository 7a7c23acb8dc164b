//! NetAgg's simulations (§2.4, §4.1): the flows of a data centre, and the effect of aggregation on their way.
//!
//! [`cases`] holds the common code. A case is one run of a [`Scene`](crate::flow::scene::Scene) with a name
//! and a position on the x axis. Each other file is one curve of the paper, or several curves of the same
//! runs.
//!
//! In the points, `fct_ms_*` are flow completion times and `hop_ms_*` are times of hops (see
//! [`scene`](crate::flow::scene)). `relative_*` are figures relative to rack's in the same setting.
//! `response_ms_*` are the times of jobs, until the whole result is at the job's master. There is no
//! throughput.

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
