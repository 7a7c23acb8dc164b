//! An event's fields: one MessagePack map, read in place.
//!
//! Most events pass a node that looks at no field of them, or at one. So fields stay the bytes in which they
//! arrived. [`Fields::read`] checks them once, where they enter; later readers scan them without allocating.
//! A scan never panics: at bytes that are no MessagePack it ends.

use bytes::Bytes;
use rmp::Marker;
use std::fmt;

/// Deepest nesting of lists and maps inside a field.
pub const NESTING_DEPTH_MAX: u32 = 16;

/// Fields of an event: a MessagePack map whose keys are texts. Cloning shares the bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(Bytes);

/// The reason why bytes are not an event's fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// The bytes are not a MessagePack map.
    #[error("expected a MessagePack map")]
    NoMap,
    /// A key of the map is not a text, or not UTF-8.
    #[error("expected texts as names of fields")]
    NoName,
    /// A field occurs twice.
    #[error("field `{0}` occurs twice")]
    Twice(String),
    /// The bytes end within a value, or contain a code that MessagePack does not define.
    #[error("the value of field `{0}` is not valid MessagePack")]
    Invalid(String),
    /// Lists and maps are nested too deeply.
    #[error("field `{0}` is nested deeper than {NESTING_DEPTH_MAX} levels")]
    TooDeep(String),
    /// There are more fields than allowed.
    #[error("{given} fields; allowed: {limit}")]
    TooMany {
        /// Number of fields.
        given: usize,
        /// The limit `fields_max`.
        limit: usize,
    },
    /// Bytes follow the map.
    #[error("{0} bytes follow the map")]
    Trailing(usize),
}

/// One value, as MessagePack has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nil. In a keyed state it removes its field.
    Nil,
    /// A truth value.
    Boolean(bool),
    /// An integer between −2⁶³ and 2⁶⁴−1.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Raw bytes.
    Bytes(&'a [u8]),
    /// A list, a map or an extension, encoded.
    Nested(&'a [u8]),
}

impl Fields {
    /// No fields.
    pub const EMPTY: Self = Self(Bytes::new());

    /// Takes encoded fields. Empty bytes are no fields.
    ///
    /// # Errors
    /// If the bytes are not exactly one map from texts to values, or have more than `fields_max` fields.
    pub fn read(bytes: Bytes, fields_max: usize) -> Result<Self, FieldsError> {
        if bytes.is_empty() {
            return Ok(Self::EMPTY);
        }
        let mut rest = &bytes[..];
        let count = take_map(&mut rest).ok_or(FieldsError::NoMap)?;
        if count > fields_max {
            return Err(FieldsError::TooMany { given: count, limit: fields_max });
        }
        let mut names: Vec<&str> = Vec::with_capacity(count.min(rest.len()));
        for _ in 0..count {
            let name = take_text(&mut rest).ok_or(FieldsError::NoName)?;
            names.push(name);
            match skip(&mut rest, NESTING_DEPTH_MAX) {
                Skip::Done => {}
                Skip::Invalid => return Err(FieldsError::Invalid(name.to_owned())),
                Skip::TooDeep => return Err(FieldsError::TooDeep(name.to_owned())),
            }
        }
        if !rest.is_empty() {
            return Err(FieldsError::Trailing(rest.len()));
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FieldsError::Twice(pair[0].to_owned()));
        }
        Ok(Self(bytes))
    }

    /// Takes fields that their origin has checked.
    pub(crate) fn checked(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The encoded map; empty if there are no fields.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// True if there is no field.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Iterates over names and encoded values, in the order of the map.
    pub fn iter(&self) -> Pairs<'_> {
        pairs(&self.0)
    }

    /// The value of a field.
    pub fn value(&self, name: &str) -> Option<Value<'_>> {
        self.iter().find(|(known, _)| *known == name).and_then(|(_, raw)| value(raw))
    }

    /// True if every field of `other` is set here too.
    pub fn set_all_of(&self, other: &Self) -> bool {
        have_same_names(&self.0, &other.0)
            || other.iter().all(|(name, _)| self.iter().any(|(known, _)| known == name))
    }

    /// These fields, and those of `later`, which win where both have a field.
    ///
    /// Nil stays a value here: it has to reach the state from which it removes a field.
    pub fn merged(&self, later: &Self) -> Self {
        if self.0.is_empty() || have_same_names(&self.0, &later.0) {
            return later.clone();
        }
        if later.0.is_empty() {
            return self.clone();
        }
        let mut out = Vec::with_capacity(self.0.len() + later.0.len());
        merge(&self.0, &later.0, &mut out);
        Self(out.into())
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, raw)| (name, value(raw)))).finish()
    }
}

