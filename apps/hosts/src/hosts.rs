//! The partial: any number of hosts in a few kilobytes.

use crate::figures::Figures;
use crate::now::TOP_MAX;
use crate::process::{Placed, Process};
use crate::rank::{HostByCpu, HostByMemory, HostByNetwork, HostLine, PlacedByCpu, PlacedByMemory};
use crate::sample::Sample;
use crate::spread::{Rates, Shares, Spread};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use treefold_operators::merge::TopK;
use treefold_operators::{Merge, MergeError};

/// Folded hosts. The default has no hosts, and is the identity of merging.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hosts {
    /// Number of hosts.
    pub hosts: u64,
    /// The time that the samples cover; `None` without hosts.
    pub span: Option<Span>,
    /// The figures that add up over hosts.
    pub figures: Figures,
    /// Use of processors per host, in permille.
    pub cpu: Spread<Shares>,
    /// Use per processor, in permille. It shows one busy processor among a host's idle ones.
    pub cores: Spread<Shares>,
    /// Memory in use per host, in permille.
    pub memory: Spread<Shares>,
    /// Bytes per second over the network per host, both directions.
    pub net: Spread<Rates>,
    /// Bytes per second from and to disks per host.
    pub disk: Spread<Rates>,
    /// The busiest hosts.
    #[serde(deserialize_with = "short")]
    pub hosts_by_cpu: TopK<HostByCpu>,
    /// The hosts with the highest memory pressure.
    #[serde(deserialize_with = "short")]
    pub hosts_by_memory: TopK<HostByMemory>,
    /// The hosts with the most network traffic.
    #[serde(deserialize_with = "short")]
    pub hosts_by_network: TopK<HostByNetwork>,
    /// The processes that use the most processor time, on all hosts.
    #[serde(deserialize_with = "short")]
    pub processes_by_cpu: TopK<PlacedByCpu>,
    /// The processes that occupy the most memory, on all hosts.
    #[serde(deserialize_with = "short")]
    pub processes_by_memory: TopK<PlacedByMemory>,
}

/// The time in which samples were taken, by each host's own clock. An old time may therefore mean an old
/// sample or a wrong clock, and both should be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The earliest end of an interval, in ns since the Unix epoch.
    pub earliest_ns: u64,
    /// The latest end of an interval, in ns since the Unix epoch.
    pub latest_ns: u64,
    /// The longest interval.
    pub interval_ns_max: u64,
}

impl Span {
    fn with(self, other: Self) -> Self {
        Self {
            earliest_ns: self.earliest_ns.min(other.earliest_ns),
            latest_ns: self.latest_ns.max(other.latest_ns),
            interval_ns_max: self.interval_ns_max.max(other.interval_ns_max),
        }
    }
}

impl Hosts {
    /// The partial of one host, with lists of at most `top` entries.
    ///
    /// # Errors
    /// [`MergeError::Overflow`] if a sample's figures are too large to add.
    pub fn of(sample: &Sample, top: u32) -> Result<Self, MergeError> {
        let (host, figures, line) = (&sample.host, sample.figures, HostLine::of(sample));
        let placed = |process: &Process| Placed { host: host.clone(), process: process.clone() };
        Ok(Self {
            hosts: 1,
            span: Some(Span {
                earliest_ns: sample.until_ns,
                latest_ns: sample.until_ns,
                interval_ns_max: sample.interval_ns,
            }),
            figures,
            cpu: Spread::of(host, [figures.cpu_permille()])?,
            cores: Spread::of(host, sample.cores_permille.iter().map(|&share| u64::from(share)))?,
            memory: Spread::of(host, [figures.memory_permille()])?,
            net: Spread::of(host, [figures.net_bytes_s()])?,
            disk: Spread::of(host, [figures.disk_bytes_s()])?,
            hosts_by_cpu: TopK::of(top, [HostByCpu(line.clone())]),
            hosts_by_memory: TopK::of(top, [HostByMemory(line.clone())]),
            hosts_by_network: TopK::of(top, [HostByNetwork(line)]),
            processes_by_cpu: TopK::of(top, sample.processes.iter().map(|p| PlacedByCpu(placed(p)))),
            processes_by_memory: TopK::of(top, sample.processes.iter().map(|p| PlacedByMemory(placed(p)))),
        })
    }
}

