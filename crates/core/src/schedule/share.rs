//! The shares of applications: what users set, and the report of what each application has used.
//!
//! An application is a service. Its *share* counts against the shares of the others of its class; its *class*
//! decides which work goes first. Work of class *interactive* goes before work of class *batch*. So that
//! batch work does not starve, waiting batch work still gets [`BATCH_PART`] of the processor time. Work that
//! waits alone gets all of it.

use crate::schedule::fair::{SHARE_MAX, SHARE_MIN};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// Part of the processor time for all batch work together while interactive work waits.
pub const BATCH_PART: f64 = 0.05;

/// The name of the application for all work that belongs to no service of this node.
///
/// That is: streams of services that this node does not have, and calls of which it is only the front.
pub const OTHERS: &str = "*";

/// Largest number of settings in one request.
pub const SETTINGS_MAX: usize = 256;

/// Decides which work goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Class {
    /// A caller waits for it.
    #[default]
    Interactive,
    /// It is not urgent.
    Batch,
}

impl Class {
    /// The name on command lines and in JSON.
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

/// The share and class set for an application.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceShare {
    /// Share against the others of its class, from [`SHARE_MIN`] to [`SHARE_MAX`].
    pub share: f64,
    /// The class, which decides which work goes first.
    pub class: Class,
}

impl ServiceShare {
    /// A share of class interactive.
    pub const fn interactive(share: f64) -> Self {
        Self { share, class: Class::Interactive }
    }

    /// A share of class batch.
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

/// A new share for an application of a running node.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShareSetting {
    /// The service's name; [`OTHERS`] for work that belongs to no service of the node.
    pub service: String,
    /// The share, from [`SHARE_MIN`] to [`SHARE_MAX`].
    pub share: f64,
    /// Its new class; `None` to keep the class.
    pub class: Option<Class>,
}

/// Why a change of shares was refused. All shares are as before.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareError {
    /// There are too many settings.
    TooMany {
        /// The number of settings.
        given: usize,
    },
    /// A share is outside its bounds.
    OutOfBounds {
        /// The service.
        service: String,
        /// The share given.
        share: f64,
    },
    /// The node has no such service.
    UnknownService {
        /// The name given.
        service: String,
        /// The names that the node has.
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

/// The share of each application of a node, and what each has used.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SharesReport {
    /// The node's processors.
    pub processors: u32,
    /// How long the node has run.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub uptime: Duration,
    /// How far back *recent* goes, at most.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub window: Duration,
    /// Each application; [`OTHERS`] comes last.
    pub services: Vec<ServiceAccount>,
}

/// The share of one application, and what it has used.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ServiceAccount {
    /// Its name.
    pub service: Arc<str>,
    /// Its share and class.
    pub share: ServiceShare,
    /// Measured processor time used since the node started: locals, folds and filters, on workers and on the
    /// loop.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub used: Duration,
    /// The recent part of it.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub recent: Duration,
    /// Jobs and runs of filters that have ended.
    pub jobs_done: u64,
    /// Jobs that wait for a processor.
    pub jobs_queued: usize,
    /// Predicted work of open calls, waiting or running.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub queued: Duration,
    /// Locals refused because its account was full, or because its queue was too long for their deadline.
    pub refused: u64,
    /// Bytes of partials that wait to be folded.
    pub held_bytes: usize,
    /// Limit of these bytes, beyond which children wait for credit.
    pub held_bytes_max: usize,
}
