//! What a cluster's hosts are doing: processors, memory, network, disks and processes, of one host or of ten thousand.
//!
//! Each host takes its own measure ([`Sampler`]): what its counters gained in an interval is one [`Sample`]. Samples
//! are lifted into the partial [`Hosts`] and folded: sums, the least and the greatest with *which host*, counts by
//! bins from which quantiles are read, and the worst few of everything. A partial is a few kilobytes, whether it
//! stands for one host or for all of them, so that whoever looks (`treefold top`) pays for one answer and no node
//! pays for more than its own and its children's.
//!
//! ```text
//!  /proc ──▶ Reader ─Counters─▶ Sampler ──Sample──▶ Hosts ──┐
//!  /proc ──▶ Reader ─Counters─▶ Sampler ──Sample──▶ Hosts ──┴─Merge─▶ Hosts ─▶ treefold top
//! ```
//!
//! The same fold is reached in two ways. As an aggregation, `hosts/now`, a call asks every host for its measure now;
//! its partitions are hosts and their data is a [`Watch`]. As a filter of a stream ([`folding`](mod@folding)), endpoints send
//! samples at the pace that the stream asks for ([`Pace`]) and nobody asks.
//!
//! Every figure is an integer in the unit that its name ends with, so that sums are exact and **the same samples give
//! the same bytes, whatever the tree** (the tests hold all partials to it). Shares are in permille.
//!
//! This crate knows no network: it exports an aggregation and a filter, and whoever runs a node registers them.
//!
//! A map of the code: [`sampler`] and [`watch`] take samples, from `counters` that `read` has read and `delta` has
//! compared; [`sample`] is what a host says, made of [`host`], [`figures`], [`process`]; [`hosts`] is what a cluster
//! says, made of the same and of [`spread`], [`bins`] and [`rank`]; [`now`] and [`folding`](mod@folding) are the two ways to it.
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

/// The service's name by custom.
pub const SERVICE: &str = "hosts";

/// The filter's name by custom.
pub const FILTER: &str = "hosts";

/// Its aggregations, each with a line on what it is for.
pub const DESCRIPTIONS: [(&str, &str); 1] =
    [("now", "what the hosts are doing: totals, distributions, the worst of each; parameter: top")];

/// All by name, ready to be registered; a partition's data is a [`Watch`].
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![("now", erase(now::now()))]
}

/// Its filters by name, ready to be registered.
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
