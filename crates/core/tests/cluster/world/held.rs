//! What nodes really hold of partials, counted apart from their own books: each payload that a node is given is a buffer
//! of that node, and leaves the count when the last handle to it is dropped.

use super::{Sum, World};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use treefold_core::effect::{Effect, Event};
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::message::Message;

/// A handle to a payload's buffer; clones share it. It says nothing about what is in it.
#[derive(Clone, Debug, Default)]
pub struct Buffer(#[allow(dead_code, reason = "it is there to be dropped")] Option<Arc<Bytes>>);

impl PartialEq for Buffer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Buffer {}

#[derive(Debug)]
struct Bytes {
    bytes: usize,
    of_node: Arc<AtomicUsize>,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.of_node.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The bytes of each node.
#[derive(Default)]
pub struct Held(BTreeMap<NodeId, Arc<AtomicUsize>>);

impl Held {
    fn copy_in(&mut self, node: NodeId, payload: &mut Sum) {
        let of_node = Arc::clone(self.0.entry(node).or_default());
        of_node.fetch_add(payload.bytes, Ordering::Relaxed);
        payload.buffer = Buffer(Some(Arc::new(Bytes { bytes: payload.bytes, of_node })));
    }

    /// A partial that comes in is read into a buffer of its own; so is what a job makes.
    pub fn take_in(&mut self, node: NodeId, input: &mut Input<Sum>) {
        match input {
            Input::Message { message: Message::Partial(partial), .. } => {
                partial.payload.iter_mut().for_each(|payload| self.copy_in(node, payload));
            }
            Input::JobDone { result: Ok(payload), .. } => self.copy_in(node, payload),
            _ => {}
        }
    }
}

/// What has been sent, or given to a user, is the node's no longer.
pub fn let_go(effect: &mut Effect<Sum>) {
    let payload = match effect {
        Effect::Send { message: Message::Partial(partial), .. } => &mut partial.payload,
        Effect::Deliver(Event::CallDone { outcome, .. }) => &mut outcome.value,
        _ => return,
    };
    payload.iter_mut().for_each(|payload| payload.buffer = Buffer::default());
}

impl World {
    /// Bytes of partials that node `i` holds.
    pub fn held_bytes(&self, i: u32) -> usize {
        self.held.0.get(&self.id(i)).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }
}
