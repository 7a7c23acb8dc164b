//! Who has the next turn on a processor that is free.
//!
//! The paper's scheduler is a lottery: it offers a free thread to application i with probability w_i / Σ w. With *fixed*
//! weights these are the target shares, and applications get *tasks* in proportion to them. With *adaptive* weights w_i is
//! (s_i / t_i) / Σ (s_j / t_j), where s_i is the target share and t_i a moving average of the times that its tasks were
//! measured to take. *Ours* is core's start-time fair queueing ([`Fair`]), with the same averages for what a task is
//! expected to cost and what it did cost as a correction: the very code that a node runs.

use treefold_core::load::cost::Ewma;
use treefold_core::random::Random;
use treefold_core::schedule::fair::Fair;
use treefold_core::time::Duration;

/// The newest measurement's weight in moving averages: that of a node by default. The paper does not say its own.
const NEWEST: f64 = 0.1;
/// What a task is taken to cost before any was measured, in ms: core's own guess.
const UNKNOWN_MS: f64 = treefold_core::load::cost::LOCAL_MS_PRIOR;

/// A way to share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// A lottery whose weights are the shares.
    FixedLottery,
    /// A lottery whose weights are the shares by measured times.
    AdaptiveLottery,
    /// Start-time fair queueing on measured cost.
    Fair,
}

impl Policy {
    /// All, the paper's first.
    pub const ALL: [Self; 3] = [Self::FixedLottery, Self::AdaptiveLottery, Self::Fair];

    /// As series are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::FixedLottery => "fixed lottery",
            Self::AdaptiveLottery => "adaptive lottery",
            Self::Fair => "fair queueing",
        }
    }
}

/// A policy at work.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    shares: Vec<f64>,
    times: Vec<Ewma>,
    fair: Fair,
    random: Random,
}

/// A task that was given its turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Whose it is.
    pub application: usize,
    expected_ms: f64,
}

impl Scheduler {
    /// A policy for applications with these shares, all of which always have something to do.
    pub fn new(policy: Policy, shares: &[f64], seed: u64) -> Self {
        Self {
            policy,
            shares: shares.to_vec(),
            times: vec![Ewma::new(NEWEST); shares.len()],
            fair: Fair::new(shares.iter().copied()),
            random: Random::new(seed),
        }
    }

    /// Other shares from now on.
    pub fn set_shares(&mut self, shares: &[f64]) {
        shares.iter().enumerate().for_each(|(application, &share)| self.fair.set_share(application, share));
        self.shares = shares.to_vec();
    }

    /// The next turn.
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

    /// A turn is over, and took so long.
    pub fn ended(&mut self, turn: Turn, took_ms: f64) {
        self.fair.end(turn.application, turn.expected_ms, took_ms);
        self.times[turn.application].observe(Duration::from_millis_f64(took_ms));
    }
}

/// One of these, in proportion to their weights.
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

    /// The first application's part of 20,000 turns, and of their time, with tasks of 34 and 2 ms.
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
    fn fixed_weights_share_tasks_and_the_others_share_time() {
        for (shares, due) in [([1.0, 1.0], 0.5), ([3.0, 1.0], 0.75)] {
            let close = |part: f64, due: f64| assert!((part - due).abs() < 0.02, "{part} where {due} is due");
            close(parts(Policy::FixedLottery, &shares).0, due);
            close(parts(Policy::AdaptiveLottery, &shares).1, due);
            close(parts(Policy::Fair, &shares).1, due);
        }
    }
}
