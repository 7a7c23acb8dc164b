//! Errors of reading packets and their fields.
//!
//! Fields are counted from 0, as in the accessors.

use super::types::Type;

/// The reason why a packet could not be read. Nothing was changed, and no memory was allocated for its
/// contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The packet has no bytes, not even the number of fields.
    #[error("a packet has at least one byte, its number of fields, but there are no bytes")]
    Empty,
    /// The packet ends before the type of a field.
    #[error("the packet ends before field {field} of the {fields} it announces")]
    Missing {
        /// The first missing field.
        field: usize,
        /// The number of fields that the packet announces.
        fields: usize,
    },
    /// No type has this number.
    #[error("field {field} has type number {number:#04x}, which is unknown")]
    UnknownType {
        /// The field.
        field: usize,
        /// The type number found.
        number: u8,
    },
    /// The packet ends within a value.
    #[error("field {field}, a {kind}, takes {bytes} bytes, but only {left} are left")]
    Cut {
        /// The field.
        field: usize,
        /// The field's type.
        kind: Type,
        /// Bytes that the value claims.
        bytes: u64,
        /// Bytes left of the packet.
        left: usize,
    },
    /// The entries of a list and its length in bytes contradict each other.
    #[error(
        "field {field}, a {kind} of {entries} entries in {bytes} bytes, has entries of another total length"
    )]
    List {
        /// The field.
        field: usize,
        /// The field's type.
        kind: Type,
        /// Entries that the list claims.
        entries: u32,
        /// Bytes that the list claims for all its entries.
        bytes: usize,
    },
    /// A text is not valid UTF-8.
    #[error("field {field}, a {kind}, is not valid UTF-8: {cause}")]
    NotUtf8 {
        /// The field.
        field: usize,
        /// The field's type.
        kind: Type,
        /// The error with the position of the first invalid byte.
        cause: std::str::Utf8Error,
    },
    /// Bytes follow the last field.
    #[error("{bytes} bytes follow the last of {fields} fields")]
    Trailing {
        /// Number of bytes that follow.
        bytes: usize,
        /// Number of fields in the packet.
        fields: usize,
    },
    /// The reader asked for a field of another type.
    #[error("field {field} of a packet `{format}` is not of type {wanted}")]
    WrongType {
        /// The field.
        field: usize,
        /// The type that was asked for.
        wanted: Type,
        /// The packet's format.
        format: String,
    },
    /// The reader asked for a field that the packet does not have.
    #[error("a packet `{format}` of {fields} fields has no field {field}")]
    NoField {
        /// The field that was asked for.
        field: usize,
        /// Number of fields in the packet.
        fields: usize,
        /// The packet's format.
        format: String,
    },
}
