//! Search with large partial results (NetAgg §4.2.1).
//!
//! `base` is the hand-written solution: the front asks all back-ends and folds the answers. `adaptive` and
//! `binomial` are trees over the back-ends, without relays. `relays` is the default behaviour of calls if
//! there are relays.

use super::{Case, measured};
use crate::bed::{Bed, Plan};
use crate::load::{Deployment, Load, Work};
use crate::report::Point;
use crate::settings::Settings;
use treefold::{PartitionSet, Shape};

/// Back-ends of a rack, as in the paper.
const BACK_ENDS: u32 = 10;

/// Clients of a front in experiments that do not vary their number.
const CLIENTS: u32 = 70;

/// The share of partial results that is kept, in experiments that do not vary it.
const RATIO: f64 = 0.05;

/// Processors of a relay in the experiment where the relay's work must be the bottleneck.
const RELAY_PROCESSORS: f64 = 0.1;

const BASE: (&str, Shape) = ("base", Shape::Base);
const ADAPTIVE: (&str, Shape) = ("adaptive", Shape::Adaptive);
const BINOMIAL: (&str, Shape) = ("binomial", Shape::Binomial);
const RELAYS: (&str, Shape) = ("relays", Shape::Auto);

fn one_rack(relays_per_rack: usize, relay_processors: Option<f64>) -> Plan {
    Plan { racks: 1, back_ends: BACK_ENDS, relays_per_rack, relay_processors, delayed: false }
}

fn asking(clients: u32, back_ends: u32) -> Vec<Deployment> {
    vec![Deployment { front: 0, clients, partitions: PartitionSet::first(back_ends) }]
}

/// Throughput and latency against the number of clients (figures 16 and 17).
pub(crate) fn clients(settings: &Settings) -> Result<Vec<Point>, String> {
    let bed = Bed::new(settings, one_rack(1, None))?;
    let numbers: &[u32] = if settings.quick { &[5, 40] } else { &[5, 10, 30, 50, 70] };
    let mut cases = Vec::new();
    for (series, shape) in [BASE, ADAPTIVE, RELAYS] {
        for &clients in numbers {
            let deployments = asking(clients, BACK_ENDS);
            let load = Load { work: Work::Sample { ratio: RATIO }, shape, deployments };
            cases.push(Case::new(series, f64::from(clients), load));
        }
    }
    measured(&bed, &cases, settings)
}

/// Throughput against the share that is kept (figure 18).
pub(crate) fn ratio(settings: &Settings) -> Result<Vec<Point>, String> {
    let bed = Bed::new(settings, one_rack(1, None))?;
    let ratios: &[f64] = if settings.quick { &[0.05, 1.0] } else { &[0.05, 0.1, 0.2, 0.4, 1.0] };
    let mut cases = Vec::new();
    for (series, shape) in [BASE, ADAPTIVE, BINOMIAL, RELAYS] {
        // Without a tree, all partial results reach the front whole, independent of the share that is kept.
        let ratios = if series == BASE.0 { &[RATIO, 1.0][..] } else { ratios };
        for &ratio in ratios {
            let load = Load { work: Work::Sample { ratio }, shape, deployments: asking(CLIENTS, BACK_ENDS) };
            cases.push(Case::new(series, ratio, load));
        }
    }
    measured(&bed, &cases, settings)
}

/// Two racks with a relay and a front each, against one rack (figure 19). Half of each front's back-ends are
/// in its rack and half in the other.
pub(crate) fn racks(settings: &Settings) -> Result<Vec<Point>, String> {
    let (racks, back_ends) = (2, 2 * BACK_ENDS);
    let plan = Plan { racks, back_ends, relays_per_rack: 1, relay_processors: None, delayed: false };
    let bed = Bed::new(settings, plan)?;
    let per_rack: &[u32] = if settings.quick { &[4, 10] } else { &[2, 4, 6, 8, 10] };
    // Partition p is in rack p mod 2.
    let in_first = |back_ends: u32| (0..back_ends).map(|number| 2 * number).collect::<PartitionSet>();
    let half = |from: u32, back_ends: u32| (from..from + back_ends).collect::<PartitionSet>();
    let mut cases = Vec::new();
    for &back_ends in per_rack {
        let one = Deployment { front: 0, clients: CLIENTS, partitions: in_first(back_ends) };
        let first = Deployment { front: 0, clients: CLIENTS, partitions: half(0, back_ends) };
        let second = Deployment { front: 1, clients: CLIENTS, partitions: half(BACK_ENDS, back_ends) };
        let of = |shape, deployments| Load { work: Work::Sample { ratio: RATIO }, shape, deployments };
        let two = vec![first, second];
        let at = f64::from(back_ends);
        // The front's link limits base, for any number of back-ends.
        if back_ends == BACK_ENDS {
            cases.push(Case::new("one rack, base", at, of(BASE.1, vec![one.clone()])));
            cases.push(Case::new("two racks, base", at, of(BASE.1, two.clone())));
        }
        cases.push(Case::new("one rack, relay", at, of(RELAYS.1, vec![one])));
        cases.push(Case::new("two racks, relays", at, of(RELAYS.1, two)));
    }
    measured(&bed, &cases, settings)
}

/// One relay against two in a rack, with expensive folds (figure 20). Each relay gets a share of a processor.
pub(crate) fn scale_out(settings: &Settings) -> Result<Vec<Point>, String> {
    let bed = Bed::new(settings, one_rack(2, Some(RELAY_PROCESSORS)))?;
    let numbers: &[u32] = if settings.quick { &[10] } else { &[2, 4, 6, 8, 10] };
    let mut cases = Vec::new();
    for (series, shape) in [BASE, ("one relay", Shape::OnPath(1)), ("two relays", Shape::OnPath(2))] {
        let numbers = if series == BASE.0 { &[BACK_ENDS][..] } else { numbers };
        for &back_ends in numbers {
            let load = Load { work: Work::Categorise, shape, deployments: asking(CLIENTS, back_ends) };
            cases.push(Case::new(series, f64::from(back_ends), load));
        }
    }
    measured(&bed, &cases, settings)
}

/// One relay with a growing share of a processor, with cheap folds and with expensive ones (figure 21, whose box has
/// 1 to 16 processors).
pub(crate) fn scale_up(settings: &Settings) -> Result<Vec<Point>, String> {
    let bed = Bed::new(settings, one_rack(1, Some(RELAY_PROCESSORS)))?;
    let shares: &[f64] = if settings.quick { &[0.1, 0.4] } else { &[0.1, 0.2, 0.3, 0.4, 0.6, 0.8] };
    let mut cases = Vec::new();
    for (series, work) in [("sample", Work::Sample { ratio: RATIO }), ("categorise", Work::Categorise)] {
        for &share in shares {
            let load = Load { work, shape: RELAYS.1, deployments: asking(CLIENTS, BACK_ENDS) };
            cases.push(Case { relay_processors: Some(share), ..Case::new(series, share, load) });
        }
    }
    measured(&bed, &cases, settings)
}
