//! The parameters of a call: common ones, those of single partitions (the DAC paper's call gives every partition the same), and
//! those of the reduce (`I_REDUCE`, DAC §3.2).

use crate::id::PartitionId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The name, in errors, of the parameters that only the reduce gets.
pub const REDUCE_PARAMS: &str = "reduce_params";

/// Bytes that an entry of a single partition counts besides its parameters, so that empty ones are bounded too.
pub const OWN_ENTRY_BYTES: usize = 16;

/// The parameters of a call.
///
/// Most calls have common parameters only. A partition with parameters of its own gets these instead of the
/// common ones. A reduce gets its own parameters if there are any, else the common ones. On the way down the tree, a node gets only
/// the parameters of the partitions in its subtree, and always those of the reduce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(bound(deserialize = "P: serde::Deserialize<'de>")))]
pub struct Params<P> {
    /// For all partitions without parameters of their own, and for the reduce if it has none of its own.
    pub common: P,
    /// The others, which few calls have.
    beside: Option<Arc<Beside<P>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(bound(deserialize = "P: serde::Deserialize<'de>")))]
struct Beside<P> {
    /// By partition, ascending.
    own: Vec<(PartitionId, P)>,
    /// For the reduce.
    reduce: Option<P>,
}

impl<P> From<P> for Params<P> {
    fn from(common: P) -> Self {
        Self { common, beside: None }
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
            None => Ok(Self::beside(common, own, None)),
        }
    }

    /// `own` is ascending by partition.
    fn beside(common: P, own: Vec<(PartitionId, P)>, reduce: Option<P>) -> Self {
        let are_common = own.is_empty() && reduce.is_none();
        Self { common, beside: (!are_common).then(|| Arc::new(Beside { own, reduce })) }
    }

    /// Returns true if all partitions and the reduce get the same parameters.
    pub(crate) fn are_common(&self) -> bool {
        self.beside.is_none()
    }

    /// Returns the parameters of single partitions, ascending by partition.
    pub fn own(&self) -> &[(PartitionId, P)] {
        self.beside.as_ref().map_or(&[], |beside| &beside.own)
    }

    /// Returns the parameters of the reduce, if it has any of its own.
    pub fn reduce(&self) -> Option<&P> {
        self.beside.as_ref()?.reduce.as_ref()
    }

    /// Returns the parameters that the local of this partition gets.
    pub fn of(&self, partition: PartitionId) -> &P {
        let own = self.own();
        match own.binary_search_by_key(&partition, |&(partition, _)| partition) {
            Ok(at) => &own[at].1,
            Err(_) => &self.common,
        }
    }

    /// Returns the parameters that the reduce gets.
    pub fn of_reduce(&self) -> &P {
        self.reduce().unwrap_or(&self.common)
    }
}

impl<P: Clone> Params<P> {
    /// Sets the parameters of the reduce, if it has any of its own.
    #[must_use]
    pub fn with_reduce(self, reduce: Option<P>) -> Self {
        let own = self.own().to_vec();
        Self::beside(self.common, own, reduce)
    }
}

impl<P: Payload> Params<P> {
    /// Returns the bytes of all parameters.
    pub(crate) fn bytes(&self) -> usize {
        self.common.len() + self.beside_bytes()
    }

    /// Returns the bytes that all parameters besides the common ones count.
    pub fn beside_bytes(&self) -> usize {
        self.own_bytes() + self.reduce().map_or(0, Payload::len)
    }

    /// Returns the bytes that the parameters of single partitions count, [`OWN_ENTRY_BYTES`] included.
    pub fn own_bytes(&self) -> usize {
        self.own().iter().map(|(_, params)| OWN_ENTRY_BYTES + params.len()).sum()
    }

    /// Returns the parameters that a subtree with these partitions needs. The partitions are computed only if some partition has
    /// parameters of its own.
    pub(crate) fn within(&self, partitions: impl FnOnce() -> PartitionSet) -> Self {
        if self.own().is_empty() {
            return self.clone();
        }
        let partitions = partitions();
        let own = self.own().iter().filter(|&&(partition, _)| partitions.contains(partition)).cloned();
        Self::beside(self.common.clone(), own.collect(), self.reduce().cloned())
    }

    /// Adds the parameters of partitions that a new parent has given.
    ///
    /// If only the new parent tells those of the reduce apart, the former parent's build does not know them. It gave them as the
    /// common ones, and the common ones as those of each partition.
    pub(crate) fn learn(&mut self, more: &Self) {
        let own = self.own();
        let is_new = |partition: PartitionId| {
            own.binary_search_by_key(&partition, |&(partition, _)| partition).is_err()
        };
        let new = || more.own().iter().filter(|&&(partition, _)| is_new(partition));
        let tells_apart = self.reduce().is_none() && more.reduce().is_some();
        if new().next().is_none() && !tells_apart {
            return;
        }
        let mut all: Vec<(PartitionId, P)> = own.iter().chain(new()).cloned().collect();
        all.sort_by_key(|&(partition, _)| partition);
        let from = if tells_apart { more } else { &*self };
        *self = Self::beside(from.common.clone(), all, from.reduce().cloned());
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
    fn a_reduce_gets_its_own_parameters_or_the_common_ones() {
        let apart = some().with_reduce(Some("fold".into()));
        assert_eq!((some().of_reduce(), apart.of_reduce()), (&"all".into(), &"fold".into()));
        assert_eq!((apart.of(2), apart.of(3)), (&"two".into(), &"all".into()));
        assert_eq!(apart.within(PartitionSet::new).of_reduce(), "fold");
        assert_eq!(apart.beside_bytes(), some().own_bytes() + 4);
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

    #[test]
    fn a_new_parent_tells_the_parameters_of_the_reduce_apart() {
        let own = vec![(2, "all".into()), (3, "all".into())];
        let mut params = Params::<Bytes>::new("fold".into(), own).unwrap();
        params.learn(&Params::from(Bytes::from("all")).with_reduce(Some("fold".into())));
        assert_eq!(
            (params.of(2), params.of(9), params.of_reduce()),
            (&"all".into(), &"all".into(), &"fold".into())
        );
    }
}
