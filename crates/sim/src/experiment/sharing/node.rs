//! A node whose processors are never idle: its applications always have tasks, and the task times are drawn.

use super::policy::{Policy, Scheduler, Turn};
use crate::world::distribution::Distribution;
use crate::world::ink::mixed;

/// The demand of the applications, until it is replaced.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The shares of the applications.
    pub shares: Vec<f64>,
    /// Mean times of the applications' tasks, exponential, in ms.
    pub task_ms: Vec<f64>,
}

/// The processors, with the scheduler that chooses their next tasks.
#[derive(Debug)]
pub struct Node {
    scheduler: Scheduler,
    demand: Demand,
    seed: u64,
    tasks: u64,
    /// For each processor, its task with the times at which it begins and ends.
    processors: Vec<(f64, f64, Turn)>,
    /// Processor time of each application's finished tasks.
    used_ms: Vec<f64>,
    now_ms: f64,
}

impl Node {
    /// Creates a node with this number of processors. All of them are busy from the beginning.
    pub fn new(policy: Policy, processors: usize, demand: Demand, seed: u64) -> Self {
        let used_ms = vec![0.0; demand.shares.len()];
        let scheduler = Scheduler::new(policy, &demand.shares, mixed(seed));
        let mut node =
            Self { scheduler, demand, seed, tasks: 0, processors: Vec::new(), used_ms, now_ms: 0.0 };
        for _ in 0..processors {
            let begun = node.begin(0.0);
            node.processors.push(begun);
        }
        node
    }

    /// Replaces the applications' demand from now on.
    pub fn demand(&mut self, demand: Demand) {
        self.scheduler.set_shares(&demand.shares);
        self.demand = demand;
    }

    fn begin(&mut self, at_ms: f64) -> (f64, f64, Turn) {
        let turn = self.scheduler.next_turn();
        self.tasks += 1;
        let task = Distribution::Exponential(self.demand.task_ms[turn.application]);
        (at_ms, at_ms + task.draw_for_ms(self.seed, self.tasks), turn)
    }

    /// Runs until a time, and returns the processor time that each application has had by then.
    pub fn run_until(&mut self, until_ms: f64) -> Vec<f64> {
        loop {
            let ends = |at: &usize| self.processors[*at].1;
            let first = (0..self.processors.len()).min_by(|a, b| ends(a).total_cmp(&ends(b)));
            let first = first.expect("invariant: a node has processors");
            let (began_ms, ends_ms, turn) = self.processors[first];
            if ends_ms > until_ms {
                break;
            }
            self.used_ms[turn.application] += ends_ms - began_ms;
            self.scheduler.ended(turn, ends_ms - began_ms);
            self.processors[first] = self.begin(ends_ms);
        }
        self.now_ms = until_ms;
        let mut had_ms = self.used_ms.clone();
        for (began_ms, _, turn) in &self.processors {
            had_ms[turn.application] += self.now_ms - began_ms;
        }
        had_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_never_idle() {
        for policy in Policy::ALL {
            let demand = Demand { shares: vec![1.0, 2.0], task_ms: vec![34.0, 2.0] };
            let mut node = Node::new(policy, 4, demand, 7);
            for second in 1..=10 {
                let until_ms = f64::from(second) * 1_000.0;
                let had_ms: f64 = node.run_until(until_ms).iter().sum();
                assert!((had_ms - 4.0 * until_ms).abs() < 1e-6, "{}: {had_ms} at {until_ms}", policy.name());
            }
        }
    }
}
