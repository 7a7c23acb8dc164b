//! Feeds: events enter at an origin, and mirrors on other nodes keep a state of them.
//!
//! ```text
//!  sources ─▶ Origin ═══ stream ═══▶ mirror 0      a new mirror ── call ──▶ another mirror
//!               ▲                    mirror 1                  ◀─ snapshot ─┘
//!               └── votes, folded ◀═ mirror 2
//! ```
//!
//! This crate connects `treefold-mirror`, which decides, to streams and calls. A feed is a service: its mirrors
//! are the service's endpoints. The origin is the front-end of a stream to them, and sends
//! [packets](treefold_mirror::packet) down. Answers to a checkpoint are a wave, folded by the filter `min`. A
//! mirror that lacks events takes a snapshot from another one by a call, and applies the packets that came in
//! the meantime. The stream orders packets, repairs its tree and slows the origin down; this crate does none of it.
//!
//! A reader is the front-end of a stream to one mirror, or a client of that mirror's HTTP listener.
//!
//! When an origin has died, a candidate takes over from the mirrors ([`promotion`]), which promise to follow nobody else
//! (`promising`).
//!
//! A map of the code: [`origin`] sends, and `journaling` keeps its events on a disk; [`mirror`](mod@mirror) receives,
//! `joining` brings a mirror up to date, `reading` answers calls, `serving` serves readers, [`http`] those that come
//! over HTTP, and [`follow`] is the reader. [`operating`] is the service by which a running origin is asked and set.
#![forbid(unsafe_code)]

pub mod follow;
pub mod http;
mod joining;
mod journaling;
pub mod mirror;
pub mod operating;
pub mod origin;
mod promising;
pub mod promotion;
mod reading;
mod serving;

use std::hash::{BuildHasher, Hasher};

pub use follow::{Reader, Update, View};
pub use http::{HttpListener, HttpOptions};
pub use mirror::{Mirror, MirrorOptions, Unstarted, mirror};
pub use operating::{OriginDesk, origin_service};
pub use origin::{Acknowledged, EndError, OfferError, Origin, OriginOptions, OriginStatus};
pub use promising::PromiseFile;
pub use promotion::{TakeOver, TakeOverError};
pub use reading::MirrorStatus;
pub use serving::ReaderLimits;

/// Parameters of a feed's stream: the wishes of its front-end.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum FeedParams {
    /// An origin's stream, to all mirrors.
    Origin {
        /// The epoch of the origin.
        epoch: u32,
        /// The ends of the earlier epochs that it continues.
        past: Vec<treefold_mirror::Cut>,
        /// The number of mirrors that the feed may have, as the origin sees it: a vote has a place for each.
        mirrors: u32,
        /// The number of the candidate, for an origin that has taken over from the mirrors.
        candidate: Option<u64>,
    },
    /// A reader's stream, to one mirror.
    Reader(ReaderParams),
}

/// The wishes of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct ReaderParams {
    filter: treefold_mirror::Filter,
    /// The place after which it resumes; without one, it gets a snapshot.
    from: Option<treefold_mirror::Cut>,
}

fn random_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

fn unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 counts as 1970.
    since.map_or(0, |since| since.as_millis() as u64)
}

/// The programs in this crate's page of the documentation, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/mirrors.md")]
struct Page;
