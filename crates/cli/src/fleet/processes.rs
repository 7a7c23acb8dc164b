//! Named processes to measure, so that an error names the process that died.

use super::cost::{Footprint, cpu_time, footprint};
use crate::exit::Failure;
use std::io;
use std::time::Duration;

/// Names and ids of processes.
#[derive(Clone, Debug, Default)]
pub struct Processes(Vec<(String, u32)>);

impl Processes {
    /// Takes pairs of name and process id.
    pub fn new(named: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(named.into_iter().collect())
    }

    /// Returns the processor time of each process so far, or an error if one has died.
    pub fn cpu_times(&self) -> Result<Vec<Duration>, Failure> {
        self.of_each(cpu_time)
    }

    /// Returns the memory and threads of each process now, or an error if one has died.
    pub fn footprints(&self) -> Result<Vec<Footprint>, Failure> {
        self.of_each(footprint)
    }

    fn of_each<T>(&self, measure: impl Fn(u32) -> io::Result<T>) -> Result<Vec<T>, Failure> {
        let died = |name: &str, error: io::Error| Failure::failed(format!("{name} died: {error}"));
        self.0.iter().map(|(name, id)| measure(*id).map_err(|error| died(name, error))).collect()
    }
}
