//! Workers of an application beside the nodes: programs that attach to a node, push, and send again the
//! pushes that were not processed.
//!
//! They correspond closely to `treefold/src/push/{worker,connection}.rs`. A worker tries its addresses in
//! turn, pauses if no node accepts it, and starts again whenever its connection is lost. The same [`Book`]
//! that real workers keep decides which messages it sends. A worker has one connection at a time, and each
//! has its own id. A break loses the messages in flight. A world without workers does nothing of this.

use super::ink::Ink;
use super::network::message_bytes;
use super::place::{Life, place_of};
use super::{Happening, Watch, World};
use core::net::SocketAddr;
use std::collections::VecDeque;
use std::sync::Arc;
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::push::book::Book;
use treefold_core::push::message::PushMessage;
use treefold_core::time::Duration;

/// The first pause after no node has accepted a worker.
const PAUSE_LEAST: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Longest time until a node answers an attaching worker.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two removals of expired entries in a worker's book.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);
/// Ids of workers have this or a higher number, so they differ from all places.
pub const WORKERS_FROM: usize = 1 << 31;

/// A worker's application and number, and the nodes that it attaches to.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// Its application.
    pub application: Arc<str>,
    /// The worker's number in the application.
    pub number: u32,
    /// The places that it tries in turn.
    pub way: Vec<usize>,
    /// Most bytes that it keeps of its pushes.
    pub kept_bytes_max: usize,
    /// Whether it ignores the window and pushes everything at once.
    pub floods: bool,
}

/// A worker's program.
#[derive(Debug)]
pub struct Worker {
    spec: WorkerSpec,
    book: Book<Ink>,
    /// Pushes of its program that wait for room in the book: request, piece, and whether it is the last.
    asks: VecDeque<(u64, Ink, bool)>,
    link: Link,
    /// Index of the address that it tries.
    tried: usize,
    pause: Duration,
    /// Number of connections that it has made.
    connections: u32,
    is_ticking: bool,
    refusal: Option<Arc<str>>,
    pushes: Vec<(u64, u32)>,
}

/// The state of a worker's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// It has no connection and tries its addresses in turn.
    Away,
    /// Its node has not yet answered the attach message.
    Attaching(NodeId),
    /// Its node has accepted it.
    Attached(NodeId),
    /// It is over: a node has evicted it, or its program has ended.
    Over,
}

/// An event for a worker.
#[derive(Debug)]
pub(super) enum News {
    /// It should try an address.
    Try,
    /// A message came over this connection.
    Word(u32, PushMessage<Ink>),
    /// This connection is lost.
    Lost(u32),
    /// Nothing has come over this connection within the time-out.
    Silent(u32),
    /// It should remove expired entries of its book.
    Tick,
}

impl Worker {
    /// Returns the worker's spec.
    pub fn spec(&self) -> &WorkerSpec {
        &self.spec
    }

    /// Tells whether it keeps nothing and has nothing to push.
    pub fn is_idle(&self) -> bool {
        self.book.is_empty() && self.asks.is_empty()
    }

    /// Tells whether it is over and does nothing any more.
    pub fn is_over(&self) -> bool {
        self.link == Link::Over
    }

    /// Returns the place of the node that has accepted it.
    pub fn attached_at(&self) -> Option<usize> {
        match self.link {
            Link::Attached(node) => Some(place_of(node).0),
            _ => None,
        }
    }

    /// Returns the reason of the last refusal or eviction.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns the requests and sequence numbers of the pushes that it has sent, in order.
    pub fn pushes(&self) -> &[(u64, u32)] {
        &self.pushes
    }

    fn node(&self) -> Option<NodeId> {
        match self.link {
            Link::Attaching(node) | Link::Attached(node) => Some(node),
            Link::Away | Link::Over => None,
        }
    }
}

/// Returns the id of a worker's connection.
fn name_of(worker: usize, connection: u32) -> NodeId {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    NodeId::new(nowhere, u64::from(connection) << 32 | (WORKERS_FROM + worker) as u64)
}

/// Returns the worker and the connection of an id, if it is a worker's.
pub fn worker_of(node: NodeId) -> Option<(usize, u32)> {
    let (number, connection) = place_of(node);
    number.checked_sub(WORKERS_FROM).map(|worker| (worker, connection))
}

impl World {
    /// Starts a worker's program and returns its index.
    pub fn start_worker(&mut self, spec: WorkerSpec) -> usize {
        let worker = self.workers.len();
        self.workers.push(Worker {
            book: Book::new(spec.kept_bytes_max),
            spec,
            asks: VecDeque::new(),
            link: Link::Away,
            tried: 0,
            pause: PAUSE_LEAST,
            connections: 0,
            is_ticking: false,
            refusal: None,
            pushes: Vec::new(),
        });
        self.agenda.plan(self.now, Happening::Worker { worker, news: News::Try });
        worker
    }

