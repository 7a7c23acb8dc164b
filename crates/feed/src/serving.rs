//! Serving readers: from the mirror's memory, on a thread of their own.
//!
//! ```text
//!   mirror's task ── applies ──▶ Held: state, log ◀── polls ── a task for each reader ──▶ stream, or HTTP
//!        └────── wakes (watch) ───────────────────────────────▶        │
//!                              worker: encodes a snapshot ◀── wanted ──┘
//! ```
//!
//! - **A reader costs its place.** It has no queue: what it has not taken stays in the mirror's log or in a snapshot,
//!   which all readers share (`treefold_mirror::reader`). A reader that stops reading waits in its own task.
//! - **Readers do not slow the mirror.** Its task never waits for one. Readers run on a thread of their own, and hold
//!   the lock on the state while they look for messages, not while these are written. A worker encodes snapshots.
//! - **Bytes are written once.** Readers with the same filter and the same form share what is written for them
//!   (`shelf`); readers without a filter in a stream get the origin's own packets.
//! - **Joins give way to events.** Few readers are given a snapshot at a time, piece by piece; the others wait for their
//!   turn in the order in which they came (`turns`).
//! - **The number of readers is bounded**, and readers that wait for a snapshot count as pending requests in the
//!   mirror's votes.
//!
//! `place` is one reader's place, `forms` writes messages, `shelf` keeps what is written, `pump` sends it up a
//! stream, and `turns` says whose turn it is to get a piece of a snapshot.

mod forms;
mod place;
mod pump;
mod shelf;
mod turns;

pub(crate) use forms::{Because, Beginning, Form, Reached};
pub(crate) use place::{Service, Start};
pub(crate) use pump::serve;

use crate::mirror::Shared;
use shelf::Shelf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use treefold::operators::OperatorError;
use treefold_mirror::joining::Ask;
use treefold_mirror::keyed::FrozenKeys;
use treefold_mirror::message::Refusal;
use treefold_mirror::reader::{Encoded, Snapshots, encode};
use treefold_mirror::snapshot::Snapshot;
use turns::{Ticket, Turns};

/// Workers that encode snapshots. A mirror encodes one at a time; the other one is for the end of a former job.
const WORKERS_MAX: usize = 2;

/// Limits of a mirror's readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// Most readers of a mirror, over streams and HTTP together.
    pub readers_max: usize,
    /// Bytes of messages written from packets that are kept for further readers.
    pub written_bytes_max: usize,
    /// Bytes of messages written from pieces of the newest snapshot that are kept for further readers.
    pub pieces_bytes_max: usize,
    /// Bytes of packets without a selected event after which a reader is told its place.
    pub untold_bytes_max: u64,
    /// Time after which a reader that got nothing is told its place. It is also a sign of life.
    pub heartbeat: Duration,
    /// Time that a reader which is ahead of the mirror waits for it, before it gets a snapshot.
    pub ahead_wait: Duration,
    /// Readers that are given a snapshot at once. Further ones wait, in the order in which they came.
    pub loads_max: usize,
    /// Time after which a reader that takes no piece of its snapshot has no place among them.
    pub load_stalled_max: Duration,
    /// Time after which a reader that is given a snapshot waits for a turn behind all others.
    pub load_turn_max: Duration,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self {
            readers_max: 10_000,
            written_bytes_max: 16 << 20,
            pieces_bytes_max: 32 << 20,
            untold_bytes_max: 1 << 20,
            heartbeat: Duration::from_secs(5),
            ahead_wait: Duration::from_secs(2),
            loads_max: 2,
            load_stalled_max: Duration::from_millis(50),
            load_turn_max: Duration::from_secs(2),
        }
    }
}

/// The part of a mirror that its readers share.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) limits: ReaderLimits,
    /// Locked only while the state is locked, or alone.
    snapshots: Mutex<Snapshots>,
    shelf: Mutex<Shelf>,
    turns: Turns,
    /// Counts finished encodings.
    finished: watch::Sender<u64>,
    readers: AtomicUsize,
    waiting: AtomicUsize,
}

impl Serving {
    pub(crate) fn new(limits: ReaderLimits) -> Self {
        Self {
            snapshots: Mutex::default(),
            shelf: Mutex::new(Shelf::new(limits.written_bytes_max, limits.pieces_bytes_max)),
            turns: Turns::new(&limits),
            finished: watch::Sender::new(0),
            readers: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            limits,
        }
    }

