//! The placement of partitions in a play: drained nodes, partitions moved by hand, and the check at its end.

use super::{Found, LOOK_EVERY, Stage};
use crate::explore::invariant::placement_settles;
use crate::explore::scenario::Fault;
use crate::world::place::Placing;
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::PlacementAsk;
use treefold_core::time::Duration;

impl Stage<'_> {
    /// The placement of a new process, if members place partitions.
    pub(super) fn placing(&self) -> Option<Placing> {
        let load = Duration::from_micros(self.scenario.placing?.load_us);
        Some(Placing { replicas: self.scenario.replicas.max(1), load })
    }

    /// Asks a node for another placement. Returns false if it has no process, or places no partitions.
    pub(super) fn steer(&mut self, fault: &Fault) -> bool {
        let of = |partitions: &[u32]| {
            let all = PartitionSet::first(self.scenario.partitions);
            partitions.iter().copied().collect::<PartitionSet>().intersection(&all)
        };
        let (node, ask) = match fault {
            Fault::Drain(node) => (*node, PlacementAsk::Drain(true)),
            Fault::Undrain(node) => (*node, PlacementAsk::Drain(false)),
            Fault::Pin(node, some) => {
                (*node, PlacementAsk::Pin { service: "s".into(), partitions: of(some) })
            }
            Fault::Refuse(node, some) => {
                (*node, PlacementAsk::Refuse { service: "s".into(), partitions: of(some) })
            }
            Fault::Release(node, some) => {
                (*node, PlacementAsk::Release { service: "s".into(), partitions: of(some) })
            }
            _ => return false,
        };
        let at = self.place(node);
        let strikes = self.scenario.placing.is_some() && self.running(false).contains(&at);
        if strikes {
            self.ask_placement(at, ask);
        }
        strikes
    }

    fn ask_placement(&mut self, at: usize, ask: PlacementAsk) {
        let request = RequestId(u64::MAX);
        self.world.feed(at, Input::Command(Command::Placement { request, ask }), &mut self.watch);
    }

    /// Ends all that operators have asked for.
    pub(super) fn release_all(&mut self) {
        if self.scenario.placing.is_none() {
            return;
        }
        let partitions = PartitionSet::first(self.scenario.partitions);
        for at in self.running(false) {
            self.ask_placement(at, PlacementAsk::Drain(false));
            self.ask_placement(
                at,
                PlacementAsk::Release { service: "s".into(), partitions: partitions.clone() },
            );
        }
    }

    /// Waits until each partition has its replicas.
    pub(super) fn placement_settles(&mut self) -> Result<(), Found> {
        let Some(placing) = self.scenario.placing else { return Ok(()) };
        let loads = Duration::from_micros(placing.load_us).mul_f64(f64::from(self.scenario.partitions));
        let by = self.world.now()
            + placement_settles::WITHIN
            + Duration::from_micros(placing.replace_after_us + placing.leave_after_us)
            + loads;
        loop {
            let (members, replicas) = (self.running(false), self.scenario.replicas.max(1));
            let says = placement_settles::settled(&self.world, &members, self.scenario.partitions, replicas);
            if says.is_ok() {
                return Ok(());
            }
            if self.world.now() >= by {
                self.watch.inspection.hold("placement_settles", self.world.now(), None, None, says);
            }
            self.look()?;
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
    }
}
