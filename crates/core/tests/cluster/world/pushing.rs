//! Workers of an application in this world: clients that attach to a node, push, and keep what they have pushed until
//! they hear that its request has ended.

use super::{Happening, Sum, World};
use core::net::SocketAddr;
use std::collections::BTreeMap;
use treefold_core::call::CallOptions;
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::push::PushRequest;
use treefold_core::push::message::PushMessage;
use treefold_core::time::Duration;

/// The application of this world.
pub const APPLICATION: &str = "app";

/// A worker, as far as it is like a real one.
#[derive(Debug, Default)]
pub struct Worker {
    /// The node that it is attached to, and its name there.
    pub at: Option<(NodeId, NodeId)>,
    /// Why it was refused, or thrown out.
    pub refused: Option<String>,
    pub window: u64,
    /// What it has to give for each request, and whether that is all.
    results: BTreeMap<u64, (Vec<Sum>, bool)>,
    /// How many of them have been sent over this connection.
    sent: BTreeMap<u64, u32>,
    taken: BTreeMap<u64, u32>,
    /// Requests that were pushed before over another connection: they are sent when asked for.
    held: Vec<u64>,
    /// What was sent, in order: request and sequence.
    pub log: Vec<(u64, u32)>,
    /// True when it sends all it has, whatever the window.
    pub floods: bool,
}

impl Worker {
    /// Requests that it still keeps something of.
    pub fn kept(&self) -> Vec<u64> {
        self.results.keys().copied().collect()
    }

    fn in_flight(&self, request: u64) -> usize {
        let (sent, taken) = (self.sent.get(&request), self.taken.get(&request));
        let (sent, taken) = (*sent.unwrap_or(&0) as usize, *taken.unwrap_or(&0) as usize);
        let pieces = self.results.get(&request).map_or(&[][..], |(pieces, _)| pieces);
        pieces.iter().take(sent).skip(taken).map(|piece| piece.bytes + 256).sum()
    }
}

/// A piece of a worker's result; the first counts as the worker.
pub fn piece(worker: u32, number: u32, bytes: usize) -> Sum {
    let counts = if number == 1 { [(worker, 1)].into() } else { BTreeMap::new() };
    Sum { counts, bytes, tags: [u64::from(worker) * 1_000 + u64::from(number)].into(), ..Sum::default() }
}

/// An announcement of request 7 to workers `0..expected`.
pub fn announced(expected: u32) -> CallOptions {
    let push = Some(PushRequest { request: 7, patience: Duration::from_millis(400) });
    CallOptions {
        deadline: Duration::from_secs(2),
        partitions: Some(PartitionSet::first(expected)),
        push,
        ..CallOptions::default()
    }
}

impl World {
    /// The worker attaches to node `i`.
    pub fn attach(&mut self, worker: u32, i: u32) {
        self.attach_as(worker, i, APPLICATION, worker);
    }

    /// The same, as another number or of another application.
    pub fn attach_as(&mut self, worker: u32, i: u32, application: &str, number: u32) {
        self.requests += 1;
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        let (me, node) = (NodeId::new(unspecified, 1 << 50 | self.requests), self.id(i));
        self.pushers.insert(me, worker);
        let state = self.workers.entry(worker).or_default();
        state.at = Some((node, me));
        state.held = core::mem::take(&mut state.sent).into_keys().collect();
        state.taken.clear();
        let attach = PushMessage::Attach { application: application.into(), worker: number };
        self.say_as(worker, attach);
    }

    /// The worker's connection breaks.
    pub fn cut(&mut self, worker: u32) {
        let state = self.workers.get_mut(&worker).expect("a worker that was attached");
        if let Some((node, me)) = state.at.take() {
            self.pushers.remove(&me);
            self.at(self.now + self.hop, Happening::Input(node, Input::Lost { peer: me }));
        }
    }

    /// The worker has so many pieces for a request, of so many bytes each.
    pub fn give(&mut self, worker: u32, request: u64, pieces: u32, bytes: usize) {
        let all = (1..=pieces).map(|number| piece(worker, number, bytes)).collect();
        self.workers.entry(worker).or_default().results.insert(request, (all, true));
        self.push_on(worker);
    }

    /// The same, and there will be more.
    pub fn give_some(&mut self, worker: u32, request: u64, pieces: u32, bytes: usize) {
        self.give(worker, request, 0, bytes);
        let all = (1..=pieces).map(|number| piece(worker, number, bytes)).collect();
        self.workers.entry(worker).or_default().results.insert(request, (all, false));
        self.push_on(worker);
    }

    /// Says to the node whatever a worker may say.
    pub fn say_as(&mut self, worker: u32, message: PushMessage<Sum>) {
        let Some((node, me)) = self.workers[&worker].at else { return };
        let message = Message::Push(Box::new(message));
        self.at(self.now + self.hop, Happening::Input(node, Input::Message { from: me, message }));
    }

    /// Sends what may be sent.
    fn push_on(&mut self, worker: u32) {
        let state = &self.workers[&worker];
        if state.at.is_none() || state.window == 0 {
            return;
        }
        let open: Vec<u64> = state.results.keys().copied().filter(|id| !state.held.contains(id)).collect();
        for request in open {
            loop {
                let state = self.workers.get_mut(&worker).expect("it was there a moment ago");
                let sent = state.sent.get(&request).copied().unwrap_or(0);
                let (pieces, is_all) = &state.results[&request];
                let Some(payload) = pieces.get(sent as usize).cloned() else { break };
                let in_flight = state.in_flight(request);
                let fits = (in_flight + payload.bytes + 256) as u64 <= state.window;
                if !(fits || state.floods || in_flight == 0) {
                    break;
                }
                let last = *is_all && sent as usize + 1 == pieces.len();
                state.sent.insert(request, sent + 1);
                state.log.push((request, sent + 1));
                self.say_as(worker, PushMessage::Push { request, sequence: sent + 1, last, payload });
            }
        }
    }

    /// What a node says to a worker.
    pub(super) fn tell_pusher(&mut self, me: NodeId, input: Input<Sum>) {
        let worker = self.pushers[&me];
        let Some(state) = self.workers.get_mut(&worker).filter(|state| state.at.is_some_and(|at| at.1 == me))
        else {
            return;
        };
        let Input::Message { message: Message::Push(message), .. } = input else { return };
        match *message {
            PushMessage::Attached { result: Ok(window) } => state.window = window,
            PushMessage::Attached { result: Err(problem) } => {
                state.at = None;
                state.refused = Some(problem.to_string());
            }
            PushMessage::Wanted { request, after, again } => {
                if again || state.held.contains(&request) {
                    state.sent.insert(request, after);
                    state.taken.insert(request, after);
                }
                state.held.retain(|&held| held != request);
            }
            PushMessage::Taken { request, upto } => {
                let taken = state.taken.entry(request).or_default();
                *taken = upto.max(*taken);
            }
            PushMessage::Ended { request } => {
                state.results.remove(&request);
            }
            message => panic!("a node says {message:?} to a worker"),
        }
        self.push_on(worker);
    }

    /// The node is dead: its workers notice.
    pub(super) fn drop_workers_of(&mut self, node: NodeId) {
        for state in self.workers.values_mut().filter(|state| state.at.is_some_and(|at| at.0 == node)) {
            state.at = None;
        }
    }
}
