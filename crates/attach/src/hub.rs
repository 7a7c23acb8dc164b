//! The waves of all streams of a connection that the program has not taken yet.
//!
//! ```text
//!   stream ── task ──┐  waits while WAVES_MAX of its waves are here      ┌── treefold_front_recv: of one stream
//!   stream ── task ──┼──────────────▶ hub ──────────────────────────────┤
//!   stream ── task ──┘            rings the bell                         └── treefold_recv_any: of the next in turn
//! ```
//!
//! A task that waits takes no further waves from its stream, so the stream's window fills and its senders wait.
//!
//! Invariant: a stream is in `turns` once if it has waves, or an end that was not reported yet, and otherwise not.

use crate::bell::Bell;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use treefold::StreamWave;

/// Waves of a stream that wait for the program.
pub(crate) const WAVES_MAX: usize = 64;

/// A wave that a program takes, or the reason of the end.
pub(crate) type Taken = Result<StreamWave<Bytes>, String>;

pub(crate) struct Hub {
    state: Mutex<State>,
    arrived: Condvar,
    pub(crate) bell: Bell,
}

#[derive(Default)]
struct State {
    streams: HashMap<u64, Waiting>,
    turns: VecDeque<u64>,
    added: u64,
}

/// A stream's waves that wait.
struct Waiting {
    /// The program's own pointer for the stream.
    context: usize,
    waves: VecDeque<StreamWave<Bytes>>,
    over: Option<String>,
    room: Arc<Semaphore>,
}

impl Waiting {
    fn has_waves(&self) -> bool {
        !self.waves.is_empty()
    }
}

impl Hub {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { state: Mutex::default(), arrived: Condvar::new(), bell: Bell::new()? })
    }

    /// Adds a stream with the program's pointer for it. Returns its number, and the room for its waves.
    pub(crate) fn add(&self, context: usize) -> (u64, Arc<Semaphore>) {
        let mut state = self.state();
        state.added += 1;
        let (number, room) = (state.added, Arc::new(Semaphore::new(WAVES_MAX)));
        let waiting = Waiting { context, waves: VecDeque::new(), over: None, room: Arc::clone(&room) };
        state.streams.insert(number, waiting);
        (number, room)
    }

    /// Forgets a stream and its waves.
    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.state();
        state.streams.remove(&number);
        state.turns.retain(|&turn| turn != number);
    }

    /// Adds a wave of a stream, or its end.
    pub(crate) fn put(&self, number: u64, taken: Taken) {
        {
            let mut state = self.state();
            let State { streams, turns, .. } = &mut *state;
            let Some(stream) = streams.get_mut(&number) else { return };
            if !stream.has_waves() {
                turns.push_back(number);
            }
            match taken {
                Ok(wave) => stream.waves.push_back(wave),
                Err(why) => stream.over = Some(why),
            }
        }
        self.arrived.notify_all();
        self.bell.ring();
    }

    /// Takes the next wave of one stream; `None` if none came in time.
    pub(crate) fn take(&self, number: u64, patience: Duration) -> Option<Taken> {
        self.wait(patience, |state| {
            let stream = state.streams.get_mut(&number)?;
            let Some(wave) = stream.waves.pop_front() else { return stream.over.clone().map(Err) };
            stream.room.add_permits(1);
            if !stream.has_waves() && stream.over.is_none() {
                state.turns.retain(|&turn| turn != number);
            }
            Some(Ok(wave))
        })
    }

    /// Takes the next wave, or the end, of any stream, with the stream's context; `None` if none came in time. Each stream with
    /// waves has its turn.
    pub(crate) fn take_any(&self, patience: Duration) -> Option<(usize, Taken)> {
        self.wait(patience, |state| {
            let number = state.turns.pop_front()?;
            let stream = state.streams.get_mut(&number).expect("invariant: a stream with a turn is here");
            let context = stream.context;
            let Some(wave) = stream.waves.pop_front() else {
                let why = stream.over.clone().expect("invariant: a stream with a turn has waves or is over");
                return Some((context, Err(why)));
            };
            stream.room.add_permits(1);
            if stream.has_waves() || stream.over.is_some() {
                state.turns.push_back(number);
            }
            Some((context, Ok(wave)))
        })
    }

    fn wait<T>(&self, patience: Duration, mut take: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let until = Instant::now().checked_add(patience);
        let mut state = self.state();
        loop {
            if let Some(taken) = take(&mut state) {
                return Some(taken);
            }
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return None,
                Some(left) => {
                    self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change under this lock is complete before anything in it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::PartitionSet;

    fn wave(tag: u64) -> Taken {
        Ok(StreamWave { tag, packets: Vec::new(), contributors: PartitionSet::new(), missing: Vec::new() })
    }

    fn tag(taken: Option<(usize, Taken)>) -> (usize, Result<u64, String>) {
        let (context, taken) = taken.expect("something waits");
        (context, taken.map(|wave| wave.tag))
    }

    #[test]
    fn streams_have_their_turns_and_ends_are_reported_once() {
        let hub = Hub::new().unwrap();
        let ((a, _), (b, room)) = (hub.add(10), hub.add(20));
        for (number, tag) in [(a, 1), (a, 2), (b, 7), (a, 3)] {
            hub.put(number, wave(tag));
        }
        hub.put(a, Err("closed".into()));
        let next = || tag(hub.take_any(Duration::ZERO));
        assert_eq!([next(), next(), next()], [(10, Ok(1)), (20, Ok(7)), (10, Ok(2))]);
        assert_eq!(hub.take(a, Duration::ZERO).unwrap().unwrap().tag, 3);
        assert_eq!(next(), (10, Err("closed".into())));
        assert!(hub.take_any(Duration::ZERO).is_none());
        assert_eq!(hub.take(a, Duration::ZERO).unwrap().unwrap_err(), "closed", "the end is told again");
        assert_eq!(room.available_permits(), WAVES_MAX + 1, "a task takes a permit before it puts a wave");
    }

    #[test]
    fn removed_streams_have_no_turn() {
        let hub = Hub::new().unwrap();
        let (number, _) = hub.add(30);
        hub.put(number, wave(1));
        hub.remove(number);
        hub.put(number, wave(2));
        assert!(hub.take_any(Duration::ZERO).is_none());
        assert!(hub.take(number, Duration::ZERO).is_none());
    }

    #[test]
    fn a_wave_wakes_the_program_that_waits() {
        let hub = Hub::new().unwrap();
        let (number, _) = hub.add(30);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| hub.take_any(Duration::MAX));
            hub.put(number, wave(9));
            assert_eq!(tag(waits.join().unwrap()), (30, Ok(9)));
        });
    }
}
