//! Processes, on a host and in a cluster.

use crate::host::{Host, Name};
use serde::{Deserialize, Serialize};

/// A process in a sample's interval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Its number on its host.
    pub pid: u32,
    /// What it is called.
    pub name: Name,
    /// Processor time used, in thousandths of a core.
    pub cpu_mcores: u64,
    /// Main memory that it occupies.
    pub rss_bytes: u64,
}

/// A process, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placed {
    /// Where.
    pub host: Host,
    /// Which.
    pub process: Process,
}
