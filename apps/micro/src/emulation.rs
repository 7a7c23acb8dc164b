//! Parameters of `emulated`.
//!
//! A run's settings are all in the call, including the nodes' processors and slowness. A node process has
//! no setting that a run must set and might forget to reset. A node is named by any of its partitions.
//! Limits are checked when parameters are read, as in [`work`](crate::Work), which has the same limits.

use crate::work::{Distribution, FACTOR_MAX, PROCESSORS_MAX, WorkError, check_duration, check_listed};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Parameters of `emulated`. Nil and an empty map are the defaults: the paper's MICRO.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Emulation {
    /// Mean duration of a local.
    pub local_ms: f64,
    /// Mean duration of a reduce.
    pub reduce_ms: f64,
    /// Distribution of durations.
    pub distribution: Distribution,
    /// Seed of the durations.
    pub seed: u64,
    /// Number of processors of a node. It must equal the `--processors` that the node announces to the
    /// cluster.
    pub processors: u32,
    /// Nodes with other numbers of processors: a partition of the node, and its number of processors.
    pub processors_of: Vec<(u32, u32)>,
    /// Slow nodes: a partition of the node, and the factor by which everything takes longer there.
    pub slow: Vec<(u32, f64)>,
}

impl Default for Emulation {
    fn default() -> Self {
        Self {
            local_ms: 25.0,
            reduce_ms: 5.0,
            distribution: Distribution::Exponential,
            seed: 0,
            processors: 2,
            processors_of: Vec::new(),
            slow: Vec::new(),
        }
    }
}

impl Emulation {
    /// Checks that all fields are within their limits.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), WorkError> {
        check_duration("local_ms", self.local_ms)?;
        check_duration("reduce_ms", self.reduce_ms)?;
        check_listed("processors_of", self.processors_of.len())?;
        check_listed("slow", self.slow.len())?;
        check_processors("processors", self.processors)?;
        for &(_, processors) in &self.processors_of {
            check_processors("processors_of", processors)?;
        }
        match self.slow.iter().find(|(_, factor)| !(1.0..=FACTOR_MAX).contains(factor)) {
            Some(&(_, given)) => Err(WorkError::Factor { given }),
            None => Ok(()),
        }
    }

    /// Number of processors of the node for whose partitions `hosts` is true.
    pub(crate) fn processors_where(&self, hosts: impl Fn(u32) -> bool) -> u32 {
        let named = self.processors_of.iter().find(|(partition, _)| hosts(*partition));
        named.map_or(self.processors, |&(_, processors)| processors)
    }

    /// Slowness factor of the node for whose partitions `hosts` is true. If the node is listed twice, the
    /// larger one.
    pub(crate) fn factor_where(&self, hosts: impl Fn(u32) -> bool) -> f64 {
        let named = self.slow.iter().filter(|(partition, _)| hosts(*partition));
        named.fold(1.0, |most, &(_, factor)| f64::max(most, factor))
    }
}

fn check_processors(field: &'static str, given: u32) -> Result<(), WorkError> {
    if (1..=PROCESSORS_MAX).contains(&given) { Ok(()) } else { Err(WorkError::Processors { field, given }) }
}

impl Serialize for Emulation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to) // the derived one, by `remote = "Self"`
    }
}

impl<'de> Deserialize<'de> for Emulation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Given(#[serde(deserialize_with = "Emulation::deserialize")] Emulation);
        let emulation = Option::<Given>::deserialize(from)?.map_or_else(Self::default, |given| given.0);
        emulation.check().map_err(serde::de::Error::custom)?;
        Ok(emulation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use treefold_operators::Body;

    #[test]
    fn the_default_is_the_paper_s_micro() {
        let paper = Emulation::decode(&Bytes::new()).unwrap();
        assert_eq!((paper.local_ms, paper.reduce_ms, paper.processors), (25.0, 5.0, 2));
        assert_eq!(paper.distribution, Distribution::Exponential);
        assert_eq!(Emulation::decode(&Bytes::from_static(&[0x80])), Ok(paper), "an empty map");
    }

    #[test]
    fn a_node_is_named_by_any_of_its_partitions() {
        let asked = Emulation {
            processors_of: vec![(20, 4)],
            slow: vec![(1, 5.0), (2, 3.0)],
            ..Emulation::default()
        };
        let asked = Emulation::decode(&asked.encode().unwrap()).unwrap();
        let hosts = |partitions: &'static [u32]| move |partition| partitions.contains(&partition);
        assert_eq!(asked.processors_where(hosts(&[19, 20])), 4);
        assert_eq!(asked.processors_where(hosts(&[21])), 2);
        assert_eq!((asked.factor_where(hosts(&[0])), asked.factor_where(hosts(&[2, 1]))), (1.0, 5.0));
    }

    #[test]
    fn values_outside_their_limits_are_refused_when_read() {
        let usual = Emulation::default;
        for (emulation, complaint) in [
            (Emulation { local_ms: -1.0, ..usual() }, "local_ms is -1"),
            (Emulation { reduce_ms: f64::NAN, ..usual() }, "reduce_ms is NaN"),
            (Emulation { processors: 0, ..usual() }, "processors says 0 processors"),
            (Emulation { processors_of: vec![(0, 5000)], ..usual() }, "processors_of says 5000 processors"),
            (Emulation { slow: vec![(0, 0.5)], ..usual() }, "slow has the factor 0.5"),
            (Emulation { slow: vec![(0, 1.0); 5000], ..usual() }, "slow lists 5000 partitions"),
        ] {
            let refused = Emulation::decode(&emulation.encode().unwrap()).unwrap_err().to_string();
            assert!(refused.contains(complaint), "{refused}");
        }
    }
}
