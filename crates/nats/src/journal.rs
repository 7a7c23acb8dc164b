//! A journal in a JetStream stream, which is used as a log only.
//!
//! ```text
//! stream STREAM
//!   treefold.journal.STREAM.epochs      the epochs of its writers; the last message counts
//!   treefold.journal.STREAM.records.2   the records of epoch 2: a message for each, or several for a long one
//! ```
//!
//! - **One writer.** Each message names the sequence of the message before it, and JetStream refuses it if another one
//!   was written meanwhile (compare-and-set). A new writer begins with a *claim* of its epoch, which has to follow the
//!   last message about epochs and nothing else. So it succeeds while an older writer is busy, and that one's next record
//!   is refused: it learns that a newer origin has begun, and ends. The new writer then reads what the old one wrote
//!   before the claim, and writes where its epoch begins. Only then does it write records.
//! - **Many records are in flight** in one flush, up to [`IN_FLIGHT_MAX`], and if one of them is refused, so must be all
//!   behind it. A sequence alone does not ensure it: a newer writer's message may have got the sequence that the refused
//!   record was to have. So a record also names the sequence of the last record of its epoch, whose subject is its own.
//! - **A lost answer.** If a flush fails, the journal asks how far its records are stored before it writes again, so no
//!   record is stored twice.
//! - **Durable** means that the server has answered. Whether a power cut can lose the record is the server's setting
//!   `sync_interval`: `always`, or by default every two minutes.
//!
//! The methods of a journal wait for the network. The client runs on a thread of its own, so they can be called anywhere.

mod remote;

use crate::Server;
use bytes::Bytes;
use remote::{Found, Remote, Written};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use treefold_journal::epochs::EPOCHS_MAX;
use treefold_journal::{Epoch, Journal, JournalError, Stored, Sync};

/// Messages that wait for the server's answer at one time.
pub const IN_FLIGHT_MAX: usize = 256;
/// Bytes of records that wait to be written. An append beyond it is refused.
pub const PENDING_BYTES_MAX: usize = 64 << 20;
/// Bytes of a record's payload.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// Bytes of records after which the next place follows at which the journal can be trimmed.
const MARK_BYTES: usize = 1 << 20;
/// Records after which such a place follows.
const MARK_RECORDS: u64 = 4_096;
/// Most such places. Above it, every second one is forgotten.
const MARKS_MAX: usize = 4_096;

/// The stream of a journal.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The server.
    pub server: Server,
    /// The stream's name. It is made if it is absent.
    pub stream: String,
    /// Servers that keep the stream, if it is made.
    pub replicas: usize,
}

/// A journal in a JetStream stream.
#[derive(Debug)]
pub struct StreamJournal {
    remote: Arc<Remote>,
    thread: Thread,
    epochs: Vec<Epoch>,
    /// The greatest epoch that a writer has claimed. Its writer may have died before it wrote anything.
    claimed: u32,
    /// Sequence of the last message about epochs.
    epochs_at: u64,
    /// Sequence of the last record's message that was read.
    seen: u64,
    /// The writer's place; `None` before it has begun an epoch.
    writing: Option<Written>,
    marks: Marks,
    /// Appended records that are not stored.
    pending: VecDeque<Stored>,
    pending_bytes: usize,
    first: u64,
    last: u64,
    durable: u64,
    /// The reason why nothing more is written.
    failed: Option<Failed>,
}

#[derive(Clone, Copy, Debug)]
enum Failed {
    Fenced(u32),
    Lost(u64),
}

/// Places at which the journal can be trimmed: the last position of a record, and its sequence.
#[derive(Debug, Default)]
struct Marks {
    places: VecDeque<(u64, u64)>,
    bytes: usize,
    records: u64,
}

impl Marks {
    fn push(&mut self, last: u64, sequence: u64, bytes: usize) {
        self.bytes += bytes;
        self.records += 1;
        if self.bytes < MARK_BYTES && self.records < MARK_RECORDS {
            return;
        }
        (self.bytes, self.records) = (0, 0);
        if self.places.len() >= MARKS_MAX {
            let mut index = 0;
            self.places.retain(|_| {
                index += 1;
                index % 2 == 0
            });
        }
        self.places.push_back((last, sequence));
    }
}

/// The thread of the client. It ends when this is dropped.
#[derive(Debug)]
struct Thread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl Thread {
    fn start() -> Self {
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("invariant: the system has a file descriptor for each runtime");
            // The other side waits for it.
            let _ = tell.send(runtime.handle().clone());
            // An error means that the journal is dropped.
            let _ = runtime.block_on(ended);
        });
        let handle = told.recv().expect("invariant: the thread tells its handle first");
        Self { handle, _end: end }
    }

    /// Runs a future on the thread, and waits for its end.
    fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (tell, told) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            // The other side waits for it.
            let _ = tell.send(future.await);
        });
        told.recv().expect("invariant: the thread runs as long as the journal lives")
    }
}

