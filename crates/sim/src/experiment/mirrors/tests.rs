//! Orderings that must hold in every system, at reduced size.

use super::seen::{DELAY, Seen, mean_ms_between};
use super::system::System;
use super::workload::{Requests, Rules, Setting};
use super::{adaptive, overhead};
use crate::experiment::{Plan, Unwatched};
use treefold_core::time::Instant;

const SEEDS: [u64; 3] = [1, 2, 3];

fn run(mirrors: usize, rules: Rules, seed: u64, change: impl Fn(Setting) -> Setting) -> Seen {
    System::run(change(Setting::new(mirrors, rules, 3_000, 1.0, seed)))
}

#[test]
fn same_seed_gives_the_same_run_and_other_seeds_another() {
    let loaded = |seed| run(2, Rules::Adaptive, seed, |setting| setting.paced(2_000.0).requested(300.0));
    assert_eq!(loaded(1), loaded(1));
    assert_ne!(loaded(1).updates, loaded(2).updates);
}

#[test]
fn figures_do_not_depend_on_the_number_of_threads() {
    let points = |threads| {
        let plan = Plan { seed: 3, repeat: 1, threads, quick: true };
        crate::evaluation::record::to_json(&(overhead::EXPERIMENT.run)(&plan, &Unwatched))
    };
    assert_eq!(points(1), points(3));
}

#[test]
fn all_events_are_mirrored_by_simple_rules_and_a_twentieth_of_positions_by_selective_ones() {
    for seed in SEEDS {
        assert_eq!(run(1, Rules::Simple, seed, |setting| setting).mirrored, 3_000);
        let selective = run(1, Rules::Selective, seed, |setting| setting).mirrored;
        assert!((150..600).contains(&selective), "{selective}");
    }
}

#[test]
fn mirroring_costs_time_and_selective_mirroring_less() {
    for seed in SEEDS {
        let total = |mirrors, rules| run(mirrors, rules, seed, |setting| setting).all_done;
        assert!(total(0, Rules::Simple) < total(1, Rules::Selective));
        assert!(total(1, Rules::Selective) < total(1, Rules::Simple));
        assert!(total(1, Rules::Simple) < total(4, Rules::Simple));
    }
}

#[test]
fn selective_mirroring_is_done_earlier_under_load() {
    for seed in SEEDS {
        let total = |rules| run(1, rules, seed, |setting| setting.requested(200.0)).all_done;
        assert!(total(Rules::Selective) < total(Rules::Simple));
    }
}

#[test]
fn every_request_is_answered_and_readers_share_snapshots() {
    let setting = Setting::new(1, Rules::Selective, 3_000, 0.1, 1).requested(400.0);
    let expected = setting.request_times().len();
    let seen = System::run(setting);
    assert!(expected > 100);
    assert_eq!(seen.requests.len(), expected);
    assert!(seen.snapshots < expected as u64 / 2, "{} of {expected}", seen.snapshots);
}

#[test]
fn adaptation_reduces_the_delay_in_a_burst_and_ends_after_it() {
    for seed in SEEDS {
        let of = |rules| {
            let mut setting = Setting::new(2, rules, 16_000, 1.0, seed).paced(2_000.0);
            setting.requests = vec![Requests { from_s: 1.0, until_s: 4.0, per_s: 600.0 }];
            System::run(setting)
        };
        let (fixed, adaptive) = (of(Rules::Fixed), of(Rules::Adaptive));
        assert_eq!((fixed.changes.len(), adaptive.changes.len() % 2), (0, 0), "{:?}", adaptive.changes);
        assert!(adaptive.changes.first().is_some_and(|at| *at > Instant::from_nanos(1_000_000_000)));
        let in_burst = |seen: &Seen| mean_ms_between(&seen.updates, 2.0, 4.0);
        assert!(in_burst(&adaptive) < in_burst(&fixed), "{} of {}", in_burst(&adaptive), in_burst(&fixed));
    }
}

#[test]
fn adaptive_experiment_has_both_series_at_every_second() {
    let plan = Plan { seed: 1, repeat: 2, threads: 2, quick: true };
    let points = (adaptive::EXPERIMENT.run)(&plan, &Unwatched);
    let of = |series: &str| points.iter().filter(|point| point.series == series).collect::<Vec<_>>();
    assert_eq!((of("fixed").len(), of("adaptive").len()), (21, 21));
    for point in &points {
        let figure = |name: &str| point.figure(name).unwrap_or(f64::NAN);
        let (low, high) = (figure("delay_ms_mean_low"), figure("delay_ms_mean_high"));
        assert!(low <= figure(DELAY) && figure(DELAY) <= high, "{point:?}");
    }
}
