//! The error of a guest: one line of text, which travels to the caller.

use alloc::borrow::Cow;
use core::fmt;

/// The result type of a guest's functions.
pub type Result<T = (), E = Error> = core::result::Result<T, E>;

/// The reason why there is no partial. A node cuts the text at its limit, by default 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, str>);

impl Error {
    /// Creates an error with this text.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Error {}
