//! Carries out the effects of nodes, and the planned events of the world.

use super::ink::{Ink, mixed};
use super::network::message_bytes;
use super::place::{Life, place_at, place_of};
use super::processors::{Output, Task, TaskId};
use super::workers::worker_of;
use super::{Happening, Sabotage, Watch, World, feeds};
use std::sync::Arc;
use treefold_core::effect::{Effect, Event, Job, Place as Where, Work};
use treefold_core::error::JobError;
use treefold_core::id::{NodeId, PartitionId};
use treefold_core::input::{Command, Input};
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::message::StreamMessage;
use treefold_core::time::{Duration, Instant};

/// The first byte of core's poll datagram.
const POLL: u8 = 1;
/// With sabotage, one in this many folds is wrong.
const SABOTAGED_FOLD: u64 = 100;
/// With sabotage, one in this many cancels is dropped.
const SABOTAGED_CANCEL: u64 = 10;
/// With sabotage, one in this many messages about missed packets is dropped.
const SABOTAGED_MISSED: u64 = 3;
/// With sabotage, one in this many packets on their way up is dropped.
const SABOTAGED_PACKET: u64 = 100;

impl World {
    pub(super) fn happen(&mut self, happening: Happening, watch: &mut dyn Watch) {
        match happening {
            Happening::Message { from, to, connection, message } => {
                self.arrive(from, to, connection, message, watch);
            }
            Happening::Datagram { to, from, bytes } => {
                self.note(2, to as u64);
                self.feed(to, Input::Datagram { from, bytes }, watch);
            }
            Happening::Input { to, input } => {
                let (at, lives) = place_of(to);
                self.note(3, to.generation);
                if self.places[at].lives == lives {
                    if let Input::Connected { peer } = &input
                        && worker_of(*peer).is_none()
                    {
                        self.notice(at, place_of(*peer).0, watch);
                    }
                    self.feed(at, input, watch);
                }
            }
            Happening::Unreached { from, peer } => {
                let ((from_at, _), (to_at, lives)) = (place_of(from), place_of(peer));
                let is_connected = self.connections.contains_key(&pair(from_at, to_at));
                if !is_connected || self.places[to_at].lives != lives {
                    let input = Input::Lost { peer };
                    self.happen(Happening::Input { to: from, input }, watch);
                }
            }
            Happening::Unanswered { from_at, to_at, connection } => {
                let is_open = self.connections.get(&pair(from_at, to_at)) == Some(&connection);
                if is_open && self.places[to_at].life == Life::Stopped {
                    self.break_connection(from_at, to_at, None);
                }
            }
            Happening::Done { at, lives, task, took } => {
                self.note(4, at as u64);
                if self.places[at].lives == lives {
                    if self.places[at].processors.end(task.id, task.call) {
                        self.feed(at, task.done(took), watch);
                    }
                    self.begin_tasks(at);
                }
            }
            Happening::Timer { at } => self.ring(at, watch),
            Happening::Turn { seat, life } => self.take_turn(seat, life, watch),
            Happening::Notice { end, peer } => self.notice(end, peer, watch),
            Happening::Pushed { from, to, message } => self.hear_worker(from, to, message, watch),
            Happening::Worker { worker, news } => self.inform_worker(worker, news),
            Happening::Feed(what) => {
                self.note(12, 0);
                self.feed_happens(what, watch);
            }
            Happening::Call { at, request, params, options } => {
                self.note(6, at as u64);
                let name = self.names[0].clone();
                let call = Command::Call { request, name, params, options: *options };
                self.feed(at, Input::Command(call), watch);
            }
        }
    }

    /// Delivers a message if its connection is still open and the receiver is still in the same life.
    fn arrive(
        &mut self,
        from: NodeId,
        to: NodeId,
        connection: u64,
        message: Message<Ink>,
        watch: &mut dyn Watch,
    ) {
        self.note(1, from.generation ^ to.generation.rotate_left(24));
        let ((from_at, _), (to_at, lives)) = (place_of(from), place_of(to));
        let is_open = self.connections.get(&pair(from_at, to_at)) == Some(&connection);
        if !is_open || self.places[to_at].lives != lives {
            return;
        }
        // A new connection replaces one whose break this end has not noticed.
        self.notice(to_at, from_at, watch);
        if self.network.is_cut(from_at, to_at) {
            let held = Happening::Message { from, to, connection, message };
            return self.held_up.entry((from_at, to_at)).or_default().push(held);
        }
        if let Message::Call(call) = &message
            && let Some(params) = &call.params
        {
            self.places[to_at].processors.note_wave(call.tag.wave, params.common.call);
        }
        if let Message::Cancel { tag } = &message
            && self.places[to_at].processors.release(tag.wave)
        {
            self.begin_tasks(to_at);
        }
        self.feed(to_at, Input::Message { from, message }, watch);
    }

