//! Measures a cluster's hosts: processors, memory, network, disks and processes, of one host or of ten
//! thousand.
//!
//! Each host takes its own samples ([`Sampler`]): a [`Sample`] contains the increase of its counters over
//! an interval. Samples are lifted into the partial [`Hosts`] and folded: sums, minima and maxima *with
//! their hosts*, counts by bins from which quantiles are read, and the top few of every ranking. A partial
//! has a few kilobytes, for one host as for all of them. So an observer (`treefold top`) pays for one
//! answer, and each node pays only for its own partial and its children's.
//!
//! ```text
//!  /proc ──▶ Reader ─Counters─▶ Sampler ──Sample──▶ Hosts ──┐
//!  /proc ──▶ Reader ─Counters─▶ Sampler ──Sample──▶ Hosts ──┴─Merge─▶ Hosts ─▶ treefold top
//! ```
//!
//! The same fold can be used in two ways. As an aggregation, `hosts/now`: a call asks every host for a
//! sample now. Its partitions are hosts, and their data is a [`Watch`]. As a filter of a stream
//! ([`folding`](mod@folding)): endpoints send samples at the pace that the stream's parameters set
//! ([`Pace`]), without being asked for each.
//!
//! Every figure is an integer in the unit that its name ends with, so sums are exact and **the same samples
//! give the same bytes in every tree** (tests check this for all partials). Shares are in permille.
//!
//! This crate has no network code. It exports an aggregation and a filter, and the program that runs a node
//! registers them.
//!
//! A map of the code: [`sampler`] and [`watch`] take samples from `counters`, which `read` has read and
//! `delta` has compared. [`sample`] is one host's report, made of [`host`], [`figures`] and [`process`].
//! [`hosts`] is the cluster's report, made of the same and of [`spread`], [`bins`] and [`rank`]. [`now`]
//! and [`folding`](mod@folding) are the two ways to get it.
#![forbid(unsafe_code)]

pub mod bins;
mod counters;
mod delta;
pub mod error;
pub mod figures;
pub mod folding;
pub mod host;
pub mod hosts;
pub mod now;
pub mod pace;
pub mod process;
pub mod rank;
mod read;
pub mod sample;
pub mod sampler;
pub mod spread;
pub mod watch;

pub use error::SampleError;
pub use figures::Figures;
pub use folding::{HostsFold, folding};
pub use host::{Host, Name};
pub use hosts::Hosts;
pub use now::{Ask, TOP_DEFAULT, TOP_MAX};
pub use pace::Pace;
pub use process::{Placed, Process};
pub use sample::Sample;
pub use sampler::Sampler;
pub use spread::{Rates, Shares, Spread};
pub use watch::Watch;

use std::sync::Arc;
use treefold_operators::{FilterKind, Operator, erase};

/// The conventional name of the service.
pub const SERVICE: &str = "hosts";

/// The conventional name of the filter.
pub const FILTER: &str = "hosts";

/// The aggregations' names, each with a one-line description.
pub const DESCRIPTIONS: [(&str, &str); 1] =
    [("now", "activity of the hosts: totals, distributions, the worst of each; parameter: top")];

/// All aggregations by name, ready to register. A partition's data is a [`Watch`].
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![("now", erase(now::now()))]
}

/// The filters by name, ready to register.
pub fn filters() -> Vec<(&'static str, Arc<dyn FilterKind>)> {
    vec![(FILTER, Arc::new(folding()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aggregation_has_a_description() {
        let names: Vec<&str> = aggregations().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, DESCRIPTIONS.map(|(name, _)| name));
    }
}
