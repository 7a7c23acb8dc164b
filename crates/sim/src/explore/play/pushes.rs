//! The push waves of a play: workers start, push and have mishaps, and their master announces. The last
//! announcements must reach all attached workers.

use super::calls::Made;
use super::{Found, LOOK_EVERY, Stage};
use crate::explore::invariant::workers_heard;
use crate::explore::pushing::{
    ANNOUNCED, APPLICATION, Announcement, LAST_PIECE_BYTES, Mishap, PlannedResult, Pushing,
};
use crate::explore::scenario::Wish;
use crate::world::ink::{Ink, pushed};
use crate::world::place::{Life, Spec};
use crate::world::workers::WorkerSpec;
use std::collections::BTreeSet;
use treefold_core::id::RequestId;
use treefold_core::message::{Message, Request};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

/// Number of the first of the last requests.
const LAST_REQUESTS_FROM: u64 = 1_000;
/// Number of fronts that announce a last request.
const LAST_ANNOUNCEMENTS: usize = 3;
/// Deadline of the last announcements, ample for all of them.
const LAST_DEADLINE: Duration = Duration::from_secs(60);
/// Limit of kept bytes from which pushes that no node asks for cannot block a worker.
const KEPT_AMPLE: u64 = 1 << 20;
/// Patience of the last announcements. A worker that is missing for longer is not attached anywhere.
const LAST_PATIENCE: Duration = Duration::from_secs(2);
/// Index of the announced aggregation, the world's second one.
const OPERATOR: usize = 1;
/// Longest time in which workers find a node after everything is healed.
const ATTACH_WITHIN: Duration = Duration::from_secs(10);

