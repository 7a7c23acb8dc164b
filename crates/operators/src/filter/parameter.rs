//! Parameters of filters: read once, when the stream opens, and refused by name.
//!
//! A stream's parameters are a MessagePack map, and each filter's are a struct with a default for every field
//! that has a sensible one: no parameters are the defaults, and a field nobody knows is an error rather than
//! a typing mistake that goes unnoticed. What is well-formed and still makes no sense is a
//! [`ParameterError`].

use crate::codec::Body;
use crate::error::Result;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A parameter that makes no sense; the stream is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{field}`: {why}")]
pub struct ParameterError {
    /// Its name.
    pub field: &'static str,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

impl ParameterError {
    pub(super) fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// The parameters in `params`; an empty payload is the defaults.
pub(super) fn read<P>(params: &Bytes) -> Result<P>
where
    P: Serialize + DeserializeOwned + Default + Send + 'static,
{
    if params.is_empty() { Ok(P::default()) } else { Ok(P::decode(params)?) }
}

/// `value` when it is within `least..=most`, else an error that says so.
pub(super) fn within<T>(field: &'static str, value: T, least: T, most: T) -> Result<T, ParameterError>
where
    T: Copy + PartialOrd + std::fmt::Display,
{
    // Written so that a NaN is within nothing.
    if value >= least && value <= most {
        return Ok(value);
    }
    Err(ParameterError::new(field, format!("{value} is not within {least} to {most}")))
}
