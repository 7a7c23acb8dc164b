//! The row of one key. Key, fields and body share one allocation, because an event finds none of them in the
//! processor's caches if there are many keys: each further allocation costs about as much as everything else that a
//! mirror does with an event.

use super::KeyValue;
use crate::event::EventRef;
use crate::fields::{Fields, merge_without_nils, replaces_in_state};
use crate::state::Moment;
use bytestring::ByteString;
use treefold_core::encoding::numbers::put_number;

/// The values of one key.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The key, the fields, and the last body that was not empty.
    bytes: Vec<u8>,
    key_bytes: u32,
    fields_bytes: u32,
    pub(super) changed: Moment,
    /// The time of this key among the keys by age.
    pub(super) aged_ms: u64,
}

impl Row {
    /// A row as a snapshot has it.
    pub(super) fn new(key: &str, fields: &[u8], body: &[u8], changed: Moment) -> Self {
        let mut bytes = Vec::with_capacity(key.len() + fields.len() + body.len());
        [key.as_bytes(), fields, body].iter().for_each(|part| bytes.extend_from_slice(part));
        let (key_bytes, fields_bytes) = (length(key.len()), length(fields.len()));
        Self { bytes, key_bytes, fields_bytes, changed, aged_ms: changed.sent_ms }
    }

    /// The row of a new key after its first event.
    pub(super) fn begun(at: Moment, event: &EventRef<'_>) -> Self {
        let (mut without_nils, fields) = (Vec::new(), event.fields);
        merge_without_nils(&[], fields, &mut without_nils);
        Self::new(event.key, &without_nils, event.body, at)
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes as usize]
    }

    pub(super) fn fields(&self) -> &[u8] {
        &self.bytes[self.key_bytes as usize..self.body_at()]
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.bytes[self.body_at()..]
    }

    fn body_at(&self) -> usize {
        (self.key_bytes + self.fields_bytes) as usize
    }

    /// Bytes of the values.
    pub(super) fn value_bytes(&self) -> usize {
        self.bytes.len() - self.key_bytes as usize
    }

    /// The row as a reader gets it.
    pub(super) fn shown(&self) -> KeyValue {
        KeyValue {
            key: ByteString::try_from(self.key()).expect("invariant: keys are text"),
            fields: Fields::checked(self.fields().to_vec().into()),
            body: self.body().to_vec().into(),
            changed: self.changed,
        }
    }

    /// Appends the row to a piece.
    pub(super) fn write(&self, piece: &mut Vec<u8>) {
        put_row(piece, self.key(), self.changed, self.fields(), self.body());
    }

    /// Applies an event of this key.
    pub(super) fn apply(&mut self, at: Moment, event: &EventRef<'_>) {
        let new = event.fields;
        if replaces_in_state(self.fields(), new) {
            self.set(new, event.body);
        } else {
            let mut merged = Vec::with_capacity(self.fields_bytes as usize + new.len());
            merge_without_nils(self.fields(), new, &mut merged);
            self.set(&merged, event.body);
        }
        self.changed = at;
    }

    /// Sets the fields, and the body if it is not empty.
    fn set(&mut self, fields: &[u8], body: &[u8]) {
        let (from, to) = (self.key_bytes as usize, self.body_at());
        let is_in_place =
            fields.len() == to - from && (body.is_empty() || body.len() == self.bytes.len() - to);
        if is_in_place {
            self.bytes[from..to].copy_from_slice(fields);
            if !body.is_empty() {
                self.bytes[to..].copy_from_slice(body);
            }
            return;
        }
        if body.is_empty() {
            self.bytes.splice(from..to, fields.iter().copied());
        } else {
            self.bytes.truncate(from);
            self.bytes.reserve_exact(fields.len() + body.len());
            self.bytes.extend_from_slice(fields);
            self.bytes.extend_from_slice(body);
        }
        self.fields_bytes = length(fields.len());
    }
}

/// Appends a row to a piece: key, position and clock of the last change, fields, body.
pub(super) fn put_row(out: &mut Vec<u8>, key: &[u8], changed: Moment, fields: &[u8], body: &[u8]) {
    put_number(out, key.len() as u64);
    out.extend_from_slice(key);
    put_number(out, changed.position);
    put_number(out, changed.sent_ms);
    for part in [fields, body] {
        put_number(out, part.len() as u64);
        out.extend_from_slice(part);
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("invariant: a packet is far below 4 GiB, and so is each of its parts")
}
