//! How far each endpoint's clock is off the front-end's, hop by hop (MRNet §3.1).
//!
//! ```text
//!   parent        t0 ──probe──▶            ◀──reply── t3        skew  = ((t1−t0) + (t2−t3)) / 2
//!   child                      t1 ……… t2                        delay = (t3−t0) − (t2−t1)
//! ```
//!
//! A node's `down` stamps a probe as it passes, its `up` stamps the reply. A parent computes from the four
//! stamps of a hop how far its child's clock is ahead, as NTP does (RFC 5905 §8), and adds that to the skews
//! the child tells of everyone below it. So `n` endpoints cost each node the probes of its own children,
//! where asking them all from the front-end costs the front-end `n` probes.
//!
//! The bound: whatever the two directions of a hop take, the skew computed is off by at most half the delay;
//! on the way up the halves are added, as the skews are. It holds for clocks that run at one rate while a
//! round is under way. The round of the least delay tells most, so of the last `window` rounds of each child
//! that one is used; a window that moves on follows clocks that drift.
//!
//! A round begins when the front-end sends an empty packet, and ends for an endpoint when it sends the
//! [`Probe`] back that it got. Under `do_not_wait` a reply is stamped as it comes; under a synchronisation
//! that gathers, the wait for slower siblings is in the delay, and honestly in the bound.
//!
//! Endpoints have their node's clock. A reply to a probe that this node doesn't know of, as one that was
//! under way when its sender lost its parent, is passed over: its stamps are of another clock.

mod hop;

use super::{Descent, Filter, FilterKind, Source, Wave};
use crate::builtin::{Builtin, Made, Param, named};
use crate::codec::Body;
use crate::error::{OperatorError, Result};
use crate::fold::params::{read, within};

use bytes::Bytes;
use hop::Best;
pub use hop::Offset;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// How many rounds may be under way; of more, the oldest are forgotten.
pub const ROUNDS_MAX: usize = 64;

/// How many rounds of a child may be remembered at most.
pub const WINDOW_MAX: u32 = 1024;

/// The filter `clock-skew`: the front-end sends empty packets, endpoints send back what they get, the
/// front-end gets [`ClockSkews`]. It is the up-filter and the down-filter of its stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockSkew;

/// What a stream may say about it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    window: u32,
    hops: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self { window: 16, hops: false }
    }
}

/// What a node asks those below: an endpoint sends it back as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Which of its node's rounds this is.
    pub round: u64,
    /// When its node sent it, by that node's clock.
    pub sent_ns: u64,
}

/// How far one endpoint's clock is ahead of the clock of whoever has this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, i64, u64)", into = "(u32, i64, u64)")]
pub struct Skew {
    /// The endpoint's number.
    pub endpoint: u32,
    /// How far it is ahead; negative when it is behind.
    pub skew_ns: i64,
    /// By how much that may be wrong, in either direction.
    pub error_ns: u64,
}

/// What goes up, and what the front-end gets: the skews of those who answered in this wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSkews {
    /// The skews, against the clock of the node that says so; at the front-end, against its own.
    pub skews: Vec<Skew>,
    /// The hops that each skew is the sum of, when the stream asked for them: one entry for each of `skews`, in the
    /// same order, each from this node's child down to the endpoint's node; empty for an endpoint of this node's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Vec<Offset>>,
    /// The parent's probe that this answers, and when it came and was answered, by this node's clock; none at
    /// the root.
    pub answers: Option<Answer>,
}

/// A probe as the node that got it saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The parent's probe.
    pub probe: Probe,
    /// When it came.
    pub received_ns: u64,
    /// When it was answered.
    pub replied_ns: u64,
}

impl From<(u32, i64, u64)> for Skew {
    fn from((endpoint, skew_ns, error_ns): (u32, i64, u64)) -> Self {
        Self { endpoint, skew_ns, error_ns }
    }
}

impl From<Skew> for (u32, i64, u64) {
    fn from(skew: Skew) -> Self {
        (skew.endpoint, skew.skew_ns, skew.error_ns)
    }
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "clock-skew",
    summary: "how far the clock of each endpoint is off, hop by hop",
    params: &[
        Param {
            name: "window",
            meaning: "of how many last rounds the one of the least delay is used: 1 to 1024; 16 by default",
        },
        Param { name: "hops", meaning: "true to be told each hop's skew beside their sum; false by default" },
    ],
    made: Made::Filter(|name| named(name, ClockSkew)),
};

