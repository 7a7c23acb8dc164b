//! Bodies: the contents of payloads, and their encodings.
//!
//! Core moves payloads without looking inside. Code that folds or shows a payload must know its encoding, so
//! each payload's codec travels beside it. Every type that `serde` can write and read is a body in
//! MessagePack, with structs encoded as maps by *field name*. Field names cost a few bytes more. In return,
//! the command line or Python can make a call from plain JSON, and a field can be added without breaking
//! readers that do not know it. [`Raw`] holds bytes as they are and never copies them.
//!
//! Invariants: a body is exactly one value (bytes after it are an error, not ignored). An empty payload reads
//! as nil, so a call without parameters needs no bytes. Nesting is bounded, so hostile bytes can't overflow
//! the stack. A body of up to [`INLINE_BYTES_MAX`] encoded bytes costs one allocation of exactly its size.

use bytes::{Bytes, BytesMut};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde::{Deserialize, Serialize};
use std::any::type_name;
use std::fmt;
use std::io;
use std::marker::PhantomData;

#[cfg(feature = "arrow")]
mod batch;
pub mod in_place;
pub mod short;
mod transcode;
#[cfg(feature = "arrow")]
pub use batch::{BATCH_COLUMNS_MAX, BATCH_ROWS_MAX, Batch, concatenated};
pub use transcode::transcode;

/// Largest encoded body, in bytes, that is gathered on the stack and then costs one allocation.
pub const INLINE_BYTES_MAX: usize = 128;

/// Deepest nesting of a MessagePack body; a deeper one is an error.
pub const NESTING_DEPTH_MAX: usize = 128;

/// Least capacity in bytes that is reserved on the heap once a body outgrows the stack buffer.
const SPILLED_BYTES_MIN: usize = 1024;

/// MessagePack's nil. An empty payload is read as this value.
const NIL: &[u8] = &[0xc0];

/// The encoding of a payload. The number is the one on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Bytes whose meaning only the aggregation knows.
    Raw = 0,
    /// One MessagePack value, structs as maps by field name.
    MessagePack = 1,
    /// An Arrow IPC stream that holds a record batch (`Batch`, with the feature `arrow`).
    ArrowIpc = 2,
    /// A typed packet: a row of numbers, texts and arrays ([`Packet`](crate::packet::Packet)).
    Packet = 3,
}

/// A codec number that this version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payload codec {0} is unknown (0 is raw, 1 MessagePack, 2 Arrow IPC, 3 typed packet)")]
pub struct UnknownCodec(pub u8);

impl TryFrom<u8> for Codec {
    type Error = UnknownCodec;

    fn try_from(number: u8) -> Result<Self, UnknownCodec> {
        match number {
            0 => Ok(Self::Raw),
            1 => Ok(Self::MessagePack),
            2 => Ok(Self::ArrowIpc),
            3 => Ok(Self::Packet),
            unknown => Err(UnknownCodec(unknown)),
        }
    }
}

impl From<Codec> for u8 {
    fn from(codec: Codec) -> Self {
        codec as u8
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::MessagePack => "MessagePack",
            Self::ArrowIpc => "Arrow IPC",
            Self::Packet => "typed packet",
        })
    }
}

/// An error from writing or reading a body. The payload it was read from is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The codec cannot represent the value.
    #[error("can't write {type_name} as {codec}: {cause}")]
    Encode {
        /// The codec asked for.
        codec: Codec,
        /// The type of the value.
        type_name: &'static str,
        /// The codec's error message.
        cause: String,
    },
    /// The bytes are not one value of this type.
    #[error("can't read {type_name} from {bytes} bytes of {codec}: {cause}")]
    Decode {
        /// The codec asked for.
        codec: Codec,
        /// The type that was expected.
        type_name: &'static str,
        /// Length of the payload in bytes.
        bytes: usize,
        /// The codec's error message.
        cause: String,
    },
}

impl BodyError {
    #[cold]
    fn encode<T>(codec: Codec, cause: &dyn fmt::Display) -> Self {
        Self::Encode { codec, type_name: type_name::<T>(), cause: cause.to_string() }
    }

    #[cold]
    pub(crate) fn decode<T>(codec: Codec, bytes: usize, cause: &dyn fmt::Display) -> Self {
        Self::Decode { codec, type_name: type_name::<T>(), bytes, cause: cause.to_string() }
    }
}

/// A type that can be a payload: parameters or a partial.
///
/// Every type that is `Serialize + DeserializeOwned + Send + 'static` implements it already, in MessagePack.
pub trait Body: Sized + Send + 'static {
    /// The encoding of this type.
    const CODEC: Codec;

    /// Encodes the body as bytes.
    ///
    /// # Errors
    /// [`BodyError::Encode`] if the codec cannot represent the value.
    fn encode(&self) -> Result<Bytes, BodyError>;

    /// Appends the body's bytes to `buffer`.
    ///
    /// # Errors
    /// As [`encode`](Self::encode). On an error, `buffer` is left unchanged.
    fn encode_into(&self, buffer: &mut BytesMut) -> Result<(), BodyError> {
        buffer.extend_from_slice(&self.encode()?);
        Ok(())
    }

    /// Decodes the body from `bytes`.
    ///
    /// # Errors
    /// [`BodyError::Decode`] unless `bytes` hold exactly one value of this type.
    fn decode(bytes: &Bytes) -> Result<Self, BodyError>;
}

