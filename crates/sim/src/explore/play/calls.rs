//! The calls of a play: makes and cancels them, and makes the last calls, which must reach all partitions.

use super::{Found, LOOK_EVERY, Stage};
use crate::explore::scenario::{PlannedCall, Wish};
use crate::world::ink::Ink;
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::message::{Message, Request};
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;

/// Deadline of the last calls, ample for all of them.
const LAST_DEADLINE: Duration = Duration::from_secs(60);
/// Most fronts of a large cluster that make a last call.
const LAST_CALLS_MAX: usize = 12;

/// A call that was made, with the data for cancelling it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made {
    /// The node at `front` made it for its user.
    Itself { front: usize, request: RequestId },
    /// The client asked `member` to make it, with this number.
    Through { member: usize, client: usize, id: u64 },
}

/// Returns the number of a call in its parameters and at its client. 0 is never used.
fn name_of(number: usize) -> u64 {
    number as u64 + 1
}

impl Stage<'_> {
    pub(super) fn call(&mut self, number: usize) {
        let PlannedCall { front, through, wish, scale, own_params, .. } = &self.scenario.calls[number];
        let (front, options) = (self.place(*front), wish.options(self.scenario.partitions));
        let common = Ink::params(name_of(number), *scale);
        let own = |&partition: &u32| (partition, Ink { own: Some(partition), ..common.clone() });
        let params = Params::new(common.clone(), own_params.iter().map(own).collect())
            .unwrap_or_else(|_| Params::from(common));
        let made = match through.map(|member| self.member(member)) {
            Some(member) if self.is_client(front) => {
                let request = Request { id: name_of(number), name: "s/fold".into(), params, options };
                self.world.say(front, member, Message::Request(Box::new(request)));
                Made::Through { member, client: front, id: name_of(number) }
            }
            _ => {
                let request = self.world.call(front, params, options, &mut self.watch);
                Made::Itself { front, request }
            }
        };
        self.made.insert(number, made);
    }

    pub(super) fn cancel(&mut self, number: usize) {
        if let Some(&made) = self.made.get(&number) {
            self.cancel_made(made);
        }
    }

    pub(super) fn cancel_made(&mut self, made: Made) {
        match made {
            Made::Itself { front, request } => {
                self.world.feed(front, Input::Command(Command::Cancel { request }), &mut self.watch);
            }
            Made::Through { member, client, id } => {
                self.world.say(client, member, Message::CancelRequest { id });
            }
        }
    }

    /// Checks that a call from every front reaches all partitions that members hold.
    pub(super) fn last_calls(&mut self) -> Result<(), Found> {
        let members = self.running(false);
        let mut held = PartitionSet::new();
        members.iter().for_each(|&at| held.union_with(&self.world.place(at).spec().partitions));
        if self.scenario.placing.is_some() && !members.is_empty() {
            held = PartitionSet::first(self.scenario.partitions);
        }
        let fronts: Vec<usize> = members.into_iter().chain(self.running(true)).collect();
        let every = fronts.len().div_ceil(LAST_CALLS_MAX).max(1);
        for (number, &front) in fronts.iter().enumerate().step_by(every) {
            self.last_call(front, name_of(self.scenario.calls.len() + number), &held)?;
        }
        Ok(())
    }

    /// Checks that a call from `front` reaches all partitions in `held`.
    fn last_call(&mut self, front: usize, number: u64, held: &PartitionSet) -> Result<(), Found> {
        let request = RequestId(self.world.next_request_number());
        self.watch.reached.insert(request, PartitionSet::new());
        let wish = Wish { deadline_us: LAST_DEADLINE.as_micros(), ..Wish::default() };
        let options = wish.options(self.scenario.partitions);
        self.world.call(front, Ink::params(number, 1.0), options, &mut self.watch);
        let by = self.world.now() + LAST_DEADLINE.div(2);
        while self.watch.inspection.has_open(front) && self.world.now() < by {
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
        if self.watch.inspection.has_open(front) {
            let says = Err(format!("everything is healed, but a call at place {front} still waits"));
            self.watch.inspection.hold("converges", self.world.now(), Some(front), Some(number), says);
        }
        let reached = self.watch.reached.remove(&request).unwrap_or_default();
        if reached != *held && !self.scenario.refuses_work() {
            let says = Err(format!("members hold {held}, but a call at place {front} reached {reached}"));
            self.watch.inspection.hold("converges", self.world.now(), Some(front), Some(number), says);
        }
        self.look()
    }
}
