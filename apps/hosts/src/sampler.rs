//! Takes samples of this host, interval by interval.

use crate::counters::Counters;
use crate::delta::between;
use crate::error::SampleError;
use crate::host::Host;
use crate::read::Reader;
use crate::sample::Sample;
use std::time::Duration;

/// Measures this host: each sample covers the time since the previous one.
///
/// Use it in programs with a fixed pace, such as an endpoint of a stream. The system counts processor time
/// in hundredths of a second, so samples of intervals below about 200 ms are inaccurate.
///
/// ```
/// use treefold_hosts::{Host, Sampler};
///
/// let mut sampler = Sampler::new(Host::new(7, &treefold_hosts::sampler::host_name()))?;
/// let sample = sampler.sample()?;
/// assert!(sample.figures.memory_bytes > 0);
/// # Ok::<(), treefold_hosts::SampleError>(())
/// ```
#[derive(Debug)]
pub struct Sampler {
    host: Host,
    reader: Reader,
    last: Counters,
}

impl Sampler {
    /// A sampler for this host, which is named `host` in samples. The first interval begins now.
    ///
    /// # Errors
    /// If the system's counters cannot be read.
    pub fn new(host: Host) -> Result<Self, SampleError> {
        let mut reader = Reader::new()?;
        let last = reader.read()?;
        Ok(Self { host, reader, last })
    }

    /// Takes a sample of the time since the last one.
    ///
    /// # Errors
    /// If the system's counters cannot be read; the interval then continues.
    pub fn sample(&mut self) -> Result<Sample, SampleError> {
        let now = self.reader.read()?;
        let sample = between(&self.host, &self.last, &now);
        self.last = now;
        Ok(sample)
    }

    /// Begins a new interval and discards the current one.
    ///
    /// # Errors
    /// As for [`sample`](Self::sample).
    pub fn restart(&mut self) -> Result<(), SampleError> {
        self.last = self.reader.read()?;
        Ok(())
    }

    /// Length of the current interval so far.
    pub fn interval(&self) -> Duration {
        self.last.at.elapsed()
    }
}

/// The name of this host, as the system reports it.
pub fn host_name() -> String {
    crate::read::host_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_its_own_process_and_its_cost() {
        let mut sampler = Sampler::new(Host::new(1, "here")).unwrap();
        let spin = || (0..1 << 24).for_each(|step: u64| assert!(std::hint::black_box(step) >> 24 == 0));
        // Time is counted in hundredths of a second, and on a busy machine this process may get few of
        // them.
        let (sample, own) = (0..1000)
            .find_map(|_| {
                spin();
                let sample = sampler.sample().unwrap();
                let own = sample.processes.iter().find(|process| process.pid == std::process::id()).cloned();
                own.filter(|own| own.cpu_mcores > 0).map(|own| (sample, own))
            })
            .expect("a process that spins is among the busiest");
        assert!(own.rss_bytes > 0 && sample.interval_ns > 0, "{own:?}");
        assert!(sample.figures.cores as usize >= sample.cores_permille.len());
        assert!(sample.figures.memory_available_bytes <= sample.figures.memory_bytes);
        assert!(sample.figures.disk_used_bytes <= sample.figures.disk_bytes);
    }
}
