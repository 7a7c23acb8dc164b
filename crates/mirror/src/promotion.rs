//! Promotion: a new origin takes over from the mirrors, so that two origins never both acknowledge events.
//!
//! The origin of a feed has died, or seems to have, and its journal is out of reach. A *candidate* asks all mirrors for
//! a *promise* for an epoch. A mirror gives it if the epoch is later than all that it has promised or followed. From then
//! on it takes no packet of an earlier epoch, and no origin of one (`follow.rs`). The answer, a [`Pledge`], says how far
//! the mirror is. With enough pledges the candidate is elected: its epoch continues the furthest mirror's log.
//!
//! **How many are enough.** A feed has `n` mirrors, and an event is acknowledged when `k` of them have it.
//!
//! - `n − k + 1` pledges: among any so many mirrors is one that has a given acknowledged event, and fewer than `k` are
//!   left for the old origin, which can therefore acknowledge nothing more.
//! - A majority: of two candidates of one epoch only one is elected.
//! - Mirrors without a state do not count. A mirror that restarts has lost its events, so it is without one until it
//!   has caught up with its origin.
//!
//! **Which mirror is furthest.** The one of the latest epoch, and among these the one of the greatest position, as in
//! viewstamped replication (Liskov, Cowling, *Viewstamped Replication Revisited*, §4.2: the latest normal view, then
//! the op-number). A mirror counts under an epoch once it has *adopted* it, that is, has everything up to the epoch's
//! beginning. Until then its log says less than that of any mirror which has: if it counted under the new epoch at once,
//! a mirror that lags could win over one with acknowledged events.
//!
//! **A candidate that gives up withdraws its promises**, since the old origin may live: a mirror that has promised takes no
//! packet of it. The candidate first resolves never to use the pledges, so a mirror without the promise is as it was before.
//! A mirror that hears its origin promises nothing to a candidate for which nobody vouches.
//!
//! **A candidate that dies** leaves its promises behind. They bind mirrors to no candidate of a later epoch, so the next one
//! takes over. Until then the old origin goes on if it has its copies at the other mirrors. If it has not, its mirrors hear
//! nothing of it, and a standby [may stand](may_stand).
//!
//! **Without a majority** ([`Election::without_majority`]) nothing of this holds but the order of epochs: a mirror that has
//! promised or followed the new epoch takes part for no earlier origin.
//!
//! **Promises must outlive a mirror's process** where nobody vouches for the old origin's death: a mirror that restarts
//! and has forgotten its promise could take part for the old origin again.

use crate::event::Name;
use crate::vector::{Cut, Lineage};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Least number of mirrors of a feed in which a candidate may take over without a person's order: with fewer, one
/// dead mirror leaves no majority.
pub const AUTOMATIC_LEAST: u32 = 3;

/// A mirror's promise: it follows no origin of an earlier epoch, and in this epoch only this candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The epoch; 0 if nothing is promised.
    pub epoch: u32,
    /// The candidate's number, drawn at random. It makes a repeated request harmless.
    pub candidate: u64,
}

/// How far a mirror is. The greater one has all acknowledged events that the lesser one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Standing {
    /// The last epoch whose beginning the mirror has reached.
    pub adopted: u32,
    /// The last event that it has applied.
    pub position: u64,
}

/// A mirror's answer to a candidate to which it has promised an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pledge {
    /// The mirror's number.
    pub mirror: u32,
    /// How far the mirror is; `None` if it has no state.
    pub log: Option<PledgedLog>,
    /// True if the promise outlives the mirror's process.
    pub is_durable: bool,
}

/// The log of a mirror that has a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PledgedLog {
    /// How far it is.
    pub standing: Standing,
    /// The epochs before the adopted one that the feed continues.
    pub past: Lineage,
    /// The position before the first packet that the mirror still has.
    pub base: u64,
    /// The version of the rules that chose the last event.
    pub rules_version: u32,
    /// The incoming streams, each with the number of its last decided event.
    pub streams: Vec<(Name, u64)>,
}

