//! Statistics of a topology: numbers of processes, depth, fan-out, and the load of each host.

use super::{Role, Topology};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The statistics of a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Number of all processes.
    pub processes: usize,
    /// Number of processes between the root and the leaves.
    pub inner: usize,
    /// Number of leaves below the root.
    pub back_ends: usize,
    /// Number of levels below the root.
    pub depth: usize,
    /// The fewest children of a process that has children; 0 if the root has none.
    pub fan_out_min: usize,
    /// The mean number of children of processes that have children.
    pub fan_out_mean: f64,
    /// The most children of a process.
    pub fan_out_max: usize,
    /// Hosts in the order of their first process.
    pub hosts: Vec<HostStats>,
}

/// The processes of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStats {
    /// The host.
    pub host: Arc<str>,
    /// Whether the root of the whole topology runs here.
    pub front_end: bool,
    /// Number of inner processes.
    pub inner: usize,
    /// Number of back-ends.
    pub back_ends: usize,
}

impl HostStats {
    /// Number of all processes on the host.
    pub fn processes(&self) -> usize {
        usize::from(self.front_end) + self.inner + self.back_ends
    }
}

impl Stats {
    /// Counts a topology.
    pub fn of(topology: &Topology) -> Self {
        let row = topology.processes();
        let count = |role: Role| row.iter().filter(|process| process.role == role).count();
        let parents = topology.parents();
        let mut fan_outs = vec![0usize; row.len()];
        parents.iter().flatten().for_each(|&parent| fan_outs[parent] += 1);
        fan_outs.retain(|&children| children > 0);
        let children: usize = fan_outs.iter().sum();
        Self {
            processes: row.len(),
            inner: count(Role::Inner),
            back_ends: count(Role::BackEnd),
            depth: topology.depths().into_iter().max().unwrap_or(0),
            fan_out_min: fan_outs.iter().copied().min().unwrap_or(0),
            fan_out_mean: if fan_outs.is_empty() { 0.0 } else { children as f64 / fan_outs.len() as f64 },
            fan_out_max: fan_outs.iter().copied().max().unwrap_or(0),
            hosts: hosts_of(topology),
        }
    }
}

fn hosts_of(topology: &Topology) -> Vec<HostStats> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut hosts: Vec<HostStats> = Vec::new();
    for process in topology.processes() {
        let at = *places.entry(&process.host).or_insert_with(|| {
            let host = process.host.clone();
            hosts.push(HostStats { host, front_end: false, inner: 0, back_ends: 0 });
            hosts.len() - 1
        });
        match process.role {
            Role::FrontEnd => hosts[at].front_end = true,
            Role::Inner => hosts[at].inner += 1,
            Role::BackEnd => hosts[at].back_ends += 1,
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_once() {
        let topology: Topology = "a:0 => b:0 c:0 ; b:0 => c:1 c:2 a:1 ;".parse().unwrap();
        let stats = Stats::of(&topology);
        assert_eq!((stats.processes, stats.inner, stats.back_ends, stats.depth), (6, 1, 4, 2));
        assert_eq!((stats.fan_out_min, stats.fan_out_mean, stats.fan_out_max), (2, 2.5, 3));
        let hosts: Vec<(&str, usize)> =
            stats.hosts.iter().map(|host| (&*host.host, host.processes())).collect();
        assert_eq!(hosts, [("a", 2), ("b", 1), ("c", 3)]);
        assert!(stats.hosts[0].front_end && !stats.hosts[1].front_end);
    }

    #[test]
    fn a_root_alone_has_no_fan_out() {
        let stats = Stats::of(&"a:0 ;".parse().unwrap());
        assert_eq!((stats.processes, stats.back_ends, stats.depth), (1, 0, 0));
        assert_eq!((stats.fan_out_min, stats.fan_out_mean, stats.fan_out_max), (0, 0.0, 0));
    }
}
