//! The push waves of a scenario: an application's workers, what they push, and what its master announces.
//!
//! Workers attach to relays where there are some, and to members elsewhere. A worker's result for a request comes in
//! pieces; a program that is started again with the same number pushes the same again, as its owner must see to.

use super::scenario::Wish;
use crate::world::ink::Ink;
use serde::{Deserialize, Serialize};
use treefold_core::call::CallOptions;
use treefold_core::limits::Limits;
use treefold_core::push::PushRequest;
use treefold_core::time::Duration;

/// The application, and the aggregation that its master announces.
pub const APPLICATION: &str = "app";
/// The same with the aggregation.
pub const ANNOUNCED: &str = "app/fold";
/// The bytes of each piece that is pushed for the last announcements.
pub(super) const LAST_PIECE_BYTES: u32 = 100;

/// An application beside the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pushing {
    /// Its workers, from 0.
    pub workers: u32,
    /// How many nodes each of them tries to attach to.
    pub homes: u32,
    /// Nodes that hold nothing and fold; their places come after the observers'.
    #[serde(default)]
    pub relays: u32,
    /// Racks in which members and relays stand in turn; none at 0.
    #[serde(default)]
    pub racks: u32,
    /// What a worker may have at its node that is not folded.
    pub window_bytes: u64,
    /// What a node keeps of what was not announced.
    pub early_bytes_max: u64,
    /// What a worker keeps of what it has pushed.
    pub kept_bytes_max: u64,
    /// The requests, as they are announced, in any order.
    pub announcements: Vec<Announcement>,
    /// What is pushed for them, in any order.
    pub results: Vec<PlannedResult>,
    /// What happens to workers, in any order.
    pub mishaps: Vec<PlannedMishap>,
}

/// A request's announcement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Announcement {
    /// When.
    pub at_us: u64,
    /// Who makes it, counted round over all places.
    pub front: u32,
    /// The member that makes it on behalf of the client `front`, when that is one.
    pub through: u32,
    /// The request. One that is announced again is so by a master that has lost its front.
    pub request: u64,
    /// How the call goes; its partitions are the workers that are expected.
    pub wish: Wish,
    /// How long absent workers are waited for.
    pub patience_us: u64,
    /// When it is cancelled, from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled_after_us: Option<u64>,
}

/// What a worker has for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedResult {
    /// When the first piece is there.
    pub at_us: u64,
    /// How long each further one takes.
    pub every_us: u64,
    /// Whose it is.
    pub worker: u32,
    /// For which request.
    pub request: u64,
    /// The size of each piece; all but the first may be empty.
    pub pieces: Vec<u32>,
    /// True when the worker fails instead of giving the last piece.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails: bool,
}

/// A mishap and when it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedMishap {
    /// When.
    pub at_us: u64,
    /// To which worker, counted round over all that have been started.
    pub worker: u32,
    /// What.
    pub mishap: Mishap,
}

/// What can happen to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mishap {
    /// Its connection breaks.
    Cut,
    /// Its program dies, and another begins with its number.
    Restart,
    /// Another begins with its number, and it lives on.
    Twin,
}

impl Mishap {
    /// Every kind's name, for the tally.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Cut => "cut_worker",
            Self::Restart => "restart_worker",
            Self::Twin => "twin_worker",
        }
    }
}

impl Announcement {
    /// The call as core has it, of so many workers.
    pub fn options(&self, workers: u32) -> CallOptions {
        let patience = Duration::from_micros(self.patience_us);
        let push = Some(PushRequest { request: self.request, patience });
        CallOptions { push, ..self.wish.options(workers) }
    }
}

impl PlannedResult {
    /// When piece `number` is there.
    pub fn piece_at_us(&self, number: usize) -> u64 {
        self.at_us + self.every_us * number as u64
    }

    /// Piece `number`, from 0, and whether it is the last.
    pub fn piece(&self, number: usize) -> (Ink, bool) {
        let piece = Ink::piece(self.worker, self.request, number, &self.pieces);
        (piece, number + 1 == self.pieces.len())
    }

    /// True when the worker fails at piece `number`.
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

    /// The rack of the `at`-th member or relay.
    pub fn rack_of(&self, at: u32) -> String {
        if self.racks == 0 { String::new() } else { format!("r{}", at % self.racks) }
    }

    /// True when every result has pieces, the first of which holds something.
    pub(super) fn is_sound(&self) -> bool {
        self.results.iter().all(|result| result.pieces.first().is_some_and(|&bytes| bytes > 0))
    }

    /// The bytes of the largest piece, those of the last announcements among them.
    pub fn piece_max(&self) -> u32 {
        let planned = self.results.iter().flat_map(|result| &result.pieces).copied();
        planned.fold(LAST_PIECE_BYTES, u32::max)
    }

    /// When the last of it has happened, in µs.
    pub(super) fn over_at_us(&self) -> u64 {
        let announced = self.announcements.iter().map(|announced| announced.at_us);
        let results = self.results.iter().map(|result| result.piece_at_us(result.pieces.len()));
        let mishaps = self.mishaps.iter().map(|planned| planned.at_us);
        announced.chain(results).chain(mishaps).max().unwrap_or(0)
    }
}
