//! Processes that are measured, by name, so that one that has died is told from the others.

use super::cost::{Footprint, cpu_time, footprint};
use crate::exit::Failure;
use std::io;
use std::time::Duration;

/// Processes, whoever started them.
#[derive(Clone, Debug, Default)]
pub struct Processes(Vec<(String, u32)>);

impl Processes {
    /// The processes of these names and ids.
    pub fn new(named: impl IntoIterator<Item = (String, u32)>) -> Self {
        Self(named.into_iter().collect())
    }

    /// Processor time of each so far; an error when one has died.
    pub fn cpu_times(&self) -> Result<Vec<Duration>, Failure> {
        self.of_each(cpu_time)
    }

    /// What each holds now; an error when one has died.
    pub fn footprints(&self) -> Result<Vec<Footprint>, Failure> {
        self.of_each(footprint)
    }

    fn of_each<T>(&self, measure: impl Fn(u32) -> io::Result<T>) -> Result<Vec<T>, Failure> {
        let died = |name: &str, error: io::Error| Failure::failed(format!("{name} died: {error}"));
        self.0.iter().map(|(name, id)| measure(*id).map_err(|error| died(name, error))).collect()
    }
}
