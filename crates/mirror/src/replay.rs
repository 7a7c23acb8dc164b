//! Replays a recorded trace through rules, and reports what each rule saves and how far it lets mirrors fall
//! behind.

use crate::event::Event;
use crate::limits::MirrorLimits;
use crate::rules::coalesce::{Coalesce, coalesce};
use crate::rules::{Mode, Preserves, RuleFile, RuleKind};
use crate::select::{Functions, RuleCount, Selector, UnknownFunction};
use serde::Serialize;
use std::sync::Arc;
use treefold_core::time::Instant;

/// Events with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Number of events.
    pub events: u64,
    /// Bytes of their keys, types, fields and bodies.
    pub bytes: u64,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The trace.
    pub given: Volume,
    /// The events that would be mirrored.
    pub mirrored: Volume,
    /// The work of each rule, in the order of the file.
    pub rules: Vec<RuleReport>,
}

/// The work of one rule in a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleReport {
    /// The rule.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// False if it applies in the other mode only.
    pub applies: bool,
    /// Its guarantee about the state of mirrors.
    pub preserves: Preserves,
    /// Longest time that it may hold an event back, in ms.
    pub bound_ms: Option<u64>,
    /// Its work.
    #[serde(flatten)]
    pub count: RuleCount,
}

/// A replay that takes events one by one.
pub struct Replay {
    selector: Selector,
    mode: Mode,
    given: Volume,
    mirrored: Volume,
    selected: Vec<Event>,
    window: Option<Window>,
}

/// The events that wait to be coalesced.
struct Window {
    rule: usize,
    settings: Coalesce,
    since: Option<Instant>,
    events: Vec<Event>,
    count: RuleCount,
}

impl Volume {
    fn add(&mut self, event: &Event) {
        self.events += 1;
        let bytes = event.key.len() + event.kind.len() + event.fields.as_bytes().len() + event.body.len();
        self.bytes += bytes as u64;
    }
}

impl Replay {
    /// Starts a replay with the rules of one mode.
    ///
    /// # Errors
    /// If a rule needs a function that is not in `functions`.
    pub fn new(
        rules: Arc<RuleFile>,
        functions: Functions,
        mode: Mode,
        limits: &MirrorLimits,
    ) -> Result<Self, UnknownFunction> {
        let settings = rules.rules.iter().enumerate().find_map(|(at, rule)| match &rule.kind {
            RuleKind::Coalesce(settings) if rule.active.in_mode(mode) => Some((at, settings.clone())),
            _ => None,
        });
        let window = settings.map(|(rule, settings)| {
            let (since, events, count) = (None, Vec::new(), RuleCount::default());
            Window { rule, settings, since, events, count }
        });
        let mut selector = Selector::new(rules, functions, limits, 0)?;
        selector.set_mode(mode);
        let (given, mirrored) = (Volume::default(), Volume::default());
        Ok(Self { selector, mode, given, mirrored, selected: Vec::new(), window })
    }

    /// Takes the trace's next event.
    pub fn offer(&mut self, now: Instant, event: Event) {
        self.given.add(&event);
        self.selector.release_due(now, &mut self.selected);
        self.selector.offer(now, event, &mut self.selected);
        self.mirror(now);
    }

    /// Ends the trace: sends all that is held back.
    pub fn finish(mut self, now: Instant) -> Report {
        self.selector.release_all(now, &mut self.selected);
        self.mirror(now);
        if let Some(window) = &mut self.window {
            window.flush(now, &mut self.mirrored);
        }
        let rules = self.selector.rules().rules.iter().zip(self.selector.counts()).enumerate();
        let rules = rules.map(|(at, (rule, &count))| RuleReport {
            name: rule.name.to_string(),
            kind: rule.kind.word(),
            applies: rule.active.in_mode(self.mode),
            preserves: rule.preserves(),
            bound_ms: match &rule.kind {
                RuleKind::Overwrite(overwrite) => Some(overwrite.max_age_ms),
                RuleKind::Coalesce(coalesce) => Some(coalesce.max_age_ms),
                RuleKind::Tuple(tuple) => Some(tuple.within_ms),
                RuleKind::Discard(_) | RuleKind::Sequence(_) | RuleKind::Function(_) => None,
            },
            count: self
                .window
                .as_ref()
                .filter(|window| window.rule == at)
                .map_or(count, |window| window.count),
        });
        Report { given: self.given, mirrored: self.mirrored, rules: rules.collect() }
    }

