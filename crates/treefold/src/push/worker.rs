//! One of an application's workers, as its program holds it.
//!
//! A task on the program's runtime owns the connection and the [book](treefold_core::push::book) of what was pushed.
//! Whoever pushes waits only while the book is full, so a relay that is busy slows its workers, and a relay that is
//! lost does not show: the task attaches elsewhere, and sends what it is asked for.

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

/// How long attaching may take unless it is said.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Bytes that a worker keeps of what it has pushed, unless it is said.
const KEPT_BYTES_DEFAULT: usize = 64 << 20;
/// How often it is looked for what nobody asks for any more.
const EXPIRE_EVERY: Duration = Duration::from_secs(1);
/// Pushes that wait for the worker's task; who pushes beyond that, waits.
const ASKS_QUEUED_MAX: usize = 64;

/// Why something could not be pushed, or a worker not be attached.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// What was asked makes no sense. Nobody was asked.
    #[error("{field}: {problem}")]
    Field {
        /// Which part of it.
        field: &'static str,
        /// What about it.
        problem: String,
    },
    /// No connection could be made.
    #[error("can't connect to {addr}: {source}")]
    Unreachable {
        /// Where to.
        addr: String,
        /// What the system says.
        #[source]
        source: Arc<io::Error>,
    },
    /// The node does not take the worker in, or has thrown it out.
    #[error("{addr} refuses: {problem}")]
    Refused {
        /// Who.
        addr: String,
        /// What it says.
        problem: Arc<str>,
    },
    /// The request has ended, or this worker's result for it is whole. What was pushed is of no use to anybody.
    #[error("request {request} is over")]
    Over {
        /// Which.
        request: u64,
    },
    /// The worker is no longer attached anywhere, and will not be.
    #[error("the worker has been detached{}", .why.as_deref().map_or_else(String::new, |why| format!(": {why}")))]
    Detached {
        /// Why, when it was not its own wish.
        why: Option<Arc<str>>,
    },
}

/// What a worker is to be; see [`Worker::builder`].
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
    /// Nodes to attach to, `host:port`; more with each call. They are tried in turn, now and whenever the connection is
    /// lost: the relays of the worker's own rack first.
    pub fn at<A: ToString>(mut self, addrs: impl IntoIterator<Item = A>) -> Self {
        self.addrs.extend(addrs.into_iter().map(|addr| addr.to_string()));
        self
    }

    /// Begins with another address for each worker, so that the workers of a rack share its relays evenly.
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

    /// How long attaching may take; once attached, a worker that is lost tries for ever.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Bytes that it keeps of what it has pushed, in case it has to be sent again; who pushes beyond that, waits.
    pub fn kept_bytes_max(mut self, bytes: usize) -> Self {
        self.kept_bytes_max = bytes;
        self
    }

    /// Attaches, on the caller's tokio runtime.
    ///
    /// # Errors
    /// When no node takes the worker in within the time given: what the last one said.
    pub async fn attach(self) -> Result<Worker, PushError> {
        let refuse = |field, problem: &str| Err(PushError::Field { field, problem: problem.to_string() });
        if self.addrs.is_empty() {
            return refuse("at", "one node's address is needed at least");
        }
        if self.application.is_empty() || self.application.contains('/') {
            return refuse("application", "its name is not empty and has no '/'");
        }
        let payload_bytes_max = self.cluster.limits.payload_bytes_max;
        let nameless = NodeId::new(([0, 0, 0, 0], 0).into(), 0);
        let identity = Identity::new(nameless, self.cluster, false);
        let mut way =
            Way { addrs: self.addrs, identity, application: self.application.into(), worker: self.worker };
        let mut last = None;
        let attached = tokio::time::timeout(self.timeout, way.attach(|error| last = Some(error))).await;
        let Ok(connection) = attached else {
            let silent = PushError::Field { field: "timeout", problem: "nobody answers".to_string() };
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

/// A worker that is attached. A clone is the same worker; when the last is dropped it is detached, at once.
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
    /// Worker `worker` of an application, to be attached.
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

    /// Pushes a piece of this worker's result of a request; more is to come. Pieces are folded in their order. Waits while
    /// more is kept than may be.
    ///
    /// # Errors
    /// When nobody wants it any more, or the worker is detached for good.
    pub async fn push(&self, request: u64, payload: impl Into<Bytes>) -> Result<(), PushError> {
        self.give(request, payload.into(), false).await
    }

    /// Pushes the last piece, or all of it: with it, and not before, the worker has contributed. No bytes have nothing to
    /// add.
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

    /// Says that this worker's result of a request will not come, so that nobody waits for it. Until the request has ended
    /// it is said again wherever the worker attaches, and [`idle`](Self::idle) waits for that.
    ///
    /// # Errors
    /// When the worker is detached for good.
    pub async fn fail(&self, request: u64, problem: impl Into<String>) -> Result<(), PushError> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask::Fail { request, problem: problem.into().into(), answer };
        self.asks.send(ask).await.map_err(|_| self.detached())?;
        answered.await.map_err(|_| self.detached())
    }

    /// Waits until every request that was pushed for, or failed, has ended: nothing is kept, and all is said.
    ///
    /// # Errors
    /// When the worker is detached for good before.
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
    /// When the book's clock began.
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
                came = connection.next() => match came {
                    Came::Word(word) => self.book.hear(&word),
                    Came::Written => {}
                    Came::Thrown(problem) => return Served::Thrown(problem),
                    Came::Lost => return Served::Lost,
                },
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

/// The time on a book's clock.
fn now_since(began: std::time::Instant) -> Instant {
    Instant::from_nanos(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Enters what was asked into the book.
fn take(book: &mut Book<Bytes>, idle: &watch::Sender<bool>, ask: Ask) {
    match ask {
        Ask::Push { request, payload, last, answer } => {
            let booked = book.push(request, payload, last);
            note_busy(idle, book);
            // Who has gone away needs no answer.
            let _ = answer.send(booked);
        }
        Ask::Fail { request, problem, answer } => {
            book.fail(request, problem);
            note_busy(idle, book);
            let _ = answer.send(());
        }
    }
}

/// Lets nobody take the worker for idle who has just asked something of it.
fn note_busy(idle: &watch::Sender<bool>, book: &Book<Bytes>) {
    idle.send_if_modified(|idle| !book.is_empty() && std::mem::take(idle));
}
