//! The feed of a scenario: its origins, mirrors, sources and readers, and their mishaps.

use super::scenario::Scenario;
use crate::world::feeds::{FeedPlan, ReaderPlan, SourcePlan};
use crate::world::ink::mixed;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::{Event, Filter, MirrorLimits, Name};

/// The type of events that remove their key.
const DELETES: &str = "gone";

/// A feed over the scenario's service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFeed {
    /// Time at which it begins.
    pub at_us: u64,
    /// The mirrors; numbers that are no partition are left out.
    pub mirrors: Vec<u32>,
    /// Places where origins run, in turn, modulo the number of places.
    pub origins: Vec<u32>,
    /// The mirrors that must have an event before it is acknowledged.
    pub copies: u32,
    /// Whether origins have a journal, which survives them.
    pub has_journal: bool,
    /// Number of records that the journal forgets together.
    pub segment: u32,
    /// Time until a record is durable.
    pub flush_us: u64,
    /// Time that a checkpoint waits for all mirrors.
    pub votes_within_us: u64,
    /// Time that a mirror has to give a snapshot.
    pub snapshot_within_us: u64,
    /// Time of encoding a snapshot for readers.
    pub encode_us: u64,
    /// Time after which an origin that has ended is replaced.
    pub restart_after_us: u64,
    /// Time that a mirror takes for a packet.
    pub takes_for_us: u64,
    /// The shape of origins' streams.
    pub shape: Shape,
    /// Bytes that an origin may have sent and that mirrors have not taken.
    pub window_bytes: u64,
    /// Files of rules. The first one is in force at the start.
    pub rules: Vec<String>,
    /// Whether events of one type remove their key.
    pub has_deletes: bool,
    /// Limits that differ from the defaults.
    pub limits: FeedLimits,
    /// The sources.
    pub sources: Vec<PlannedSource>,
    /// The readers.
    pub readers: Vec<PlannedReader>,
    /// Mishaps of the feed alone, in any order.
    pub mishaps: Vec<PlannedFeedMishap>,
}

/// Limits of a feed. They are small, so that every one of them is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedLimits {
    /// See [`MirrorLimits::batch_bytes_max`].
    pub batch_bytes_max: usize,
    /// See [`MirrorLimits::ready_bytes_max`].
    pub ready_bytes_max: usize,
    /// See [`MirrorLimits::backup_bytes_max`].
    pub backup_bytes_max: usize,
    /// See [`MirrorLimits::resume_bytes_max`].
    pub resume_bytes_max: usize,
    /// See [`MirrorLimits::lag_bytes_max`].
    pub lag_bytes_max: usize,
    /// See [`MirrorLimits::piece_bytes`].
    pub piece_bytes: usize,
}

/// A source of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedSource {
    /// Number of its events.
    pub events: u32,
    /// Number of keys that they are about.
    pub keys: u32,
    /// Time between two offers.
    pub every_us: u64,
    /// Most events of an offer.
    pub burst: u32,
}

/// A reader of a feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedReader {
    /// The place where it runs, modulo the number of places.
    pub at: u32,
    /// The keys that it wants, as numbers of a source and of one of its keys.
    pub keys: Vec<(u32, u32)>,
    /// The source whose keys it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_source: Option<u32>,
    /// Whether it wants events of the first type only.
    pub has_types: bool,
    /// Whether its state survives its process.
    pub keeps_state: bool,
    /// Time that it takes for a message.
    pub reads_for_us: u64,
    /// Bytes that its mirror may have sent and that it has not taken.
    pub window_bytes: u64,
}

/// A mishap and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFeedMishap {
    /// Time of the mishap.
    pub at_us: u64,
    /// The mishap.
    pub mishap: FeedMishap,
}

/// A mishap of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedMishap {
    /// A further origin begins, although the last one may still run.
    ReplaceOrigin,
    /// The origin uses other rules.
    ChangeRules(u32),
    /// A source dies, and repeats all of which it does not know that it is acknowledged.
    RepeatSource(u32),
    /// A reader leaves its mirror.
    MoveReader(u32),
}

impl FeedMishap {
    /// Returns the name of the kind, for the tally.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ReplaceOrigin => "replace_origin",
            Self::ChangeRules(_) => "change_rules",
            Self::RepeatSource(_) => "repeat_source",
            Self::MoveReader(_) => "move_reader",
        }
    }
}

fn name(text: impl Into<String>) -> Name {
    Name::new(text.into()).expect("invariant: the names of a scenario are letters and numbers")
}

fn stream_of(source: u32) -> String {
    format!("u{source}")
}

fn key_of(source: u32, key: u32) -> String {
    format!("{}.{key}", stream_of(source))
}

