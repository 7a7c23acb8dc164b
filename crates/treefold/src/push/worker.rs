//! One worker of an application, for use in the worker's program.
//!
//! A task on the program's runtime owns the connection and the [book](treefold_core::push::book) of pushes.
//! A push waits only while the book is full, so a busy relay slows its workers. The program does not notice
//! a lost relay: the task attaches elsewhere, and sends again what the new node asks for.

use super::connection::{Came, Connection, Way};
use crate::options::ClusterOptions;
use crate::transport::Identity;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use treefold_core::id::NodeId;
use treefold_core::push::book::{Book, Over};
use treefold_core::time::Instant;

/// Default time limit for attaching.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Default for the bytes that a worker keeps of its pushes.
const KEPT_BYTES_DEFAULT: usize = 64 << 20;
/// Interval at which pushes that no node asks for any more are dropped.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);
/// A worker that has heard nothing from its node for this long, while the node has pushes of its, asks whether the node lives.
const QUIET: Duration = Duration::from_millis(500);
/// As above, for a worker without pushes.
const QUIET_IDLE: Duration = Duration::from_secs(2);
/// Without an answer in this time, the worker attaches elsewhere.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// Pushes that may wait for the worker's task. With more, the caller waits.
const ASKS_QUEUED_MAX: usize = 64;

/// Why a push failed, or a worker could not attach.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// An argument or setting is invalid. No node was contacted.
    #[error("{field}: {problem}")]
    Field {
        /// The invalid field.
        field: &'static str,
        /// Why it is invalid.
        problem: String,
    },
    /// No connection could be made.
    #[error("can't connect to {addr}: {source}")]
    Unreachable {
        /// The address tried.
        addr: String,
        /// The operating system's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// The node refuses the worker, or has thrown it out.
    #[error("{addr} refuses: {problem}")]
    Refused {
        /// The address of the node.
        addr: String,
        /// The reason that it gave.
        problem: Arc<str>,
    },
    /// The request has ended, or this worker's result for it is already complete. The push was discarded.
    #[error("request {request} is over")]
    Over {
        /// The request.
        request: u64,
    },
    /// The worker is no longer attached to any node, and will not attach again.
    #[error("the worker has been detached{}", .why.as_deref().map_or_else(String::new, |why| format!(": {why}")))]
    Detached {
        /// The node's reason; `None` if the worker's own task ended.
        why: Option<Arc<str>>,
    },
}

/// The settings of a worker; see [`Worker::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkerBuilder {
    application: String,
    worker: u32,
    addrs: Vec<String>,
    cluster: ClusterOptions,
    timeout: Duration,
    kept_bytes_max: usize,
}

impl WorkerBuilder {
    /// Adds nodes to attach to, `host:port`. They are tried in turn, now and whenever the connection is
    /// lost. Give the relays of the worker's own rack first.
    pub fn at<A: ToString>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.addrs.extend(addrs.into_iter().map(|addr| addr.to_string()));
        self
    }

    /// Starts each worker at another address, by its number, so that the workers of a rack share its relays
    /// evenly.
    pub fn spread(mut self) -> Self {
        if !self.addrs.is_empty() {
            let first = self.worker as usize % self.addrs.len();
            self.addrs.rotate_left(first);
        }
        self
    }

    /// The cluster: its name, or [`ClusterOptions`] with a token and this worker's limits.
    pub fn cluster(mut self, cluster: impl Into<ClusterOptions>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Sets how long attaching may take. Once attached, a worker that loses its node tries for ever.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many bytes of its pushes the worker keeps, in case it must send them again. Further pushes
    /// wait.
    pub fn kept_bytes_max(mut self, bytes: usize) -> Self {
        self.kept_bytes_max = bytes;
        self
    }

    /// Attaches, on the caller's tokio runtime.
    ///
    /// # Errors
    /// If no node takes the worker in within the timeout: the error of the last attempt.
    pub async fn attach(self) -> Result<Worker, PushError> {
        let refuse = |field, problem: &str| Err(PushError::Field { field, problem: problem.to_string() });
        if self.addrs.is_empty() {
            return refuse("at", "give the address of at least one node");
        }
        if self.application.is_empty() || self.application.contains('/') {
            return refuse("application", "its name must not be empty or contain '/'");
        }
        let payload_bytes_max = self.cluster.limits.payload_bytes_max;
        let nameless = NodeId::new(([0, 0, 0, 0], 0).into(), 0);
        let identity = Identity::new(nameless, self.cluster, false);
        let mut way =
            Way { addrs: self.addrs, identity, application: self.application.into(), worker: self.worker };
        let mut last = None;
        let attached = tokio::time::timeout(self.timeout, way.attach(|error| last = Some(error))).await;
        let Ok(connection) = attached else {
            let silent =
                PushError::Field { field: "timeout", problem: "no node answered in time".to_string() };
            return Err(last.unwrap_or(silent));
        };
        let (asks, asked) = mpsc::channel(ASKS_QUEUED_MAX);
        let (idle, is_idle) = watch::channel(true);
        let (end, ended) = watch::channel(None);
        let task = Task {
            way,
            book: Book::new(self.kept_bytes_max),
            began: std::time::Instant::now(),
            asked,
            idle,
            end,
        };
        tokio::spawn(task.run(connection));
        Ok(Worker { asks, is_idle, ended, payload_bytes_max })
    }
}

