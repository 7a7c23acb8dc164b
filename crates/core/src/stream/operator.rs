//! Operators sent while the cluster runs: how a node without one asks for it and receives it.
//!
//! A stream may name a filter that a node was not built with, by the hash of its content ([`OperatorId`]).
//! Core does not know what such an operator is: the driver keeps operators, and core forwards them as
//! payloads.
//!
//! ```text
//!            front-end   has it, or asks its children; if no node has it, the stream is over
//!     Want ▲     │ Operator           ▲ Want    each node asks its parent once for all below,
//!          │     ▼                    │         and forwards the operator before checking it
//!            a node      lacks it ────┘
//! ```
//!
//! - **Up first.** A node without the operator asks its parent. A tree has one way up, so no two nodes wait
//!   for each other. For the same reason each stream asks for itself: the trees of two streams together may
//!   contain cycles.
//! - **Then down.** A front-end without the operator asks its children, and they ask theirs, so an operator
//!   that was given to any node of the stream is found. A child answers if no node below has it either.
//! - **Accepted only from a node that was asked.** An operator from any other node is dropped. If an operator
//!   does not match its name, or is none, only the stream that brought it ends.

use super::message::StreamMessage;
use super::state::{Filter, StreamState};
use super::table::{StreamDesk, Streams};
use super::{StreamError, StreamId};
use crate::effect::{Effect, FilterEffect};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::Parent;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// How long a stream's filter waits for its operator to arrive and be checked.
const FETCH_PATIENCE: Duration = Duration::from_secs(20);
/// Operators that a stream can want at most: one for each direction.
const WANTS_PER_STREAM_MAX: usize = 2;

/// The name of an operator: a hash of its content, computed by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OperatorId(pub [u8; 32]);

impl OperatorId {
    /// Reads what [`Display`](fmt::Display) writes: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
        let pairs: &[[u8; 2]; 32] = pairs.try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let [high, low] = pair.map(|digit| (digit as char).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for OperatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for OperatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

/// A report of the driver about an operator.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum OperatorNews<P> {
    /// A stream's filter can't be opened without this operator. It is opened again when the operator has
    /// come.
    Lacking {
        /// The stream.
        stream: StreamId,
        /// The operator.
        id: OperatorId,
    },
    /// The answer to [`FilterEffect::Lend`].
    Lent {
        /// The stream.
        stream: StreamId,
        /// The operator; `None` if the driver does not have it.
        id: OperatorId,
        /// The operator; `None` if the driver does not have it.
        payload: Option<P>,
    },
    /// The answer to [`FilterEffect::Keep`].
    Kept {
        /// The operator.
        id: OperatorId,
        /// An error if the driver did not keep it.
        result: Result<(), Arc<str>>,
    },
}

/// The operators that this node is looking for.
#[derive(Debug)]
pub(crate) struct Operators<P> {
    wants: BTreeMap<(StreamId, OperatorId), Want>,
    /// Operators that have arrived and that the driver is checking, with the stream that brought each.
    coming: BTreeMap<OperatorId, (StreamId, P)>,
}

/// A stream's want of an operator.
#[derive(Debug)]
struct Want {
    since: Instant,
    /// True if this node's filter waits for it.
    is_own: bool,
    /// True while the driver looks whether it has it. A front-end's driver may ask nodes outside of the stream.
    is_looked_up: bool,
    /// Other nodes that wait for it: children, and the parent if it looks for it below.
    waiting: BTreeSet<NodeId>,
    /// The nodes that have been asked and have not answered.
    asked: BTreeSet<NodeId>,
}

impl<P> Default for Operators<P> {
    fn default() -> Self {
        Self { wants: BTreeMap::new(), coming: BTreeMap::new() }
    }
}

impl<P> Operators<P> {
    fn want(&mut self, now: Instant, stream: StreamId, id: OperatorId) -> &mut Want {
        self.wants.entry((stream, id)).or_insert_with(|| Want {
            since: now,
            is_own: false,
            is_looked_up: false,
            waiting: BTreeSet::new(),
            asked: BTreeSet::new(),
        })
    }

    fn wanted_by(&self, stream: StreamId) -> Vec<OperatorId> {
        let least = (stream, OperatorId([0; 32]));
        self.wants
            .range(least..)
            .map(|(&key, _)| key)
            .take_while(|key| key.0 == stream)
            .map(|key| key.1)
            .collect()
    }

