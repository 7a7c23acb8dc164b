//! The readers' parts of a trial: a regular reader, which follows the events, and a joiner.

use crate::Problem;
use crate::system::{Base, SystemArgs};
use crate::tally::{Counter, JoinCounter};
use crate::work::{Work, due_ns};
use crate::{feed, nats, redis};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use treefold_bench_down::pace::Pace;
use treefold_bench_down::part::{serve, unknown};

/// Joins that may be under way. Further ones wait, and their times count from when they were due.
const JOINERS: usize = 32;
/// Joiners of a storm without a schedule: each joins again at once.
const STORM: usize = 8;

/// Runs a reader. With `keeps_state`, it keeps the last body of each key, as a mirror does.
pub(crate) fn run(args: &SystemArgs, keeps_state: bool) -> Result<(), Problem> {
    let counter = Arc::new(Counter::default());
    let (ready, is_ready) = mpsc::channel();
    let (following, args) = (Arc::clone(&counter), args.clone());
    std::thread::spawn(move || {
        let told = ready.clone();
        let ended = follow(&args, keeps_state, &following, move || drop(told.send(Ok(()))));
        following.note_lag();
        let ended = ended.map_or_else(|error| error.to_string(), |()| "it has ended".to_owned());
        if ready.send(Err(ended.clone())).is_err() {
            eprintln!("bench-mirrors: a reader has ended: {ended}");
        }
    });
    is_ready.recv()??;
    drop(is_ready);
    serve(&json!({}), |words| match *words {
        ["mark"] => {
            counter.mark();
            Ok(json!({}))
        }
        ["report"] => Ok(serde_json::to_value(counter.report())?),
        _ => unknown(words),
    })
}

fn follow(
    args: &SystemArgs,
    keeps_state: bool,
    counter: &Counter,
    ready: impl FnOnce(),
) -> Result<(), Problem> {
    let mut state: HashMap<Box<[u8]>, Vec<u8>> = HashMap::new();
    let take = |now: u64, key: &[u8], body: &[u8]| {
        counter.note(now, std::iter::once(due_ns(body)));
        if !keeps_state {
            return;
        }
        match state.get_mut(key) {
            Some(kept) => {
                kept.clear();
                kept.extend_from_slice(body);
            }
            None => _ = state.insert(key.into(), body.into()),
        }
    };
    match args.system.base {
        Base::Treefold | Base::TreefoldShared | Base::TreefoldHttp => feed::follow(&args.at, counter, ready),
        Base::Redis | Base::RedisScan => {
            let subscriber = redis::Subscriber::connect(args.port()?)?;
            ready();
            Ok(subscriber.follow(take)?)
        }
        Base::Nats => nats::follow(args.port()?, false, ready, take),
        Base::Jetstream | Base::JetstreamAlways => nats::follow(args.port()?, true, ready, take),
    }
}

fn join(args: &SystemArgs) -> Result<u64, Problem> {
    match args.system.base {
        Base::Treefold => feed::join(&args.at),
        Base::TreefoldShared => feed::join_shared(&args.at),
        Base::TreefoldHttp => feed::join_http(args.http.as_deref().ok_or("no address for HTTP")?),
        Base::Redis | Base::RedisScan => {
            let scans = args.system.base == Base::RedisScan;
            Ok(redis::Subscriber::connect(args.port()?)?.snapshot(scans)?)
        }
        Base::Jetstream | Base::JetstreamAlways => nats::snapshot(args.port()?),
        Base::Nats => Err("NATS core has no snapshots".into()),
    }
}

/// The joins that are due, and those under way.
#[derive(Default)]
struct Queue {
    due: Mutex<Due>,
    changed: Condvar,
    under_way: AtomicU64,
}

#[derive(Default)]
struct Due {
    times_ns: std::collections::VecDeque<u64>,
    is_storm: bool,
}

/// Runs the joiner: `join RATE`, `join max` or `join 0`.
pub(crate) fn run_joiner(args: &SystemArgs, work: Work) -> Result<(), Problem> {
    let (joins, queue) = (Arc::new(JoinCounter::default()), Arc::new(Queue::default()));
    for number in 0..JOINERS {
        let (args, joins, queue) = (args.clone(), Arc::clone(&joins), Arc::clone(&queue));
        std::thread::spawn(move || {
            loop {
                let due_ns = queue.take(number < STORM);
                let joined = join(&args).map_err(|error| error.to_string());
                joins.note(due_ns, joined, work.keys.into());
                queue.under_way.fetch_sub(1, Ordering::Relaxed);
            }
        });
    }
    let (mut schedule, mut stop) = (None::<JoinHandle<()>>, Arc::new(AtomicBool::new(false)));
    serve(&json!({}), |words| match *words {
        ["join", rate] => {
            stop.store(true, Ordering::Relaxed);
            if let Some(running) = schedule.take() {
                running.join().map_err(|_| "the schedule panicked")?;
            }
            queue.clear(rate == "max");
            if rate == "0" {
                while queue.under_way.load(Ordering::Relaxed) > 0 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            } else if rate != "max" {
                stop = Arc::new(AtomicBool::new(false));
                let (rate, stop, queue) = (rate.parse()?, Arc::clone(&stop), Arc::clone(&queue));
                schedule = Some(std::thread::spawn(move || {
                    let mut pace = Pace::new(Some(rate), &stop);
                    while let Some(due_ns) = pace.next(|| {}) {
                        queue.put(due_ns);
                    }
                }));
            }
            Ok(json!({}))
        }
        ["mark"] => {
            joins.mark();
            Ok(json!({}))
        }
        ["report"] => Ok(serde_json::to_value(joins.report())?),
        _ => unknown(words),
    })
}

impl Queue {
    /// Waits for a join that is due. In a storm, `storms` makes it due at once.
    fn take(&self, storms: bool) -> u64 {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = due.is_storm && storms;
            if let Some(due_ns) =
                due.times_ns.pop_front().or_else(|| now.then(treefold_bench_down::clock::now_ns))
            {
                self.under_way.fetch_add(1, Ordering::Relaxed);
                return due_ns;
            }
            due = self.changed.wait(due).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, due_ns: u64) {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).times_ns.push_back(due_ns);
        self.changed.notify_one();
    }

    /// Forgets the joins that have not begun.
    fn clear(&self, is_storm: bool) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = Due { is_storm, ..Due::default() };
        self.changed.notify_all();
    }
}
