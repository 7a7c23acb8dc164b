//! The selector: an origin's receiving side, which applies the rules to one event after the other.
//!
//! Its *status table* has an entry for each key that a rule keeps state for: the runs of overwrite rules, the
//! begun sequences, the tuples that wait for parts. An event that is held back is *undecided* until it is
//! sent, or another one has taken it up. No undecided event may be acknowledged, because it would be lost with
//! the origin.

mod change;

use crate::event::{Event, Name};
use crate::limits::MirrorLimits;
use crate::rules::overwrite::{Held, Ran, Run};
use crate::rules::tuple::{Formed, Partial};
use crate::rules::{Discard, Function, Mode, Overwrite, RuleFile, RuleKind, Sequence, Tuple};
use bytestring::ByteString;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use treefold_core::time::Instant;

/// A user's functions by name.
pub type Functions = BTreeMap<Name, Box<dyn Function>>;

/// A file of rules names a function that this origin does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule `{rule}`: function `{function}` is unknown here")]
pub struct UnknownFunction {
    /// The rule.
    pub rule: Name,
    /// The function.
    pub function: Name,
}

/// The work of one rule so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleCount {
    /// Events that the rule has dropped, or that another event has taken up.
    pub suppressed: u64,
    /// Events that were held back and then sent.
    pub released: u64,
    /// Events that the rule has made.
    pub made: u64,
    /// Longest time that a key was behind its newest value because of this rule, in ms.
    pub behind_ms_max: u64,
    /// Errors of the user's function.
    pub errors: u64,
}

/// The stages that an event passes, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Discard,
    Sequence,
    Tuple,
    Function,
    Overwrite,
    Coalesce,
}

fn stage(kind: &RuleKind) -> Stage {
    match kind {
        RuleKind::Discard(_) => Stage::Discard,
        RuleKind::Sequence(_) => Stage::Sequence,
        RuleKind::Tuple(_) => Stage::Tuple,
        RuleKind::Function(_) => Stage::Function,
        RuleKind::Overwrite(_) => Stage::Overwrite,
        RuleKind::Coalesce(_) => Stage::Coalesce,
    }
}

/// Index of a rule in its file.
type RuleIndex = usize;

/// State of the rules for one key.
#[derive(Debug, Default)]
struct KeyStatus {
    runs: Vec<(RuleIndex, Run)>,
    begun: Vec<RuleIndex>,
    partials: Vec<(RuleIndex, Partial)>,
}

impl KeyStatus {
    /// True if `event` would carry a value of the event that run `at` holds past a younger one of another run.
    ///
    /// An event takes up the fields that only the held one has. If another run holds an event that is younger
    /// than the held one, those fields would arrive after it, although they are older.
    fn would_reorder(&self, at: usize, event: &Event) -> bool {
        let held_at = |run: &(RuleIndex, Run)| run.1.held().map(|held| held.order);
        let Some(held) = self.runs[at].1.held() else { return false };
        !event.replaces(&held.event) && self.runs.iter().filter_map(held_at).any(|order| order > held.order)
    }
}

/// Applies rules to events.
pub struct Selector {
    rules: Arc<RuleFile>,
    /// For each mode, the rules that concern a type, by stage and then by their order in the file.
    steps: [HashMap<Name, Arc<[RuleIndex]>, FixedState>; 2],
    mode: Mode,
    functions: Functions,
    keys: HashMap<ByteString, KeyStatus, FixedState>,
    keys_max: usize,
    book: Book,
}

/// The records about held events, and the counts.
#[derive(Debug, Default)]
struct Book {
    /// Times at which a held event of a key must be sent, each with its ticket.
    due: BTreeMap<(Instant, u64), (ByteString, RuleIndex)>,
    /// Numbers of the held events of each stream.
    undecided: Vec<(Name, BTreeSet<u64>)>,
    counts: Vec<RuleCount>,
    /// The last error of a user's function.
    function_error: Option<String>,
    untracked: u64,
    serial: u64,
}

