//! Learned waiting: as long as the children's own times say is worth it (Cedar, EuroSys'16).
//!
//! An aggregator that waits longer hears of more children, and risks that what it has comes too late above. With
//! F the distribution of the children's times, k children, D the time until the call's end, and `q(x)` the chance
//! that an answer given with x left still counts, waiting from c to c + ε changes the expected quality by
//!
//! ```text
//!   [F(c+ε) − F(c)]·q(D−c−ε)  −  [F(c) − F(c)^k]·[q(D−c) − q(D−c−ε)]
//! ```
//!
//! the children that come meanwhile, less those already here whose answer is put at risk, unless all were here
//! and the aggregator long gone ([`best_wait`]). The wait is where the sum is greatest.
//!
//! F is log-normal, and differs from call to call: that is where the gain lies, for were it always the same, any
//! fixed split of D in proportion to the means would be as good. So it is estimated while children come. They
//! come in order, so the i-th of k is an order statistic: with `mᵢ = Φ⁻¹((i − 0.375)/(k + 0.25))` (Blom's
//! score), two neighbours give `σᵢ = (ln tᵢ₊₁ − ln tᵢ)/(mᵢ₊₁ − mᵢ)` and `μᵢ = ln tᵢ − σᵢ·mᵢ`, and the averages are
//! the estimate ([`Arrivals`]). Nobody is misled by hearing of the quick ones first. What earlier calls were like
//! counts for as much as [`PRIOR_PAIRS`] neighbours, and so fades as children come.
//!
//! `q` is log-normal too ([`Upstream`]): its mean is the time that staged waiting kept for the levels above, its
//! spread that of the folds measured here. When nothing is measured, or above is only the requester, it is a step
//! at that time. Below [`CHILDREN_MIN`] children the estimate is noise, and the rule is *staged*.

/// With fewer children than this their times say nothing.
pub const CHILDREN_MIN: usize = 10;
/// How many neighbouring arrivals the past counts for.
pub const PRIOR_PAIRS: f64 = 4.0;
/// Neighbouring arrivals that must have come before an estimate is made without a past.
pub const PAIRS_MIN: f64 = 3.0;
/// Steps in which the wait is looked for.
pub const SCAN_STEPS: u32 = 128;
/// The bounds of a log-normal's σ: narrower than any clock, and wider than any service.
const SIGMA_BOUNDS: (f64, f64) = (0.01, 4.0);
/// Times are taken to be at least this, so that each has a logarithm.
const MILLIS_LEAST: f64 = 1e-6;

/// A log-normal distribution of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    mu: f64,
    sigma: f64,
}

impl LogNormal {
    /// The distribution of `exp(N(mu, sigma²))`; none when either is not finite. σ is kept within 0.01 and 4.
    pub fn new(mu: f64, sigma: f64) -> Option<Self> {
        let (least, most) = SIGMA_BOUNDS;
        (mu.is_finite() && sigma.is_finite()).then(|| Self { mu, sigma: sigma.clamp(least, most) })
    }

    /// The one with this mean and this ratio of deviation to mean.
    pub fn of_mean(mean_ms: f64, variation: f64) -> Option<Self> {
        let variance = libm::log(1.0 + variation * variation);
        Self::new(libm::log(mean_ms.max(MILLIS_LEAST)) - variance / 2.0, libm::sqrt(variance))
    }

    /// The mean of the logarithms.
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// The deviation of the logarithms.
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The share that is at most `millis`.
    pub fn at_most(&self, millis: f64) -> f64 {
        if millis <= 0.0 {
            return 0.0;
        }
        let z = (libm::log(millis) - self.mu) / self.sigma;
        0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
    }
}

/// What the children that have come say of all of this call's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    expected: usize,
    came: usize,
    /// The logarithm of the last one's time, and its score.
    last: (f64, f64),
    pairs: f64,
    sigma_sum: f64,
    mu_sum: f64,
}

impl Arrivals {
    /// Nobody has come yet of the `expected`.
    pub fn new(expected: usize) -> Self {
        Self { expected, came: 0, last: (0.0, 0.0), pairs: 0.0, sigma_sum: 0.0, mu_sum: 0.0 }
    }

    /// How many were expected at the start.
    pub fn expected(&self) -> usize {
        self.expected
    }

    /// The next child has come, `millis` after it was asked. Children are told of in the order they come.
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

    /// The distribution of this call's times, given what earlier calls were like.
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

/// What the levels above still need once they have this node's answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Upstream {
    /// This many milliseconds.
    Step(f64),
    /// Now more, now less.
    Spread(LogNormal),
}

impl Upstream {
    /// The chance that an answer given with `left_ms` left still counts.
    pub fn quality(&self, left_ms: f64) -> f64 {
        match self {
            Self::Step(need_ms) => f64::from(u8::from(left_ms >= *need_ms)),
            Self::Spread(need) => need.at_most(left_ms),
        }
    }
}

/// How long to wait for `children` children whose times are distributed as `times`, when the call's end is
/// `total_ms` away: in milliseconds, to within a [`SCAN_STEPS`]th of that.
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

/// Φ⁻¹: below which value a standard normal variable lies with probability `share`, in (0, 1).
///
/// Acklam's rational approximation, off by 1.2e-9 of the value at most.
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
