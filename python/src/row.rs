//! Values as typed packets, which ready reduces fold, and back.
//!
//! A tuple is a row of fields, and any other value is a row of one field:
//!
//! ```text
//!   int i64   float f64   str str   bytes blob      a list, or an array of numpy, of them: i64s f64s strs blobs
//! ```
//!
//! Whole numbers become `i64` or `u64`, also those of narrower arrays, so that sums have room. A packet from elsewhere may
//! have narrower ones (`i8` to `u32`), which are read as ints, and as arrays of their own type.
//!
//! A list with ints and floats is `f64s`, and an empty list is `f64s`. `top-k` takes `(scores, payloads)`, so scores become
//! floats and an empty list of payloads is `strs`. Reduces of lines and of any bytes take text or bytes as they are, and
//! `count` takes any value.

use crate::error::raise;
use crate::payload::{self, How, kind, of_bytes, text_of};
use bytes::Bytes;
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use treefold::operators::number_types;
use treefold::operators::packet::{FIELDS_MAX, Number, Numbers, Packet, Row, Value};
use treefold::operators::ready;

/// The form in which an aggregation's local gives its samples.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Any value.
    Value,
    /// A table.
    Table,
    /// A row.
    Row,
    /// A row of scores and one of payloads.
    Ranked,
    /// Text or bytes.
    Text,
}

impl Form {
    /// The form of a ready reduce's samples.
    pub(crate) fn of_reduce(name: &str) -> Self {
        match name {
            "value" | "count" => Self::Value,
            "group" | "concat-batches" => Self::Table,
            "top-k" => Self::Ranked,
            "merge-lines" | "sum-lines" | "append" | "classes" => Self::Text,
            _ => Self::Row,
        }
    }

    /// The form of the packets that endpoints send to a filter.
    pub(crate) fn of_filter(name: &str) -> Self {
        // `time-aligned` and `clock-skew` read MessagePack, and nothing is known of a service's own filters.
        if ready::reduces().any(|(ready, _)| ready == name) { Self::of_reduce(name) } else { Self::Value }
    }

    /// The bytes that travel for `value`.
    ///
    /// # Errors
    /// If it is not of this form.
    pub(crate) fn write(self, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        match self {
            // adds nothing in any ready reduce
            _ if value.is_none() && self != Self::Value => Ok(Bytes::new()),
            Self::Value | Self::Table => payload::value(value),
            Self::Text => match value.cast::<PyString>() {
                Ok(text) => Ok(Bytes::copy_from_slice(text_of(text)?.as_bytes())),
                Err(_) => of_bytes(value),
            },
            Self::Row => written(value, self),
            Self::Ranked => match value.cast::<PyTuple>() {
                Ok(columns) if columns.len() == 2 => written(value, self),
                _ => {
                    Err(raise("InvalidValue", format!("expected (scores, payloads), found {}", kind(value))))
                }
            },
        }
    }
}

fn written(value: &Bound<'_, PyAny>, form: Form) -> PyResult<Bytes> {
    let mut row = Row::new();
    match value.cast::<PyTuple>() {
        Ok(fields) if fields.len() > FIELDS_MAX => {
            let fields = fields.len();
            return Err(raise("InvalidValue", format!("{fields} fields; a row has at most {FIELDS_MAX}")));
        }
        Ok(fields) => {
            for (at, value) in fields.iter().enumerate() {
                row = field(row, &value, form, at)?;
            }
        }
        Err(_) => row = field(row, value, form, 0)?,
    }
    Ok(row.packet().into_bytes())
}

fn field(row: Row, value: &Bound<'_, PyAny>, form: Form, at: usize) -> PyResult<Row> {
    let is_score = form == Form::Ranked && at == 0;
    if value.hasattr("dtype")? {
        return array(row, value, is_score);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return many(row, list, form, at);
    }
    Ok(if value.is_instance_of::<PyFloat>() || is_score && value.is_instance_of::<PyInt>() {
        row.f64(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        row.i64(whole(value)?)
    } else if let Ok(text) = value.cast::<PyString>() {
        row.str(&text_of(text)?)
    } else if value.is_instance_of::<PyBytes>() {
        row.blob(&of_bytes(value)?)
    } else {
        return Err(no_field(value));
    })
}

fn no_field(value: &Bound<'_, PyAny>) -> PyErr {
    let kind = kind(value);
    raise(
        "InvalidValue",
        format!("a {kind} is no field of a row; give int, float, str, bytes, or lists or an array of them"),
    )
}

fn whole(value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| raise("InvalidValue", format!("{value} does not fit into 64 bits")))
}