/// Bytes whose meaning only the aggregation knows; encoding and decoding share them and never copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Raw(pub Bytes);

impl Body for Raw {
    const CODEC: Codec = Codec::Raw;

    fn encode(&self) -> Result<Bytes, BodyError> {
        Ok(self.0.clone())
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        Ok(Self(bytes.clone()))
    }
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Body for T {
    const CODEC: Codec = Codec::MessagePack;

    fn encode(&self) -> Result<Bytes, BodyError> {
        let mut gathered = Gathered::new();
        write_named(self, &mut gathered)?;
        Ok(gathered.into_bytes())
    }

    fn encode_into(&self, buffer: &mut BytesMut) -> Result<(), BodyError> {
        let before = buffer.len();
        write_named(self, &mut Appended(buffer)).inspect_err(|_| buffer.truncate(before))
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        let whole = if bytes.is_empty() { NIL } else { bytes.as_ref() };
        one_value(whole).map_err(|cause| BodyError::decode::<T>(Codec::MessagePack, bytes.len(), &cause))
    }
}

/// Reads bytes that are one MessagePack value, and nothing after it.
///
/// # Errors
/// The reason why they are not.
pub fn one_value<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    one_value_by(PhantomData::<T>, bytes)
}

/// As [`one_value`], with a seed that makes the value.
///
/// # Errors
/// The reason why the bytes are not one value of this kind.
pub fn one_value_by<'a, S: DeserializeSeed<'a>>(seed: S, bytes: &'a [u8]) -> Result<S::Value, String> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(NESTING_DEPTH_MAX);
    let value = seed.deserialize(&mut reader).map_err(|error| error.to_string())?;
    // The deserializer does not report how many bytes it read, so ask it for one more value. It must find the end: an
    // error of another kind means that bytes follow, which need not be a value. The value is a scalar, because within a
    // sequence an early end would look the same.
    match bool::deserialize(&mut reader) {
        Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(value),
        _ => Err("more bytes follow the value".to_owned()),
    }
}

/// Writes `value` as MessagePack, with structs as maps by field name.
fn write_named<T: Serialize>(value: &T, to: &mut impl io::Write) -> Result<(), BodyError> {
    let mut writer = rmp_serde::Serializer::new(to).with_struct_map();
    value.serialize(&mut writer).map_err(|error| BodyError::encode::<T>(Codec::MessagePack, &error))
}

/// Counts the bytes that `value` takes in MessagePack without storing them.
pub(crate) fn encoded_bytes<T: Serialize>(value: &T) -> Result<u64, BodyError> {
    let mut counted = Counted(0);
    write_named(value, &mut counted)?;
    Ok(counted.0)
}

/// Gathers a body on the stack, and moves to the heap when it outgrows [`INLINE_BYTES_MAX`].
///
/// For a small body, a growing `Vec` would allocate several times, and `Bytes` would allocate once more for
/// its reference count. Copying from the stack allocates once, with the exact size.
#[derive(Clone)]
pub(crate) struct Gathered {
    inline: [u8; INLINE_BYTES_MAX],
    inline_len: usize,
    spilled: Vec<u8>,
}

impl Gathered {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { inline: [0; INLINE_BYTES_MAX], inline_len: 0, spilled: Vec::new() }
    }

    /// Reserves room for `bytes` more bytes at once.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        if self.inline_len + bytes > INLINE_BYTES_MAX {
            self.spill(self.inline_len + bytes);
            self.spilled.reserve(bytes);
        }
    }

    /// Returns the bytes gathered so far.
    #[inline]
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        if self.spilled.is_empty() { &mut self.inline[..self.inline_len] } else { &mut self.spilled }
    }

    /// Moves to the heap, with room for at least `bytes`.
    fn spill(&mut self, bytes: usize) {
        if self.spilled.is_empty() {
            self.spilled.reserve(bytes.max(SPILLED_BYTES_MIN));
            self.spilled.extend_from_slice(&self.inline[..self.inline_len]);
        }
    }

    #[inline]
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.spilled.is_empty() {
            short::copied(&self.inline[..self.inline_len])
        } else {
            Bytes::from(self.spilled)
        }
    }
}

impl io::Write for Gathered {
    #[inline]
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.write_all(part)?;
        Ok(part.len())
    }

    #[inline]
    fn write_all(&mut self, part: &[u8]) -> io::Result<()> {
        let end = self.inline_len + part.len();
        if self.spilled.is_empty() && end <= INLINE_BYTES_MAX {
            self.inline[self.inline_len..end].copy_from_slice(part);
            self.inline_len = end;
            return Ok(());
        }
        self.spill(end);
        self.spilled.extend_from_slice(part);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Appended<'a>(&'a mut BytesMut);

impl io::Write for Appended<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Counted(u64);

impl io::Write for Counted {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.0 += part.len() as u64;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
