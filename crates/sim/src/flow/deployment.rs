//! Placement of relays: beside every switch, beside the switches of one tier, or beside some of them (NetAgg
//! §4.1, figures 12 and 13).

use super::topology::Switch;

/// Number of relays per switch, by tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    racks: Tier,
    pods: Tier,
    cores: Tier,
    per_switch: u32,
}

/// The switches of a tier that have relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    None,
    All,
    /// One in this many switches, spread evenly over pods and planes.
    OneIn(u32),
}

impl Deployment {
    /// No relays.
    pub const NONE: Self = Self { racks: Tier::None, pods: Tier::None, cores: Tier::None, per_switch: 1 };
    /// Rack switches only.
    pub const RACKS: Self = Self { racks: Tier::All, ..Self::NONE };
    /// Pod (aggregation) switches only.
    pub const PODS: Self = Self { pods: Tier::All, ..Self::NONE };
    /// Core switches only.
    pub const CORES: Self = Self { cores: Tier::All, ..Self::NONE };
    /// As many relays as there are core switches, at every second pod switch.
    pub const HALF_OF_PODS: Self = Self { pods: Tier::OneIn(2), ..Self::NONE };
    /// As many relays as `HALF_OF_PODS`: at every fourth pod switch and every second core switch.
    pub const PODS_AND_CORES: Self = Self { pods: Tier::OneIn(4), cores: Tier::OneIn(2), ..Self::NONE };

    /// Creates a deployment with `per_switch` relays beside every switch.
    pub const fn full(per_switch: u32) -> Self {
        Self { racks: Tier::All, pods: Tier::All, cores: Tier::All, per_switch }
    }

    /// Returns the number of relays beside a switch.
    pub fn at(&self, switch: Switch) -> u32 {
        let (tier, place) = match switch {
            Switch::Rack(rack) => (self.racks, rack),
            // The chosen planes shift from pod to pod, so that the relays are spread over all planes.
            Switch::Pod { pod, plane } => (self.pods, pod + plane),
            Switch::Core { plane, nth } => (self.cores, plane + nth),
        };
        let has_relays = match tier {
            Tier::None => false,
            Tier::All => true,
            Tier::OneIn(so_many) => place.is_multiple_of(so_many),
        };
        if has_relays { self.per_switch } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::{Fabric, Topology};
    use super::*;

    #[test]
    fn deployments_have_the_papers_numbers_of_relays() {
        let relays = |relays| Topology::new(Fabric { relays, ..Fabric::PAPER }).relays();
        assert_eq!(
            [relays(Deployment::NONE), relays(Deployment::full(1)), relays(Deployment::full(4))],
            [0, 320, 1_280]
        );
        assert_eq!(
            [relays(Deployment::RACKS), relays(Deployment::PODS), relays(Deployment::CORES)],
            [128, 128, 64]
        );
        assert_eq!([relays(Deployment::HALF_OF_PODS), relays(Deployment::PODS_AND_CORES)], [64, 64]);
    }
}
