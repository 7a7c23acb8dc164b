//! The state of one node's `time-aligned`: the sources, the intervals they have filled, and the amounts.
//!
//! The samples of a source arrive in order of time. So a source has filled all intervals before its
//! watermark, and only the interval that contains the watermark is filled in part. The partial interval is
//! kept with the source. Filled intervals are reduced into rows that all sources share. Memory is therefore
//! one row of metrics per source and one per waiting interval, independent of the number of samples.

use super::packets::{Aligned, Metrics, Sample};
use super::{Params, Reduction, Source};
use crate::fold::Extremes;
use std::collections::BTreeMap;

/// The contribution of one source.
pub(super) enum Contribution {
    /// An endpoint's sample, over an interval of any position and length.
    Part(Sample),
    /// A child's whole contribution to one output interval.
    Whole(Aligned),
}

/// The amounts of one output interval, of one source or reduced over several.
struct Amounts {
    values: Vec<f64>,
    endpoints: u32,
    /// The oldest tag with a contribution in it.
    tag: u64,
}

/// The progress of one source through time.
struct Track {
    /// Time up to which the source has been counted.
    watermark_ns: u64,
    /// Its amounts for the interval that contains the watermark.
    part: Option<Amounts>,
    /// Whether it has sent anything.
    heard: bool,
}

impl Track {
    fn from(watermark_ns: u64) -> Self {
        Self { watermark_ns, part: None, heard: false }
    }
}

/// All sources of one node.
pub(super) struct Alignment {
    params: Params,
    tracks: BTreeMap<Source, Track>,
    /// Intervals that at least one source has filled, by number: each begins at number · `interval_ns`.
    open: BTreeMap<u64, Amounts>,
    /// All intervals before this time have gone up or were abandoned.
    closed_to_ns: u64,
}

impl Alignment {
    pub(super) fn new(params: Params) -> Self {
        Self { params, tracks: BTreeMap::new(), open: BTreeMap::new(), closed_to_ns: 0 }
    }

    pub(super) fn params(&self) -> &Params {
        &self.params
    }

    /// Waits for `source` from now on, beginning with the oldest interval that has not gone up.
    pub(super) fn join(&mut self, source: Source) {
        self.tracks.entry(source).or_insert(Track::from(self.closed_to_ns));
    }

    /// Stops waiting for `lost`. Waits for `heirs` instead, from the watermark of `lost` on.
    pub(super) fn replace(&mut self, lost: Source, heirs: &[Source]) {
        self.join(lost); // a source that never sent anything can be replaced too
        let Some(track) = self.tracks.remove(&lost) else { return };
        let watermark_ns = track.watermark_ns.max(self.closed_to_ns);
        self.leave_behind(track);
        for &heir in heirs {
            let heir = self.tracks.entry(heir).or_insert(Track::from(watermark_ns));
            if !heir.heard {
                heir.watermark_ns = watermark_ns; // an heir joins just before it is announced as an heir
            }
        }
    }

    /// Returns the oldest tag with data that is still held here.
    pub(super) fn oldest_tag(&self) -> Option<u64> {
        let parts = self.tracks.values().filter_map(|track| track.part.as_ref());
        self.open.values().chain(parts).map(|amounts| amounts.tag).min()
    }

    /// Takes a contribution that has been checked to fit this stream.
    pub(super) fn take(&mut self, source: Source, contribution: &Contribution, tag: u64) {
        self.join(source);
        let Some(mut track) = self.tracks.remove(&source) else { return };
        track.heard = true;
        match contribution {
            Contribution::Part(sample) => self.take_sample(&mut track, sample, tag),
            Contribution::Whole(aligned) => self.take_aligned(&mut track, aligned, tag),
        }
        self.tracks.insert(source, track);
    }

