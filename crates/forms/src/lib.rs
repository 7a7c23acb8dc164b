//! How calls, answers and the state of nodes are written: options as text, values and reports as JSON.
//!
//! The command line and the gateway accept and give the same forms, so both use this crate:
//!
//! - [`parse`]: a call's options as text, refused with the library's own errors.
//! - [`value`]: MessagePack as JSON, and JSON as MessagePack.
//! - [`packet`]: the payloads of streams as JSON and as text.
//! - [`json`]: answers of calls and the status of a node.
//! - [`shares`]: the shares of a node's services.
//! - [`stream`]: a stream's settings as text, and its waves as JSON.
#![allow(missing_docs, reason = "the forms of this repository's own programs")]

pub mod json;
pub mod packet;
pub mod parse;
pub mod shares;
pub mod stream;
pub mod value;

use serde::Serializer;

/// Rounds a figure to three decimals for JSON, since no measurement is more precise.
pub fn rounded<S: Serializer>(figure: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((figure * 1e3).round() / 1e3)
}
