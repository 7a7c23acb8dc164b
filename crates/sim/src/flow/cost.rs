//! The cost of upgrading a data centre (NetAgg §2.4, figure 3).
//!
//! The machines are counted from the topology. Their prices are assumptions, and each is named here. NetAgg
//! took the prices of network equipment from Popa et al. (*A Cost Comparison of Data Center Network
//! Architectures*, CoNEXT'10). Its own text gives no prices, only the cost of one upgrade relative to
//! another. So only these ratios are compared with the paper. A reader with other prices can apply them to
//! [`Upgrade::parts`].
//!
//! An upgrade is paid in full: switches of ten times the rate replace the old switches, which have no value
//! any more. Bandwidth above the racks is paid as ports: a rack switch at 1:4 uses a quarter of its uplinks,
//! and the switch ports at their other ends are not bought.

use super::topology::{Fabric, Switch};

/// The price of each part, in dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A switch's port of 1 Gbit/s.
    pub port_1g: f64,
    /// A switch's port of 10 Gbit/s.
    pub port_10g: f64,
    /// A server's network card of 10 Gbit/s.
    pub card_10g: f64,
    /// A relay: a server of the paper's testbed (16 cores of 2.9 GHz, 32 GB) with a card of 10 Gbit/s.
    pub relay: f64,
}

impl Prices {
    /// Our assumptions, at the price level of 2010 to 2012.
    pub const ASSUMED: Self = Self { port_1g: 100.0, port_10g: 450.0, card_10g: 150.0, relay: 2_500.0 };
}

/// The number of each part that an upgrade needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Upgrade {
    /// Switch ports of 1 Gbit/s.
    pub ports_1g: f64,
    /// Switch ports of 10 Gbit/s, including the ports of relays.
    pub ports_10g: f64,
    /// Servers' cards of 10 Gbit/s.
    pub cards_10g: f64,
    /// Relays.
    pub relays: f64,
}

impl Upgrade {
    /// Counts the parts that turn `from`, with links of 1 Gbit/s and no relays, into `to`.
    pub fn between(from: &Fabric, to: &Fabric) -> Self {
        let relays = f64::from(to.switches().map(|switch: Switch| to.relays.at(switch)).sum::<u32>());
        let mut upgrade = Self { relays, ports_10g: relays, ..Self::default() };
        if to.edge_gbps > from.edge_gbps {
            upgrade.ports_10g += ports(to);
            upgrade.cards_10g = f64::from(to.servers());
        } else {
            upgrade.ports_1g = ports(to) - ports(from);
        }
        upgrade
    }

    /// Returns the number and the price of each part.
    pub fn parts(&self, prices: &Prices) -> [(&'static str, f64, f64); 4] {
        [
            ("1 Gbit/s ports", self.ports_1g, prices.port_1g),
            ("10 Gbit/s ports", self.ports_10g, prices.port_10g),
            ("10 Gbit/s cards", self.cards_10g, prices.card_10g),
            ("relays", self.relays, prices.relay),
        ]
    }

    /// Returns the cost in dollars.
    pub fn dollars(&self, prices: &Prices) -> f64 {
        self.parts(prices).iter().map(|(_, so_many, each)| so_many * each).sum()
    }
}

/// Counts the ports of all switches that lead to servers or to other switches.
fn ports(fabric: &Fabric) -> f64 {
    let links = f64::from(fabric.servers());
    // One port for each server. Above the racks there are two tiers of links with two ends each. At full
    // bisection, each tier has as many links as there are servers.
    links + 2.0 * 2.0 * links / fabric.oversubscription
}

#[cfg(test)]
mod tests {
    use super::super::deployment::Deployment;
    use super::*;

    #[test]
    fn machines_are_counted_from_the_topology() {
        let base = Fabric::PAPER;
        let upgrade = |to: Fabric| Upgrade::between(&base, &to);
        let full = upgrade(Fabric { oversubscription: 1.0, edge_gbps: 10.0, ..base.clone() });
        assert_eq!(full, Upgrade { ports_10g: 5_120.0, cards_10g: 1_024.0, ..Upgrade::default() });
        let narrow = upgrade(Fabric { edge_gbps: 10.0, ..base.clone() });
        assert_eq!(narrow.ports_10g, 2_048.0);
        let wide = upgrade(Fabric { oversubscription: 1.0, ..base.clone() });
        assert_eq!(wide, Upgrade { ports_1g: 3_072.0, ..Upgrade::default() });
        let relays = upgrade(Fabric { relays: Deployment::full(1), ..base.clone() });
        assert_eq!(relays, Upgrade { ports_10g: 320.0, relays: 320.0, ..Upgrade::default() });
        assert_eq!(relays.dollars(&Prices::ASSUMED), 320.0 * (450.0 + 2_500.0));
    }
}
