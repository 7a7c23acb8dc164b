//! When a tree pays: shapes over back-ends without relays, against the size of partials, the time of a fold, and the delay of
//! the links.
//!
//! In a flat tree one back-end takes all partials, over one link and with one processor. In a tree each node takes a few, but the
//! answer passes several levels, each with the delay of a hop. Processes on one machine share its processors, so a tree gains nothing there; here each
//! back-end has a link of its own, and a processor of its own for folds that only take time.

use super::{Case, measured};
use crate::bed::{Bed, Plan};
use crate::load::{Deployment, Load, Work};
use crate::report::Point;
use crate::settings::Settings;
use std::time::Duration;
use treefold::{PartitionSet, Shape};

/// Back-ends of the tree. The kernel keeps at most 1,024 neighbours for all namespaces together: with 32, which all know all,
/// connections fail.
const BACK_ENDS: u32 = 24;

const PLAN: Plan =
    Plan { racks: 1, back_ends: BACK_ENDS, relays_per_rack: 0, relay_processors: None, delayed: false };

/// One client shows the time of an answer, many show the throughput.
const ONE: u32 = 1;
const CLIENTS: [(&str, u32); 2] = [("1 client", ONE), ("16 clients", 16)];

const SHAPES: [(&str, Shape); 5] = [
    ("flat", Shape::Flat),
    ("kary:8", Shape::KAry(8)),
    ("kary:4", Shape::KAry(4)),
    ("binomial", Shape::Binomial),
    ("adaptive", Shape::Adaptive),
];

/// A further shape where the links are delayed, which looks at delays too.
const EARLIEST: (&str, Shape) = ("earliest-ready", Shape::EarliestReady);

/// The work of a call where the links are delayed.
const DELAYED_FOLD_MS: f64 = 5.0;
const DELAYED_KB: u64 = 64;

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

/// Against the delay of a link, in ms, which each hop between two hosts has twice: dear folds, and bulky partials.
pub(crate) fn delay(settings: &Settings) -> Result<Vec<Point>, String> {
    let delays_ms: &[u32] = if settings.quick { &[0, 5] } else { &[0, 1, 2, 5, 10, 20] };
    let works = [
        ("folds", Work::Dear { ms: DELAYED_FOLD_MS }),
        ("partials", Work::Bulky { bytes: DELAYED_KB << 10 }),
    ];
    let bed = Bed::new(settings, Plan { delayed: true, ..PLAN })?;
    let mut cases = Vec::new();
    // The delay changes seldom, because the front must measure it each time.
    for &ms in delays_ms {
        for (name, shape) in SHAPES.into_iter().chain([EARLIEST]) {
            for (what, work) in works {
                let case = Case::new(format!("{name}, {what}"), f64::from(ms), load(work, shape, ONE));
                cases.push(Case { delay: Some(Duration::from_millis(ms.into())), ..case });
            }
        }
    }
    measured(&bed, &cases, settings)
}

fn run(settings: &Settings, values: &[u32], work: impl Fn(u32) -> Work) -> Result<Vec<Point>, String> {
    let bed = Bed::new(settings, PLAN)?;
    let mut cases = Vec::new();
    for (name, shape) in SHAPES {
        for &value in values {
            for (who, clients) in CLIENTS {
                let load = load(work(value), shape, clients);
                cases.push(Case::new(format!("{name}, {who}"), f64::from(value), load));
            }
        }
    }
    measured(&bed, &cases, settings)
}

fn load(work: Work, shape: Shape, clients: u32) -> Load {
    let deployments = vec![Deployment { front: 0, clients, partitions: PartitionSet::first(BACK_ENDS) }];
    Load { work, shape, deployments }
}
