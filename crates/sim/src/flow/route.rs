//! Finds ways through the fabric, and chooses among equal ways for a flow.
//!
//! A way goes up as far as necessary and down again. A hash chooses the plane and the core of that plane, as
//! ECMP does with a packet's header: a flow keeps its way, and the load does not matter. If one end is at a
//! switch above the racks, that switch determines the choice.

use super::topology::{Fabric, Link, Place, Switch, Topology};
use crate::world::ink::mixed;

/// Most links of a way: out of a relay, two links up, two links down, into a relay, and through its
/// processor.
pub const PATH_LINKS_MAX: usize = 7;

const NONE: Link = Link::MAX;

/// The links that a flow crosses, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    links: [Link; PATH_LINKS_MAX],
}

impl Path {
    /// Creates the way over these links.
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`PATH_LINKS_MAX`] links.
    pub fn new(links: impl IntoIterator<Item = Link>) -> Self {
        let mut path = Self { links: [NONE; PATH_LINKS_MAX] };
        links.into_iter().enumerate().for_each(|(at, link)| path.links[at] = link);
        path
    }

    /// Returns the links in order.
    pub fn links(&self) -> impl Iterator<Item = usize> + '_ {
        self.links.iter().take_while(|&&link| link != NONE).map(|&link| usize::from(link))
    }
}

/// One of the equal ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The plane.
    pub plane: u32,
    /// The core of that plane.
    pub nth: u32,
}

impl Way {
    /// Returns the way that a hash chooses.
    pub fn hashed(fabric: &Fabric, hash: u64) -> Self {
        let width = u64::from(fabric.width);
        let drawn = mixed(hash);
        Self { plane: (drawn % width) as u32, nth: (drawn / width % width) as u32 }
    }
}

/// Returns the links from one place to another. `way` decides between equal ways.
///
/// # Panics
///
/// Panics if the ends are in two planes, or at two cores, because no way up and down connects them.
pub fn route(topology: &Topology, from: Place, to: Place, way: Way) -> Path {
    let (lower, upper) = (topology.switch_of(from), topology.switch_of(to));
    let way = [lower, upper].into_iter().fold(way, |way, switch| match switch {
        Switch::Rack(_) => way,
        Switch::Pod { plane, .. } => Way { plane, ..way },
        Switch::Core { plane, nth } => Way { plane, nth },
    });
    let fabric = topology.fabric();
    let pod = |switch| match switch {
        Switch::Rack(rack) => Some(fabric.pod_of_rack(rack)),
        Switch::Pod { pod, .. } => Some(pod),
        Switch::Core { .. } => None,
    };
    let is_one_switch = lower == upper;
    let crosses_core = !is_one_switch && (pod(lower) != pod(upper) || pod(lower).is_none());
    let half = |switch: Switch, is_up: bool| -> [Option<Link>; 2] {
        if is_one_switch {
            return [None; 2];
        }
        let core = |pod| crosses_core.then(|| topology.core_link(pod, way.plane, way.nth, is_up));
        match switch {
            Switch::Rack(rack) => {
                [Some(topology.rack_link(rack, way.plane, is_up)), core(fabric.pod_of_rack(rack))]
            }
            Switch::Pod { pod, plane } => {
                assert_eq!(plane, way.plane, "no way connects two planes");
                [None, core(pod)]
            }
            Switch::Core { plane, nth } => {
                assert_eq!((plane, nth), (way.plane, way.nth), "no way connects two cores");
                [None; 2]
            }
        }
    };
    let [first, second] = half(lower, true);
    let [last, last_but_one] = half(upper, false);
    let (into, processor) = topology.links_into(to);
    let between = [first, second, last_but_one, last].into_iter().flatten();
    Path::new([topology.out_of(from)].into_iter().chain(between).chain([into]).chain(processor))
}

#[cfg(test)]
mod tests {
    use super::super::deployment::Deployment;
    use super::*;

    const WAY: Way = Way { plane: 1, nth: 0 };

    fn topology() -> Topology {
        Topology::new(Fabric { width: 2, relays: Deployment::full(1), ..Fabric::PAPER })
    }

    fn hops(topology: &Topology, from: Place, to: Place) -> usize {
        route(topology, from, to, WAY).links().count()
    }

    /// Returns the relay beside a switch.
    fn beside(topology: &Topology, switch: Switch) -> Place {
        Place::Relay(topology.relays_at(switch).start)
    }

    #[test]
    fn a_way_goes_up_only_as_far_as_necessary() {
        let topology = topology();
        let server = Place::Server;
        assert_eq!(hops(&topology, server(0), server(1)), 2, "in a rack");
        assert_eq!(hops(&topology, server(0), server(2)), 4, "in a pod");
        assert_eq!(hops(&topology, server(0), server(15)), 6, "across pods");
        let links: Vec<usize> = route(&topology, server(0), server(15), WAY).links().collect();
        let expected = [
            topology.out_of(server(0)),
            topology.rack_link(0, 1, true),
            topology.core_link(0, 1, 0, true),
            topology.core_link(3, 1, 0, false),
            topology.rack_link(7, 1, false),
            topology.links_into(server(15)).0,
        ];
        assert_eq!(links, expected.map(usize::from));
    }

    #[test]
    fn ways_to_relays_end_with_the_relays_processor() {
        let topology = topology();
        let rack = beside(&topology, Switch::Rack(0));
        let pod = beside(&topology, Switch::Pod { pod: 0, plane: 0 });
        let core = beside(&topology, Switch::Core { plane: 0, nth: 1 });
        let other = beside(&topology, Switch::Pod { pod: 3, plane: 0 });
        assert_eq!(hops(&topology, Place::Server(1), rack), 3, "out, in, processor");
        assert_eq!(hops(&topology, rack, pod), 4);
        assert_eq!(hops(&topology, pod, core), 4);
        assert_eq!(hops(&topology, core, other), 4);
        assert_eq!(hops(&topology, core, Place::Server(15)), 4, "out, to the pod, to the rack, in");
        assert_eq!(hops(&topology, rack, Place::Server(1)), 2);
    }

    #[test]
    fn flows_are_spread_over_all_ways() {
        let fabric = Fabric::PAPER;
        let mut seen = vec![0_u32; 64];
        for flow in 0..64_000 {
            let Way { plane, nth } = Way::hashed(&fabric, flow);
            seen[(plane * 8 + nth) as usize] += 1;
        }
        assert!(seen.iter().all(|&flows| (850..1_150).contains(&flows)), "{seen:?}");
    }
}
