//! Values as the bytes that travel, and back.
//!
//! Bytes travel as they are. A table or a record batch of pyarrow travels as an Arrow IPC stream. Every other value is one
//! MessagePack value. The wire does not say which of them a payload is, so a payload is read as the first that fits: nothing
//! is `None`; then an Arrow stream (it begins with four bytes of 255, if pyarrow is there), a typed packet, one MessagePack
//! value that ends where the payload ends, and else bytes.
//!
//! So no bytes, and bytes that are one MessagePack value, such as a single ASCII character, would come back as another value.
//! They are sent as a byte string of MessagePack, and every way of reading, [`How::Raw`] too, gives its content. Programs in
//! other languages send such bytes as they are; [`How::Raw`] reads them. Arrow streams and typed packets in an object of bytes
//! are sent as they are, because that is how they are made ([`crate::row`]).

use crate::error::raise;
use crate::row;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};
use serde::Deserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use treefold::operators::codec::{NESTING_DEPTH_MAX, one_value_by};

/// Bytes objects up to this length are copied; longer ones are shared.
const COPIED_BYTES_MAX: usize = 4_096;
/// How an Arrow IPC stream begins.
const ARROW: [u8; 4] = [0xff; 4];

/// How a payload is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// As the first form that fits.
    Auto,
    /// As the bytes that travelled, or that were sent in a byte string because they are a value too.
    Raw,
    /// As [`How::Auto`], with arrays of numbers as arrays of numpy.
    Numpy,
}

impl How {
    /// The way with this name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of(name: &str) -> PyResult<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "raw" => Ok(Self::Raw),
            "numpy" => Ok(Self::Numpy),
            _ => Err(raise("InvalidOption", format!("decode is {name:?}; allowed: auto, raw, numpy"))),
        }
    }
}

/// Returns the bytes that travel for a value. `form` is "value", or the name of a ready reduce, whose locals' samples it is.
#[pyfunction]
pub(crate) fn pack(py: Python<'_>, value: &Bound<'_, PyAny>, form: &str) -> PyResult<Py<PyAny>> {
    Ok(bytes_object(py, &row::Form::of_reduce(form).write(value)?).unbind())
}

/// Returns the value of bytes that have travelled.
#[pyfunction]
pub(crate) fn unpack(py: Python<'_>, payload: &Bound<'_, PyBytes>, decode: &str) -> PyResult<Py<PyAny>> {
    Ok(read(py, &shared(payload), How::of(decode)?)?.unbind())
}

/// An object of bytes, whose memory is shared.
struct Shared {
    bytes: *const [u8],
    _object: Py<PyBytes>,
}

// SAFETY: an object of bytes never changes, and the pointer is used only while the object is held.
unsafe impl Send for Shared {}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the pointer is that of the object's bytes, which live as long as the object, and it is held here.
        unsafe { &*self.bytes }
    }
}

fn shared(object: &Bound<'_, PyBytes>) -> Bytes {
    let bytes = object.as_bytes();
    if bytes.len() <= COPIED_BYTES_MAX {
        return Bytes::copy_from_slice(bytes);
    }
    Bytes::from_owner(Shared { bytes: std::ptr::from_ref(bytes), _object: object.clone().unbind() })
}

/// The bytes of an object that is like bytes.
///
/// # Errors
/// If it is not.
pub(crate) fn of_bytes(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(shared(bytes));
    }
    if is_like_bytes(value) {
        let copied = value.py().get_type::<PyBytes>().call1((value,))?;
        return Ok(shared(copied.cast::<PyBytes>()?));
    }
    Err(raise("InvalidValue", format!("expected bytes, found {}", kind(value))))
}

fn is_like_bytes(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
}

/// An object with these bytes.
pub(crate) fn bytes_object<'py>(py: Python<'py>, bytes: &Bytes) -> Bound<'py, PyAny> {
    PyBytes::new(py, bytes).into_any()
}

/// The name of a value's type.
pub(crate) fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// True if bytes would be read as another value.
fn is_mistaken(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    bytes.is_empty() || next::<IgnoredAny>(&mut rest).is_some() && rest.is_empty()
}

/// The content, if a payload is a byte string whose content would be read as another value.
fn content(payload: &Bytes) -> Option<Bytes> {
    let mut rest: &[u8] = payload;
    let length = rmp::decode::read_bin_len(&mut rest).ok()?;
    let is_all = usize::try_from(length).is_ok_and(|length| length == rest.len());
    (is_all && is_mistaken(rest)).then(|| payload.slice_ref(rest))
}

/// The bytes that travel for `value`.
///
/// # Errors
/// If it has no form that travels.
pub(crate) fn value(value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if is_like_bytes(value) {
        let bytes = of_bytes(value)?;
        if !is_mistaken(&bytes) {
            return Ok(bytes);
        }
        let mut written = Vec::new();
        // Writing to memory never fails.
        drop(rmp::encode::write_bin(&mut written, &bytes));
        return Ok(written.into());
    }
    if kind(value).starts_with("pyarrow.") {
        let stream = value.py().import("treefold._arrow")?.call_method1("to_stream", (value,))?;
        return of_bytes(&stream);
    }
    let mut written = Vec::new();
    write(value, &mut written, 0)?;
    Ok(written.into())
}

