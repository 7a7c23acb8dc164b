//! `treefold topology flat | kary | binomial | balanced`: makes topologies of a layout over given hosts.

use super::places::{HostsFlag, Places};
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::Args;
use treefold::CallError;
use treefold_network::topology::generate::{Layout, fan_outs_of};

/// Make a topology with all back-ends directly below the front-end
#[derive(Debug, Args)]
#[command(after_help = FLAT_EXAMPLES)]
pub(crate) struct Flat {
    #[command(flatten)]
    hosts: HostsFlag,
    #[command(flatten)]
    places: Places,
}

const FLAT_EXAMPLES: &str = "\
Examples:
  treefold topology flat --hosts 'node[01-16]' > flat.top
  treefold topology flat --back-ends 4";

/// Make a topology with at most K children for each process
///
/// It has the smallest possible number of inner processes, and distributes back-ends evenly among them.
#[derive(Debug, Args)]
#[command(after_help = KARY_EXAMPLES)]
pub(crate) struct Kary {
    /// Largest number of children of a process
    #[arg(value_name = "K", value_parser = clap::value_parser!(u32).range(2..))]
    k: u32,
    #[command(flatten)]
    hosts: HostsFlag,
    #[command(flatten)]
    places: Places,
}

const KARY_EXAMPLES: &str = "\
Examples:
  treefold topology kary 8 --hosts 'node[01-64]' > tree.top
  treefold topology kary 4 --hosts @nodes.txt --inner-hosts 'io[1-4]'
  treefold topology kary 4 --back-ends 16 | treefold topology draw -";

/// Make a binomial tree of processes, with back-ends at each
///
/// Without --attach this is MRNet's 2-nomial tree: the number of processes with children, including the
/// front-end, equals the number of back-ends. With --attach 4 each of them has four back-ends, as in figure
/// 4b of MRNet's paper.
#[derive(Debug, Args)]
#[command(after_help = BINOMIAL_EXAMPLES)]
pub(crate) struct Binomial {
    /// Number of back-ends at each process of the binomial tree
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    attach: u32,
    #[command(flatten)]
    hosts: HostsFlag,
    #[command(flatten)]
    places: Places,
}

const BINOMIAL_EXAMPLES: &str = "\
Examples:
  treefold topology binomial --hosts 'node[01-16]'
  treefold topology binomial --attach 4 --back-ends 16 | treefold topology draw -";

/// Make a topology with a given number of children at each level
///
/// SHAPE is the number of children level by level from the front-end down, as in 8x8x4, or FANOUT^LEVELS, as
/// in 4^3. It determines the number of back-ends, so --back-ends may be left out.
#[derive(Debug, Args)]
#[command(after_help = BALANCED_EXAMPLES)]
pub(crate) struct Balanced {
    /// Numbers of children level by level: 8x8x4, or 4^3
    #[arg(value_name = "SHAPE", value_parser = shape)]
    shape: Shape,
    #[command(flatten)]
    hosts: HostsFlag,
    #[command(flatten)]
    places: Places,
}

const BALANCED_EXAMPLES: &str = "\
Examples:
  treefold topology balanced 4x4 --hosts 'node[01-16]'
  treefold topology balanced 8x8x4 --hosts 'node[01-64]' --slots 4
  treefold topology balanced 4^3 -o json | jq .depth";

/// Fan-outs in one argument.
///
/// An `Arc`, since clap takes a plain `Vec` for an argument that may be repeated.
type Shape = std::sync::Arc<[u32]>;

fn shape(text: &str) -> Result<Shape, CallError> {
    let fan_outs = fan_outs_of(text).map_err(|_| {
        CallError::bad_field(
            "shape",
            text,
            "children level by level, as in 8x8x4, or FANOUT^LEVELS, as in 4^3",
        )
    })?;
    Ok(fan_outs.into())
}

impl Flat {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.places.make(&Layout::Flat, self.hosts.read()?, format)
    }
}

impl Kary {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.places.make(&Layout::Kary(self.k), self.hosts.read()?, format)
    }
}

impl Binomial {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.places.make(&Layout::Binomial { attached: self.attach }, self.hosts.read()?, format)
    }
}

impl Balanced {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        self.places.make(&Layout::Balanced(self.shape.to_vec()), self.hosts.read()?, format)
    }
}
