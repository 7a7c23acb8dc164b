//! Processes, on one host and in a cluster.

use crate::host::{Host, Name};
use serde::{Deserialize, Serialize};

/// A process in a sample's interval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Its process id on its host.
    pub pid: u32,
    /// Its name.
    pub name: Name,
    /// Processor time used, in thousandths of a core.
    pub cpu_mcores: u64,
    /// Main memory that it occupies.
    pub rss_bytes: u64,
}

/// A process with its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placed {
    /// The host.
    pub host: Host,
    /// The process.
    pub process: Process,
}
