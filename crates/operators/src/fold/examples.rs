//! Samples for every built-in operator, for tests that run all of them.

use super::{classes, histogram, top_k};
use crate::codec::Body;
use crate::packet::Row;
use bytes::Bytes;

/// An operator with samples from some endpoints or locals.
#[derive(Clone, Debug)]
pub struct Example {
    /// The operator.
    pub name: &'static str,
    /// Its parameters.
    pub params: Bytes,
    /// One sample for each endpoint, from 0.
    pub samples: Vec<Bytes>,
    /// Whether every tree gives the same bytes. If not, the result has the same octets in another order.
    pub is_ordered: bool,
}

/// Returns an example of each [ready reduce](crate::ready).
///
/// The samples of `merge-sorted` are whole runs, as in calls and pushes. A stream sends runs in chunks.
pub fn examples() -> Vec<Example> {
    let packets = |row: fn(i64) -> Row| -> Vec<Bytes> {
        [4, -1, 3, 7].into_iter().map(|n| row(n).packet().into_bytes()).collect()
    };
    let texts = |texts: [&'static str; 4]| -> Vec<Bytes> {
        texts.into_iter().map(|text| Bytes::from_static(text.as_bytes())).collect()
    };
    let example = |name, samples| Example { name, params: Bytes::new(), samples, is_ordered: true };
    let with = |params: Result<Bytes, _>, example| Example {
        params: params.expect("parameters can be written"),
        ..example
    };
    let unordered = |example| Example { is_ordered: false, ..example };
    let figures = || packets(|n| Row::new().i64(n).f64s(&[n as f64, 0.5]));
    let names = || packets(|n| Row::new().str(if n > 3 { "many" } else { "few" }).f64(n as f64));
    let mut examples = vec![
        example("sum", figures()),
        example("min", figures()),
        example("max", figures()),
        example("average", figures()),
        example("count", texts(["a", "", "b", "c"])),
        unordered(example("concatenate", names())),
        with(
            top_k::rows::TopRows { k: 2 }.encode(),
            example("top-k", packets(|n| Row::new().f64(n as f64).str("x"))),
        ),
        with(histogram::Histogram::between([0.0, 1.0, 5.0]).encode(), example("histogram", figures())),
        with(classes::Classify::default().encode(), example("classes", texts(["a", "b", "a", "c"]))),
        example("merge-lines", texts(["a\nc\n", "b\n", "", "a\nd\n"])),
        example("sum-lines", texts(["a\t1\nc\t2\n", "b\t5\n", "a\t-3\n", "c\t1\n"])),
        unordered(example("append", texts(["one ", "two ", "three ", "four "]))),
        example("merge-sorted", packets(|n| Row::new().strs(&["a", "b"]).i64s(&[n, 1]))),
        example("quantiles", figures()),
        unordered(example("distinct", names())),
    ];
    examples.extend(of_batches());
    examples
}

#[cfg(not(feature = "arrow"))]
fn of_batches() -> Vec<Example> {
    Vec::new()
}

#[cfg(feature = "arrow")]
fn of_batches() -> Vec<Example> {
    use super::group::{Aggregate, Function, GroupParams};
    use crate::codec::Batch;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    let batch = |n: i64| {
        let column = |numbers: [i64; 2]| Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef;
        let columns = [("key", column([n, 7])), ("value", column([1, n]))];
        Batch(RecordBatch::try_from_iter(columns).expect("columns of one length")).encode()
    };
    let samples = || [4, -1, 3, 7].map(|n| batch(n).expect("a batch can be written")).to_vec();
    let aggregate = |function| Aggregate { column: "value".into(), function };
    let grouped = GroupParams {
        keys: vec!["key".into()],
        aggregates: [Function::Sum, Function::Min, Function::Average].map(aggregate).to_vec(),
        ..GroupParams::default()
    };
    let params = grouped.encode().expect("parameters can be written");
    vec![
        Example { name: "group", params, samples: samples(), is_ordered: true },
        Example { name: "concat-batches", params: Bytes::new(), samples: samples(), is_ordered: false },
    ]
}
