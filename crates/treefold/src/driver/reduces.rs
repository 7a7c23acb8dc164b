//! Operators that were sent and are missing here: fetches them, for push waves that they fold and for streams of which this
//! node is the front-end. For push waves, it also names them and hands out their jobs.
//!
//! ```text
//!  master ── Request words/wasm:9f86… ──▶ front ── Call words/wasm: 9f86… ──▶ root ── Call ──▶ relay
//!                                           ◀────────── OperatorWant ──────────  ◀── OperatorWant ──
//!                                           ─────────── OperatorLent ─────────▶  ── OperatorLent ──▶
//! ```
//!
//! - **Up only.** A node without the operator asks the parent that calls it, before the first results come. A parent that is
//!   fetching it itself answers when it has it, so one copy crosses each edge. The front has it, or refuses the request.
//! - **Accepted only from a node that was asked**, once. A node passes the operator on before it makes it.
//! - **A front-end asks its peers first.** An operator is often pushed to the node that a client connects to, which may have no
//!   place in the client's stream. If no connected peer has it, core asks the nodes of the stream.
//! - **Jobs wait here.** A fold that comes before its operator waits, and holds its processor; it fails if no asked node has the
//!   operator, and is dropped if its wave ends.

use super::Loop;
use super::operators::{Asker, NO_FOREIGN, Operators};
use crate::foreign::{NAME_PREFIX, Sent, filter_name, named};
use crate::sent_reduce::{self, SentJob};
use crate::service::LEARNED_MAX;
use crate::workers::Task;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::effect::{Job, Work};
use treefold_core::error::JobError;
use treefold_core::id::{JobId, NodeId};
use treefold_core::input::Input;
use treefold_core::message::{Call, Message};
use treefold_core::params::Params;
use treefold_core::stream::operator::OperatorNews;
use treefold_core::stream::{OperatorId, StreamId, StreamSpec};

/// The most operators that are fetched at a time.
const FETCHES_MAX: usize = 64;
/// The most nodes that are asked for one operator at a time: the parents that have called since it is fetched.
const ASKED_MAX: usize = 16;
/// How long a stream waits for peers that it asks for an operator, before it asks the nodes of the stream.
const PEERS_PATIENCE: Duration = Duration::from_secs(1);
/// The most operators of which a node remembers the parent that has called last, to fetch one again that was evicted.
const CALLERS_MAX: usize = 256;

/// Operators that are being fetched.
#[derive(Default)]
pub(super) struct Fetches {
    open: BTreeMap<OperatorId, Fetch>,
    /// The parent that has called last, for each operator.
    callers: BTreeMap<OperatorId, NodeId>,
}

/// An operator that is being fetched.
#[derive(Default)]
struct Fetch {
    /// Nodes that were asked, and have not answered.
    asked: BTreeSet<NodeId>,
    /// Nodes below that have asked for it, in a wave of which this node is the parent.
    askers: BTreeSet<NodeId>,
    /// The operator, once it is here and is being made.
    payload: Option<Bytes>,
    /// Folds that wait for it. Core hands out about as many as there are processors.
    waiting: Vec<Job<Bytes>>,
    /// Streams of which this node is the front-end and whose filters wait for it.
    streams: Vec<(StreamId, Awaited)>,
    /// Aggregations of other services that it folds, as a member has said.
    lessons: Vec<String>,
}

/// A stream's next step when its operator is here, or cannot be fetched.
pub(super) enum Awaited {
    /// Its filters are opened.
    Open(Arc<StreamSpec<Bytes>>),
    /// A node of the stream gets the operator.
    Lend,
}

impl Awaited {
    fn borrows(&self) -> bool {
        matches!(self, Self::Lend)
    }
}

/// The next step of a fold.
enum Next {
    /// It runs.
    Run(Arc<Sent>),
    /// It waits for the operator, and a parent may have to be asked for it.
    Wait { id: OperatorId, ask: Option<NodeId> },
    /// It fails.
    Fail(Arc<str>),
}

