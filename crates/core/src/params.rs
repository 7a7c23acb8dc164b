//! The parameters of a call: common ones, and those of single partitions (the DAC paper's call gives every partition the same).

use crate::id::PartitionId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes that an entry of a single partition counts besides its parameters, so that empty ones are bounded too.
pub const OWN_ENTRY_BYTES: usize = 16;

/// The parameters of a call.
///
/// Most calls have common parameters only. A partition with parameters of its own gets these instead of the
/// common ones; a reduce always gets the common ones. On the way down the tree, a node gets only the parameters of the partitions
/// in its subtree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(bound(deserialize = "P: serde::Deserialize<'de>")))]
pub struct Params<P> {
    /// For the reduce, and for all partitions without parameters of their own.
    pub common: P,
    /// By partition, ascending.
    own: Arc<[(PartitionId, P)]>,
}

impl<P> From<P> for Params<P> {
    fn from(common: P) -> Self {
        Self { common, own: Arc::default() }
    }
}

impl<P> Params<P> {
    /// Creates parameters from common ones and those of single partitions, in any order.
    ///
    /// # Errors
    /// Returns a partition that is there twice.
    pub fn new(common: P, mut own: Vec<(PartitionId, P)>) -> Result<Self, PartitionId> {
        own.sort_by_key(|&(partition, _)| partition);
        match own.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(twice) => Err(twice[0].0),
            None => Ok(Self { common, own: own.into() }),
        }
    }

    /// Returns the parameters of single partitions, ascending by partition.
    pub fn own(&self) -> &[(PartitionId, P)] {
        &self.own
    }

    /// Returns the parameters that the local of this partition gets.
    pub fn of(&self, partition: PartitionId) -> &P {
        match self.own.binary_search_by_key(&partition, |&(partition, _)| partition) {
            Ok(at) => &self.own[at].1,
            Err(_) => &self.common,
        }
    }
}

impl<P: Payload> Params<P> {
    /// Returns the bytes of all parameters.
    pub(crate) fn bytes(&self) -> usize {
        self.common.len() + self.own_bytes()
    }

    /// Returns the bytes that the parameters of single partitions count, [`OWN_ENTRY_BYTES`] included.
    pub fn own_bytes(&self) -> usize {
        self.own.iter().map(|(_, params)| OWN_ENTRY_BYTES + params.len()).sum()
    }

    /// Returns the parameters that a subtree with these partitions needs. The partitions are computed only if some partition has
    /// parameters of its own.
    pub(crate) fn within(&self, partitions: impl FnOnce() -> PartitionSet) -> Self {
        let own = if self.own.is_empty() {
            Arc::default()
        } else {
            let partitions = partitions();
            self.own.iter().filter(|&&(partition, _)| partitions.contains(partition)).cloned().collect()
        };
        Self { common: self.common.clone(), own }
    }

    /// Adds the parameters of partitions that a new parent has given.
    pub(crate) fn learn(&mut self, more: &Self) {
        let is_new = |partition: PartitionId| {
            self.own.binary_search_by_key(&partition, |&(partition, _)| partition).is_err()
        };
        if more.own.iter().any(|&(partition, _)| is_new(partition)) {
            let mut own: Vec<(PartitionId, P)> = self.own.to_vec();
            own.extend(more.own.iter().filter(|&&(partition, _)| is_new(partition)).cloned());
            own.sort_by_key(|&(partition, _)| partition);
            self.own = own.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use bytes::Bytes;

    fn some() -> Params<Bytes> {
        Params::new("all".into(), vec![(5, "five".into()), (2, "two".into())]).unwrap()
    }

    #[test]
    fn a_partition_gets_its_own_parameters_or_the_common_ones() {
        let params = some();
        assert_eq!(
            (params.of(2), params.of(3), params.of(5)),
            (&"two".into(), &"all".into(), &"five".into())
        );
        assert_eq!(params.own_bytes(), 2 * OWN_ENTRY_BYTES + 7);
    }

    #[test]
    fn a_partition_twice_is_refused() {
        assert_eq!(Params::new(0, vec![(7, 1), (3, 1), (7, 2)]), Err(7));
    }

    #[test]
    fn a_subtree_gets_the_parameters_of_its_partitions() {
        let below = some().within(|| PartitionSet::from_range(3..9));
        assert_eq!((below.of(2), below.of(5)), (&"all".into(), &"five".into()));
        assert_eq!(some().within(PartitionSet::new), Params::from(Bytes::from("all")));
    }

    #[test]
    fn a_new_parent_adds_partitions_and_changes_none() {
        let mut params = some();
        params.learn(&Params::new("other".into(), vec![(2, "changed".into()), (9, "nine".into())]).unwrap());
        assert_eq!(
            (params.of(2), params.of(9), params.of(1)),
            (&"two".into(), &"nine".into(), &"all".into())
        );
    }
}
