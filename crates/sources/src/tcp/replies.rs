//! The answering side of a connection.

use crate::intake::Reached;
use crate::limits::SourceLimits;
use crate::reply::{Numbers, Reply};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use treefold_feed::Acknowledged;
use treefold_mirror::Name;

/// Time between two acknowledgements. Numbers that grow meanwhile share the next one.
const ACKNOWLEDGE_EVERY: Duration = Duration::from_millis(5);
/// Bytes of answers that are written at a time.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// The answers of one connection.
pub(super) struct Answers {
    /// Refusals and errors.
    pub(super) queue: mpsc::Receiver<Reply>,
    /// The events of this connection that the origin has.
    pub(super) at_origin: watch::Receiver<Reached>,
    /// The acknowledged events.
    pub(super) acknowledged: watch::Receiver<Acknowledged>,
}

/// Writes answers until the connection takes no more events and all of its events are acknowledged, or until the peer
/// takes no answers.
pub(super) async fn write_all(
    mut write: impl AsyncWrite + Unpin,
    mut answers: Answers,
    limits: &SourceLimits,
) {
    let (mut told, mut out) = (Vec::new(), Vec::new());
    let mut give_up_at = None;
    let mut quiet_until = Instant::now();
    let mut is_open = true;
    loop {
        let now = Instant::now();
        if !is_open || now >= quiet_until {
            let numbers = answers.news(&mut told);
            if !numbers.0.is_empty() {
                Reply::Acknowledged(numbers).write(&mut out);
                quiet_until = now + ACKNOWLEDGE_EVERY;
            }
        }
        if !out.is_empty() {
            match timeout(limits.write_within, write.write_all(&out)).await {
                Ok(Ok(())) => out.clear(),
                // The peer is gone, or reads nothing.
                Ok(Err(_)) | Err(_) => return,
            }
        }
        if !is_open {
            let give_up_at = *give_up_at.get_or_insert(Instant::now() + limits.acknowledge_within);
            let is_done = answers.at_origin.borrow().is_within(&answers.acknowledged.borrow());
            if is_done || Instant::now() >= give_up_at {
                break;
            }
            tokio::select! {
                changed = answers.acknowledged.changed() => if changed.is_err() { break },
                () = sleep_until(give_up_at) => {}
            }
            continue;
        }
        let is_quiet = Instant::now() < quiet_until;
        tokio::select! {
            reply = answers.queue.recv() => match reply {
                Some(reply) => answers.take(reply, &mut told, &mut out),
                None => is_open = false,
            },
            Ok(()) = answers.acknowledged.changed(), if !is_quiet => {}
            Ok(()) = answers.at_origin.changed(), if !is_quiet => {}
            () = sleep_until(quiet_until), if is_quiet => {}
        }
    }
    // The peer may be gone already.
    let _ = write.shutdown().await;
}

impl Answers {
    /// Takes a reply, and those behind it.
    fn take(&mut self, first: Reply, told: &mut Vec<(Name, u64)>, out: &mut Vec<u8>) {
        let mut next = Some(first);
        while let Some(reply) = next {
            match reply {
                // The answer to a greeting. It is an answer also if nothing is acknowledged.
                Reply::Acknowledged(mut numbers) if !numbers.0.is_empty() => {
                    keep_new(&mut numbers, told);
                    if !numbers.0.is_empty() {
                        Reply::Acknowledged(numbers).write(out);
                    }
                }
                reply => reply.write(out),
            }
            next = if out.len() < WRITE_BYTES_MAX { self.queue.try_recv().ok() } else { None };
        }
    }

    /// Acknowledged numbers of the connection's streams that the peer does not know.
    fn news(&mut self, told: &mut Vec<(Name, u64)>) -> Numbers {
        let (reached, acknowledged) =
            (self.at_origin.borrow_and_update(), self.acknowledged.borrow_and_update());
        let mut numbers = Numbers::of(&acknowledged, &reached);
        keep_new(&mut numbers, told);
        numbers
    }
}

/// Removes the numbers that the peer knows, and notes the others as told.
fn keep_new(numbers: &mut Numbers, told: &mut Vec<(Name, u64)>) {
    numbers.0.retain(|(stream, number)| match told.iter_mut().find(|(known, _)| known == stream) {
        Some((_, known)) if *known >= *number => false,
        Some((_, known)) => {
            *known = *number;
            true
        }
        None => {
            told.push((stream.clone(), *number));
            true
        }
    });
}
