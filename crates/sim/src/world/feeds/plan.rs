//! The plan of a simulated feed.

use std::sync::Arc;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::{Event, Filter, MirrorLimits, Name};

/// A feed over the world's service.
#[derive(Clone, Debug)]
pub struct FeedPlan {
    /// The rules: the first ones are in force at the start.
    pub rules: Vec<Arc<RuleFile>>,
    /// The limits of origins, mirrors and readers.
    pub limits: MirrorLimits,
    /// The options of mirrors' states.
    pub state: StateOptions,
    /// The number of mirrors that the feed may have: the partitions of the service.
    pub total: u32,
    /// The mirrors.
    pub mirrors: PartitionSet,
    /// The places where origins run, in turn.
    pub origins: Vec<usize>,
    /// The mirrors that must have an event before it is acknowledged.
    pub copies: u32,
    /// Whether origins have a journal, which survives them.
    pub has_journal: bool,
    /// Number of records that the journal forgets together.
    pub segment: usize,
    /// Time until a record is durable.
    pub flush: Duration,
    /// Time that a checkpoint waits for all mirrors.
    pub votes_within: Duration,
    /// Time that a mirror has to give a snapshot.
    pub snapshot_within: Duration,
    /// Time of encoding a snapshot for readers.
    pub encode: Duration,
    /// Time after which an origin that has ended is replaced.
    pub restart_after: Duration,
    /// Time that a mirror takes for a packet.
    pub takes_for: Duration,
    /// The shape of origins' streams.
    pub shape: Shape,
    /// Bytes that an origin may have sent and that mirrors have not taken.
    pub window_bytes: u64,
    /// The sources.
    pub sources: Vec<SourcePlan>,
    /// The readers.
    pub readers: Vec<ReaderPlan>,
}

/// A source.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The name of its stream.
    pub stream: Name,
    /// Its events, numbered from 1.
    pub events: Vec<Event>,
    /// Time between two offers.
    pub every: Duration,
    /// Most events of an offer.
    pub burst: usize,
}

/// A reader.
#[derive(Clone, Debug)]
pub struct ReaderPlan {
    /// The place where it runs.
    pub at: usize,
    /// The part of the feed that it wants.
    pub filter: Filter,
    /// Whether the filter selects types, so that its state differs from mirrors' states.
    pub has_types: bool,
    /// Whether its state survives its process.
    pub keeps_state: bool,
    /// Time that it takes for a message.
    pub reads_for: Duration,
    /// Bytes that its mirror may have sent and that it has not taken.
    pub window_bytes: u64,
}
