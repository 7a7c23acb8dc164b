//! The waves of one stream that wait for its reader.
//!
//! A reader that takes less than the endpoints send fills the queue. Its rule says what happens then; the reader is told in
//! any case, so that it never takes a gap for silence.

use super::event::Event;
use crate::problem::{Kind, Problem};
use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use treefold::CallError;

/// The rule for a reader that is too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Slow {
    /// The oldest waves are dropped, and the reader is told how many.
    #[default]
    Drop,
    /// The stream is closed.
    Close,
    /// No wave is taken from the stream. Its window stops the endpoints, and no wave is lost.
    Wait,
}

impl FromStr for Slow {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, CallError> {
        match text {
            "drop" => Ok(Self::Drop),
            "close" => Ok(Self::Close),
            "wait" => Ok(Self::Wait),
            _ => Err(CallError::bad_field("slow", text, "drop, close, wait")),
        }
    }
}

/// A queue of one writer and one reader.
#[derive(Debug)]
pub(super) struct Queue {
    bytes_max: usize,
    slow: Slow,
    content: Mutex<Content>,
    news: Notify,
    room: Notify,
}

#[derive(Debug, Default)]
struct Content {
    events: VecDeque<Event>,
    bytes: usize,
    /// Waves that were dropped before the first wave of `events`.
    dropped: u64,
    end: Option<Problem>,
}

impl Queue {
    pub(super) fn new(bytes_max: usize, slow: Slow) -> Self {
        let (content, news, room) = (Mutex::default(), Notify::new(), Notify::new());
        Self { bytes_max, slow, content, news, room }
    }

    /// Adds news, and returns the number of waves that it displaces. A single wave may be larger than the queue.
    ///
    /// # Errors
    /// If the queue is full, and the rule closes the stream.
    pub(super) fn push(&self, event: Event) -> Result<u64, Problem> {
        let mut content = self.lock();
        if matches!(event, Event::Changed { .. }) {
            // Only the newest change matters.
            let former = content.events.iter().position(|event| matches!(event, Event::Changed { .. }));
            if let Some(former) = former.and_then(|at| content.events.remove(at)) {
                content.bytes -= former.bytes();
            }
        }
        content.bytes += event.bytes();
        content.events.push_back(event);
        let mut dropped = 0;
        while content.bytes > self.bytes_max && self.slow != Slow::Wait {
            let mut waves = (0..content.events.len()).filter(|&at| content.events[at].is_wave());
            // Other news is never displaced, and the last wave is not.
            let (Some(oldest), Some(_)) = (waves.next(), waves.next()) else { break };
            if self.slow == Slow::Close {
                return Err(self.slow_reader());
            }
            let Some(oldest) = content.events.remove(oldest) else { break };
            content.bytes -= oldest.bytes();
            dropped += 1;
        }
        content.dropped += dropped;
        drop(content);
        self.news.notify_one();
        Ok(dropped)
    }

    fn slow_reader(&self) -> Problem {
        let limit = self.bytes_max;
        let detail = format!(
            "the waves that wait for the reader have more than {limit} bytes (stream_queue_bytes_max); read faster, fold \
             more by a filter, or choose slow=drop"
        );
        Problem::new(Kind::SlowReader, detail).about("slow").limit(limit)
    }

    /// Says why no more news follows.
    pub(super) fn end(&self, problem: Problem) {
        self.lock().end = Some(problem);
        self.news.notify_one();
    }

    /// Waits until there is room for more by the rule [`Slow::Wait`]; by other rules there always is. Cancel safe.
    pub(super) async fn room(&self) {
        while self.slow == Slow::Wait && self.lock().bytes >= self.bytes_max {
            self.room.notified().await;
        }
    }

    /// Waits for the next news. Cancel safe.
    ///
    /// # Errors
    /// If no more follows, with the reason.
    pub(super) async fn next(&self) -> Result<Event, Problem> {
        loop {
            if let Some(next) = self.poll_next() {
                return next;
            }
            self.news.notified().await;
        }
    }

