//! Chooses the application that gets a free processor.
//!
//! The paper's scheduler is a lottery: it offers a free thread to application i with probability w_i / Σ w.
//! With *fixed* weights these are the target shares, and applications get *tasks* in proportion to them. With
//! *adaptive* weights w_i is (s_i / t_i) / Σ (s_j / t_j), where s_i is the target share and t_i a moving
//! average of the measured times of its tasks. *Fair* is core's start-time fair queueing ([`Fair`]), the same
//! code that a node runs. It charges a task the same moving average when the task begins, and corrects the
//! charge to the measured time when the task ends.

use treefold_core::load::cost::Ewma;
use treefold_core::random::Random;
use treefold_core::schedule::fair::Fair;
use treefold_core::time::Duration;

/// Weight of the newest measurement in moving averages: the default of a node. The paper does not give its
/// own.
const NEWEST: f64 = 0.1;
/// Assumed task time before the first measurement, in ms: core's own default.
const UNKNOWN_MS: f64 = treefold_core::load::cost::LOCAL_MS_PRIOR;

/// A rule for sharing processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A lottery whose weights are the shares.
    FixedLottery,
    /// A lottery whose weights are the shares divided by the measured task times.
    AdaptiveLottery,
    /// Start-time fair queueing on measured cost.
    Fair,
}

impl Policy {
    /// All policies, with the paper's first.
    pub const ALL: [Self; 3] = [Self::FixedLottery, Self::AdaptiveLottery, Self::Fair];

    /// Returns the name of the policy's series.
    pub fn name(self) -> &'static str {
        match self {
            Self::FixedLottery => "fixed lottery",
            Self::AdaptiveLottery => "adaptive lottery",
            Self::Fair => "fair queueing",
        }
    }
}

/// The state of a policy.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    shares: Vec<f64>,
    times: Vec<Ewma>,
    fair: Fair,
    random: Random,
}

/// A task that has got a processor.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The application of the task.
    pub application: usize,
    expected_ms: f64,
}

impl Scheduler {
    /// Creates a scheduler for applications with these shares. All applications always have tasks.
    pub fn new(policy: Policy, shares: &[f64], seed: u64) -> Self {
        Self {
            policy,
            shares: shares.to_vec(),
            times: vec![Ewma::new(NEWEST); shares.len()],
            fair: Fair::new(shares.iter().copied()),
            random: Random::new(seed),
        }
    }

    /// Replaces the shares from now on.
    pub fn set_shares(&mut self, shares: &[f64]) {
        shares.iter().enumerate().for_each(|(application, &share)| self.fair.set_share(application, share));
        self.shares = shares.to_vec();
    }

    /// Chooses the application of the next task.
    pub fn next_turn(&mut self) -> Turn {
        let expected_ms = |times: &[Ewma], at: usize| times[at].mean_ms().unwrap_or(UNKNOWN_MS);
        let application = match self.policy {
            Policy::FixedLottery => draw(&mut self.random, &self.shares),
            Policy::AdaptiveLottery => {
                let weight = |at: usize| self.shares[at] / expected_ms(&self.times, at);
                let weights: Vec<f64> = (0..self.shares.len()).map(weight).collect();
                draw(&mut self.random, &weights)
            }
            Policy::Fair => {
                self.fair.choose(0..self.shares.len()).expect("invariant: there are applications")
            }
        };
        let expected_ms = expected_ms(&self.times, application);
        self.fair.begin(application, expected_ms);
        Turn { application, expected_ms }
    }

    /// Records that a task has ended and took `took_ms`.
    pub fn ended(&mut self, turn: Turn, took_ms: f64) {
        self.fair.end(turn.application, turn.expected_ms, took_ms);
        self.times[turn.application].observe(Duration::from_millis_f64(took_ms));
    }
}

/// Draws an index in proportion to the weights.
fn draw(random: &mut Random, weights: &[f64]) -> usize {
    let mut left = random.unit() * weights.iter().sum::<f64>();
    let drawn = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    drawn.unwrap_or(weights.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first application's part of 20,000 turns and of their time, with tasks of 34 and 2 ms.
    fn parts(policy: Policy, shares: &[f64]) -> (f64, f64) {
        let mut scheduler = Scheduler::new(policy, shares, 1);
        let (mut turns, mut times_ms) = ([0.0, 0.0], [0.0, 0.0]);
        for _ in 0..20_000 {
            let turn = scheduler.next_turn();
            let took_ms = [34.0, 2.0][turn.application];
            turns[turn.application] += 1.0;
            times_ms[turn.application] += took_ms;
            scheduler.ended(turn, took_ms);
        }
        let part = |of: [f64; 2]| of[0] / (of[0] + of[1]);
        (part(turns), part(times_ms))
    }

    #[test]
    fn fixed_weights_share_tasks_and_other_policies_share_time() {
        for (shares, due) in [([1.0, 1.0], 0.5), ([3.0, 1.0], 0.75)] {
            let close = |part: f64, due: f64| assert!((part - due).abs() < 0.02, "{part} where {due} is due");
            close(parts(Policy::FixedLottery, &shares).0, due);
            close(parts(Policy::AdaptiveLottery, &shares).1, due);
            close(parts(Policy::Fair, &shares).1, due);
        }
    }
}
