//! The push waves of a scenario: an application's workers, their pushes, and the announcements of its master.
//!
//! Workers attach to relays if there are any, and otherwise to members. A worker's result for a request
//! consists of pieces. If a worker's program is started again with the same number, it pushes the same pieces
//! again, as the protocol requires of applications.

use super::scenario::Wish;
use crate::world::ink::Ink;
use serde::{Deserialize, Serialize};
use treefold_core::call::CallOptions;
use treefold_core::limits::Limits;
use treefold_core::push::PushRequest;
use treefold_core::time::Duration;

/// The application.
pub const APPLICATION: &str = "app";
/// The application with the aggregation that its master announces.
pub const ANNOUNCED: &str = "app/fold";
/// Size of each piece that is pushed for the last announcements.
pub(super) const LAST_PIECE_BYTES: u32 = 100;

/// An application that pushes, beside the called service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pushing {
    /// Number of its workers. They are numbered from 0.
    pub workers: u32,
    /// Number of nodes that each worker tries to attach to.
    pub homes: u32,
    /// Number of nodes without partitions that fold. Their places follow the observers' places.
    #[serde(default)]
    pub relays: u32,
    /// Number of racks, to which members and relays are assigned in turn. 0 means no racks.
    #[serde(default)]
    pub racks: u32,
    /// Most bytes that a worker may have unfolded at its node.
    pub window_bytes: u64,
    /// Most bytes that a node keeps of requests that have not been announced.
    pub early_bytes_max: u64,
    /// Most bytes that a worker keeps of its pushes.
    pub kept_bytes_max: u64,
    /// The announcements of requests, in any order.
    pub announcements: Vec<Announcement>,
    /// The results of workers, in any order.
    pub results: Vec<PlannedResult>,
    /// The mishaps of workers, in any order.
    pub mishaps: Vec<PlannedMishap>,
}

/// The announcement of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// Time of the announcement.
    pub at_us: u64,
    /// Place that announces, modulo the number of places.
    pub front: u32,
    /// The member that announces on behalf of `front`, if `front` is a client.
    pub through: u32,
    /// Number of the request. A second announcement is made by a master that has lost its front.
    pub request: u64,
    /// The options of the call. Its partitions are the expected workers.
    pub wish: Wish,
    /// Time for which absent workers are waited for.
    pub patience_us: u64,
    /// Time after which it is cancelled, from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_after_us: Option<u64>,
}

/// The result of a worker for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedResult {
    /// Time at which the first piece is ready.
    pub at_us: u64,
    /// Time between two pieces.
    pub every_us: u64,
    /// The worker.
    pub worker: u32,
    /// Number of the request.
    pub request: u64,
    /// The size of each piece. All pieces except the first may be empty.
    pub pieces: Vec<u32>,
    /// Whether the worker fails instead of pushing the last piece.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails: bool,
}

/// A mishap and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedMishap {
    /// Time of the mishap.
    pub at_us: u64,
    /// The worker, modulo the number of all workers that have been started.
    pub worker: u32,
    /// The mishap.
    pub mishap: Mishap,
}

/// A mishap of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mishap {
    /// The worker's connection breaks.
    Cut,
    /// The worker's program dies, and another starts with its number.
    Restart,
    /// Another program starts with the worker's number, and the worker goes on.
    Twin,
}

impl Mishap {
    /// Returns the name of the kind, for the tally.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Cut => "cut_worker",
            Self::Restart => "restart_worker",
            Self::Twin => "twin_worker",
        }
    }
}

impl Announcement {
    /// Returns the options of core's call, for an application of `workers` workers.
    pub fn options(&self, workers: u32) -> CallOptions {
        let patience = Duration::from_micros(self.patience_us);
        let push = Some(PushRequest { request: self.request, patience });
        CallOptions { push, ..self.wish.options(workers) }
    }
}

impl PlannedResult {
    /// Returns the time at which piece `number` is ready.
    pub fn piece_at_us(&self, number: usize) -> u64 {
        self.at_us + self.every_us * number as u64
    }

    /// Returns piece `number`, counted from 0, and whether it is the last.
    pub fn piece(&self, number: usize) -> (Ink, bool) {
        let piece = Ink::piece(self.worker, self.request, number, &self.pieces);
        (piece, number + 1 == self.pieces.len())
    }

    /// Tells whether the worker fails at piece `number`.
    pub fn fails_at(&self, number: usize) -> bool {
        self.fails && number + 1 == self.pieces.len()
    }
}

impl Pushing {
    pub(super) fn limit(&self, limits: &mut Limits) {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        limits.push_window_bytes = size(self.window_bytes);
        limits.early_bytes_max = size(self.early_bytes_max);
    }

    /// Returns the rack of the `at`-th member or relay.
    pub fn rack_of(&self, at: u32) -> String {
        if self.racks == 0 { String::new() } else { format!("r{}", at % self.racks) }
    }

    /// Tells whether every result has pieces, and a first piece that is not empty.
    pub(super) fn is_sound(&self) -> bool {
        self.results.iter().all(|result| result.pieces.first().is_some_and(|&bytes| bytes > 0))
    }

    /// Returns the size of the largest piece, including the pieces for the last announcements.
    pub fn piece_max(&self) -> u32 {
        let planned = self.results.iter().flat_map(|result| &result.pieces).copied();
        planned.fold(LAST_PIECE_BYTES, u32::max)
    }

    /// Returns the time of the last planned event, in µs.
    pub(super) fn over_at_us(&self) -> u64 {
        let announced = self.announcements.iter().map(|announced| announced.at_us);
        let results = self.results.iter().map(|result| result.piece_at_us(result.pieces.len()));
        let mishaps = self.mishaps.iter().map(|planned| planned.at_us);
        announced.chain(results).chain(mishaps).max().unwrap_or(0)
    }
}