/// An attached worker. Clones are the same worker; dropping the last one detaches it at once.
#[derive(Clone, Debug)]
pub struct Worker {
    asks: mpsc::Sender<Ask>,
    is_idle: watch::Receiver<bool>,
    ended: watch::Receiver<Option<Arc<str>>>,
    payload_bytes_max: usize,
}

#[derive(Debug)]
enum Ask {
    Push { request: u64, payload: Bytes, last: bool, answer: oneshot::Sender<Result<(), Over>> },
    Fail { request: u64, problem: Arc<str>, answer: oneshot::Sender<()> },
}

impl Worker {
    /// Configures worker `worker` of an application; [`WorkerBuilder::attach`] then attaches it.
    pub fn builder(application: impl Into<String>, worker: u32) -> WorkerBuilder {
        WorkerBuilder {
            application: application.into(),
            worker,
            addrs: Vec::new(),
            cluster: ClusterOptions::default(),
            timeout: TIMEOUT_DEFAULT,
            kept_bytes_max: KEPT_BYTES_DEFAULT,
        }
    }

    /// Pushes a piece of this worker's result of a request. More pieces must follow, and they are folded in
    /// their order.
    ///
    /// Waits while the worker keeps more bytes than it may.
    ///
    /// # Errors
    /// If the request is over, or the worker is detached for good.
    pub async fn push(&self, request: u64, payload: impl Into<Bytes>) -> Result<(), PushError> {
        self.give(request, payload.into(), false).await
    }

    /// Pushes the last piece of the result, or all of it. Only with this has the worker contributed.
    ///
    /// An empty payload adds nothing to the result.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub async fn push_last(&self, request: u64, payload: impl Into<Bytes>) -> Result<(), PushError> {
        self.give(request, payload.into(), true).await
    }

    async fn give(&self, request: u64, payload: Bytes, last: bool) -> Result<(), PushError> {
        if payload.len() > self.payload_bytes_max {
            let problem =
                format!("{} bytes; at most {} (payload_bytes_max)", payload.len(), self.payload_bytes_max);
            return Err(PushError::Field { field: "payload", problem });
        }
        let (answer, answered) = oneshot::channel();
        let ask = Ask::Push { request, payload, last, answer };
        self.asks.send(ask).await.map_err(|_| self.detached())?;
        match answered.await {
            Ok(booked) => booked.map_err(|Over| PushError::Over { request }),
            Err(_) => Err(self.detached()),
        }
    }

    /// Reports that this worker's result of a request will not come, so that no node waits for it.
    ///
    /// Until the request has ended, the worker repeats this at every node that it attaches to, and
    /// [`idle`](Self::idle) waits for the end.
    ///
    /// # Errors
    /// If the worker is detached for good.
    pub async fn fail(&self, request: u64, problem: impl Into<String>) -> Result<(), PushError> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask::Fail { request, problem: problem.into().into(), answer };
        self.asks.send(ask).await.map_err(|_| self.detached())?;
        answered.await.map_err(|_| self.detached())
    }

    /// Waits until every request with pushes or a failure has ended. Then no pushes are kept, and all
    /// messages are written.
    ///
    /// # Errors
    /// If the worker is detached for good before that.
    pub async fn idle(&self) -> Result<(), PushError> {
        let mut is_idle = self.is_idle.clone();
        is_idle.wait_for(|&is_idle| is_idle).await.map(drop).map_err(|_| self.detached())
    }

    fn detached(&self) -> PushError {
        PushError::Detached { why: self.ended.borrow().clone() }
    }
}

