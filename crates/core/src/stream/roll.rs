//! The roll of a stream at this node: which endpoints are below, which of them are away, and which a wave waits for.
//!
//! Every endpoint of the group is at one place: hosted here, accounted for by one child, or given up by this
//! node. A child reports which of its endpoints are there (`news`); it can't add others itself. An endpoint
//! that joins or comes back takes part from a tag on, and sends all tags from there on. Earlier waves do not
//! wait for it, and later waves never wait in vain.

use super::lane::{GATHERED, Slot};
use super::spec::Synchronisation;
use super::state::{Roll, StreamState};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::wave::losses::{Tally, note};
use alloc::vec::Vec;
use smallvec::SmallVec;

/// A wave this far behind the settled ones is not waited for any more, even if endpoints are missing from it.
const COHORT_WAVES_MAX: u64 = 16_384;

/// Endpoints that are expected only from some tag on.
#[derive(Debug)]
pub(crate) struct Cohort {
    pub(crate) first_tag: u64,
    pub(crate) endpoints: PartitionSet,
    /// Node and reason with which they are missing from earlier waves; `None` if earlier waves did not expect
    /// them.
    pub(crate) was: Option<(Option<NodeId>, Reason)>,
}

/// The roll before endpoints joined.
#[derive(Debug)]
pub(crate) struct Attendance {
    group: PartitionSet,
    away: PartitionSet,
}

impl Roll {
    /// True if no endpoint is away, and all are expected in all waves.
    fn is_whole(&self) -> bool {
        self.away_set.is_empty() && self.away_below.is_empty() && self.cohorts.is_empty()
    }

    /// True if counting shows that a wave of lane 0 waits: all endpoints take part, and not all are in it.
    pub(crate) fn lacks_somebody<P: Payload>(&self, slot: &Slot<P>) -> bool {
        let waits_for_everyone = self.is_whole() && slot.excused.is_empty() && !slot.is_late;
        waits_for_everyone && slot.parts.claimed().len() < self.group.len()
    }
}

impl<P: Payload> StreamState<P> {
    /// The endpoints that a wave waits for.
    fn expected(&self, key: u64) -> PartitionSet {
        let mut expected = self.roll.group.difference(&self.roll.away_set).difference(&self.roll.away_below);
        for cohort in self.roll.cohorts.iter().filter(|cohort| cohort.first_tag > key) {
            expected = expected.difference(&cohort.endpoints);
        }
        expected
    }

    /// True if no more pieces will come to a wave of lane 0.
    pub(crate) fn is_complete(&self, slot: &Slot<P>) -> bool {
        let claimed = slot.parts.claimed();
        if slot.is_late {
            return self.is_rest(slot);
        }
        if self.roll.is_whole() && slot.excused.is_empty() {
            // Endpoints that were here until recently may be in it, too.
            return self.roll.group.is_subset(claimed);
        }
        self.expected(slot.key).difference(claimed).is_subset(&slot.excused)
    }

    /// The last endpoint up to `from` that a wave of lane 0 waits for.
    pub(crate) fn awaited_upto(&self, slot: &Slot<P>, from: u32) -> Option<u32> {
        if slot.is_late && self.terms.spec.synchronisation == Synchronisation::WaitForAll {
            return None;
        }
        let cohorts = self.roll.cohorts.iter().filter(|cohort| cohort.first_tag > slot.key);
        let mut others: SmallVec<[&PartitionSet; 8]> = SmallVec::from_slice(&[
            slot.parts.claimed(),
            &slot.excused,
            &self.roll.away_set,
            &self.roll.away_below,
        ]);
        others.extend(cohorts.map(|cohort| &cohort.endpoints));
        if slot.is_late {
            others.extend(self.gone_with(slot.key));
        }
        last_of_no_other(&self.roll.group, from, &others)
    }

    /// The contributors of each result that was sent for a wave, and of the one in the filter.
    fn gone_with(&self, key: u64) -> impl Iterator<Item = &PartitionSet> {
        let sent = self.row.lanes.get(&GATHERED).into_iter().flat_map(move |lane| lane.sent.under(key));
        let at_work = self.filtering.state.wave_at_work(GATHERED, key).into_iter();
        sent.map(|sent| &sent.contributors).chain(at_work)
    }