    /// Returns every worker that was ever started.
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Pushes a piece from a worker's program. The piece waits while the book is full.
    pub fn push(&mut self, worker: usize, request: u64, piece: Ink, last: bool) {
        if !self.workers[worker].is_over() {
            self.workers[worker].asks.push_back((request, piece, last));
            self.push_on(worker);
        }
    }

    /// Records that a worker's result of a request will not come.
    pub fn fail_push(&mut self, worker: usize, request: u64) {
        if !self.workers[worker].is_over() {
            self.workers[worker].asks.retain(|(other, ..)| *other != request);
            self.workers[worker].book.fail(request, "no disk".into());
            self.push_on(worker);
        }
    }

    /// Breaks a worker's connection. Returns false if it has none.
    pub fn cut_worker(&mut self, worker: usize) -> bool {
        let is_connected = self.workers[worker].node().is_some();
        let connection = self.workers[worker].connections;
        self.break_worker(worker, true);
        if is_connected {
            let at = self.now + self.network.links().stream_delay;
            self.agenda.plan(at, Happening::Worker { worker, news: News::Lost(connection) });
        }
        is_connected
    }

    /// Makes a worker leave its node, if it has one, and try these addresses from now on. Without addresses
    /// it stays away.
    pub fn lead_worker(&mut self, worker: usize, way: Vec<usize>) {
        self.break_worker(worker, true);
        let state = &mut self.workers[worker];
        (state.spec.way, state.tried, state.pause) = (way, 0, PAUSE_LEAST);
        self.agenda.plan(self.now, Happening::Worker { worker, news: News::Try });
    }

    /// Sends any message over a worker's connection, even one that no correct library sends. Returns false if
    /// the worker has no connection.
    pub fn say_as_worker(&mut self, worker: usize, word: PushMessage<Ink>) -> bool {
        let node = self.workers[worker].node();
        if let Some(node) = node {
            self.worker_says(worker, node, word);
        }
        node.is_some()
    }

    /// Ends a worker's program. Returns false if it has ended before.
    pub fn end_worker(&mut self, worker: usize) -> bool {
        if self.workers[worker].is_over() {
            return false;
        }
        self.break_worker(worker, true);
        let state = &mut self.workers[worker];
        state.link = Link::Over;
        state.asks.clear();
        true
    }

    /// Breaks the connections of workers at `at`, because the process there is gone.
    pub(super) fn lose_workers_at(&mut self, at: usize) {
        let is_there =
            |worker: &usize| self.workers[*worker].node().is_some_and(|node| place_of(node).0 == at);
        let there: Vec<usize> = (0..self.workers.len()).filter(is_there).collect();
        for worker in there {
            self.cut_worker(worker);
        }
    }

    /// Sends a message from the node at `from_at` to a worker.
    pub(super) fn tell_worker(&mut self, from_at: usize, to: NodeId, message: Message<Ink>) {
        let (Some((worker, connection)), Message::Push(word)) = (worker_of(to), message) else { return };
        let at = self.network.message_arrives(self.now, from_at, WORKERS_FROM + worker, 64);
        self.agenda.plan(at, Happening::Worker { worker, news: News::Word(connection, *word) });
    }

    /// Closes a worker's connection at the node at `from_at`.
    pub(super) fn let_worker_go(&mut self, from_at: usize, peer: NodeId) {
        let Some((worker, connection)) = worker_of(peer) else { return };
        let at = self.network.message_arrives(self.now, from_at, WORKERS_FROM + worker, 0);
        self.agenda.plan(at, Happening::Worker { worker, news: News::Lost(connection) });
    }

    /// Delivers a worker's message to a node, unless the connection is gone.
    pub(super) fn hear_worker(
        &mut self,
        from: NodeId,
        to: NodeId,
        message: Message<Ink>,
        watch: &mut dyn Watch,
    ) {
        self.note(9, from.generation ^ to.generation.rotate_left(24));
        let is_open = worker_of(from).is_some_and(|(worker, connection)| {
            let state = &self.workers[worker];
            state.connections == connection && state.node() == Some(to)
        });
        let (at, lives) = place_of(to);
        if is_open && self.places[at].lives == lives {
            self.feed(at, Input::Message { from, message }, watch);
        }
    }

    pub(super) fn inform_worker(&mut self, worker: usize, news: News) {
        self.note(8, worker as u64);
        let now = self.now;
        let (link, current) = (self.workers[worker].link, self.workers[worker].connections);
        let is_connected = self.workers[worker].node().is_some();
        match news {
            News::Try if link == Link::Away => self.try_address(worker),
            News::Tick => {
                let state = &mut self.workers[worker];
                state.is_ticking = false;
                state.book.expire(now);
                self.push_on(worker);
            }
            News::Word(connection, word) if connection == current && is_connected => {
                self.take_word(worker, &word);
            }
            News::Lost(connection) if connection == current && link != Link::Over => {
                self.break_worker(worker, false);
                match link {
                    Link::Attaching(_) => self.try_next(worker),
                    _ => self.try_first(worker),
                }
            }
            News::Silent(connection) if connection == current && matches!(link, Link::Attaching(_)) => {
                self.break_worker(worker, true);
                self.try_next(worker);
            }
            _ => {}
        }
    }

