//! Perfect knowledge, which only a simulator has: a front learns the current load of every node.
//!
//! The load comes in an unasked partial without contributors, so core needs no interface for it.

use super::World;
use super::place::Life;
use treefold_core::id::{Tag, WaveId};
use treefold_core::input::Input;
use treefold_core::load::figure::CostFigure;
use treefold_core::message::{Message, Partial};
use treefold_core::partitions::PartitionSet;

impl World {
    /// Tells the front at `front` the current load of each other node.
    pub fn tell_truth(&mut self, front: usize) {
        for at in (0..self.places.len()).filter(|&at| at != front) {
            if self.places[at].life != Life::Gone && !self.places[at].spec.partitions.is_empty() {
                let from = self.places[at].id;
                let partial = Partial {
                    tag: Tag { wave: WaveId { origin: 0, sequence: 0 }, branch: 0 },
                    payload: None,
                    contributors: PartitionSet::new(),
                    missing: Vec::new(),
                    last: false,
                    load: self.places[at].node.load_figure(),
                    loads: Vec::new(),
                    given_up: Vec::new(),
                    own: None,
                    served: None,
                    cost: CostFigure::default(),
                    report: None,
                };
                let message = Message::Partial(Box::new(partial));
                self.feed(front, Input::Message { from, message }, &mut ());
            }
        }
    }
}
