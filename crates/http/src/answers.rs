//! The open requests of a connection over HTTP/2, and the answers that its client does not take.
//!
//! Over HTTP/1.1 the system closes a connection whose peer takes nothing. Over HTTP/2 a client can read the connection and
//! still take nothing of an answer, if it opens no window for it. So an answer is given in pieces of at most
//! [`PIECE_BYTES`]: the transport asks for a piece when the former one has left, and a piece after which it does not ask
//! again within the limit is one that the client does not take.

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Most bytes of a piece of an answer.
const PIECE_BYTES: usize = 16 << 10;

/// The open requests of a connection.
#[derive(Debug)]
pub(crate) struct Answers(Mutex<Open>);

#[derive(Debug)]
struct Open {
    begun: u64,
    open: usize,
    /// When the last request ended, or the connection began.
    idle_since: Instant,
    /// Times at which answers gave a piece, by number, until they are asked for the next one.
    given: BTreeMap<u64, Instant>,
}

impl Default for Answers {
    fn default() -> Self {
        let idle_since = Instant::now();
        Self(Mutex::new(Open { begun: 0, open: 0, idle_since, given: BTreeMap::new() }))
    }
}

impl Answers {
    /// Counts a request until its answer is over.
    pub(crate) fn begin(answers: &Arc<Self>) -> Answer {
        let mut open = answers.lock();
        open.begun += 1;
        open.open += 1;
        let number = open.begun;
        drop(open);
        Answer { answers: Arc::clone(answers), number }
    }

    /// True if there was a request.
    pub(crate) fn has_any(&self) -> bool {
        self.lock().begun > 0
    }

    /// Time without an open request; `None` if there is one.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let open = self.lock();
        (open.open == 0).then(|| open.idle_since.elapsed())
    }

    /// The longest time for which a piece was not taken.
    pub(crate) fn stalled(&self) -> Duration {
        let open = self.lock();
        open.given.values().min().map_or(Duration::ZERO, Instant::elapsed)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A holder of this lock only changes numbers, so a poisoned value is still valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open request.
#[derive(Debug)]
pub(crate) struct Answer {
    answers: Arc<Answers>,
    number: u64,
}

impl Drop for Answer {
    fn drop(&mut self) {
        let mut open = self.answers.lock();
        open.given.remove(&self.number);
        open.open -= 1;
        open.idle_since = Instant::now();
    }
}

/// A body that is given in pieces, with its times.
#[derive(Debug)]
pub(crate) struct Paced {
    body: Body,
    /// The rest of a frame.
    rest: Bytes,
    answer: Answer,
}

impl Paced {
    pub(crate) fn new(body: Body, answer: Answer) -> Self {
        Self { body, rest: Bytes::new(), answer }
    }
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.answer.answers.lock().given.remove(&self.answer.number);
        if self.rest.is_empty() {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other,
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(bytes);
        self.answer.answers.lock().given.insert(self.answer.number, Instant::now());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, of_body) = (self.rest.len() as u64, self.body.size_hint());
        let mut hint = SizeHint::new();
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(of_body.lower() + rest);
        hint
    }
}