impl Book {
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn hold(&mut self, stream: &Name, number: u64) {
        match self.undecided.iter_mut().find(|(known, _)| known == stream) {
            Some((_, numbers)) => _ = numbers.insert(number),
            None => self.undecided.push((stream.clone(), BTreeSet::from([number]))),
        }
    }

    fn decide(&mut self, event: &Event) {
        self.decide_number(&event.stream, event.number);
    }

    fn decide_number(&mut self, stream: &Name, number: u64) {
        if let Some((_, numbers)) = self.undecided.iter_mut().find(|(known, _)| known == stream) {
            numbers.remove(&number);
        }
    }

    fn decide_held(&mut self, held: &Held) {
        held.numbers().for_each(|(stream, number)| self.decide_number(stream, number));
    }

    fn note_behind(&mut self, rule: RuleIndex, since: Instant, now: Instant) {
        let behind = &mut self.counts[rule].behind_ms_max;
        *behind = (*behind).max(now.since(since).as_millis());
    }
}

impl Selector {
    /// Starts with rules, in normal mode.
    ///
    /// `seed` hides from sources which keys share a slot of the table.
    ///
    /// # Errors
    /// If a rule needs a function that is not in `functions`.
    pub fn new(
        rules: Arc<RuleFile>,
        functions: Functions,
        limits: &MirrorLimits,
        seed: u64,
    ) -> Result<Self, UnknownFunction> {
        for rule in &rules.rules {
            if let RuleKind::Function(used) = &rule.kind
                && !functions.contains_key(&used.name)
            {
                let (rule, function) = (rule.name.clone(), used.name.clone());
                return Err(UnknownFunction { rule, function });
            }
        }
        let book = Book { counts: vec![RuleCount::default(); rules.rules.len()], ..Book::default() };
        let steps = [steps(&rules, Mode::Normal), steps(&rules, Mode::Loaded)];
        let keys = HashMap::with_hasher(FixedState::with_seed(seed));
        let keys_max = limits.status_keys_max;
        Ok(Self { rules, steps, mode: Mode::Normal, functions, keys, keys_max, book })
    }

    /// The rules.
    pub fn rules(&self) -> &RuleFile {
        &self.rules
    }

    /// The mode whose rules apply.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode. Held events stay held until they are due under the rule that held them.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The work of each rule, in the order of the file.
    pub fn counts(&self) -> &[RuleCount] {
        &self.book.counts
    }

    /// The last error of a user's function.
    pub fn function_error(&self) -> Option<&str> {
        self.book.function_error.as_deref()
    }

    /// Events that passed rules with state because the table of keys was full.
    pub fn untracked(&self) -> u64 {
        self.book.untracked
    }

    /// The least number of a stream's held events.
    pub fn undecided_from(&self, stream: &str) -> Option<u64> {
        let (_, numbers) = self.book.undecided.iter().find(|(known, _)| known.as_str() == stream)?;
        numbers.first().copied()
    }

    /// The name of the rule that holds an event back. It looks at all held events, so it is for reports.
    pub fn held_by(&self, stream: &str, number: u64) -> Option<&str> {
        let is_it = |event: &Event| event.stream.as_str() == stream && event.number == number;
        let index = self.book.due.values().find_map(|(key, index)| {
            let status = self.keys.get(key)?;
            let in_run = |(rule, run): &(RuleIndex, Run)| {
                rule == index && run.held().is_some_and(|held| is_it(&held.event))
            };
            let in_partial = |(rule, partial): &(RuleIndex, Partial)| rule == index && partial.has(is_it);
            (status.runs.iter().any(in_run) || status.partials.iter().any(in_partial)).then_some(*index)
        })?;
        Some(&self.rules.rules[index].name)
    }

