//! The reader: follows a feed at one of its mirrors, and moves to another one when that is lost.
//!
//! ```text
//!            status of all mirrors ──▶ choose one ──▶ stream to its endpoint ──▶ rows, events
//!                    ▲                                     │ the mirror ended, is silent, refuses
//!                    └────────── wait, longer each time ◀──┘ resume after the last event
//! ```
//!
//! - **A reader is the front-end of a stream to one mirror.** It takes packets when its user asks for updates. A user
//!   that stops asking fills the stream's window, and the mirror waits; nothing grows.
//! - **It chooses by load.** Of two current mirrors drawn at random, it takes the one with fewer readers. It avoids
//!   mirrors that it lost a moment ago, and those behind its own place.
//! - **It moves without gap or repetition** ([`Receiver`]). Its first message to the new mirror is the place up to
//!   which its user has everything. If the mirror has no longer all events after it, the reader is told the reason and
//!   gets a snapshot.
//! - **It gives up** when no mirror serves it for [`ReaderBuilder::patience`]. It keeps its place, and its user may ask again.

mod line;
mod link;
mod view;

pub use line::write_line;
pub use treefold_mirror::receiver::Update;
pub use view::{View, ViewError};

use link::{Link, choose};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use treefold::Client;
use treefold_mirror::event::{Name, NameError};
use treefold_mirror::filter::{Filter, FilterError};
use treefold_mirror::receiver::Receiver;
use treefold_mirror::{Cut, VectorTime};

/// Time that a reader looks for a mirror before it gives up, by default.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between the loss of a mirror and the second attempt to reach another one. It doubles with each attempt.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// The longest such time.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);
/// Time for which a lost mirror is avoided.
const AVOIDED_FOR: Duration = Duration::from_secs(5);
/// Bytes that a mirror may have sent and that the user has not taken.
const WINDOW_BYTES: u64 = 256 << 10;

/// Settings of a reader; see [`Reader::connect`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ReaderBuilder {
    client: Client,
    feed: String,
    filter: Filter,
    from: Option<VectorTime>,
    window_bytes: u64,
    patience: Duration,
    problem: Option<FilterError>,
}

/// A reader of a feed.
///
/// ```no_run
/// # async fn example(node: treefold::Node) -> Result<(), Box<dyn std::error::Error>> {
/// use treefold_feed::{Reader, Update};
///
/// let mut reader = Reader::connect(&node.client(), "flights").prefix("DL").start().await?;
/// loop {
///     match reader.next().await? {
///         Update::Begins(_) => println!("rows follow"),
///         Update::Row(row) => println!("{}: {:?}", row.key, row.fields),
///         Update::Complete(time) => println!("complete at {time}"),
///         Update::Event { at, event, .. } => println!("{at}: {} of {}", event.kind, event.key),
///         Update::At { .. } => {}
///         Update::Lagging(because) => println!("too slow: {because}"),
///         Update::Moved { mirror, because } => println!("at mirror {mirror} now: {because}"),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Reader {
    client: Client,
    feed: Name,
    filter: Filter,
    window_bytes: u64,
    patience: Duration,
    receiver: Receiver,
    updates: VecDeque<Update>,
    /// The time of the last update that the user took.
    given: Option<VectorTime>,
    link: Option<Link>,
    search: Search,
}

/// The search for a mirror.
#[derive(Debug, Default)]
struct Search {
    /// The mirror that was lost last, and the reason.
    lost: Option<(u32, String)>,
    /// Time of the first attempt.
    began: Option<Instant>,
    attempts: u32,
    /// The reason why the last attempt failed.
    problem: String,
    retry_at: Option<Instant>,
    /// Mirrors that were lost, until when they are avoided.
    avoided: Vec<(u32, Instant)>,
}

/// The reason why a reader cannot start, or go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReaderError {
    /// The feed's name is no name.
    #[error("feed: {0}")]
    Feed(#[from] NameError),
    /// The filter is invalid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The vector time does not name the feed.
    #[error("the vector time {time} has no component of the feed {feed}")]
    From {
        /// The feed.
        feed: Name,
        /// The vector time.
        time: VectorTime,
    },
    /// No mirror serves this reader. The reader keeps its place; asking it again continues the search.
    #[error("no mirror of {feed} has served this reader for {waited:?}: {because}")]
    NoMirror {
        /// The feed.
        feed: Name,
        /// Time of the search.
        waited: Duration,
        /// The last problem.
        because: String,
    },
}

