//! The interface between a guest and a node: names, types, and numbers packed into one result.
//!
//! `docs/wasm.md` is the specification, for authors of guests in any language. This module has the same
//! content as tables. The version is part of an export's name, not a function's result, so a node knows it
//! before any code of the guest runs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the ABI that this host implements.
pub const ABI_VERSION: u32 = 1;

/// Prefix of every name of the ABI.
pub(crate) const PREFIX: &str = "treefold_";
/// Prefix of the export whose name gives the guest's version.
pub(crate) const VERSION_PREFIX: &str = "treefold_abi_v";

pub(crate) const MEMORY: &str = "memory";
pub(crate) const INITIALIZE: &str = "_initialize";
pub(crate) const VERSION: &str = "treefold_abi_v1";
pub(crate) const ALLOC: &str = "treefold_alloc";
pub(crate) const TRAP_TEXT: &str = "treefold_trap_text";
pub(crate) const REDUCE: &str = "treefold_reduce";
pub(crate) const OPEN: &str = "treefold_filter_open";
pub(crate) const UP: &str = "treefold_filter_up";
pub(crate) const DOWN: &str = "treefold_filter_down";
pub(crate) const HOLDS_FROM: &str = "treefold_filter_holds_from";
pub(crate) const JOINED: &str = "treefold_filter_joined";
pub(crate) const REPLACED: &str = "treefold_filter_replaced";

/// Result of `treefold_filter_holds_from` for a filter that holds nothing.
pub(crate) const HOLDS_NOTHING: u64 = u64::MAX;

/// Bytes of a piece's record: kind, number, address, bytes, each a u32.
pub(crate) const PIECE_BYTES: usize = 16;
/// Bytes of a source's record: kind, number.
pub(crate) const SOURCE_BYTES: usize = 8;
/// Bytes of a packet's record: address, bytes.
pub(crate) const PACKET_BYTES: usize = 8;
/// Alignment of the addresses passed to a guest.
pub(crate) const ALIGNMENT: usize = 8;

/// The kind of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Merges two partials into one, without state.
    Reduce,
    /// Processes a stream's packets at a node, with state.
    Filter,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reduce => "reduce",
            Self::Filter => "filter",
        })
    }
}

/// A function that guests export.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// The type, as [`signature`](crate::contract::signature) writes it.
    pub(crate) signature: &'static str,
    /// The kind of guest that may export it; `None` for both kinds.
    pub(crate) kind: Option<Kind>,
    pub(crate) required: bool,
}

const fn function(
    name: &'static str,
    signature: &'static str,
    kind: Option<Kind>,
    required: bool,
) -> Function {
    Function { name, signature, kind, required }
}

/// Every function of the ABI.
pub(crate) const FUNCTIONS: [Function; 11] = [
    function(VERSION, "()", None, true),
    function(ALLOC, "(i32) -> i32", None, true),
    function(INITIALIZE, "()", None, false),
    function(TRAP_TEXT, "() -> i64", None, false),
    function(REDUCE, "(i32, i32, i32, i32, i32, i32) -> i64", Some(Kind::Reduce), true),
    function(OPEN, "(i32, i32) -> i64", Some(Kind::Filter), true),
    function(UP, "(i32, i32, i64, i64) -> i64", Some(Kind::Filter), true),
    function(DOWN, "(i32, i32, i64, i64) -> i64", Some(Kind::Filter), false),
    function(HOLDS_FROM, "() -> i64", Some(Kind::Filter), false),
    function(JOINED, "(i32, i32)", Some(Kind::Filter), false),
    function(REPLACED, "(i32, i32, i32, i32)", Some(Kind::Filter), false),
];

/// The unpacked result of a guest's function, not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returned {
    pub(crate) address: u32,
    /// Number of bytes or packets.
    pub(crate) number: u32,
    /// Whether the bytes are an error's text.
    pub(crate) is_error: bool,
}

impl From<u64> for Returned {
    fn from(packed: u64) -> Self {
        let low = packed as u32;
        Self { address: (packed >> 32) as u32, number: low & !(1 << 31), is_error: low >> 31 == 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_result_matches_the_specification() {
        let returned = |address, number, is_error| Returned { address, number, is_error };
        assert_eq!(Returned::from(0x1234_5678_0000_0009), returned(0x1234_5678, 9, false));
        assert_eq!(Returned::from(0x1234_5678_8000_0009), returned(0x1234_5678, 9, true));
        assert_eq!(Returned::from(u64::MAX), returned(u32::MAX, (1 << 31) - 1, true));
    }
}
