//! Throughput and processor time, measured between two moments while calls or waves are in flight, so that
//! filling and draining the pipeline do not count.

use crate::exit::Failure;
use crate::fleet::cost::cpu_time;
use crate::fleet::processes::Processes;
use std::time::{Duration, Instant};

/// Waves and processor time up to one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    at: Instant,
    waves: u64,
    nodes_cpu: Duration,
    own_cpu: Duration,
}

/// Waves and processor time between two moments, with at least one wave.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    waves: u64,
    elapsed: Duration,
    nodes_cpu: Duration,
    own_cpu: Duration,
}

impl Moment {
    /// Reads the counters now, when `waves` waves have come back.
    pub fn of(nodes: &Processes, waves: u64) -> Result<Self, Failure> {
        let own = cpu_time(std::process::id());
        let own_cpu =
            own.map_err(|error| Failure::failed(format!("can't read this process's clock: {error}")))?;
        let nodes_cpu = nodes.cpu_times()?.iter().sum();
        Ok(Self { at: Instant::now(), waves, nodes_cpu, own_cpu })
    }

    /// Returns the span from here to a later moment.
    ///
    /// # Errors
    /// If no wave came back between them.
    pub fn until(&self, later: &Self) -> Result<Span, Failure> {
        let (waves, elapsed) = (later.waves - self.waves, later.at - self.at);
        if waves == 0 {
            let seconds = elapsed.as_secs_f64();
            return Err(Failure::failed(format!(
                "no wave came back within {seconds:.1} s; increase --seconds"
            )));
        }
        let (nodes_cpu, own_cpu) = (later.nodes_cpu - self.nodes_cpu, later.own_cpu - self.own_cpu);
        Ok(Span { waves, elapsed, nodes_cpu, own_cpu })
    }
}

impl Span {
    pub fn waves_per_s(&self) -> f64 {
        self.waves as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the processor time per wave of all processes, including this one.
    pub fn cpu_us_per_wave(&self) -> f64 {
        self.per_wave_us(self.nodes_cpu + self.own_cpu)
    }

    /// Returns the processor time per wave of this process.
    pub fn own_cpu_us_per_wave(&self) -> f64 {
        self.per_wave_us(self.own_cpu)
    }

    fn per_wave_us(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.waves as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at: Instant, waves: u64, nodes_us: u64, own_us: u64) -> Moment {
        let (nodes_cpu, own_cpu) = (Duration::from_micros(nodes_us), Duration::from_micros(own_us));
        Moment { at, waves, nodes_cpu, own_cpu }
    }

    #[test]
    fn span_counts_waves_and_time_between_two_moments() {
        let began_at = Instant::now();
        let before = moment(began_at, 10, 500, 70);
        let after = moment(began_at + Duration::from_secs(2), 14, 580, 90);
        let span = before.until(&after).unwrap();
        let figures = [span.waves_per_s(), span.cpu_us_per_wave(), span.own_cpu_us_per_wave()];
        assert_eq!(figures.map(f64::round), [2.0, 25.0, 5.0]);
        assert!(before.until(&before).is_err());
    }
}
