//! The board's reader, on a thread of its own, so that drawing does not delay it.

use super::FEED;
use super::news::{News, Read};
use super::values::Values;
use crate::commands::front_end::front_end;
use crate::exit::Failure;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, watch};
use treefold::Client;
use treefold_feed::{Reader, Update};

/// Pause after a search for mirrors that found none.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Runs `work` on a thread with a runtime of its own.
pub(super) fn on_thread<F, T>(name: &str, work: F)
where
    F: FnOnce() -> T + Send + 'static,
    T: Future<Output = ()>,
{
    let work = move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work()),
        Err(error) => tracing::error!(%error, "can't start a runtime"),
    };
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(work) {
        tracing::error!(%error, "can't start a thread");
    }
}

/// Follows the feed until `is_ending`, and passes everything on.
pub(super) async fn follow(
    at: Vec<String>,
    cluster: String,
    news: mpsc::Sender<News>,
    mut is_ending: watch::Receiver<bool>,
) {
    let followed = tokio::select! {
        followed = follow_feed(&at, &cluster, &news) => followed,
        _ = is_ending.wait_for(|&is| is) => Ok(()),
    };
    if let Err(failure) = followed {
        // Without a board, the demo is ending.
        let _ = news.send(News::Said(format!("the board has no reader: {failure}"))).await;
    }
}

async fn follow_feed(at: &[String], cluster: &str, news: &mpsc::Sender<News>) -> Result<(), Failure> {
    let client: Client = front_end(at, cluster).await?;
    let asked_at = Instant::now();
    let started = Reader::connect(&client, FEED).start().await;
    let reader = started.map_err(|error| Failure::failed(error.to_string()))?;
    let mut following = Following { reader, asked_at, heard_at: asked_at };
    loop {
        match following.reader.next().await {
            Ok(update) => {
                if let Some(read) = following.read(update)
                    && news.send(News::Read(read)).await.is_err()
                {
                    return Ok(());
                }
            }
            // It keeps its place, and asking again continues the search.
            Err(error) => {
                if news.send(News::Said(error.to_string())).await.is_err() {
                    return Ok(());
                }
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

struct Following {
    reader: Reader,
    /// Time at which the present snapshot was asked for.
    asked_at: Instant,
    heard_at: Instant,
}

impl Following {
    fn read(&mut self, update: Update) -> Option<Read> {
        let silent_for = self.heard_at.elapsed();
        self.heard_at = Instant::now();
        Some(match update {
            Update::Begins(begins) => {
                Read::Begins(begins.cut, begins.because.map(|because| because.to_string()))
            }
            Update::Row(row) => Read::Row(row.key.to_string(), Values::of(&row.fields), row.changed.sent_ms),
            Update::Complete(_) => Read::Complete(self.reader.mirror()?, self.asked_at.elapsed()),
            Update::Event { at, sent_ms, event } => {
                Read::Event(at, event.key.to_string(), Values::of(&event.fields), since(sent_ms))
            }
            Update::At { .. } => Read::At(self.reader.cut()?),
            Update::Moved { mirror, because } => {
                self.asked_at = self.heard_at;
                Read::Moved(mirror, because, silent_for)
            }
            Update::Lagging(because) => {
                self.asked_at = self.heard_at;
                Read::Lagging(because.to_string())
            }
        })
    }
}

/// The time since a moment of this machine's clock, in ms since 1970. Zero if the clock was set back.
fn since(sent_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(sent_ms))
}