impl Operators {
    fn next_of(&mut self, job: &Job<Bytes>) -> Next {
        let id = match &job.work {
            Work::Reduce { params, .. } => sent_reduce::id_of_params(params),
            _ => None,
        };
        let Some(id) = id else {
            return Next::Fail("the parameters do not begin with the 32 bytes of an operator".into());
        };
        if let Some(sent) = self.shelf.find(id) {
            return match sent_reduce::refusal(&sent) {
                Some(refusal) => Next::Fail(refusal.into()),
                None => Next::Run(sent),
            };
        }
        if self.foreign.is_none() {
            return Next::Fail(NO_FOREIGN.into());
        }
        if self.fetches.open.contains_key(&id) {
            return Next::Wait { id, ask: None };
        }
        // It was here, and was evicted, or no parent has it.
        match self.fetches.callers.get(&id).copied() {
            None => Next::Fail(lacking(id)),
            Some(parent) if self.begin_fetch(id, parent) => Next::Wait { id, ask: Some(parent) },
            Some(_) => Next::Fail(
                format!("the node is fetching {FETCHES_MAX} other operators; try again later").into(),
            ),
        }
    }

    /// The bytes of an operator that is here, or has come and is being made.
    pub(super) fn bytes_of(&mut self, id: OperatorId) -> Option<Bytes> {
        let of_shelf = self.shelf.find(id).map(|sent| sent.bytes.clone());
        of_shelf.or_else(|| self.fetches.open.get(&id)?.payload.clone())
    }

    /// True while an operator is being fetched.
    pub(super) fn is_fetched(&self, id: OperatorId) -> bool {
        self.fetches.open.contains_key(&id)
    }

    fn note_caller(&mut self, id: OperatorId, parent: NodeId) {
        let callers = &mut self.fetches.callers;
        if callers.len() >= CALLERS_MAX && !callers.contains_key(&id) {
            callers.pop_first();
        }
        callers.insert(id, parent);
    }

    /// Begins to fetch an operator, or goes on. Returns true if `parent` must be asked.
    fn begin_fetch(&mut self, id: OperatorId, parent: NodeId) -> bool {
        let open = &mut self.fetches.open;
        if open.len() >= FETCHES_MAX && !open.contains_key(&id) {
            return false;
        }
        let fetch = open.entry(id).or_default();
        fetch.payload.is_none() && fetch.asked.len() < ASKED_MAX && fetch.asked.insert(parent)
    }
}

impl Loop {
    /// Fetches an operator for a stream of which this node is the front-end, unless no peer can be asked. Returns true if the
    /// stream waits for it.
    pub(super) fn fetch_for_stream(
        self: &Rc<Self>,
        stream: StreamId,
        id: OperatorId,
        awaited: Awaited,
    ) -> bool {
        if stream.origin != self.identity.node.generation {
            return false;
        }
        let peers: BTreeSet<NodeId> = self.peers.borrow().links().iter().map(|link| link.peer).collect();
        let asked: Vec<NodeId> = {
            let operators = &mut *self.operators.borrow_mut();
            let goes_on = operators.fetches.open.contains_key(&id);
            let may_have = peers.into_iter().filter(|peer| !goes_on && !peer.is_client());
            let asked = may_have.filter(|&peer| operators.begin_fetch(id, peer)).collect();
            let Some(fetch) = operators.fetches.open.get_mut(&id) else { return false };
            let is_same =
                |(of, other): &(StreamId, Awaited)| *of == stream && other.borrows() == awaited.borrows();
            if !fetch.streams.iter().any(is_same) {
                fetch.streams.push((stream, awaited));
            }
            asked
        };
        if !asked.is_empty() {
            let this = Rc::clone(self);
            tokio::task::spawn_local(async move {
                tokio::time::sleep(PEERS_PATIENCE).await;
                this.stop_waiting_for_peers(id);
            });
        }
        asked.into_iter().for_each(|peer| self.send(peer, Message::OperatorWant { id }));
        true
    }

    /// Goes on with the streams that wait for an operator that no peer has sent.
    fn stop_waiting_for_peers(self: &Rc<Self>, id: OperatorId) {
        let streams = match self.operators.borrow_mut().fetches.open.get_mut(&id) {
            Some(fetch) if fetch.payload.is_none() => std::mem::take(&mut fetch.streams),
            _ => return,
        };
        self.serve_streams(id, streams);
    }

    /// Removes and returns the streams in which other nodes wait for an operator, and not this node's filters.
    fn take_borrowers(&self, id: OperatorId) -> Vec<StreamId> {
        let operators = &mut *self.operators.borrow_mut();
        let Some(fetch) = operators.fetches.open.get_mut(&id) else { return Vec::new() };
        fetch.streams.extract_if(.., |(_, awaited)| awaited.borrows()).map(|(stream, _)| stream).collect()
    }

