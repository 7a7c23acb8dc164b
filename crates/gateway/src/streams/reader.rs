//! A stream with the queue in front of its reader.

use super::event::Event;
use super::queue::Queue;
use super::wishes::StreamWishes;
use crate::call::check_service;
use crate::caller::check_again;
use crate::metrics::OpenedStream;
use crate::problem::Problem;
use crate::site::Site;
use crate::tenants::{OpenStream, Tenant};
use bytes::Bytes;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use treefold::{Error, Stream, StreamEvent, StreamSender, Synchronisation};
use treefold_core::stream::tags::TagRuns;
use treefold_http::ended;

/// Pause between two looks at the token of a reader.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two signs of life. It holds for any limit.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);

/// A stream for one reader. Dropping it closes the stream at all its nodes.
pub(crate) struct Reader {
    id: String,
    queue: Arc<Queue>,
    sender: StreamSender,
    heartbeat: Duration,
    alive_at: Instant,
    _pump: Pump,
    _place: OpenStream,
    _counted: OpenedStream,
}

/// The task that fills the queue. Dropping this ends it.
struct Pump(JoinHandle<()>);

impl Drop for Pump {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reader {
    /// Opens a stream for a tenant.
    pub(crate) async fn open(
        site: &Arc<Site>,
        tenant: &Arc<Tenant>,
        service: String,
        wishes: StreamWishes,
    ) -> Result<Self, Problem> {
        check_service(&service)?;
        tenant.may_call(&service)?;
        let place = tenant.open_stream()?;
        let within = site.limits.deadline_max;
        let opened = timeout(within, wishes.apply(site.client.stream(&service)).open()).await;
        let stream = opened.unwrap_or_else(|_| Err(Error::FrontSilent { waited: within }))?;
        let queue = Arc::new(Queue::new(site.limits.stream_queue_bytes_max, wishes.slow));
        let (id, sender) = (stream.id().to_string(), stream.sender());
        let (endpoints, away) = (stream.endpoints().clone(), stream.missing().to_vec());
        queue.push(Event::Opened { stream: id.clone(), endpoints, away })?;
        let pump = Pump(tokio::spawn({
            let (site, tenant, queue) = (Arc::clone(site), Arc::clone(tenant), Arc::clone(&queue));
            async move {
                let problem = pump(stream, &wishes, &queue, &site, &tenant, &service).await;
                queue.end(problem);
            }
        }));
        let heartbeat = site.limits.heartbeat.max(HEARTBEAT_MIN);
        Ok(Self {
            id,
            queue,
            sender,
            heartbeat,
            alive_at: Instant::now() + heartbeat,
            _pump: pump,
            _place: place,
            _counted: OpenedStream::count(site),
        })
    }

    /// The stream's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A handle for sending packets down.
    pub(crate) fn sender(&self) -> StreamSender {
        self.sender.clone()
    }

    /// Waits for news, or for the time of a sign of life. Cancel safe.
    ///
    /// # Errors
    /// If the stream is over, with the reason.
    pub(crate) async fn next(&mut self) -> Result<Event, Problem> {
        let event = tokio::select! {
            biased;
            event = self.queue.next() => event,
            () = sleep_until(self.alive_at) => Ok(Event::Alive),
        };
        self.alive_at = Instant::now() + self.heartbeat;
        event
    }
}

/// Moves news from the stream to the queue, and returns the reason for its end.
async fn pump(
    mut stream: Stream,
    wishes: &StreamWishes,
    queue: &Queue,
    site: &Site,
    tenant: &Tenant,
    service: &str,
) -> Problem {
    let mut ending = site.ending.clone();
    let mut sending = pin!(send(stream.sender(), wishes.sends()));
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let gathers = wishes.sync != Some(Synchronisation::DoNotWait);
    let mut tags = TagRuns::new();
    loop {
        let news = async {
            queue.room().await;
            stream.next().await
        };
        let event = tokio::select! {
            event = news => event,
            error = sending.as_mut() => Err(error),
            () = ended(&mut ending) => return Problem::ending(),
            _ = look.tick() => match check_again(site, tenant, |present| present.may_call(service)) {
                Ok(()) => continue,
                Err(problem) => return problem,
            },
        };
        let event = match event {
            Ok(StreamEvent::Wave(wave)) => {
                let is_late = gathers && tags.contains(wave.tag);
                tags.insert(wave.tag);
                Event::Wave { wave, is_late }
            }
            Ok(StreamEvent::Changed { endpoints, away, .. }) => Event::Changed { endpoints, away },
            Ok(_) => continue,
            Err(error) => return error.into(),
        };
        match queue.push(event) {
            Ok(0) => {}
            Ok(dropped) => site.metrics.count_dropped_waves(dropped),
            Err(problem) => return problem,
        }
    }
}

/// Sends the packet of the settings, and returns an error if that fails; else never.
async fn send(sender: StreamSender, sends: Option<(Bytes, Option<Duration>)>) -> Error {
    let Some((packet, every)) = sends else { return pending().await };
    let Some(every) = every else {
        return match sender.send(packet).await {
            Ok(_) => pending().await,
            Err(error) => error,
        };
    };
    let mut pace = interval(every);
    // After a full window, missed ticks are not made up for.
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        if let Err(error) = sender.send(packet.clone()).await {
            return error;
        }
    }
}
