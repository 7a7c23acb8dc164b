//! One stream of samples, from its opening to its last measured interval.
//!
//! The common intervals are as long as a sample, so each interval is worth one sample of each daemon. Only
//! intervals that end within the measured time count, but every interval is checked: it must contain all
//! daemons, follow its predecessor without a gap, and have for each metric the sum of all daemons' rates. The
//! shares are of numbers below a thousand, so their sums are exact to [`ROUNDING`].
//!
//! In trees, waves gather the n-th sample of all daemons (`wait_for_all`), and each node tells its filter
//! which endpoints have joined. If the filter runs here, samples come one by one and unsynchronised, and this
//! code tells the filter which endpoints exist.

use super::backends::{Backends, Cost, encoded};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use treefold::operators::filter::time_aligned::{Aligned, INTERVALS_MAX};
use treefold::operators::filter::{Filter, Piece, Source, Wave, builtin};
use treefold::{Body, Shape, Stream, StreamWave, Synchronisation};
use treefold_cli::commands::failure_of;
use treefold_cli::exit::Failure;
use treefold_cli::fleet::cost::{Ticks, machine_ticks};
use treefold_cli::serve::daemon::now_ns;
use treefold_daemon::{Injected, Part, Sampling, rates_of_all};

/// Largest skew of the daemons' clocks, and their largest drift, either way.
const SKEW_US_MAX: u32 = 20_000;
const DRIFT_PPM_MAX: u32 = 50;

/// Time from opening the stream to the beginning of the first sample.
const LEAD: Duration = Duration::from_millis(300);

/// Largest relative error of a sum due to rounding.
const ROUNDING: f64 = 1e-9;

/// Name of the aligning filter, in trees and at the front-end.
const FILTER: &str = "time-aligned";

/// Parameters of one measured stream.
pub(super) struct Trial {
    pub(super) shape: Shape,
    pub(super) seed: u64,
    pub(super) metrics: u32,
    pub(super) period_ns: u64,
    pub(super) warm_up_s: f64,
    pub(super) measured_s: f64,
    pub(super) patience: Duration,
}

/// Results of one trial.
pub(super) struct Outcome {
    pub(super) processed_share: f64,
    /// Times from the ends of intervals to their arrival, ascending.
    lags_ns: Vec<i64>,
    pub(super) cost: Cost,
    pub(super) machine_busy: f64,
    pub(super) elapsed: Duration,
}

impl Outcome {
    /// Returns the lag that this share of the intervals does not exceed; `None` if no interval came.
    pub(super) fn lag_ms(&self, share: f64) -> Option<f64> {
        let rank = (share * self.lags_ns.len() as f64).ceil() as usize;
        self.lags_ns.get(rank.max(1) - 1).map(|&ns| ns as f64 / 1e6)
    }
}

/// Parameters of the filter.
#[derive(Serialize, Deserialize)]
struct Params {
    interval_ns: u64,
    metrics: u32,
    intervals_max: u32,
}

impl Trial {
    pub(super) async fn run(&self, backends: &Backends) -> Result<Outcome, Failure> {
        let periods = |seconds: f64| ((seconds * 1e9 / self.period_ns as f64).round() as u64).max(1);
        let lead_ns = LEAD.as_nanos() as u64 + 1_000 * u64::from(SKEW_US_MAX);
        let start_ns = (now_ns() + lead_ns).next_multiple_of(self.period_ns);
        let from_ns = start_ns + periods(self.warm_up_s) * self.period_ns;
        let to_ns = from_ns + periods(self.measured_s) * self.period_ns;
        let (stream, here) = self.open(backends, start_ns).await?;
        let expected = rates_of_all(self.seed, self.metrics, backends.count());
        let tally = Tally {
            expected,
            endpoints: backends.count(),
            next_ns: start_ns,
            period_ns: self.period_ns,
            from_ns,
            to_ns,
            lags_ns: Vec::new(),
        };
        self.watch(backends, stream, here, tally).await
    }

    /// Opens the stream.
    ///
    /// For the flat shape also returns the filter, which then runs here.
    async fn open(
        &self,
        backends: &Backends,
        start_ns: u64,
    ) -> Result<(Stream, Option<Box<dyn Filter>>), Failure> {
        let injected = Injected {
            seed: self.seed,
            skew_us_max: SKEW_US_MAX,
            drift_ppm_max: DRIFT_PPM_MAX,
            delay_us_mean: 0,
            since_ns: start_ns,
        };
        let sampling = Sampling { injected, metrics: self.metrics, period_ns: self.period_ns, start_ns };
        let params =
            Params { interval_ns: self.period_ns, metrics: self.metrics, intervals_max: INTERVALS_MAX };
        let stream = backends.stream(self.shape);
        let (stream, here) = if self.shape == Shape::Flat {
            let kind = builtin(FILTER).expect("invariant: every node has this filter");
            let opened = kind.open(&encoded(&params)?);
            let mut filter = opened.map_err(|error| Failure::failed(error.to_string()))?;
            backends.all.iter().for_each(|endpoint| filter.joined(Source::Endpoint(endpoint)));
            (stream.synchronisation(Synchronisation::DoNotWait), Some(filter))
        } else {
            (stream.up_filter(FILTER).filter_params(&params), None)
        };
        Ok((backends.open(stream, &Part::Sample(sampling)).await?, here))
    }

