//! The driver: one thread that runs one node of core on real sockets, clocks and processors.
//!
//! ```text
//!            readers ── Message ──┐                       ┌── Send ───────► outboxes ─► flush task ─► sockets
//!   UDP socket ────── Datagram ───┤                       ├── Datagram ───► UDP socket
//!   asks (API) ─────── Command ───┼──► core::Node ────────┼── Run ────────► here / workers / futures
//!   dials, welcomes ── Connected ─┤    (feed, then        ├── Connect ────► dials
//!   workers, futures ── JobDone ──┤     drain)            ├── Deliver ────► whoever asked
//!   timer ───────────── timeout ──┘                       └── Trace ──────► log
//! ```
//!
//! Everything of a node but its workers lives on this thread, as tasks of one single-threaded runtime: no locks
//! and no channels between a socket and core, just an `Rc` and `RefCell`s never held across an await. The
//! runtime's queue is first in, first out, and batching rests on that: the sockets that one `epoll_wait` found
//! readable have their readers queued; the first that makes core send something wakes the flush task, which thus
//! runs *after* all of them. Per turn that is one wait, one read per ready socket (a short read says it was
//! all), and one vectored write per peer, however many waves the messages belong to.
//!
//! Invariants: inputs are handled one at a time, each drained before the next, in the order a recording shows;
//! core hears `Connected` before a peer's first message and `Lost` once after its last link; a panic in here is a
//! crash of the node (`Bomb`), never a node that lives on half-dead.

pub(crate) mod asks;
mod complaints;
mod connections;
mod datagrams;
mod jobs;
mod joining;
pub(crate) mod launching;
mod leaving;
mod link;
mod meter;
pub(crate) mod operators;
mod streams;
pub(crate) mod thread;
mod timer;
mod traffic;

use crate::job::Done;
use crate::record::Recorder;
use crate::service::Registry;
use crate::transport::Identity;
use crate::workers::{Slowness, Workers};
use asks::Answers;
use bytes::Bytes;
use complaints::Complaints;
use launching::LaunchNews;
use link::{Link, Peers};
use meter::Meter;
use operators::Operators;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use streams::Streams;
use thread::Control;
use tokio::net::UdpSocket;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use treefold_core::effect::{Effect, Event, TracePoint};
use treefold_core::id::{JobId, NodeId};
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::time::Instant;

/// The members a loop's node has in sight, itself not included, as others may watch them.
pub(crate) type Members = BTreeSet<NodeId>;

/// All there is of one node on its thread. Tasks share it by `Rc`.
pub(crate) struct Loop {
    identity: Identity,
    started: std::time::Instant,
    control: Arc<Control>,
    machine: RefCell<Machine>,
    backlog: RefCell<VecDeque<Input<Bytes>>>,
    feeding: Cell<bool>,
    /// When the timer task will wake; core's wishes for later than that need no action.
    armed: Cell<Instant>,
    timer_moved: Notify,
    peers: RefCell<Peers>,
    dirty: RefCell<Vec<Rc<Link>>>,
    flush_wanted: Notify,
    links_gone: Notify,
    datagrams: UdpSocket,
    registry: Arc<Registry>,
    workers: Workers,
    futures: RefCell<HashMap<JobId, AbortHandle>>,
    slowness: Arc<Slowness>,
    /// What may run here while it costs no more.
    inline_cost_max: std::time::Duration,
    /// Those of the aggregations, by their place in the registry.
    meters: Vec<Meter>,
    answers: RefCell<Answers>,
    streams: RefCell<Streams>,
    /// Where a launcher listens, when this node has one.
    launcher: RefCell<Option<mpsc::UnboundedSender<LaunchNews>>>,
    operators: RefCell<Operators>,
    members: watch::Sender<Members>,
    complaints: Complaints,
}

/// Core, and who writes down what it is told.
struct Machine {
    node: Node<Bytes>,
    recorder: Option<Recorder>,
}

impl Loop {
    /// Time since the loop's start, which is core's clock.
    fn now(&self) -> Instant {
        // Half a millennium fits.
        Instant::from_nanos(self.started.elapsed().as_nanos() as u64)
    }

    /// Tells core what happened and does what it wants done, until it wants nothing more. What happens meanwhile
    /// by our own doing (an inline job is done, a peer proves lost) is told next.
    fn feed(self: &Rc<Self>, input: Input<Bytes>) {
        if self.feeding.get() {
            // An effect is being carried out; whoever does that carries on with the backlog.
            return self.backlog.borrow_mut().push_back(input);
        }
        let _bomb = Bomb(&self.control);
        self.feeding.set(true);
        self.handle(input);
        self.settle();
    }

    /// Tells core that its timeout has come, when it has.
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
        self.settle();
    }

    /// Does what core wants done, and tells it what happened meanwhile.
    fn settle(self: &Rc<Self>) {
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
            Effect::Send { to, message } => self.send(to, message),
            // A node behind an address of another network may not reach itself by it.
            Effect::Datagram { to, bytes } if to == self.identity.node.addr => {
                self.feed(Input::Datagram { from: to, bytes });
            }
            Effect::Datagram { to, bytes } => self.send_datagram(to, &bytes),
            Effect::Connect { addr } => self.dial_seed(addr),
            Effect::Disconnect { peer } => self.disconnect(peer),
            Effect::Run(job) => self.run_job(job),
            Effect::Abandon { job, replace_worker } => self.abandon_job(job, replace_worker),
            Effect::Filter(effect) => self.perform_filter(effect),
            Effect::Deliver(event) => self.deliver(event),
            Effect::Trace(point) => self.trace(&point),
        }
    }

    fn deliver(self: &Rc<Self>, event: Event<Bytes>) {
        let own = self.identity.node;
        match event {
            Event::CallDone { request, outcome } => self.answers.borrow_mut().call(request, *outcome),
            Event::Status { request, status } => self.answers.borrow_mut().status(request, *status),
            Event::Shares { request, result } => self.answers.borrow_mut().shares(request, result),
            Event::MemberUp(card) => {
                let member = card.node;
                self.members.send_if_modified(|members| member != own && members.insert(member));
            }
            Event::MemberDown(member) => {
                self.members.send_if_modified(|members| members.remove(&member));
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
                    "a member's total of a service differs from the cluster's: its partitions of it are not used"
                );
            }
            TracePoint::Stuck { job } => tracing::warn!(%node, ?job, "a job outlived all patience"),
            point => tracing::debug!(%node, ?point),
        }
    }

    fn job_done(self: &Rc<Self>, done: JobId, result: JobResult, cost: std::time::Duration) {
        self.feed(Input::JobDone { job: done, result, cost: cost.into() });
    }

    /// A message to oneself takes no socket.
    fn send_home(self: &Rc<Self>, message: Message<Bytes>) {
        let from = self.identity.node;
        self.feed(Input::Message { from, message });
    }
}

type JobResult = Result<Bytes, treefold_core::error::JobError>;

/// Ends the loop when what it guards panics: core's state can't be trusted after that, and a node that others
/// believe alive while it handles nothing is worse than a dead one.
struct Bomb<'a>(&'a Control);

impl Drop for Bomb<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}
