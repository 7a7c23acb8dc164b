//! A drained node starts nothing new.
//!
//! After [`Event::Drained`] a driver closes links and ends the process. Until then, a node may still gossip
//! that it leaves, answer questions (a poll, a call, which it refuses, its cards, its status), repeat an
//! earlier answer, close connections and write to its log. It must not run a job, ask a child, or report the
//! end of a call, because its process ends before the result.

use super::Finding;
use crate::world::ink::Ink;
use std::collections::BTreeSet;
use treefold_core::effect::{Effect, Event};
use treefold_core::message::Message;

/// The nodes that have drained.
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
        if begins_something { Err(format!("it has drained, but requests {effect:?}")) } else { Ok(()) }
    }
}