    fn take_sample(&mut self, track: &mut Track, sample: &Sample, tag: u64) {
        let interval_ns = self.params.interval_ns;
        let mut at = sample.start_ns.max(track.watermark_ns).max(self.closed_to_ns);
        if at >= sample.end_ns {
            return; // all of it has been counted
        }
        if at / interval_ns > track.watermark_ns / interval_ns {
            self.fill(track); // the gap between the samples counts as an amount of zero
        }
        let length_ns = (sample.end_ns - sample.start_ns) as f64;
        while at < sample.end_ns {
            let interval_end = (at / interval_ns).saturating_add(1).saturating_mul(interval_ns);
            let until = sample.end_ns.min(interval_end);
            let share = (until - at) as f64 / length_ns;
            let part = track.part.get_or_insert_with(|| Amounts {
                values: vec![0.0; sample.values.0.len()],
                endpoints: 1,
                tag,
            });
            part.tag = part.tag.min(tag);
            for (amount, value) in part.values.iter_mut().zip(&sample.values.0) {
                *amount += value * share;
            }
            track.watermark_ns = at; // `fill` closes the interval that contains the watermark
            if until == interval_end {
                self.fill(track);
            }
            at = until;
        }
        track.watermark_ns = sample.end_ns;
    }

    fn take_aligned(&mut self, track: &mut Track, aligned: &Aligned, tag: u64) {
        if aligned.start_ns < track.watermark_ns.max(self.closed_to_ns) {
            return; // it has been counted, or it is too late
        }
        let mut values = aligned.values.0.clone();
        if self.params.reduce == Reduction::Average {
            values.iter_mut().for_each(|value| *value *= f64::from(aligned.endpoints));
        }
        let amounts = Amounts { values, endpoints: aligned.endpoints, tag };
        self.reduce(aligned.start_ns / self.params.interval_ns, amounts);
        track.watermark_ns = aligned.end_ns;
    }

    /// Closes the interval of the watermark for this source: it adds nothing more to it.
    fn fill(&mut self, track: &mut Track) {
        if let Some(part) = track.part.take() {
            self.reduce(track.watermark_ns / self.params.interval_ns, part);
        }
    }

    /// Abandons the interval that `track` filled in part. The interval is closed without the rest, or the
    /// source is gone.
    fn leave_behind(&mut self, mut track: Track) {
        if self.params.reduce == Reduction::Sum {
            self.fill(&mut track);
        }
    }

    fn reduce(&mut self, interval: u64, amounts: Amounts) {
        let Some(reduced) = self.open.get_mut(&interval) else {
            self.open.insert(interval, amounts);
            return;
        };
        reduced.endpoints = reduced.endpoints.saturating_add(amounts.endpoints);
        reduced.tag = reduced.tag.min(amounts.tag);
        let pairs = reduced.values.iter_mut().zip(&amounts.values);
        match self.params.reduce {
            Reduction::Sum | Reduction::Average => pairs.for_each(|(all, one)| *all += one),
            Reduction::Min => pairs.for_each(|(all, one)| *all = all.least(*one)),
            Reduction::Max => pairs.for_each(|(all, one)| *all = all.greatest(*one)),
        }
    }

    /// Returns the oldest interval if every source has filled it, or if too many intervals wait behind it.
    pub(super) fn next_filled(&mut self) -> Option<Aligned> {
        let interval_ns = self.params.interval_ns;
        let &oldest = self.open.first_key_value()?.0;
        let end_ns = oldest.saturating_add(1).saturating_mul(interval_ns);
        let filled = self.tracks.values().all(|track| track.watermark_ns >= end_ns);
        if !filled && self.open.len() <= self.params.intervals_max as usize {
            return None;
        }
        if !filled {
            self.stop_waiting_up_to(end_ns);
        }
        // A source left behind may have added a part to an even older interval, which then goes first.
        let (interval, mut amounts) = self.open.pop_first()?;
        let (start_ns, end_ns) =
            (interval * interval_ns, interval.saturating_add(1).saturating_mul(interval_ns));
        self.closed_to_ns = self.closed_to_ns.max(end_ns);
        if self.params.reduce == Reduction::Average {
            amounts.values.iter_mut().for_each(|value| *value /= f64::from(amounts.endpoints));
        }
        let (endpoints, values) = (amounts.endpoints, Metrics(amounts.values));
        Some(Aligned { start_ns, end_ns, endpoints, values })
    }

    /// Stops waiting for all sources up to `end_ns`.
    fn stop_waiting_up_to(&mut self, end_ns: u64) {
        let late: Vec<Source> = self
            .tracks
            .iter()
            .filter(|(_, track)| track.watermark_ns < end_ns)
            .map(|(&source, _)| source)
            .collect();
        for source in late {
            let Some(track) = self.tracks.get_mut(&source) else { continue };
            let ahead = Track { heard: track.heard, ..Track::from(end_ns) };
            let behind = std::mem::replace(track, ahead);
            self.leave_behind(behind);
        }
    }
}