    /// Forgets the wants of a stream that is over.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        self.wants.retain(|&(of, _), _| of != stream);
    }
}

impl<P: Payload> Streams<P> {
    /// Handles a report of the driver about an operator.
    pub(crate) fn handle_operator_news(&mut self, cx: &mut Context<P>, now: Instant, news: OperatorNews<P>) {
        match news {
            OperatorNews::Lacking { stream, id } => self.with_state(cx, now, stream, |state, desk| {
                desk.streams.operators.want(now, stream, id).is_own = true;
                state.seek_operator(desk, id)
            }),
            OperatorNews::Lent { stream, id, payload } => {
                self.with_state(cx, now, stream, |state, desk| {
                    if let Some(want) = desk.streams.operators.wants.get_mut(&(stream, id)) {
                        want.is_looked_up = false;
                    }
                    match payload {
                        Some(payload) => {
                            state.hand_on_operator(desk, id, &payload);
                            Ok(())
                        }
                        None => state.seek_operator(desk, id),
                    }
                });
            }
            OperatorNews::Kept { id, result } => self.note_operator_kept(cx, now, id, &result),
        }
    }

    /// Notes that the driver has checked an operator, and opens the filters that wait for it.
    fn note_operator_kept(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        id: OperatorId,
        result: &Result<(), Arc<str>>,
    ) {
        let Some((brought_by, payload)) = self.operators.coming.remove(&id) else { return };
        let concerned: Vec<StreamId> =
            self.operators.wants.keys().filter(|key| key.1 == id).map(|key| key.0).collect();
        for stream in concerned {
            self.with_state(cx, now, stream, |state, desk| match result {
                Ok(()) => {
                    state.hand_on_operator(desk, id, &payload);
                    desk.streams.operators.wants.remove(&(stream, id));
                    if matches!(state.filtering.state, Filter::Opening) {
                        state.reopen_filter(desk.cx);
                    }
                    Ok(())
                }
                Err(problem) if stream == brought_by => Err(StreamError::Filter { problem: problem.clone() }),
                // This stream asks other nodes than the stream that brought the operator.
                Err(_) => state.seek_operator(desk, id),
            });
        }
    }
}

impl<P: Payload> StreamState<P> {
    /// Takes a request for an operator: from a child that lacks it, or from the parent that looks for it
    /// below.
    pub(crate) fn take_operator_want(
        &self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        from: NodeId,
        id: OperatorId,
    ) -> Result<(), StreamError> {
        let is_above = self.seat.parent == Parent::Node(from);
        if !is_above && self.child_at(from).is_none() {
            // A request that crosses with a change of parents is no fault.
            return Ok(());
        }
        let wanted = desk.streams.operators.wanted_by(self.terms.id);
        if wanted.len() >= WANTS_PER_STREAM_MAX && !wanted.contains(&id) {
            desk.cx.note_bad_message(from, "want_operator.id: a stream has two filters at most");
            return Ok(());
        }
        let want = desk.streams.operators.want(now, self.terms.id, id);
        want.waiting.insert(from);
        want.is_looked_up = true;
        if is_above {
            // The parent asks here because it lacks the operator, so it will not answer; it forwards the
            // operator when it has it.
            want.asked.remove(&from);
        }
        desk.cx.effects.push_back(Effect::Filter(FilterEffect::Lend { stream: self.terms.id, id }));
        Ok(())
    }

