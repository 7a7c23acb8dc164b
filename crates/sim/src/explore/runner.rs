//! Seed after seed, on several threads, until the time is up or enough has been found.
//!
//! Threads take seeds from one counter, so which seeds are played depends on the machine's speed; what comes of a seed
//! does not. A panic inside core is a finding like any other.

use super::draw::draw;
use super::invariant::Violation;
use super::play::{Played, play};
use super::scenario::Scenario;
use super::shrink::shrink;
use super::timeline::Timeline;
use crate::world::Sabotage;
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// How long a failure is made smaller.
const SHRINK_FOR: Duration = Duration::from_secs(8);
/// No scenario and no shrinking takes as long as this.
const CIRCLES_AFTER: Duration = Duration::from_secs(120);
/// Lines of a failure's timeline, unless more are wanted.
pub const LINES: usize = 120;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// What is built here.
const BUILD: (&str, Option<&str>) = (env!("CARGO_PKG_VERSION"), option_env!("TREEFOLD_COMMIT"));

/// What to hunt, and for how long.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The first seed; the others follow.
    pub seed: u64,
    /// How long.
    pub time: Duration,
    /// On so many threads.
    pub threads: usize,
    /// Wrong behaviour that is built in, to see whether it is found.
    pub sabotage: Option<Sabotage>,
    /// It ends when so much has been found.
    pub failures_max: usize,
}

/// What has been done so far.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// Scenarios played.
    pub scenarios: u64,
    /// Calls made in them, announcements included.
    pub calls: u64,
    /// Pushes that came to a node.
    pub pushes: u64,
    /// Streams that were opened.
    pub streams: u64,
    /// Waves of them that came to their front-ends' users.
    pub stream_waves: u64,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// Things that happened.
    pub steps: u64,
    /// Faults that struck, by kind.
    pub faults: BTreeMap<&'static str, u64>,
}

/// A scenario that broke an invariant.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed it was drawn from.
    pub seed: u64,
    /// What broke in the scenario as it is below.
    pub violation: Violation,
    /// The scenario, made smaller.
    pub scenario: Scenario,
    /// What was said about the call before it broke.
    pub timeline: Vec<String>,
}

/// How a hunt went.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was hunted in.
    pub version: &'static str,
    /// The commit that it was built from, where the build was told (`TREEFOLD_COMMIT`).
    pub commit: Option<&'static str>,
    /// The first seed.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// What was done.
    #[serde(flatten)]
    pub tally: Tally,
    /// What was found.
    pub failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, played: &Played) {
        self.scenarios += 1;
        self.calls += played.calls;
        self.pushes += played.pushes;
        self.streams += played.streams;
        self.stream_waves += played.stream_waves;
        self.simulated_s += played.simulated.as_millis_f64() / 1_000.0;
        self.steps += played.steps;
        for (kind, count) in &played.faults {
            *self.faults.entry(kind).or_default() += count;
        }
    }
}

/// What the threads of a hunt share.
struct Board {
    hunt: Hunt,
    until: Instant,
    next: AtomicU64,
    is_over: AtomicBool,
    found: Mutex<Found>,
    /// What each thread is at, and since when.
    playing: Vec<Mutex<Option<(u64, Instant)>>>,
}

/// What has come of a hunt so far.
#[derive(Default)]
struct Found {
    tally: Tally,
    failures: Vec<Failure>,
}

impl Found {
    fn knows(&self, violation: &Violation) -> bool {
        self.failures.iter().any(|failure| is_same(&failure.violation, violation))
    }
}

impl Board {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_at(&self, thread: usize, what: Option<(u64, Instant)>) {
        *self.playing[thread].lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What one thread does.
    fn work(&self, thread: usize) {
        while Instant::now() < self.until && !self.is_over.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            self.is_at(thread, Some((seed, Instant::now())));
            let scenario = draw(seed);
            let played = attempt(&scenario, self.hunt.sabotage, None);
            let failure = played.violation.as_ref().and_then(|violation| {
                let is_new = !self.found().knows(violation);
                is_new.then(|| explain(&scenario, violation, self.hunt.sabotage, SHRINK_FOR, LINES))
            });
            let mut found = self.found();
            found.tally.add(&played);
            // Another thread may have found the same meanwhile.
            let failure = failure.filter(|failure| !found.knows(&failure.violation));
            found.failures.extend(failure);
            self.is_over.fetch_or(found.failures.len() >= self.hunt.failures_max, Ordering::Relaxed);
        }
        self.is_at(thread, None);
    }

