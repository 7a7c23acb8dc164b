//! The driver: one thread that runs one node of core on real sockets, clocks and processors.
//!
//! ```text
//!            readers ── Message ──┐                       ┌── Send ───────► outboxes ─► flush task ─► sockets
//!   UDP socket ────── Datagram ───┤                       ├── Datagram ───► UDP socket
//!   asks (API) ─────── Command ───┼──► core::Node ────────┼── Run ────────► here / workers / futures
//!   dials, welcomes ── Connected ─┤    (feed, then        ├── Connect ────► dials
//!   workers, futures ── JobDone ──┤     drain)            ├── Deliver ────► the user that asked
//!   timer ───────────── timeout ──┘                       └── Trace ──────► log
//! ```
//!
//! Except for its workers, the whole node runs on this thread, as tasks of one single-threaded runtime.
//! Between a socket and core there are no locks and no channels, only an `Rc` and `RefCell`s that are never
//! held across an await.
//!
//! Batching relies on the runtime's queue being first in, first out. The readers of all sockets that one
//! `epoll_wait` found readable are queued. The first reader that makes core send something wakes the flush
//! task, which therefore runs *after* all these readers. One turn thus costs one wait, one read per ready
//! socket (a short read means that the socket is empty), and one vectored write per peer, regardless of the
//! number of waves that the messages belong to.
//!
//! Invariants:
//!
//! - Inputs are handled one at a time, in the order that a recording shows. Each is drained before the next.
//! - Core receives `Connected` before a peer's first message, and `Lost` once, after the peer's last link.
//! - A panic on this thread ends the node (`Bomb`). The node never continues in a broken state.

mod admission;
pub(crate) mod asks;
mod complaints;
mod connections;
mod datagrams;
mod eviction;
mod holding;
mod jobs;
mod joining;
mod keys;
pub(crate) mod launching;
mod leaving;
mod lessons;
mod link;
mod meter;
pub(crate) mod operators;
mod placing;
mod process;
mod reduces;
mod rights;
mod streams;
pub(crate) mod thread;
mod timer;
mod traffic;

use crate::job::Done;
use crate::record::Recorder;
use crate::service::Registry;
use crate::transport::Identity;
use crate::wire::RunFrames;
use crate::workers::{Slowness, Workers};
use asks::Answers;
use bytes::Bytes;
use complaints::Complaints;
use eviction::Held;
use jobs::Driven;
use keys::Keyring;
use launching::LaunchNews;
use link::{Link, Peers};
use meter::Meter;
use operators::Operators;
use process::with_facts;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use streams::Streams;
use thread::Control;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc, watch};
use treefold_core::effect::{Effect, Event, TracePoint};
use treefold_core::id::{JobId, NodeId};
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::time::Instant;

/// The members that a loop's node sees, without itself. Others can watch the set.
pub(crate) type Members = BTreeSet<NodeId>;

/// The whole state of one node on its thread. Tasks share it by `Rc`.
pub(crate) struct Loop {
    identity: Identity,
    started: std::time::Instant,
    control: Arc<Control>,
    machine: RefCell<Machine>,
    backlog: RefCell<VecDeque<Input<Bytes>>>,
    feeding: Cell<bool>,
    /// Time at which the timer task wakes. Timeouts of core after that need no action.
    armed: Cell<Instant>,
    timer_moved: Notify,
    peers: RefCell<Peers>,
    held: Held,
    dirty: RefCell<Vec<Rc<Link>>>,
    run_frames: RefCell<RunFrames>,
    flush_wanted: Notify,
    links_gone: Notify,
    datagrams: UdpSocket,
    keyring: RefCell<Keyring>,
    registry: Arc<Registry>,
    workers: Workers,
    futures: RefCell<HashMap<JobId, Driven>>,
    /// Jobs of workers whose results nobody wants.
    cancelled: RefCell<HashSet<JobId>>,
    slowness: Arc<Slowness>,
    /// Longest cost of an operator that may run on the loop.
    inline_cost_max: std::time::Duration,
    /// One meter per aggregation, by its position in the registry.
    meters: Vec<Meter>,
    answers: RefCell<Answers>,
    streams: RefCell<Streams>,
    /// The channel of the launcher, if this node has one.
    launcher: RefCell<Option<mpsc::UnboundedSender<LaunchNews>>>,
    operators: RefCell<Operators>,
    members: watch::Sender<Members>,
    complaints: Complaints,
}

/// Core, and the recorder of its inputs and effects.
struct Machine {
    node: Node<Bytes>,
    recorder: Option<Recorder>,
}

