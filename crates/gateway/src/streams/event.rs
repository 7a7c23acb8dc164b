//! News of a stream.

use bytes::Bytes;
use serde::Serialize;
use treefold::{Missing, PartitionSet, StreamWave};
use treefold_forms::json::{Lost, one_each};
use treefold_forms::stream::WaveView;

/// Bytes that a wave costs beside its packets' payloads, and each of its packets.
const OVERHEAD_BYTES: usize = 64;

/// News of a stream.
#[derive(Debug)]
pub(crate) enum Event {
    /// It is open, with these endpoints.
    Opened { stream: String, endpoints: PartitionSet, away: Vec<Missing> },
    Wave {
        wave: StreamWave<Bytes>,
        /// True if an earlier part of this wave was sent before.
        is_late: bool,
    },
    /// Endpoints joined or went away.
    Changed { endpoints: PartitionSet, away: Vec<Missing> },
    /// Waves were dropped, because the reader is slow.
    Dropped { waves: u64 },
    /// Nothing has happened for a while.
    Alive,
}

#[derive(Serialize)]
struct OpenedView<'a> {
    stream: &'a str,
    endpoints: String,
    missing: Vec<Lost>,
}

#[derive(Serialize)]
struct ChangedView {
    endpoints: String,
    missing: Vec<Lost>,
}

#[derive(Serialize)]
struct DroppedView {
    waves: u64,
}

impl Event {
    /// Its name in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Wave { .. } => "wave",
            Self::Changed { .. } => "changed",
            Self::Dropped { .. } => "dropped",
            Self::Alive => "alive",
        }
    }

    /// Appends its content in JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let written = match self {
            Self::Opened { stream, endpoints, away } => {
                let endpoints = endpoints.to_string();
                serde_json::to_writer(out, &OpenedView { stream, endpoints, missing: one_each(away) })
            }
            Self::Wave { wave, is_late } => serde_json::to_writer(out, &WaveView::of(wave, *is_late)),
            Self::Changed { endpoints, away } => {
                let view = ChangedView { endpoints: endpoints.to_string(), missing: one_each(away) };
                serde_json::to_writer(out, &view)
            }
            Self::Dropped { waves } => serde_json::to_writer(out, &DroppedView { waves: *waves }),
            Self::Alive => serde_json::to_writer(out, &serde_json::Map::new()),
        };
        written.expect("invariant: news can be written to a vector");
    }

    /// True for a wave, which a full queue may drop.
    pub(super) fn is_wave(&self) -> bool {
        matches!(self, Self::Wave { .. })
    }

    /// The bytes that it counts in a queue.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Wave { wave, .. } => {
                let packets = wave.packets.iter().map(|packet| packet.len() + OVERHEAD_BYTES);
                packets.sum::<usize>() + (1 + wave.missing.len()) * OVERHEAD_BYTES
            }
            Self::Opened { away, .. } | Self::Changed { away, .. } => (1 + away.len()) * OVERHEAD_BYTES,
            Self::Dropped { .. } | Self::Alive => OVERHEAD_BYTES,
        }
    }
}