impl StreamJournal {
    /// Opens the journal of a stream, which is made if it is absent. Other writers may be at work; the first
    /// [`begin_epoch`](Journal::begin_epoch) ends them.
    ///
    /// # Errors
    /// If there is no server, the stream is not one of a journal, or a record is missing.
    pub fn open(options: StreamOptions) -> Result<Self, JournalError> {
        let thread = Thread::start();
        let (remote, found) = thread.wait(async move {
            let remote = Arc::new(Remote::connect(&options).await?);
            let found = remote.epochs().await?;
            Ok::<_, JournalError>((remote, found))
        })?;
        let Found { epochs, claimed, sequence } = found;
        let after = epochs.last().map_or(0, |epoch| epoch.after);
        let mut journal = Self {
            remote,
            thread,
            epochs,
            claimed,
            epochs_at: sequence,
            seen: 0,
            writing: None,
            marks: Marks::default(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            first: after + 1,
            last: after,
            durable: after,
            failed: None,
        };
        journal.catch_up()?;
        if claimed > journal.epochs.last().map_or(0, |epoch| epoch.number) {
            // Its writer has written nothing, and no older one can.
            journal.epochs.push(Epoch { number: claimed, after: journal.last });
        }
        Ok(journal)
    }

    /// Notes the records that were not read yet.
    fn catch_up(&mut self) -> Result<(), JournalError> {
        let mut is_first = self.first > self.last;
        let (remote, mut found) = (Arc::clone(&self.remote), Vec::new());
        self.seen = self.read(self.seen + 1, true, &mut |record| {
            found.push((record.stored.first, record.stored.last, record.sequence, record.bytes));
        })?;
        for (first, last, sequence, bytes) in found {
            if is_first {
                (self.first, is_first) = (first, false);
            } else if first != self.last + 1 {
                return Err(
                    remote.wrong(format!("the record behind position {} begins at {first}", self.last))
                );
            }
            self.last = last;
            self.marks.push(last, sequence, bytes);
        }
        self.durable = self.last;
        Ok(())
    }

    /// Reads the records from a sequence on; without payloads if `heads_only`. Returns the last sequence.
    fn read(
        &self,
        from: u64,
        heads_only: bool,
        take: &mut dyn FnMut(remote::Record),
    ) -> Result<u64, JournalError> {
        let remote = Arc::clone(&self.remote);
        let mut reading = self.thread.wait(async move { remote.read(from, heads_only).await })?;
        loop {
            let (next, records) = self.thread.wait(async move {
                let records = reading.next().await;
                (reading, records)
            });
            reading = next;
            let Some(records) = records? else { return Ok(reading.seen) };
            records.into_iter().for_each(&mut *take);
        }
    }

    fn check(&self) -> Result<(), JournalError> {
        match self.failed {
            None => Ok(()),
            Some(Failed::Fenced(epoch)) => Err(JournalError::Fenced { epoch }),
            Some(Failed::Lost(position)) => Err(self.remote.wrong(format!(
                "the server has lost records behind position {position}, which it had confirmed; does it run with \
                 `sync_interval: always`?"
            ))),
        }
    }

    /// Learns how far this writer's records are stored, after a write whose outcome is not known.
    fn resume(&mut self, known: Written) -> Result<Written, JournalError> {
        let remote = Arc::clone(&self.remote);
        let (found, stored) = self.thread.wait(async move {
            let found = remote.epochs().await?;
            let stored = remote.last_record(known.epoch).await?;
            Ok::<_, JournalError>((found, stored))
        })?;
        if found.claimed > known.epoch {
            self.failed = Some(Failed::Fenced(found.claimed));
            self.check()?;
        }
        let after = self.epochs.last().map_or(0, |epoch| epoch.after);
        let (sequence, last) = stored.unwrap_or((0, after));
        let has_lost = last < self.durable;
        if has_lost || found.claimed < known.epoch {
            self.failed = Some(Failed::Lost(last));
            self.check()?;
        }
        self.note_stored(last);
        Ok(Written { sequence: sequence.max(found.sequence), record: sequence, is_certain: true, ..known })
    }

    /// Forgets the pending records up to a position.
    fn note_stored(&mut self, last: u64) {
        while let Some(record) = self.pending.pop_front_if(|record| record.last <= last) {
            self.pending_bytes -= record.payload.len();
            self.durable = record.last;
        }
    }
}

impl Journal for StreamJournal {
    fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    fn begin_epoch(&mut self, number: u32) -> Result<(), JournalError> {
        self.check()?;
        let known = self.claimed.max(self.epochs.last().map_or(0, |epoch| epoch.number));
        if number <= known {
            return Err(JournalError::Epoch { known, given: number });
        }
        let (remote, epochs_at, earlier) = (Arc::clone(&self.remote), self.epochs_at, self.epochs.clone());
        let claim = self.thread.wait(async move { remote.claim(number, &earlier, epochs_at).await })?;
        let Some(claimed_at) = claim else {
            let remote = Arc::clone(&self.remote);
            let found = self.thread.wait(async move { remote.epochs().await })?;
            return Err(JournalError::Epoch { known: found.claimed, given: number });
        };
        // An older writer may have written until the claim, and not after it.
        self.catch_up()?;
        let mut epochs = self.epochs.clone();
        // A journal that lost its end no longer has what an epoch after it began with.
        epochs.iter_mut().for_each(|epoch| epoch.after = epoch.after.min(self.last));
        epochs.push(Epoch { number, after: self.last });
        epochs.drain(..epochs.len().saturating_sub(EPOCHS_MAX));
        let (remote, written) = (Arc::clone(&self.remote), epochs.clone());
        let begun = self.thread.wait(async move { remote.begin(number, &written, claimed_at).await })?;
        let Some(sequence) = begun else {
            let remote = Arc::clone(&self.remote);
            let found = self.thread.wait(async move { remote.epochs().await })?;
            return Err(JournalError::Fenced { epoch: found.claimed });
        };
        (self.epochs, self.claimed, self.epochs_at) = (epochs, number, sequence);
        self.writing = Some(Written { epoch: number, sequence, record: 0, is_certain: true });
        Ok(())
    }