impl Loop {
    /// Time since the loop's start. Core uses it as its clock.
    fn now(&self) -> Instant {
        // 64 bits of nanoseconds last for more than 500 years.
        Instant::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Feeds an input to core and performs all of its effects. If an effect causes another input, such as an
    /// inline job that finishes or a peer that is lost, that input is handled next.
    fn feed(self: &Rc<Self>, input: Input<Bytes>) {
        if self.feeding.get() {
            // An effect is being performed. Its caller handles the backlog.
            return self.backlog.borrow_mut().push_back(input);
        }
        let _bomb = Bomb(&self.control);
        self.feeding.set(true);
        self.handle(input);
        self.finish_turn();
    }

    /// Feeds core its timeout if it is due.
    fn feed_timeout(self: &Rc<Self>) {
        let _bomb = Bomb(&self.control);
        self.feeding.set(true);
        {
            let mut machine = self.machine.borrow_mut();
            let now = self.now();
            if machine.node.poll_timeout().is_some_and(|at| at <= now) {
                if let Some(recorder) = &mut machine.recorder {
                    recorder.timeout(now);
                }
                machine.node.handle_timeout(now);
            }
        }
        self.finish_turn();
    }

    /// Performs core's effects, and feeds the inputs that they cause.
    fn finish_turn(self: &Rc<Self>) {
        self.drain();
        loop {
            let Some(input) = self.backlog.borrow_mut().pop_front() else { break };
            self.handle(input);
            self.drain();
        }
        self.feeding.set(false);
        self.rearm();
    }

    fn handle(&self, input: Input<Bytes>) {
        let mut machine = self.machine.borrow_mut();
        let now = self.now();
        if let Some(recorder) = &mut machine.recorder {
            recorder.input(now, &input);
        }
        machine.node.handle_input(now, input);
    }

    fn drain(self: &Rc<Self>) {
        while let Some(effect) = self.next_effect() {
            self.perform(effect);
        }
    }

    fn next_effect(&self) -> Option<Effect<Bytes>> {
        let mut machine = self.machine.borrow_mut();
        let effect = machine.node.poll_effect()?;
        if let Some(recorder) = &mut machine.recorder {
            recorder.effect(&effect);
        }
        Some(effect)
    }

    fn perform(self: &Rc<Self>, effect: Effect<Bytes>) {
        match effect {
            Effect::Send { to, message: Message::Status { id, status } } => {
                self.send(to, Message::Status { id, status: Box::new(with_facts(*status)) });
            }
            Effect::Send { to, message } => self.send(to, message),
            // If a node is behind an address of another network, it may not reach itself by that address.
            Effect::Datagram { to, bytes } if to == self.identity.node.addr => {
                self.feed(Input::Datagram { from: to, bytes });
            }
            Effect::Datagram { to, bytes } => self.send_datagram(to, &bytes),
            Effect::Connect { addr } => _ = self.dial_seed(addr),
            Effect::Disconnect { peer } => self.disconnect(peer),
            Effect::Run(job) => self.run_job(job),
            Effect::Abandon { job, replace_worker } => self.abandon_job(job, replace_worker),
            Effect::Cancel { job } => self.cancel_job(job),
            Effect::Filter(effect) => self.perform_filter(effect),
            Effect::Deliver(event) => self.deliver(event),
            Effect::Trace(point) => self.trace(&point),
            Effect::Load { service, partition } => self.load_partition(service, partition),
            Effect::Unload { service, partition } => self.registry.remove(&service, partition),
        }
    }

    fn deliver(self: &Rc<Self>, event: Event<Bytes>) {
        let own = self.identity.node;
        match event {
            Event::CallDone { request, outcome } => self.answers.borrow_mut().call(request, *outcome),
            Event::Status { request, status } => {
                self.answers.borrow_mut().status(request, with_facts(*status));
            }
            Event::Placement { request, result } => self.answers.borrow_mut().placement(request, result),
            Event::Shares { request, result } => self.answers.borrow_mut().shares(request, result),
            Event::MemberUp(card) => {
                let member = card.node;
                if self.members.send_if_modified(|members| member != own && members.insert(member)) {
                    self.end_first_key();
                }
                self.learn_of(&card);
            }
            Event::MemberDown(member) => {
                self.members.send_if_modified(|members| members.remove(&member));
                self.forget_lessons_of(member);
            }
            Event::Stream { request, event } => self.deliver_stream(request, *event),
            Event::Endpoint { stream, endpoint, event } => self.deliver_endpoint(stream, endpoint, event),
            Event::Drained => self.answers.borrow_mut().drained(),
        }
    }

    #[cold]
    fn trace(&self, point: &TracePoint) {
        let node = self.identity.node;
        match point {
            TracePoint::BadMessage { from, problem } => self.complaints.about(from, problem),
            TracePoint::BadDatagram { from, problem } => self.complaints.about(from, problem),
            TracePoint::TotalChanged { service, before, now } => {
                tracing::info!(%node, %service, %before, %now, "a service's total has changed");
            }
            TracePoint::TotalRefused { from, service, claim, agreed } => {
                tracing::warn!(
                    %node, %from, %service, %claim, %agreed,
                    "a member's total of a service differs from the cluster's; its partitions are not used"
                );
            }
            TracePoint::UdpBlocked { members } => tracing::warn!(
                %node, members,
                "no member reaches this node by UDP, so membership uses TCP; is UDP open at this node's port?"
            ),
            TracePoint::UdpOpen => tracing::info!(%node, "members reach this node by UDP"),
            TracePoint::Stuck { job } => tracing::warn!(%node, ?job, "a job is stuck: it does not return"),
            point => tracing::debug!(%node, ?point),
        }
    }

    fn job_done(self: &Rc<Self>, done: JobId, result: JobResult, cost: std::time::Duration) {
        self.feed(Input::JobDone { job: done, result, cost: cost.into() });
    }

    /// A node's message to itself uses no socket.
    fn send_home(self: &Rc<Self>, message: Message<Bytes>) {
        let from = self.identity.node;
        self.feed(Input::Message { from, message });
    }
}

type JobResult = Result<Bytes, treefold_core::error::JobError>;

/// Ends the loop if the guarded code panics. Core's state cannot be trusted after a panic, and a node that
/// handles nothing while other nodes believe it alive is worse than a dead one.
struct Bomb<'a>(&'a Control);

impl Drop for Bomb<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
