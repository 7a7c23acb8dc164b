//! Learned waiting: a wave waits as long as its children's times show is worth it (Cedar, EuroSys'16).
//!
//! A node that waits longer gets partials from more children, but risks that its answer comes too late for
//! the levels above. Let F be the distribution of the children's times, k the number of children, D the time
//! until the call's end, and `q(x)` the probability that an answer given with x left still counts. Then
//! waiting from c to c + ε changes the expected quality by
//!
//! ```text
//!   [F(c+ε) − F(c)]·q(D−c−ε)  −  [F(c) − F(c)^k]·[q(D−c) − q(D−c−ε)]
//! ```
//!
//! These are the children that arrive in that time, minus the children already here whose answer is put at
//! risk. If all k children have arrived, the node has answered already, so nothing is at risk. The wait is
//! where the sum is greatest ([`best_wait`]).
//!
//! F is log-normal and differs from call to call, and the gain comes from that difference: if it were always
//! the same, a fixed split of D in proportion to the means would be as good. So F is estimated while children
//! answer. They answer in order, so the i-th of k is an order statistic: with
//! `mᵢ = Φ⁻¹((i − 0.375)/(k + 0.25))` (Blom's score), two neighbours give
//! `σᵢ = (ln tᵢ₊₁ − ln tᵢ)/(mᵢ₊₁ − mᵢ)` and `μᵢ = ln tᵢ − σᵢ·mᵢ`, and the averages are the estimate
//! ([`Arrivals`]). The estimate is not biased by the fact that fast children answer first. Earlier calls
//! count for as much as [`PRIOR_PAIRS`] neighbours, so their weight falls as children answer.
//!
//! `q` is log-normal too ([`Upstream`]). Its mean is the time that staged waiting kept for the levels above,
//! and its spread is that of the folds measured here. If nothing is measured, or only the requester is above,
//! it is a step at that time. Below [`CHILDREN_MIN`] children the estimate is noise, and the rule is
//! *staged*.

/// With fewer children than this, their times are too few for an estimate.
pub const CHILDREN_MIN: usize = 10;
/// The weight of earlier calls, in pairs of neighbouring arrivals.
pub const PRIOR_PAIRS: f64 = 4.0;
/// The number of pairs that are necessary for an estimate without earlier calls.
pub const PAIRS_MIN: f64 = 3.0;
/// The number of steps in which the best wait is searched for.
pub const SCAN_STEPS: u32 = 128;
/// The bounds of a log-normal's σ: below the resolution of any clock, and above the spread of any service.
const SIGMA_BOUNDS: (f64, f64) = (0.01, 4.0);
/// The least time that is assumed, so that each time has a logarithm.
const MILLIS_LEAST: f64 = 1e-6;

/// A log-normal distribution of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    mu: f64,
    sigma: f64,
}

impl LogNormal {
    /// The distribution of `exp(N(mu, sigma²))`; `None` if either is not finite. σ is clamped to 0.01 to 4.
    pub fn new(mu: f64, sigma: f64) -> Option<Self> {
        let (least, most) = SIGMA_BOUNDS;
        (mu.is_finite() && sigma.is_finite()).then(|| Self { mu, sigma: sigma.clamp(least, most) })
    }

    /// The distribution with this mean and this ratio of deviation to mean.
    pub fn of_mean(mean_ms: f64, variation: f64) -> Option<Self> {
        let variance = libm::log(1.0 + variation * variation);
        Self::new(libm::log(mean_ms.max(MILLIS_LEAST)) - variance / 2.0, libm::sqrt(variance))
    }

    /// The mean of the logarithms.
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// The standard deviation of the logarithms.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The probability of a time of at most `millis`.
    pub fn at_most(&self, millis: f64) -> f64 {
        if millis <= 0.0 {
            return 0.0;
        }
        let z = (libm::log(millis) - self.mu) / self.sigma;
        0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
    }
}

/// An estimate of all children's times in this call, from the children that have answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    expected: usize,
    came: usize,
    /// The logarithm of the last child's time, and its score.
    last: (f64, f64),
    pairs: f64,
    sigma_sum: f64,
    mu_sum: f64,
}

