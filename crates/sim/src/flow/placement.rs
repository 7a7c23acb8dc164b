//! Places a job's workers greedily as close to each other as possible (NetAgg §4.1).
//!
//! The first worker goes to a server with the fewest workers so far. The next workers go to the rest of its
//! rack, then rack by rack through its pod, then pod by pod. Among equally near places, the place with the
//! fewest workers is taken. A server has at most one worker of a job.

use super::topology::Fabric;
use treefold_core::random::Random;

/// Places the workers of one job after another.
pub struct Placer<'a> {
    fabric: &'a Fabric,
    /// Number of placed workers by server, rack and pod.
    servers: Vec<u32>,
    racks: Vec<u32>,
    pods: Vec<u32>,
}

impl<'a> Placer<'a> {
    /// Creates a placer for empty servers.
    pub fn new(fabric: &'a Fabric) -> Self {
        let none = |so_many: u32| vec![0; so_many as usize];
        Self {
            fabric,
            servers: none(fabric.servers()),
            racks: none(fabric.racks()),
            pods: none(fabric.pods()),
        }
    }

    /// Returns the servers of a job's `workers`, beginning with the first worker's and its nearest. There are
    /// at most as many as servers.
    pub fn place(&mut self, workers: u32, random: &mut Random) -> Vec<u32> {
        let fewest = self.servers.iter().copied().min().unwrap_or_default();
        let least: Vec<u32> =
            (0..self.fabric.servers()).filter(|&server| self.servers[server as usize] == fewest).collect();
        let first = least[random.below(least.len())];
        let mut all: Vec<u32> = (0..self.fabric.servers()).collect();
        all.sort_by_cached_key(|&server| self.order(first, server));
        all.truncate(workers as usize);
        for &server in &all {
            self.servers[server as usize] += 1;
            self.racks[self.fabric.rack_of(server) as usize] += 1;
            self.pods[self.fabric.pod_of(server) as usize] += 1;
        }
        all
    }

    /// Returns the sort key of a server: first the pods, with the first worker's pod before all others, then
    /// by their workers; within a pod the racks in the same way, and within a rack the servers.
    fn order(&self, first: u32, server: u32) -> [u32; 9] {
        let fabric = self.fabric;
        let (rack, pod) = (fabric.rack_of(server), fabric.pod_of(server));
        let other = |is_other: bool| u32::from(is_other);
        [
            other(pod != fabric.pod_of(first)),
            self.pods[pod as usize],
            pod,
            other(rack != fabric.rack_of(first)),
            self.racks[rack as usize],
            rack,
            other(server != first),
            self.servers[server as usize],
            server,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_job_fills_racks_and_pods_one_after_another() {
        let fabric = Fabric::PAPER;
        let (mut placer, mut random) = (Placer::new(&fabric), Random::new(1));
        let places = |workers: &[u32], of: fn(&Fabric, u32) -> u32| -> usize {
            workers.iter().map(|&server| of(&fabric, server)).collect::<BTreeSet<u32>>().len()
        };
        for (workers, racks, pods) in
            [(2, 1, 1), (8, 1, 1), (9, 2, 1), (64, 8, 1), (65, 9, 2), (1_023, 128, 16)]
        {
            let placed = placer.place(workers, &mut random);
            let distinct: BTreeSet<&u32> = placed.iter().collect();
            assert_eq!(distinct.len(), workers as usize);
            assert_eq!(places(&placed, Fabric::rack_of), racks, "{workers} workers");
            assert_eq!(places(&placed, Fabric::pod_of), pods, "{workers} workers");
        }
    }

    #[test]
    fn jobs_are_spread_over_all_servers() {
        let fabric = Fabric::PAPER;
        let (mut placer, mut random) = (Placer::new(&fabric), Random::new(1));
        let mut workers = vec![0_u32; fabric.servers() as usize];
        for job in 0..4_000 {
            placer
                .place(1 + job % 20, &mut random)
                .into_iter()
                .for_each(|server| workers[server as usize] += 1);
        }
        let mean = workers.iter().sum::<u32>() / fabric.servers();
        assert!(workers.iter().all(|&here| here.abs_diff(mean) * 3 < mean), "{workers:?}");
    }
}
