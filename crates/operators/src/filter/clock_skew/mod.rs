//! Measures the skew of each endpoint's clock against the front-end's, hop by hop (MRNet §3.1).
//!
//! ```text
//!   parent        t0 ──probe──▶            ◀──reply── t3        skew  = ((t1−t0) + (t2−t3)) / 2
//!   child                      t1 ……… t2                        delay = (t3−t0) − (t2−t1)
//! ```
//!
//! A node's `down` stamps each probe that passes, and its `up` stamps the reply. From the four stamps of a
//! hop, a parent computes how far its child's clock is ahead, as NTP does (RFC 5905 §8). It adds that to the
//! skews that the child reports for every endpoint below it. So each node sends probes only to its own
//! children, however many endpoints there are. If the front-end asked `n` endpoints directly, it would send
//! `n` probes itself.
//!
//! The bound: for any delays in the two directions of a hop, the computed skew is wrong by at most half the
//! round-trip delay. On the way up, the errors are added, as the skews are. The bound holds if both clocks
//! run at the same rate during a round. The round with the least delay is the most exact, so of the last
//! `window` rounds of each child that one is used. Because the window moves on, it follows clocks that drift.
//!
//! A round begins when the front-end sends an empty packet. It ends for an endpoint when the endpoint sends
//! back the [`Probe`] that it received. Under `do_not_wait`, a reply is stamped when it arrives. Under a
//! synchronisation that gathers, the wait for slower siblings is part of the delay, and so of the bound.
//!
//! Endpoints use their node's clock. A reply to an unknown probe is ignored, because its stamps belong to
//! another clock. This happens when a reply was in flight while its sender lost its parent.

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

/// Most rounds in flight; beyond it, the oldest are forgotten.
pub const ROUNDS_MAX: usize = 64;

/// Largest value of `window`: remembered rounds per child.
pub const WINDOW_MAX: u32 = 1024;

/// The filter `clock-skew`; it is both the up-filter and the down-filter of its stream.
///
/// The front-end sends empty packets, endpoints send back the packets they receive, and the front-end gets
/// [`ClockSkews`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockSkew;

/// The parameters that a stream may set.
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

/// A node's question to the nodes and endpoints below. An endpoint sends it back unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Number of the round at the sending node.
    pub round: u64,
    /// Time when the node sent it, by that node's clock.
    pub sent_ns: u64,
}

/// The skew of one endpoint's clock against the clock of the node that holds this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, i64, u64)", into = "(u32, i64, u64)")]
pub struct Skew {
    /// The endpoint's number.
    pub endpoint: u32,
    /// How far its clock is ahead; negative if it is behind.
    pub skew_ns: i64,
    /// Largest possible error of `skew_ns`, in either direction.
    pub error_ns: u64,
}

/// The packet that goes up, also to the front-end: the skews of the endpoints that answered in this wave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSkews {
    /// The skews against the clock of the node that reports them; at the front-end, against its own clock.
    pub skews: Vec<Skew>,
    /// The hops whose offsets add up to each skew, if the stream asked for them.
    ///
    /// There is one entry for each of `skews`, in the same order. Each lists the hops from this node's child
    /// down to the endpoint's node. It is empty for an endpoint on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Vec<Offset>>,
    /// The answer to the parent's probe, stamped with this node's clock; `None` at the root.
    pub answers: Option<Answer>,
}

/// A probe with the times at the node that received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The parent's probe.
    pub probe: Probe,
    /// Time when the probe arrived.
    pub received_ns: u64,
    /// Time when the node replied.
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
    summary: "measures the skew of each endpoint's clock, hop by hop",
    params: &[
        Param {
            name: "window",
            meaning: "last rounds of which the one with the least delay is used: 1 to 1024; 16 by default",
        },
        Param { name: "hops", meaning: "true to report each hop's skew beside the sum; false by default" },
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

/// A round at this node: the parent's probe, if there was one, and the probe that this node sent on at once.
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
        // The front-end's packet contains no probe: the clock of its node is the reference for all others.
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

    /// Records one more measurement of the hop to `child`, if it answers a probe of this node.
    fn take(&mut self, child: Source, answer: Answer, now_ns: u64) {
        if self.position(answer.probe).is_some()
            && let Some(offset) = Offset::of(&answer, now_ns)
        {
            self.children.entry(child).or_default().take(answer.probe.round, offset, self.window);
        }
    }

    /// Adds the skews that `child` reported, converted from its clock to this node's.
    fn add(&self, child: Source, reply: ClockSkews, told: &mut ClockSkews) {
        let Some(hop) = self.children.get(&child).and_then(Best::offset) else { return };
        if self.tells_hops {
            // A child of an older version reports no hops. Its lists then contain only the hop to this child.
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