    /// Goes on with the streams that waited for an operator.
    fn serve_streams(self: &Rc<Self>, id: OperatorId, streams: Vec<(StreamId, Awaited)>) {
        for (stream, awaited) in streams {
            let payload = self.operators.borrow_mut().shelf.find(id).map(|sent| sent.bytes.clone());
            match awaited {
                // The stream may be over.
                Awaited::Open(_) if !self.streams.borrow().expects_filters(stream) => {}
                Awaited::Open(spec) if payload.is_some() => self.find_filters(stream, &spec),
                Awaited::Open(_) => self.feed(Input::Operator(OperatorNews::Lacking { stream, id })),
                Awaited::Lend => self.feed(Input::Operator(OperatorNews::Lent { stream, id, payload })),
            }
        }
    }

    /// Replaces the name of a reduce that was sent to this node by that of the aggregation for all of them. Other names stay, and
    /// core refuses those that it does not know.
    pub(super) fn resolve_reduce(&self, name: &mut Arc<str>, params: &mut Params<Bytes>) {
        let Some((application, reduce)) = name.split_once('/') else { return };
        let Some(Ok(id)) = named(reduce) else { return };
        let sent = self.operators.borrow_mut().shelf.find(id);
        if sent.is_some_and(|sent| sent.loaded.reduce.is_some()) {
            let reduce = params.reduce().map(|reduce| sent_reduce::with_id(id, reduce));
            params.common = sent_reduce::with_id(id, &params.common);
            *params = params.clone().with_reduce(reduce);
            *name = format!("{application}/{NAME_PREFIX}").into();
        }
    }

    /// A parent calls. If the wave is folded by an operator that this node lacks, asks the parent for it.
    pub(super) fn expect_operator(self: &Rc<Self>, parent: NodeId, call: &Call<Bytes>) {
        let Some(params) = &call.params else { return };
        if !sent_reduce::is_name(&call.name) {
            return;
        }
        let Some(id) = sent_reduce::id_of_params(params.of_reduce()) else { return };
        let asks = {
            let operators = &mut *self.operators.borrow_mut();
            operators.note_caller(id, parent);
            let lacks = operators.foreign.is_some() && operators.shelf.find(id).is_none();
            lacks && operators.begin_fetch(id, parent)
        };
        if asks {
            self.send(parent, Message::OperatorWant { id });
        }
    }

    /// A child lacks the operator of a wave.
    pub(super) fn lend_to(self: &Rc<Self>, child: NodeId, id: OperatorId) {
        let payload = {
            let operators = &mut *self.operators.borrow_mut();
            match (operators.bytes_of(id), operators.fetches.open.get_mut(&id)) {
                (None, Some(fetch)) => {
                    fetch.askers.insert(child);
                    return;
                }
                (bytes, _) => bytes,
            }
        };
        self.send(child, Message::OperatorLent { id, payload });
    }

    /// Learns to fold an aggregation by a module, which the member has that says so.
    pub(super) fn learn_by_module(self: &Rc<Self>, from: NodeId, name: String, id: OperatorId) {
        let asks = {
            let operators = &mut *self.operators.borrow_mut();
            let is_here = operators.shelf.find(id).is_some();
            if is_here || operators.foreign.is_none() {
                None
            } else {
                let asks = operators.begin_fetch(id, from);
                let fetch = operators.fetches.open.get_mut(&id);
                // Several members may say so. There are at most as many aggregations as a node learns of.
                fetch.filter(|fetch| fetch.lessons.len() < LEARNED_MAX).map(|fetch| {
                    if !fetch.lessons.contains(&name) {
                        fetch.lessons.push(name.clone());
                    }
                    asks
                })
            }
        };
        match asks {
            Some(true) => self.send(from, Message::OperatorWant { id }),
            Some(false) => {}
            None => self.learn_module(name, id),
        }
    }

    fn learn_module(self: &Rc<Self>, name: String, id: OperatorId) {
        let (sent, loads) = {
            let operators = &mut *self.operators.borrow_mut();
            (operators.shelf.find(id), operators.foreign.is_some())
        };
        match sent {
            Some(sent) => self.learned(self.registry.learn_module(name, sent)),
            None if !loads => self.pass_by(&format!("{name}: {NO_FOREIGN}")),
            None => self.pass_by(&format!("{name}: the node fetches {FETCHES_MAX} other operators")),
        }
    }

