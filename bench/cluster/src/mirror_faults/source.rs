//! Sources that repeat, after each break, the events that were not acknowledged.

use super::nats::SUBJECT;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::task::JoinHandle;

/// Incoming streams.
const SOURCES: usize = 2;
/// Keys of each stream.
const KEYS: u64 = 25;
/// Events that a source writes at once, and the time between.
const AT_ONCE: u64 = 10;
const PACE: Duration = Duration::from_millis(5);
/// Time between two attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Time after which an event is published again whose answer did not come.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Events that may be unacknowledged. Above it, a source waits.
const UNACKNOWLEDGED_MAX: u64 = 5_000;

/// All sources of the feed.
pub(super) struct Sources {
    sources: Vec<Arc<Mutex<Sent>>>,
    running: Vec<JoinHandle<()>>,
}

/// The events of one source.
#[derive(Debug, Default)]
struct Sent {
    /// Number of the last event that was ever written.
    last: u64,
    acknowledged: u64,
    is_paused: bool,
    problems: Vec<String>,
}

impl Sources {
    /// The sources send to the origin, or to the JetStream server at `nats`.
    pub(super) fn start(origin: SocketAddr, nats: Option<&str>) -> Self {
        let sources: Vec<_> = (0..SOURCES).map(|_| Arc::default()).collect();
        let running = sources.iter().enumerate().map(|(at, sent)| {
            let source = Source { name: format!("s{at}"), origin, sent: Arc::clone(sent) };
            match nats {
                None => tokio::spawn(source.run()),
                Some(addr) => tokio::spawn(source.publish_all(addr.to_owned())),
            }
        });
        Self { running: running.collect(), sources }
    }

    /// Lets the sources write new events.
    pub(super) fn go(&self) {
        self.each(|sent| sent.is_paused = false);
    }

    /// Lets the sources write no new events. They go on to repeat old ones.
    pub(super) fn pause(&self) {
        self.each(|sent| sent.is_paused = true);
    }

    fn each(&self, change: impl Fn(&mut Sent)) {
        self.sources.iter().for_each(|sent| change(&mut lock(sent)));
    }

    /// The number of the last event of each source.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.sources.iter().map(|sent| lock(sent).last).collect()
    }

    /// True if each source has at least so many events acknowledged, and `more`.
    pub(super) fn has_acknowledged(&self, sent: &[u64], more: u64) -> bool {
        self.sources.iter().zip(sent).all(|(source, number)| lock(source).acknowledged >= number + more)
    }

    /// The number of the last event of each key.
    pub(super) fn last_values(&self) -> BTreeMap<String, u64> {
        let mut values = BTreeMap::new();
        for (at, sent) in self.sources.iter().enumerate() {
            let last = lock(sent).last;
            let newest = (1..=last).rev().take(KEYS as usize);
            values.extend(newest.map(|number| (key(&format!("s{at}"), number), number)));
        }
        values
    }

    /// Takes the problems that sources have found.
    pub(super) fn problems(&self) -> Vec<String> {
        self.sources.iter().flat_map(|sent| std::mem::take(&mut lock(sent).problems)).collect()
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

fn lock(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn key(stream: &str, number: u64) -> String {
    format!("{stream}-{}", number % KEYS)
}

struct Source {
    name: String,
    origin: SocketAddr,
    sent: Arc<Mutex<Sent>>,
}

impl Source {
    async fn run(self) {
        loop {
            if let Ok(stream) = TcpStream::connect(self.origin).await {
                // The origin died; the events are repeated.
                let _ = self.feed(stream).await;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Publishes events to JetStream, each when the one before is stored. An event is acknowledged when it is stored.
    async fn publish_all(self, addr: String) {
        let options = || async_nats::ConnectOptions::new().reconnect_delay_callback(|_| RETRY);
        let mut client = options().connect(addr.clone()).await;
        while client.is_err() {
            tokio::time::sleep(RETRY).await;
            client = options().connect(addr.clone()).await;
        }
        let Ok(client) = client else { return };
        let mut context = async_nats::jetstream::new(client);
        context.set_timeout(ANSWER_WITHIN);
        loop {
            let next = {
                let sent = lock(&self.sent);
                (!sent.is_paused || sent.acknowledged < sent.last).then_some(sent.acknowledged + 1)
            };
            let Some(number) = next else {
                tokio::time::sleep(PACE).await;
                continue;
            };
            lock(&self.sent).last = number;
            let message = async_nats::jetstream::message::PublishMessage::build()
                .payload(self.event(number).into())
                // The server drops a repeated message whose answer was lost.
                .message_id(format!("{}-{number}", self.name));
            let answered = match context.send_publish(SUBJECT, message).await {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            match answered {
                Ok(_) => lock(&self.sent).acknowledged = number,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn event(&self, number: u64) -> String {
        let event = json!({
            "stream": self.name, "number": number, "key": key(&self.name, number), "type": "position",
            "fields": { "n": number },
        });
        event.to_string()
    }

    async fn feed(&self, stream: TcpStream) -> std::io::Result<()> {
        let (reading, mut writing) = stream.into_split();
        let mut answers = BufReader::new(reading).lines();
        let mut next = lock(&self.sent).acknowledged + 1;
        loop {
            let lines = self.lines(&mut next);
            if !lines.is_empty() {
                writing.write_all(lines.as_bytes()).await?;
            }
            self.listen(&mut answers, tokio::time::Instant::now() + PACE).await?;
        }
    }

    /// The next events: those that were not acknowledged, and then new ones.
    fn lines(&self, next: &mut u64) -> String {
        let mut sent = lock(&self.sent);
        let new =
            if sent.is_paused || sent.last >= sent.acknowledged + UNACKNOWLEDGED_MAX { 0 } else { AT_ONCE };
        // Old events come faster than new ones, so that the source catches up.
        let most = (sent.last + new).min(*next + 10 * AT_ONCE - 1);
        let mut lines = String::new();
        for number in *next..=most {
            lines.push_str(&self.event(number));
            lines.push('\n');
        }
        *next = (*next).max(most + 1);
        sent.last = sent.last.max(most);
        lines
    }

    /// Reads answers until a time.
    async fn listen(
        &self,
        answers: &mut Lines<BufReader<OwnedReadHalf>>,
        until: tokio::time::Instant,
    ) -> std::io::Result<()> {
        while let Ok(line) = tokio::time::timeout_at(until, answers.next_line()).await {
            let line = line?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            let answer: Value = serde_json::from_str(&line)?;
            let mut sent = lock(&self.sent);
            if let Some(number) = answer["acknowledged"][&self.name].as_u64() {
                sent.acknowledged = sent.acknowledged.max(number);
            }
            // An origin that has had an event already says so; any other refusal is a loss.
            let problem = answer["refused"]["problem"].as_str().or(answer["error"]["problem"].as_str());
            if problem.is_some_and(|problem| problem != "repeated") {
                sent.problems.push(format!("source {}: {line}", self.name));
            }
        }
        Ok(())
    }
}
