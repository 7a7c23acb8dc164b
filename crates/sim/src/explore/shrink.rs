//! Makes a failing scenario smaller, as long as the same invariant breaks.
//!
//! First, lists (calls, faults) are thinned out: halves are removed, then quarters, down to single entries
//! (roughly Zeller's ddmin). Then large values become small, and unusual values become defaults. Each change
//! is tried alone and is kept if the scenario still fails. This repeats until no change helps or the time is
//! up. The result at that time fails like the original.

use super::feeding::PlannedFeed;
use super::pushing::Pushing;
use super::scenario::{Scenario, Weather};
use super::streaming::PlannedStream;
use std::time::Instant;
use treefold_core::config::Placement;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// Makes `scenario` smaller as long as `fails` returns true, at most until `until`.
pub fn shrink(scenario: &Scenario, until: Instant, mut fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut best = scenario.clone();
    loop {
        let before = best.clone();
        let mut keep = |best: &mut Scenario, candidate: Scenario| {
            let is_better = candidate != *best && Instant::now() < until && fails(&candidate);
            if is_better {
                *best = candidate;
            }
            is_better
        };
        thin_out(&mut best, |scenario| &mut scenario.faults, &mut keep);
        thin_out(&mut best, |scenario| &mut scenario.calls, &mut keep);
        thin_out(&mut best, |scenario| &mut scenario.streams, &mut keep);
        for stream in 0..best.streams.len() {
            thin_out(&mut best, |scenario| &mut scenario.streams[stream].sends_at_us, &mut keep);
            for simpler in stream_simplifications() {
                let mut candidate = best.clone();
                simpler(&mut candidate.streams[stream]);
                keep(&mut best, candidate);
            }
        }
        thin_out_pushing(&mut best, &mut keep);
        thin_out_feed(&mut best, &mut keep);
        for simpler in simplifications() {
            let mut candidate = best.clone();
            simpler(&mut candidate);
            keep(&mut best, candidate);
        }
        for knob in best.knobs.keys().copied().collect::<Vec<_>>() {
            let mut candidate = best.clone();
            candidate.knobs.remove(&knob);
            keep(&mut best, candidate);
        }
        for call in 0..best.calls.len() {
            for simpler in call_simplifications() {
                let mut candidate = best.clone();
                simpler(&mut candidate, call);
                keep(&mut best, candidate);
            }
        }
        if best == before || Instant::now() >= until {
            return best;
        }
    }
}

/// Removes the push waves, or thins out their lists.
fn thin_out_pushing(best: &mut Scenario, keep: &mut impl FnMut(&mut Scenario, Scenario) -> bool) {
    if best.pushing.is_none() || keep(best, Scenario { pushing: None, ..best.clone() }) {
        return;
    }
    thin_out(best, |scenario| &mut pushing_of(scenario).mishaps, keep);
    thin_out(best, |scenario| &mut pushing_of(scenario).announcements, keep);
    thin_out(best, |scenario| &mut pushing_of(scenario).results, keep);
    for result in 0..pushing_of(best).results.len() {
        thin_out(
            best,
            |scenario| &mut pushing_of(scenario).results[result].pieces,
            &mut |best, candidate| {
                let has_pieces = candidate.pushing.as_ref().is_some_and(Pushing::is_sound);
                has_pieces && keep(best, candidate)
            },
        );
    }
    for simpler in pushing_simplifications() {
        let mut candidate = best.clone();
        simpler(pushing_of(&mut candidate));
        keep(best, candidate);
    }
}

/// Removes the feed, or thins out its lists.
fn thin_out_feed(best: &mut Scenario, keep: &mut impl FnMut(&mut Scenario, Scenario) -> bool) {
    if best.feed.is_none() || keep(best, Scenario { feed: None, ..best.clone() }) {
        return;
    }
    thin_out(best, |scenario| &mut feed_of(scenario).mishaps, keep);
    thin_out(best, |scenario| &mut feed_of(scenario).readers, keep);
    for simpler in feed_simplifications() {
        let mut candidate = best.clone();
        simpler(feed_of(&mut candidate));
        keep(best, candidate);
    }
}

fn feed_of(scenario: &mut Scenario) -> &mut PlannedFeed {
    scenario.feed.as_mut().expect("invariant: the caller has checked that there is a feed")
}

/// Returns all ways to make a feed simpler.
fn feed_simplifications() -> [fn(&mut PlannedFeed); 10] {
    [
        |f| f.sources.truncate((f.sources.len() / 2).max(1)),
        |f| f.mirrors.truncate((f.mirrors.len() / 2).max(1)),
        |f| f.sources.iter_mut().for_each(|source| source.events = (source.events / 2).max(1)),
        |f| f.sources.iter_mut().for_each(|source| source.burst = 1),
        |f| f.rules.truncate(1),
        |f| f.origins.truncate(1),
        |f| f.has_deletes = false,
        |f| f.takes_for_us = 0,
        |f| f.window_bytes = 1 << 20,
        |f| f.limits.batch_bytes_max = 60 << 10,
    ]
}

fn pushing_of(scenario: &mut Scenario) -> &mut Pushing {
    scenario.pushing.as_mut().expect("invariant: the caller has checked that there are push waves")
}

/// Returns all ways to make push waves simpler.
fn pushing_simplifications() -> [fn(&mut Pushing); 10] {
    [
        |p| p.workers = (p.workers / 2).max(1),
        |p| p.workers = (p.workers - 1).max(1),
        |p| p.relays = p.relays.saturating_sub(1),
        |p| p.racks = 0,
        |p| p.homes = 1,
        |p| p.window_bytes = 1 << 20,
        |p| p.early_bytes_max = 64 << 20,
        |p| p.kept_bytes_max = 64 << 20,
        |p| p.announcements.iter_mut().for_each(|announced| announced.cancelled_after_us = None),
        |p| p.results.iter_mut().for_each(|result| result.every_us = 0),
    ]
}

