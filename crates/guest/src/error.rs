//! What a guest says when it can't give a partial: one line, which travels to whoever called.

use alloc::borrow::Cow;
use core::fmt;

/// What a guest's functions give.
pub type Result<T = (), E = Error> = core::result::Result<T, E>;

/// Why there is no partial. A node cuts the text at its limit, by default 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Cow<'static, str>);

impl Error {
    /// An error that says `text`.
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
