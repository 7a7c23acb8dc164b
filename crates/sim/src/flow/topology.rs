//! The data centre: servers, three tiers of switches, relays beside switches, and the capacity of each link.
//!
//! ```text
//!              core (plane, nth)            width² of them: `width` per plane
//!             /                 \
//!        pod switch          pod switch     one per (pod, plane); 2·width pods of `width` planes
//!        /    |                  |    \
//!     rack   rack              rack   rack  `width` per pod
//!    ///|    |\\\             ///|    |\\\
//!    servers                                `width` per rack
//! ```
//!
//! It is the fat tree of Al-Fares et al. (SIGCOMM'08), in which every switch has `2·width` ports. With a
//! width of 8 it has 1,024 servers, 128 rack, 128 pod and 64 core switches. These are NetAgg's 320 switches
//! (§4.1), whose 20 ports leave four for relays. A pod's plane leads only to the cores of that plane, so two
//! racks of different pods have `width²` ways between them.
//!
//! Over-subscription is at the rack switch, as in the paper. It makes each uplink narrower and does not
//! change the number of uplinks and ways. A relay has its own link. Its processor is modelled as one more
//! link, which all bytes into the relay must pass.

use super::deployment::Deployment;
use std::collections::BTreeMap;
use std::ops::Range;

/// A link in one direction, or a relay's processor.
pub type Link = u16;

/// Bytes per second of one Gbit/s.
pub const GBPS: f64 = 1e9 / 8.0;

/// A data centre as a plain value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fabric {
    /// Servers per rack, racks and planes per pod, cores per plane, and half the number of pods.
    pub width: u32,
    /// Capacity of a server's link in each direction, and of every link that is not narrowed.
    pub edge_gbps: f64,
    /// Ratio of the capacity of a rack's server links to the capacity of its uplinks.
    pub oversubscription: f64,
    /// The placement of relays.
    pub relays: Deployment,
    /// Capacity of a relay's link in each direction.
    pub relay_link_gbps: f64,
    /// R: the rate at which a relay can process its input.
    pub relay_rate_gbps: f64,
}

impl Fabric {
    /// NetAgg's fabric (§4.1), without relays.
    pub const PAPER: Self = Self {
        width: 8,
        edge_gbps: 1.0,
        oversubscription: 4.0,
        relays: Deployment::NONE,
        relay_link_gbps: 10.0,
        relay_rate_gbps: 9.2,
    };

    /// Returns the number of servers.
    pub const fn servers(&self) -> u32 {
        2 * self.width * self.width * self.width
    }

    /// Returns the number of racks, which is also the number of pod switches.
    pub const fn racks(&self) -> u32 {
        2 * self.width * self.width
    }

    /// Returns the number of pods.
    pub const fn pods(&self) -> u32 {
        2 * self.width
    }

    /// Returns the rack of a server.
    pub const fn rack_of(&self, server: u32) -> u32 {
        server / self.width
    }

    /// Returns the pod of a rack.
    pub const fn pod_of_rack(&self, rack: u32) -> u32 {
        rack / self.width
    }

    /// Returns the pod of a server.
    pub const fn pod_of(&self, server: u32) -> u32 {
        self.pod_of_rack(self.rack_of(server))
    }

    /// Returns all switches, tier by tier, lowest tier first.
    pub fn switches(&self) -> impl Iterator<Item = Switch> + use<> {
        let (width, pods) = (self.width, self.pods());
        let racks = (0..self.racks()).map(Switch::Rack);
        let in_pods = (0..pods).flat_map(move |pod| (0..width).map(move |plane| Switch::Pod { pod, plane }));
        let cores = (0..width).flat_map(move |plane| (0..width).map(move |nth| Switch::Core { plane, nth }));
        racks.chain(in_pods).chain(cores)
    }
}

/// A switch, by its tier and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Switch {
    /// The switch of a rack.
    Rack(u32),
    /// A switch that connects the racks of a pod.
    Pod {
        /// The pod.
        pod: u32,
        /// Index of the switch in the pod.
        plane: u32,
    },
    /// A switch that connects pods.
    Core {
        /// The plane of the pod switches that it connects.
        plane: u32,
        /// Index of the switch in the plane.
        nth: u32,
    },
}

/// A sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A server by its number.
    Server(u32),
    /// A relay by its number.
    Relay(u32),
}

/// A fabric with numbered links: six kinds, with as many links each as there are servers, then three links
/// for each relay.
#[derive(Clone, Debug)]
pub struct Topology {
    fabric: Fabric,
    relays: Vec<Switch>,
    relays_at: BTreeMap<Switch, Range<u32>>,
    capacity: Vec<f64>,
}

/// Number of kinds of links between servers and switches.
const KINDS: u32 = 6;

