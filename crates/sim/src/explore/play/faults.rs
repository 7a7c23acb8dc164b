//! Applies the faults of a play.
//!
//! Scenarios name nodes by numbers modulo the number of nodes, and shrinking does not keep them meaningful.
//! So a fault may have no effect, such as the crash of a process that is gone. Then it does nothing and is
//! not counted.

use super::Stage;
use crate::explore::scenario::Fault;
use crate::world::World;
use crate::world::place::{Failing, Life, broken};
use std::collections::BTreeSet;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;

/// Returns the operators that a fault makes fail.
fn failing(fault: &Fault) -> Failing {
    let none = Failing::default();
    match fault {
        Fault::FailLocals(_, partitions, panics) => {
            let locals = partitions.iter().map(|&partition| (partition, broken(*panics)));
            Failing { locals: locals.collect(), ..none }
        }
        Fault::FailReduces(_, one_reduce_in, panics) => {
            Failing { one_reduce_in: *one_reduce_in, panics: *panics, ..none }
        }
        Fault::FailFilters(_, one_filter_in, panics) => {
            Failing { one_filter_in: *one_filter_in, panics: *panics, ..none }
        }
        Fault::HangFilters(_, one_filter_hangs_in) => {
            Failing { one_filter_hangs_in: *one_filter_hangs_in, ..none }
        }
        Fault::FailLoads(_, partitions) => Failing { loads: set(partitions), ..none },
        _ => none,
    }
}

fn set(partitions: &[u32]) -> PartitionSet {
    partitions.iter().copied().collect()
}

impl Stage<'_> {
    pub(super) fn strike(&mut self, fault: &Fault) {
        if self.strikes(fault) {
            *self.faults.entry(fault.kind()).or_default() += 1;
            if fault.is_trouble() {
                self.watch.inspection.troubled();
            }
        }
    }

    /// Applies a fault. Returns false if it has no effect.
    fn strikes(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Crash(node) => {
                let at = self.place(*node);
                let strikes = self.life(at) != Life::Gone;
                self.end_process(at);
                strikes
            }
            Fault::Restart(node) => self.restart(self.place(*node)),
            Fault::Stall(node) => {
                let at = self.place(*node);
                let strikes = self.life(at) == Life::Running;
                self.world.stop(at);
                strikes
            }
            Fault::Resume(node) => self.resume(self.place(*node)),
            Fault::Slow(node, times) => self.alive(*node, |world, at| world.slow_down(at, f64::from(*times))),
            Fault::Weather(weather) => {
                self.world.network().change(weather.links());
                true
            }
            Fault::Split(group) => self.split(group),
            Fault::CutOneWay(from, to) => {
                let (from, to) = (self.place(*from), self.place(*to));
                if from != to {
                    self.world.cut(from, to);
                }
                from != to
            }
            Fault::Mend => {
                self.world.mend();
                true
            }
            Fault::BreakConnection(a, b) => {
                let (a, b) = (self.place(*a), self.place(*b));
                self.world.break_link(a, b);
                a != b
            }
            Fault::Hang(node, partitions) => self.alive(*node, |world, at| world.hang(at, set(partitions))),
            Fault::FailLocals(node, ..)
            | Fault::FailReduces(node, ..)
            | Fault::FailFilters(node, ..)
            | Fault::HangFilters(node, ..)
            | Fault::FailLoads(node, ..) => {
                let failing = failing(fault);
                self.alive(*node, |world, at| world.fail(at, failing))
            }
            Fault::ClockJump(node, by_ms) => self.jump(self.place(*node), Duration::from_millis(*by_ms)),
            Fault::Leave(node) => self.leave(self.place(*node)),
            Fault::Join(partitions) => self.arrive(&set(partitions)),
            Fault::Cut(a, b) => self.between(*a, *b, |world, a, b| {
                world.cut(a, b);
                world.cut(b, a);
            }),
            Fault::CutForGood(a, b) => self.between(*a, *b, World::cut_for_good),
            Fault::Drain(_) | Fault::Undrain(_) | Fault::Pin(..) | Fault::Refuse(..) | Fault::Release(..) => {
                self.steer(fault)
            }
            Fault::Sever(a, b, notice) => {
                let notice = notice.map(Duration::from_micros);
                self.between(*a, *b, |world, a, b| world.sever(a, b, notice))
            }
        }
    }

    fn jump(&mut self, at: usize, by: Duration) -> bool {
        let strikes = self.life(at) != Life::Gone;
        if strikes {
            self.watch.inspection.jumped(self.world.now(), at, by);
            self.world.jump_clock(at, by);
        }
        strikes
    }

    fn leave(&mut self, at: usize) -> bool {
        let strikes = self.life(at) != Life::Gone && !self.is_client(at) && self.leaving.insert(at);
        if strikes {
            self.world.leave(at, &mut self.watch);
        }
        strikes
    }

    /// Starts a node that holds the existing partitions of `holding`, and lets it join.
    fn arrive(&mut self, holding: &PartitionSet) -> bool {
        let all = PartitionSet::first(self.scenario.partitions);
        let held = holding.intersection(&all);
        let spec = self.accepting(self.world.places() as u32, self.spec(held, false));
        let at = self.world.start(spec);
        self.join(at);
        true
    }

    /// Applies a fault to the scenario's `node`, if it has a process.
    fn alive(&mut self, node: u32, strike: impl FnOnce(&mut World, usize)) -> bool {
        let at = self.place(node);
        let strikes = self.life(at) != Life::Gone;
        if strikes {
            strike(&mut self.world, at);
        }
        strikes
    }

    /// Applies a fault to the link between two of the scenario's nodes.
    fn between(&mut self, a: u32, b: u32, strike: impl FnOnce(&mut World, usize, usize)) -> bool {
        let (a, b) = (self.place(a), self.place(b));
        if a != b {
            strike(&mut self.world, a, b);
        }
        a != b
    }

    /// Cuts the group off from all other nodes, in both directions.
    fn split(&mut self, group: &[u32]) -> bool {
        let inside: BTreeSet<usize> = group.iter().map(|&node| self.place(node)).collect();
        let outside: Vec<usize> = (0..self.world.places()).filter(|at| !inside.contains(at)).collect();
        for (&a, &b) in inside.iter().flat_map(|a| outside.iter().map(move |b| (a, b))) {
            self.world.cut(a, b);
            self.world.cut(b, a);
        }
        !inside.is_empty() && !outside.is_empty()
    }

    pub(super) fn restart(&mut self, at: usize) -> bool {
        if self.life(at) != Life::Gone {
            return false;
        }
        self.leaving.remove(&at);
        self.world.restart(at);
        self.join(at);
        true
    }

    pub(super) fn resume(&mut self, at: usize) -> bool {
        let strikes = self.life(at) == Life::Stopped;
        self.watch.inspection.resumed(self.world.now(), at);
        self.world.resume(at, &mut self.watch);
        strikes
    }
}