impl Arrivals {
    /// No child of the `expected` has answered yet.
    pub fn new(expected: usize) -> Self {
        Self { expected, came: 0, last: (0.0, 0.0), pairs: 0.0, sigma_sum: 0.0, mu_sum: 0.0 }
    }

    /// The number of children expected at the start.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// The next child has answered, `millis` after it was asked. Children must be added in the order in which
    /// they answer.
    pub fn observe(&mut self, millis: f64) {
        if self.came >= self.expected {
            return;
        }
        self.came += 1;
        let score = normal_quantile((self.came as f64 - 0.375) / (self.expected as f64 + 0.25));
        let mut log = libm::log(millis.max(MILLIS_LEAST));
        if self.came > 1 {
            let (last_log, last_score) = self.last;
            log = log.max(last_log);
            let sigma = (log - last_log) / (score - last_score);
            self.sigma_sum += sigma;
            self.mu_sum += log - sigma * score;
            self.pairs += 1.0;
        }
        self.last = (log, score);
    }

    /// The distribution of this call's times, given the distribution in earlier calls.
    pub fn estimate(&self, prior: Option<LogNormal>) -> Option<LogNormal> {
        let Some(prior) = prior else {
            let estimate = LogNormal::new(self.mu_sum / self.pairs, self.sigma_sum / self.pairs);
            return estimate.filter(|_| self.pairs >= PAIRS_MIN);
        };
        let weight = PRIOR_PAIRS + self.pairs;
        LogNormal::new(
            (PRIOR_PAIRS * prior.mu + self.mu_sum) / weight,
            (PRIOR_PAIRS * prior.sigma + self.sigma_sum) / weight,
        )
    }
}

/// The time that the levels above still need after they have this node's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Upstream {
    /// This many milliseconds.
    Step(f64),
    /// A time with this distribution.
    Spread(LogNormal),
}

impl Upstream {
    /// The probability that an answer given with `left_ms` left still counts.
    pub fn quality(&self, left_ms: f64) -> f64 {
        match self {
            Self::Step(need_ms) => f64::from(u8::from(left_ms >= *need_ms)),
            Self::Spread(need) => need.at_most(left_ms),
        }
    }
}

/// How long to wait for `children` children with times distributed as `times`, if the call ends in
/// `total_ms`. The result is in milliseconds, accurate to a [`SCAN_STEPS`]th of `total_ms`.
pub fn best_wait(times: LogNormal, children: usize, upstream: Upstream, total_ms: f64) -> f64 {
    let step = total_ms / f64::from(SCAN_STEPS);
    let (mut came, mut counts) = (0.0, upstream.quality(total_ms));
    let (mut quality, mut best, mut wait) = (0.0, 0.0, 0.0);
    for at in 1..=SCAN_STEPS {
        let until = step * f64::from(at);
        let (came_next, counts_next) = (times.at_most(until), upstream.quality(total_ms - until));
        let at_risk = came - libm::pow(came, children as f64);
        quality += (came_next - came) * counts_next - at_risk * (counts - counts_next);
        if quality > best {
            (best, wait) = (quality, until);
        }
        (came, counts) = (came_next, counts_next);
    }
    wait
}

/// Φ⁻¹: the value below which a standard normal variable lies with probability `share`, in (0, 1).
///
/// Acklam's rational approximation, with a relative error of at most 1.2e-9.
fn normal_quantile(share: f64) -> f64 {
    const TAIL: f64 = 0.02425;
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] =
        [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
    let polynomial = |row: &[f64], x: f64| row.iter().fold(0.0, |sum, factor| sum * x + factor);
    let tail = |share: f64| {
        let q = libm::sqrt(-2.0 * libm::log(share));
        polynomial(&C, q) / polynomial(&D, q)
    };
    if share < TAIL {
        tail(share)
    } else if share > 1.0 - TAIL {
        -tail(1.0 - share)
    } else {
        let q = share - 0.5;
        polynomial(&A, q * q) * q / polynomial(&B, q * q)
    }
}

#[cfg(test)]
mod tests;
