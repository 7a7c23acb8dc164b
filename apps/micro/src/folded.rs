//! The partial of `spin` and `hold`: figures that can be checked, and a payload that must be carried.

use crate::{Work, number_of};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use treefold_operators::merge::{Count, Sum};
use treefold_operators::{Merge, MergeError, Partition};

/// The sum of some partitions' numbers, the number of these partitions, and a payload of the requested
/// size.
///
/// A fold's payload is as large as each of its two inputs. A reduce that keeps a fixed number of results
/// (top-k) behaves like this, and a tree helps most in this case.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folded {
    /// The sum of the partitions' numbers.
    pub sum: i64,
    /// Number of partitions.
    pub partitions: u32,
    /// Zeros, as many as requested.
    #[serde(default, skip_serializing_if = "Bytes::is_empty")]
    pub payload: Bytes,
}

impl Folded {
    /// The partial of `partition` alone.
    pub(crate) fn of(partition: &Partition, work: &Work) -> Self {
        let payload = match usize::try_from(work.payload_bytes) {
            Ok(0) | Err(_) => Bytes::new(), // every address space is larger than PAYLOAD_BYTES_MAX
            Ok(bytes) => Bytes::from(vec![0; bytes]),
        };
        Self { sum: number_of(partition), partitions: 1, payload }
    }

    /// Identifies this partial among those of its call, well enough to draw a duration from it.
    pub(crate) fn mark(&self) -> (i64, u32) {
        (self.sum, self.partitions)
    }
}

impl Merge for Folded {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        let (mut sum, mut partitions) = (Sum(self.sum), Count(self.partitions.into()));
        sum.merge(Sum(other.sum))?;
        partitions.merge(Count(other.partitions.into()))?;
        self.sum = sum.0;
        self.partitions = u32::try_from(partitions.0)
            .map_err(|_| MergeError::Overflow { figure: "number of partitions" })?;
        if other.payload.len() > self.payload.len() {
            self.payload = other.payload;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use treefold_operators::Body;

    fn folded() -> impl Strategy<Value = Folded> {
        (-1_000_000i64..1_000_000, 0u32..1000, 0usize..300).prop_map(|(sum, partitions, bytes)| Folded {
            sum,
            partitions,
            payload: vec![0; bytes].into(),
        })
    }

    fn merged(mut a: Folded, b: Folded) -> Bytes {
        a.merge(b).unwrap();
        a.encode().unwrap()
    }

    fn read(bytes: &Bytes) -> Folded {
        Folded::decode(bytes).unwrap()
    }

    proptest! {
        #[test]
        fn any_tree_gives_the_same_bytes(a in folded(), b in folded(), c in folded()) {
            let left = merged(read(&merged(a.clone(), b.clone())), c.clone());
            let right = merged(a.clone(), read(&merged(b.clone(), c)));
            prop_assert_eq!(left, right);
            prop_assert_eq!(merged(a.clone(), b.clone()), merged(b, a.clone()));
            prop_assert_eq!(merged(a.clone(), Folded::default()), a.encode().unwrap());
        }
    }

    #[test]
    fn overflow_is_an_error() {
        let refused = |a: Folded, b: Folded| a.clone().merge(b).unwrap_err().to_string();
        let most = Folded { sum: i64::MAX, partitions: u32::MAX, payload: Bytes::new() };
        let one = |sum, partitions| Folded { sum, partitions, payload: Bytes::new() };
        assert!(refused(most.clone(), one(1, 0)).contains("the sum"));
        assert!(refused(most, one(0, 1)).contains("the number of partitions"));
    }

    #[test]
    fn without_a_payload_a_partial_is_its_figures_alone() {
        let bytes = Folded { sum: 3, partitions: 2, payload: Bytes::new() }.encode().unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"payload"));
        assert_eq!(read(&bytes).partitions, 2);
    }
}
