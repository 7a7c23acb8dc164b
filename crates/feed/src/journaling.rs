//! The journal's thread: writes the packets of an origin, and tells which are durable.
//!
//! One flush serves all packets that wait, so a slow disk makes larger groups, and not longer queues. A full disk
//! holds the origin up until there is room: its packets wait here, and then its queues refuse events as busy.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use treefold_journal::{Journal, JournalError, Sync};

/// Packets that may wait for the journal. While there are as many, events gather in the origin's queue.
pub(crate) const WRITES_MAX: usize = 8;
/// Time between two tries to write to a full disk, or to a server that is away.
const RETRY: Duration = Duration::from_millis(250);

/// The journal of an origin, on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Journaling {
    writes: SyncSender<Write>,
    state: watch::Receiver<JournalState>,
    /// The last position that was handed over.
    last: u64,
    /// The position up to which the journal may forget records.
    trim: Arc<AtomicU64>,
}

/// How far a journal is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalState {
    /// The last position that the policy promises to keep.
    pub(crate) durable: u64,
    /// The problem that holds the journal up, for instance a full disk.
    pub(crate) problem: Option<Arc<str>>,
    /// True if the journal can't go on.
    pub(crate) has_failed: bool,
}

/// A packet to write.
struct Write {
    first: u64,
    last: u64,
    packet: Bytes,
}

impl Journaling {
    pub(crate) fn start(journal: Box<dyn Journal>) -> Self {
        let (last, durable) = (journal.last(), journal.durable());
        let (writes, received) = sync_channel(WRITES_MAX);
        let (telling, state) = watch::channel(JournalState { durable, ..JournalState::default() });
        let trim = Arc::new(AtomicU64::new(0));
        let writer =
            Writer { journal, telling, trim: Arc::clone(&trim), trimmed: 0, synced_at: Instant::now() };
        std::thread::spawn(move || writer.run(&received));
        Self { writes, state, last, trim }
    }

    /// Sees the states, and the end: when nobody tells states any more, the journal is closed.
    pub(crate) fn watch(&self) -> watch::Receiver<JournalState> {
        self.state.clone()
    }

    /// The present state.
    pub(crate) fn state(&self) -> JournalState {
        self.state.borrow().clone()
    }

    /// Waits until the state has changed.
    pub(crate) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            // The thread has told its last state, which the owner has seen.
            std::future::pending::<()>().await;
        }
    }

    /// True if the journal has a packet, or will have it, with this last position.
    pub(crate) fn has(&self, last: u64) -> bool {
        last <= self.last
    }

    /// Hands over a packet. The owner lets at most [`WRITES_MAX`] packets wait.
    pub(crate) fn write(&mut self, first: u64, last: u64, packet: Bytes) {
        self.last = last;
        // A thread that has ended has told that it has failed.
        let _ = self.writes.try_send(Write { first, last, packet });
    }

    /// Lets the journal forget the records up to a position, with the next write.
    pub(crate) fn trim(&self, position: u64) {
        self.trim.store(position, Ordering::Relaxed);
    }
}

struct Writer {
    // Fields are dropped in order: the journal is closed before nobody tells its state any more.
    journal: Box<dyn Journal>,
    telling: watch::Sender<JournalState>,
    trim: Arc<AtomicU64>,
    trimmed: u64,
    synced_at: Instant,
}

/// The origin has ended.
struct Disconnected;

/// Whether the journal can go on after a turn.
enum Turn {
    Done,
    /// A full disk, or a server that is away.
    Waits,
    Failed,
}

impl Writer {
    fn run(mut self, writes: &Receiver<Write>) {
        let mut turn = Turn::Done;
        loop {
            let first = match turn {
                Turn::Done => match self.next(writes) {
                    Ok(first) => first,
                    Err(Disconnected) => break,
                },
                Turn::Waits => match writes.recv_timeout(RETRY) {
                    Ok(write) => Some(write),
                    Err(RecvTimeoutError::Timeout) => None,
                    // Nobody waits for the journal of an origin that has ended.
                    Err(RecvTimeoutError::Disconnected) => return,
                },
                Turn::Failed => return,
            };
            turn = match self.write(first.into_iter().chain(writes.try_iter())) {
                Ok(()) => self.tell(None, Turn::Done),
                Err(error) if error.is_temporary() => self.tell(Some(error), Turn::Waits),
                Err(error) => self.tell(Some(error), Turn::Failed),
            };
        }
        // The origin has ended. A failure now concerns events whose loss the policy allows.
        let _ = self.journal.sync();
    }

    /// The next packet. `None` if there is none and a sync is due.
    fn next(&self, writes: &Receiver<Write>) -> Result<Option<Write>, Disconnected> {
        let Sync::Interval(every) = self.journal.policy() else {
            return writes.recv().map(Some).map_err(|_| Disconnected);
        };
        match writes.recv_timeout(every.saturating_sub(self.synced_at.elapsed())) {
            Ok(write) => Ok(Some(write)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Disconnected),
        }
    }

    fn write(&mut self, writes: impl Iterator<Item = Write>) -> Result<(), JournalError> {
        for Write { first, last, packet } in writes {
            self.journal.append(first, last, &packet)?;
        }
        // Before the flush, because it may make room on a full disk.
        let trim = self.trim.load(Ordering::Relaxed);
        if trim > self.trimmed {
            self.journal.trim(trim)?;
            self.trimmed = trim;
        }
        self.journal.flush()?;
        self.sync_if_due()
    }

    fn sync_if_due(&mut self) -> Result<(), JournalError> {
        if let Sync::Interval(every) = self.journal.policy()
            && self.synced_at.elapsed() >= every
        {
            self.synced_at = Instant::now();
            self.journal.sync()?;
        }
        Ok(())
    }

    fn tell(&self, problem: Option<JournalError>, turn: Turn) -> Turn {
        let durable = self.journal.durable();
        let problem = problem.map(|error| Arc::from(error.to_string()));
        let new = JournalState { durable, problem, has_failed: matches!(turn, Turn::Failed) };
        self.telling.send_if_modified(|state| {
            let is_new = *state != new;
            *state = new;
            is_new
        });
        turn
    }
}
