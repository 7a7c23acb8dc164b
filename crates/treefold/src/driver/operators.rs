//! Operators that are sent while the node runs: kept, lent, and made filters of.
//!
//! What somebody else wrote is neither looked at nor run here: a worker makes an operator of its bytes, and opens a
//! filter of it, which for a guest means that it begins to run. Each such task has a ticket, so that what comes back
//! after everyone has gone is told from what is waited for.

use super::Loop;
use crate::filter::{Filters, Kinds, Unresolved};
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
use treefold_core::message::{Message, OperatorStatus};
use treefold_core::stream::operator::OperatorNews;
use treefold_core::stream::{OperatorId, StreamId, StreamSpec};

/// Operators that are to be made of bytes, one after another, so that whoever sends many keeps one worker from calls and
/// not all of them; further ones are refused until one is done.
const LOADS_OPEN_MAX: usize = 16;

/// What whoever asks about operators is told: what is kept, or why something was not.
pub(crate) type OperatorAnswer = Result<Vec<OperatorStatus>, Arc<str>>;

/// What a loop keeps of operators.
pub(crate) struct Operators {
    foreign: Option<Arc<dyn Foreign>>,
    shelf: Shelf,
    tickets: u64,
    loading: HashMap<u64, Asker>,
    /// Those that wait for the one that a worker is at.
    to_load: VecDeque<Box<Loading>>,
    /// Streams whose filters a worker opens.
    opening: HashMap<StreamId, u64>,
}

/// Who wants an operator kept, or to know what there is.
pub(super) enum Asker {
    /// Core, which has had this one fetched.
    Core(OperatorId),
    /// A client, by its number of the request.
    Peer(NodeId, u64),
    /// Somebody in this process.
    User(oneshot::Sender<OperatorAnswer>),
}

impl Operators {
    pub(super) fn new(foreign: Option<Arc<dyn Foreign>>) -> Self {
        let (loading, to_load, opening) = Default::default();
        Self { foreign, shelf: Shelf::default(), tickets: 0, loading, to_load, opening }
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// The operator that a filter's name names; `None` for a filter that was not sent.
    fn of_name(&mut self, filter: &str) -> Option<Result<Arc<Sent>, Unresolved>> {
        Some(match named(filter)? {
            Err(problem) => Err(Unresolved::Unknown(problem)),
            Ok(_) if self.foreign.is_none() => Err(Unresolved::Unknown(NO_FOREIGN.into())),
            Ok(id) => self.shelf.find_for_use(id).ok_or(Unresolved::Lacking(id)),
        })
    }
}

const NO_FOREIGN: &str =
    "this node takes no operators that are sent to it: it was built, or started, without";

impl Loop {
    /// Makes a stream's filters: here, or on a worker when somebody else wrote one of them.
    pub(super) fn open_filters(self: &Rc<Self>, stream: StreamId, spec: &StreamSpec<Bytes>) {
        self.streams.borrow_mut().expect_filters(stream);
        let mut operators = self.operators.borrow_mut();
        operators.opening.remove(&stream);
        let kinds = Kinds::resolve(&self.registry, spec, |name| operators.of_name(name));
        match kinds {
            Ok(kinds) if kinds.are_sent() => {
                let ticket = operators.ticket();
                operators.opening.insert(stream, ticket);
                let params = spec.filter_params.clone();
                self.workers.submit(Task::Open(Box::new(OpeningFilters { stream, ticket, kinds, params })));
            }
            Ok(kinds) => {
                drop(operators);
                self.install_filters(stream, kinds.open(&spec.filter_params));
            }
            Err(Unresolved::Lacking(id)) => {
                drop(operators);
                self.feed(Input::Operator(OperatorNews::Lacking { stream, id }));
            }
            Err(Unresolved::Unknown(problem)) => {
                drop(operators);
                self.install_filters(stream, Err(problem));
            }
        }
    }

    /// A worker has opened filters, which may not be wanted any more.
    pub(super) fn filters_opened(
        self: &Rc<Self>,
        stream: StreamId,
        ticket: u64,
        opened: Result<(Filters, Placement), Arc<str>>,
    ) {
        if self.operators.borrow().opening.get(&stream) == Some(&ticket) {
            self.forget_opening(stream);
            self.install_filters(stream, opened);
        }
    }

    /// A stream is over.
    pub(super) fn forget_opening(&self, stream: StreamId) {
        self.operators.borrow_mut().opening.remove(&stream);
    }

    fn install_filters(self: &Rc<Self>, stream: StreamId, opened: Result<(Filters, Placement), Arc<str>>) {
        let result = opened.map(|(filters, placement)| {
            self.streams.borrow_mut().put_home(stream, filters);
            placement
        });
        self.feed(Input::FilterOpened { stream, result });
    }

    /// Core wants an operator for others.
    pub(super) fn lend_operator(self: &Rc<Self>, stream: StreamId, id: OperatorId) {
        let payload = self.operators.borrow_mut().shelf.find(id).map(|sent| sent.bytes.clone());
        self.feed(Input::Operator(OperatorNews::Lent { stream, id, payload }));
    }

    /// Bytes are to be made an operator of, and kept.
    pub(super) fn keep_operator(self: &Rc<Self>, asker: Asker, bytes: Bytes) {
        let mut operators = self.operators.borrow_mut();
        let bytes_max = self.identity.limits.operator_bytes_max;
        let refusal = if bytes.len() > bytes_max {
            Some(format!("it has {} bytes; allowed: {bytes_max} (operator_bytes_max)", bytes.len()))
        } else if operators.loading.len() >= LOADS_OPEN_MAX {
            Some(format!("the node is at {LOADS_OPEN_MAX} others; try again"))
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
            Asker::Core(id) => Some(id),
            Asker::Peer(..) | Asker::User(_) => None,
        };
        let ticket = operators.ticket();
        let loading = Box::new(Loading { ticket, foreign, expected, bytes });
        operators.loading.insert(ticket, asker);
        if operators.loading.len() == 1 {
            self.workers.submit(Task::Load(loading));
        } else {
            operators.to_load.push_back(loading);
        }
    }

    /// A worker has made an operator of bytes, or could not.
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
            Asker::Peer(peer, id) => self.send(peer, Message::OperatorReply { id, result: answer }),
            // Who no longer waits for an answer needs none.
            Asker::User(user) => drop(user.send(answer)),
        }
    }

    /// Somebody asks about operators: to keep one, or what there is.
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
