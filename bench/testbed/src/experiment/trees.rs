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

/// The same with the work of one client where the links are delayed: folds of [`DELAYED_FOLD_MS`], and partials of [`DELAYED_KB`].
const DELAYED: [(&str, &str, Shape); 5] = [
    ("flat, folds", "flat, partials", Shape::Flat),
    ("kary:8, folds", "kary:8, partials", Shape::KAry(8)),
    ("kary:4, folds", "kary:4, partials", Shape::KAry(4)),
    ("binomial, folds", "binomial, partials", Shape::Binomial),
    ("adaptive, folds", "adaptive, partials", Shape::Adaptive),
];
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
    let works = [Work::Dear { ms: DELAYED_FOLD_MS }, Work::Bulky { bytes: DELAYED_KB << 10 }];
    let bed = Bed::new(settings, Plan { delayed: true, ..PLAN })?;
    let mut cases = Vec::new();
    for (folds, partials, shape) in DELAYED {
        for &ms in delays_ms {
            for (series, work) in [folds, partials].into_iter().zip(works) {
                let case = Case::new(series, f64::from(ms), load(work, shape, ONE));
                cases.push(Case { delay: Some(Duration::from_millis(ms.into())), ..case });
            }
        }
    }
    measured(&bed, &cases, settings)
}

fn run(settings: &Settings, values: &[u32], work: impl Fn(u32) -> Work) -> Result<Vec<Point>, String> {
    let bed = Bed::new(settings, PLAN)?;
    let mut cases = Vec::new();
    for (one, many, shape) in SHAPES {
        for &value in values {
            for (series, clients) in [(one, ONE), (many, MANY)] {
                cases.push(Case::new(series, f64::from(value), load(work(value), shape, clients)));
            }
        }
    }
    measured(&bed, &cases, settings)
}

fn load(work: Work, shape: Shape, clients: u32) -> Load {
    let deployments = vec![Deployment { front: 0, clients, partitions: PartitionSet::first(BACK_ENDS) }];
    Load { work, shape, deployments }
}
