//! Learned waiting, compared with known values of the normal distribution and with the simulation of one
//! node.

use super::*;
use crate::random::Random;
use proptest::prelude::*;
use std::vec::Vec;

/// `count` times drawn from `exp(N(mu, sigma²))`, in ascending order.
fn times(mu: f64, sigma: f64, count: usize, random: &mut Random) -> Vec<f64> {
    let mut times: Vec<f64> = (0..count).map(|_| libm::exp(mu + sigma * random.normal())).collect();
    times.sort_by(f64::total_cmp);
    times
}

#[test]
fn the_quantile_is_the_inverse_of_the_distribution() {
    let standard = |z: f64| 0.5 * libm::erfc(-z / core::f64::consts::SQRT_2);
    for share in [1e-6, 0.001, 0.02, 0.1, 0.5, 0.77, 0.975, 0.9999] {
        assert!((standard(normal_quantile(share)) / share - 1.0).abs() < 1e-6, "{share}");
    }
    assert_eq!(normal_quantile(0.5), 0.0);
    assert!((normal_quantile(0.975) - 1.959_964).abs() < 1e-6);
}

#[test]
fn fast_children_predict_the_times_of_slow_ones() {
    let mut random = Random::new(1);
    for (mu, sigma) in [(3.0, 0.5), (0.0, 1.0), (5.0, 0.2)] {
        let (mut mu_sum, mut sigma_sum) = (0.0, 0.0);
        for _ in 0..400 {
            let mut arrivals = Arrivals::new(50);
            times(mu, sigma, 50, &mut random).iter().take(25).for_each(|&time| arrivals.observe(time));
            let estimate = arrivals.estimate(None).expect("many have come");
            (mu_sum, sigma_sum) = (mu_sum + estimate.mu(), sigma_sum + estimate.sigma());
        }
        let (mu_mean, sigma_mean) = (mu_sum / 400.0, sigma_sum / 400.0);
        assert!((mu_mean - mu).abs() < 0.1 * sigma, "μ is {mu}, on average {mu_mean} from the quicker half");
        assert!((sigma_mean / sigma - 1.0).abs() < 0.1, "σ is {sigma}, on average {sigma_mean}");
    }
}

#[test]
fn the_past_counts_until_the_present_is_known() {
    let past = LogNormal::new(9.0, 0.5);
    let mut arrivals = Arrivals::new(200);
    assert_eq!(arrivals.estimate(None), None);
    assert_eq!(arrivals.estimate(past), past);
    times(2.0, 0.5, 200, &mut Random::new(2)).iter().take(150).for_each(|&time| arrivals.observe(time));
    let now = arrivals.estimate(past).expect("there is a past");
    assert!((now.mu() - 2.0).abs() < 0.5, "{now:?}");
}

#[test]
fn with_a_step_above_the_wait_ends_before_it() {
    let slow = LogNormal::new(4.0, 1.0).expect("finite");
    let wait = best_wait(slow, 20, Upstream::Step(20.0), 100.0);
    assert!((79.0..=80.0).contains(&wait), "{wait}");
}

#[test]
fn the_wait_ends_when_no_more_children_are_expected() {
    let quick = LogNormal::new(1.0, 0.1).expect("finite");
    let wait = best_wait(quick, 20, Upstream::Step(20.0), 1_000.0);
    assert!(wait < 20.0, "all come within 5 ms, the scan's step is 8: {wait}");
}

#[test]
fn the_more_needs_to_be_done_above_the_shorter_the_wait() {
    let children = LogNormal::new(4.0, 0.8).expect("finite");
    let above = |mean_ms| Upstream::Spread(LogNormal::of_mean(mean_ms, 0.5).expect("finite"));
    let waits: Vec<f64> =
        [5.0, 20.0, 50.0, 80.0].map(|mean| best_wait(children, 20, above(mean), 200.0)).into();
    assert!(waits.is_sorted_by(|a, b| a > b), "{waits:?}");
}

