//! A node asks replicas too for at most `hedge_share` of the partitions that it asked for, with a small reserve, and one hedge
//! may exceed that.

use super::Finding;
use crate::explore::scenario::Scenario;
use crate::world::ink::Ink;
use std::collections::BTreeMap;
use treefold_core::effect::{Effect, TracePoint};
use treefold_core::message::{Call, Message};

/// Partitions that a node may ask for twice before it has asked for any.
const RESERVE: usize = 8;

/// The partitions that a node has asked for since it started.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    partitions: usize,
    twice: usize,
    /// The largest hedge.
    most: usize,
}

/// The partitions that each node has asked for.
#[derive(Debug)]
pub struct AsksBounded {
    share: f64,
    by_place: BTreeMap<usize, Asked>,
}

impl AsksBounded {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self { share: scenario.habits().0.hedge_share, by_place: BTreeMap::new() }
    }

    pub(super) fn forget(&mut self, at: usize) {
        self.by_place.remove(&at);
    }

    /// The node was asked for partitions, some of them its own.
    pub(super) fn called(&mut self, at: usize, call: &Call<Ink>) {
        self.by_place.entry(at).or_default().partitions += call.tree.root().partitions.len();
    }

    pub(super) fn effect(&mut self, at: usize, effect: &Effect<Ink>) -> Finding {
        match effect {
            Effect::Send { message: Message::Call(call), .. } => {
                self.by_place.entry(at).or_default().partitions += call.tree.root().partitions.len();
                Ok(())
            }
            Effect::Trace(TracePoint::Hedged { partitions, .. }) => {
                let asked = self.by_place.entry(at).or_default();
                asked.twice += partitions.len();
                asked.most = asked.most.max(partitions.len());
                let reserve = if self.share > 0.0 { RESERVE + asked.most } else { 0 };
                let most = reserve as f64 + self.share * asked.partitions as f64;
                if asked.twice as f64 > most {
                    Err(format!("at most {most} are allowed: {asked:?}"))
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }
}