impl ReaderBuilder {
    /// Selects a key. Without keys and prefixes, the reader gets all keys.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.note(|filter| filter.add_key(key.into()));
        self
    }

    /// Selects all keys with a prefix.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.note(|filter| filter.add_prefix(prefix.into()));
        self
    }

    /// Selects the events of a type. Rows are whole all the same; see [`treefold_mirror::filter`].
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.note(|filter| filter.add_type(Name::new(kind.into())?));
        self
    }

    /// Selects a part of the feed.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    fn note(&mut self, add: impl FnOnce(&mut Filter) -> Result<(), FilterError>) {
        if let Err(problem) = add(&mut self.filter) {
            self.problem = Some(problem);
        }
    }

    /// Resumes after a vector time. Without one, the reader gets a snapshot first.
    pub fn from(mut self, time: Option<VectorTime>) -> Self {
        self.from = time;
        self
    }

    /// Sets how many bytes a mirror may have sent that the user has not taken. Default: 256 KiB.
    pub fn window_bytes(mut self, bytes: u64) -> Self {
        self.window_bytes = bytes;
        self
    }

    /// Sets how long the reader looks for a mirror before it gives up. Default: 30 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts the reader at a mirror.
    ///
    /// # Errors
    /// [`ReaderError`].
    pub async fn start(self) -> Result<Reader, ReaderError> {
        let Self { client, feed, filter, from, window_bytes, patience, problem } = self;
        if let Some(problem) = problem {
            return Err(problem.into());
        }
        let feed = Name::new(feed)?;
        let cut = match &from {
            Some(time) => match time.feed(&feed) {
                Some(cut) => Some(cut),
                None => return Err(ReaderError::From { feed, time: time.clone() }),
            },
            None => None,
        };
        let mut reader = Reader {
            receiver: Receiver::new(feed.clone(), cut),
            updates: VecDeque::new(),
            given: from,
            link: None,
            search: Search::default(),
            client,
            feed,
            filter,
            window_bytes,
            patience,
        };
        reader.connected().await?;
        Ok(reader)
    }
}

impl Reader {
    /// Configures a reader of a feed; [`ReaderBuilder::start`] starts it. `client` needs a loop of its own, see
    /// [`Client::stream`].
    pub fn connect(client: &Client, feed: impl Into<String>) -> ReaderBuilder {
        ReaderBuilder {
            client: client.clone(),
            feed: feed.into(),
            filter: Filter::default(),
            from: None,
            window_bytes: WINDOW_BYTES,
            patience: PATIENCE,
            problem: None,
        }
    }