impl Stage<'_> {
    /// Returns the scenario's push waves. Call it only if there are some.
    fn pushing(&self) -> &Pushing {
        self.scenario
            .pushing
            .as_ref()
            .expect("invariant: only a scenario with push waves plans actions of them")
    }

    /// Adds rack and application to the spec of the `at`-th member or relay, if there are push waves.
    pub(super) fn accepting(&self, at: u32, spec: Spec) -> Spec {
        match &self.scenario.pushing {
            Some(pushing) => {
                Spec { rack: pushing.rack_of(at), accepts: [APPLICATION.to_owned()].into(), ..spec }
            }
            None => spec,
        }
    }

    /// Starts the relays and returns their places.
    pub(super) fn begin_relays(&mut self) -> Vec<usize> {
        let relays = self.scenario.pushing.as_ref().map_or(0, |pushing| pushing.relays);
        let relay = |at: u32| {
            let spec = Spec { is_relay: true, ..self.spec(PartitionSet::new(), false) };
            self.accepting(at, spec)
        };
        let specs: Vec<Spec> = (0..relays).map(relay).collect();
        specs.into_iter().map(|spec| self.world.start(spec)).collect()
    }

    /// Starts the workers, each with the nodes that it may attach to.
    pub(super) fn begin_workers(&mut self, members: &[usize], relays: &[usize]) {
        let Some(pushing) = &self.scenario.pushing else { return };
        let hosts = if relays.is_empty() { members } else { relays };
        let homes = (pushing.homes as usize).clamp(1, hosts.len());
        for number in 0..pushing.workers {
            let way = (0..homes).map(|home| hosts[(number as usize + home) % hosts.len()]).collect();
            self.world.start_worker(WorkerSpec {
                application: APPLICATION.into(),
                number,
                way,
                kept_bytes_max: usize::try_from(pushing.kept_bytes_max).unwrap_or(usize::MAX),
                floods: false,
            });
        }
    }

    pub(super) fn announce(&mut self, at: usize) {
        let Announcement { front, through, request, .. } = self.pushing().announcements[at];
        let options = self.pushing().announcements[at].options(self.pushing().workers);
        let id = pushed(request, at as u64 + 1);
        let (front, through) = (self.place(front), self.member(through));
        let params = Ink::params(id, 1.0);
        let made = if self.is_client(front) {
            let request = Request { id, name: ANNOUNCED.into(), params: params.into(), options };
            self.world.say(front, through, Message::Request(Box::new(request)));
            Made::Through { member: through, client: front, id }
        } else {
            let request = self.world.call_operator(front, OPERATOR, params, options, &mut self.watch);
            Made::Itself { front, request }
        };
        self.announced.insert(at, made);
    }

    pub(super) fn cancel_announced(&mut self, at: usize) {
        if let Some(&made) = self.announced.get(&at) {
            self.cancel_made(made);
        }
    }

    /// Gives a piece of a result to every worker with its number.
    pub(super) fn push(&mut self, result: usize, piece: usize) {
        let result = &self.pushing().results[result].clone();
        for worker in self.workers_numbered(result.worker) {
            self.give(worker, result, piece);
        }
    }

    fn give(&mut self, worker: usize, result: &PlannedResult, piece: usize) {
        if result.fails_at(piece) {
            return self.world.fail_push(worker, result.request);
        }
        let (ink, last) = result.piece(piece);
        self.world.push(worker, result.request, ink, last);
    }

    fn workers_numbered(&self, number: u32) -> Vec<usize> {
        let workers = self.world.workers().iter().enumerate();
        let is_it =
            |worker: &crate::world::workers::Worker| worker.spec().number == number && !worker.is_over();
        workers.filter(|(_, worker)| is_it(worker)).map(|(at, _)| at).collect()
    }

    /// Applies a mishap to a worker.
    pub(super) fn befall(&mut self, mishap: usize) {
        let planned = self.pushing().mishaps[mishap].clone();
        let workers = self.world.workers().len();
        if workers == 0 {
            return;
        }
        let worker = planned.worker as usize % workers;
        let strikes = match planned.mishap {
            Mishap::Cut => self.world.cut_worker(worker),
            Mishap::Restart => self.world.end_worker(worker) && self.begin_again(worker, 0),
            Mishap::Twin => !self.world.workers()[worker].is_over() && self.begin_again(worker, 1),
        };
        if strikes {
            *self.faults.entry(planned.mishap.kind()).or_default() += 1;
        }
    }

    /// Starts a program with the number of `worker`. It pushes all pieces that were ready until now. Of a piece and a
    /// mishap at the same time, the piece comes first: `add_pushes` plans it first.
    fn begin_again(&mut self, worker: usize, turned: usize) -> bool {
        let mut spec = self.world.workers()[worker].spec().clone();
        let homes = spec.way.len();
        spec.way.rotate_left(turned % homes);
        let (number, worker) = (spec.number, self.world.start_worker(spec));
        let now_us = self.world.now().since(Instant::START).as_micros();
        let mut due: Vec<(u64, PlannedResult, usize)> = Vec::new();
        for result in self.pushing().results.iter().filter(|result| result.worker == number) {
            let there = (0..result.pieces.len()).map(|piece| (result.piece_at_us(piece), piece));
            due.extend(
                there.filter(|&(at_us, _)| at_us <= now_us).map(|(at, piece)| (at, result.clone(), piece)),
            );
        }
        due.sort_by_key(|(at_us, ..)| *at_us);
        due.iter().for_each(|(_, result, piece)| self.give(worker, result, *piece));
        true
    }

    /// Checks that each worker with a running node is attached, and that announcements reach every attached
    /// worker.
    pub(super) fn last_announcements(&mut self) -> Result<(), Found> {
        if self.scenario.pushing.is_none() {
            return Ok(());
        }
        self.all_attach()?;
        let fronts: Vec<usize> = self.running(false).into_iter().collect();
        let every = fronts.len().div_ceil(LAST_ANNOUNCEMENTS).max(1);
        for (nth, &front) in fronts.iter().enumerate().step_by(every) {
            self.all_are_heard()?;
            self.last_announcement(front, LAST_REQUESTS_FROM + nth as u64)?;
        }
        Ok(())
    }

    /// Returns the workers that are not over and not attached, although they have a node that they could
    /// attach to.
    fn lost_workers(&self) -> Vec<u32> {
        let members = self.running(false);
        let is_lost = |worker: &&crate::world::workers::Worker| {
            let has_home = worker.spec().way.iter().any(|at| members.contains(at));
            !worker.is_over() && has_home && worker.attached_at().is_none()
        };
        self.world.workers().iter().filter(is_lost).map(|worker| worker.spec().number).collect()
    }

    fn all_attach(&mut self) -> Result<(), Found> {
        let by = self.world.now() + ATTACH_WITHIN;
        loop {
            let lost = self.lost_workers();
            if lost.is_empty() {
                return self.look();
            }
            if self.world.now() >= by {
                let says = Err(format!("everything is healed, but workers {lost:?} are not attached"));
                self.watch.inspection.hold("converges", self.world.now(), None, None, says);
            }
            self.look()?;
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
    }

    /// Waits until workers that keep few bytes have learned the end of their requests.
    ///
    /// Until then, pushes that no node asks for fill their small buffers. If two workers have the same
    /// number, a node asks only one of them. And a worker that attaches late pushes for requests that are
    /// long over.
    fn all_are_heard(&mut self) -> Result<(), Found> {
        if self.pushing().kept_bytes_max >= KEPT_AMPLE {
            return self.look();
        }
        let by = self.world.now() + self.pushes_rest_after();
        loop {
            let says = workers_heard::at_rest(&self.world);
            if says.is_ok() {
                return self.look();
            }
            if self.world.now() >= by {
                self.watch.inspection.hold("workers_heard", self.world.now(), None, None, says);
            }
            self.look()?;
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
    }

    /// Checks that an announcement by the node at `front` reaches all attached workers.
    fn last_announcement(&mut self, front: usize, request: u64) -> Result<(), Found> {
        let is_there = |at: &usize| self.world.place(*at).life() == Life::Running;
        let attached =
            self.world.workers().iter().filter(|worker| worker.attached_at().is_some_and(|at| is_there(&at)));
        let expected: BTreeSet<u32> = attached.map(|worker| worker.spec().number).collect();
        let wish = Wish {
            deadline_us: LAST_DEADLINE.as_micros(),
            partitions: Some(expected.iter().copied().collect()),
            ..Wish::default()
        };
        let (at_us, every_us) = (self.world.now().since(Instant::START).as_micros(), 0);
        let announcement = Announcement {
            at_us,
            front: 0,
            through: 0,
            request,
            wish,
            patience_us: LAST_PATIENCE.as_micros(),
            cancelled_after_us: None,
        };
        let call = pushed(request, 1);
        let reached = RequestId(self.world.next_request_number());
        self.watch.reached.insert(reached, PartitionSet::new());
        let options = announcement.options(self.pushing().workers);
        self.world.call_operator(front, OPERATOR, Ink::params(call, 1.0), options, &mut self.watch);
        for &worker in &expected {
            let pieces = vec![LAST_PIECE_BYTES; 1 + worker as usize % 3];
            let result = PlannedResult { at_us, every_us, worker, request, pieces, fails: false };
            for at in self.workers_numbered(worker) {
                (0..result.pieces.len()).for_each(|piece| self.give(at, &result, piece));
            }
        }
        let by = self.world.now() + LAST_DEADLINE.div(2);
        while self.watch.inspection.has_open(front) && self.world.now() < by {
            self.run_until(self.world.now() + LOOK_EVERY)?;
        }
        if self.watch.inspection.has_open(front) {
            let says = Err(format!("everything is healed, but an announcement at place {front} still waits"));
            self.watch.inspection.hold("converges", self.world.now(), Some(front), Some(call), says);
        }
        let reached = self.watch.reached.remove(&reached).unwrap_or_default();
        let expected: PartitionSet = expected.into_iter().collect();
        if reached != expected && !self.scenario.refuses_work() {
            let says = Err(format!(
                "workers {expected} are attached, but an announcement at place {front} reached {reached}"
            ));
            self.watch.inspection.hold("converges", self.world.now(), Some(front), Some(call), says);
        }
        self.look()
    }
}
