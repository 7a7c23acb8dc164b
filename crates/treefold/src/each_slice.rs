//! Results that are larger than memory: a call's slices, one after another.
//!
//! ```text
//!   next() ◀── slice 4, in order      ┌ call for slice 5 alone ──▶ front ──▶ a tree of its own
//!                                     ├ call for slice 6 alone      a node makes the slice, and no other
//!                            window:  └ call for slice 7 alone
//!                                       slice 8 begins when slice 4 has been taken
//! ```
//!
//! Each slice is a call of its own, for one slice alone. The calls know nothing of each other: each chooses its replicas and
//! forms its tree when it begins, so a slice avoids a node that was lost during an earlier one. Nothing joins the slices, so
//! the front need not know the aggregation. The window is the back-pressure: a reader that takes no slices has at most the
//! window's slices in flight, anywhere. A slice that has come waits in the front's answer until it is its turn.
//!
//! The call as a whole ends like any other. A partition has contributed if it is in every slice. The deadline is that of the
//! whole, and a slice has the time that is left when it begins.

use crate::call::{Prepared, Reply};
use crate::error::Error;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use treefold_core::call::{Status, losses_max};
use treefold_core::error::{CallError, Missing, Reason};
use treefold_core::limits::SLICES_ALONE_MAX;
use treefold_core::partitions::PartitionSet;
use treefold_operators::Body;

/// The slices that are in flight at a time, unless the reader asks for another number.
const WINDOW_DEFAULT: u32 = 4;

/// The most slices that may be in flight at a time.
const WINDOW_MAX: u32 = 256;

/// A slice's call, or its outcome while earlier slices are awaited.
enum Flight<T> {
    Open(Pin<Box<dyn Future<Output = Result<Reply<T>, Error>> + Send>>),
    Landed(Box<Result<Reply<T>, Error>>),
}

/// The slices of a call, in order; [`CallBuilder::each_slice`](crate::CallBuilder::each_slice) makes it.
///
/// Dropping it cancels the slices in flight throughout their trees.
#[must_use = "slices are asked for as they are taken"]
pub struct EachSlice<T> {
    /// The call, until an error ends it.
    call: Result<Prepared, Option<Error>>,
    slices: u32,
    window: u32,
    /// When the first slice was asked for.
    began_at: Option<Instant>,
    /// The index of the next slice to ask for.
    next: u32,
    flights: VecDeque<Flight<T>>,
    taken: u32,
    so_far: Reply<()>,
}

impl<T: Body> EachSlice<T> {
    pub(crate) fn new(call: Result<Prepared, Error>) -> Self {
        Self {
            slices: call.as_ref().map_or(0, |call| call.options.slices),
            call: call.map_err(Some),
            window: WINDOW_DEFAULT,
            began_at: None,
            next: 0,
            flights: VecDeque::new(),
            taken: 0,
            so_far: Reply {
                status: Status::Full,
                value: None,
                asked: PartitionSet::new(),
                contributed: PartitionSet::new(),
                missing: Vec::new(),
                total_is_guess: false,
                elapsed: Duration::ZERO,
                report: None,
            },
        }
    }

    /// Sets how many slices may be in flight at a time. Default: 4; at most 256.
    ///
    /// Each node, the front and this program hold up to so many slices. With one slice, nothing overlaps.
    pub fn window(mut self, slices: u32) -> Self {
        self.window = slices;
        self
    }

