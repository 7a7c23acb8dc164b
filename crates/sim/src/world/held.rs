//! Counts the memory that nodes hold for partials, independently of their own records.
//!
//! Each payload that a node gets is a buffer of that node. The buffer leaves the count when the last handle
//! to it is dropped. Counting is off unless [`World::count_held`] turns it on.

use super::World;
use super::ink::Ink;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use treefold_core::effect::{Effect, Event};
use treefold_core::input::Input;
use treefold_core::message::Message;

/// A handle to a payload's memory. Clones share it. It has no information about the contents, so all handles
/// are equal.
#[derive(Clone, Debug, Default)]
pub struct Buffer(#[allow(dead_code, reason = "only its drop matters")] Option<Arc<Bytes>>);

impl PartialEq for Buffer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

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

/// Bytes held at each place.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<usize, Arc<AtomicUsize>>);

impl Held {
    fn copy_in(&mut self, at: usize, payload: &mut Ink) {
        let of_node = Arc::clone(self.0.entry(at).or_default());
        let bytes = payload.bytes as usize;
        of_node.fetch_add(bytes, Ordering::Relaxed);
        payload.buffer = Buffer(Some(Arc::new(Bytes { bytes, of_node })));
    }

    /// Reads an arriving partial into a new buffer, and a job's result as well.
    pub(super) fn take_in(&mut self, at: usize, input: &mut Input<Ink>) {
        match input {
            Input::Message { message: Message::Partial(partial), .. } => {
                partial.payload.iter_mut().for_each(|payload| self.copy_in(at, payload));
            }
            Input::JobDone { result: Ok(payload), .. } => self.copy_in(at, payload),
            _ => {}
        }
    }
}

/// Takes the buffer from a payload that is sent or delivered, because it no longer belongs to the node.
pub(super) fn let_go(effect: &mut Effect<Ink>) {
    let payload = match effect {
        Effect::Send { message: Message::Partial(partial), .. } => &mut partial.payload,
        Effect::Deliver(Event::CallDone { outcome, .. }) => &mut outcome.value,
        _ => return,
    };
    payload.iter_mut().for_each(|payload| payload.buffer = Buffer::default());
}

impl World {
    /// Turns on the count of bytes that nodes hold for partials.
    pub fn count_held(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Returns the counted bytes of partials that the node at `at` holds.
    pub fn held_bytes(&self, at: usize) -> usize {
        let held = self.held.as_ref().and_then(|held| held.0.get(&at));
        held.map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }
}
