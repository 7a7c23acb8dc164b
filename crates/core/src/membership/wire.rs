//! The primitives with which all of gossip is encoded.
//!
//! Every value has exactly one encoding (a varint is never longer than necessary). So equal values have equal
//! bytes, and a decoder accepts nothing that the encoder would not have written. A decoder never panics, and
//! never allocates more than the given bytes justify.

use crate::encoding::node::{MARK_V4, MARK_V6, take_marked};
use crate::encoding::numbers::{NumberError, put_number, take_number};
use crate::encoding::runs::{RunReader, RunsProblem};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::vec::Vec;
use core::fmt;

/// A field that could not be decoded or encoded. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecError {
    /// The field, as `thing.field`.
    pub field: &'static str,
    /// The problem.
    pub problem: CodecProblem,
}

/// Problems of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecProblem {
    /// The bytes end within the field.
    Truncated,
    /// The field is larger than its limit.
    TooLarge {
        /// The largest value allowed.
        limit: u64,
    },
    /// The field's value has no meaning.
    Unknown {
        /// The value.
        value: u64,
    },
    /// The field's value is not in its one valid encoding.
    NotCanonical,
    /// Bytes are left after the last field.
    Trailing,
    /// There is no room to write the field.
    NoRoom,
}

impl CodecError {
    pub(super) const fn new(field: &'static str, problem: CodecProblem) -> Self {
        Self { field, problem }
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field;
        match self.problem {
            CodecProblem::Truncated => write!(f, "{field} is cut short"),
            CodecProblem::TooLarge { limit } => write!(f, "{field} is larger than {limit}"),
            CodecProblem::Unknown { value } => write!(f, "{field} has the unknown value {value}"),
            CodecProblem::NotCanonical => write!(f, "{field} is not in its canonical encoding"),
            CodecProblem::Trailing => write!(f, "bytes are left after {field}"),
            CodecProblem::NoRoom => write!(f, "no room is left for {field}"),
        }
    }
}

impl core::error::Error for CodecError {}

pub(super) type Decoded<T> = Result<T, CodecError>;

/// Reads fields off the front of a slice.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, field: &'static str, count: usize) -> Decoded<&'a [u8]> {
        let (head, rest) =
            self.rest.split_at_checked(count).ok_or(CodecError::new(field, CodecProblem::Truncated))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Decoded<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(field, N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Decoded<u8> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    /// The one number that foca writes itself, big-endian: how many updates follow.
    pub(super) fn u16_be(&mut self, field: &'static str) -> Decoded<u16> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A varint of at most `limit`: seven bits a byte, least significant first, with no unnecessary byte.
    pub(super) fn varint(&mut self, field: &'static str, limit: u64) -> Decoded<u64> {
        let problem = match take_number(&mut self.rest) {
            Ok(value) if value <= limit => return Ok(value),
            Ok(_) | Err(NumberError::TooLarge) => CodecProblem::TooLarge { limit },
            Err(NumberError::Truncated) => CodecProblem::Truncated,
            Err(NumberError::NotShortest) => CodecProblem::NotCanonical,
        };
        Err(CodecError::new(field, problem))
    }

    pub(super) fn varint_u32(&mut self, field: &'static str, limit: u32) -> Decoded<u32> {
        // The limit is a u32, so a value within it fits.
        self.varint(field, limit.into()).map(|value| value as u32)
    }

    pub(super) fn text(&mut self, field: &'static str, bytes_max: usize) -> Decoded<&'a str> {
        let length = self.varint(field, bytes_max as u64)? as usize;
        core::str::from_utf8(self.bytes(field, length)?)
            .map_err(|_| CodecError::new(field, CodecProblem::NotCanonical))
    }

    pub(super) fn node(&mut self) -> Decoded<NodeId> {
        let mark = self.u8("node.family")?;
        if !matches!(mark, MARK_V4 | MARK_V6) {
            return Err(CodecError::new("node.family", CodecProblem::Unknown { value: mark.into() }));
        }
        let node = take_marked(mark, &mut self.rest);
        let node = node.ok_or(CodecError::new("node.addr", CodecProblem::Truncated))?;
        if node.addr.port() == 0 {
            // Port 0 is a client, to which no node can connect: it is never a member and never a peer.
            return Err(CodecError::new("node.port", CodecProblem::Unknown { value: 0 }));
        }
        Ok(node)
    }

    /// A set of `count` runs, of partitions below `end_max`.
    pub(super) fn partitions(
        &mut self,
        field: &'static str,
        count: u32,
        end_max: u32,
    ) -> Decoded<PartitionSet> {
        let mut runs = RunReader::new(self.rest, end_max);
        let set = runs.take_set(count).map_err(|problem| match problem {
            RunsProblem::Malformed => CodecError::new(field, CodecProblem::Truncated),
            RunsProblem::EndsAt(_) => {
                CodecError::new(field, CodecProblem::TooLarge { limit: end_max.into() })
            }
        })?;
        self.rest = runs.rest();
        Ok(set)
    }
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}