    /// A thread that does not come back from a scenario goes round in circles within core.
    fn look_for_circles(&self) {
        for playing in &self.playing {
            let mut playing = playing.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((seed, _)) = playing.take_if(|(_, since)| since.elapsed() > CIRCLES_AFTER) else {
                continue;
            };
            let what = format!("no end after {} s", CIRCLES_AFTER.as_secs());
            let invariant = "comes_to_an_end".into();
            let violation = Violation { invariant, what, ..Violation::default() };
            let failure = Failure { seed, violation, scenario: draw(seed), timeline: Vec::new() };
            self.found().failures.push(failure);
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

impl Hunt {
    /// Hunts; `tell` hears now and then how far it is, and how many failures there are.
    pub fn run(&self, tell: impl Fn(&Tally, usize)) -> Report {
        let began = Instant::now();
        let threads = self.threads.max(1);
        let board = Arc::new(Board {
            hunt: self.clone(),
            until: began + self.time,
            next: AtomicU64::new(self.seed),
            is_over: AtomicBool::new(false),
            found: Mutex::default(),
            playing: (0..threads).map(|_| Mutex::new(Some((self.seed, began)))).collect(),
        });
        for thread in 0..threads {
            let board = Arc::clone(&board);
            // Not a scope's: one that goes round in circles can't be waited for.
            std::thread::spawn(move || board.work(thread));
        }
        let is_at_work = |playing: &Mutex<Option<(u64, Instant)>>| {
            playing.lock().unwrap_or_else(PoisonError::into_inner).is_some()
        };
        while board.playing.iter().any(is_at_work) {
            std::thread::sleep(TELL_EVERY);
            board.look_for_circles();
            let found = board.found();
            tell(&found.tally, found.failures.len());
        }
        let Found { tally, mut failures } = std::mem::take(&mut *board.found());
        failures.sort_by_key(|failure| failure.seed);
        let (version, commit) = BUILD;
        Report { version, commit, seed: self.seed, seconds: began.elapsed().as_secs_f64(), tally, failures }
    }
}

/// Plays one scenario and reports on it as a hunt does; made smaller for `shrink_for`, with so many lines of a timeline.
pub fn replay(scenario: &Scenario, sabotage: Option<Sabotage>, shrink_for: Duration, lines: usize) -> Report {
    let began = Instant::now();
    let played = attempt(scenario, sabotage, None);
    let mut tally = Tally::default();
    tally.add(&played);
    let failure =
        played.violation.map(|violation| explain(scenario, &violation, sabotage, shrink_for, lines));
    let (version, commit) = BUILD;
    Report {
        version,
        commit,
        seed: scenario.seed,
        seconds: began.elapsed().as_secs_f64(),
        tally,
        failures: failure.into_iter().collect(),
    }
}

/// Makes the failure smaller, and tells what led to it.
fn explain(
    scenario: &Scenario,
    found: &Violation,
    sabotage: Option<Sabotage>,
    time: Duration,
    lines: usize,
) -> Failure {
    let fails = |candidate: &Scenario| {
        let played = attempt(candidate, sabotage, None);
        played.violation.is_some_and(|violation| is_same(&violation, found))
    };
    let shrunk = shrink(scenario, Instant::now() + time, fails);
    let mut timeline = Timeline::default();
    let violation =
        attempt(&shrunk, sabotage, Some(&mut timeline)).violation.unwrap_or_else(|| found.clone());
    let timeline = timeline.about(violation.call, violation.stream, lines);
    Failure { seed: scenario.seed, violation, scenario: shrunk, timeline }
}

/// The same invariant broke; for a panic, at the same line.
fn is_same(a: &Violation, b: &Violation) -> bool {
    a.invariant == b.invariant && (a.invariant != PANICS || line_of(&a.what) == line_of(&b.what))
}

fn line_of(what: &str) -> Option<&str> {
    what.rsplit_once(AT).map(|(_, line)| line)
}

/// What a panic is called among the invariants.
const PANICS: &str = "panics";
/// Between what a panic said and where it did.
const AT: &str = " at ";

thread_local! {
    /// What the last panic of this thread said, while panics are caught.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    /// True while they are.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Plays a scenario; a panic is a violation.
pub fn attempt(scenario: &Scenario, sabotage: Option<Sabotage>, timeline: Option<&mut Timeline>) -> Played {
    listen_to_panics();
    CATCHES.set(true);
    let played = catch_unwind(AssertUnwindSafe(|| play(scenario, sabotage, timeline)));
    CATCHES.set(false);
    played.unwrap_or_else(|_| {
        let what = CAUGHT.take().unwrap_or_else(|| "for an unknown reason".into());
        let violation = Violation { invariant: PANICS.into(), what, ..Violation::default() };
        Played {
            violation: Some(violation),
            calls: 0,
            pushes: 0,
            streams: 0,
            stream_waves: 0,
            faults: BTreeMap::new(),
            simulated: treefold_core::time::Duration::ZERO,
            steps: 0,
            trace_hash: 0,
        }
    })
}

/// Panics of threads that catch them are noted rather than printed.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHES.get() {
                return usual(info);
            }
            let text = info.payload_as_str().unwrap_or("a panic without words");
            let line = info.location().map_or_else(String::new, ToString::to_string);
            CAUGHT.set(Some(format!("{text}{AT}{line}")));
        }));
    });
}
