//! Workers of an application that is not Treefold's: programs beside the nodes that attach to one, push, and send again
//! what was not processed.
//!
//! The near mirror of `treefold/src/push/{worker,connection}.rs`: a worker tries its addresses in turn, pauses when none
//! takes it in, and begins anew whenever its connection is lost. What it sends is decided by the very
//! [`Book`] that real workers keep. Its connections are its own, one after the other, each under another name; a break
//! loses what is on its way. Nothing of it happens in a world without workers.

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

/// The first pause after no address has taken a worker in.
const PAUSE_LEAST: Duration = Duration::from_millis(50);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a node may take to say whether it takes a worker in.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked for what nobody asks for any more.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);
/// Names of workers count from here, beyond all places.
pub const WORKERS_FROM: usize = 1 << 31;

/// Who a worker is, and where it attaches.
#[derive(Clone, Debug)]
pub struct WorkerSpec {
    /// Its application.
    pub application: Arc<str>,
    /// Its number in it.
    pub number: u32,
    /// The places that it tries, in turn.
    pub way: Vec<usize>,
    /// Bytes that it keeps of what it has pushed.
    pub kept_bytes_max: usize,
    /// True if it pushes all that it has, whatever the window.
    pub floods: bool,
}

/// A worker's program.
#[derive(Debug)]
pub struct Worker {
    spec: WorkerSpec,
    book: Book<Ink>,
    /// What its program has to push, and waits for room in the book: request, piece, whether it is the last.
    asks: VecDeque<(u64, Ink, bool)>,
    link: Link,
    /// Which of its addresses it tries.
    tried: usize,
    pause: Duration,
    /// How many connections it has made.
    connections: u32,
    is_ticking: bool,
    refusal: Option<Arc<str>>,
    pushes: Vec<(u64, u32)>,
}

/// How a worker is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// It has no connection, and tries its addresses in turn.
    Away,
    /// Its node has not said yet whether it takes it in.
    Attaching(NodeId),
    /// Its node has.
    Attached(NodeId),
    /// Not any more: it was thrown out, or its program has ended.
    Over,
}

/// What a worker learns.
#[derive(Debug)]
pub(super) enum News {
    /// It is time to try an address.
    Try,
    /// Over this connection came a word.
    Word(u32, PushMessage<Ink>),
    /// This connection is lost.
    Lost(u32),
    /// Nothing has come over this connection for a while.
    Silent(u32),
    /// It is time to look for what nobody asks for.
    Tick,
}

impl Worker {
    /// Who it is.
    pub fn spec(&self) -> &WorkerSpec {
        &self.spec
    }

    /// True when it keeps nothing, and nothing waits to be pushed.
    pub fn is_idle(&self) -> bool {
        self.book.is_empty() && self.asks.is_empty()
    }

    /// True when it is over, and does nothing any more.
    pub fn is_over(&self) -> bool {
        self.link == Link::Over
    }

    /// The place whose node has taken it in.
    pub fn attached_at(&self) -> Option<usize> {
        match self.link {
            Link::Attached(node) => Some(place_of(node).0),
            _ => None,
        }
    }

    /// Why a node has refused it last, or thrown it out.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Requests and sequence numbers of the pushes that it has sent, in order.
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

/// The name under which a worker's connection is known.
fn name_of(worker: usize, connection: u32) -> NodeId {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    NodeId::new(nowhere, u64::from(connection) << 32 | (WORKERS_FROM + worker) as u64)
}

/// The worker that a name belongs to, and which connection of it.
pub fn worker_of(node: NodeId) -> Option<(usize, u32)> {
    let (number, connection) = place_of(node);
    number.checked_sub(WORKERS_FROM).map(|worker| (worker, connection))
}

impl World {
    /// A worker's program begins; gives its index.
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

    /// Every worker that was ever started.
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// A worker's program pushes; it waits while the book is full.
    pub fn push(&mut self, worker: usize, request: u64, piece: Ink, last: bool) {
        if !self.workers[worker].is_over() {
            self.workers[worker].asks.push_back((request, piece, last));
            self.push_on(worker);
        }
    }

    /// A worker's program says that its result of a request will not come.
    pub fn fail_push(&mut self, worker: usize, request: u64) {
        if !self.workers[worker].is_over() {
            self.workers[worker].asks.retain(|(other, ..)| *other != request);
            self.workers[worker].book.fail(request, "no disk".into());
            self.push_on(worker);
        }
    }

    /// A worker's connection breaks; false when it has none.
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

    /// A worker leaves its node, if it has one, and tries these addresses from now on. With none it stays away.
    pub fn lead_worker(&mut self, worker: usize, way: Vec<usize>) {
        self.break_worker(worker, true);
        let state = &mut self.workers[worker];
        (state.spec.way, state.tried, state.pause) = (way, 0, PAUSE_LEAST);
        self.agenda.plan(self.now, Happening::Worker { worker, news: News::Try });
    }

    /// A worker's connection says any word, as no sound library would. False if the worker has no connection.
    pub fn say_as_worker(&mut self, worker: usize, word: PushMessage<Ink>) -> bool {
        let node = self.workers[worker].node();
        if let Some(node) = node {
            self.worker_says(worker, node, word);
        }
        node.is_some()
    }

    /// A worker's program dies; false when it is dead.
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

    /// The process at `at` is gone: its workers' connections break.
    pub(super) fn lose_workers_at(&mut self, at: usize) {
        let is_there =
            |worker: &usize| self.workers[*worker].node().is_some_and(|node| place_of(node).0 == at);
        let there: Vec<usize> = (0..self.workers.len()).filter(is_there).collect();
        for worker in there {
            self.cut_worker(worker);
        }
    }

    /// The node at `from_at` says something to a worker.
    pub(super) fn tell_worker(&mut self, from_at: usize, to: NodeId, message: Message<Ink>) {
        let (Some((worker, connection)), Message::Push(word)) = (worker_of(to), message) else { return };
        let at = self.network.message_arrives(self.now, from_at, WORKERS_FROM + worker, 64);
        self.agenda.plan(at, Happening::Worker { worker, news: News::Word(connection, *word) });
    }

    /// The node at `from_at` lets go of a worker's connection.
    pub(super) fn let_worker_go(&mut self, from_at: usize, peer: NodeId) {
        let Some((worker, connection)) = worker_of(peer) else { return };
        let at = self.network.message_arrives(self.now, from_at, WORKERS_FROM + worker, 0);
        self.agenda.plan(at, Happening::Worker { worker, news: News::Lost(connection) });
    }

    /// What a worker has said comes to a node, unless the connection is gone.
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

    /// A worker begins with its first address.
    fn try_first(&mut self, worker: usize) {
        let state = &mut self.workers[worker];
        (state.tried, state.pause) = (0, PAUSE_LEAST);
        self.try_address(worker);
    }

    /// A worker goes on to its next address, after a pause when all have been tried.
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

    /// A worker's connection is over; its node hears of it, if it is to.
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

    /// A worker enters what it can into its book, and sends what it may.
    fn push_on(&mut self, worker: usize) {
        loop {
            let state = &mut self.workers[worker];
            while !state.asks.is_empty() && state.book.has_room() {
                if let Some((request, piece, last)) = state.asks.pop_front() {
                    // Of what is over the program hears, and goes on.
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
