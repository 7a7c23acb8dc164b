//! Arrow record batches as bodies: an IPC stream that holds one schema and any number of batches.
//!
//! Reading shares the payload: columns are slices of the received bytes. A column is copied only if its
//! address has the wrong alignment for its type. Writing copies once.
//!
//! The bytes come from another node and are not trusted. Arrow's reader validates the contents of a column
//! (offsets, UTF-8, null counts), but reads each buffer from the place that the message names. [`Frames`]
//! therefore checks the framing first: every message must lie within the payload, every buffer within its
//! message's body, and the numbers of columns and rows must not exceed [`BATCH_COLUMNS_MAX`] and
//! [`BATCH_ROWS_MAX`]. Rows need their own limit, because columns of nulls and batches without columns can
//! claim any number of rows in no bytes. On the remaining errors, such as a buffer that ends within a value,
//! the reader panics. The panic is caught and returned as an error.

use super::{Body, BodyError, Codec};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use bytes::{BufMut, Bytes, BytesMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most columns that a batch may have.
pub const BATCH_COLUMNS_MAX: usize = 1024;

/// Most rows that a batch may have. All batches of one payload together must not exceed it either.
pub const BATCH_ROWS_MAX: usize = 1 << 24;

/// Marker in front of a message's length since version 0.15 of the format.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// A record batch as a payload; encoded as an Arrow IPC stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch(pub RecordBatch);

/// Concatenates `batches` into one. There must be at least one, and all must have the same schema.
///
/// # Errors
/// If the list is empty, the schemas differ, or the batches have more than [`BATCH_ROWS_MAX`] rows together.
pub fn concatenated(batches: &[Batch]) -> Result<Batch, ArrowError> {
    let Some(first) = batches.first() else {
        return Err(ArrowError::InvalidArgumentError("an empty list of batches has no schema".to_owned()));
    };
    let rows: usize = batches.iter().map(|batch| batch.0.num_rows()).sum();
    if rows > BATCH_ROWS_MAX {
        return Err(too_many("rows", rows, BATCH_ROWS_MAX));
    }
    if let [only] = batches {
        return Ok(only.clone());
    }
    let schema = first.0.schema();
    for batch in &batches[1..] {
        let theirs = batch.0.schema_ref();
        if schema.fields() != theirs.fields() {
            let pairs = schema.fields().iter().zip(theirs.fields());
            let differs = pairs.into_iter().find(|(ours, theirs)| ours != theirs);
            let said = match differs {
                Some((ours, theirs)) => {
                    format!("column `{}` differs from column `{}`", theirs.name(), ours.name())
                }
                None => format!("{} columns came with {}", theirs.fields().len(), schema.fields().len()),
            };
            return Err(ArrowError::SchemaError(said));
        }
    }
    concat_batches(&schema, batches.iter().map(|batch| &batch.0)).map(Batch)
}

fn too_many(what: &str, count: usize, limit: usize) -> ArrowError {
    ArrowError::IpcError(format!("{count} {what} are above the limit of {limit}"))
}

impl Body for Batch {
    const CODEC: Codec = Codec::ArrowIpc;

    fn encode(&self) -> Result<Bytes, BodyError> {
        let mut bytes = Vec::with_capacity(self.room());
        self.write(&mut bytes)?;
        Ok(bytes.into())
    }

    fn encode_into(&self, buffer: &mut BytesMut) -> Result<(), BodyError> {
        let before = buffer.len();
        self.write(buffer.writer()).inspect_err(|_| buffer.truncate(before))
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        let refused = |cause: ArrowError| BodyError::decode::<Self>(Codec::ArrowIpc, bytes.len(), &cause);
        Frames { rest: bytes, rows: 0 }.check().map_err(refused)?;
        // If the reader panics, its state is dropped, so a broken invariant in it does no harm.
        catch_unwind(AssertUnwindSafe(|| read(bytes)))
            .unwrap_or_else(|_| {
                Err(ArrowError::IpcError("the Arrow reader panicked on these bytes".to_owned()))
            })
            .map_err(refused)
    }
}

impl Batch {
    /// Bytes that its rows need. The arrays' own memory size is no measure: all arrays read from one payload
    /// share it.
    fn room(&self) -> usize {
        let columns = self.0.columns().iter();
        columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
    }

    fn write(&self, to: impl std::io::Write) -> Result<(), BodyError> {
        let written = StreamWriter::try_new(to, self.0.schema_ref()).and_then(|mut writer| {
            writer.write(&self.0)?;
            writer.finish()
        });
        written.map_err(|error| BodyError::encode::<Self>(Codec::ArrowIpc, &error))
    }
}

fn read(bytes: &Bytes) -> Result<Batch, ArrowError> {
    let (mut reader, mut rest) = (StreamDecoder::new(), Buffer::from(bytes.clone()));
    let mut batches = Vec::new();
    while let Some(batch) = reader.decode(&mut rest)? {
        batches.push(Batch(batch));
    }
    reader.finish()?;
    let schema = reader.schema().ok_or_else(|| ArrowError::IpcError("there is no schema".to_owned()))?;
    if batches.is_empty() {
        return Ok(Batch(RecordBatch::new_empty(schema)));
    }
    concatenated(&batches)
}

/// Walks the messages of a stream and checks that each one lies within the bytes that contain it.
struct Frames<'a> {
    rest: &'a [u8],
    rows: usize,
}

