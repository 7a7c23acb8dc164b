//! Offers the events of a recording at the times of the recording, faster, or as fast as the origin takes them.

use crate::feeder::{Feeder, HandError, Refused};
use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::recording::{Recorded, Recording, RecordingError};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use treefold_mirror::Event;
use treefold_mirror::origin::{Numbers, Refusal};

/// Batches that were read and not offered yet.
const READ_AHEAD_MAX: usize = 4;

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the origin takes events.
    Unpaced,
    /// As recorded, divided by this factor.
    Recorded(f64),
}

/// The reason why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording can't be read further.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The origin does not take events any more.
    #[error(transparent)]
    Origin(#[from] HandError),
}

/// Offers all events of a recording, until its end or until the source is stopped. `refused` gets each event that
/// the origin did not take, with its place in the recording, from 1.
///
/// Events that the origin had already take no time: the clock of the recording goes on with the first event that is
/// new, so that a source that starts again after its origin died continues where that one ended.
///
/// # Errors
/// [`ReplayError`].
pub async fn replay<I: Intake>(
    feeder: &Feeder<I>,
    recording: Recording,
    pace: Pace,
    mut refused: impl FnMut(u64, Refused),
) -> Result<(), ReplayError> {
    let (sender, mut batches) = mpsc::channel(READ_AHEAD_MAX);
    // A thread, because reading may block for ever, also when the process ends.
    std::thread::spawn(move || read(recording, &sender));
    let (mut began, mut reached) = (Instant::now(), Reached::default());
    let mut is_repeating = false;
    let mut stop = feeder.stop.clone();
    let mut before = 0;
    loop {
        let read = tokio::select! {
            biased;
            () = stop.asked() => return Ok(()),
            read = batches.recv() => read,
        };
        let Some(batch) = read else { return Ok(()) };
        let mut batch = batch?;
        while let Some(first) = batch.front() {
            if let Pace::Recorded(speed) = pace {
                if is_repeating {
                    began = due_now(first, speed).unwrap_or(began);
                }
                tokio::select! {
                    () = sleep_until(due(began, first, speed)) => {}
                    () = stop.asked() => return Ok(()),
                }
            }
            let mut events = take_due(&mut batch, began, pace);
            let (count, mut repeated) = (events.len() as u64, 0);
            tokio::select! {
                biased;
                handed = feeder.hand_over(&mut events, Numbers::Consecutive, None, &mut reached, |one| {
                    repeated += u64::from(matches!(one.refusal, Refusal::Repeated { .. }));
                    refused(before + one.index as u64 + 1, one);
                }) => handed?,
                () = stop.asked() => return Ok(()),
            }
            is_repeating = repeated == count;
            before += count;
        }
    }
}

fn due(began: Instant, recorded: &Recorded, speed: f64) -> Instant {
    began + since_start(recorded, speed)
}

/// The beginning of a replay in which this event is due now. `None` if the clock does not reach back so far.
fn due_now(recorded: &Recorded, speed: f64) -> Option<Instant> {
    Instant::now().checked_sub(since_start(recorded, speed))
}

fn since_start(recorded: &Recorded, speed: f64) -> Duration {
    let since = Duration::from(recorded.at.since(treefold_core::time::Instant::START));
    Duration::try_from_secs_f64(since.as_secs_f64() / speed).unwrap_or(Duration::MAX / 4)
}

/// Takes the events whose time has come.
fn take_due(batch: &mut VecDeque<Recorded>, began: Instant, pace: Pace) -> VecDeque<Event> {
    let now = Instant::now();
    let is_due = |one: &Recorded| match pace {
        Pace::Unpaced => true,
        Pace::Recorded(speed) => due(began, one, speed) <= now,
    };
    let mut events = VecDeque::with_capacity(batch.len());
    while let Some(one) = batch.pop_front_if(|one| is_due(one)) {
        events.push_back(one.event);
    }
    events
}

type Read = Result<VecDeque<Recorded>, RecordingError>;

/// Reads batches until the recording ends, or until nobody takes them.
fn read(mut recording: Recording, to: &mpsc::Sender<Read>) {
    loop {
        let (mut batch, mut bytes) = (VecDeque::new(), 0);
        let problem = loop {
            let is_full =
                batch.len() >= SourceLimits::BATCH_EVENTS_MAX || bytes >= SourceLimits::BATCH_BYTES_MAX;
            // Reading from a pipe may block for long, so the events that are there are sent first.
            if is_full || !batch.is_empty() && !recording.has_buffered() {
                break None;
            }
            match recording.next_event() {
                Ok(Some(recorded)) => {
                    bytes += recorded.event.bytes();
                    batch.push_back(recorded);
                }
                Ok(None) => break Some(None),
                Err(error) => break Some(Some(error)),
            }
        };
        if to.blocking_send(Ok(batch)).is_err() {
            return;
        }
        match problem {
            None => {}
            Some(None) => return,
            Some(Some(error)) => {
                // If nobody receives it, the process ends.
                let _ = to.blocking_send(Err(error));
                return;
            }
        }
    }
}
