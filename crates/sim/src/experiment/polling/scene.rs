//! Clusters on which replica policies are compared: the paper's cluster, and four that are less even.
//!
//! Load is relative to the capacity that the cluster would have if its work were divided perfectly.

use super::cluster::{Chooser, SERVERS, choose_by, setting, start_fronts, trial};
use super::workload::Workload;
use crate::experiment::trial::{Deed, Trial, still};
use crate::world::distribution::Distribution;
use crate::world::ink::mixed;
use crate::world::place::{Operators, Spec};
use crate::world::{Polling, Setting, World};
use treefold_core::config::Tuning;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::Duration;

/// A cluster, and its unevenness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// 16 equal servers, with the workload Poisson/Exp.
    Homogeneous,
    /// Every other server takes twice as long (Prequal's setting of two generations of machines).
    Heterogeneous,
    /// Every other server takes four times as long.
    Fourfold,
    /// Every two seconds, other work slows four newly drawn servers down threefold (Prequal's antagonists).
    Antagonists,
    /// One server returns an error to every request after 1 ms, and so looks idle.
    FailingFast,
    /// 8 partitions, each on 3 of the 16 servers, all asked in one call; locals of 25 ms and folds of 5 ms,
    /// as in MICRO.
    Partitioned,
}

/// Partitions of [`Scene::Partitioned`].
const PARTITIONS: u32 = 8;
/// Servers that are slowed down at the same time, and the factor of their work times.
const SLOWED: usize = 4;
const SLOWED_TIMES: f64 = 3.0;
/// Time for which they are slowed down.
const SLOWED_FOR: Duration = Duration::from_secs(2);
/// Time that a failing server takes to return its error.
const FAILS_AFTER: Duration = Duration::from_millis(1);
/// The deadline of a call. A later answer is of no use to the caller.
const DEADLINE: Duration = Duration::from_secs(10);

impl Scene {
    /// The scenes on which all policies are compared.
    pub const ALL: [Self; 5] =
        [Self::Homogeneous, Self::Heterogeneous, Self::Antagonists, Self::FailingFast, Self::Partitioned];

    /// Returns the name that points use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Homogeneous => "homogeneous",
            Self::Heterogeneous => "heterogeneous",
            Self::Fourfold => "fourfold",
            Self::Antagonists => "antagonists",
            Self::FailingFast => "failing-fast",
            Self::Partitioned => "partitioned",
        }
    }

    /// Creates a trial of `calls` calls at `load`, whose fronts choose by `chooser` with the settings `front`. The load
    /// does not include the processor time of polls.
    pub fn trial(
        self,
        chooser: Chooser,
        front: &Tuning,
        load: f64,
        calls: f64,
        seed: u64,
        polling: Polling,
    ) -> Trial {
        let setting = self.setting(seed, polling);
        let mut world = World::new(setting.clone());
        let announces = chooser == Chooser::Policy(ReplicaPolicy::Announced);
        for server in 0..SERVERS {
            let tuning = Tuning { announce_directly: announces, ..still() };
            let speed = if server % 2 == 1 { self.speed_of_every_other() } else { 1.0 };
            let partitions = self.partitions_of(server);
            world.start(Spec { processors: 1, speed, tuning, ..Spec::holding(partitions) });
        }
        let fronts = start_fronts(&mut world, front);
        if self == Self::FailingFast {
            world.fail_fast(SERVERS / 2, Some(FAILS_AFTER));
        }
        let per_s = load * self.servers() * 1_000.0 / self.call_ms();
        let mut trial = trial(world, &setting, fronts, per_s, calls);
        trial.options.deadline = DEADLINE;
        choose_by(&mut trial, chooser);
        if self == Self::Antagonists {
            trial.script = antagonists(trial.warm_up + trial.measured, seed);
        }
        trial
    }

    fn setting(self, seed: u64, polling: Polling) -> Setting {
        let even = setting(seed, Workload::POISSON_EXP.service, polling);
        match self {
            Self::Partitioned => {
                let operators = Operators { name: "s/access".into(), ..Operators::micro() };
                Setting { operators: vec![operators], partitions: PARTITIONS, ..even }
            }
            _ => even,
        }
    }

    /// Returns the partitions of a server. In [`Scene::Partitioned`], partition `p` is on the servers 2p,
    /// 2p+1 and 2p+2, so every other server holds two partitions.
    fn partitions_of(self, server: usize) -> PartitionSet {
        match self {
            Self::Partitioned => {
                let holds = |partition: &u32| (server + SERVERS - 2 * *partition as usize) % SERVERS < 3;
                (0..PARTITIONS).filter(holds).collect()
            }
            _ => PartitionSet::first(1),
        }
    }

    const fn speed_of_every_other(self) -> f64 {
        match self {
            Self::Heterogeneous => 0.5,
            Self::Fourfold => 0.25,
            _ => 1.0,
        }
    }

    /// Returns the capacity of the cluster as a number of servers of full speed.
    fn servers(self) -> f64 {
        let servers = SERVERS as f64;
        match self {
            Self::Homogeneous | Self::Partitioned => servers,
            Self::Heterogeneous | Self::Fourfold => servers * (1.0 + self.speed_of_every_other()) / 2.0,
            Self::Antagonists => servers - SLOWED as f64 * (1.0 - 1.0 / SLOWED_TIMES),
            Self::FailingFast => servers - 1.0,
        }
    }

    /// Returns the processor time of a call over all servers, in ms.
    fn call_ms(self) -> f64 {
        let ms = |distribution: Distribution| distribution.mean_ms();
        match self {
            Self::Partitioned => {
                let Operators { local, reduce, .. } = Operators::micro();
                f64::from(PARTITIONS) * ms(local) + f64::from(PARTITIONS - 1) * ms(reduce)
            }
            _ => Workload::POISSON_EXP.mean_ms(),
        }
    }
}

/// Returns the actions that slow drawn servers down, until `end`.
fn antagonists(end: Duration, seed: u64) -> Vec<(Duration, Deed)> {
    let mut random = Random::new(mixed(seed ^ 0x616e_7461));
    let mut script: Vec<(Duration, Deed)> = Vec::new();
    let mut at = Duration::ZERO;
    while at < end {
        let mut servers: Vec<usize> = (0..SERVERS).collect();
        for place in 0..SLOWED {
            servers.swap(place, place + random.below(SERVERS - place));
        }
        let deed = move |world: &mut World| {
            for (place, &server) in servers.iter().enumerate() {
                world.slow_down(server, if place < SLOWED { SLOWED_TIMES } else { 1.0 });
            }
        };
        script.push((at, Box::new(deed)));
        at += SLOWED_FOR;
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_partition_has_three_replicas() {
        let held: Vec<PartitionSet> =
            (0..SERVERS).map(|server| Scene::Partitioned.partitions_of(server)).collect();
        for partition in 0..PARTITIONS {
            assert_eq!(held.iter().filter(|set| set.contains(partition)).count(), 3, "partition {partition}");
        }
        assert!(held.iter().all(|set| (1..=2).contains(&set.len())));
    }
}