/// The reason why a mirror promises nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum PromiseRefusal {
    /// It has promised or followed this epoch, or a later one.
    #[error("epoch {asked} is asked for, but epoch {known} is promised or followed")]
    Later {
        /// The epoch asked for.
        asked: u32,
        /// The epoch that it has promised or followed.
        known: u32,
    },
    /// Its origin lives.
    #[error("it has heard of its origin {silent_ms} ms ago, and needs {asked_ms} ms of silence")]
    Hears {
        /// The time since the last sign of the origin.
        silent_ms: u64,
        /// The silence that the candidate asks for.
        asked_ms: u64,
    },
    /// The candidate counts another number of mirrors.
    #[error("the candidate counts {given} mirrors, this mirror {known}")]
    Total {
        /// The candidate's number.
        given: u32,
        /// The mirror's number.
        known: u32,
    },
}

/// The reason why no origin can take over in a feed of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unelectable {
    /// Acknowledged events need not be at any mirror.
    #[error(
        "with 0 copies, acknowledged events need not be at any mirror; restart the origin with its journal"
    )]
    NoCopies,
    /// More copies than mirrors.
    #[error("{copies} copies, but the feed has {total} mirrors")]
    Copies {
        /// The copies.
        copies: u32,
        /// The mirrors.
        total: u32,
    },
}

/// The reason why a candidate is not elected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{needs} of the feed's {total} mirrors must promise epoch {epoch} and have a state; these do: {}; without a state: \
     {}; without a durable promise: {}; the others did not answer",
    list(.promised), list(.stateless), list(.forgetful)
)]
pub struct NotElected {
    /// The epoch.
    pub epoch: u32,
    /// The mirrors of the feed.
    pub total: u32,
    /// The pledges that are needed.
    pub needs: u32,
    /// The mirrors whose pledges count.
    pub promised: Vec<u32>,
    /// The mirrors that have promised, but have no state.
    pub stateless: Vec<u32>,
    /// The mirrors that have promised, but may forget it, where that matters.
    pub forgetful: Vec<u32>,
}

fn list(mirrors: &[u32]) -> String {
    let numbers: Vec<String> = mirrors.iter().map(u32::to_string).collect();
    if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
}

/// The number of mirrors whose pledges elect a candidate, given all mirrors of the feed and the copies that an
/// acknowledged event has.
pub fn pledges_needed(total: u32, copies: u32) -> u32 {
    let majority = total / 2 + 1;
    majority.max((total + 1).saturating_sub(copies))
}

/// Greatest number of dead mirrors with which a candidate can still be elected.
pub fn losses_allowed(total: u32, copies: u32) -> u32 {
    total.saturating_sub(pledges_needed(total, copies))
}

/// True if a candidate may stand without a person's order: as many mirrors as elect it have heard no origin for
/// `asked_ms`. `silent_ms` has the silence of each mirror that answers and has had an origin.
///
/// Fewer mirrors than an acknowledged event needs are left for an origin that lives, so it acknowledges nothing already. It
/// may live, and still be heard by these few: a candidate that died in its election has left its promises at the others.
pub fn may_stand(silent_ms: &[u64], asked_ms: u64, total: u32, copies: u32) -> bool {
    let silent = silent_ms.iter().filter(|&&ms| ms >= asked_ms).count() as u32;
    total > 0 && silent >= pledges_needed(total, copies)
}

/// The election of one candidate.
#[derive(Clone, Debug)]
pub struct Election {
    promise: Promise,
    total: u32,
    needs: u32,
    /// Count only promises that outlive the mirror's process.
    needs_durable: bool,
    pledges: BTreeMap<u32, Pledge>,
}