    /// The value of the next slice, in order; `None` after the last one. Dropping the future loses no slice.
    ///
    /// # Errors
    /// As a call. If the coverage of the slices so far falls below the minimum, or the deadline passes, the error is
    /// [`Error::NoValue`]: the slices that were taken before are a part of the result only. After an error, this returns
    /// `None`.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        let call = match &mut self.call {
            Ok(call) => call,
            Err(error) => return error.take().map_or(Ok(None), Err),
        };
        let (min_coverage, window) = (call.options.min_coverage, self.window);
        if self.began_at.is_none()
            && let Err(error) = check(call, window)
        {
            return Err(self.end(error.into()));
        }
        if self.taken == self.slices {
            return Ok(None);
        }
        let began_at = *self.began_at.get_or_insert_with(Instant::now);
        let landed = poll_fn(|context| {
            self.advance(began_at, context);
            match self.flights.pop_front() {
                Some(open @ Flight::Open(_)) => {
                    self.flights.push_front(open);
                    Poll::Pending
                }
                Some(Flight::Landed(reply)) => {
                    // The next slice begins now, while the reader works on this one.
                    self.advance(began_at, context);
                    Poll::Ready(Some(*reply))
                }
                None => Poll::Ready(None),
            }
        })
        .await;
        self.so_far.elapsed = began_at.elapsed();
        let value = match landed {
            Some(Ok(reply)) => {
                self.note(&reply, min_coverage);
                if reply.asked.is_empty() {
                    // A call that asks no partition has no values.
                    (self.taken, self.next) = (self.slices, self.slices);
                    self.flights.clear();
                    return Ok(None);
                }
                reply.value.filter(|_| self.so_far.status != Status::Insufficient)
            }
            Some(Err(error)) => return Err(self.end(error)),
            // The reader was so slow that the deadline passed before this slice could begin.
            None => {
                let partitions = self.so_far.contributed.clone();
                lose(&mut self.so_far, Missing { partitions, node: None, reason: Reason::Late });
                None
            }
        };
        if value.is_none() {
            self.so_far.status = Status::Insufficient;
            let (coverage, missing) = (self.so_far.coverage(), self.so_far.missing.clone());
            return Err(self.end(Error::NoValue { coverage, missing }));
        }
        self.taken += 1;
        Ok(value)
    }

    /// The outcome of the slices so far, without a value. A partition has contributed if it is in all of them.
    ///
    /// It is that of the whole call once [`is_complete`](Self::is_complete) is true.
    pub fn so_far(&self) -> &Reply<()> {
        &self.so_far
    }

    /// The number of slices of the whole.
    pub fn asked(&self) -> u32 {
        self.slices
    }

    /// The number of slices that have been taken.
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// True if all slices have been taken.
    pub fn is_complete(&self) -> bool {
        self.call.is_ok() && self.taken == self.slices
    }

    /// Adds a slice's outcome, and judges the slices so far.
    fn note(&mut self, reply: &Reply<T>, min_coverage: f64) {
        let so_far = &mut self.so_far;
        let joined = reply.asked.difference(&so_far.asked);
        so_far.asked.union_with(&joined);
        // A partition that joins the service between two slices is missing from the earlier one.
        so_far.contributed.union_with(&joined);
        let late = if self.taken == 0 { PartitionSet::new() } else { joined };
        let left = so_far.contributed.difference(&reply.asked);
        for partitions in [late, left] {
            lose(so_far, Missing { partitions, node: None, reason: Reason::NoReplica });
        }
        reply.missing.iter().for_each(|loss| lose(so_far, loss.clone()));
        so_far.total_is_guess |= reply.total_is_guess;
        so_far.status = match so_far.asked.len() - so_far.contributed.len() {
            0 => Status::Full,
            lost if lost <= losses_max(so_far.asked.len(), min_coverage) as usize => Status::Partial,
            _ => Status::Insufficient,
        };
    }

    /// Asks for as many slices as the window has room for, and lets each do what it can.
    fn advance(&mut self, began_at: Instant, context: &mut Context<'_>) {
        let Ok(call) = &self.call else { return };
        let left = Duration::from(call.options.deadline).saturating_sub(began_at.elapsed());
        while self.next < self.slices && self.flights.len() < self.window as usize && !left.is_zero() {
            self.flights.push_back(Flight::Open(Box::pin(call.slice(self.next, left))));
            self.next += 1;
        }
        for flight in &mut self.flights {
            if let Flight::Open(slice) = flight
                && let Poll::Ready(reply) = slice.as_mut().poll(context)
            {
                *flight = Flight::Landed(Box::new(reply));
            }
        }
    }

    /// Ends the call: cancels what is in flight.
    fn end(&mut self, error: Error) -> Error {
        self.call = Err(None);
        self.flights.clear();
        error
    }
}

/// Notes partitions as missing, with the first reason that is known for each.
fn lose(so_far: &mut Reply<()>, Missing { partitions, node, reason }: Missing) {
    let partitions = partitions.intersection(&so_far.contributed);
    so_far.contributed.subtract(&partitions);
    let is_like = |old: &&mut Missing| old.node == node && old.reason == reason;
    match so_far.missing.iter_mut().find(is_like) {
        _ if partitions.is_empty() => {}
        Some(old) => old.partitions.union_with(&partitions),
        None => so_far.missing.push(Missing { partitions, node, reason }),
    }
}

fn check(call: &Prepared, window: u32) -> Result<(), CallError> {
    let slices = call.options.slices;
    if !(1..=SLICES_ALONE_MAX).contains(&slices) {
        return Err(CallError::bad_field("slices", slices, format_args!("1 to {SLICES_ALONE_MAX}")));
    }
    if !(1..=WINDOW_MAX).contains(&window) {
        return Err(CallError::bad_field("window", window, format_args!("1 to {WINDOW_MAX}")));
    }
    if call.options.deadline.is_zero() {
        return Err(CallError::bad_field("deadline", call.options.deadline, "above 0"));
    }
    Ok(())
}

impl<T> fmt::Debug for EachSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EachSlice")
            .field("window", &self.window)
            .field("next", &self.next)
            .field("taken", &self.taken)
            .field("so_far", &self.so_far)
            .finish_non_exhaustive()
    }
}