/// Longest time between an endpoint's packets. If endpoints sent more rarely, no wave would contain them
/// while the play waits for them.
const EVERY_US_MAX: u64 = 100_000;

/// Returns all ways to make one stream simpler.
fn stream_simplifications() -> [fn(&mut PlannedStream); 14] {
    [
        |s| s.closed_at_us = None,
        |s| s.endpoints = None,
        |s| s.window_bytes = None,
        |s| s.front = 0,
        |s| s.at_us = 0,
        |s| s.filters_down = false,
        |s| s.folds = false,
        |s| s.filter_us = 5,
        |s| s.placement = Placement::Inline,
        |s| s.packet_bytes = 10,
        |s| s.takes_for_us = 0,
        |s| s.reads_for_us = 0,
        |s| s.shape = Shape::KAry(2),
        |s| s.every_us = s.every_us.map(|every_us| (every_us * 2).min(every_us.max(EVERY_US_MAX))),
    ]
}

/// Removes halves, then quarters, down to single entries.
fn thin_out<T>(
    best: &mut Scenario,
    row: impl Fn(&mut Scenario) -> &mut Vec<T>,
    keep: &mut impl FnMut(&mut Scenario, Scenario) -> bool,
) {
    let mut piece = row(best).len().div_ceil(2);
    while piece > 0 {
        let mut from = 0;
        while from < row(best).len() {
            let mut candidate = best.clone();
            let to = (from + piece).min(row(best).len());
            row(&mut candidate).drain(from..to);
            if !keep(best, candidate) {
                from += piece;
            }
        }
        piece /= 2;
    }
}

type Simpler = Box<dyn Fn(&mut Scenario)>;

/// Returns all ways to make a whole scenario simpler.
fn simplifications() -> Vec<Simpler> {
    let mut ways: Vec<Simpler> = Vec::new();
    let mut way = |simpler: fn(&mut Scenario)| ways.push(Box::new(simpler));
    way(|s| s.nodes = (s.nodes / 2).max(1));
    way(|s| s.nodes = (s.nodes - 1).max(1));
    way(|s| s.partitions = (s.partitions / 2).max(1));
    way(|s| s.partitions = (s.partitions - 1).max(1));
    way(|s| s.replicas = 1);
    way(|s| s.replicas = (s.replicas - 1).max(1));
    way(|s| s.observers = 0);
    way(|s| s.bare_observers = false);
    way(|s| s.observers = s.observers.saturating_sub(1));
    way(|s| s.processors = 1);
    way(|s| s.placement = Placement::Pool);
    way(|s| s.placement = Placement::Inline);
    way(|s| s.policy = ReplicaPolicy::Random);
    way(|s| s.weather = Weather::FAIR);
    way(|s| s.weather = Weather { jitter_us: 0, ..s.weather });
    way(|s| s.weather = Weather { loss_permille: 0, ..s.weather });
    way(|s| s.weather = Weather { duplication_permille: 0, ..s.weather });
    way(|s| s.weather = Weather { bytes_per_s: None, ..s.weather });
    way(|s| s.weather = Weather { delay_us: Weather::FAIR.delay_us, ..s.weather });
    way(|s| s.is_introduced = true);
    way(|s| s.is_exponential = false);
    way(|s| s.partial_bytes = 100);
    way(|s| s.local_us = 0);
    way(|s| s.local_us = 1_000);
    way(|s| s.reduce_us = 0);
    way(|s| s.reduce_us = 200);
    way(|s| s.calls.iter_mut().for_each(|call| call.front = 0));
    ways
}

type SimplerCall = fn(&mut Scenario, usize);

/// Returns all ways to make one call simpler.
fn call_simplifications() -> [SimplerCall; 13] {
    [
        |s, at| s.calls[at].cancelled_after_us = None,
        |s, at| s.calls[at].through = None,
        |s, at| s.calls[at].front = 0,
        |s, at| s.calls[at].scale = 1.0,
        |s, at| s.calls[at].wish.shape = Shape::Flat,
        |s, at| s.calls[at].wish.waiting = Waiting::Staged,
        |s, at| s.calls[at].wish.policy = None,
        |s, at| s.calls[at].wish.partitions = None,
        |s, at| s.calls[at].wish.explain = false,
        |s, at| s.calls[at].wish.hedge = false,
        |s, at| (s.calls[at].wish.slices, s.calls[at].wish.only_slice) = (1, None),
        |s, at| s.calls[at].wish.min_coverage = 0.0,
        |s, at| s.calls[at].wish.deadline_us = 200_000,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::draw::draw;

    #[test]
    fn parts_without_effect_on_the_failure_are_removed() {
        let scenario = (0..).map(draw).find(|s| s.calls.len() > 20 && s.faults.len() > 6).expect("some seed");
        let marked = scenario.calls[13].at_us;
        let until = Instant::now() + std::time::Duration::from_secs(60);
        let shrunk =
            shrink(&scenario, until, |s| s.nodes > 1 && s.calls.iter().any(|call| call.at_us == marked));
        assert_eq!((shrunk.nodes, shrunk.calls.len(), shrunk.faults.len()), (2, 1, 0));
        assert!(shrunk.knobs.is_empty() && shrunk.weather == Weather::FAIR);
    }
}
