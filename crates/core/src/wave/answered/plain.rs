//! Answered waves in which nothing unusual happened, kept in a fraction of the memory.
//!
//! Nearly every answered wave holds one part, lost nothing and reports nothing. It also has the aggregation, the parent and the
//! partitions of a wave that was answered shortly before. Such a wave keeps only the data that differ from wave to wave, and
//! shares its terms with the others. A request for it makes an [`Answered`] of it again.

use super::Answered;
use crate::id::Tag;
use crate::message::Payload;
use crate::params::Params;
use crate::partitions::PartitionSet;
use crate::seat::Parent;
use crate::time::Instant;
use crate::wave::ask::Ask;
use crate::wave::contributors::{LotNumber, Parts};
use crate::wave::losses::Losses;
use crate::wave::slice::Slice;
use crate::wave::tale::{Tale, Timing};
use crate::wave::wait::Waiting;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Terms that are compared with those of the next wave. More are not worth the search.
const RECENT_MAX: usize = 4;

/// The terms of plain waves.
///
/// Thirteen fields, because they are the fields of [`Ask`] and [`Answered`] that repeat.
#[derive(Debug, PartialEq)]
struct Terms {
    slice: Slice,
    name: Arc<str>,
    kind: Option<u32>,
    account_id: usize,
    waiting: Waiting,
    losses_max: u32,
    hedge: bool,
    loads_wanted: bool,
    parent: Parent,
    asked: PartitionSet,
    own: PartitionSet,
    contributors: PartitionSet,
    lots: LotNumber,
}

/// The terms of the latest plain waves, the latest first.
#[derive(Debug, Default)]
pub(crate) struct Recent(SmallVec<[Arc<Terms>; RECENT_MAX]>);

impl Recent {
    fn share(&mut self, terms: Terms) -> Arc<Terms> {
        let found = self.0.iter().position(|recent| **recent == terms);
        let shared = match found {
            Some(0) => return Arc::clone(&self.0[0]),
            Some(at) => self.0.remove(at),
            None => Arc::new(terms),
        };
        self.0.truncate(RECENT_MAX - 1);
        self.0.insert(0, Arc::clone(&shared));
        shared
    }
}

/// An answered wave with one part, without losses, and without anything else that a repair may need.
#[derive(Debug)]
pub(crate) struct Plain<P> {
    tag: Tag,
    terms: Arc<Terms>,
    arrived_at: Instant,
    deadline_at: Instant,
    params: P,
    payload: P,
}

impl<P: Payload> Plain<P> {
    /// Makes a wave plain.
    ///
    /// # Errors
    /// Returns the wave if it is not: it has several parts or none, losses, a report, offers, or parameters besides
    /// the common ones.
    pub(crate) fn of(mut wave: Answered<P>, recent: &mut Recent) -> Result<Self, Box<Answered<P>>> {
        if !wave.is_plain() {
            return Err(Box::new(wave));
        }
        let Some((part, lots)) = wave.parts.take_only() else { return Err(Box::new(wave)) };
        let Answered { tag, asked, ask, parent, own, tale, .. } = wave;
        let Ask { slice, name, kind, account_id, params, deadline_at, .. } = ask;
        let terms = recent.share(Terms {
            slice,
            name,
            kind,
            account_id,
            waiting: ask.waiting,
            losses_max: ask.losses_max,
            hedge: ask.hedge,
            loads_wanted: ask.loads_wanted,
            parent,
            asked,
            own,
            contributors: part.contributors,
            lots,
        });
        let arrived_at = tale.timing.arrived_at;
        Ok(Self { tag, terms, arrived_at, deadline_at, params: params.common, payload: part.payload })
    }

    /// Makes the wave whole again.
    pub(crate) fn whole(self) -> Box<Answered<P>> {
        let Self { tag, terms, arrived_at, deadline_at, params, payload } = self;
        let ask = Ask {
            slice: terms.slice,
            name: Arc::clone(&terms.name),
            kind: terms.kind,
            account_id: terms.account_id,
            params: Params::from(params),
            deadline_at,
            waiting: terms.waiting,
            losses_max: terms.losses_max,
            hedge: terms.hedge,
            explain: false,
            loads_wanted: terms.loads_wanted,
            push: None,
            in_flight: 0,
            whole: false,
        };
        // Only reports show the other times, and whether the wave's own part is done is what else counts.
        let timing = Timing { own_done_at: Some(arrived_at), ..Timing::starting(arrived_at) };
        Box::new(Answered {
            tag,
            asked: terms.asked.clone(),
            ask,
            parent: terms.parent,
            deposed: SmallVec::new(),
            own: terms.own.clone(),
            parts: Parts::of_only(payload, terms.contributors.clone(), terms.lots),
            losses: Losses::default(),
            tale: Tale { timing, ..Tale::starting(arrived_at) },
            missing: Vec::new(),
            offered: Vec::new(),
        })
    }

    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    pub(crate) fn deadline_at(&self) -> Instant {
        self.deadline_at
    }

    /// Bytes of its partial and its parameters.
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + self.params.len()
    }
}

impl<P: Payload> Answered<P> {
    fn is_plain(&self) -> bool {
        let Ask { explain, push, params, .. } = &self.ask;
        let tells_nothing = !explain && self.tale.reports.is_empty() && self.tale.heard.is_empty();
        let is_whole =
            self.missing.is_empty() && self.losses.are_none() && self.tale.timing.own_done_at.is_some();
        let is_settled = self.deposed.is_empty() && self.offered.is_empty();
        tells_nothing && is_whole && is_settled && push.is_none() && params.are_common()
    }
}

#[cfg(test)]
pub(crate) mod tests;
