//! An acknowledged event is never lost, and as many mirrors have had it as were asked for.
//!
//! The effect of an event is the first event of its stream, key and type with its number or a later one: the event
//! itself, or one that has taken it up. An event has no effect if its source will repeat a later one that leaves nothing of
//! it. The effect is part of the feed when the event is acknowledged, and it stays: the reference
//! never loses an event, and every mirror is compared with it. Events that a rule may suppress are left out, because the
//! acknowledgement then means that no effect will come. Without a journal, events are lost with their origin.

use super::Finding;
use crate::world::feeds::{Feed, News};
use std::collections::{BTreeMap, BTreeSet};
use treefold_mirror::Name;
use treefold_mirror::rules::RuleKind;

/// The acknowledged events.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// For each stream, the last number that an origin has acknowledged.
    numbers: BTreeMap<Name, u64>,
    /// The greatest position that each mirror has had, in any of its processes.
    held: BTreeMap<u32, u64>,
}

/// The types whose events rules may suppress or replace.
pub fn suppressible(feed: &Feed) -> BTreeSet<Name> {
    let mut types = BTreeSet::new();
    for rule in feed.plan().rules.iter().flat_map(|file| &file.rules) {
        match &rule.kind {
            RuleKind::Discard(discard) => _ = types.insert(discard.0.kind.clone()),
            RuleKind::Sequence(sequence) => _ = types.insert(sequence.discard.clone()),
            RuleKind::Tuple(tuple) => {
                types.extend(tuple.of.iter().map(|part| part.kind.clone()));
                types.insert(tuple.becomes.clone());
            }
            RuleKind::Function(used) => _ = types.insert(used.kind.clone()),
            RuleKind::Overwrite(_) | RuleKind::Coalesce(_) => {}
        }
    }
    types
}

impl Acknowledged {
    pub(super) fn take(&mut self, feed: &Feed, news: &News) -> Finding {
        match news {
            News::FeedBegun { .. } => self.held.clear(),
            News::Applied { mirror, to: cut, .. } | News::Restored { mirror, after: cut, .. }
                if feed.history().is_of_feed(*cut) =>
            {
                let held = self.held.entry(mirror.1).or_default();
                *held = (*held).max(cut.position);
            }
            News::Refused { refusal } => return Err(format!("a source was refused: {refusal}")),
            News::Acknowledged { epoch, stream, number } if *epoch >= feed.history().first_epoch => {
                let from = self.numbers.insert(stream.clone(), *number).unwrap_or(0);
                return self.check(feed, stream, from + 1..=*number);
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self, feed: &Feed, stream: &Name, numbers: std::ops::RangeInclusive<u64>) -> Finding {
        let left_out = suppressible(feed);
        let Some(source) = feed.plan().sources.iter().find(|source| source.stream == *stream) else {
            return Err(format!("stream {stream} is of no source"));
        };
        for number in numbers.clone() {
            let Some(event) = source.events.get(number as usize - 1) else {
                return Err(format!("event {number} of {stream} does not exist"));
            };
            if left_out.contains(&event.kind) {
                continue;
            }
            let effect = feed.history().iter().find(|(_, decided)| {
                let found = &decided.event;
                found.stream == event.stream
                    && found.number >= number
                    && found.key == event.key
                    && found.kind == event.kind
            });
            // Its source will repeat a later event that leaves nothing of this one.
            let is_later = |later: &&treefold_mirror::Event| {
                later.key == event.key && later.kind == event.kind && later.replaces(event)
            };
            if effect.is_none() && source.events[*numbers.end() as usize..].iter().any(|e| is_later(&e)) {
                continue;
            }
            let Some((position, _)) = effect else {
                let (kind, key, last) = (&event.kind, &event.key, feed.history().last());
                return Err(format!(
                    "event {number} of {stream}, a {kind} of {key}, is acknowledged, but is not among the {last} events \
                     of the feed"
                ));
            };
            let had = self.held.values().filter(|&&held| held >= position).count();
            if had < feed.plan().copies as usize {
                let copies = feed.plan().copies;
                return Err(format!(
                    "event {number} of {stream} is acknowledged, but {had} of {copies} mirrors have had position \
                     {position}"
                ));
            }
        }
        Ok(())
    }
}
