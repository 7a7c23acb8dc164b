//! Telling others, and believing what was told (DAC §4.5; DESIGN 4.2).
//!
//! A figure rides on every partial for nothing. Between those a node announces it in gossip, never at a fixed
//! period, since fixed periods drift into step with each other, and only when it changed by an amount that
//! could change a decision: an idle cluster says nothing. (With `Tuning::announce_directly` a node tells every
//! member itself, changed or not, which is the broadcast policy of the random polling paper, §2.2.)
//!
//! A figure is old by the time it is used. If all callers took stale figures at their word, all would turn to
//! the node that was idle last, until the next figures arrive: flocking. So a figure is corrected at random,
//! the deviation growing with its age. [`corrected`] multiplies it by `exp(σ·z − σ²/2)`, z normal, so that
//! * it is never negative, and its mean is the figure told: the correction spreads callers, it does not
//!   mislead;
//! * at age zero it is the figure itself;
//! * `σ = 0.5·√(age / 500 ms)`, the spread of a random walk, and 1 at most: past 2 s a figure can't get
//!   vaguer.

use super::figure::LoadFigure;
use crate::random::Random;
use crate::time::Duration;

/// The mean time between two announcements is not taken for less than this.
pub const ANNOUNCE_EVERY_MIN: Duration = Duration::from_millis(1);

/// By how much of its mean the time to the next announcement may differ from it, either way.
pub const ANNOUNCE_JITTER: f64 = 0.5;

/// A change of the load index by less than this share of it is not told.
pub const CHANGE_SHARE_MIN: f64 = 0.1;

/// A change of the load index by less than this many ms is not told.
pub const CHANGE_MS_MIN: f64 = 0.5;

/// Within this time a load is taken to walk as far as [`SPREAD_AT_ONE_PERIOD`] says. How often figures are told
/// makes no difference to how fast they age.
const SPREAD_PERIOD: Duration = Duration::from_millis(500);

/// σ of a figure that is one [`SPREAD_PERIOD`] old.
const SPREAD_AT_ONE_PERIOD: f64 = 0.5;

/// σ of the oldest figure.
const SPREAD_MAX: f64 = 1.0;

/// How long to wait until the next announcement: `every` ± 50 %, each length in between equally likely.
pub fn next_announcement_in(every: Duration, random: &mut Random) -> Duration {
    every.max(ANNOUNCE_EVERY_MIN).mul_f64(random.between(1.0 - ANNOUNCE_JITTER, 1.0 + ANNOUNCE_JITTER))
}

/// True when `now` differs from what was told last by more than a tenth (of the larger) and more than half a
/// millisecond. A node that told nothing yet has told [`LoadFigure::default`], which is idle.
pub fn worth_announcing(last: LoadFigure, now: LoadFigure) -> bool {
    let (last_ms, now_ms) = (last.load_ms(), now.load_ms());
    let change_ms = (now_ms - last_ms).abs();
    change_ms > CHANGE_MS_MIN && change_ms > CHANGE_SHARE_MIN * now_ms.max(last_ms)
}

/// σ of the correction of a figure of that age.
pub fn spread(age: Duration) -> f64 {
    let periods = age.as_millis_f64() / SPREAD_PERIOD.as_millis_f64();
    (SPREAD_AT_ONE_PERIOD * libm::sqrt(periods)).min(SPREAD_MAX)
}

/// What a figure told `age` ago is taken for now: see the module's essay. A figure that makes no sense is
/// taken for zero.
pub fn corrected(figure_ms: f64, age: Duration, random: &mut Random) -> f64 {
    let spread = spread(age);
    let factor = libm::exp(spread * random.normal() - spread * spread / 2.0);
    // `f64::max` gives zero for NaN as well.
    (figure_ms * factor).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn figure(queued_ms: f64) -> LoadFigure {
        LoadFigure {
            queued: Duration::from_millis_f64(queued_ms),
            in_flight: 1,
            processors: 1,
            ..LoadFigure::default()
        }
    }

    #[test]
    fn an_idle_cluster_says_nothing() {
        assert!(!worth_announcing(LoadFigure::default(), figure(0.0)));
        assert!(!worth_announcing(figure(0.3), figure(0.0)), "less than half a millisecond");
        assert!(!worth_announcing(figure(100.0), figure(109.0)), "less than a tenth");
        assert!(worth_announcing(figure(100.0), figure(120.0)));
        assert!(worth_announcing(figure(100.0), figure(0.0)));
        assert!(worth_announcing(LoadFigure::default(), figure(0.6)));
    }

    #[test]
    fn announcements_never_fall_into_step() {
        let (every, mut random) = (Duration::from_millis(500), Random::new(1));
        let drawn: Vec<Duration> = (0..1_000).map(|_| next_announcement_in(every, &mut random)).collect();
        let bounds = Duration::from_millis(250)..=Duration::from_millis(750);
        assert!(drawn.iter().all(|wait| bounds.contains(wait)));
        assert!(drawn.iter().min() < Some(&Duration::from_millis(260)));
        assert!(drawn.iter().max() > Some(&Duration::from_millis(740)));
        assert!(!next_announcement_in(Duration::ZERO, &mut random).is_zero(), "a timer must come to rest");
    }

    #[test]
    fn the_spread_grows_with_age_up_to_one() {
        assert_eq!(spread(Duration::ZERO), 0.0);
        assert!((spread(SPREAD_PERIOD) - 0.5).abs() < 1e-9);
        assert!((spread(Duration::from_secs(2)) - 1.0).abs() < 1e-9);
        assert_eq!(spread(Duration::MAX), 1.0);
    }

    #[test]
    fn corrections_spread_callers_and_keep_the_mean() {
        for age_ms in [50, 500, 5_000] {
            let mut random = Random::new(age_ms);
            let age = Duration::from_millis(age_ms);
            let drawn: Vec<f64> = (0..200_000).map(|_| corrected(40.0, age, &mut random)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / drawn.len() as f64;
            // Of a log-normal with mean m: m²·(exp(σ²) − 1).
            let expected = 1_600.0 * (libm::exp(spread(age) * spread(age)) - 1.0);
            assert!((mean - 40.0).abs() < 1.0, "age {age_ms} ms: mean {mean}");
            assert!(
                (variance / expected - 1.0).abs() < 0.15,
                "age {age_ms} ms: variance {variance} for {expected}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_correction_is_never_negative(figure_ms: f64, age_ns: u64, seed: u64) {
            prop_assert!(corrected(figure_ms, Duration::from_nanos(age_ns), &mut Random::new(seed)) >= 0.0);
        }

        #[test]
        fn a_fresh_figure_is_taken_at_its_word(figure_ms in 0.0..1e9, seed: u64) {
            prop_assert_eq!(corrected(figure_ms, Duration::ZERO, &mut Random::new(seed)), figure_ms);
        }
    }
}
