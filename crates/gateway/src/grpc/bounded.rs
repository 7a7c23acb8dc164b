//! The body of an RPC within the gateway's limits: its bytes, the bytes of all bodies, and its time.

use crate::body::reserve;
use crate::problem::Problem;
use crate::site::{BODY_PERMIT_BYTES, Site};
use axum::body::{Body, Bytes, HttpBody};
use axum::{BoxError, Error};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Permits for the bytes of a body. They last as long as any of its copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Room {
    /// Reserves room for `bytes` in all.
    fn reserve(&self, site: &Site, bytes: usize) -> Result<(), Problem> {
        reserve(site, &mut self.0.lock().unwrap_or_else(PoisonError::into_inner), bytes)
    }

    /// Reserves room for `more` bytes than now.
    pub(super) fn reserve_more(&self, site: &Site, more: usize) -> Result<(), Problem> {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = permits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        reserve(site, &mut permits, (held * BODY_PERMIT_BYTES).saturating_add(more))
    }
}

/// The end of a body that is not complete in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// It is refused.
    Refused,
    /// It is over. So ends a conversation with the reflection service, which has no end of its own.
    Ended,
}

/// A body within limits.
pub(super) struct Bounded {
    body: Body,
    site: Arc<Site>,
    room: Room,
    late: Late,
    bytes: usize,
    until: Pin<Box<Sleep>>,
}

impl Bounded {
    pub(super) fn new(body: Body, site: Arc<Site>, room: Room, late: Late) -> Self {
        let until = Box::pin(sleep(site.limits.body_within));
        Self { body, site, room, late, bytes: 0, until }
    }

    fn take(&mut self, data: &Bytes) -> Result<(), Problem> {
        let max = self.site.limits.body_bytes_max;
        // The length of a message is known before its bytes.
        let announced = match data.first_chunk::<PREFIX_BYTES>() {
            Some(&[_, length @ ..]) if self.bytes == 0 => u32::from_be_bytes(length) as usize,
            _ => 0,
        };
        self.bytes += data.len();
        if announced.max(self.bytes.saturating_sub(PREFIX_BYTES)) > max {
            return Err(Problem::body_too_large(&self.site.limits));
        }
        self.room.reserve(&self.site, self.bytes)
    }

    fn late(&self) -> Option<Problem> {
        (self.late == Late::Refused).then(|| Problem::body_timeout(&self.site.limits))
    }
}

fn error(problem: Problem) -> Error {
    Error::new(BoxError::from(Status::from(problem)))
}

type Frame = hyper::body::Frame<Bytes>;

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame, Error>>> {
        if self.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(self.late().map(|problem| Err(error(problem))));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        if let Some(data) = frame.data_ref()
            && let Err(problem) = self.take(data)
        {
            return Poll::Ready(Some(Err(error(problem))));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
