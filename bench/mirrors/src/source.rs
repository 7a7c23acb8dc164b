//! The source of a trial: makes events and gives them to a system's origin or publisher, in one process.

use crate::Problem;
use crate::system::{Base, SystemArgs};
use crate::work::{Events, KIND, Made, STREAM, Work, rules};
use crate::{feed, nats, redis};
use bytestring::ByteString;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant as Clock;
use treefold_bench_down::clock::{cpu_time, now_ns};
use treefold_bench_down::pace::Pace;
use treefold_bench_down::part::{serve, unknown};
use treefold_core::time::Instant;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::select::{Functions, Selector};
use treefold_mirror::state::{Moment, State};
use treefold_mirror::{Event, Fields, MirrorLimits, Name};

/// Takes events of the source.
pub(crate) trait Sink: Send {
    /// Takes an event. It may wait in a buffer.
    fn put(&mut self, key: &ByteString, number: u64, body: &[u8]) -> Result<(), Problem>;

    /// Sends what waits in a buffer.
    fn flush(&mut self) -> Result<(), Problem>;

    /// Waits until the system has confirmed all events.
    fn settle(&mut self) -> Result<(), Problem>;

    /// Events that the system has sent to its readers, if it counts them.
    fn sent(&mut self) -> Result<Option<u64>, Problem> {
        Ok(None)
    }
}

/// Applies the rules before another sink, as a publisher would that has them.
struct Ruled<S> {
    sink: S,
    selector: Selector,
    names: (Name, Name),
    began: Clock,
    selected: Vec<Event>,
    sent: u64,
}

impl<S: Sink> Ruled<S> {
    fn new(sink: S) -> Result<Self, Problem> {
        let (rules, limits) = (rules(true, None)?, MirrorLimits::DEFAULT);
        let selector = Selector::new(rules, Functions::new(), &limits, 7)?;
        let names = (Name::new(STREAM)?, Name::new(KIND)?);
        Ok(Self { sink, selector, names, began: Clock::now(), selected: Vec::new(), sent: 0 })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn put_selected(&mut self) -> Result<(), Problem> {
        for event in self.selected.drain(..) {
            self.sink.put(&event.key, event.number, &event.body)?;
            self.sent += 1;
        }
        Ok(())
    }
}

impl<S: Sink> Sink for Ruled<S> {
    fn put(&mut self, key: &ByteString, number: u64, body: &[u8]) -> Result<(), Problem> {
        let (stream, kind) = self.names.clone();
        let body = bytes::Bytes::copy_from_slice(body);
        let event = Event { stream, number, key: key.clone(), kind, fields: Fields::default(), body };
        let now = self.now();
        self.selector.release_due(now, &mut self.selected);
        self.selector.offer(now, event, &mut self.selected);
        self.put_selected()
    }

    fn flush(&mut self) -> Result<(), Problem> {
        self.selector.release_due(self.now(), &mut self.selected);
        self.put_selected()?;
        self.sink.flush()
    }

    fn settle(&mut self) -> Result<(), Problem> {
        self.selector.release_all(self.now(), &mut self.selected);
        self.put_selected()?;
        self.sink.settle()
    }

    fn sent(&mut self) -> Result<Option<u64>, Problem> {
        Ok(Some(self.sent))
    }
}

/// Applies each event to a state of the source's own, and works for a while, before another sink gets it.
struct Business {
    sink: Box<dyn Sink>,
    state: KeyedState,
    names: (Name, Name),
    work_ns: u64,
    position: u64,
}

impl Business {
    fn new(sink: Box<dyn Sink>, work_us: f64) -> Result<Self, Problem> {
        let state = KeyedState::new(StateOptions::default(), &MirrorLimits::DEFAULT, 7);
        let names = (Name::new(STREAM)?, Name::new(KIND)?);
        Ok(Self { sink, state, names, work_ns: (work_us * 1e3) as u64, position: 0 })
    }
}

impl Sink for Business {
    fn put(&mut self, key: &ByteString, number: u64, body: &[u8]) -> Result<(), Problem> {
        let until = now_ns() + self.work_ns;
        let (stream, kind) = self.names.clone();
        let copied = bytes::Bytes::copy_from_slice(body);
        let event = Event { stream, number, key: key.clone(), kind, fields: Fields::default(), body: copied };
        self.position += 1;
        self.state.apply(Moment { position: self.position, sent_ms: 0 }, event.borrowed(), &mut Vec::new());
        while now_ns() < until {
            std::hint::spin_loop();
        }
        self.sink.put(key, number, body)
    }

    fn flush(&mut self) -> Result<(), Problem> {
        self.sink.flush()
    }

    fn settle(&mut self) -> Result<(), Problem> {
        self.sink.settle()
    }