impl FilterKind for ClockSkew {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>> {
        let params: Params = read(params)?;
        let window = within("window", params.window, 1..=WINDOW_MAX)? as usize;
        let (rounds, children) = (VecDeque::new(), BTreeMap::new());
        Ok(Box::new(Measuring { window, tells_hops: params.hops, rounds, next_round: 0, children }))
    }
}

/// A round as this node saw it: the parent's probe when it came, and its own, that it sent on at once.
struct Round {
    own: Probe,
    parents: Option<Probe>,
}

struct Measuring {
    window: usize,
    tells_hops: bool,
    /// The last rounds, oldest first.
    rounds: VecDeque<Round>,
    next_round: u64,
    children: BTreeMap<Source, Best>,
}

impl Filter for Measuring {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        let (mut told, mut newest) =
            (ClockSkews { skews: Vec::new(), hops: Vec::new(), answers: None }, None);
        for piece in wave.pieces {
            let answered = match piece.source {
                Source::Endpoint(endpoint) => {
                    told.skews.push(Skew { endpoint, skew_ns: 0, error_ns: 0 });
                    told.hops.extend(self.tells_hops.then(Vec::new));
                    Some(piece.read::<Probe>()?)
                }
                Source::Child(_) => {
                    let reply: ClockSkews = piece.read()?;
                    let answers = reply.answers.ok_or_else(|| piece.refused(no_answer()))?;
                    self.take(piece.source, answers, wave.now_ns);
                    self.add(piece.source, reply, &mut told);
                    Some(answers.probe)
                }
            };
            newest = newest.max(answered.and_then(|probe| self.position(probe)));
        }
        let answers = newest.and_then(|at| self.rounds[at].parents.zip(Some(self.rounds[at].own)));
        told.answers =
            answers.map(|(probe, own)| Answer { probe, received_ns: own.sent_ns, replied_ns: wave.now_ns });
        if newest.is_some() && !told.skews.is_empty() {
            out.push(told.encode()?);
        }
        Ok(())
    }

    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        // What the front-end sends has no probe in it: its node's clock is the one that all are held against.
        let parents = if descent.payload.is_empty() { None } else { Some(Probe::decode(descent.payload)?) };
        let own = Probe { round: self.next_round, sent_ns: descent.now_ns };
        out.push(own.encode()?);
        self.next_round += 1;
        if self.rounds.len() == ROUNDS_MAX {
            self.rounds.pop_front();
        }
        self.rounds.push_back(Round { own, parents });
        Ok(())
    }

    fn replaced(&mut self, lost: Source, _heirs: &[Source]) {
        self.children.remove(&lost);
    }
}

impl Measuring {
    fn position(&self, probe: Probe) -> Option<usize> {
        self.rounds.iter().rposition(|round| round.own == probe)
    }

    /// One more measurement of the hop to `child`, if it answers a probe of this node.
    fn take(&mut self, child: Source, answer: Answer, now_ns: u64) {
        if self.position(answer.probe).is_some()
            && let Some(offset) = Offset::of(&answer, now_ns)
        {
            self.children.entry(child).or_default().take(answer.probe.round, offset, self.window);
        }
    }

    /// Adds what `child` told, brought from its clock to this one.
    fn add(&self, child: Source, reply: ClockSkews, told: &mut ClockSkews) {
        let Some(hop) = self.children.get(&child).and_then(Best::offset) else { return };
        if self.tells_hops {
            // A child that tells none is of another version: its part of the way is one hop less.
            let mut below = reply.hops.into_iter().chain(std::iter::repeat(Vec::new()));
            told.hops.extend(below.by_ref().take(reply.skews.len()).map(|mut hops| {
                hops.insert(0, hop);
                hops
            }));
        }
        told.skews.extend(reply.skews.iter().map(|skew| Skew {
            endpoint: skew.endpoint,
            skew_ns: skew.skew_ns.saturating_add(hop.skew_ns),
            error_ns: skew.error_ns.saturating_add(hop.error_ns),
        }));
    }
}

#[cold]
fn no_answer() -> OperatorError {
    OperatorError::new("a child's packet has no `answers`: it was sent by a node that got no probe")
}

#[cfg(test)]
mod tests;