/// The log that the elected candidate continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elected {
    /// The mirror that has it.
    pub mirror: u32,
    /// The log.
    pub log: PledgedLog,
    /// The position that all mirrors have which go on with their state.
    pub held: u64,
}

impl Elected {
    /// The epochs that the new one continues.
    pub fn past(&self) -> Lineage {
        let Standing { adopted, position } = self.log.standing;
        self.log.past.clone().ended(Cut { epoch: adopted, position })
    }
}

impl Election {
    /// An election in a feed of `total` mirrors, in which an event is acknowledged when `copies` of them have it.
    ///
    /// # Errors
    /// If no pledges could be enough.
    pub fn new(promise: Promise, total: u32, copies: u32) -> Result<Self, Unelectable> {
        match copies {
            0 => return Err(Unelectable::NoCopies),
            copies if copies > total => return Err(Unelectable::Copies { copies, total }),
            _ => {}
        }
        let needs = pledges_needed(total, copies);
        Ok(Self { promise, total, needs, needs_durable: false, pledges: BTreeMap::new() })
    }

    /// Counts only promises that outlive a mirror's process: nobody vouches that the old origin is dead.
    #[must_use]
    pub fn automatic(mut self) -> Self {
        self.needs_durable = true;
        self
    }

    /// Is content with one mirror that has a state, because a person says that the others are dead for good. Acknowledged
    /// events that only they had are lost, and an old origin that lives could acknowledge events with them.
    #[must_use]
    pub fn without_majority(mut self) -> Self {
        self.needs = 1;
        self
    }

    /// The promise that the candidate asks for.
    pub fn promise(&self) -> Promise {
        self.promise
    }

    /// Takes a mirror's pledge for this election's promise. Pledges of mirrors that the feed does not have are ignored.
    pub fn take(&mut self, pledge: Pledge) {
        if pledge.mirror < self.total {
            self.pledges.insert(pledge.mirror, pledge);
        }
    }

    /// The mirrors that have promised and have a state.
    pub fn counted(&self) -> Vec<u32> {
        let counts = |pledge: &&Pledge| pledge.log.is_some() && (pledge.is_durable || !self.needs_durable);
        self.pledges.values().filter(counts).map(|pledge| pledge.mirror).collect()
    }

    /// The log to continue.
    ///
    /// # Errors
    /// If there are not enough pledges.
    pub fn elected(&self) -> Result<Elected, NotElected> {
        let (mut counted, mut stateless, mut forgetful) = (Vec::new(), Vec::new(), Vec::new());
        for (&mirror, pledge) in &self.pledges {
            match &pledge.log {
                _ if self.needs_durable && !pledge.is_durable => forgetful.push(mirror),
                None => stateless.push(mirror),
                Some(log) => counted.push((mirror, log)),
            }
        }
        // Of equal mirrors, the one with the longest log: it helps most of the others.
        let furthest = counted.iter().max_by_key(|(_, log)| (log.standing, Reverse(log.base)));
        let Some(&(mirror, log)) = furthest.filter(|_| counted.len() as u32 >= self.needs) else {
            let promised = counted.iter().map(|&(mirror, _)| mirror).collect();
            let (epoch, total, needs) = (self.promise.epoch, self.total, self.needs);
            return Err(NotElected { epoch, total, needs, promised, stateless, forgetful });
        };
        let mut elected = Elected { mirror, log: log.clone(), held: log.standing.position };
        let past = elected.past();
        // A mirror that can't go on, or is behind the log, takes a snapshot.
        let goes_on = |log: &PledgedLog| {
            let Standing { adopted, position } = log.standing;
            position >= elected.log.base && past.has(Cut { epoch: adopted, position }, self.promise.epoch)
        };
        let held = counted.iter().filter(|(_, log)| goes_on(log)).map(|(_, log)| log.standing.position).min();
        elected.held = held.unwrap_or(elected.log.base);
        Ok(elected)
    }
}

#[cfg(test)]
mod tests;