/// One node over 50 children, in hundreds of calls. The levels above need a random time too.
struct Aggregator {
    random: Random,
    total_ms: f64,
    /// How much the children's μ varies between calls.
    variation: f64,
}

const CHILDREN: usize = 50;
const CALLS: usize = 600;
const MU: f64 = 3.0;
const SIGMA: f64 = 0.8;

impl Aggregator {
    fn above() -> LogNormal {
        LogNormal::new(3.0, 0.6).expect("finite")
    }

    /// The mean share of the children that count. `wait` returns how long to wait after each arrival.
    fn quality(&mut self, wait: impl Fn(&Arrivals) -> f64) -> f64 {
        let mut quality = 0.0;
        for _ in 0..CALLS {
            let mu = MU + self.variation * self.random.normal();
            let times = times(mu, SIGMA, CHILDREN, &mut self.random);
            let mut arrivals = Arrivals::new(CHILDREN);
            let (mut came, mut left_at) = (0, wait(&arrivals));
            for time in times {
                if time > left_at {
                    break;
                }
                came += 1;
                arrivals.observe(time);
                left_at = if came == CHILDREN { time } else { wait(&arrivals).max(time) };
            }
            let above_ms = libm::exp(Self::above().mu() + Self::above().sigma() * self.random.normal());
            if left_at + above_ms <= self.total_ms {
                quality += came as f64 / CHILDREN as f64;
            }
        }
        quality / CALLS as f64
    }

    fn learned(&mut self) -> f64 {
        let (past, total_ms) = (LogNormal::new(MU, SIGMA), self.total_ms);
        self.quality(move |arrivals| {
            let times = arrivals.estimate(past).expect("there is a past");
            best_wait(times, CHILDREN, Upstream::Spread(Self::above()), total_ms)
        })
    }

    fn proportional(&mut self) -> f64 {
        let mean = |mu: f64, variance: f64| libm::exp(mu + variance / 2.0);
        let children = mean(MU, SIGMA * SIGMA + self.variation * self.variation);
        let above = mean(Self::above().mu(), Self::above().sigma() * Self::above().sigma());
        let wait = self.total_ms * children / (children + above);
        self.quality(move |_| wait)
    }
}

#[test]
fn where_calls_differ_learning_beats_a_fixed_split() {
    for (total_ms, gain) in [(60.0, 1.15), (80.0, 1.05)] {
        let mut aggregator = Aggregator { random: Random::new(3), total_ms, variation: 1.0 };
        let (learned, split) = (aggregator.learned(), aggregator.proportional());
        assert!(learned > gain * split, "within {total_ms} ms: {learned} learned, {split} by a fixed split");
    }
}

#[test]
fn where_calls_are_alike_or_time_is_ample_learning_costs_little() {
    for (total_ms, variation) in [(150.0, 0.0), (200.0, 1.0)] {
        let mut aggregator = Aggregator { random: Random::new(4), total_ms, variation };
        let (learned, split) = (aggregator.learned(), aggregator.proportional());
        assert!(learned > 0.98 * split, "within {total_ms} ms: {learned} learned, {split} by a fixed split");
    }
}

proptest! {
    #[test]
    fn the_wait_is_always_within_the_call(
        millis in prop::collection::vec(any::<f64>(), 0..40),
        children in 1_usize..100,
        mean_ms: f64,
        variation: f64,
        total_ms in 0.0..1e7,
    ) {
        let mut arrivals = Arrivals::new(children);
        millis.into_iter().for_each(|millis| arrivals.observe(millis));
        let above = LogNormal::of_mean(mean_ms, variation).map_or(Upstream::Step(mean_ms), Upstream::Spread);
        if let Some(times) = arrivals.estimate(LogNormal::new(1.0, 1.0)) {
            let wait = best_wait(times, children, above, total_ms);
            prop_assert!((0.0..=total_ms).contains(&wait), "{}", wait);
        }
    }
}
