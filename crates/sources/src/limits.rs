//! Every limit of sources, by name.

use std::time::Duration;
use treefold_mirror::MirrorLimits;

/// Limits of the sources of one feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// The limits of an event.
    pub events: MirrorLimits,
    /// Most bytes of a line, of an element of a JSON array, and of a record of a CSV file.
    pub line_bytes_max: usize,
    /// Lines longer than [`LINE_BYTES_FREE`](Self::LINE_BYTES_FREE) that may be received at one time. Others wait.
    pub long_lines_max: usize,
    /// Most connections of a listener. Further ones get an error.
    pub connections_max: usize,
    /// Messages of a JetStream stream that may wait for their acknowledgement. A rule may hold one back while the others
    /// pass. Above it, the source waits, and says so. Each takes about 60 bytes.
    pub unacknowledged_max: usize,
    /// Time after which a connection without input is closed. An empty line is a sign of life.
    pub idle_within: Duration,
    /// Time that a line may take from its first byte to its last, and time without a byte of an HTTP body.
    pub line_within: Duration,
    /// Time that the body of an HTTP request may take.
    pub body_within: Duration,
    /// Time that a peer has to take an answer.
    pub write_within: Duration,
    /// Time that a source waits for acknowledgements after its input has ended, and that an HTTP request waits.
    pub acknowledge_within: Duration,
    /// Time that an HTTP request waits for a busy origin. Other sources wait without a limit.
    pub busy_within: Duration,
}

impl SourceLimits {
    /// Bytes of a line that every connection may hold.
    pub const LINE_BYTES_FREE: usize = 64 << 10;
    /// Bytes that are read from a connection at a time, at least.
    pub const READ_BYTES: usize = 16 << 10;
    /// Most headers of an HTTP request.
    pub const HEADERS_MAX: usize = 64;
    /// Most events that are offered in one batch. A batch is one step of the origin's task, which also has to send.
    pub const BATCH_EVENTS_MAX: usize = 256;
    /// Bytes of events above which no further event is added to a batch.
    pub const BATCH_BYTES_MAX: usize = 256 << 10;
    /// Refused events that an HTTP answer lists. The others are counted.
    pub const REFUSALS_LISTED_MAX: usize = 20;

    /// The default limits.
    ///
    /// A body of 8 MiB is 11 MiB in base64, so a line may have 16 MiB. 256 connections with 64 KiB each and eight
    /// long lines are 144 MiB.
    pub const DEFAULT: Self = Self {
        events: MirrorLimits::DEFAULT,
        line_bytes_max: 16 << 20,
        long_lines_max: 8,
        connections_max: 256,
        unacknowledged_max: 1_000_000,
        idle_within: Duration::from_secs(600),
        line_within: Duration::from_secs(10),
        body_within: Duration::from_secs(600),
        write_within: Duration::from_secs(30),
        acknowledge_within: Duration::from_secs(30),
        busy_within: Duration::from_secs(2),
    };
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