    /// The time at which [`release_due`](Self::release_due) has something to do.
    pub fn wake_at(&self) -> Option<Instant> {
        self.book.due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Applies the rules to an event, and pushes to `out` the events to mirror, in order.
    pub fn offer(&mut self, now: Instant, event: Event, out: &mut Vec<Event>) {
        self.pass(now, event, Stage::Discard, out);
    }

    /// Begins and ends sequences by an event that the last origin has mirrored.
    pub(crate) fn recall(&mut self, event: &Event) {
        let rules = Arc::clone(&self.rules);
        for (index, rule) in rules.rules.iter().enumerate() {
            let RuleKind::Sequence(sequence) = &rule.kind else { continue };
            let ends = sequence.until.as_ref().is_some_and(|until| until.matches(event));
            if !ends && !sequence.after.matches(event) {
                continue;
            }
            let Some(status) = self.status(&event.key) else { continue };
            status.begun.retain(|&begun| begun != index);
            if !ends {
                status.begun.push(index);
            }
        }
    }

    /// Pushes to `out` the held events whose time has come.
    pub fn release_due(&mut self, now: Instant, out: &mut Vec<Event>) {
        while let Some(entry) = self.book.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let (key, rule) = entry.remove();
            self.release(now, &key, rule, out);
        }
    }

    /// Pushes all held events to `out`, before the rules change or the origin stops.
    pub fn release_all(&mut self, now: Instant, out: &mut Vec<Event>) {
        while let Some((_, (key, rule))) = self.book.due.pop_first() {
            self.release(now, &key, rule, out);
        }
    }

    fn release(&mut self, now: Instant, key: &ByteString, rule: RuleIndex, out: &mut Vec<Event>) {
        if let RuleKind::Overwrite(_) = self.rules.rules[rule].kind {
            return self.send_held(now, key, out);
        }
        let Some(status) = self.keys.get_mut(key) else { return };
        let Some(at) = status.partials.iter().position(|(known, _)| *known == rule) else { return };
        let (_, partial) = status.partials.swap_remove(at);
        self.book.note_behind(rule, partial.since, now);
        for event in partial.into_parts() {
            self.book.decide(&event);
            self.book.counts[rule].released += 1;
            self.pass(now, event, Stage::Function, out);
        }
    }

    /// Takes an event through the stages from `first` on.
    fn pass(&mut self, now: Instant, mut event: Event, first: Stage, out: &mut Vec<Event>) {
        let Some(steps) = self.steps[self.mode as usize].get(&event.kind).map(Arc::clone) else {
            return self.send(now, event, out);
        };
        let rules = Arc::clone(&self.rules);
        for &index in steps.iter() {
            let kind = &rules.rules[index].kind;
            if stage(kind) < first {
                continue;
            }
            let left = match kind {
                RuleKind::Discard(discard) => self.discard(index, discard, event),
                RuleKind::Sequence(sequence) => self.follow(index, sequence, event),
                RuleKind::Tuple(tuple) => self.combine(now, index, tuple, event, out),
                RuleKind::Function(used) => self.apply(now, index, &used.name, event, out),
                RuleKind::Overwrite(overwrite) => self.overwrite(now, index, overwrite, event, out),
                RuleKind::Coalesce(_) => Some(event),
            };
            let Some(passed) = left else { return };
            event = passed;
        }
        self.send(now, event, out);
    }

    // Each of the following applies one rule. They return the event if it passes on, and `None` if the rule has
    // dropped it, holds it back, or has sent something in its place.

    fn discard(&mut self, index: RuleIndex, discard: &Discard, event: Event) -> Option<Event> {
        if discard.drops(&event) {
            self.book.counts[index].suppressed += 1;
            return None;
        }
        Some(event)
    }

