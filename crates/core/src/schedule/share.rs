//! What an application is to have of a node, and what it has had: what users set, and what they are shown.
//!
//! An application is a service. Its *share* counts against those of the others of its class; its *class* says who goes
//! first. Work of class *interactive* goes before work of class *batch*, and as batch work shall not starve, whoever of
//! it waits has [`BATCH_PART`] of the processor time all the same. Who waits alone has all of it.

use crate::schedule::fair::{SHARE_MAX, SHARE_MIN};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// What batch work has of the processor time, taken together, while interactive work waits.
pub const BATCH_PART: f64 = 0.05;

/// The name of the application that everything belongs to which no service here accounts for: streams of services that
/// this node has nothing of, and calls that it is merely the front of.
pub const OTHERS: &str = "*";

/// Settings in one request, at most.
pub const SETTINGS_MAX: usize = 256;

/// Who goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Class {
    /// Somebody waits for it.
    #[default]
    Interactive,
    /// It has time.
    Batch,
}

impl Class {
    /// As command lines and JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Batch => "batch",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Class {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "interactive" => Ok(Self::Interactive),
            "batch" => Ok(Self::Batch),
            _ => Err(()),
        }
    }
}

/// What an application is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceShare {
    /// Against those of others of its class, from [`SHARE_MIN`] to [`SHARE_MAX`].
    pub share: f64,
    /// Who goes first.
    pub class: Class,
}

impl ServiceShare {
    /// A share among those that go first.
    pub const fn interactive(share: f64) -> Self {
        Self { share, class: Class::Interactive }
    }

    /// A share among those that have time.
    pub const fn batch(share: f64) -> Self {
        Self { share, class: Class::Batch }
    }
}

impl Default for ServiceShare {
    fn default() -> Self {
        Self::interactive(1.0)
    }
}

impl From<f64> for ServiceShare {
    fn from(share: f64) -> Self {
        Self::interactive(share)
    }
}

impl fmt::Display for ServiceShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.share, self.class)
    }
}

/// Another share for an application of a node that runs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShareSetting {
    /// The service's name; [`OTHERS`] for what no service of the node accounts for.
    pub service: String,
    /// From [`SHARE_MIN`] to [`SHARE_MAX`].
    pub share: f64,
    /// Its class from now on; `None` when it stays as it is.
    pub class: Option<Class>,
}

/// Why shares were left as they were, all of them.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareError {
    /// There are too many settings.
    TooMany {
        /// How many there are.
        given: usize,
    },
    /// A share is outside its bounds.
    OutOfBounds {
        /// Whose.
        service: String,
        /// What was given.
        share: f64,
    },
    /// The node has no such service.
    UnknownService {
        /// The name.
        service: String,
        /// The names it has.
        known: Vec<Arc<str>>,
    },
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { given } => write!(f, "{given} shares at once; allowed: {SETTINGS_MAX}"),
            Self::OutOfBounds { service, share } => {
                write!(f, "the share of {service} is {share}; allowed: {SHARE_MIN} to {SHARE_MAX}")
            }
            Self::UnknownService { service, known } => {
                write!(f, "the node has no service {service}; it has: {}", known.join(", "))
            }
        }
    }
}

impl core::error::Error for ShareError {}

/// What each application of a node is to have, and what it has had.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SharesReport {
    /// The node's processors.
    pub processors: u32,
    /// How long the node has run.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub uptime: Duration,
    /// What is *recent*: so long ago, at most.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub window: Duration,
    /// Each application; last [`OTHERS`].
    pub services: Vec<ServiceAccount>,
}

/// What one application is to have, and what it has had.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceAccount {
    /// Its name.
    pub service: Arc<str>,
    /// What it is to have.
    pub share: ServiceShare,
    /// Processor time it has used since the node started, as measured: locals, folds and filters, on workers and on the
    /// loop.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub used: Duration,
    /// What of it is recent.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub recent: Duration,
    /// Jobs and runs of filters that have ended.
    pub jobs_done: u64,
    /// Those that wait for a processor.
    pub jobs_queued: usize,
    /// Predicted work of the calls that are open, waiting or at work.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub queued: Duration,
    /// Locals refused because its account was full, or because its queue was too long for their deadline.
    pub refused: u64,
    /// Bytes of partials that wait to be folded.
    pub held_bytes: usize,
    /// What they may be before children wait for credit.
    pub held_bytes_max: usize,
}