    /// Readers that are served.
    pub(crate) fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// Readers that wait for a snapshot.
    pub(crate) fn pending(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed) as u64
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        // Each change of the snapshots is one assignment, so they are valid also after a panic.
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the places that a mirror has for readers. Dropping it gives it back.
#[derive(Debug)]
struct Seat {
    shared: Arc<Shared>,
    is_waiting: bool,
    /// Of a reader that needs turns for its snapshot.
    ticket: Option<Ticket>,
}

impl Seat {
    fn take(shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let Serving { readers, limits, .. } = &shared.serving;
        let limit = limits.readers_max;
        let more = |taken: usize| (taken < limit).then_some(taken + 1);
        match readers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self { shared: Arc::clone(shared), is_waiting: false, ticket: None }),
            Err(_) => Err(Refusal::Full { limit }),
        }
    }

    /// Notes whether the reader waits for a snapshot.
    fn wait(&mut self, is_waiting: bool) {
        let waiting = &self.shared.serving.waiting;
        match (std::mem::replace(&mut self.is_waiting, is_waiting), is_waiting) {
            (false, true) => _ = waiting.fetch_add(1, Ordering::Relaxed),
            (true, false) => _ = waiting.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Notes whether the reader needs turns for its snapshot.
    fn load(&mut self, is_loading: bool) {
        let turns = &self.shared.serving.turns;
        match (&self.ticket, is_loading) {
            (None, true) => self.ticket = Some(turns.ticket()),
            (Some(ticket), false) => {
                turns.leave(ticket);
                self.ticket = None;
            }
            _ => {}
        }
    }

    /// Waits for a turn. Cancel safe.
    async fn turn(&mut self) {
        if let Some(ticket) = &mut self.ticket {
            self.shared.serving.turns.turn(ticket).await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.wait(false);
        self.load(false);
        self.shared.serving.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An encoding that is under way. Readers are woken also if it fails.
struct Encoding(Arc<Shared>, Option<Encoded>);

impl Encoding {
    fn run(mut self, frozen: &Snapshot<FrozenKeys>) {
        self.1 = Some(encode(frozen, &self.0.options.limits));
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        let Serving { finished, .. } = &self.0.serving;
        match self.1.take() {
            Some(encoded) => {
                let held = self.0.held();
                self.0.serving.snapshots().finish(encoded, held.mirror());
            }
            None => self.0.serving.snapshots().give_up(),
        }
        finished.send_modify(|count| *count += 1);
    }
}

/// The snapshot for a mirror that joins. Encodes it here, unless it is there. `None` if another thread encodes one.
pub(crate) fn asked(shared: &Arc<Shared>, ask: Ask) -> Result<Option<Arc<Encoded>>, OperatorError> {
    loop {
        let held = shared.current()?;
        let mut snapshots = shared.serving.snapshots();
        if let Some(encoded) = snapshots.asked(ask, held.mirror())? {
            return Ok(Some(encoded));
        }
        let Some(frozen) = snapshots.poll_job(held.mirror()) else { return Ok(None) };
        drop((snapshots, held));
        Encoding(Arc::clone(shared), None).run(&frozen);
    }
}

/// Encodes a snapshot on a worker.
fn encode_elsewhere(shared: &Arc<Shared>, frozen: Snapshot<FrozenKeys>) {
    let encoding = Encoding(Arc::clone(shared), None);
    tokio::task::spawn_blocking(move || encoding.run(&frozen));
}

/// The thread on which a mirror's readers are served. Dropping it ends their tasks.
#[derive(Debug)]
pub(crate) struct Hall {
    pub(crate) handle: Handle,
    /// Dropping this ends the thread.
    _open: Option<oneshot::Sender<()>>,
}

impl Hall {
    /// Starts the thread. If the system has none left, readers are served on the current runtime.
    pub(crate) fn open() -> Self {
        let (open, closed) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WORKERS_MAX)
            .build();
        let started = runtime.and_then(|runtime| {
            let handle = runtime.handle().clone();
            std::thread::Builder::new().name("tf-readers".to_owned()).spawn(move || {
                // An error means that the mirror has dropped its end.
                let _ = runtime.block_on(closed);
                runtime.shutdown_background();
            })?;
            Ok(handle)
        });
        match started {
            Ok(handle) => Self { handle, _open: Some(open) },
            Err(error) => {
                tracing::warn!(%error, "no thread for readers; they share the mirror's");
                Self { handle: Handle::current(), _open: None }
            }
        }
    }
}