    async fn watch(
        &self,
        backends: &Backends,
        mut stream: Stream,
        mut here: Option<Box<dyn Filter>>,
        mut tally: Tally,
    ) -> Result<Outcome, Failure> {
        let sleep_until =
            |at_ns: u64| tokio::time::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
        let mut moments: Vec<Moment> = Vec::new();
        let marks = [tally.from_ns, tally.to_ns, tally.to_ns + self.patience.as_nanos() as u64];
        while moments.len() < marks.len() {
            // All intervals have come, and both ends of the measured time have passed.
            if moments.len() == 2 && tally.next_ns >= tally.to_ns {
                break;
            }
            let mark = sleep_until(marks[moments.len()]);
            tokio::pin!(mark);
            loop {
                tokio::select! {
                    biased;
                    () = &mut mark => {
                        moments.push(Moment::now(backends)?);
                        break;
                    }
                    wave = stream.wave() => {
                        let wave = wave.map_err(failure_of)?;
                        for packet in aligned(wave, here.as_deref_mut())? {
                            tally.take(&packet, now_ns())?;
                        }
                        if moments.len() == 2 && tally.next_ns >= tally.to_ns {
                            break;
                        }
                    }
                }
            }
        }
        Ok(tally.outcome(&moments[0], &moments[1]))
    }
}

/// Returns the aligned intervals of a wave, aligned in the tree or here.
fn aligned(
    wave: StreamWave<Bytes>,
    here: Option<&mut (dyn Filter + 'static)>,
) -> Result<Vec<Bytes>, Failure> {
    if let Some(loss) = wave.missing.first() {
        return Err(Failure::failed(format!("samples are lost: {} of {}", loss.reason, loss.partitions)));
    }
    let Some(filter) = here else { return Ok(wave.packets) };
    let source = wave.contributors.least().map(Source::Endpoint);
    let source = source.ok_or_else(|| Failure::failed("a wave with a sample has no contributor"))?;
    let pieces: Vec<Piece> = wave.packets.into_iter().map(|payload| Piece { source, payload }).collect();
    let mut out = Vec::new();
    let folded = filter.up(Wave { tag: wave.tag, pieces: &pieces, now_ns: now_ns() }, &mut out);
    folded.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(out)
}

/// Processor time of the processes and of the machine at one instant.
struct Moment {
    at: Instant,
    cost: Cost,
    ticks: Ticks,
}

impl Moment {
    fn now(backends: &Backends) -> Result<Self, Failure> {
        let ticks =
            machine_ticks().map_err(|error| Failure::failed(format!("can't read /proc/stat: {error}")))?;
        Ok(Self { at: Instant::now(), cost: backends.cost()?, ticks })
    }
}

/// Checks intervals as they come and records their lags.
struct Tally {
    /// Expected sums, metric by metric.
    expected: Vec<f64>,
    endpoints: u32,
    /// Beginning of the next expected interval.
    next_ns: u64,
    period_ns: u64,
    from_ns: u64,
    to_ns: u64,
    lags_ns: Vec<i64>,
}

impl Tally {
    fn take(&mut self, packet: &Bytes, now_ns: u64) -> Result<(), Failure> {
        let aligned = Aligned::decode(packet).map_err(|error| Failure::failed(error.to_string()))?;
        let Aligned { start_ns, end_ns, endpoints, values } = aligned;
        let near = |(came, must): (&f64, &f64)| (came - must).abs() <= ROUNDING * must.max(1.0);
        let is_right = (start_ns, endpoints) == (self.next_ns, self.endpoints)
            && values.0.len() == self.expected.len()
            && values.0.iter().zip(&self.expected).all(near);
        if !is_right {
            let (next_ns, all) = (self.next_ns, self.endpoints);
            return Err(Failure::failed(format!(
                "an interval from {start_ns} of {endpoints} daemons sums to {values:?}; expected one \
                 from {next_ns} of {all} with {:?}",
                self.expected
            )));
        }
        self.next_ns += self.period_ns;
        if start_ns >= self.from_ns && end_ns <= self.to_ns {
            self.lags_ns.push(now_ns.cast_signed() - end_ns.cast_signed());
        }
        Ok(())
    }

    fn outcome(mut self, from: &Moment, to: &Moment) -> Outcome {
        self.lags_ns.sort_unstable();
        let offered = (self.to_ns - self.from_ns) / self.period_ns;
        let ticks = to.ticks - from.ticks;
        Outcome {
            processed_share: self.lags_ns.len() as f64 / offered as f64,
            lags_ns: self.lags_ns,
            cost: to.cost.since(from.cost),
            machine_busy: ticks.busy_s / ticks.capacity_s,
            elapsed: to.at - from.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        Tally {
            expected: vec![2.0, 9.0],
            endpoints: 2,
            next_ns: 100,
            period_ns: 10,
            from_ns: 110,
            to_ns: 130,
            lags_ns: Vec::new(),
        }
    }

    fn interval(start_ns: u64, endpoints: u32, values: Vec<f64>) -> Bytes {
        let aligned = Aligned { start_ns, end_ns: start_ns + 10, endpoints, values: values.into() };
        aligned.encode().unwrap()
    }

    #[test]
    fn correct_intervals_in_measured_time_count() {
        let mut tally = tally();
        for start_ns in [100, 110, 120, 130] {
            tally
                .take(&interval(start_ns, 2, vec![2.0, 9.0]), start_ns + 15)
                .map_err(|f| f.to_string())
                .unwrap();
        }
        assert_eq!(tally.lags_ns, [5, 5]);
    }

    #[test]
    fn gap_lost_daemon_and_wrong_sum_are_errors() {
        assert!(tally().take(&interval(110, 2, vec![2.0, 9.0]), 120).is_err());
        assert!(tally().take(&interval(100, 1, vec![2.0, 9.0]), 120).is_err());
        assert!(tally().take(&interval(100, 2, vec![2.0, 9.1]), 120).is_err());
        assert!(tally().take(&interval(100, 2, vec![2.0]), 120).is_err());
    }
}