    fn ring(&mut self, at: usize, watch: &mut dyn Watch) {
        let now = self.now;
        let place = &mut self.places[at];
        if place.armed.is_none_or(|armed| armed > now) {
            return;
        }
        place.armed = None;
        if place.life != Life::Running {
            return;
        }
        let clock = place.clock(now);
        if place.node.poll_timeout().is_some_and(|due| due <= clock) {
            place.node.handle_timeout(clock);
            self.note(5, at as u64);
            self.drain(at, watch);
        } else {
            self.arm(at);
        }
    }

    pub(super) fn carry_out(
        &mut self,
        at: usize,
        effect: Effect<Ink>,
        inline: &mut Vec<Input<Ink>>,
        watch: &mut dyn Watch,
    ) {
        match effect {
            Effect::Send { to, message } => self.send(at, to, message),
            Effect::Datagram { to, bytes } => self.send_datagram(at, to, &bytes),
            Effect::Connect { addr } => self.connect(at, addr),
            Effect::Disconnect { peer } => self.disconnect(at, peer),
            Effect::Run(job) => self.run(at, &job, inline),
            Effect::Deliver(Event::CallDone { request, outcome }) => {
                self.note(7, request.0 ^ (outcome.contributed.len() as u64) << 32);
                watch.outcome(self.now, at, request, &outcome);
                self.tell_fetcher(at, request, &outcome, inline);
            }
            // An abandoned job keeps its processor until it is done, as a thread does. A future is dropped.
            Effect::Abandon { job, replace_worker: false } => {
                self.places[at].processors.drop_future(job);
                self.begin_tasks(at);
            }
            Effect::Filter(effect) => self.perform_filter(at, effect, inline),
            Effect::Load { service, partition } => self.load(at, service, partition),
            Effect::Unload { partition, .. } => {
                self.places[at].loaded.subtract(
                    &PartitionSet::first(partition + 1).difference(&PartitionSet::first(partition)),
                );
            }
            Effect::Deliver(Event::Stream { request, event }) => {
                self.tell_front(at, request, &event, inline);
            }
            Effect::Deliver(Event::Endpoint { stream, endpoint, event }) => {
                self.tell_endpoint(at, stream, endpoint, event, inline);
            }
            Effect::Abandon { .. } | Effect::Cancel { .. } | Effect::Deliver(_) | Effect::Trace(_) => {}
        }
    }

    /// Loads a partition, or fails to.
    fn load(&mut self, at: usize, service: Arc<str>, partition: PartitionId) {
        let place = &mut self.places[at];
        let Some(placing) = place.spec.placing else { return };
        let fails = place.failing.loads.contains(partition);
        if !fails && self.setting.sabotage != Some(Sabotage::PlacementLoadNothing) {
            place.loaded.insert(partition);
        }
        let result = if fails { Err("the store does not answer".into()) } else { Ok(()) };
        let input = Input::Loaded { service, partition, result };
        self.agenda.plan(self.now + placing.load, Happening::Input { to: place.id, input });
    }

    /// Sends a message over the connection, which is made first if necessary.
    pub(super) fn send(&mut self, from_at: usize, to: NodeId, mut message: Message<Ink>) {
        if self.is_sabotaged(&message) {
            return;
        }
        if worker_of(to).is_some() {
            return self.tell_worker(from_at, to, message);
        }
        if let (Message::Partial(partial), Some(_)) =
            (&mut message, self.places[from_at].spec.blocking_threads)
        {
            // Core believes that there are more processors, because the threads are the limit. Other nodes
            // get the true number.
            partial.load.processors = self.places[from_at].spec.processors;
        }
        if let Message::Partial(partial) = &message
            && partial.last
            && self.places[from_at].processors.release(partial.tag.wave)
        {
            self.begin_tasks(from_at);
        }
        let (to_at, lives) = place_of(to);
        if self.unnoticed.contains(&(from_at, to_at)) {
            return;
        }
        let from = self.places[from_at].id;
        if to_at >= self.places.len() {
            // No node has ever been at this place.
            let refused_at = self.now + self.network.links().stream_delay.mul_f64(2.0);
            let input = Input::Lost { peer: to };
            return self.agenda.plan(refused_at, Happening::Input { to: from, input });
        }
        let Some(connection) = self.connection(from_at, to_at, lives) else { return };
        let bytes = message_bytes(&message);
        let at = self.network.message_arrives(self.now, from_at, to_at, bytes);
        self.agenda.plan(at, Happening::Message { from, to, connection, message });
    }