    /// True for a slot of late pieces that has all that its wave lacked.
    ///
    /// With time-outs, late pieces are gathered as well: otherwise the number of late parts would grow with
    /// the number of late endpoints. With `WaitForAll`, late pieces have nothing to wait for.
    fn is_rest(&self, slot: &Slot<P>) -> bool {
        if self.terms.spec.synchronisation == Synchronisation::WaitForAll {
            return true;
        }
        let mut lacking = self.expected(slot.key).difference(slot.parts.claimed());
        for gone in self.gone_with(slot.key) {
            lacking = lacking.difference(gone);
        }
        lacking.is_subset(&slot.excused)
    }

    /// True if [`regroup`](Self::regroup) would change nothing. Examines all children.
    pub(crate) fn is_grouped(&self) -> bool {
        let mut group: PartitionSet = self.own.iter().map(|own| own.endpoint).collect();
        let mut away_below = PartitionSet::new();
        for child in self.seat.children.iter() {
            group.union_with(&child.answers_for);
            child.more.away.iter().for_each(|loss| away_below.union_with(&loss.partitions));
        }
        self.roll.away.iter().for_each(|loss| group.union_with(&loss.partitions));
        group == self.roll.group && away_below == self.roll.away_below
    }

    /// Recomputes the sets that are derived from endpoints and children.
    pub(crate) fn regroup(&mut self) {
        self.roll.own_set = self.own.iter().map(|own| own.endpoint).collect();
        self.roll.group = self.roll.own_set.clone();
        self.roll.away_below = PartitionSet::new();
        let mut height = 0;
        for child in self.seat.children.iter() {
            self.roll.group.union_with(&child.answers_for);
            child.more.away.iter().for_each(|loss| self.roll.away_below.union_with(&loss.partitions));
            height = height.max(child.height() as u32 + 1);
        }
        // Endpoints that are away stay in the group, whether or not a node here can account for them.
        self.roll.away.iter().for_each(|loss| self.roll.group.union_with(&loss.partitions));
        self.row.height = height;
        self.recount_away();
    }

    /// Drops empty losses, recomputes the set of absent endpoints, and drops endpoints of cohorts that left
    /// the group.
    fn recount_away(&mut self) {
        self.roll.away.retain(|loss| !loss.partitions.is_empty());
        self.roll.away_set = PartitionSet::new();
        self.roll.away.iter().for_each(|loss| self.roll.away_set.union_with(&loss.partitions));
        let group = &self.roll.group;
        for cohort in &mut self.roll.cohorts {
            cohort.endpoints = cohort.endpoints.intersection(group);
        }
        self.roll.cohorts.retain(|cohort| !cohort.endpoints.is_empty());
    }

    /// All endpoints below that give nothing now, with reasons, as far as this node knows.
    pub(crate) fn all_away(&self, losses_max: usize) -> Vec<Missing> {
        let (mut all, mut said) = (Vec::new(), PartitionSet::new());
        for loss in self.losses() {
            let partitions = loss.partitions.difference(&said);
            said.union_with(&partitions);
            note(&mut all, Missing { partitions, ..loss.clone() }, losses_max);
        }
        all
    }

    /// All losses, those whose reasons hold longest first: if a child lags here, or is called back, and has itself
    /// lost endpoints, the loss counts. They do not come back when the child does.
    fn losses(&self) -> impl Iterator<Item = &Missing> {
        let below = || self.seat.children.iter().flat_map(|child| &child.more.away);
        let known = move |gravity| {
            self.roll.away.iter().chain(below()).filter(move |loss| Gravity::of(&loss.reason) == gravity)
        };
        known(Gravity::Lasts).chain(known(Gravity::IsSilent)).chain(known(Gravity::Lags))
    }

    /// All endpoints below that take part now.
    pub(crate) fn present(&self) -> PartitionSet {
        self.roll.group.difference(&self.roll.away_set).difference(&self.roll.away_below)
    }

    /// Which of these endpoints are in the group now, and which of them give nothing.
    pub(crate) fn attendance(&self, endpoints: &PartitionSet) -> Attendance {
        let group = self.roll.group.intersection(endpoints);
        let mut away = group.intersection(&self.roll.away_set);
        away.union_with(&group.intersection(&self.roll.away_below));
        Attendance { group, away }
    }

    /// All endpoints below that take part, or lag: no node need bring them back.
    pub(crate) fn attending(&self) -> PartitionSet {
        let below = self.seat.children.iter().flat_map(|child| &child.more.away);
        let losses = self.roll.away.iter().chain(below);
        let mut attending = self.roll.group.clone();
        for loss in losses.filter(|loss| loss.reason != Reason::Lagging) {
            attending = attending.difference(&loss.partitions);
        }
        attending
    }

