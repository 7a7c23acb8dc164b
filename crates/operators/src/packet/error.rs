//! Why bytes are no packet, and why a packet is not the one that was meant.
//!
//! Fields are counted from 0, as the accessors do.

use super::types::Type;

/// Why a packet could not be read. Nothing was changed, and no more memory taken than the bytes already had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// There is not even the number of fields.
    #[error("a packet has one byte at least, its number of fields; there are none")]
    Empty,
    /// The packet ends where a field's type should be.
    #[error("the packet ends before field {field} of the {fields} it announces")]
    Missing {
        /// The first field that isn't there.
        field: usize,
        /// How many were announced.
        fields: usize,
    },
    /// No type has that number.
    #[error("field {field} has type number {number:#04x}, which is unknown")]
    UnknownType {
        /// Which field.
        field: usize,
        /// The number.
        number: u8,
    },
    /// The packet ends within a value.
    #[error("field {field}, a {kind}, takes {bytes} bytes, of which {left} are there")]
    Cut {
        /// Which field.
        field: usize,
        /// Its type.
        kind: Type,
        /// How many bytes it claims.
        bytes: u64,
        /// How many are left of the packet.
        left: usize,
    },
    /// The entries of a list and its length in bytes contradict each other.
    #[error("field {field}, a {kind} of {entries} entries in {bytes} bytes, is not filled by them")]
    List {
        /// Which field.
        field: usize,
        /// Its type.
        kind: Type,
        /// How many entries it claims.
        entries: u32,
        /// How many bytes it claims for all of them.
        bytes: usize,
    },
    /// A text is no UTF-8.
    #[error("field {field}, a {kind}, is no UTF-8: {cause}")]
    NotUtf8 {
        /// Which field.
        field: usize,
        /// Its type.
        kind: Type,
        /// Where it ceases to be.
        cause: std::str::Utf8Error,
    },
    /// There is more after the last field.
    #[error("{bytes} bytes follow the last of {fields} fields")]
    Trailing {
        /// How many bytes.
        bytes: usize,
        /// How many fields there are.
        fields: usize,
    },
    /// The reader asked for a field of another type.
    #[error("field {field} of a packet `{format}` is no {wanted}")]
    WrongType {
        /// Which field.
        field: usize,
        /// The type that was asked for.
        wanted: Type,
        /// The packet's format.
        format: String,
    },
    /// The reader asked for a field that isn't there.
    #[error("a packet `{format}` of {fields} fields has no field {field}")]
    NoField {
        /// Which field.
        field: usize,
        /// How many there are.
        fields: usize,
        /// The packet's format.
        format: String,
    },
}