    fn follow(&mut self, index: RuleIndex, sequence: &Sequence, event: Event) -> Option<Event> {
        let Some(status) = self.status(&event.key) else { return Some(event) };
        let begun = status.begun.iter().position(|known| *known == index);
        let ends = sequence.until.as_ref().is_some_and(|until| until.matches(&event));
        match begun {
            Some(at) if ends => _ = status.begun.swap_remove(at),
            Some(_) if event.kind == sequence.discard => {
                self.book.counts[index].suppressed += 1;
                return None;
            }
            None if sequence.after.matches(&event) => status.begun.push(index),
            _ => {}
        }
        Some(event)
    }

    fn combine(
        &mut self,
        now: Instant,
        index: RuleIndex,
        tuple: &Tuple,
        event: Event,
        out: &mut Vec<Event>,
    ) -> Option<Event> {
        let Some(part) = tuple.part_of(&event) else { return Some(event) };
        let serial = self.book.next_serial();
        let Some(status) = self.status(&event.key) else { return Some(event) };
        let at = place_of(&mut status.partials, index, || Partial::new(now, serial));
        let partial = &mut status.partials[at].1;
        let due = (partial.since + tuple.within(), partial.ticket);
        match partial.take(tuple, part, event.clone()) {
            Formed::Waits { replaced } => {
                self.book.hold(&event.stream, event.number);
                if let Some(replaced) = replaced {
                    self.book.decide(&replaced);
                    self.book.counts[index].suppressed += 1;
                }
                self.book.due.insert(due, (event.key, index));
            }
            Formed::Done { formed, parts } => {
                let (_, partial) = status.partials.swap_remove(at);
                self.book.note_behind(index, partial.since, now);
                self.book.due.remove(&due);
                parts.iter().for_each(|part| self.book.decide(part));
                let count = &mut self.book.counts[index];
                count.suppressed += parts.len() as u64 + 1;
                count.made += 1;
                // No checked rule forms a part of itself, so this ends.
                self.pass(now, formed, Stage::Discard, out);
            }
        }
        None
    }

    fn apply(
        &mut self,
        now: Instant,
        index: RuleIndex,
        name: &Name,
        event: Event,
        out: &mut Vec<Event>,
    ) -> Option<Event> {
        let mut made = Vec::new();
        let function = self.functions.get_mut(name).expect("invariant: `new` has found every function");
        let applied = function.apply(&event, &mut made).and_then(|()| {
            let checked = made.iter().try_for_each(|one| self.rules.check_event(one));
            checked.map_err(|error| error.to_string())
        });
        if let Err(error) = applied {
            self.book.counts[index].errors += 1;
            self.book.function_error = Some(format!("function `{name}`: {error}"));
            return Some(event);
        }
        let count = &mut self.book.counts[index];
        count.suppressed += u64::from(made.is_empty());
        count.made += made.iter().filter(|one| **one != event).count() as u64;
        for mut one in made {
            (one.stream, one.number, one.key) = (event.stream.clone(), event.number, event.key.clone());
            self.pass(now, one, Stage::Overwrite, out);
        }
        None
    }

    fn overwrite(
        &mut self,
        now: Instant,
        index: RuleIndex,
        overwrite: &Overwrite,
        event: Event,
        out: &mut Vec<Event>,
    ) -> Option<Event> {
        let serial = self.book.next_serial();
        let Some(status) = self.status(&event.key) else { return Some(event) };
        let at = place_of(&mut status.runs, index, Run::default);
        let (stream, number, key) = (event.stream.clone(), event.number, event.key.clone());
        if status.would_reorder(at, &event) {
            self.send_held(now, &key, out);
        }
        let status = self.keys.get_mut(&key).expect("invariant: `status` has found or made it");
        match status.runs[at].1.take(now, overwrite.run, event, serial) {
            Ran::Send(event, held) => {
                if let Some(held) = held {
                    self.book.decide_held(&held);
                    self.book.note_behind(index, held.since, now);
                    self.book.due.remove(&(held.since + overwrite.max_age(), held.ticket));
                    self.book.counts[index].suppressed += 1;
                }
                self.send(now, event, out);
                return None;
            }
            Ran::Hold => _ = self.book.due.insert((now + overwrite.max_age(), serial), (key, index)),
            Ran::Replace(decided) => {
                decided.iter().for_each(|(stream, number)| self.book.decide_number(stream, *number));
                self.book.counts[index].suppressed += 1;
            }
        }
        self.book.hold(&stream, number);
        None
    }

