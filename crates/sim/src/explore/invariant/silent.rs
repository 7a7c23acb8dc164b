//! Who has drained begins nothing any more.
//!
//! After [`Event::Drained`] a driver closes links and ends the process. Until it has, a node may still gossip its
//! farewell, answer those who ask (a poll, a call, which it refuses, its cards, its status), give once more what it
//! has answered before, close connections and tell its log. What it may not do is run a job, ask a child, or report
//! the end of a call: nobody would be there for what comes of it.

use super::Finding;
use crate::world::ink::Ink;
use std::collections::BTreeSet;
use treefold_core::effect::{Effect, Event};
use treefold_core::message::Message;

/// Who has drained.
#[derive(Debug, Default)]
pub struct Silent {
    drained: BTreeSet<usize>,
}

impl Silent {
    pub(super) fn drained(&mut self, at: usize) -> Finding {
        if self.drained.insert(at) { Ok(()) } else { Err("it has drained twice".into()) }
    }

    pub(super) fn forget(&mut self, at: usize) {
        self.drained.remove(&at);
    }

    pub(super) fn effect(&self, at: usize, effect: &Effect<Ink>) -> Finding {
        if self.drained.is_empty() || !self.drained.contains(&at) {
            return Ok(());
        }
        let begins_something = match effect {
            Effect::Run(_) => true,
            Effect::Send { message, .. } => {
                matches!(message, Message::Call(_) | Message::Grant { .. } | Message::Request(_))
            }
            Effect::Deliver(Event::CallDone { outcome, .. }) => !outcome.asked.is_empty(),
            _ => false,
        };
        if begins_something { Err(format!("it has drained, and wants {effect:?}")) } else { Ok(()) }
    }
}
