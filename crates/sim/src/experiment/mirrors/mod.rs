//! The mirroring paper's experiments (Gavrilovska, Schwan, Oleson, *Adaptable Mirroring in Cluster Servers*, §4).
//!
//! **The decisions are real.** Events of the generated airline (`treefold_flights`) enter a
//! [`treefold_mirror`] origin, which applies the rules, coalesces, writes batches, asks for checkpoints, commits and
//! adapts. Real mirrors apply its packets to keyed states, vote, and serve encoded snapshots to readers, which share
//! them as in production.
//!
//! **Sites, links and costs are modelled** ([`system`], [`cost`]):
//!
//! ```text
//!            ┌────────── origin's site ───────────┐  link, window  ┌────── a mirror's site ───────┐
//!  source ─▶ │ receive, rules, business logic     │ ─▶ packets ──▶ │ receive, business logic      │ ─▶ regular reader
//!            │ queues, a send for each mirror     │ ◀── votes ──── │ votes                        │
//!            └────────────────────────────────────┘                │ requests for initial states  │ ◀─ requests
//!                                                                  └──────────────────────────────┘
//! ```
//!
//! - A site has one processor, which works on its tasks in the order in which they came.
//! - The links between sites stand for a stream of core: they lose nothing and keep order, a packet waits until every
//!   mirror's window has room, and a wave of votes ends when all mirrors have voted, or a second after the first
//!   vote. The world of core's nodes ([`crate::world`]) is not used, because its payload is a sum of marks and not
//!   bytes.
//! - Readers' requests come as Poisson streams, to the mirrors in turn.
//! - Each task takes its modelled time times a random factor. Series see the same events and requests.
//!
//! Where the model differs from the paper's system: the paper measures update delays at the central site, which
//! publishes to regular clients; here regular readers follow the mirrors, and the delay ends there.
//!
//! - `workload`: the settings of a run: rules, events, requests. `origin`, `mirror`, `processor`: the parts of
//!   a system. `seen`: the figures of a run.
//! - `overhead`, `selective`, `requests`, `delay`, `adaptive`: the experiments.

pub mod adaptive;
pub mod cost;
pub mod delay;
mod mirror;
mod origin;
pub mod overhead;
mod processor;
pub mod requests;
pub mod seen;
pub mod selective;
pub mod system;
pub mod workload;

#[cfg(test)]
mod tests;

use super::Point;
use super::compared::change_percent;
use workload::Rules;

/// The number of events of a run. The paper: 100,000.
const EVENTS: u64 = 100_000;
/// The same in a quick run.
const EVENTS_QUICK: u64 = 4_000;

/// Name of the change of a figure against simple mirroring, in percent.
const CHANGE: &str = "change_percent";

/// The points of rules, each with the change of a figure against [`Rules::Simple`], which come first.
///
/// # Panics
/// If a point does not have the figure.
fn against_simple(compared: &[Rules], figure: &str, point: impl Fn(Rules) -> Point) -> Vec<Point> {
    let mut simple = f64::NAN;
    let changed = |&rules: &Rules| {
        let point = point(rules);
        let figure = point.figure(figure).expect("invariant: every run has this figure");
        if rules == Rules::Simple {
            simple = figure;
        }
        point.with(CHANGE, change_percent(simple, figure))
    };
    compared.iter().map(changed).collect()
}
