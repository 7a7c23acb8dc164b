//! A sampler for several callers: the data of a partition of `hosts`.
//!
//! Calls arrive at any time. Two calls at once would cut the time between them into intervals too short for
//! a useful sample, so all calls within [`INTERVAL_MIN`] get the same sample. After a long silence, the
//! interval since the last call would be the whole silence, and an hour's average is not "now". In this
//! case the watch begins a new interval and waits for it, once, for [`FIRST_INTERVAL`]. Without calls nothing is
//! read, so a host that is not observed has no cost.

use crate::error::SampleError;
use crate::host::Host;
use crate::sample::Sample;
use crate::sampler::Sampler;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Calls within this time get the same sample.
pub const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// A longer interval does not count as "now".
pub const INTERVAL_MAX: Duration = Duration::from_secs(15);

/// Length of the first interval after a silence. The caller waits for it.
pub const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// Samples this host for any number of callers.
#[derive(Debug)]
pub struct Watch {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sampler: Sampler,
    /// The last sample, and the time when it was taken.
    last: Option<(Instant, Sample)>,
}

impl Watch {
    /// Watches this host, which is named `host` in samples.
    ///
    /// # Errors
    /// If the system's counters cannot be read.
    pub fn start(host: Host) -> Result<Self, SampleError> {
        Ok(Self { state: Mutex::new(State { sampler: Sampler::new(host)?, last: None }) })
    }

    /// A sample of the host's current activity. Blocks for up to [`FIRST_INTERVAL`] on the first call, and if the
    /// last sample is older than [`INTERVAL_MAX`].
    ///
    /// # Errors
    /// If the system's counters cannot be read.
    pub fn now(&self) -> Result<Sample, SampleError> {
        // A panic while sampling leaves the last reading unchanged, and the next sample compares with it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sample)) = &state.last
            && at.elapsed() < INTERVAL_MIN
        {
            return Ok(sample.clone());
        }
        if state.sampler.interval() > INTERVAL_MAX {
            state.sampler.restart()?;
        }
        // Only an interval that has just begun is this short. Other callers wait for the lock and get the
        // same sample.
        let interval = state.sampler.interval();
        if interval < INTERVAL_MIN {
            std::thread::sleep(FIRST_INTERVAL.saturating_sub(interval));
        }
        let sample = state.sampler.sample()?;
        state.last = Some((Instant::now(), sample.clone()));
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_callers_get_the_same_sample() {
        let watch = Watch::start(Host::new(1, "here")).unwrap();
        let first = watch.now().unwrap();
        assert!(
            first.interval_ns >= FIRST_INTERVAL.as_nanos() as u64,
            "the interval is long enough for a useful sample"
        );
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| watch.now().unwrap());
            (watch.now().unwrap(), other.join().unwrap())
        });
        // If the machine stood still for long enough, these are later samples, but of a whole interval.
        for again in [both.0, both.1] {
            assert!(again == first || again.interval_ns >= INTERVAL_MIN.as_nanos() as u64);
        }
    }
}