    fn is_sabotaged(&mut self, message: &Message<Ink>) -> bool {
        let one_in = match (self.setting.sabotage, message) {
            (Some(Sabotage::DropCancel), Message::Cancel { .. }) => SABOTAGED_CANCEL,
            (Some(Sabotage::StreamDropPacket), Message::Stream(message))
                if matches!(**message, StreamMessage::Up(_)) =>
            {
                SABOTAGED_PACKET
            }
            (Some(Sabotage::StreamDropMissed), Message::Stream(message))
                if matches!(**message, StreamMessage::Missed { .. }) =>
            {
                SABOTAGED_MISSED
            }
            _ => return false,
        };
        self.sabotaged += 1;
        self.sabotaged.is_multiple_of(one_in)
    }

    /// Returns the connection between two places, and makes one if there is none.
    ///
    /// If no process listens or nothing passes between the places, it returns `None`, and the sender learns
    /// later that the peer is lost.
    fn connection(&mut self, from_at: usize, to_at: usize, lives: u32) -> Option<u64> {
        if let Some(&open) = self.connections.get(&pair(from_at, to_at))
            && self.places[to_at].lives == lives
        {
            return Some(open);
        }
        let from = self.places[from_at].id;
        let to = super::place::name_of(to_at, lives, self.places[to_at].spec.is_client);
        let is_there = self.places[to_at].life != Life::Gone && self.places[to_at].lives == lives;
        let is_cut = self.network.is_cut(from_at, to_at) || self.network.is_cut(to_at, from_at);
        let links = self.network.links();
        let refused_after = match (is_cut, is_there && !to.is_client()) {
            (true, _) => Some(links.connect_timeout),
            (false, false) => Some(links.stream_delay.mul_f64(2.0)),
            (false, true) => None,
        };
        if let Some(wait) = refused_after {
            self.agenda.plan(self.now + wait, Happening::Unreached { from, peer: to });
            return None;
        }
        self.connections_made += 1;
        self.connections.insert(pair(from_at, to_at), self.connections_made);
        if self.places[to_at].life == Life::Stopped {
            let unanswered = Happening::Unanswered { from_at, to_at, connection: self.connections_made };
            self.agenda.plan(self.now + links.connect_timeout, unanswered);
        }
        let both_ways = [(from_at, to_at, from, to), (to_at, from_at, to, from)];
        for (one_at, other_at, one, other) in both_ways {
            let at = self.network.message_arrives(self.now, one_at, other_at, 0);
            self.agenda.plan(at, Happening::Input { to: other, input: Input::Connected { peer: one } });
        }
        Some(self.connections_made)
    }

    fn connect(&mut self, from_at: usize, addr: core::net::SocketAddr) {
        if let Some(to_at) = place_at(addr).filter(|&to_at| to_at < self.places.len()) {
            let lives = self.places[to_at].lives;
            self.connection(from_at, to_at, lives);
        }
    }

    fn disconnect(&mut self, from_at: usize, peer: NodeId) {
        if worker_of(peer).is_some() {
            return self.let_worker_go(from_at, peer);
        }
        let (to_at, lives) = place_of(peer);
        if self.places.get(to_at).is_some_and(|place| place.lives == lives) {
            self.break_connection(from_at, to_at, Some(from_at));
        }
    }

    /// Breaks the connection between two places. Both ends learn of it, except the end `who` that closed it.
    /// Messages that an end sends before it learns of the break are lost.
    pub(super) fn break_connection(&mut self, a: usize, b: usize, who: Option<usize>) {
        if self.connections.remove(&pair(a, b)).is_none() {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            self.held_up.remove(&(from, to));
            if who == Some(to) || self.places[to].life == Life::Gone {
                continue;
            }
            let at = self.network.message_arrives(self.now, from, to, 0);
            let happening = if self.places[from].life == Life::Gone {
                let input = Input::Lost { peer: self.places[from].id };
                Happening::Input { to: self.places[to].id, input }
            } else {
                self.unnoticed.insert((to, from));
                Happening::Notice { end: to, peer: from }
            };
            self.agenda.plan(at, happening);
        }
    }

    fn send_datagram(&mut self, from_at: usize, to: core::net::SocketAddr, bytes: &[u8]) {
        let Some(to_at) = place_at(to).filter(|&to_at| to_at < self.places.len()) else { return };
        let from = self.places[from_at].id.addr;
        let arrivals = self.network.datagram_arrives(self.now, from_at, to_at, bytes.len());
        for at in arrivals.into_iter().flatten() {
            let at = if bytes.first() == Some(&POLL) { at + self.polled(to_at) } else { at };
            self.agenda.plan(at, Happening::Datagram { to: to_at, from, bytes: bytes.to_vec() });
        }
    }

