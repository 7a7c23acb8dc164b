//! Errors of measuring a host.

use std::io;

/// A sample could not be taken. The last reading is kept, and the next attempt compares with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleError {
    /// A source of figures cannot be read.
    #[error("can't read {what}")]
    Read {
        /// The file, or the system interface.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A source of figures has invalid content.
    #[error("can't make sense of {what}: {problem}")]
    Senseless {
        /// The file, or the system interface.
        what: String,
        /// The reason.
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