impl Topology {
    /// Numbers the links of a fabric.
    ///
    /// # Panics
    ///
    /// Panics if there are more links than [`Link`] can number.
    pub fn new(fabric: Fabric) -> Self {
        let (mut relays, mut relays_at) = (Vec::new(), BTreeMap::new());
        for switch in fabric.switches() {
            let first = relays.len() as u32;
            relays.extend((0..fabric.relays.at(switch)).map(|_| switch));
            relays_at.insert(switch, first..relays.len() as u32);
        }
        let servers = fabric.servers() as usize;
        let edge = fabric.edge_gbps * GBPS;
        let kinds = [edge, edge, edge / fabric.oversubscription, edge / fabric.oversubscription, edge, edge];
        let mut capacity: Vec<f64> =
            kinds.into_iter().flat_map(|bytes_per_s| std::iter::repeat_n(bytes_per_s, servers)).collect();
        let of_relay = [fabric.relay_link_gbps, fabric.relay_link_gbps, fabric.relay_rate_gbps];
        capacity.extend(relays.iter().flat_map(|_| of_relay).map(|gbps| gbps * GBPS));
        assert!(
            capacity.len() < usize::from(Link::MAX),
            "{} links are too many for the type Link",
            capacity.len()
        );
        Self { fabric, relays, relays_at, capacity }
    }

    /// Returns the fabric.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the capacity of each link, in bytes per second.
    pub fn capacity(&self) -> &[f64] {
        &self.capacity
    }

    /// Returns the number of links between servers and switches. The other links are relays'.
    pub fn network_links(&self) -> usize {
        (KINDS * self.fabric.servers()) as usize
    }

    /// Returns the number of relays.
    pub fn relays(&self) -> usize {
        self.relays.len()
    }

    /// Returns the relays beside a switch.
    pub fn relays_at(&self, switch: Switch) -> Range<u32> {
        self.relays_at.get(&switch).cloned().unwrap_or_default()
    }

    /// Returns the switch that a place is connected to.
    pub fn switch_of(&self, place: Place) -> Switch {
        match place {
            Place::Server(server) => Switch::Rack(self.fabric.rack_of(server)),
            Place::Relay(relay) => self.relays[relay as usize],
        }
    }

    /// Returns the link from a place to its switch.
    pub fn out_of(&self, place: Place) -> Link {
        match place {
            Place::Server(server) => self.link(0, server),
            Place::Relay(relay) => self.link_of_relay(relay, 0),
        }
    }

    /// Returns the links from a switch to a place. The second is a relay's processor.
    pub fn links_into(&self, place: Place) -> (Link, Option<Link>) {
        match place {
            Place::Server(server) => (self.link(1, server), None),
            Place::Relay(relay) => (self.link_of_relay(relay, 1), Some(self.link_of_relay(relay, 2))),
        }
    }

    /// Returns the link from a rack up to a plane of its pod, or down.
    pub fn rack_link(&self, rack: u32, plane: u32, is_up: bool) -> Link {
        self.link(if is_up { 2 } else { 3 }, rack * self.fabric.width + plane)
    }

    /// Returns the link from a pod up to a core, or down.
    pub fn core_link(&self, pod: u32, plane: u32, nth: u32, is_up: bool) -> Link {
        let width = self.fabric.width;
        self.link(if is_up { 4 } else { 5 }, (pod * width + plane) * width + nth)
    }

    fn link(&self, kind: u32, of_kind: u32) -> Link {
        (kind * self.fabric.servers() + of_kind) as Link
    }

    fn link_of_relay(&self, relay: u32, part: u32) -> Link {
        (KINDS * self.fabric.servers() + 3 * relay + part) as Link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paper_fabric_has_the_papers_switches() {
        let fabric = Fabric::PAPER;
        let tiers = |is_of: fn(&Switch) -> bool| fabric.switches().filter(is_of).count();
        assert_eq!(fabric.servers(), 1_024);
        assert_eq!(tiers(|switch| matches!(switch, Switch::Rack(_))), 128);
        assert_eq!(tiers(|switch| matches!(switch, Switch::Pod { .. })), 128);
        assert_eq!(tiers(|switch| matches!(switch, Switch::Core { .. })), 64);
    }

    #[test]
    fn uplinks_of_a_rack_are_narrower_by_the_oversubscription() {
        for oversubscription in [1.0, 4.0, 10.0] {
            let topology = Topology::new(Fabric { oversubscription, ..Fabric::PAPER });
            let rate = |link: Link| topology.capacity()[usize::from(link)];
            let servers: f64 = (8..16).map(|server| rate(topology.out_of(Place::Server(server)))).sum();
            let uplinks: f64 = (0..8).map(|plane| rate(topology.rack_link(1, plane, true))).sum();
            assert!((servers / uplinks - oversubscription).abs() < 1e-9);
        }
    }

    #[test]
    fn all_links_have_different_numbers() {
        let topology = Topology::new(Fabric { width: 2, relays: Deployment::full(2), ..Fabric::PAPER });
        let (width, servers) = (2, topology.fabric().servers());
        let relays = (0..topology.relays() as u32).map(Place::Relay);
        let mut links = Vec::new();
        for place in (0..servers).map(Place::Server).chain(relays) {
            let (into, processor) = topology.links_into(place);
            links.extend([topology.out_of(place), into].into_iter().chain(processor));
        }
        for is_up in [true, false] {
            for plane in 0..width {
                links.extend(
                    (0..topology.fabric().racks()).map(|rack| topology.rack_link(rack, plane, is_up)),
                );
                for nth in 0..width {
                    let pods = 0..topology.fabric().pods();
                    links.extend(pods.map(|pod| topology.core_link(pod, plane, nth, is_up)));
                }
            }
        }
        let distinct: BTreeSet<Link> = links.iter().copied().collect();
        assert_eq!(distinct.len(), links.len());
        assert_eq!(distinct.len(), topology.capacity().len());
    }
}