    /// Marks endpoints as away until further notice. A graver reason replaces another.
    pub(crate) fn put_away(&mut self, loss: Missing) {
        let gravity = Gravity::of(&loss.reason);
        if self.roll.away_set.intersects(&loss.partitions) {
            for known in self.roll.away.iter_mut().filter(|known| Gravity::of(&known.reason) < gravity) {
                let graver = known.partitions.intersection(&loss.partitions);
                known.partitions = known.partitions.difference(&graver);
                self.roll.away_set = self.roll.away_set.difference(&graver);
            }
            self.roll.away.retain(|known| !known.partitions.is_empty());
        }
        let fresh = loss.partitions.difference(&self.roll.away_set);
        if !fresh.is_empty() {
            self.roll.away_set.union_with(&fresh);
            self.roll.away.push(Missing { partitions: fresh, ..loss });
        }
        self.roll.news_due = true;
    }

    /// Lets endpoints take part from `first_tag` on.
    ///
    /// Endpoints that were in the group before are missing from the waves until then. `before` must cover
    /// these endpoints, and may omit all others.
    pub(crate) fn bring_back(&mut self, endpoints: &PartitionSet, before: &Attendance, first_tag: u64) {
        let mut rest = endpoints.intersection(&self.roll.group);
        if self.is_past(first_tag) {
            // No older wave is open, so this changes nothing for endpoints that were not away.
            rest = rest.intersection(&before.away);
        }
        for known in self.roll.cohorts.iter().filter(|cohort| cohort.first_tag == first_tag) {
            // Endpoints that already begin with this tag keep their entry, unless they were away.
            rest = rest.difference(&rest.intersection(&known.endpoints).difference(&before.away));
        }
        if rest.is_empty() {
            return;
        }
        if !self.roll.is_opening {
            self.roll.joined.push((rest.clone(), first_tag));
        }
        self.roll.news_due = true;
        // A new beginning replaces an earlier one.
        for cohort in self.roll.cohorts.iter_mut().filter(|cohort| cohort.endpoints.intersects(&rest)) {
            cohort.endpoints = cohort.endpoints.difference(&rest);
        }
        for loss in self.roll.away.iter_mut().filter(|loss| loss.partitions.intersects(endpoints)) {
            let returned = loss.partitions.intersection(&rest);
            if returned.is_empty() {
                continue;
            }
            rest = rest.difference(&returned);
            loss.partitions = loss.partitions.difference(&returned);
            let was = Some((loss.node, loss.reason.clone()));
            self.roll.cohorts.push(Cohort { first_tag, endpoints: returned, was });
        }
        // If another node gave an endpoint up, only that node knows the reason. An endpoint that is new has
        // no reason.
        let returned = rest.intersection(&before.group);
        for (endpoints, was) in [(rest.difference(&returned), None), (returned, Some((None, Reason::Late)))] {
            if !endpoints.is_empty() {
                self.roll.cohorts.push(Cohort { first_tag, endpoints, was });
            }
        }
        self.recount_away();
    }

    /// Lets endpoints here begin with this tag, regardless of earlier reports.
    ///
    /// Endpoints that were not away are missing from no wave: they are new here, or the earlier waves were
    /// dropped.
    pub(crate) fn begin_with(&mut self, endpoints: &PartitionSet, first_tag: u64) {
        let away = self.roll.away_set.clone();
        self.bring_back(endpoints, &Attendance { group: away.clone(), away }, first_tag);
    }

    /// Lists all present endpoints and their first tags in the next news.
    ///
    /// The first tag is 0 for endpoints that have been here for all waves that may still be waited for.
    pub(crate) fn tell_beginnings(&mut self) {
        let present = self.present();
        let mut rest = present.clone();
        self.roll.joined.clear();
        for cohort in &self.roll.cohorts {
            let endpoints = cohort.endpoints.intersection(&present);
            rest = rest.difference(&endpoints);
            if !endpoints.is_empty() {
                self.roll.joined.push((endpoints, cohort.first_tag));
            }
        }
        if !rest.is_empty() {
            self.roll.joined.push((rest, 0));
        }
    }

