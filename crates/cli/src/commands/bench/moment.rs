//! Throughput and its price, taken between two moments while everything is under way, so that filling and draining
//! don't count.

use super::cost::cpu_time;
use super::processes::Processes;
use crate::exit::Failure;
use std::time::{Duration, Instant};

/// What has been done and spent up to now.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    at: Instant,
    waves: u64,
    nodes_cpu: Duration,
    own_cpu: Duration,
}

/// What was done and spent from one moment to another; there were waves in it.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    waves: u64,
    elapsed: Duration,
    nodes_cpu: Duration,
    own_cpu: Duration,
}

impl Moment {
    /// Now, when so many waves have come back.
    pub fn of(nodes: &Processes, waves: u64) -> Result<Self, Failure> {
        let own = cpu_time(std::process::id());
        let own_cpu =
            own.map_err(|error| Failure::failed(format!("can't read this process's clock: {error}")))?;
        let nodes_cpu = nodes.cpu_times()?.iter().sum();
        Ok(Self { at: Instant::now(), waves, nodes_cpu, own_cpu })
    }

    /// From here to a later moment.
    ///
    /// # Errors
    /// When not a single wave came back.
    pub fn until(&self, later: &Self) -> Result<Span, Failure> {
        let (waves, elapsed) = (later.waves - self.waves, later.at - self.at);
        if waves == 0 {
            let seconds = elapsed.as_secs_f64();
            return Err(Failure::failed(format!(
                "no wave came back within {seconds:.1} s; give it more --seconds"
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

    /// Processor time of all processes, this one's included, per wave.
    pub fn cpu_us_per_wave(&self) -> f64 {
        self.per_wave_us(self.nodes_cpu + self.own_cpu)
    }

    /// This process's part of it.
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
    fn what_lies_between_two_moments_is_counted() {
        let began_at = Instant::now();
        let before = moment(began_at, 10, 500, 70);
        let after = moment(began_at + Duration::from_secs(2), 14, 580, 90);
        let span = before.until(&after).unwrap();
        let figures = [span.waves_per_s(), span.cpu_us_per_wave(), span.own_cpu_us_per_wave()];
        assert_eq!(figures.map(f64::round), [2.0, 25.0, 5.0]);
        assert!(before.until(&before).is_err());
    }
}