    fn sent(&mut self) -> Result<Option<u64>, Problem> {
        self.sink.sent()
    }
}

/// The sink of a source without mirrors.
struct Nowhere;

impl Sink for Nowhere {
    fn put(&mut self, _: &ByteString, _: u64, _: &[u8]) -> Result<(), Problem> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}

fn connect(args: &SystemArgs, work: Work) -> Result<Box<dyn Sink>, Problem> {
    if args.mirrors == 0 {
        return Ok(Box::new(Nowhere));
    }
    let is_ruled = args.system.has_rules;
    Ok(match args.system.base {
        Base::Treefold | Base::TreefoldShared | Base::TreefoldHttp => {
            Box::new(feed::Feeder::start(args, is_ruled)?)
        }
        Base::Redis | Base::RedisScan => ruled(redis::Publisher::connect(args.port()?, work)?, is_ruled)?,
        Base::Nats => ruled(nats::Publisher::connect(args.port()?, false)?, is_ruled)?,
        Base::Jetstream | Base::JetstreamAlways => {
            ruled(nats::Publisher::connect(args.port()?, true)?, is_ruled)?
        }
    })
}

fn ruled(sink: impl Sink + 'static, is_ruled: bool) -> Result<Box<dyn Sink>, Problem> {
    Ok(if is_ruled { Box::new(Ruled::new(sink)?) } else { Box::new(sink) })
}

/// The source, shared by the thread that sends and the one that answers.
struct Shared {
    parts: Mutex<(Box<dyn Sink>, Events)>,
    stop: AtomicBool,
    offered: AtomicU64,
}

impl Shared {
    fn parts(&self) -> MutexGuard<'_, (Box<dyn Sink>, Events)> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends at a rate, or as fast as possible, until it is stopped or has sent `most` events.
    fn send(&self, rate: Option<f64>, most: u64) -> Result<(), Problem> {
        let mut parts = self.parts();
        let (sink, events) = &mut *parts;
        let mut pace = Pace::new(rate, &self.stop);
        for _ in 0..most {
            let mut flushed = Ok(());
            let due_ns = pace.next(|| flushed = sink.flush());
            flushed?;
            let Some(due_ns) = due_ns else { break };
            // Without a schedule, an event is due when it is made.
            let due_ns = if due_ns == 0 { now_ns() } else { due_ns };
            let Made { key, number, body } = events.next(due_ns);
            sink.put(key, number, body)?;
            self.offered.fetch_add(1, Ordering::Relaxed);
        }
        sink.flush()
    }
}

/// The thread that sends.
type Sending = Option<JoinHandle<Result<(), String>>>;

/// Runs the source.
pub(crate) fn run(args: &SystemArgs, work: Work, work_us: Option<f64>) -> Result<(), Problem> {
    let sink = connect(args, work)?;
    let sink = match work_us {
        Some(work_us) => Box::new(Business::new(sink, work_us)?),
        None => sink,
    };
    let parts = Mutex::new((sink, Events::new(work)));
    let shared = Arc::new(Shared { parts, stop: AtomicBool::new(false), offered: AtomicU64::new(0) });
    let mut sending: Sending = None;
    serve(&json!({}), |words| match *words {
        ["fill"] => {
            let mut parts = shared.parts();
            let (sink, events) = &mut *parts;
            for key in 0..work.keys as usize {
                let Made { key, number, body } = events.of_key(key, 0);
                sink.put(key, number, body)?;
            }
            sink.settle()?;
            Ok(json!({}))
        }
        ["rate", rate] => {
            halt(&shared, &mut sending)?;
            let rate = if rate == "max" { None } else { Some(rate.parse()?) };
            let shared = Arc::clone(&shared);
            sending = Some(std::thread::spawn(move || {
                shared.send(rate, u64::MAX).map_err(|error| error.to_string())
            }));
            Ok(json!({}))
        }
        // A given number of events as fast as possible, until all are confirmed.
        ["count", count] => {
            let began = Clock::now();
            let before = cpu_time(std::process::id())?;
            shared.send(None, count.parse()?)?;
            shared.parts().0.settle()?;
            let cpu = cpu_time(std::process::id())? - before;
            Ok(json!({ "seconds": began.elapsed().as_secs_f64(), "cpu_seconds": cpu.as_secs_f64() }))
        }
        ["stop"] => {
            halt(&shared, &mut sending)?;
            shared.parts().0.settle()?;
            Ok(json!({}))
        }
        ["report"] => {
            if sending.as_ref().is_some_and(JoinHandle::is_finished) {
                halt(&shared, &mut sending)?;
            }
            Ok(json!({ "offered": shared.offered.load(Ordering::Relaxed) }))
        }
        ["sent"] => Ok(json!(shared.parts().0.sent()?)),
        _ => unknown(words),
    })
}

/// Ends the thread that sends.
fn halt(shared: &Shared, sending: &mut Sending) -> Result<(), Problem> {
    let Some(running) = sending.take() else { return Ok(()) };
    shared.stop.store(true, Ordering::Relaxed);
    let sent = running.join().map_err(|_| "the sender panicked")?;
    shared.stop.store(false, Ordering::Relaxed);
    Ok(sent?)
}
