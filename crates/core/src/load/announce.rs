//! Announcing load figures, and correcting stale ones (DAC §4.5; DESIGN 4.2).
//!
//! Every partial carries its sender's load figure at no extra cost. Between partials a node announces its
//! figure in gossip. The intervals are random, because nodes with a fixed period drift into step with each
//! other. A figure is announced only if it changed enough to matter for a decision, so an idle cluster
//! announces nothing. (With `Tuning::announce_directly` a node sends its figure to every member itself,
//! changed or not, which is the broadcast policy of the random polling paper, §2.2.)
//!
//! A figure is old by the time it is used. If all callers used stale figures as they are, all would choose
//! the node that was idle last, until the next figures arrive (flocking). So a figure is corrected at random,
//! and the deviation grows with its age. [`corrected`] multiplies it by `exp(σ·z − σ²/2)`, with z normal:
//! * The result is never negative, and its mean is the announced figure: the correction spreads the callers
//!   without bias.
//! * At age zero the result is the figure itself.
//! * `σ = 0.5·√(age / 500 ms)`, the spread of a random walk, but at most 1: after 2 s a figure does not get
//!   any less certain.

use super::figure::LoadFigure;
use crate::random::Random;
use crate::time::Duration;

/// The least mean time between two announcements; shorter settings are raised to it.
pub const ANNOUNCE_EVERY_MIN: Duration = Duration::from_millis(1);

/// The greatest deviation of a wait from its mean, as a share of the mean, either way.
pub const ANNOUNCE_JITTER: f64 = 0.5;

/// A change of the load index by less than this share is not announced.
pub const CHANGE_SHARE_MIN: f64 = 0.1;

/// A change of the load index by less than this many ms is not announced.
pub const CHANGE_MS_MIN: f64 = 0.5;

/// In this time a load is assumed to deviate as far as [`SPREAD_AT_ONE_PERIOD`]. The interval of
/// announcements does not change how fast figures age.
const SPREAD_PERIOD: Duration = Duration::from_millis(500);

/// σ of a figure that is one [`SPREAD_PERIOD`] old.
const SPREAD_AT_ONE_PERIOD: f64 = 0.5;

/// σ of the oldest figure.
const SPREAD_MAX: f64 = 1.0;

/// The wait until the next announcement: `every` ± 50 %, uniformly distributed.
pub fn next_announcement_in(every: Duration, random: &mut Random) -> Duration {
    every.max(ANNOUNCE_EVERY_MIN).mul_f64(random.between(1.0 - ANNOUNCE_JITTER, 1.0 + ANNOUNCE_JITTER))
}

/// True if `now` differs from the last announced figure by more than a tenth (of the larger) and by more than
/// half a millisecond. For a node that has announced nothing yet, the last figure is [`LoadFigure::default`],
/// which is idle.
pub fn worth_announcing(last: LoadFigure, now: LoadFigure) -> bool {
    let (last_ms, now_ms) = (last.load_ms(), now.load_ms());
    let change_ms = (now_ms - last_ms).abs();
    change_ms > CHANGE_MS_MIN && change_ms > CHANGE_SHARE_MIN * now_ms.max(last_ms)
}

/// σ of the correction of a figure of this age.
pub fn spread(age: Duration) -> f64 {
    let periods = age.as_millis_f64() / SPREAD_PERIOD.as_millis_f64();
    (SPREAD_AT_ONE_PERIOD * libm::sqrt(periods)).min(SPREAD_MAX)
}

/// The corrected value of a figure announced `age` ago; see the module's essay. NaN and negative figures
/// become zero.
pub fn corrected(figure_ms: f64, age: Duration, random: &mut Random) -> f64 {
    let spread = spread(age);
    let factor = libm::exp(spread * random.normal() - spread * spread / 2.0);
    // `f64::max` returns zero for NaN as well.
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
    fn an_idle_cluster_announces_nothing() {
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
        assert!(
            !next_announcement_in(Duration::ZERO, &mut random).is_zero(),
            "a zero wait would make the timer fire without end"
        );
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
            // The variance of a log-normal with mean m is m²·(exp(σ²) − 1).
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
        fn a_fresh_figure_is_not_corrected(figure_ms in 0.0..1e9, seed: u64) {
            prop_assert_eq!(corrected(figure_ms, Duration::ZERO, &mut Random::new(seed)), figure_ms);
        }
    }
}