    fn poll_next(&self) -> Option<Result<Event, Problem>> {
        let mut content = self.lock();
        // Events that stand before the first wave come before the gap.
        if content.dropped > 0 && content.events.front().is_none_or(Event::is_wave) {
            let waves = std::mem::take(&mut content.dropped);
            return Some(Ok(Event::Dropped { waves }));
        }
        if let Some(event) = content.events.pop_front() {
            content.bytes -= event.bytes();
            drop(content);
            self.room.notify_one();
            return Some(Ok(event));
        }
        content.end.take().map(Err)
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // A holder of this lock moves values and numbers only, so a poisoned value is still valid.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::FutureExt;
    use treefold::{PartitionSet, StreamWave};

    fn wave(tag: u64) -> Event {
        let packets = vec![Bytes::from_static(&[7; 72])];
        let wave = StreamWave { tag, packets, contributors: PartitionSet::first(1), missing: Vec::new() };
        Event::Wave { wave, is_late: false }
    }

    fn next(queue: &Queue) -> String {
        match queue.next().now_or_never() {
            None => "nothing".to_owned(),
            Some(Ok(Event::Wave { wave, .. })) => format!("wave {}", wave.tag),
            Some(Ok(Event::Dropped { waves })) => format!("dropped {waves}"),
            Some(Ok(other)) => other.name().to_owned(),
            Some(Err(problem)) => problem.name().to_owned(),
        }
    }

    #[test]
    fn oldest_waves_are_dropped_and_the_reader_is_told() {
        // A wave counts 200 bytes.
        let queue = Queue::new(400, Slow::Drop);
        let dropped: Vec<u64> = (1..=5).map(|tag| queue.push(wave(tag)).unwrap()).collect();
        assert_eq!(dropped, [0, 0, 1, 1, 1]);
        queue.end(Problem::ending());
        let seen: Vec<String> = (0..5).map(|_| next(&queue)).collect();
        assert_eq!(seen, ["dropped 3", "wave 4", "wave 5", "ending", "nothing"]);
    }

    #[test]
    fn stream_is_closed_or_waits_by_its_rule() {
        let queue = Queue::new(400, Slow::Close);
        assert!(queue.push(wave(1)).is_ok() && queue.push(wave(2)).is_ok());
        assert_eq!(queue.push(wave(3)).unwrap_err().name(), "slow_reader");
        let queue = Queue::new(400, Slow::Wait);
        for tag in 1..=2 {
            assert!(queue.room().now_or_never().is_some());
            assert_eq!(queue.push(wave(tag)).unwrap(), 0);
        }
        assert!(queue.room().now_or_never().is_none());
        assert_eq!(next(&queue), "wave 1");
        assert!(queue.room().now_or_never().is_some());
    }

    #[test]
    fn other_news_is_never_displaced() {
        let opened =
            || Event::Opened { stream: "1".to_owned(), endpoints: PartitionSet::first(1), away: Vec::new() };
        let queue = Queue::new(100, Slow::Close);
        assert!(queue.push(opened()).is_ok() && queue.push(wave(1)).is_ok(), "one wave may be larger");
        assert_eq!([next(&queue), next(&queue)], ["opened", "wave 1"]);

        let queue = Queue::new(400, Slow::Drop);
        let changed = Event::Changed { endpoints: PartitionSet::first(1), away: Vec::new() };
        for event in [opened(), wave(1), changed, wave(2), wave(3)] {
            queue.push(event).unwrap();
        }
        let seen: Vec<String> = (0..5).map(|_| next(&queue)).collect();
        assert_eq!(seen, ["opened", "changed", "dropped 2", "wave 3", "nothing"]);
    }

    #[test]
    fn only_the_newest_change_waits_and_one_large_wave_passes() {
        let queue = Queue::new(100, Slow::Close);
        let changed = || Event::Changed { endpoints: PartitionSet::first(1), away: Vec::new() };
        assert!(queue.push(changed()).is_ok() && queue.push(changed()).is_ok());
        assert_eq!([next(&queue), next(&queue)], ["changed", "nothing"]);
        assert!(queue.push(wave(1)).is_ok());
        assert_eq!(next(&queue), "wave 1");
    }
}
