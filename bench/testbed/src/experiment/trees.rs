//! When a tree pays: shapes over back-ends without relays, against the size of partials and against the time of a fold.
//!
//! In a flat tree one back-end takes all partials, over one link and with one processor. In a tree each node takes a few, but the
//! answer passes several levels. Processes on one machine share its processors, so a tree gains nothing there; here each
//! back-end has a link of its own, and a processor of its own for folds that only take time.

use super::{Case, measured};
use crate::bed::{Bed, Plan};
use crate::load::{Deployment, Load, Work};
use crate::report::Point;
use crate::settings::Settings;
use treefold::{PartitionSet, Shape};

/// Back-ends of the tree. The kernel keeps at most 1,024 neighbours for all namespaces together: with 32, which all know all,
/// connections fail.
const BACK_ENDS: u32 = 24;

/// Clients: one shows the time of an answer, many show the throughput.
const ONE: u32 = 1;
const MANY: u32 = 16;

/// The shapes, each with the names of its series for one client and for many.
const SHAPES: [(&str, &str, Shape); 5] = [
    ("flat, 1 client", "flat, 16 clients", Shape::Flat),
    ("kary:8, 1 client", "kary:8, 16 clients", Shape::KAry(8)),
    ("kary:4, 1 client", "kary:4, 16 clients", Shape::KAry(4)),
    ("binomial, 1 client", "binomial, 16 clients", Shape::Binomial),
    ("adaptive, 1 client", "adaptive, 16 clients", Shape::Adaptive),
];

/// Against the size of partials, in KB: folds keep it.
pub(crate) fn size(settings: &Settings) -> Result<Vec<Point>, String> {
    let sizes: &[u32] = if settings.quick { &[1, 64] } else { &[1, 4, 16, 64, 256] };
    run(settings, sizes, |kb| Work::Bulky { bytes: u64::from(kb) << 10 })
}

/// Against the time of a fold, in ms: each back-end has one processor, which a local or a fold holds and does not use.
pub(crate) fn fold(settings: &Settings) -> Result<Vec<Point>, String> {
    let times: &[u32] = if settings.quick { &[2, 10] } else { &[1, 2, 5, 10, 20] };
    run(settings, times, |ms| Work::Dear { ms: f64::from(ms) })
}

fn run(settings: &Settings, values: &[u32], work: impl Fn(u32) -> Work) -> Result<Vec<Point>, String> {
    let plan = Plan { racks: 1, back_ends: BACK_ENDS, relays_per_rack: 0, relay_processors: None };
    let bed = Bed::new(settings, plan)?;
    let mut cases = Vec::new();
    for (one, many, shape) in SHAPES {
        for &value in values {
            for (series, clients) in [(one, ONE), (many, MANY)] {
                let deployments =
                    vec![Deployment { front: 0, clients, partitions: PartitionSet::first(BACK_ENDS) }];
                cases.push(Case {
                    series,
                    at: f64::from(value),
                    load: Load { work: work(value), shape, deployments },
                });
            }
        }
    }
    measured(&bed, &cases, settings)
}
