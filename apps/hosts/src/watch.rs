//! A sampler that many may ask: the data of a partition of `hosts`.
//!
//! Calls come when they come. Two at once would cut the time between them into intervals too short to say anything,
//! so within [`INTERVAL_MIN`] everybody gets the same sample. After a long silence the interval since the last call
//! would be all of that silence, and an hour's average is not what "now" means: then a new interval is begun and
//! waited for, once, [`SETTLE`] long. Nobody asks, nothing is read: a host that is not looked at pays nothing.

use crate::error::SampleError;
use crate::host::Host;
use crate::sample::Sample;
use crate::sampler::Sampler;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Within this, whoever asks again gets the same sample.
pub const INTERVAL_MIN: Duration = Duration::from_millis(200);

/// An interval longer than this is not "now".
pub const INTERVAL_MAX: Duration = Duration::from_secs(15);

/// How long the first interval after a silence is. The asker waits for it.
pub const SETTLE: Duration = Duration::from_millis(250);

/// This host, for whoever asks.
#[derive(Debug)]
pub struct Watch {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sampler: Sampler,
    /// The last sample, and when it was taken.
    last: Option<(Instant, Sample)>,
}

impl Watch {
    /// Watches this host under the name and number of `host`.
    ///
    /// # Errors
    /// When the system's counters can't be read.
    pub fn start(host: Host) -> Result<Self, SampleError> {
        Ok(Self { state: Mutex::new(State { sampler: Sampler::new(host)?, last: None }) })
    }

    /// What the host is doing. Blocks for [`SETTLE`] when nobody has asked for [`INTERVAL_MAX`], or ever.
    ///
    /// # Errors
    /// When the system's counters can't be read.
    pub fn now(&self) -> Result<Sample, SampleError> {
        // A panic while sampling leaves the last reading as it was: the next one compares with it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sample)) = &state.last
            && at.elapsed() < INTERVAL_MIN
        {
            return Ok(sample.clone());
        }
        if state.sampler.interval() > INTERVAL_MAX {
            state.sampler.restart()?;
        }
        // Only an interval that has just begun is this short. Others wait on the lock and get the same sample.
        let interval = state.sampler.interval();
        if interval < INTERVAL_MIN {
            std::thread::sleep(SETTLE.saturating_sub(interval));
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
    fn who_asks_at_the_same_time_gets_the_same_sample() {
        let watch = Watch::start(Host::new(1, "here")).unwrap();
        let first = watch.now().unwrap();
        assert!(first.interval_ns >= SETTLE.as_nanos() as u64, "an interval is long enough to say something");
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| watch.now().unwrap());
            (watch.now().unwrap(), other.join().unwrap())
        });
        // On a machine that stood still for long enough these are later samples: but then of a whole interval.
        for again in [both.0, both.1] {
            assert!(again == first || again.interval_ns >= INTERVAL_MIN.as_nanos() as u64);
        }
    }
}
