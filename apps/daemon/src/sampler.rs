//! Samples: amounts over intervals of a daemon's own clock.
//!
//! Each metric of each daemon grows at its own rate, a whole number per period, so that every result of a
//! filter can be checked to the last sample: over an aligned interval of one period, the sum of a metric is
//! the sum of the daemons' rates. Metric 0 grows by 1 per period everywhere: it counts samples.
//!
//! Daemons sample in different phases. Every daemon's first sample begins at the common start and is
//! between one and two periods long; later samples are one period long. So every daemon has filled the
//! first common interval with its first sample, and after the first wave every node has heard from all
//! sources below it. An alignment by waves therefore cannot close an interval before it knows all its
//! sources.

use crate::clock::Clock;
use crate::draw::{Draw, Purpose};
use crate::request::{Sampling, SamplingError};
use treefold_operators::filter::time_aligned::Sample;

/// Upper bound of amounts per period, exclusive.
const RATE_MAX: u64 = 1_000;

/// One daemon's samples, in order.
#[derive(Clone, Debug)]
pub struct Sampler {
    clock: Clock,
    rates: Vec<f64>,
    period_ns: u64,
    start_ns: u64,
    end_ns: u64,
}

impl Sampler {
    /// The sampler of a daemon.
    ///
    /// # Errors
    /// If a field of `sampling` is out of bounds.
    pub fn new(sampling: &Sampling, endpoint: u32) -> Result<Self, SamplingError> {
        sampling.check()?;
        let Sampling { injected, metrics, period_ns, start_ns } = *sampling;
        let phase = Draw::new(injected.seed, Purpose::Phase, u64::from(endpoint)).uniform();
        Ok(Self {
            clock: Clock::of_daemon(&injected, endpoint),
            rates: rates(injected.seed, metrics, endpoint),
            period_ns,
            start_ns,
            end_ns: start_ns + period_ns + (phase * period_ns as f64) as u64,
        })
    }

    /// The time of the next sample, in true ns since the Unix epoch.
    pub fn due_ns(&self) -> u64 {
        self.clock.true_ns(self.end_ns)
    }

    /// The next sample.
    pub fn next_sample(&mut self) -> Sample {
        let (start_ns, end_ns) = (self.start_ns, self.end_ns);
        let periods = (end_ns - start_ns) as f64 / self.period_ns as f64;
        let values: Vec<f64> = self.rates.iter().map(|rate| rate * periods).collect();
        (self.start_ns, self.end_ns) = (end_ns, end_ns + self.period_ns);
        Sample { start_ns, end_ns, values: values.into() }
    }
}

/// Amounts per period of a daemon's metrics.
pub fn rates(seed: u64, metrics: u32, endpoint: u32) -> Vec<f64> {
    let mut draw = Draw::new(seed, Purpose::Metrics, u64::from(endpoint));
    let drawn = (1..metrics).map(|_| draw.below(RATE_MAX) as f64);
    std::iter::once(1.0).chain(drawn.collect::<Vec<_>>()).take(metrics as usize).collect()
}

