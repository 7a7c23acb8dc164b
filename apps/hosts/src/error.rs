//! Why a host can't be measured.

use std::io;

/// A measure that was not taken. What was known before stays: the next attempt compares with the last reading.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A source of figures can't be read.
    #[error("can't read {what}")]
    Read {
        /// The file, or what the system was asked for.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// A source of figures makes no sense.
    #[error("can't make sense of {what}: {problem}")]
    Senseless {
        /// The file, or what the system was asked for.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl SampleError {
    #[cfg(target_os = "linux")]
    pub(crate) fn read(what: impl Into<String>, source: io::Error) -> Self {
        Self::Read { what: what.into(), source }
    }

    pub(crate) fn senseless(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Senseless { what: what.into(), problem: problem.into() }
    }
}
