//! Chooses the network interfaces to count, so that a packet that passes several is counted once.
//!
//! A host of containers has dozens of interfaces, and a packet passes three of them: the container's end of
//! a pair, the bridge, and the network card. A packet that leaves the host passes a card, so cards are
//! counted: interfaces with a device below them. If there are none, as in a container, which only has its
//! end of a pair, the interfaces of the default route are counted. If there are none of these either, all
//! interfaces except the loopback are.

use super::buffer::Buffer;
use crate::counters::NetCounters;
use crate::error::SampleError;
use procfs_core::FromBufRead;
use procfs_core::net::{DeviceStatus, InterfaceDeviceStatus, RouteEntries};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The loopback interface.
const LOOPBACK: &str = "lo";

/// The choice, which is valid while the interfaces stay the same.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    all: BTreeSet<String>,
    chosen: BTreeSet<String>,
}

impl Interfaces {
    /// The counters of the chosen interfaces.
    pub(super) fn read(&mut self, buffer: &mut Buffer) -> Result<BTreeMap<String, NetCounters>, SampleError> {
        let found = buffer.parsed("/proc/net/dev", InterfaceDeviceStatus::from_buf_read)?.0;
        if !same(found.keys(), &self.all) {
            self.all = found.keys().cloned().collect();
            self.chosen = choose(&self.all, has_device, &routed(buffer));
        }
        let chosen = found.into_iter().filter(|(name, _)| self.chosen.contains(name));
        Ok(chosen.map(|(name, status)| (name, counters(&status))).collect())
    }
}

/// Whether these are the same names, in any order.
fn same<'a>(mut names: impl ExactSizeIterator<Item = &'a String>, as_before: &BTreeSet<String>) -> bool {
    names.len() == as_before.len() && names.all(|name| as_before.contains(name))
}

fn choose(
    all: &BTreeSet<String>,
    has_device: impl Fn(&str) -> bool,
    routed: &BTreeSet<String>,
) -> BTreeSet<String> {
    let cards: BTreeSet<String> = all.iter().filter(|name| has_device(name)).cloned().collect();
    if !cards.is_empty() {
        return cards;
    }
    let ways_out: BTreeSet<String> = all.intersection(routed).cloned().collect();
    if !ways_out.is_empty() {
        return ways_out;
    }
    all.iter().filter(|name| *name != LOOPBACK).cloned().collect()
}

fn has_device(interface: &str) -> bool {
    Path::new("/sys/class/net").join(interface).join("device").exists()
}

/// The interfaces of default routes; none if they cannot be read.
fn routed(buffer: &mut Buffer) -> BTreeSet<String> {
    let routes = buffer.parsed("/proc/net/route", RouteEntries::from_buf_read);
    let routes = routes.map_or_else(|_| Vec::new(), |routes| routes.0);
    let default = routes.into_iter().filter(|route| route.destination.is_unspecified());
    default.map(|route| route.iface).collect()
}

fn counters(status: &DeviceStatus) -> NetCounters {
    NetCounters {
        rx_bytes: status.recv_bytes,
        tx_bytes: status.sent_bytes,
        rx_packets: status.recv_packets,
        tx_packets: status.sent_packets,
        errors: status.recv_errs.saturating_add(status.sent_errs),
        drops: status.recv_drop.saturating_add(status.sent_drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_packet_is_counted_once() {
        let host = set(&["lo", "eno1", "eno2", "bond0", "docker0", "veth12", "br-9"]);
        let cards = |name: &str| name.starts_with("eno");
        assert_eq!(choose(&host, cards, &set(&["bond0"])), set(&["eno1", "eno2"]), "cards, if there are any");
        let container = set(&["lo", "eth0", "tun0"]);
        assert_eq!(choose(&container, |_| false, &set(&["eth0"])), set(&["eth0"]), "else the default route");
        assert_eq!(
            choose(&container, |_| false, &set(&[])),
            set(&["eth0", "tun0"]),
            "else all except the loopback"
        );
    }

    #[test]
    fn changed_interfaces_are_chosen_again() {
        let names = ["a".to_string(), "b".to_string()];
        assert!(same(names.iter(), &set(&["b", "a"])));
        assert!(!same(names.iter(), &set(&["a", "c"])) && !same(names.iter(), &set(&["a"])));
    }
}