    /// Waits for the next update. Cancel safe.
    ///
    /// # Errors
    /// [`ReaderError::NoMirror`]; the reader keeps its place.
    pub async fn next(&mut self) -> Result<Update, ReaderError> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                self.note_given(&update);
                return Ok(update);
            }
            let link = self.connected().await?;
            let taken = match link.next().await {
                Ok(message) => {
                    let taken = self.receiver.take(message, &mut self.updates);
                    taken.map_err(|error| error.to_string())
                }
                Err(why) => Err(why),
            };
            match taken {
                Ok(()) => self.settle(),
                Err(why) => self.lose(why),
            }
        }
    }

    /// The place after the last update that the user took; `None` while it has no complete state.
    pub fn cut(&self) -> Option<Cut> {
        self.given.as_ref().and_then(|time| time.feed(&self.feed))
    }

    /// The vector time from which a later reader can resume: that of the last update that the user took. `None` while
    /// it has no complete state.
    pub fn time(&self) -> Option<&VectorTime> {
        self.given.as_ref()
    }

    fn note_given(&mut self, update: &Update) {
        match update {
            Update::Begins(_) => self.given = None,
            Update::Complete(time) | Update::At { time, .. } => self.given = Some(time.clone()),
            Update::Event { at, .. } => {
                if let Some(time) = &mut self.given {
                    time.set_feed(self.feed.clone(), *at);
                }
            }
            Update::Row(_) | Update::Lagging(_) | Update::Moved { .. } => {}
        }
    }

    /// The mirror that this reader follows.
    pub fn mirror(&self) -> Option<u32> {
        self.link.as_ref().map(Link::mirror)
    }

    /// The feed.
    pub fn feed(&self) -> &Name {
        &self.feed
    }

    /// True if an update has arrived and waits to be taken.
    pub fn has_updates(&self) -> bool {
        !self.updates.is_empty()
    }

    /// A reader that keeps the state.
    pub fn into_view(self) -> View {
        View::new(self)
    }

    /// Ends the search once the mirror has given something. A mirror that begins and fails again and again is not found.
    fn settle(&mut self) {
        if self.search.began.is_none() || self.updates.is_empty() {
            return;
        }
        let lost = std::mem::take(&mut self.search.lost);
        let avoided = std::mem::take(&mut self.search.avoided);
        self.search = Search { avoided, ..Search::default() };
        if let Some((former, because)) = lost
            && let Some(mirror) = self.mirror()
            && former != mirror
        {
            self.updates.push_front(Update::Moved { mirror, because });
        }
    }

    fn lose(&mut self, why: String) {
        let Some(link) = self.link.take() else { return };
        tracing::info!(feed = %self.feed, mirror = link.mirror(), %why, "lost a mirror");
        self.search.avoided.push((link.mirror(), Instant::now() + AVOIDED_FOR));
        // After a failed attempt elsewhere, the user wants the reason why its mirror was left.
        if self.search.lost.is_none() || self.search.began.is_none() {
            self.search.lost = Some((link.mirror(), why.clone()));
        }
        self.retry(why);
    }

    /// The link to a mirror, which is made if there is none.
    async fn connected(&mut self) -> Result<&mut Link, ReaderError> {
        while self.link.is_none() {
            self.check_patience()?;
            if let Some(retry_at) = self.search.retry_at {
                sleep_until(retry_at).await;
            }
            self.search.avoided.retain(|&(_, until)| until > Instant::now());
            let avoided: Vec<u32> = self.search.avoided.iter().map(|&(mirror, _)| mirror).collect();
            let from = self.receiver.resume_from();
            let opened = match choose(&self.client, &self.feed, from, &avoided).await {
                Ok(mirror) => Link::open(self, mirror, from).await.map_err(|why| (Some(mirror), why)),
                Err(why) => Err((None, why)),
            };
            match opened {
                Ok(link) => self.link = Some(link),
                Err((mirror, why)) => {
                    let until = Instant::now() + AVOIDED_FOR;
                    self.search.avoided.extend(mirror.map(|mirror| (mirror, until)));
                    self.retry(why);
                }
            }
        }
        Ok(self.link.as_mut().expect("invariant: the loop ends with a link"))
    }

    /// Gives up if the search has taken too long. Asking again begins another one.
    fn check_patience(&mut self) -> Result<(), ReaderError> {
        let waited = self.search.began.get_or_insert_with(Instant::now).elapsed();
        if waited < self.patience || self.search.attempts == 0 {
            return Ok(());
        }
        (self.search.began, self.search.attempts) = (None, 0);
        let because = std::mem::take(&mut self.search.problem);
        Err(ReaderError::NoMirror { feed: self.feed.clone(), waited, because })
    }

    /// Sets the time of the next attempt: the first one comes at once.
    fn retry(&mut self, why: String) {
        tracing::debug!(feed = %self.feed, %why, attempts = self.search.attempts, "no mirror yet");
        self.search.began.get_or_insert_with(Instant::now);
        let pause = RETRY_AFTER.saturating_mul(1 << self.search.attempts.min(10)).min(RETRY_AFTER_MAX);
        // Readers that lost one mirror together come back at different times.
        let spread = 0.5 + (crate::random_seed() % 1_000) as f64 / 1_000.0;
        let pause = if self.search.attempts == 0 { pause / 5 } else { pause };
        self.search.retry_at = Some(Instant::now() + pause.mul_f64(spread));
        self.search.attempts += 1;
        self.search.problem = why;
    }
}