    /// A node answers that was asked for an operator.
    pub(super) fn take_lent(self: &Rc<Self>, from: NodeId, id: OperatorId, payload: Option<Bytes>) {
        let bytes_max = self.identity.limits.operator_bytes_max;
        let askers = {
            let operators = &mut *self.operators.borrow_mut();
            // The answer of a second node may come when the fetch is over.
            let Some(fetch) = operators.fetches.open.get_mut(&id) else { return };
            if !fetch.asked.remove(&from) {
                drop(payload);
                return self.complaints.about(from, "it sends an operator that it was not asked for");
            }
            match &payload {
                Some(payload) if payload.len() <= bytes_max && fetch.payload.is_none() => {
                    fetch.payload = Some(payload.clone());
                    Some(std::mem::take(&mut fetch.askers))
                }
                _ => None,
            }
        };
        let Some(askers) = askers else { return self.give_up_if_hopeless(id) };
        for child in askers {
            self.send(child, Message::OperatorLent { id, payload: payload.clone() });
        }
        for stream in self.take_borrowers(id) {
            self.feed(Input::Operator(OperatorNews::Lent { stream, id, payload: payload.clone() }));
        }
        self.keep_operator(Asker::Wave(id), payload.unwrap_or_default());
    }

    /// An operator that was fetched is on the shelf, or could not be made.
    pub(super) fn fetched(self: &Rc<Self>, id: OperatorId, result: Result<(), Arc<str>>) {
        if let Err(problem) = result {
            return self.end_fetch(id, &problem);
        }
        let fetch = self.operators.borrow_mut().fetches.open.remove(&id);
        let Some(Fetch { waiting, streams, lessons, .. }) = fetch else { return };
        waiting.into_iter().for_each(|job| self.run_sent(job));
        lessons.into_iter().for_each(|name| self.learn_module(name, id));
        self.serve_streams(id, streams);
    }

    /// A peer is lost: it does not answer, and wants no answer.
    pub(super) fn lender_lost(self: &Rc<Self>, peer: NodeId) {
        let concerned: Vec<OperatorId> = {
            let open = &mut self.operators.borrow_mut().fetches.open;
            let concerned = open.iter_mut().filter_map(|(id, fetch)| {
                fetch.askers.remove(&peer);
                fetch.asked.remove(&peer).then_some(*id)
            });
            concerned.collect()
        };
        concerned.into_iter().for_each(|id| self.give_up_if_hopeless(id));
    }

    fn give_up_if_hopeless(self: &Rc<Self>, id: OperatorId) {
        let fetch_is_hopeless = {
            let operators = self.operators.borrow();
            let fetch = operators.fetches.open.get(&id);
            fetch.is_some_and(|fetch| fetch.asked.is_empty() && fetch.payload.is_none())
        };
        if fetch_is_hopeless {
            self.end_fetch(id, &lacking(id));
        }
    }

    fn end_fetch(self: &Rc<Self>, id: OperatorId, problem: &Arc<str>) {
        let Some(fetch) = self.operators.borrow_mut().fetches.open.remove(&id) else { return };
        for job in fetch.waiting {
            self.job_done(job.id, Err(JobError::Failed(Arc::clone(problem))), Duration::ZERO);
        }
        for child in fetch.askers {
            self.send(child, Message::OperatorLent { id, payload: None });
        }
        fetch.lessons.iter().for_each(|name| self.pass_by(&format!("{name}: {problem}")));
        self.serve_streams(id, fetch.streams);
    }

    /// Hands out a fold by an operator that was sent, or lets it wait for the operator.
    pub(super) fn run_sent(self: &Rc<Self>, job: Job<Bytes>) {
        let next = self.operators.borrow_mut().next_of(&job);
        match next {
            Next::Run(sent) => self.workers.submit(Task::Sent(Box::new(SentJob { job, sent }))),
            Next::Fail(problem) => self.job_done(job.id, Err(JobError::Failed(problem)), Duration::ZERO),
            Next::Wait { id, ask } => {
                if let Some(fetch) = self.operators.borrow_mut().fetches.open.get_mut(&id) {
                    fetch.waiting.push(job);
                }
                if let Some(parent) = ask {
                    self.send(parent, Message::OperatorWant { id });
                }
            }
        }
    }

    /// Removes a fold that waits for its operator. Returns true if it was there.
    pub(super) fn take_waiting(&self, id: JobId) -> bool {
        let open = &mut self.operators.borrow_mut().fetches.open;
        open.values_mut().any(|fetch| {
            let before = fetch.waiting.len();
            fetch.waiting.retain(|job| job.id != id);
            fetch.waiting.len() < before
        })
    }
}

fn lacking(id: OperatorId) -> Arc<str> {
    format!("no node above has the operator {}; push it to the node that the master asks", filter_name(id))
        .into()
}