    fn mirror(&mut self, now: Instant) {
        let Some(window) = &mut self.window else {
            return self.selected.drain(..).for_each(|event| self.mirrored.add(&event));
        };
        let is_due = |since: Instant| since + window.settings.max_age() <= now;
        if window.since.is_some_and(is_due) {
            window.flush(now, &mut self.mirrored);
        }
        for event in self.selected.drain(..) {
            window.since.get_or_insert(now);
            window.events.push(event);
            if window.events.len() as u64 >= window.settings.events.into() {
                window.flush(now, &mut self.mirrored);
            }
        }
    }
}

impl Window {
    fn flush(&mut self, now: Instant, mirrored: &mut Volume) {
        if let Some(since) = self.since.take() {
            let behind = now.since(since).as_millis().min(self.settings.max_age_ms);
            self.count.behind_ms_max = self.count.behind_ms_max.max(behind);
        }
        self.count.suppressed += coalesce(&mut self.events);
        self.events.drain(..).for_each(|event| mirrored.add(&event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(rules: &str, mode: Mode, events: u64) -> Report {
        let file = Arc::new(RuleFile::read(rules).unwrap());
        let mut replay = Replay::new(file, Functions::new(), mode, &MirrorLimits::DEFAULT).unwrap();
        let at = |number: u64| Instant::from_nanos(number * 10_000_000);
        for number in 1..=events {
            let text = format!(
                r#"{{"stream":"s","number":{number},"key":"k{}","type":"pos","fields":{{"lat":{number}}}}}"#,
                number % 4
            );
            let event = Event::from_json(&text, None, &MirrorLimits::DEFAULT).unwrap();
            replay.offer(at(number), event);
        }
        replay.finish(at(events))
    }

    #[test]
    fn report_counts_what_each_rule_saves() {
        let report = replayed(
            "[[rule]]\nname='run'\noverwrite={type='pos',run=20,max_age_ms=60000}",
            Mode::Normal,
            400,
        );
        assert_eq!(
            (report.given.events, report.mirrored.events),
            (400, 24),
            "5 of each key, and the last one held"
        );
        let rule = &report.rules[0];
        assert_eq!((rule.count.suppressed, rule.count.released, rule.bound_ms), (376, 4, Some(60000)));
        assert!(rule.applies && rule.count.behind_ms_max >= 700);
    }

    #[test]
    fn coalescing_sends_each_key_once_in_a_batch() {
        let rules = "[[rule]]\nname='c'\ncoalesce={events=8,max_age_ms=60000}";
        let report = replayed(rules, Mode::Normal, 80);
        assert_eq!((report.mirrored.events, report.rules[0].count.suppressed), (40, 40));
        assert_eq!(report.rules[0].count.behind_ms_max, 70);
        let early = replayed("[[rule]]\nname='c'\ncoalesce={events=8,max_age_ms=40}", Mode::Normal, 80);
        assert_eq!(early.mirrored.events, 80, "four events, each of another key, fit into 40 ms");
    }

    #[test]
    fn rules_of_the_other_mode_are_reported_as_unused() {
        let rules = "[adapt]\nready_queue={primary=2,secondary=1}\n[[rule]]\nname='a'\nactive='loaded'\ndiscard={type='pos'}";
        let report = replayed(rules, Mode::Normal, 10);
        assert_eq!((report.mirrored.events, report.rules[0].applies), (10, false));
        assert_eq!(replayed(rules, Mode::Loaded, 10).mirrored.events, 0);
    }
}
