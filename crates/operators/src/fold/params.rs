//! The parameters of a filter: a map by field name. Errors name the field and the values it accepts.
//!
//! People write them, on the command line and in JSON, so the bytes are MessagePack ([`Body`](crate::Body)
//! encodes the parameter structs of the filters). An empty payload means no parameters. An unknown field is
//! an error, because ignoring a misspelt limit would leave the limit unset.

use super::error::FilterError;
use crate::codec::NESTING_DEPTH_MAX;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::ops::RangeInclusive;

type Reader<'a, 'b> = rmp_serde::Deserializer<rmp_serde::decode::ReadReader<&'a mut &'b [u8]>>;

/// A map without fields.
const NO_FIELDS: &[u8] = &[0x80];
/// MessagePack's nil. Clients send it for a call without parameters.
const NIL: &[u8] = &[0xc0];

/// Decodes the parameters.
pub(crate) fn read<P: DeserializeOwned>(params: &Bytes) -> Result<P, FilterError> {
    let whole = if params.is_empty() || params == NIL { NO_FIELDS } else { params.as_ref() };
    let mut rest = whole;
    let read = match serde_path_to_error::deserialize(&mut reader_of(&mut rest)) {
        Ok(read) => read,
        Err(error) => return Err(in_words::<P>(whole).unwrap_or_else(|| unreadable(error))),
    };
    if !rest.is_empty() {
        return Err(FilterError::parameter("", format!("{} bytes follow the parameters", rest.len())));
    }
    Ok(read)
}

fn reader_of<'a, 'b>(params: &'a mut &'b [u8]) -> Reader<'a, 'b> {
    let mut reader = rmp_serde::Deserializer::new(params);
    reader.set_max_depth(NESTING_DEPTH_MAX);
    reader
}

/// Returns the error in serde's words. The MessagePack reader's own message names markers, not expected
/// types.
#[cold]
fn in_words<P: DeserializeOwned>(params: &[u8]) -> Option<FilterError> {
    let value = serde_json::Value::deserialize(&mut reader_of(&mut { params })).ok()?;
    serde_path_to_error::deserialize::<_, P>(value).err().map(unreadable)
}

fn unreadable(error: serde_path_to_error::Error<impl Display>) -> FilterError {
    let path = error.path().to_string();
    let field = if path == "." { String::new() } else { path };
    FilterError::parameter(field, error.into_inner().to_string())
}

/// Checks that there are no parameters.
pub(crate) fn none(params: &Bytes) -> Result<(), FilterError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct None {}
    if params == &[0x90][..] {
        return Ok(()); // an empty array, which is how Python's `[]` is sent
    }
    read::<None>(params).map(|None {}| ())
}

/// Checks that a parameter lies within its bounds.
pub(crate) fn within<T: PartialOrd + Display>(
    name: &'static str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<T, FilterError> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let why = format!("{value} is not within {} to {}", allowed.start(), allowed.end());
    Err(FilterError::parameter(name, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Body;
    use serde::Serialize;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Limits {
        k: u32,
        #[serde(default)]
        bounds: Vec<f64>,
    }

    fn refused(params: &impl Body) -> String {
        read::<Limits>(&params.encode().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_field_and_its_accepted_values() {
        let given = Limits { k: 3, bounds: vec![1.0] };
        assert_eq!(read::<Limits>(&given.encode().unwrap()), Ok(given));
        assert_eq!(
            refused(&BTreeMap::from([("k".to_string(), "three".to_string())])),
            "parameter `k`: invalid type: string \"three\", expected u32"
        );
        assert_eq!(
            refused(&BTreeMap::from([("q".to_string(), 3)])),
            "parameter `q`: unknown field `q`, expected `k` or `bounds`"
        );
        assert_eq!(read::<Limits>(&Bytes::new()).unwrap_err().to_string(), "parameters: missing field `k`");
        assert_eq!(within("k", 0, 1..=9).unwrap_err().to_string(), "parameter `k`: 0 is not within 1 to 9");
    }

    #[test]
    fn whole_numbers_are_floating_point_numbers_too() {
        #[derive(Serialize)]
        struct Whole {
            k: u32,
            bounds: Vec<i32>,
        }
        let whole = rmp_serde::to_vec_named(&Whole { k: 1, bounds: vec![1, 2] }).unwrap();
        assert_eq!(read::<Limits>(&whole.into()).unwrap().bounds, [1.0, 2.0]);
    }

    #[test]
    fn invalid_parameter_bytes_are_refused() {
        assert!(read::<Limits>(&Bytes::from_static(b"\x81")).is_err());
        let mut two = Limits { k: 3, bounds: vec![] }.encode().unwrap().to_vec();
        two.push(0);
        assert_eq!(
            read::<Limits>(&two.into()).unwrap_err().to_string(),
            "parameters: 1 bytes follow the parameters"
        );
        assert!(read::<Limits>(&Bytes::from(vec![0x91; 10_000])).is_err());
    }

    #[test]
    fn none_is_empty_nil_or_a_map_without_fields() {
        for fine in [&b""[..], b"\xc0", b"\x80", b"\x90"] {
            assert_eq!(none(&Bytes::copy_from_slice(fine)), Ok(()));
        }
        let refused = none(&BTreeMap::from([("k".to_string(), 1)]).encode().unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "parameter `k`: unknown field `k`, there are no fields");
    }
}