/// The amount by which each metric grows per period, over all daemons.
pub fn rates_of_all(seed: u64, metrics: u32, daemons: u32) -> Vec<f64> {
    let mut all = vec![0.0; metrics as usize];
    for endpoint in 0..daemons {
        for (sum, rate) in all.iter_mut().zip(rates(seed, metrics, endpoint)) {
            *sum += rate;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Injected;
    use crate::request::{PERIOD_NS_MAX, START_NS_MAX};
    use treefold_operators::Body;
    use treefold_operators::filter::time_aligned::{Aligned, METRICS_MAX};
    use treefold_operators::filter::{Piece, Source, Wave, builtin};

    const START_NS: u64 = 1_800_000_000_000_000_000;
    const PERIOD_NS: u64 = 200_000_000;

    fn sampling() -> Sampling {
        let injected = Injected {
            seed: 2,
            skew_us_max: 20_000,
            drift_ppm_max: 50,
            since_ns: START_NS,
            ..Injected::default()
        };
        Sampling { injected, metrics: 5, period_ns: PERIOD_NS, start_ns: START_NS }
    }

    #[test]
    fn samples_follow_on_each_other_and_are_due_when_they_end() {
        let mut sampler = Sampler::new(&sampling(), 3).unwrap();
        let clock = Clock::of_daemon(&sampling().injected, 3);
        let mut end_ns = START_NS;
        for nth in 0..50 {
            let due_ns = sampler.due_ns();
            let sample = sampler.next_sample();
            assert_eq!(sample.start_ns, end_ns);
            assert!(clock.reading_ns(due_ns).abs_diff(sample.end_ns) <= 2);
            end_ns = sample.end_ns;
            let periods = (sample.end_ns - sample.start_ns) as f64 / PERIOD_NS as f64;
            assert!(if nth == 0 { (1.0..2.0).contains(&periods) } else { periods == 1.0 });
            assert_eq!(sample.values.0[0], periods);
        }
    }

    #[test]
    fn samples_that_cannot_be_sent_are_refused_by_name() {
        let refused = |sampling| Sampler::new(&sampling, 0).unwrap_err().to_string();
        assert_eq!(
            refused(Sampling { metrics: 4_000_000_000, ..sampling() }),
            "`metrics` of the samples is 4000000000, not within 1 to 4096"
        );
        assert_eq!(
            refused(Sampling { period_ns: 0, ..sampling() }),
            "`period_ns` of the samples is 0, not within 1000 to 86400000000000"
        );
        assert_eq!(
            refused(Sampling { start_ns: u64::MAX, ..sampling() }),
            "`start_ns` of the samples is 18446744073709551615, not within 0 to 9223372036854775807"
        );
        let injected = Injected { drift_ppm_max: u32::MAX, since_ns: 0, ..sampling().injected };
        let most =
            Sampling { injected, period_ns: PERIOD_NS_MAX, start_ns: START_NS_MAX, metrics: METRICS_MAX };
        for endpoint in 0..16 {
            let mut sampler = Sampler::new(&most, endpoint).unwrap();
            (0..3).for_each(|_| drop((sampler.due_ns(), sampler.next_sample())));
        }
    }

    #[test]
    fn wave_aligned_intervals_are_the_sum_of_all_rates() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Params {
            interval_ns: u64,
            metrics: u32,
        }
        let params = Params { interval_ns: PERIOD_NS, metrics: 5 }.encode().unwrap();
        let mut filter = builtin("time-aligned").unwrap().open(&params).unwrap();
        let mut samplers: Vec<Sampler> =
            (0..9).map(|daemon| Sampler::new(&sampling(), daemon).unwrap()).collect();
        let expected = rates_of_all(2, 5, 9);
        let mut intervals = 0;
        for tag in 0..20 {
            let piece = |(daemon, sampler): (usize, &mut Sampler)| Piece {
                source: Source::Endpoint(daemon as u32),
                payload: sampler.next_sample().encode().unwrap(),
            };
            let pieces: Vec<Piece> = samplers.iter_mut().enumerate().map(piece).collect();
            let mut out = Vec::new();
            let now_ns = START_NS + (tag + 2) * PERIOD_NS; // when the last of them is due
            filter.up(Wave { tag, pieces: &pieces, now_ns }, &mut out).unwrap();
            assert!(tag > 0 || out.len() == 1, "the first wave fills the first interval");
            for packet in out {
                let aligned = Aligned::decode(&packet).unwrap();
                assert_eq!((aligned.start_ns, aligned.endpoints), (START_NS + intervals * PERIOD_NS, 9));
                let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6 * b.max(1.0);
                assert!(aligned.values.0.iter().zip(&expected).all(near), "{aligned:?} {expected:?}");
                intervals += 1;
            }
        }
        assert!(intervals >= 20);
    }
}