    /// Takes an operator, or the answer that no node there has it.
    pub(crate) fn take_operator(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        from: NodeId,
        id: OperatorId,
        payload: Option<P>,
    ) -> Result<(), StreamError> {
        let Some(want) = desk.streams.operators.wants.get_mut(&(self.terms.id, id)) else { return Ok(()) };
        let was_asked = want.asked.remove(&from);
        match payload {
            None if was_asked && want.asked.is_empty() => self.note_operator_missing(desk, id),
            Some(payload) if was_asked || self.seat.parent == Parent::Node(from) => {
                want.asked.clear();
                self.hand_on_operator(desk, id, &payload);
                if let alloc::collections::btree_map::Entry::Vacant(room) =
                    desk.streams.operators.coming.entry(id)
                {
                    room.insert((self.terms.id, payload.clone()));
                    desk.cx.effects.push_back(Effect::Filter(FilterEffect::Keep { id, payload }));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Asks for an operator that is not here, unless a request is pending.
    ///
    /// It asks the parent; at the front-end, and if the parent itself asks, it asks all children.
    fn seek_operator(&self, desk: &mut StreamDesk<'_, P>, id: OperatorId) -> Result<(), StreamError> {
        if desk.streams.operators.coming.contains_key(&id) || self.order.orphan_since.is_some() {
            return Ok(());
        }
        let Some(want) = desk.streams.operators.wants.get_mut(&(self.terms.id, id)) else { return Ok(()) };
        if want.is_looked_up || !want.asked.is_empty() {
            return Ok(());
        }
        match self.seat.parent {
            Parent::Node(parent) if !want.waiting.contains(&parent) => want.asked = [parent].into(),
            Parent::Node(_) | Parent::Top => {
                want.asked = self.live().map(|child| child.node).collect();
            }
        }
        let asked = want.asked.clone();
        if asked.is_empty() {
            return self.note_operator_missing(desk, id);
        }
        for to in asked {
            desk.cx.send_stream(to, StreamMessage::WantOperator { stream: self.terms.id, id });
        }
        Ok(())
    }

    /// Handles the answer that no node below has the operator.
    fn note_operator_missing(&self, desk: &mut StreamDesk<'_, P>, id: OperatorId) -> Result<(), StreamError> {
        let Parent::Node(parent) = self.seat.parent else {
            return Err(StreamError::Filter {
                problem: alloc::format!(
                    "no node of the stream has the operator {id}; push it to one that hosts endpoints of the stream"
                ).into(),
            });
        };
        let key = (self.terms.id, id);
        let Some(want) = desk.streams.operators.wants.get_mut(&key) else { return Ok(()) };
        if want.waiting.remove(&parent) {
            let answer = StreamMessage::Operator { stream: self.terms.id, id, payload: None };
            desk.cx.send_stream(parent, answer);
        }
        let Some(want) = desk.streams.operators.wants.get(&key) else { return Ok(()) };
        if want.is_own || !want.waiting.is_empty() {
            // The parent is asked again: it may find the operator elsewhere.
            return self.seek_operator(desk, id);
        }
        desk.streams.operators.wants.remove(&key);
        Ok(())
    }

    /// Gives an operator to the nodes of a stream that wait for it.
    fn hand_on_operator(&self, desk: &mut StreamDesk<'_, P>, id: OperatorId, payload: &P) {
        let key = (self.terms.id, id);
        let Some(want) = desk.streams.operators.wants.get_mut(&key) else { return };
        let waiting = core::mem::take(&mut want.waiting);
        if !want.is_own {
            desk.streams.operators.wants.remove(&key);
        }
        for to in waiting {
            let payload = Some(payload.clone());
            desk.cx.send_stream(to, StreamMessage::Operator { stream: self.terms.id, id, payload });
        }
    }

    /// Asks again after the parent has changed, or has lost what it was told.
    pub(crate) fn ask_again_for_operators(&self, desk: &mut StreamDesk<'_, P>) -> Result<(), StreamError> {
        for id in desk.streams.operators.wanted_by(self.terms.id) {
            if let Some(want) = desk.streams.operators.wants.get_mut(&(self.terms.id, id)) {
                want.asked.clear();
            }
            self.seek_operator(desk, id)?;
        }
        Ok(())
    }

    /// Checks a stream's wants periodically: it drops nodes that are gone, and fails if its own want is too
    /// old.
    pub(crate) fn look_after_operator_wants(
        &self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
    ) -> Result<(), StreamError> {
        for id in desk.streams.operators.wanted_by(self.terms.id) {
            let Some(want) = desk.streams.operators.wants.get_mut(&(self.terms.id, id)) else { continue };
            if want.is_own && want.since.until(now) > FETCH_PATIENCE {
                let problem = alloc::format!("the operator {id} did not come within {FETCH_PATIENCE:?}");
                return Err(StreamError::Filter { problem: problem.into() });
            }
            let is_there = |node: &NodeId| {
                self.seat.parent == Parent::Node(*node) || self.live().any(|child| child.node == *node)
            };
            want.asked.retain(is_there);
            want.waiting.retain(is_there);
            self.seek_operator(desk, id)?;
        }
        Ok(())
    }
}