fn write(value: &Bound<'_, PyAny>, to: &mut Vec<u8>, depth: usize) -> PyResult<()> {
    use rmp::encode as put;
    if depth > NESTING_DEPTH_MAX {
        return Err(raise(
            "InvalidValue",
            format!("the value is nested deeper than {NESTING_DEPTH_MAX} levels"),
        ));
    }
    // Writing to memory never fails.
    if value.is_none() {
        drop(put::write_nil(to));
    } else if let Ok(flag) = value.cast::<PyBool>() {
        drop(put::write_bool(to, flag.is_true()));
    } else if value.is_instance_of::<PyInt>() {
        match (value.extract::<i64>(), value.extract::<u64>()) {
            (Ok(number), _) => drop(put::write_sint(to, number)),
            (_, Ok(number)) => drop(put::write_uint(to, number)),
            _ => return Err(raise("InvalidValue", format!("{value} does not fit into 64 bits"))),
        }
    } else if let Ok(number) = value.cast::<PyFloat>() {
        drop(put::write_f64(to, number.value()));
    } else if let Ok(text) = value.cast::<PyString>() {
        drop(put::write_str(to, &text_of(text)?));
    } else if let Ok(map) = value.cast::<PyDict>() {
        drop(put::write_map_len(to, length(map.len())?));
        for (key, value) in map {
            write(&key, to, depth + 1)?;
            write(&value, to, depth + 1)?;
        }
    } else if let Ok(list) = value.cast::<PyList>() {
        drop(put::write_array_len(to, length(list.len())?));
        list.iter().try_for_each(|value| write(&value, to, depth + 1))?;
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        drop(put::write_array_len(to, length(tuple.len())?));
        tuple.iter().try_for_each(|value| write(&value, to, depth + 1))?;
    } else if is_like_bytes(value) {
        drop(put::write_bin(to, &of_bytes(value)?));
    } else if let (true, Ok(plain)) = (value.hasattr("dtype")?, value.call_method0("tolist")) {
        // an array or a scalar of numpy
        write(&plain, to, depth + 1)?;
    } else {
        let kind = kind(value);
        let message = format!(
            "a {kind} can't travel; give None, bool, int, float, str, bytes, list, tuple, dict, or an array of numpy"
        );
        return Err(raise("InvalidValue", message));
    }
    Ok(())
}

/// The text of a string of Python.
///
/// # Errors
/// If it has half of a surrogate pair, as the names of files that are no UTF-8 do.
pub(crate) fn text_of<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    text.to_cow().map_err(|error| {
        raise(
            "InvalidValue",
            format!("a text with a lone surrogate can't travel, because it is no Unicode: {error}"),
        )
    })
}

fn length(items: usize) -> PyResult<u32> {
    u32::try_from(items).map_err(|_| raise("InvalidValue", format!("{items} items; at most 2^32 can travel")))
}

/// The value of bytes that have travelled.
///
/// # Errors
/// If the interpreter has no memory, or numpy is asked for and not there.
pub(crate) fn read<'py>(py: Python<'py>, payload: &Bytes, how: How) -> PyResult<Bound<'py, PyAny>> {
    if how == How::Raw {
        return Ok(bytes_object(py, &content(payload).unwrap_or_else(|| payload.clone())));
    }
    if payload.is_empty() {
        return Ok(py.None().into_bound(py));
    }
    if payload.starts_with(&ARROW) {
        let bytes = bytes_object(py, payload);
        return py.import("treefold._arrow")?.call_method1("of_stream", (bytes,));
    }
    if let Some(fields) = row::read(py, payload, how)? {
        return Ok(fields);
    }
    Ok(one_value(py, payload).unwrap_or_else(|| bytes_object(py, payload)))
}

/// Reads the next value of `rest`, if it is a `T`.
fn next<T: DeserializeOwned>(rest: &mut &[u8]) -> Option<T> {
    let mut reader = rmp_serde::Deserializer::new(rest);
    reader.set_max_depth(NESTING_DEPTH_MAX);
    T::deserialize(&mut reader).ok()
}

/// The value, if the payload is one MessagePack value.
pub(crate) fn one_value<'py>(py: Python<'py>, payload: &[u8]) -> Option<Bound<'py, PyAny>> {
    one_value_by(Seed { py, is_key: false }, payload).ok()
}

#[derive(Clone, Copy)]
struct Seed<'py> {
    py: Python<'py>,
    /// True in the key of a map, where an array must be a tuple: a list can't be the key of a dict.
    is_key: bool,
}

impl<'de, 'py> DeserializeSeed<'de> for Seed<'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn made<'py, T: IntoPyObject<'py>, E: Error>(py: Python<'py>, value: T) -> Result<Bound<'py, PyAny>, E> {
    use pyo3::BoundObject;
    value
        .into_pyobject(py)
        .map(|object| object.into_any().into_bound())
        .map_err(|error| E::custom(error.into()))
}

impl<'de, 'py> Visitor<'de> for Seed<'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        made(self.py, value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        made(self.py, value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        made(self.py, value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        made(self.py, value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        made(self.py, value)
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Self::Value, E> {
        Ok(PyBytes::new(self.py, value).into_any())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        if self.is_key {
            let mut all = Vec::new();
            while let Some(value) = seq.next_element_seed(self)? {
                all.push(value);
            }
            return Ok(PyTuple::new(self.py, all).map_err(A::Error::custom)?.into_any());
        }
        let all = PyList::empty(self.py);
        while let Some(value) = seq.next_element_seed(self)? {
            all.append(value).map_err(A::Error::custom)?;
        }
        Ok(all.into_any())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let all = PyDict::new(self.py);
        let key = Self { is_key: true, ..self };
        while let Some((key, value)) = map.next_entry_seed(key, self)? {
            all.set_item(key, value).map_err(A::Error::custom)?;
        }
        Ok(all.into_any())
    }
}
