//! Counts packets.
//!
//! In a stream, endpoints send any packets, and each counts as one; nodes send up a packet `u64`. In calls
//! and pushes, partials are such counts.

use super::elementwise::{Elementwise, checked};
use super::sum::Adding;
use super::{FilterError, Fold, Merge, MergeError, Piece, Source};
use crate::builtin::{Builtin, Made, plain_inline};
use crate::error::Result;
use crate::packet::{Packet, Row};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub(crate) const ENTRY: Builtin = Builtin {
    name: "count",
    summary: "counts the packets that the endpoints sent",
    params: &[],
    made: Made::Fold(plain_inline::<Counting>),
};

/// A count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Count(pub u64);

impl Merge for Count {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.0 = checked(Adding::u64(self.0, other.0), "count")?;
        Ok(())
    }
}

#[derive(Default)]
struct Counting;

impl Fold for Counting {
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let mut total = Count(0);
        for piece in pieces {
            let count = match piece.source {
                Source::Endpoint(_) => 1,
                Source::Child(_) => Packet::read(&piece.payload)
                    .and_then(|packet| packet.u64(0))
                    .map_err(FilterError::packet(piece.source))?,
            };
            total.merge(Count(count))?;
        }
        Ok(Row::new().u64(total.0).packet().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::laws::{self, hold_to_the_laws};
    use proptest::prelude::*;

    hold_to_the_laws!(laws_of_count, (0u64..1 << 58).prop_map(Count));

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(Count(u64::MAX).merge(Count(1)), Err(MergeError::Overflow { figure: "count" }));
        let most = Row::new().u64(u64::MAX).packet().into_bytes();
        let refused =
            laws::up("count", &(), &[(Source::Child(0), most), (Source::Endpoint(1), Bytes::new())]);
        assert_eq!(refused.unwrap_err().to_string(), "count: overflow: the count does not fit into 64 bits");
    }

    #[test]
    fn a_child_without_a_count_is_refused_by_name() {
        let text = Row::new().str("x").packet().into_bytes();
        let refused = laws::up("count", &(), &[(Source::Child(2), text)]).unwrap_err().to_string();
        assert_eq!(refused, "count: the packet of child 2: field 0 of a packet `str` is not of type u64");
    }
}
