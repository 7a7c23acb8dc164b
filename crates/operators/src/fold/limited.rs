//! Encoded partials that are a limit and a list, `{limit: 3, list: …}`, as folds read and write them in place.

use crate::codec::Gathered;
use crate::codec::in_place::Reader;
use bytes::Bytes;
use rmp::encode;

/// Names of the two fields.
#[derive(Clone, Copy)]
pub(super) struct Limited {
    pub(super) limit: &'static str,
    pub(super) list: &'static str,
}

impl Limited {
    /// Returns the limit, and a reader that is before the list.
    pub(super) fn read<'a>(&self, body: &'a Bytes) -> Option<(u64, Reader<'a>)> {
        let mut reader = Reader::of_struct(body, 2)?;
        let limit = reader.field(self.limit)?.whole()?;
        reader.field(self.list)?;
        Some((limit, reader))
    }

    /// Writes all but the list, with room for `list_bytes` more bytes.
    pub(super) fn begin(&self, limit: u64, list_bytes: usize) -> Option<Gathered> {
        let mut body = Gathered::new();
        body.reserve(list_bytes + 2 * size_of::<u64>() + self.limit.len() + self.list.len());
        encode::write_map_len(&mut body, 2).ok()?;
        encode::write_str(&mut body, self.limit).ok()?;
        encode::write_uint(&mut body, limit).ok()?;
        encode::write_str(&mut body, self.list).ok()?;
        Some(body)
    }
}
