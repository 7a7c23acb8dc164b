//! Builds a packet, value by value.
//!
//! Values are appended as they come, first on the stack and beyond some hundred bytes on the heap. A packet
//! of a few numbers therefore costs one allocation. More than 255 fields, or an array of more than 2³²
//! elements, are a mistake in the program and not in its data, so they panic: a payload of that size is
//! refused long before.

use super::number::Number;
use super::types::Type;
use super::value::{LENGTH, Value};
use super::{FIELDS_MAX, Packet};
use crate::codec::Gathered;
use crate::number_types;
use std::io::Write;

/// Numbers converted to octets at a time, on the stack.
const STAGED: usize = 64;

/// A builder of a packet: `Row::new().i64(3).str("x").packet()`.
#[derive(Clone)]
pub struct Row {
    gathered: Gathered,
    fields: u8,
}

impl Default for Row {
    fn default() -> Self {
        Self::new()
    }
}

impl Row {
    /// Creates a row without values.
    #[inline]
    pub fn new() -> Self {
        let mut gathered = Gathered::new();
        append(&mut gathered, &[0]); // the number of fields, which is filled in at the end
        Self { gathered, fields: 0 }
    }

    /// Appends a text.
    #[must_use]
    pub fn str(mut self, text: &str) -> Self {
        self.begin(Type::Str);
        self.blob_octets(text.as_bytes());
        self
    }

    /// Appends a byte string.
    #[must_use]
    pub fn blob(mut self, octets: &[u8]) -> Self {
        self.begin(Type::Blob);
        self.blob_octets(octets);
        self
    }

    /// Appends an array of texts.
    #[must_use]
    pub fn strs<S: AsRef<str>>(mut self, texts: &[S]) -> Self {
        self.list(Type::Strs, texts.iter().map(|text| text.as_ref().as_bytes()));
        self
    }

    /// Appends an array of byte strings.
    #[must_use]
    pub fn blobs<B: AsRef<[u8]>>(mut self, blobs: &[B]) -> Self {
        self.list(Type::Blobs, blobs.iter().map(AsRef::as_ref));
        self
    }

    /// Finishes the row and returns the packet.
    #[inline]
    pub fn packet(mut self) -> Packet {
        self.gathered.as_mut()[0] = self.fields;
        Packet::of_checked(self.gathered.into_bytes())
    }

    /// Reserves room for `bytes` more bytes.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.gathered.reserve(bytes);
    }

    /// Begins an array of `count` numbers of type `element`. The caller appends their octets.
    pub(crate) fn begin_array(&mut self, element: Type, count: usize) {
        self.begin(element.array());
        self.length(count);
    }

    /// Begins an array of `count` texts or byte strings. The caller appends the entries, which take `bytes`
    /// bytes together with their lengths.
    pub(crate) fn begin_list(&mut self, element: Type, count: usize, bytes: usize) {
        self.begin(element.array());
        self.length(count);
        self.length(bytes);
    }

    /// Appends octets to an array that has been begun.
    #[inline]
    pub(crate) fn octets(&mut self, octets: &[u8]) {
        append(&mut self.gathered, octets);
    }

    /// Appends numbers to an array that has been begun.
    pub(crate) fn numbers<N: Number>(&mut self, values: &[N]) {
        const WIDEST: usize = 8;
        let mut staged = [0; STAGED * WIDEST];
        for some in values.chunks(STAGED) {
            let octets = &mut staged[..size_of_val(some)];
            N::rows_mut(octets).iter_mut().zip(some).for_each(|(octets, number)| *octets = number.octets());
            append(&mut self.gathered, octets);
        }
    }

    /// Appends one entry of a list, or a whole text: its length and its octets.
    pub(crate) fn blob_octets(&mut self, octets: &[u8]) {
        self.length(octets.len());
        self.octets(octets);
    }

    fn list<'a>(&mut self, kind: Type, entries: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
        let bytes = entries.clone().map(|entry| LENGTH + entry.len()).sum();
        self.begin_list(kind.element(), entries.len(), bytes);
        entries.for_each(|entry| self.blob_octets(entry));
    }

    #[inline]
    fn begin(&mut self, kind: Type) {
        assert!(usize::from(self.fields) < FIELDS_MAX, "a packet has at most {FIELDS_MAX} fields");
        self.fields += 1;
        append(&mut self.gathered, &[kind as u8]);
    }

    fn length(&mut self, length: usize) {
        let length =
            u32::try_from(length).expect("a field of a packet must have fewer than 2^32 elements and bytes");
        append(&mut self.gathered, &length.to_le_bytes());
    }
}

macro_rules! append {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        impl Row {
            $(
                #[doc = concat!("Appends a `", stringify!($number), "`.")]
                #[inline]
                #[must_use]
                pub fn $number(mut self, value: $number) -> Self {
                    self.begin(Type::$one);
                    self.octets(&value.octets());
                    self
                }

                #[doc = concat!("Appends an array of `", stringify!($number), "`.")]
                #[must_use]
                pub fn $numbers(mut self, values: &[$number]) -> Self {
                    self.begin_array(Type::$one, values.len());
                    self.numbers(values);
                    self
                }
            )*

            /// Appends a value of any type.
            #[must_use]
            pub fn value(mut self, value: Value<'_>) -> Self {
                match value {
                    $(
                        Value::$one(value) => return self.$number(value),
                        Value::$many(numbers) => {
                            self.begin_array(Type::$one, numbers.len());
                            self.octets(numbers.octets());
                        }
                    )*
                    Value::Str(text) => return self.str(text),
                    Value::Blob(octets) => return self.blob(octets),
                    Value::Strs(texts) => {
                        self.begin_list(Type::Str, texts.len(), texts.as_blobs().octets().len());
                        self.octets(texts.as_blobs().octets());
                    }
                    Value::Blobs(blobs) => {
                        self.begin_list(Type::Blob, blobs.len(), blobs.octets().len());
                        self.octets(blobs.octets());
                    }
                }
                self
            }
        }
    };
}

number_types!(append);

#[inline]
fn append(gathered: &mut Gathered, octets: &[u8]) {
    gathered.write_all(octets).expect("invariant: writing to memory never fails");
}
