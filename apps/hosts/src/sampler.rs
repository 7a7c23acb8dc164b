//! Takes samples of this host, one interval after the other.

use crate::counters::Counters;
use crate::delta::between;
use crate::error::SampleError;
use crate::host::Host;
use crate::read::Reader;
use crate::sample::Sample;
use std::time::Duration;

/// Measures this host: each sample is of the time since the one before.
///
/// For whoever has a pace of their own, as an endpoint of a stream has. Processor time is counted by the system in
/// hundredths of a second, so that intervals below some 200 ms say little.
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
    /// A sampler that calls this host `host`. The first interval begins now.
    ///
    /// # Errors
    /// When the system's counters can't be read.
    pub fn new(host: Host) -> Result<Self, SampleError> {
        let mut reader = Reader::new()?;
        let last = reader.read()?;
        Ok(Self { host, reader, last })
    }

    /// What the host did since the last sample.
    ///
    /// # Errors
    /// When the system's counters can't be read; the interval then goes on.
    pub fn sample(&mut self) -> Result<Sample, SampleError> {
        let now = self.reader.read()?;
        let sample = between(&self.host, &self.last, &now);
        self.last = now;
        Ok(sample)
    }

    /// Begins a new interval, and says nothing of the last.
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    pub fn restart(&mut self) -> Result<(), SampleError> {
        self.last = self.reader.read()?;
        Ok(())
    }

    /// How long the interval is so far.
    pub fn interval(&self) -> Duration {
        self.last.at.elapsed()
    }
}

/// What this host calls itself.
pub fn host_name() -> String {
    crate::read::host_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_its_own_process_and_what_it_costs() {
        let mut sampler = Sampler::new(Host::new(1, "here")).unwrap();
        let spin = || (0..1 << 24).for_each(|step: u64| assert!(std::hint::black_box(step) >> 24 == 0));
        // Time is counted in hundredths of a second, and a busy machine may leave us few of them.
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