/// The task that owns the connection.
struct Task {
    way: Way,
    book: Book<Bytes>,
    /// Time zero of the book's clock.
    began: std::time::Instant,
    asked: mpsc::Receiver<Ask>,
    idle: watch::Sender<bool>,
    end: watch::Sender<Option<Arc<str>>>,
}

/// Why a connection is no longer served.
enum Served {
    Lost,
    Thrown(Arc<str>),
    Unwanted,
}

impl Task {
    async fn run(mut self, mut connection: Connection) {
        loop {
            self.book.attached(now_since(self.began), connection.window);
            match self.serve(connection).await {
                Served::Unwanted => return,
                Served::Thrown(why) => return self.end.send_modify(|end| *end = Some(why)),
                Served::Lost => {}
            }
            let Self { way, book, asked, idle, .. } = &mut self;
            let attaching = way.attach(|error| tracing::debug!(%error, "a worker can't attach"));
            tokio::pin!(attaching);
            connection = loop {
                let has_room = book.has_room();
                tokio::select! {
                    connection = &mut attaching => break connection,
                    ask = asked.recv(), if has_room => match ask {
                        Some(ask) => take(book, idle, ask),
                        None => return,
                    }
                }
            };
        }
    }

    async fn serve(&mut self, mut connection: Connection) -> Served {
        let mut ticks = tokio::time::interval(EXPIRE_EVERY);
        let mut pulse = Pulse { heard_at: tokio::time::Instant::now(), asked_at: None };
        loop {
            while let Some(word) = self.book.poll_word() {
                if let Err(error) = connection.say(word) {
                    tracing::warn!(%error, "a push can't be sent");
                    return Served::Lost;
                }
            }
            let is_idle = self.book.is_empty() && connection.has_written();
            self.idle.send_if_modified(|idle| std::mem::replace(idle, is_idle) != is_idle);
            let has_room = self.book.has_room();
            tokio::select! {
                // The node's words are read before the node is given up.
                biased;
                came = connection.next() => match came {
                    Came::Word(word) => {
                        pulse = Pulse { heard_at: tokio::time::Instant::now(), asked_at: None };
                        self.book.hear(&word);
                    }
                    Came::Written => {}
                    Came::Thrown(problem) => return Served::Thrown(problem),
                    Came::Lost => return Served::Lost,
                },
                () = tokio::time::sleep_until(pulse.due_at(is_idle)) => {
                    if pulse.asked_at.replace(tokio::time::Instant::now()).is_some() {
                        return Served::Lost;
                    }
                    if connection.say(self.way.introduction()).is_err() {
                        return Served::Lost;
                    }
                }
                _ = ticks.tick() => self.book.expire(now_since(self.began)),
                ask = self.asked.recv(), if has_room => match ask {
                    Some(ask) => take(&mut self.book, &self.idle, ask),
                    None => {
                        connection.write_rest();
                        return Served::Unwanted;
                    }
                }
            }
        }
    }
}

/// When the worker has last heard its node, and when it has asked whether the node lives.
struct Pulse {
    heard_at: tokio::time::Instant,
    asked_at: Option<tokio::time::Instant>,
}

impl Pulse {
    /// When it asks, or gives the node up.
    fn due_at(&self, is_idle: bool) -> tokio::time::Instant {
        let quiet = if is_idle { QUIET_IDLE } else { QUIET };
        self.asked_at.map_or(self.heard_at + quiet, |asked_at| asked_at + ANSWER_WITHIN)
    }
}

/// The current time on a book's clock.
fn now_since(began: std::time::Instant) -> Instant {
    Instant::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Enters an ask into the book.
fn take(book: &mut Book<Bytes>, idle: &watch::Sender<bool>, ask: Ask) {
    match ask {
        Ask::Push { request, payload, last, answer } => {
            let booked = book.push(request, payload, last);
            note_busy(idle, book);
            // The caller may have stopped waiting.
            let _ = answer.send(booked);
        }
        Ask::Fail { request, problem, answer } => {
            book.fail(request, problem);
            note_busy(idle, book);
            let _ = answer.send(());
        }
    }
}

/// Marks the worker as busy, so that a caller that has just pushed does not find it idle.
fn note_busy(idle: &watch::Sender<bool>, book: &Book<Bytes>) {
    idle.send_if_modified(|idle| !book.is_empty() && std::mem::take(idle));
}
