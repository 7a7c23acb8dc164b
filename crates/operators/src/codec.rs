//! Bodies: what a payload holds, and how it becomes bytes and back.
//!
//! Core moves payloads without looking inside; whoever folds or shows one must know its encoding, so each
//! payload's codec travels beside it. Anything `serde` can write and read is a body in MessagePack, with
//! structs as maps by *field name*: a few bytes more, and in return a call can be made from the command line
//! or from Python with nothing but JSON in hand, and a field can be added without breaking who doesn't know
//! it. [`Raw`] is bytes as they are, never copied.
//!
//! Invariants: a body is exactly one value (bytes after it are an error, not ignored); an empty payload reads
//! as nil, so a call without parameters is a call with none; nesting is bounded, so hostile bytes can't
//! overflow the stack. A body of up to [`INLINE_BYTES_MAX`] encoded bytes costs one allocation of exactly its
//! size.

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::type_name;
use std::fmt;
use std::io;

#[cfg(feature = "arrow")]
mod batch;
#[cfg(feature = "arrow")]
pub use batch::{BATCH_COLUMNS_MAX, BATCH_ROWS_MAX, Batch, concatenated};

/// Bodies up to this many encoded bytes are gathered on the stack and cost one allocation.
pub const INLINE_BYTES_MAX: usize = 128;

/// How deeply a MessagePack body may nest before it is refused.
pub const NESTING_DEPTH_MAX: usize = 128;

/// What a body starts with on the heap once the stack is too small for it.
const SPILLED_BYTES_MIN: usize = 1024;

/// MessagePack's nil, which an empty payload stands for.
const NIL: &[u8] = &[0xc0];

/// How a payload is encoded. The number is what goes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Bytes whose meaning only the aggregation knows.
    Raw = 0,
    /// One MessagePack value, structs as maps by field name.
    MessagePack = 1,
    /// An Arrow IPC stream: a record batch (`Batch`, with the feature `arrow`).
    ArrowIpc = 2,
    /// A typed packet: a row of numbers, texts and arrays ([`Packet`](crate::packet::Packet)).
    Packet = 3,
}

/// A codec number this version doesn't know.
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

/// Why a body could not be written or read. The payload it was read from is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The value doesn't go into this codec.
    #[error("can't write {type_name} as {codec}: {cause}")]
    Encode {
        /// The codec asked for.
        codec: Codec,
        /// The type that was to be written.
        type_name: &'static str,
        /// What the codec says.
        cause: String,
    },
    /// The bytes aren't such a value.
    #[error("can't read {type_name} from {bytes} bytes of {codec}: {cause}")]
    Decode {
        /// The codec asked for.
        codec: Codec,
        /// The type that was to be read.
        type_name: &'static str,
        /// How long the payload is.
        bytes: usize,
        /// What the codec says.
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

/// What can be a payload: parameters, or a partial.
///
/// Everything that is `Serialize + DeserializeOwned + Send + 'static` is one already, in MessagePack.
pub trait Body: Sized + Send + 'static {
    /// How it is encoded.
    const CODEC: Codec;

    /// The body as bytes.
    ///
    /// # Errors
    /// [`BodyError::Encode`] when the value doesn't go into the codec.
    fn encode(&self) -> Result<Bytes, BodyError>;

    /// Appends the body's bytes to `buffer`.
    ///
    /// # Errors
    /// As [`encode`](Self::encode); `buffer` is then as it was.
    fn encode_into(&self, buffer: &mut BytesMut) -> Result<(), BodyError> {
        buffer.extend_from_slice(&self.encode()?);
        Ok(())
    }

    /// The body that `bytes` hold.
    ///
    /// # Errors
    /// [`BodyError::Decode`] unless they hold exactly one such value.
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
        let refused =
            |cause: &dyn fmt::Display| BodyError::decode::<T>(Codec::MessagePack, bytes.len(), cause);
        let whole = if bytes.is_empty() { NIL } else { bytes.as_ref() };
        let mut reader = rmp_serde::Deserializer::from_read_ref(whole);
        reader.set_max_depth(NESTING_DEPTH_MAX);
        let value = T::deserialize(&mut reader).map_err(|error| refused(&error))?;
        // The reader doesn't say how far it got, but asked for one more value it must find the end. Asked for
        // a scalar, since within a sequence it would meet the end too.
        match bool::deserialize(&mut reader) {
            Err(rmp_serde::decode::Error::InvalidMarkerRead(_)) => Ok(value),
            _ => Err(refused(&"there is more after the value")),
        }
    }
}

/// Writes `value` as MessagePack, structs as maps by field name.
fn write_named<T: Serialize>(value: &T, to: &mut impl io::Write) -> Result<(), BodyError> {
    let mut writer = rmp_serde::Serializer::new(to).with_struct_map();
    value.serialize(&mut writer).map_err(|error| BodyError::encode::<T>(Codec::MessagePack, &error))
}

/// How many bytes `value` has in MessagePack, without writing them anywhere.
pub(crate) fn encoded_bytes<T: Serialize>(value: &T) -> Result<u64, BodyError> {
    let mut counted = Counted(0);
    write_named(value, &mut counted)?;
    Ok(counted.0)
}

/// Gathers a body on the stack, and on the heap once it outgrows [`INLINE_BYTES_MAX`].
///
/// A growing `Vec` would allocate several times for a small body and leave `Bytes` to allocate once more for
/// its reference count; copying what lies on the stack allocates once, exactly.
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

    /// Makes room for so many bytes more, at once instead of by and by.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        if self.inline_len + bytes > INLINE_BYTES_MAX {
            self.spill(self.inline_len + bytes);
            self.spilled.reserve(bytes);
        }
    }

    /// What has been gathered so far.
    #[inline]
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        if self.spilled.is_empty() { &mut self.inline[..self.inline_len] } else { &mut self.spilled }
    }

    /// Goes on on the heap, with room for `bytes`.
    fn spill(&mut self, bytes: usize) {
        if self.spilled.is_empty() {
            self.spilled.reserve(bytes.max(SPILLED_BYTES_MIN));
            self.spilled.extend_from_slice(&self.inline[..self.inline_len]);
        }
    }

    #[inline]
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.spilled.is_empty() {
            Bytes::copy_from_slice(&self.inline[..self.inline_len])
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
