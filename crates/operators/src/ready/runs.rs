//! Sorted runs of keys and values, in typed packets of two fields.

use crate::error::{OperatorError, Result};
use crate::packet::{Packet, Row, Value};
use bytes::Bytes;

/// A run: its keys ascend.
struct Run<'a> {
    keys: Vec<&'a [u8]>,
    values: Values<'a>,
    are_texts: bool,
}

enum Values<'a> {
    Blobs(Vec<&'a [u8]>),
    Counts(Vec<i64>),
}

/// Two runs as one, ascending by key; of equal keys, the counts are added and blobs all kept, `a`'s first.
pub(super) fn merge(a: &Bytes, b: &Bytes) -> Result<Bytes> {
    let (a, b) = (Packet::read(a)?, Packet::read(b)?);
    if !a.types().eq(b.types()) {
        return Err(OperatorError::new(format!("`{}` does not go with `{}`", a.format(), b.format())));
    }
    let (ours, theirs) = (Run::of(&a)?, Run::of(&b)?);
    let mut keys = Vec::with_capacity(ours.keys.len() + theirs.keys.len());
    let row = match (&ours.values, &theirs.values) {
        (Values::Counts(our), Values::Counts(their)) => {
            let mut counts: Vec<i64> = Vec::with_capacity(keys.capacity());
            each(&ours.keys, &theirs.keys, |key, is_ours, at| {
                let count = if is_ours { our[at] } else { their[at] };
                match counts.last_mut().filter(|_| keys.last() == Some(&key)) {
                    Some(sum) => {
                        *sum = sum.checked_add(count).ok_or_else(|| overflow(key))?;
                    }
                    None => {
                        keys.push(key);
                        counts.push(count);
                    }
                }
                Ok(())
            })?;
            with_keys(&keys, ours.are_texts).i64s(&counts)
        }
        (Values::Blobs(our), Values::Blobs(their)) => {
            let mut values = Vec::with_capacity(keys.capacity());
            each(&ours.keys, &theirs.keys, |key, is_ours, at| {
                keys.push(key);
                values.push(if is_ours { our[at] } else { their[at] });
                Ok(())
            })?;
            with_keys(&keys, ours.are_texts).blobs(&values)
        }
        _ => unreachable!("invariant: packets of the same types have values of the same kind"),
    };
    Ok(row.packet().into_bytes())
}

/// Calls `take` with each key of both, ascending, whose it is, and where it stands there.
fn each<'a>(
    ours: &[&'a [u8]],
    theirs: &[&'a [u8]],
    mut take: impl FnMut(&'a [u8], bool, usize) -> Result<()>,
) -> Result<()> {
    let (mut i, mut j) = (0, 0);
    while i < ours.len() || j < theirs.len() {
        let is_ours = match (ours.get(i), theirs.get(j)) {
            (Some(our), Some(their)) => our <= their,
            (our, _) => our.is_some(),
        };
        if is_ours {
            take(ours[i], true, i)?;
            i += 1;
        } else {
            take(theirs[j], false, j)?;
            j += 1;
        }
    }
    Ok(())
}

fn with_keys(keys: &[&[u8]], are_texts: bool) -> Row {
    if are_texts {
        let texts: Vec<&str> = keys.iter().map(|key| std::str::from_utf8(key).unwrap_or_default()).collect();
        Row::new().strs(&texts)
    } else {
        Row::new().blobs(keys)
    }
}

fn overflow(key: &[u8]) -> OperatorError {
    OperatorError::new(format!("the sum of {:?} leaves 64 bits", String::from_utf8_lossy(key)))
}

impl<'a> Run<'a> {
    fn of(packet: &'a Packet) -> Result<Self> {
        let mut fields = packet.values();
        let (keys, are_texts): (Vec<&[u8]>, bool) = match fields.next() {
            Some(Value::Blobs(keys)) => (keys.into_iter().collect(), false),
            Some(Value::Strs(keys)) => (keys.as_blobs().into_iter().collect(), true),
            _ => return Err(unlike(packet)),
        };
        let values = match (fields.next(), fields.next()) {
            (Some(Value::Blobs(values)), None) => Values::Blobs(values.into_iter().collect()),
            (Some(Value::I64s(values)), None) => Values::Counts(values.iter().collect()),
            _ => return Err(unlike(packet)),
        };
        let values_len = match &values {
            Values::Blobs(values) => values.len(),
            Values::Counts(values) => values.len(),
        };
        if values_len != keys.len() {
            return Err(OperatorError::new(format!("{values_len} values for {} keys", keys.len())));
        }
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] > pair[1]) {
            let [before, after] = [pair[0], pair[1]].map(String::from_utf8_lossy);
            return Err(OperatorError::new(format!("the key {after:?} comes after {before:?}")));
        }
        Ok(Self { keys, values, are_texts })
    }
}

fn unlike(packet: &Packet) -> OperatorError {
    let wanted = "`blobs blobs`, `strs blobs`, `blobs i64s` or `strs i64s`";
    OperatorError::new(format!("a packet is `{}`; wanted: {wanted}", packet.format()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(keys: &[&str], values: &[i64]) -> Bytes {
        Row::new().strs(keys).i64s(values).packet().into_bytes()
    }

    #[test]
    fn runs_are_merged_by_key_and_counts_of_a_key_are_one() {
        let merged = merge(&counts(&["a", "c"], &[1, 2]), &counts(&["a", "b"], &[10, 5])).unwrap();
        assert_eq!(merged, counts(&["a", "b", "c"], &[11, 5, 2]));
        let blobs =
            |keys: &[&[u8]], values: &[&[u8]]| Row::new().blobs(keys).blobs(values).packet().into_bytes();
        let merged = merge(&blobs(&[b"a"], &[b"1"]), &blobs(&[b"a", b"b"], &[b"2", b"3"])).unwrap();
        assert_eq!(merged, blobs(&[b"a", b"a", b"b"], &[b"1", b"2", b"3"]));
    }

    #[test]
    fn what_is_no_run_is_refused() {
        let why = |a: Bytes, b: Bytes| merge(&a, &b).unwrap_err().to_string();
        let one = counts(&["a"], &[1]);
        assert!(why(counts(&["b", "a"], &[1, 2]), one.clone()).contains(r#"the key "a" comes after "b""#));
        assert!(why(counts(&["b"], &[1, 2]), one.clone()).contains("2 values for 1 keys"));
        assert!(why(one.clone(), Row::new().i64(3).packet().into_bytes()).contains("does not go with"));
        let three = Row::new().i64(3).packet().into_bytes();
        assert!(why(three.clone(), three).contains("wanted: `blobs blobs`"));
        assert!(why(counts(&["a"], &[i64::MAX]), one).contains("leaves 64 bits"));
    }
}