impl<'a> Frames<'a> {
    fn check(mut self) -> Result<(), ArrowError> {
        loop {
            let mut length = self.take(4)?;
            if length == CONTINUATION {
                length = self.take(4)?;
            }
            let length = u32::from_le_bytes(length.try_into().expect("invariant: four bytes were taken"));
            if length == 0 {
                break;
            }
            let metadata = self.take(length as usize)?;
            let message =
                root_as_message(metadata).map_err(|error| ArrowError::IpcError(error.to_string()))?;
            let body = usize::try_from(message.bodyLength()).map_err(|_| ends_within())?;
            self.take(body)?;
            self.check_message(&message, body)?;
            if self.rest.is_empty() {
                return Ok(()); // the end marker is optional
            }
        }
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ArrowError::IpcError("more bytes follow the end of the stream".to_owned()))
        }
    }

    fn check_message(&mut self, message: &Message<'_>, body: usize) -> Result<(), ArrowError> {
        let none = || ArrowError::IpcError("a message has a type that its header does not match".to_owned());
        let batch = match message.header_type() {
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(none)?;
                let columns = schema.fields().map_or(0, |fields| fields.len());
                return match columns <= BATCH_COLUMNS_MAX {
                    true => Ok(()),
                    false => Err(too_many("columns", columns, BATCH_COLUMNS_MAX)),
                };
            }
            MessageHeader::RecordBatch => message.header_as_record_batch().ok_or_else(none)?,
            MessageHeader::DictionaryBatch => {
                let dictionary = message.header_as_dictionary_batch().ok_or_else(none)?;
                dictionary.data().ok_or_else(none)?
            }
            _ => return Err(none()),
        };
        let rows = usize::try_from(batch.length()).map_err(|_| none())?;
        self.rows = self.rows.saturating_add(rows);
        if self.rows > BATCH_ROWS_MAX {
            return Err(too_many("rows", self.rows, BATCH_ROWS_MAX));
        }
        for buffer in batch.buffers().into_iter().flatten() {
            let (at, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
            let end = at.ok().zip(length.ok()).and_then(|(at, length)| at.checked_add(length));
            if end.is_none_or(|end| end > body) {
                return Err(ArrowError::IpcError("a buffer is not within its message's body".to_owned()));
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], ArrowError> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or_else(ends_within)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cold]
fn ends_within() -> ArrowError {
    ArrowError::IpcError("the bytes end within a message".to_owned())
}

#[cfg(test)]
mod tests;