    /// Returns the time that a poll waits for a processor of a busy node. The poll also takes processor time
    /// from the node's work.
    fn polled(&mut self, at: usize) -> Duration {
        let polling = self.setting.polling;
        if polling == super::Polling::FREE {
            return Duration::ZERO;
        }
        let processors = &mut self.places[at].processors;
        processors.steal(polling.cost);
        let chance = polling.wait_share * processors.utilisation();
        if self.random.unit() >= chance {
            return Duration::ZERO;
        }
        polling.wait_mean.mul_f64(-(1.0 - self.random.unit()).ln())
    }

    /// Starts a job: at once if it runs on the loop, or when a processor is free.
    fn run(&mut self, at: usize, job: &Job<Ink>, inline: &mut Vec<Input<Ink>>) {
        let operators = &self.setting.operators[job.kind as usize];
        let seed = self.setting.workload_seed;
        let slices = match job.work {
            Work::Slices { of, .. } => Some(of),
            _ => None,
        };
        let parts = if let Work::Slice { slice, .. } = &job.work { slice.of() } else { 1 };
        let (call, is_fold, ms, result) = match &job.work {
            Work::Local { partition, params, .. }
            | Work::Slices { partition, params, .. }
            | Work::Slice { partition, params, .. } => {
                // A local that hangs on the loop would stop the whole node. That is another fault, a stall.
                if job.place != Where::Inline && self.places[at].hanging.contains(*partition) {
                    self.places[at].hung += 1;
                    return;
                }
                let purpose = mixed(params.call).wrapping_add(u64::from(*partition));
                let ms = operators.local.draw_for_ms(seed, purpose) * params.scale;
                let ms = ms + self.places[at].locals_take_more.as_millis_f64();
                let ink = Ink::of(*partition, params, operators.partial_bytes / parts);
                let result = match &mut self.feed {
                    Some(feed) if operators.name == feeds::SNAPSHOT => {
                        feed.give_snapshot(self.places[at].id, *partition, params.call, ink)
                    }
                    _ => Ok(ink),
                };
                let place = &self.places[at];
                let result = match place.failing.locals.get(partition) {
                    Some(error) => Err(error.clone()),
                    None if place.spec.placing.is_some() && !place.loaded.contains(*partition) => {
                        Err(JobError::Failed("this node does not have the partition".into()))
                    }
                    None => result,
                };
                (params.call, false, ms, result)
            }
            Work::Join { parts, params } => {
                let ms = operators.join.draw_for_ms(seed, mixed(params.call)) * params.scale;
                (params.call, true, ms, Ok(Ink::joined(parts)))
            }
            Work::Reduce { parts, params } => {
                let [first, others @ ..] = &parts[..] else { return };
                let folded = others.iter().fold(first.clone(), Ink::folded);
                let purpose = mixed(params.call ^ 0x666f_6c64).wrapping_add(folded.marks as u64);
                let ms = operators.reduce.draw_for_ms(seed, purpose) * params.scale * others.len() as f64;
                let failing = &self.places[at].failing;
                let (drawn, one_in) = (mixed(purpose), failing.one_reduce_in);
                let fails = one_in > 0 && drawn.is_multiple_of(one_in);
                let error = fails.then(|| failing.fold_error(drawn / one_in));
                let folded = self.sabotaged_fold(folded, first);
                (params.call, true, ms, error.map_or(Ok(folded), Err))
            }
        };
        let (work, result) = match self.places[at].fails_after.filter(|_| !is_fold) {
            Some(after) => (after, Err(JobError::Failed("this node is made to fail fast".into()))),
            None => (Duration::from_millis_f64(ms), result),
        };
        let output = match slices {
            Some(of) => Output::Slices(result, of),
            None => Output::Whole(result),
        };
        let task = Task { id: TaskId::Job(job.id), call, is_fold, work, output };
        if job.place == Where::Inline {
            inline.push(task.done(work));
        } else {
            self.places[at].processors.submit(task);
            self.begin_tasks(at);
        }
    }

    fn sabotaged_fold(&mut self, folded: Ink, again: &Ink) -> Ink {
        self.folds += 1;
        let is_wrong =
            self.setting.sabotage == Some(Sabotage::CountTwice) && self.folds.is_multiple_of(SABOTAGED_FOLD);
        if is_wrong { folded.folded(again) } else { folded }
    }

    /// Starts waiting tasks on idle processors.
    pub(super) fn begin_tasks(&mut self, at: usize) {
        let lives = self.places[at].lives;
        while let Some((task, took)) = self.places[at].processors.begin() {
            let ends_at: Instant = self.now + took;
            self.agenda.plan(ends_at, Happening::Done { at, lives, task, took });
        }
    }
}

/// Returns the key of a connection. Its order does not depend on the direction.
pub(super) fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}