    fn begin_after(&mut self, position: u64) -> Result<(), JournalError> {
        if self.first <= self.last {
            return Err(JournalError::Order { expected: self.last + 1, given: position + 1 });
        }
        (self.first, self.last, self.durable) = (position + 1, position, position);
        Ok(())
    }

    fn append(&mut self, first: u64, last: u64, payload: &[u8]) -> Result<(), JournalError> {
        self.check()?;
        let too_long = |field, given, limit| Err(JournalError::TooLong { field, given, limit });
        if first != self.last + 1 || last < first {
            return Err(JournalError::Order { expected: self.last + 1, given: first });
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return too_long("payload", payload.len(), PAYLOAD_BYTES_MAX);
        }
        let pending = self.pending_bytes + payload.len();
        if pending > PENDING_BYTES_MAX && !self.pending.is_empty() {
            return too_long("pending", pending, PENDING_BYTES_MAX);
        }
        self.pending.push_back(Stored { first, last, payload: Bytes::copy_from_slice(payload) });
        (self.pending_bytes, self.last) = (pending, last);
        Ok(())
    }

    fn flush(&mut self) -> Result<u64, JournalError> {
        self.check()?;
        // A second round follows a refusal, whose reason the journal then knows.
        for _ in 0..2 {
            if self.pending.is_empty() {
                break;
            }
            let Some(mut writing) = self.writing else {
                return Err(self.remote.wrong("no epoch has begun".to_owned()));
            };
            if !writing.is_certain {
                writing = self.resume(writing)?;
                self.writing = Some(writing);
            }
            let (remote, records) = (Arc::clone(&self.remote), self.pending.clone());
            let (written, stored, refused) =
                self.thread.wait(async move { remote.write(writing, records).await });
            self.writing = Some(written);
            for (last, sequence, bytes) in stored {
                self.note_stored(last);
                self.marks.push(last, sequence, bytes);
            }
            match refused {
                Some(remote::Refused::Other(problem)) => return Err(self.remote.away(problem)),
                Some(remote::Refused::Sequence) | None => {}
            }
        }
        if self.pending.is_empty() {
            return Ok(self.durable);
        }
        Err(self.remote.away("another program writes to the stream".to_owned()))
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.check()
    }

    fn policy(&self) -> Sync {
        Sync::Always
    }

    fn durable(&self) -> u64 {
        self.durable
    }

    fn first(&self) -> u64 {
        self.first
    }

    fn last(&self) -> u64 {
        self.last
    }

    fn trim(&mut self, position: u64) -> Result<(), JournalError> {
        // The last record stays, because it tells a new writer how far its sources are.
        let below = position.min(self.durable.saturating_sub(1));
        let count = self.marks.places.partition_point(|&(last, _)| last <= below);
        let Some(&(last, sequence)) = count.checked_sub(1).and_then(|at| self.marks.places.get(at)) else {
            return Ok(());
        };
        let remote = Arc::clone(&self.remote);
        self.thread.wait(async move { remote.trim(sequence).await })?;
        self.marks.places.drain(..count);
        self.first = last + 1;
        Ok(())
    }

    fn read_after(&self, position: u64, take: &mut dyn FnMut(Stored)) -> Result<(), JournalError> {
        let count = self.marks.places.partition_point(|&(last, _)| last <= position);
        let from =
            count.checked_sub(1).and_then(|at| self.marks.places.get(at)).map_or(1, |place| place.1 + 1);
        let (mut reached, mut gap) = (None, false);
        self.read(from, false, &mut |record| {
            let Stored { first, last, .. } = record.stored;
            gap |= reached.is_some_and(|reached| first != reached + 1);
            reached = Some(last);
            if last > position && last <= self.durable {
                take(record.stored);
            }
        })?;
        let is_whole =
            !gap && (self.durable <= position || self.first > self.durable || reached >= Some(self.durable));
        if is_whole { Ok(()) } else { Err(self.remote.wrong("records are missing".to_owned())) }
    }
}