    fn take_word(&mut self, worker: usize, word: &PushMessage<Ink>) {
        let now = self.now;
        let state = &mut self.workers[worker];
        match (state.link, word) {
            (Link::Attaching(node), PushMessage::Attached { result: Ok(window) }) => {
                state.link = Link::Attached(node);
                state.book.attached(now, if state.spec.floods { u64::MAX } else { *window });
            }
            (Link::Attaching(_), PushMessage::Attached { result: Err(problem) }) => {
                state.refusal = Some(problem.clone());
                self.break_worker(worker, true);
                return self.try_next(worker);
            }
            (_, PushMessage::Attached { result: Err(problem) }) => {
                state.refusal = Some(problem.clone());
                self.end_worker(worker);
                return;
            }
            (Link::Attached(_), word) => state.book.hear(word),
            _ => {}
        }
        self.push_on(worker);
    }

    /// Makes a worker try its first address.
    fn try_first(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        (state.tried, state.pause) = (0, PAUSE_LEAST);
        self.try_address(worker);
    }

    /// Makes a worker try its next address, after a pause if all have been tried.
    fn try_next(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        state.link = Link::Away;
        state.tried += 1;
        if state.tried < state.spec.way.len() {
            return self.try_address(worker);
        }
        let at = self.now + state.pause;
        state.pause = (state.pause + state.pause).min(PAUSE_MAX);
        state.tried = 0;
        self.agenda.plan(at, Happening::Worker { worker, news: News::Try });
    }

    fn try_address(&mut self, worker: usize) {
        let (now, delay) = (self.now, self.network.links().stream_delay);
        let state = &mut self.workers[worker];
        let Some(&at) = state.spec.way.get(state.tried) else { return };
        state.connections += 1;
        let (connection, node) = (state.connections, self.places[at].id);
        state.link = Link::Attaching(node);
        if self.places[at].life == Life::Gone {
            let news = News::Lost(connection);
            return self.agenda.plan(now + delay + delay, Happening::Worker { worker, news });
        }
        let (application, number) = (state.spec.application.clone(), state.spec.number);
        let me = name_of(worker, connection);
        let here = self.network.message_arrives(now, WORKERS_FROM + worker, at, 0);
        let connected = Input::Connected { peer: me };
        self.agenda.plan(here, Happening::Input { to: node, input: connected });
        let attach = PushMessage::Attach { application, worker: number };
        self.worker_says(worker, node, attach);
        let news = News::Silent(connection);
        self.agenda.plan(now + ATTACH_TIMEOUT, Happening::Worker { worker, news });
    }

    /// Ends a worker's connection. If `is_told` is true, its node learns of it.
    fn break_worker(&mut self, worker: usize, is_told: bool) {
        let state = &mut self.workers[worker];
        let Some(node) = state.node() else { return };
        state.link = Link::Away;
        if is_told {
            let peer = name_of(worker, state.connections);
            let at = self.network.message_arrives(self.now, WORKERS_FROM + worker, place_of(node).0, 0);
            self.agenda.plan(at, Happening::Input { to: node, input: Input::Lost { peer } });
        }
    }

    /// Enters waiting pushes into a worker's book while it has room, and sends the messages that the book
    /// allows.
    fn push_on(&mut self, worker: usize) {
        loop {
            let state = &mut self.workers[worker];
            while !state.asks.is_empty() && state.book.has_room() {
                if let Some((request, piece, last)) = state.asks.pop_front() {
                    // If the request is over, the push returns an error to the program, which goes on.
                    let _ = state.book.push(request, piece, last);
                }
            }
            let Link::Attached(node) = state.link else { break };
            let Some(word) = state.book.poll_word() else { break };
            if let PushMessage::Push { request, sequence, .. } = &word {
                state.pushes.push((*request, *sequence));
            }
            self.worker_says(worker, node, word);
        }
        let state = &mut self.workers[worker];
        if !state.is_idle() && !state.is_ticking && state.link != Link::Over {
            state.is_ticking = true;
            self.agenda.plan(self.now + EXPIRE_EVERY, Happening::Worker { worker, news: News::Tick });
        }
    }

    fn worker_says(&mut self, worker: usize, to: NodeId, word: PushMessage<Ink>) {
        let from = name_of(worker, self.workers[worker].connections);
        let message = Message::Push(Box::new(word));
        let bytes = message_bytes(&message);
        let at = self.network.message_arrives(self.now, WORKERS_FROM + worker, place_of(to).0, bytes);
        self.agenda.plan(at, Happening::Pushed { from, to, message });
    }
}
