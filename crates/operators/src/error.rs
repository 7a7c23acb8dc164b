//! The error type of operators.
//!
//! For the tree, an operator's error is one line: the reason why a partition is missing. One type therefore
//! covers all errors. Any `std` error converts to it with `?`, and printing it prints the whole chain of
//! causes. As with `anyhow`, that blanket conversion is possible only because this type does not implement
//! `std::error::Error` itself.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// The result type of operators.
pub type Result<T, E = OperatorError> = core::result::Result<T, E>;

type Cause = Box<dyn Error + Send + Sync>;

/// The reason why an operator returned no partial: a message, a cause, or both.
///
/// ```
/// use treefold_operators::{OperatorError, Result};
///
/// fn shard_size(text: &str) -> Result<u64> {
///     if text.is_empty() {
///         return Err(OperatorError::new("this shard has no size"));
///     }
///     Ok(text.parse()?) // any std error converts with `?`
/// }
///
/// assert_eq!(shard_size("").unwrap_err().to_string(), "this shard has no size");
/// assert_eq!(shard_size("x").unwrap_err().to_string(), "invalid digit found in string");
/// ```
pub struct OperatorError(Box<Reason>); // boxed, so that it adds only one pointer to a result

struct Reason {
    message: Cow<'static, str>,
    cause: Option<Cause>,
    is_of_params: bool,
    faulty: Option<u32>,
}

impl Reason {
    fn new(message: Cow<'static, str>, cause: Option<Cause>) -> Self {
        Self { message, cause, is_of_params: false, faulty: None }
    }
}

impl OperatorError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Reason::new(message.into(), None)))
    }

    /// Creates an error whose text is `message` followed by `cause`.
    pub fn caused_by(message: impl Into<Cow<'static, str>>, cause: impl Into<Cause>) -> Self {
        Self(Box::new(Reason::new(message.into(), Some(cause.into()))))
    }

    /// The error of an operator that does not accept the parameters of a call. The caller gets an error, and no reply
    /// that lacks every partition.
    pub fn invalid_params(cause: impl Into<Cause>) -> Self {
        let mut error = Self::caused_by("", cause);
        error.0.is_of_params = true;
        error
    }

    /// True if the operator does not accept the parameters.
    pub fn is_of_params(&self) -> bool {
        self.0.is_of_params
    }

    /// Blames one of the partials that a reduce was given: 0 for `a`, 1 for `b`. Only its partitions are then lost. Use it
    /// for a partial that is invalid by itself; if two partials only do not fit together, blame neither: both are lost.
    #[must_use]
    pub fn in_partial(mut self, at: u32) -> Self {
        self.0.faulty = Some(at);
        self
    }

    /// The one partial that is to blame ([`in_partial`](Self::in_partial)).
    pub fn faulty_partial(&self) -> Option<u32> {
        self.0.faulty
    }

    /// The error of an operator that found that nobody waits for its result ([`cancelled`](crate::cancelled)).
    pub fn cancelled() -> Self {
        Self::new("nobody waits for the result any longer")
    }

    /// Puts a description of the failed operation in front of the message.
    #[must_use]
    pub fn context(mut self, doing: impl fmt::Display) -> Self {
        self.0.message = match self.0.message.is_empty() {
            true => doing.to_string().into(),
            false => format!("{doing}: {}", self.0.message).into(),
        };
        self
    }

    /// Returns the error that caused this one, to tell kinds apart:
    /// `error.cause()?.downcast_ref::<MergeError>()`.
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.0.cause.as_deref()
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for OperatorError {
    #[cold]
    fn from(error: E) -> Self {
        Self(Box::new(Reason::new(Cow::Borrowed(""), Some(Box::new(error)))))
    }
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut colon = if self.0.message.is_empty() { "" } else { ": " };
        let mut next = self.cause().map(|cause| cause as &(dyn Error + 'static));
        while let Some(cause) = next {
            write!(f, "{colon}{cause}")?;
            colon = ": ";
            next = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorError({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("shard {0} is not readable")]
    struct Unreadable(u32, #[source] std::io::Error);

    fn unreadable() -> Unreadable {
        Unreadable(3, std::io::Error::other("disk gone"))
    }

    #[test]
    fn display_prints_the_whole_chain_of_causes() {
        assert_eq!(OperatorError::from(unreadable()).to_string(), "shard 3 is not readable: disk gone");
        assert_eq!(
            OperatorError::caused_by("top-k failed", unreadable()).context("local").to_string(),
            "local: top-k failed: shard 3 is not readable: disk gone"
        );
        assert_eq!(
            OperatorError::from(unreadable()).context("local").to_string(),
            "local: shard 3 is not readable: disk gone"
        );
    }

    #[test]
    fn cause_can_be_downcast_to_its_type() {
        let error = OperatorError::from(unreadable());
        assert_eq!(error.cause().and_then(|cause| cause.downcast_ref::<Unreadable>()).map(|e| e.0), Some(3));
        assert!(OperatorError::new("no cause").cause().is_none());
    }

    #[test]
    fn a_result_costs_one_pointer_more_at_most() {
        assert_eq!(size_of::<OperatorError>(), size_of::<usize>());
    }
}
