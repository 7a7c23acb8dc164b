//! The news that the parts of the demo send to the board.

use super::values::Values;
use crate::commands::mirror::report::OriginReport;
use std::time::Duration;
use treefold_feed::MirrorStatus;
use treefold_mirror::Cut;

/// News that may wait for the board.
pub(super) const NEWS_MAX: usize = 4_096;

/// A process of the demo that can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Origin,
    Mirror(usize),
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Origin => f.write_str("the origin"),
            Self::Mirror(number) => write!(f, "mirror {number}"),
        }
    }
}

/// The state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Starting,
    Alive,
    Stopped,
    Dead,
}

/// An order to the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Kill(Part),
    Start(Part),
    /// Stops a process (SIGSTOP), or lets it go on (SIGCONT).
    Pause(Part, bool),
}

/// News for the board.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    Life(Part, Life),
    /// Where a mirror listens for readers over HTTP.
    Url(usize, String),
    Origin(OriginReport),
    /// The mirrors that answer.
    Mirrors(Vec<MirrorStatus>),
    Source(Sent),
    Read(Read),
    Storm(Storm),
    /// Another line for the diary.
    Said(String),
}

/// Figures of the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Events that were generated.
    pub(super) generated: u64,
    /// Events that are not acknowledged.
    pub(super) unacknowledged: u64,
    /// Events that were sent again, because their origin died before it had acknowledged them.
    pub(super) repeated: u64,
    /// Events that were written to the present connection.
    pub(super) written: u64,
    /// True once no further events are generated and all are written.
    pub(super) is_over: bool,
}

/// News of the board's reader.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    /// A snapshot at this place begins. The reason, if nobody asked for it.
    Begins(Cut, Option<String>),
    Row(String, Values, u64),
    /// The snapshot is complete, from a mirror, this long after the reader asked for it.
    Complete(u32, Duration),
    /// An event of a key, and the time since the origin sent it.
    Event(Cut, String, Values, Duration),
    /// There is nothing more up to this place.
    At(Cut),
    /// The reader follows another mirror, after this time without one.
    Moved(u32, String, Duration),
    /// The reader has lost its place.
    Lagging(String),
}

/// News of a storm of joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storm {
    /// So many readers join.
    Begins(usize),
    /// So many have their snapshot.
    Joined(usize),
    /// Readers that have a snapshot, those that failed, and the times after which half and all of them had it.
    Ended { joined: usize, failed: usize, half: Duration, all: Duration },
    /// They have followed the feed for a while, and have left.
    Over,
}