impl Merge for Hosts {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        let hosts = self.hosts.checked_add(other.hosts);
        self.hosts = hosts.ok_or(MergeError::Overflow { figure: "number of hosts" })?;
        self.span = match (self.span, other.span) {
            (Some(ours), Some(theirs)) => Some(ours.with(theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.figures.merge(other.figures)?;
        self.cpu.merge(other.cpu)?;
        self.cores.merge(other.cores)?;
        self.memory.merge(other.memory)?;
        self.net.merge(other.net)?;
        self.disk.merge(other.disk)?;
        self.hosts_by_cpu.merge(other.hosts_by_cpu)?;
        self.hosts_by_memory.merge(other.hosts_by_memory)?;
        self.hosts_by_network.merge(other.hosts_by_network)?;
        self.processes_by_cpu.merge(other.processes_by_cpu)?;
        self.processes_by_memory.merge(other.processes_by_memory)
    }
}

/// Decodes a list from another node. A list longer than any node may make is an error.
fn short<'de, D, T>(deserializer: D) -> Result<TopK<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Ord + Deserialize<'de>,
{
    let list = TopK::deserialize(deserializer)?;
    match list.items().len() {
        items if items <= TOP_MAX as usize => Ok(list),
        items => {
            Err(D::Error::custom(format_args!("a list has {items} entries; allowed: at most {TOP_MAX}")))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::host::{Host, Name};
    use crate::sample::{NodeStreams, Stall};
    use proptest::prelude::*;
    use treefold_operators::Body;
    use treefold_operators::merge::laws::{bytes_of, hold_to_the_laws, merged};

    fn processes() -> impl Strategy<Value = Vec<Process>> {
        let process = (0u32..9, 0u64..3, 0u64..3).prop_map(|(pid, cpu_mcores, rss_bytes)| Process {
            pid,
            name: Name::clipped("p"),
            cpu_mcores,
            rss_bytes,
        });
        proptest::collection::vec(process, 0..5)
    }

    /// Samples of a few hosts, with figures so small that ties are frequent.
    pub(crate) fn samples() -> impl Strategy<Value = Sample> {
        let cores = proptest::collection::vec(0u16..=1000, 1..5);
        let stall = proptest::option::of(
            (0u64..3).prop_map(|memory_some_permille| Stall { memory_some_permille, ..Stall::default() }),
        );
        (0u32..5, 1u64..9, 0u64..4000, 0u64..1 << 33, cores, stall, processes()).prop_map(
            |(id, until_ns, busy_mcores, rx_bytes_s, cores_permille, stall, processes)| Sample {
                host: Host::new(id, "h"),
                until_ns,
                interval_ns: 1_000 / until_ns,
                figures: Figures {
                    cores: cores_permille.len() as u64,
                    busy_mcores,
                    memory_bytes: 4,
                    memory_available_bytes: until_ns % 4,
                    rx_bytes_s,
                    ..Figures::default()
                },
                cores_permille,
                stall,
                node: (id % 2 == 0).then_some(NodeStreams { streams: 1, bytes: until_ns }),
                processes,
            },
        )
    }

    fn partials() -> impl Strategy<Value = Hosts> {
        (samples(), 1u32..4).prop_map(|(sample, top)| Hosts::of(&sample, top).unwrap())
    }

    hold_to_the_laws!(laws_of_hosts, partials());

    proptest! {
        #[test]
        fn folded_totals_equal_the_samples(samples in proptest::collection::vec(samples(), 1..20)) {
            let all = samples.iter().map(|sample| Hosts::of(sample, 3).unwrap()).reduce(merged).unwrap();
            prop_assert_eq!(all.hosts, samples.len() as u64);
            let busy: u64 = samples.iter().map(|sample| sample.figures.busy_mcores).sum();
            prop_assert_eq!(all.figures.busy_mcores, busy);
            let most = samples.iter().map(|sample| sample.figures.cpu_permille()).max();
            prop_assert_eq!(all.cpu.greatest().map(|greatest| greatest.value), most);
            prop_assert_eq!(all.hosts_by_cpu.items().first().map(|line| line.0.cpu_permille), most);
            let cores: usize = samples.iter().map(|sample| sample.cores_permille.len()).sum();
            prop_assert_eq!(all.cores.count(), cores as u64);
        }
    }

    #[test]
    fn a_partial_of_ten_thousand_hosts_is_a_few_kilobytes() {
        let process = |pid| Process {
            pid,
            name: Name::clipped("postgres"),
            cpu_mcores: u64::from(pid),
            rss_bytes: 1 << 33,
        };
        let one = |id: u32| {
            let sample = Sample {
                host: Host::new(id, &format!("web-{id}.example.org")),
                until_ns: 1 << 60,
                interval_ns: 1 << 30,
                figures: Figures {
                    cores: 64,
                    busy_mcores: u64::from(id) * 6,
                    rx_bytes_s: 1 << (id % 40),
                    ..Figures::default()
                },
                cores_permille: (0..64).map(|core| (id as u16 + core * 15) % 1001).collect(),
                stall: Some(Stall::default()),
                node: Some(NodeStreams { streams: 3, bytes: 1 << 20 }),
                processes: (0..64).map(process).collect(),
            };
            Hosts::of(&sample, crate::now::TOP_DEFAULT).unwrap()
        };
        let all = (0..10_000).map(one).reduce(|mut a, b| {
            a.merge(b).unwrap();
            a
        });
        let bytes = bytes_of(&all.unwrap()).len();
        assert!(bytes < 16 << 10, "{bytes} bytes");
    }

    #[test]
    fn a_list_that_is_too_long_is_refused() {
        let placed = |pid| {
            let process = Process { pid, name: Name::clipped("p"), cpu_mcores: 0, rss_bytes: 0 };
            PlacedByCpu(Placed { host: Host::new(0, "h"), process })
        };
        let list = TopK::of(1000, (0..=TOP_MAX).map(placed));
        let sent = Hosts { processes_by_cpu: list, ..Hosts::default() }.encode().unwrap();
        assert!(Hosts::decode(&sent).unwrap_err().to_string().contains("at most 64"));
    }
}
