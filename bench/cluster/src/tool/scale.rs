//! Number of daemons, number of processes, and the trees over them.

use clap::Args;
use treefold::{PartitionSet, Shape};
use treefold_cli::exit::Failure;
use treefold_cli::fleet::NODES_MAX;
use treefold_cli::parse;

/// Default limit on processes.
///
/// If there are more daemons, they share processes.
const PROCESSES: u32 = 64;

/// Largest number of emulated daemons on one machine.
const BACKENDS_MAX: i64 = 65_536;

#[derive(Debug, Args)]
pub(super) struct Scale {
    /// Number of daemons
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=BACKENDS_MAX))]
    pub(super) backends: u32,

    /// Number of daemons that share a process [default: as many as needed for at most 64 processes]
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=BACKENDS_MAX))]
    per_process: Option<u32>,

    /// Tree shapes to compare in turn over the same processes, separated by commas: flat, kary:K, binomial,
    /// chain
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', default_value = "flat,kary:8", value_parser = parse::shape)]
    pub(super) shape: Vec<Shape>,

    /// Seed of daemons, programs, clocks and amounts
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,
}

impl Scale {
    /// Returns the number of daemons in a process.
    pub(super) fn per_process(&self) -> u32 {
        self.per_process.unwrap_or(self.backends.div_ceil(PROCESSES)).min(self.backends)
    }

    /// Returns the daemons of each process.
    pub(super) fn processes(&self) -> Result<Vec<PartitionSet>, Failure> {
        let each = self.per_process();
        let of_process =
            |first: u32| PartitionSet::from_range(first..first.saturating_add(each).min(self.backends));
        let processes: Vec<PartitionSet> =
            (0..self.backends).step_by(each as usize).map(of_process).collect();
        if processes.len() as i64 > NODES_MAX {
            let said = format!("{} processes; allowed: at most {NODES_MAX}", processes.len());
            return Err(Failure::usage(format!("{said}; let more daemons share one with --per-process")));
        }
        Ok(processes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(backends: u32, per_process: Option<u32>) -> Scale {
        Scale { backends, per_process, shape: Vec::new(), seed: 1 }
    }

    #[test]
    fn every_daemon_lives_in_one_process() {
        for (backends, per_process, processes) in [
            (4, None, 4),
            (64, None, 64),
            (65, None, 33),
            (512, None, 64),
            (512, Some(2), 256),
            (3, Some(9), 1),
        ] {
            let sets = scale(backends, per_process).processes().unwrap_or_default();
            assert_eq!(sets.len(), processes, "{backends} {per_process:?}");
            let all = sets.iter().fold(PartitionSet::new(), |mut all, set| {
                assert!(!all.intersects(set));
                all.union_with(set);
                all
            });
            assert_eq!(all, PartitionSet::first(backends));
        }
        assert!(scale(65_536, Some(1)).processes().is_err());
    }
}