    /// Drops cohorts that all open waves include: their endpoints are like all others.
    pub(crate) fn forget_cohorts(&mut self) {
        if self.roll.cohorts.is_empty() {
            return;
        }
        let mut cohorts = core::mem::take(&mut self.roll.cohorts);
        cohorts.retain(|cohort| !self.is_past(cohort.first_tag));
        self.roll.cohorts = cohorts;
    }

    /// True if no earlier wave is waited for: all are settled, or so old that they have gone as they were.
    fn is_past(&self, first_tag: u64) -> bool {
        let settled = self.row.lanes.get(&GATHERED).map(|lane| &lane.settled);
        let (gap, last) =
            settled.map_or((1, 0), |settled| (settled.first_gap(), settled.last().unwrap_or(0)));
        !self.gathers() || first_tag <= gap || first_tag.saturating_add(COHORT_WAVES_MAX) <= last
    }

    /// Endpoints that are not in a wave, with reasons.
    pub(crate) fn missing_from(&self, me: NodeId, slot: &Slot<P>, losses_max: usize) -> Vec<Missing> {
        let claimed = slot.parts.claimed();
        if !self.gathers() {
            // The wave has one endpoint. If its packet came from one child, a loss reported by another does
            // not count.
            return if claimed.is_empty() { slot.missing.to_vec() } else { Vec::new() };
        }
        if slot.is_late || (slot.missing.is_empty() && *claimed == self.roll.group) {
            return Vec::new();
        }
        let mut tally = Tally::of(self.roll.group.difference(claimed), losses_max);
        for loss in slot.missing.iter().chain(self.losses()) {
            tally.take(&loss.partitions, loss.node, &loss.reason);
        }
        for cohort in self.roll.cohorts.iter().filter(|cohort| cohort.first_tag > slot.key) {
            match &cohort.was {
                Some((node, reason)) => tally.take(&cohort.endpoints, *node, reason),
                None => tally.rest = tally.rest.difference(&cohort.endpoints),
            }
        }
        tally.take(&self.roll.own_set, Some(me), &Reason::Late);
        for seat in self.seat.children.iter().flat_map(|child| child.tree().seats()) {
            if tally.rest.is_empty() {
                return tally.missing;
            }
            tally.take(&seat.partitions, Some(seat.node), &Reason::Late);
        }
        let all = tally.rest.clone();
        tally.take(&all, None, &Reason::Late);
        tally.missing
    }
}

/// How grave it is that an endpoint is away: by that, it takes part again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gravity {
    /// It comes back by itself.
    Lags,
    /// It must be called back, or was and has not been heard yet. One that lagged before does not come back by itself any more.
    IsSilent,
    /// It has failed or is lost.
    Lasts,
}

impl Gravity {
    fn of(reason: &Reason) -> Self {
        match reason {
            Reason::Lagging => Self::Lags,
            Reason::Late => Self::IsSilent,
            _ => Self::Lasts,
        }
    }
}

/// The last member of `set` up to `from` that is in none of the others. Visits each of their runs once.
fn last_of_no_other(set: &PartitionSet, from: u32, others: &[&PartitionSet]) -> Option<u32> {
    let mut last = last_upto(set, from)?;
    while let Some(start) = others.iter().find_map(|other| start_of_run(other, last)) {
        last = last_upto(set, start.checked_sub(1)?)?;
    }
    Some(last)
}

/// The last member of a set up to `upto`.
fn last_upto(set: &PartitionSet, upto: u32) -> Option<u32> {
    set.last_run_from(upto).map(|(_, end)| upto.min(end - 1))
}

/// The start of the run that contains `one`, if the set contains it.
fn start_of_run(set: &PartitionSet, one: u32) -> Option<u32> {
    set.last_run_from(one).filter(|&(_, end)| end > one).map(|(start, _)| start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn last_of_no_other_matches_a_model_of_number_sets(
            set in proptest::collection::btree_set(0u32..80, 0..60),
            others in proptest::collection::vec(proptest::collection::btree_set(0u32..80, 0..40), 0..4),
            from in prop_oneof![0u32..90, Just(u32::MAX)],
        ) {
            let of_numbers = |numbers: &BTreeSet<u32>| numbers.iter().copied().collect::<PartitionSet>();
            let sets: Vec<PartitionSet> = others.iter().map(of_numbers).collect();
            let expected =
                set.iter().rev().find(|&&one| one <= from && others.iter().all(|other| !other.contains(&one)));
            let found = last_of_no_other(&of_numbers(&set), from, &sets.iter().collect::<Vec<_>>());
            prop_assert_eq!(found, expected.copied());
        }
    }
}