impl<'a> FromIterator<(&'a str, Value<'a>)> for Fields {
    /// Encodes fields. The names must differ.
    fn from_iter<I: IntoIterator<Item = (&'a str, Value<'a>)>>(pairs: I) -> Self {
        let (mut body, mut count) = (Vec::new(), 0);
        for (name, value) in pairs {
            put_text(&mut body, name);
            put_value(&mut body, value);
            count += 1;
        }
        if count == 0 {
            return Self::EMPTY;
        }
        let mut out = Vec::with_capacity(body.len() + 5);
        put_map(&mut out, count);
        out.extend_from_slice(&body);
        Self(out.into())
    }
}

/// True if two encoded maps have the same names in the same order.
fn have_same_names(a: &[u8], b: &[u8]) -> bool {
    let (mut a, mut b) = (pairs(a), pairs(b));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some((a, _)), Some((b, _))) if a == b => {}
            _ => return false,
        }
    }
}

/// Appends the union of two encoded maps to `out`; `later` wins.
fn merge(earlier: &[u8], later: &[u8], out: &mut Vec<u8>) {
    merge_where(earlier, later, |_| true, out);
}

/// As [`merge`], but a later value that is nil removes its field.
pub(crate) fn merge_without_nils(earlier: &[u8], later: &[u8], out: &mut Vec<u8>) {
    merge_where(earlier, later, |raw| raw != [NIL], out);
}

fn merge_where(earlier: &[u8], later: &[u8], is_kept: impl Fn(&[u8]) -> bool, out: &mut Vec<u8>) {
    let in_later = |name: &str| pairs(later).any(|(known, _)| known == name);
    let old = || pairs(earlier).filter(|(name, _)| !in_later(name));
    let new = || pairs(later).filter(|(_, raw)| is_kept(raw));
    put_map(out, old().count() + new().count());
    for (name, raw) in old().chain(new()) {
        put_text(out, name);
        out.extend_from_slice(raw);
    }
}

/// True if a later map replaces the whole of an earlier one in a state: same names, and no nil.
pub(crate) fn replaces_in_state(earlier: &[u8], later: &[u8]) -> bool {
    have_same_names(earlier, later) && pairs(later).all(|(_, raw)| raw != [NIL])
}

/// Iterates over the names and encoded values of an encoded map.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a [u8],
    left: usize,
}

pub(crate) fn pairs(mut bytes: &[u8]) -> Pairs<'_> {
    let left = take_map(&mut bytes).unwrap_or(0);
    Pairs { rest: bytes, left }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = take_text(&mut self.rest)?;
        let from = self.rest;
        let Skip::Done = skip(&mut self.rest, NESTING_DEPTH_MAX) else {
            self.left = 0;
            return None;
        };
        Some((name, &from[..from.len() - self.rest.len()]))
    }
}

const NIL: u8 = 0xc0;

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Takes a big-endian integer of `width` bytes.
fn take_length(rest: &mut &[u8], width: usize) -> Option<usize> {
    Some(take(rest, width)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)))
}

fn take_map(rest: &mut &[u8]) -> Option<usize> {
    match Marker::from_u8(take(rest, 1)?[0]) {
        Marker::FixMap(count) => Some(count.into()),
        Marker::Map16 => take_length(rest, 2),
        Marker::Map32 => take_length(rest, 4),
        _ => None,
    }
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let length = match Marker::from_u8(take(rest, 1)?[0]) {
        Marker::FixStr(length) => length.into(),
        Marker::Str8 => take_length(rest, 1)?,
        Marker::Str16 => take_length(rest, 2)?,
        Marker::Str32 => take_length(rest, 4)?,
        _ => return None,
    };
    std::str::from_utf8(take(rest, length)?).ok()
}

enum Skip {
    Done,
    Invalid,
    TooDeep,
}

