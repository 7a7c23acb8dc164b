//! Reduces that need no code at the nodes that run them: for applications whose workers push what is folded.
//!
//! | name | bodies | two become one by |
//! |---|---|---|
//! | `sum`, `min`, `max`, `top-k`, `concatenate` | [typed packets](crate::packet) | the [filter](crate::filter) of that name, which takes its parameters too |
//! | `merge-sorted` | typed packets: `blobs blobs`, `strs blobs`, `blobs i64s` or `strs i64s` | merging by key, ascending; where values are `i64s`, those of equal keys are added |
//! | `merge-lines` | lines of text, ascending by their bytes | merging, as `sort -m` does in the C locale |
//! | `sum-lines` | lines of a key, a tab and a whole number, ascending by key, each key once | merging, and adding the numbers of equal keys |
//! | `append` | any bytes | one behind the other, in no certain order |
//!
//! Each is associative and, but for the order of `append` and `concatenate`, commutative. A body of no bytes has nothing
//! to add to any of them. What is not in order is an error: it would spoil everything above it.

use crate::aggregation::{Partition, Placement};
use crate::codec::Codec;
use crate::erased::{Operator, Outcome};
use crate::error::{OperatorError, Result};
use crate::filter::{FilterKind, Piece, Source, Wave, builtin};
use bytes::Bytes;
use std::sync::Arc;

mod lines;
mod runs;

/// Filters whose packets are folded alike wherever they come from, and so do for reduces.
const FILTERS: [&str; 5] = ["sum", "min", "max", "top-k", "concatenate"];

/// Two bodies into one.
type Join = fn(&Bytes, &Bytes) -> Result<Bytes>;

const JOINS: [(&str, Join); 4] = [
    ("merge-sorted", runs::merge),
    ("merge-lines", lines::merge),
    ("sum-lines", lines::sum),
    ("append", append),
];

/// All reduces that are ready, by name.
///
/// ```
/// use bytes::Bytes;
/// use treefold_operators::ready;
///
/// let (_, reduce) = ready::reduces().find(|(name, _)| *name == "sum-lines").unwrap();
/// let run = |text: &'static str| Bytes::from_static(text.as_bytes());
/// let both = reduce.reduce(run("a\t2\nc\t1\n"), run("a\t1\nb\t5\n"), &Bytes::new());
/// assert_eq!(both.now().unwrap().unwrap(), "a\t3\nb\t5\nc\t1\n");
/// ```
pub fn reduces() -> impl Iterator<Item = (&'static str, Arc<dyn Operator>)> {
    let filters = FILTERS.into_iter().map(|name| {
        let kind = builtin(name).expect("invariant: the filters named here are built in");
        (name, Arc::new(Ready { name, how: How::Filter(kind) }) as Arc<dyn Operator>)
    });
    let joins = JOINS
        .into_iter()
        .map(|(name, join)| (name, Arc::new(Ready { name, how: How::Join(join) }) as Arc<dyn Operator>));
    filters.chain(joins)
}

struct Ready {
    name: &'static str,
    how: How,
}

enum How {
    Filter(Arc<dyn FilterKind>),
    Join(Join),
}

impl Ready {
    fn fold(&self, a: &Bytes, b: &Bytes, params: &Bytes) -> Result<Bytes> {
        match &self.how {
            How::Join(_) if !params.is_empty() => Err(OperatorError::new("it takes no parameters")),
            How::Join(join) => join(a, b),
            How::Filter(kind) => {
                let piece = |number, payload: &Bytes| Piece {
                    source: Source::Endpoint(number),
                    payload: payload.clone(),
                };
                let pieces = [piece(0, a), piece(1, b)];
                let mut out = Vec::with_capacity(1);
                kind.open(params)?.up(Wave { tag: 0, pieces: &pieces, now_ns: 0 }, &mut out)?;
                out.pop().ok_or_else(|| OperatorError::new("the filter gave nothing"))
            }
        }
    }
}

impl Operator for Ready {
    fn local(&self, _: &Partition, _: &Bytes) -> Outcome {
        Outcome::Now(Err(OperatorError::new(format!("{} has no local: it folds what is pushed", self.name))))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        Outcome::Now(match (a.is_empty(), b.is_empty()) {
            (true, _) => Ok(b),
            (_, true) => Ok(a),
            _ => self.fold(&a, &b, params).map_err(|error| error.context(self.name)),
        })
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        let partial = match self.how {
            How::Filter(_) => Codec::Packet,
            How::Join(_) if self.name == "merge-sorted" => Codec::Packet,
            How::Join(_) => Codec::Raw,
        };
        (Codec::MessagePack, partial)
    }
}

fn append(a: &Bytes, b: &Bytes) -> Result<Bytes> {
    Ok([&a[..], &b[..]].concat().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Packet, Row};

    fn reduced(name: &str, a: &Bytes, b: &Bytes, params: &Bytes) -> Result<Bytes> {
        let (_, reduce) = reduces().find(|(known, _)| *known == name).expect("a reduce of that name");
        reduce.reduce(a.clone(), b.clone(), params).now().expect("none of them waits")
    }

    #[test]
    fn filters_fold_packets_as_they_do_in_streams() {
        let packet = |n: i64| Row::new().i64(n).f64s(&[1.0, 2.0]).packet().into_bytes();
        let sum = reduced("sum", &packet(2), &packet(40), &Bytes::new()).unwrap();
        assert_eq!(Packet::read(&sum).unwrap(), Row::new().i64(42).f64s(&[2.0, 4.0]).packet());
        let refused = reduced("sum", &packet(2), &Bytes::from_static(b"\x01"), &Bytes::new()).unwrap_err();
        assert!(refused.to_string().starts_with("sum: "), "{refused}");
        let refused = reduced("top-k", &packet(2), &packet(1), &Bytes::new()).unwrap_err();
        assert!(refused.to_string().starts_with("top-k: "), "{refused}");
    }

    #[test]
    fn nothing_adds_nothing_whatever_the_reduce() {
        let some = Bytes::from_static(b"whatever");
        for (name, _) in reduces() {
            assert_eq!(reduced(name, &some, &Bytes::new(), &Bytes::new()).unwrap(), some, "{name}");
            assert_eq!(reduced(name, &Bytes::new(), &some, &Bytes::new()).unwrap(), some, "{name}");
        }
    }

    #[test]
    fn parameters_where_there_are_none_are_refused() {
        let some = Bytes::from_static(b"a\n");
        let refused = reduced("merge-lines", &some, &some, &some).unwrap_err().to_string();
        assert_eq!(refused, "merge-lines: it takes no parameters");
    }
}
