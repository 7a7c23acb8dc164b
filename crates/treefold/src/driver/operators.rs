//! Operators that are sent while the node runs: stores them, passes them on, and makes filters of them.
//!
//! The loop never inspects or runs the code of others. A worker makes an operator of its bytes and opens
//! filters of it; for a WebAssembly guest, opening means that it begins to run. Each such task has a ticket,
//! so that a result that is no longer wanted can be recognised.

use super::Loop;
use super::lessons::Lessons;
use super::reduces::{Awaited, Fetches};
use crate::filter::{Filters, Here, Kinds, Unresolved};
use crate::foreign::{Foreign, Loading, Sent, named};
use crate::shelf::Shelf;
use crate::workers::{OpeningFilters, Task};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;
use treefold_core::config::Placement;
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::limits::Limits;
use treefold_core::message::{Message, OperatorStatus};
use treefold_core::stream::operator::OperatorNews;
use treefold_core::stream::spec::NoFilter;
use treefold_core::stream::{OperatorId, StreamId, StreamSpec};

/// The most operators that wait to be made of their bytes. They are made one after another, so that a sender
/// of many operators occupies one worker instead of all. Further ones are refused until one is finished.
const LOADS_OPEN_MAX: usize = 16;

/// The most operators of clients among them. Making the most expensive operator takes seconds, so a client's answer comes within
/// the time that it waits for it, and an operator that a stream's node has fetched finds room.
const CLIENT_LOADS_MAX: usize = 2;

/// The answer to a request about operators: the operators that are kept, or why one was not kept.
pub(crate) type OperatorAnswer = Result<Vec<OperatorStatus>, Arc<str>>;

/// A loop's operators.
pub(crate) struct Operators {
    pub(super) foreign: Option<Arc<dyn Foreign>>,
    pub(super) shelf: Shelf,
    pub(super) fetches: Fetches,
    pub(super) lessons: Lessons,
    tickets: u64,
    loading: HashMap<u64, Asker>,
    /// Operators that wait until the worker has finished the current one.
    to_load: VecDeque<Box<Loading>>,
    /// Streams whose filters a worker is opening.
    opening: HashMap<StreamId, u64>,
}

/// The sender of a request about operators.
pub(super) enum Asker {
    /// Core, which has fetched this operator.
    Core(OperatorId),
    /// The loop, which has fetched this operator for a wave.
    Wave(OperatorId),
    /// A client, with the id of its request.
    Peer(NodeId, u64),
    /// A user in this process.
    User(oneshot::Sender<OperatorAnswer>),
}

impl Operators {
    /// `kept` are operators of the node's own services.
    pub(super) fn new(foreign: Option<Arc<dyn Foreign>>, kept: Vec<Arc<Sent>>, limits: &Limits) -> Self {
        let (loading, to_load, opening) = Default::default();
        let (mut shelf, fetches, lessons) = (Shelf::default(), Fetches::default(), Lessons::default());
        for sent in kept {
            let id = sent.id;
            if let Err(problem) = shelf.put(sent, limits) {
                tracing::warn!(%id, %problem, "other nodes can't fetch a module of this node's services");
            }
        }
        Self { foreign, shelf, fetches, lessons, tickets: 0, loading, to_load, opening }
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Why a client's operator is not loaded now.
    fn refuses_client(&self, client: NodeId) -> Option<String> {
        let mut askers = self.askers();
        if askers.any(|asker| asker == client) {
            return Some(
                "the node is loading another operator of this client; wait for its answer".to_owned(),
            );
        }
        (self.askers().count() >= CLIENT_LOADS_MAX).then(|| {
            format!("the node is loading {CLIENT_LOADS_MAX} operators of other clients; try again later")
        })
    }

    /// The clients that wait for an answer.
    pub(super) fn askers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.loading.values().filter_map(|asker| match asker {
            Asker::Peer(peer, _) => Some(*peer),
            Asker::Core(_) | Asker::Wave(_) | Asker::User(_) => None,
        })
    }

    /// The operator that a filter's name refers to; `None` if the name is not that of a sent operator.
    fn of_name(&mut self, filter: &str) -> Option<Result<Arc<Sent>, Unresolved>> {
        Some(match named(filter)? {
            Err(problem) => Err(Unresolved::Without(NoFilter::Refused(problem))),
            Ok(_) if self.foreign.is_none() => Err(Unresolved::Without(NoFilter::Unknown(NO_FOREIGN.into()))),
            Ok(id) => self.shelf.find_for_use(id).ok_or(Unresolved::Lacking(id)),
        })
    }
}

pub(super) const NO_FOREIGN: &str =
    "this node does not accept operators: it was built or started without support for them";

impl Loop {
    /// Makes a stream's filters: on the loop, or on a worker if one of them is a sent operator.
    pub(super) fn open_filters(self: &Rc<Self>, stream: StreamId, spec: &Arc<StreamSpec<Bytes>>) {
        self.streams.borrow_mut().expect_filters(stream);
        self.operators.borrow_mut().opening.remove(&stream);
        self.find_filters(stream, spec);
    }