fn many(row: Row, list: &Bound<'_, PyList>, form: Form, at: usize) -> PyResult<Row> {
    if list.is_empty() && form == Form::Ranked && at == 1 {
        return Ok(row.strs::<&str>(&[]));
    }
    if !list.is_empty() {
        if are_all::<PyString>(list) {
            let texts: Vec<_> =
                list.iter().map(|text| Ok(text_of(text.cast()?)?.into_owned())).collect::<PyResult<_>>()?;
            return Ok(row.strs(&texts));
        }
        if are_all::<PyBytes>(list) {
            return Ok(row.blobs(&list.iter().map(|value| of_bytes(&value)).collect::<PyResult<Vec<_>>>()?));
        }
        if are_all::<PyInt>(list) && !(form == Form::Ranked && at == 0) {
            return Ok(row.i64s(&list.iter().map(|value| whole(&value)).collect::<PyResult<Vec<_>>>()?));
        }
    }
    let number =
        |value: &Bound<'_, PyAny>| value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    match list.iter().find(|value| !number(value)) {
        Some(other) => Err(no_field(&other)),
        None => Ok(row.f64s(&list.extract::<Vec<f64>>()?)),
    }
}

fn are_all<T: PyTypeInfo>(list: &Bound<'_, PyList>) -> bool {
    list.iter().all(|value| value.is_instance_of::<T>())
}

/// Appends an array or a scalar of numpy.
fn array(row: Row, array: &Bound<'_, PyAny>, is_score: bool) -> PyResult<Row> {
    let dtype = array.getattr("dtype")?;
    let (letter, bytes): (String, usize) =
        (dtype.getattr("kind")?.extract()?, dtype.getattr("itemsize")?.extract()?);
    let to = match (letter.as_str(), bytes) {
        ("i" | "u" | "f", _) if is_score => "<f8",
        ("i" | "b", _) => "<i8",
        ("u", _) => "<u8",
        ("f", 0..=4) => "<f4",
        ("f", _) => "<f8",
        _ => {
            let name = dtype.to_string();
            return Err(raise(
                "InvalidValue",
                format!("an array of {name} is no field of a row; give one of numbers"),
            ));
        }
    };
    let dimensions: usize = array.getattr("ndim")?.extract()?;
    let octets = array.call_method1("astype", (to,))?.call_method0("tobytes")?;
    let octets = octets.cast::<PyBytes>()?.as_bytes();
    Ok(match (to, dimensions) {
        ("<i8", 0) => row.i64(first(octets)),
        ("<u8", 0) => row.u64(first(octets)),
        ("<f4", 0) => row.f32(first(octets)),
        (_, 0) => row.f64(first(octets)),
        ("<i8", _) => row.value(Value::I64s(Numbers::of_octets(octets))),
        ("<u8", _) => row.value(Value::U64s(Numbers::of_octets(octets))),
        ("<f4", _) => row.value(Value::F32s(Numbers::of_octets(octets))),
        _ => row.value(Value::F64s(Numbers::of_octets(octets))),
    })
}

fn first<N: Number>(octets: &[u8]) -> N {
    Numbers::of_octets(octets).at(0).expect("invariant: a scalar of numpy has the bytes of one number")
}

/// The fields of a payload if it is a typed packet: one field by itself, several as a tuple.
///
/// # Errors
/// If numpy is asked for and not there.
pub(crate) fn read<'py>(py: Python<'py>, payload: &Bytes, how: How) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Ok(packet) = Packet::read(payload) else { return Ok(None) };
    let fields = packet.values().map(|value| shown(py, value, how)).collect::<PyResult<Vec<_>>>()?;
    Ok(match fields.len() {
        0 => None,
        1 => fields.into_iter().next(),
        _ => Some(PyTuple::new(py, fields)?.into_any()),
    })
}

macro_rules! shown {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        fn shown<'py>(py: Python<'py>, value: Value<'_>, how: How) -> PyResult<Bound<'py, PyAny>> {
            Ok(match value {
                $(
                    Value::$one(number) => number.into_pyobject(py)?.into_any(),
                    Value::$many(numbers) => numbers_shown(py, numbers, how)?,
                )*
                Value::Str(text) => text.into_pyobject(py)?.into_any(),
                Value::Blob(octets) => PyBytes::new(py, octets).into_any(),
                Value::Strs(texts) => PyList::new(py, texts)?.into_any(),
                Value::Blobs(blobs) => PyList::new(py, blobs.map(|octets| PyBytes::new(py, octets)))?.into_any(),
            })
        }
    };
}

number_types!(shown);

fn numbers_shown<'py, N: Number + IntoPyObject<'py>>(
    py: Python<'py>,
    numbers: Numbers<'_, N>,
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    if how == How::Numpy {
        let octets = PyBytes::new(py, numbers.octets());
        // numpy names a type by the first letter of ours and by its bytes: `<i8` is an i64
        let dtype = format!("<{}{}", &N::TYPE.name()[..1], size_of::<N>());
        return py.import("numpy")?.call_method1("frombuffer", (octets, dtype));
    }
    Ok(PyList::new(py, numbers.iter())?.into_any())
}