    /// The status of a key. `None` if the table is full and has no entry for it.
    fn status(&mut self, key: &ByteString) -> Option<&mut KeyStatus> {
        if !self.keys.contains_key(key) {
            if self.keys.len() >= self.keys_max {
                self.book.untracked += 1;
                return None;
            }
            // A copy, because the key may be a slice of a large packet.
            self.keys.insert(ByteString::from(key.to_string()), KeyStatus::default());
        }
        self.keys.get_mut(key)
    }

    fn send(&mut self, now: Instant, event: Event, out: &mut Vec<Event>) {
        let key = event.key.clone();
        self.send_held(now, &key, out);
        out.push(event);
    }

    /// Sends all events of a key that overwrite rules hold back, the oldest first.
    fn send_held(&mut self, now: Instant, key: &ByteString, out: &mut Vec<Event>) {
        let Some(status) = self.keys.get_mut(key) else { return };
        if status.runs.iter().all(|(_, run)| run.held().is_none()) {
            return;
        }
        let mut held: Vec<(RuleIndex, Held)> = Vec::new();
        for (index, run) in &mut status.runs {
            if let RuleKind::Overwrite(overwrite) = &self.rules.rules[*index].kind
                && let Some(event) = run.release(overwrite.run)
            {
                self.book.due.remove(&(event.since + overwrite.max_age(), event.ticket));
                held.push((*index, event));
            }
        }
        held.sort_unstable_by_key(|(_, held)| held.order);
        for (index, held) in held {
            self.book.decide_held(&held);
            self.book.note_behind(index, held.since, now);
            self.book.counts[index].released += 1;
            out.push(held.event);
        }
    }
}

/// The place of a rule's state in a key's list, where `make` puts it if it is absent.
fn place_of<T>(list: &mut Vec<(RuleIndex, T)>, rule: RuleIndex, make: impl FnOnce() -> T) -> usize {
    list.iter().position(|(known, _)| *known == rule).unwrap_or_else(|| {
        list.push((rule, make()));
        list.len() - 1
    })
}

/// The rules that concern each type in a mode.
fn steps(file: &RuleFile, mode: Mode) -> HashMap<Name, Arc<[RuleIndex]>, FixedState> {
    let mut steps: BTreeMap<Name, Vec<RuleIndex>> = BTreeMap::new();
    for (index, rule) in file.rules.iter().enumerate().filter(|(_, rule)| rule.active.in_mode(mode)) {
        let mut concern = |kind: &Name| steps.entry(kind.clone()).or_default().push(index);
        match &rule.kind {
            RuleKind::Discard(discard) => concern(&discard.0.kind),
            RuleKind::Overwrite(overwrite) => concern(&overwrite.kind),
            RuleKind::Function(used) => concern(&used.kind),
            RuleKind::Tuple(tuple) => tuple.of.iter().for_each(|part| concern(&part.kind)),
            RuleKind::Sequence(sequence) => {
                concern(&sequence.after.kind);
                concern(&sequence.discard);
                sequence.until.iter().for_each(|until| concern(&until.kind));
            }
            RuleKind::Coalesce(_) => {}
        }
    }
    let in_order = |(kind, mut of_kind): (Name, Vec<RuleIndex>)| {
        of_kind.sort_by_key(|&index| stage(&file.rules[index].kind));
        of_kind.dedup();
        (kind, of_kind.into())
    };
    steps.into_iter().map(in_order).collect()
}

#[cfg(test)]
mod tests;