/// Moves `rest` behind one value.
fn skip(rest: &mut &[u8], depth_left: u32) -> Skip {
    let inside = |rest: &mut &[u8], values: Option<usize>| {
        let Some(values) = values else { return Skip::Invalid };
        let Some(depth) = depth_left.checked_sub(1) else { return Skip::TooDeep };
        for _ in 0..values {
            match skip(rest, depth) {
                Skip::Done => {}
                other => return other,
            }
        }
        Skip::Done
    };
    let Some(marker) = take(rest, 1) else { return Skip::Invalid };
    let bytes = match Marker::from_u8(marker[0]) {
        Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => Some(0),
        Marker::U8 | Marker::I8 => Some(1),
        Marker::U16 | Marker::I16 | Marker::FixExt1 => Some(2),
        Marker::FixExt2 => Some(3),
        Marker::U32 | Marker::I32 | Marker::F32 => Some(4),
        Marker::FixExt4 => Some(5),
        Marker::U64 | Marker::I64 | Marker::F64 => Some(8),
        Marker::FixExt8 => Some(9),
        Marker::FixExt16 => Some(17),
        Marker::FixStr(length) => Some(length.into()),
        Marker::Str8 | Marker::Bin8 => take_length(rest, 1),
        Marker::Str16 | Marker::Bin16 => take_length(rest, 2),
        Marker::Str32 | Marker::Bin32 => take_length(rest, 4),
        Marker::Ext8 => take_length(rest, 1).map(|length| length + 1),
        Marker::Ext16 => take_length(rest, 2).map(|length| length + 1),
        Marker::Ext32 => take_length(rest, 4).map(|length| length + 1),
        Marker::FixArray(count) => return inside(rest, Some(count.into())),
        Marker::Array16 => {
            let count = take_length(rest, 2);
            return inside(rest, count);
        }
        Marker::Array32 => {
            let count = take_length(rest, 4);
            return inside(rest, count);
        }
        Marker::FixMap(count) => return inside(rest, Some(2 * usize::from(count))),
        Marker::Map16 => {
            let count = take_length(rest, 2);
            return inside(rest, count.map(|count| 2 * count));
        }
        Marker::Map32 => {
            let count = take_length(rest, 4);
            return inside(rest, count.map(|count| 2 * count));
        }
        Marker::Reserved => None,
    };
    match bytes.and_then(|bytes| take(rest, bytes)) {
        Some(_) => Skip::Done,
        None => Skip::Invalid,
    }
}

/// Decodes one value. Returns `None` for bytes that are not one.
pub fn value(raw: &[u8]) -> Option<Value<'_>> {
    let mut rest = raw;
    let marker = Marker::from_u8(take(&mut rest, 1)?[0]);
    let mut number = |width| take_length(&mut rest, width);
    Some(match marker {
        Marker::Null => Value::Nil,
        Marker::True => Value::Boolean(true),
        Marker::False => Value::Boolean(false),
        Marker::FixPos(small) => Value::Integer(small.into()),
        Marker::FixNeg(small) => Value::Integer(small.into()),
        Marker::U8 => Value::Integer(number(1)? as i128),
        Marker::U16 => Value::Integer(number(2)? as i128),
        Marker::U32 => Value::Integer(number(4)? as i128),
        Marker::U64 => Value::Integer(number(8)? as i128),
        Marker::I8 => Value::Integer((number(1)? as u8 as i8).into()),
        Marker::I16 => Value::Integer((number(2)? as u16 as i16).into()),
        Marker::I32 => Value::Integer((number(4)? as u32 as i32).into()),
        Marker::I64 => Value::Integer((number(8)? as u64 as i64).into()),
        Marker::F32 => Value::Float(f32::from_bits(number(4)? as u32).into()),
        Marker::F64 => Value::Float(f64::from_bits(number(8)? as u64)),
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            let mut all = raw;
            Value::Text(take_text(&mut all)?)
        }
        Marker::Bin8 => Value::Bytes(rest.get(1..)?),
        Marker::Bin16 => Value::Bytes(rest.get(2..)?),
        Marker::Bin32 => Value::Bytes(rest.get(4..)?),
        _ => Value::Nested(raw),
    })
}

// Writing to a vector cannot fail, so the results of rmp's functions are dropped.

pub(crate) fn put_map(out: &mut Vec<u8>, count: usize) {
    let _ = rmp::encode::write_map_len(out, count as u32);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let _ = rmp::encode::write_str(out, text);
}

fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Nil => out.push(NIL),
        Value::Boolean(truth) => {
            let _ = rmp::encode::write_bool(out, truth);
        }
        Value::Integer(number) => {
            let _ = match (u64::try_from(number), i64::try_from(number)) {
                (Ok(natural), _) => rmp::encode::write_uint(out, natural),
                (Err(_), Ok(negative)) => rmp::encode::write_sint(out, negative),
                (Err(_), Err(_)) => {
                    let _ = rmp::encode::write_f64(out, number as f64);
                    return;
                }
            };
        }
        Value::Float(number) => {
            let _ = rmp::encode::write_f64(out, number);
        }
        Value::Text(text) => put_text(out, text),
        Value::Bytes(bytes) => {
            let _ = rmp::encode::write_bin(out, bytes);
        }
        Value::Nested(raw) => out.extend_from_slice(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, Value<'_>)]) -> Fields {
        pairs.iter().copied().collect()
    }

    fn read(bytes: &[u8]) -> Result<Fields, FieldsError> {
        Fields::read(Bytes::copy_from_slice(bytes), 4)
    }

    #[test]
    fn every_kind_of_value_is_read_back() {
        let nested = [0x92, 1, 0x81, 0xa1, b'a', 2];
        let given = [
            ("nil", Value::Nil),
            ("yes", Value::Boolean(true)),
            ("small", Value::Integer(-3)),
            ("large", Value::Integer(u64::MAX.into())),
            ("least", Value::Integer(i64::MIN.into())),
            ("float", Value::Float(0.25)),
            ("text", Value::Text("Zürich")),
            ("bytes", Value::Bytes(&[1, 2, 3])),
            ("nested", Value::Nested(&nested)),
        ];
        let fields = fields(&given);
        let again = Fields::read(fields.as_bytes().clone(), 9).unwrap();
        assert!(again.iter().map(|(name, raw)| (name, value(raw).unwrap())).eq(given));
        assert_eq!(again.value("text"), Some(Value::Text("Zürich")));
        assert_eq!(again.value("absent"), None);
    }

    #[test]
    fn invalid_maps_are_refused_with_the_field() {
        assert_eq!(read(&[0x93]), Err(FieldsError::NoMap));
        assert_eq!(read(&[0x81, 1, 1]), Err(FieldsError::NoName));
        assert_eq!(read(&[0x81, 0xa1, b'a']), Err(FieldsError::Invalid("a".into())));
        assert_eq!(read(&[0x81, 0xa1, b'a', 0xc1]), Err(FieldsError::Invalid("a".into())));
        assert_eq!(read(&[0x81, 0xa1, b'a', 1, 7]), Err(FieldsError::Trailing(1)));
        assert_eq!(read(&[0x82, 0xa1, b'a', 1, 0xa1, b'a', 2]), Err(FieldsError::Twice("a".into())));
        assert_eq!(read(&[0x85]), Err(FieldsError::TooMany { given: 5, limit: 4 }));
        let deep = [&[0x81, 0xa1, b'a'][..], &[0x91; 17], &[1]].concat();
        assert_eq!(read(&deep), Err(FieldsError::TooDeep("a".into())));
        let huge = [0x81, 0xa1, b'a', 0xdd, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(read(&huge), Err(FieldsError::Invalid("a".into())), "without allocating for 2^32 values");
    }

    #[test]
    fn scan_of_unchecked_bytes_ends_without_panic() {
        let whole = fields(&[("a", Value::Integer(70_000)), ("b", Value::Text("x"))]);
        for length in 0..whole.as_bytes().len() {
            assert!(Fields::checked(whole.as_bytes().slice(..length)).iter().count() < 2);
        }
    }

    #[test]
    fn later_fields_win_in_a_merge() {
        let one = fields(&[("a", Value::Integer(1)), ("b", Value::Integer(2))]);
        let two = fields(&[("b", Value::Nil), ("c", Value::Integer(3))]);
        let both = fields(&[("a", Value::Integer(1)), ("b", Value::Nil), ("c", Value::Integer(3))]);
        assert_eq!(one.merged(&two), both);
        assert_eq!(one.merged(&Fields::EMPTY), one);
        assert_eq!(Fields::EMPTY.merged(&two), two);
    }
}