    /// Makes the filters of a stream that expects them, or looks for an operator that they need.
    pub(super) fn find_filters(self: &Rc<Self>, stream: StreamId, spec: &Arc<StreamSpec<Bytes>>) {
        let mut operators = self.operators.borrow_mut();
        let me = self.identity.node;
        let here = Here { node: me.addr, is_front_end: stream.origin == me.generation };
        let kinds = Kinds::resolve(&self.registry, spec, here, |name| operators.of_name(name));
        match kinds {
            Ok(kinds) if kinds.are_sent() => {
                let ticket = operators.ticket();
                operators.opening.insert(stream, ticket);
                self.workers.submit(Task::Open(Box::new(OpeningFilters { stream, ticket, kinds })));
            }
            Ok(kinds) => {
                drop(operators);
                self.install_filters(stream, kinds.open().map_err(NoFilter::Refused));
            }
            Err(Unresolved::Lacking(id)) => {
                drop(operators);
                if !self.fetch_for_stream(stream, id, Awaited::Open(Arc::clone(spec))) {
                    self.feed(Input::Operator(OperatorNews::Lacking { stream, id }));
                }
            }
            Err(Unresolved::Without(problem)) => {
                drop(operators);
                self.install_filters(stream, Err(problem));
            }
        }
    }

    /// A worker has opened filters, which may no longer be wanted.
    pub(super) fn filters_opened(
        self: &Rc<Self>,
        stream: StreamId,
        ticket: u64,
        opened: Result<(Filters, Placement), Arc<str>>,
    ) {
        if self.operators.borrow().opening.get(&stream) == Some(&ticket) {
            self.forget_opening(stream);
            self.install_filters(stream, opened.map_err(NoFilter::Refused));
        }
    }

    /// Forgets the opening of a stream's filters, because the stream has ended or they have been opened.
    pub(super) fn forget_opening(&self, stream: StreamId) {
        self.operators.borrow_mut().opening.remove(&stream);
    }

    fn install_filters(self: &Rc<Self>, stream: StreamId, opened: Result<(Filters, Placement), NoFilter>) {
        let result = opened.map(|(filters, placement)| {
            self.streams.borrow_mut().put_home(stream, filters);
            placement
        });
        self.feed(Input::FilterOpened { stream, result });
    }

    /// Gives core an operator that another node needs.
    pub(super) fn lend_operator(self: &Rc<Self>, stream: StreamId, id: OperatorId) {
        let payload = self.operators.borrow_mut().bytes_of(id);
        let is_fetched = || self.operators.borrow().is_fetched(id);
        if payload.is_some() || !is_fetched() || !self.fetch_for_stream(stream, id, Awaited::Lend) {
            self.feed(Input::Operator(OperatorNews::Lent { stream, id, payload }));
        }
    }

    /// Makes an operator of bytes and keeps it.
    pub(super) fn keep_operator(self: &Rc<Self>, asker: Asker, bytes: Bytes) {
        let mut operators = self.operators.borrow_mut();
        let bytes_max = self.identity.limits.operator_bytes_max;
        let refusal = if bytes.len() > bytes_max {
            Some(format!(
                "the operator has {} bytes; at most {bytes_max} are allowed (operator_bytes_max)",
                bytes.len()
            ))
        } else if operators.loading.len() >= LOADS_OPEN_MAX {
            Some(format!("the node is loading {LOADS_OPEN_MAX} other operators; try again later"))
        } else if let Asker::Peer(peer, _) = asker
            && let Some(problem) = operators.refuses_client(peer)
        {
            Some(problem)
        } else if operators.foreign.is_none() {
            Some(NO_FOREIGN.to_owned())
        } else {
            None
        };
        let Some(foreign) = operators.foreign.clone().filter(|_| refusal.is_none()) else {
            drop(operators);
            return self.answer_asker(asker, Err(refusal.unwrap_or_default().into()));
        };
        let expected = match asker {
            Asker::Core(id) | Asker::Wave(id) => Some(id),
            Asker::Peer(..) | Asker::User(_) => None,
        };
        let ticket = operators.ticket();
        let loading = Box::new(Loading { ticket, foreign, expected, bytes });
        operators.loading.insert(ticket, asker);
        if operators.loading.len() == 1 {
            self.workers.submit(Task::Load(loading));
        } else if expected.is_some() {
            // A stream or a wave waits for it at this node.
            operators.to_load.push_front(loading);
        } else {
            operators.to_load.push_back(loading);
        }
    }

    /// A worker has made an operator of bytes, or has failed to.
    pub(super) fn operator_loaded(self: &Rc<Self>, ticket: u64, loaded: Result<Arc<Sent>, Arc<str>>) {
        let mut operators = self.operators.borrow_mut();
        let Some(asker) = operators.loading.remove(&ticket) else { return };
        if let Some(next) = operators.to_load.pop_front() {
            self.workers.submit(Task::Load(next));
        }
        let kept = loaded.and_then(|sent| operators.shelf.put(sent, &self.identity.limits));
        drop(operators);
        self.answer_asker(asker, kept.map(|status| vec![status]));
    }

    fn answer_asker(self: &Rc<Self>, asker: Asker, answer: OperatorAnswer) {
        match asker {
            Asker::Core(id) => {
                let result = answer.map(drop);
                self.feed(Input::Operator(OperatorNews::Kept { id, result }));
            }
            Asker::Wave(id) => self.fetched(id, answer.map(drop)),
            Asker::Peer(peer, id) => self.send(peer, Message::OperatorReply { id, result: answer }),
            // A user that no longer waits needs no answer.
            Asker::User(user) => drop(user.send(answer)),
        }
    }

    /// Serves a request about operators: to keep one, or to list them.
    pub(super) fn serve_operators(self: &Rc<Self>, asker: Asker, payload: Option<Bytes>) {
        match payload {
            Some(bytes) => self.keep_operator(asker, bytes),
            None => {
                let list = self.operators.borrow().shelf.list();
                self.answer_asker(asker, Ok(list));
            }
        }
    }
}