impl PlannedFeed {
    /// Returns the mirrors that are partitions.
    pub fn mirrors_of(&self, scenario: &Scenario) -> PartitionSet {
        self.mirrors.iter().copied().filter(|&mirror| mirror < scenario.partitions).collect()
    }

    /// Returns the plan for the world. `place` returns the place of a scenario's number.
    pub fn plan(&self, scenario: &Scenario, place: impl Fn(u32) -> usize) -> FeedPlan {
        let us = |us: u64| Duration::from_micros(us);
        let rule = |text: &String| {
            let read = RuleFile::read(text);
            Arc::new(read.expect("invariant: rules were checked when the scenario was drawn or read"))
        };
        let deletes = if self.has_deletes { vec![name(DELETES)] } else { Vec::new() };
        FeedPlan {
            rules: self.rules.iter().map(rule).collect(),
            limits: self.limits.limits(),
            state: StateOptions { deletes, retention_ms: None },
            total: scenario.partitions,
            mirrors: self.mirrors_of(scenario),
            origins: self.origins.iter().map(|&number| place(number)).collect(),
            copies: self.copies,
            has_journal: self.has_journal,
            segment: self.segment as usize,
            flush: us(self.flush_us),
            votes_within: us(self.votes_within_us.max(1)),
            snapshot_within: us(self.snapshot_within_us),
            encode: us(self.encode_us),
            restart_after: us(self.restart_after_us.max(1_000)),
            takes_for: us(self.takes_for_us),
            shape: self.shape,
            window_bytes: self.window_bytes,
            sources: (0..).zip(&self.sources).map(|(at, source)| source.plan(at, scenario.seed)).collect(),
            readers: self.readers.iter().map(|reader| reader.plan(place(reader.at))).collect(),
        }
    }

    /// Returns the time of the last planned event, in µs.
    pub(super) fn over_at_us(&self) -> u64 {
        let mishaps = self.mishaps.iter().map(|planned| planned.at_us);
        mishaps.max().unwrap_or(0).max(self.at_us)
    }
}

impl FeedLimits {
    fn limits(&self) -> MirrorLimits {
        MirrorLimits {
            batch_bytes_max: self.batch_bytes_max,
            ready_bytes_max: self.ready_bytes_max,
            backup_bytes_max: self.backup_bytes_max,
            resume_bytes_max: self.resume_bytes_max,
            lag_bytes_max: self.lag_bytes_max,
            piece_bytes: self.piece_bytes,
            ..MirrorLimits::DEFAULT
        }
    }
}

impl PlannedSource {
    fn plan(&self, number: u32, seed: u64) -> SourcePlan {
        SourcePlan {
            stream: name(stream_of(number)),
            events: (1..=u64::from(self.events)).map(|event| self.event(number, event, seed)).collect(),
            every: Duration::from_micros(self.every_us),
            burst: self.burst as usize,
        }
    }

    /// Returns an event, which depends only on the seed, the source and its number.
    fn event(&self, source: u32, number: u64, seed: u64) -> Event {
        let draw = mixed(mixed(seed ^ u64::from(source) << 40).wrapping_add(number));
        let key = key_of(source, (draw >> 8) as u32 % self.keys.max(1));
        let (kind, fields) = match draw % 16 {
            0..6 => ("t0", format!(r#"{{"a":{number},"x":{}}}"#, draw >> 32 & 3)),
            6..8 => ("t0", format!(r#"{{"a":{number}}}"#)),
            8..12 => ("t1", format!(r#"{{"b":{number},"x":{}}}"#, draw >> 32 & 3)),
            12..15 => {
                let status = ["landed", "at gate", "departed"][(draw >> 32) as usize % 3];
                ("status", format!(r#"{{"status":"{status}"}}"#))
            }
            _ => (DELETES, "{}".to_owned()),
        };
        let stream = stream_of(source);
        let text = format!(
            r#"{{"stream":"{stream}","number":{number},"key":"{key}","type":"{kind}","fields":{fields}}}"#
        );
        Event::from_json(&text, None, &MirrorLimits::DEFAULT).expect("invariant: an event is valid JSON")
    }
}

impl PlannedReader {
    fn plan(&self, at: usize) -> ReaderPlan {
        let mut filter = Filter::default();
        let fits = "invariant: a scenario has few keys";
        for &(source, key) in &self.keys {
            filter.add_key(key_of(source, key)).expect(fits);
        }
        if let Some(source) = self.of_source {
            filter.add_prefix(stream_of(source)).expect(fits);
        }
        if self.has_types {
            filter.add_type(name("t0")).expect(fits);
        }
        ReaderPlan {
            at,
            filter,
            has_types: self.has_types,
            keeps_state: self.keeps_state,
            reads_for: Duration::from_micros(self.reads_for_us),
            window_bytes: self.window_bytes,
        }
    }
}
