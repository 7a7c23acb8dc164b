//! The data centre: servers, three tiers of switches, relays beside switches, and what each link carries.
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
//! It is the fat tree of Al-Fares et al. (SIGCOMM'08) in which every switch has `2·width` ports. With a width of 8 it has
//! 1,024 servers, 128 rack, 128 pod and 64 core switches: NetAgg's 320 (§4.1), whose 20 ports leave four for relays. A
//! pod's plane leads to the cores of that plane only, so two racks of different pods have `width²` ways between them.
//!
//! Over-subscription is at the rack switch, as in the paper, and makes each of its uplinks narrower; their number, and so
//! the number of ways, stays. A relay hangs on a link of its own and has one more, which is none: its processor, that all
//! it takes in must pass.

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
    /// What a server's link carries each way, and every link that is not narrowed.
    pub edge_gbps: f64,
    /// By how much a rack's uplinks together carry less than its servers' links.
    pub oversubscription: f64,
    /// Where relays are.
    pub relays: Deployment,
    /// What a relay's link carries each way.
    pub relay_link_gbps: f64,
    /// R: how much a relay can take in.
    pub relay_rate_gbps: f64,
}

impl Fabric {
    /// NetAgg's (§4.1), without relays.
    pub const PAPER: Self = Self {
        width: 8,
        edge_gbps: 1.0,
        oversubscription: 4.0,
        relays: Deployment::NONE,
        relay_link_gbps: 10.0,
        relay_rate_gbps: 9.2,
    };

    /// How many servers there are.
    pub const fn servers(&self) -> u32 {
        2 * self.width * self.width * self.width
    }

    /// How many racks there are; pod switches are as many.
    pub const fn racks(&self) -> u32 {
        2 * self.width * self.width
    }

    /// How many pods there are.
    pub const fn pods(&self) -> u32 {
        2 * self.width
    }

    /// The rack of a server.
    pub const fn rack_of(&self, server: u32) -> u32 {
        server / self.width
    }

    /// The pod of a rack.
    pub const fn pod_of_rack(&self, rack: u32) -> u32 {
        rack / self.width
    }

    /// The pod of a server.
    pub const fn pod_of(&self, server: u32) -> u32 {
        self.pod_of_rack(self.rack_of(server))
    }

    /// Every switch, tier by tier from below.
    pub fn switches(&self) -> impl Iterator<Item = Switch> + use<> {
        let (width, pods) = (self.width, self.pods());
        let racks = (0..self.racks()).map(Switch::Rack);
        let in_pods = (0..pods).flat_map(move |pod| (0..width).map(move |plane| Switch::Pod { pod, plane }));
        let cores = (0..width).flat_map(move |plane| (0..width).map(move |nth| Switch::Core { plane, nth }));
        racks.chain(in_pods).chain(cores)
    }
}

/// A switch by its tier and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Switch {
    /// On top of a rack.
    Rack(u32),
    /// Where a pod's racks meet.
    Pod {
        /// Of which pod.
        pod: u32,
        /// Which of that pod's.
        plane: u32,
    },
    /// Where pods meet.
    Core {
        /// The pod switches that it joins are those of this plane.
        plane: u32,
        /// Which of that plane's.
        nth: u32,
    },
}

/// Whoever sends or receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A server by its number.
    Server(u32),
    /// A relay by its number.
    Relay(u32),
}

/// A fabric with its links numbered: six kinds, as many of each as there are servers, then three of each relay.
#[derive(Clone, Debug)]
pub struct Topology {
    fabric: Fabric,
    relays: Vec<Switch>,
    relays_at: BTreeMap<Switch, Range<u32>>,
    capacity: Vec<f64>,
}

/// The kinds of links between servers and switches.
const KINDS: u32 = 6;

impl Topology {
    /// The links of a fabric.
    ///
    /// # Panics
    ///
    /// When they are more than [`Link`] can number.
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
        assert!(capacity.len() < usize::from(Link::MAX), "{} links are too many to number", capacity.len());
        Self { fabric, relays, relays_at, capacity }
    }

    /// What it was made from.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// What each link carries, in bytes per second.
    pub fn capacity(&self) -> &[f64] {
        &self.capacity
    }

    /// How many of the links are between servers and switches; the others are relays'.
    pub fn network_links(&self) -> usize {
        (KINDS * self.fabric.servers()) as usize
    }

    /// How many relays there are.
    pub fn relays(&self) -> usize {
        self.relays.len()
    }

    /// The relays beside a switch.
    pub fn relays_at(&self, switch: Switch) -> Range<u32> {
        self.relays_at.get(&switch).cloned().unwrap_or_default()
    }

    /// The switch that somebody is connected to.
    pub fn switch_of(&self, place: Place) -> Switch {
        match place {
            Place::Server(server) => Switch::Rack(self.fabric.rack_of(server)),
            Place::Relay(relay) => self.relays[relay as usize],
        }
    }

    /// The link from a place to its switch.
    pub fn out_of(&self, place: Place) -> Link {
        match place {
            Place::Server(server) => self.link(0, server),
            Place::Relay(relay) => self.link_of_relay(relay, 0),
        }
    }

    /// The links from its switch to a place; a relay's processor is the second.
    pub fn links_into(&self, place: Place) -> (Link, Option<Link>) {
        match place {
            Place::Server(server) => (self.link(1, server), None),
            Place::Relay(relay) => (self.link_of_relay(relay, 1), Some(self.link_of_relay(relay, 2))),
        }
    }

    /// From a rack up to a plane of its pod, or down.
    pub fn rack_link(&self, rack: u32, plane: u32, is_up: bool) -> Link {
        self.link(if is_up { 2 } else { 3 }, rack * self.fabric.width + plane)
    }

    /// From a pod up to a core, or down.
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
    fn the_papers_data_centre_has_the_papers_switches() {
        let fabric = Fabric::PAPER;
        let tiers = |is_of: fn(&Switch) -> bool| fabric.switches().filter(is_of).count();
        assert_eq!(fabric.servers(), 1_024);
        assert_eq!(tiers(|switch| matches!(switch, Switch::Rack(_))), 128);
        assert_eq!(tiers(|switch| matches!(switch, Switch::Pod { .. })), 128);
        assert_eq!(tiers(|switch| matches!(switch, Switch::Core { .. })), 64);
    }

    #[test]
    fn a_racks_uplinks_together_are_narrower_than_its_servers_links_by_the_oversubscription() {
        for oversubscription in [1.0, 4.0, 10.0] {
            let topology = Topology::new(Fabric { oversubscription, ..Fabric::PAPER });
            let rate = |link: Link| topology.capacity()[usize::from(link)];
            let servers: f64 = (8..16).map(|server| rate(topology.out_of(Place::Server(server)))).sum();
            let uplinks: f64 = (0..8).map(|plane| rate(topology.rack_link(1, plane, true))).sum();
            assert!((servers / uplinks - oversubscription).abs() < 1e-9);
        }
    }

    #[test]
    fn every_link_has_a_number_of_its_own() {
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
