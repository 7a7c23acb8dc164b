//! Plays seed after seed on several threads, until the time is up or enough failures were found.
//!
//! The threads take seeds from one counter. So the number of played seeds depends on the machine's speed, but
//! the result of a seed does not. A panic inside core is a failure like any other.

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

/// Longest time for which a failing scenario is shrunk.
const SHRINK_FOR: Duration = Duration::from_secs(8);
/// Time after which a thread counts as stuck. No scenario and no shrinking takes that long.
const CIRCLES_AFTER: Duration = Duration::from_secs(120);
/// Default number of lines of a failure's timeline.
pub const LINES: usize = 120;
/// Time between two reports of progress.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Version and commit of this build.
const BUILD: (&str, Option<&str>) = (env!("CARGO_PKG_VERSION"), option_env!("TREEFOLD_COMMIT"));

/// The settings of a hunt.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// The first seed. The next seeds follow it.
    pub seed: u64,
    /// Duration of the hunt.
    pub time: Duration,
    /// Number of threads.
    pub threads: usize,
    /// Wrong behaviour that is built in, to test whether the hunt finds it.
    pub sabotage: Option<Sabotage>,
    /// Number of failures after which the hunt ends.
    pub failures_max: usize,
}

/// Counts of the played scenarios.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// Scenarios played.
    pub scenarios: u64,
    /// Calls in these scenarios, including announcements.
    pub calls: u64,
    /// Pushes that reached a node.
    pub pushes: u64,
    /// Streams that were opened.
    pub streams: u64,
    /// Waves of streams that reached their front-ends' users.
    pub stream_waves: u64,
    /// Events that mirrors have applied.
    pub mirrored: u64,
    /// Simulated seconds.
    pub simulated_s: f64,
    /// Steps of the worlds.
    pub steps: u64,
    /// Faults that were applied, by kind.
    pub faults: BTreeMap<&'static str, u64>,
}

/// A scenario that broke an invariant.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The seed of the drawn scenario.
    pub seed: u64,
    /// The violation in the shrunk scenario.
    pub violation: Violation,
    /// The shrunk scenario.
    pub scenario: Scenario,
    /// The messages about the failed call before the violation.
    pub timeline: Vec<String>,
}

/// The result of a hunt.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of the tested build.
    pub version: &'static str,
    /// Commit of the tested build, if the build knew it (`TREEFOLD_COMMIT`).
    pub commit: Option<&'static str>,
    /// The first seed.
    pub seed: u64,
    /// Duration of the hunt.
    pub seconds: f64,
    /// Counts of the played scenarios.
    #[serde(flatten)]
    pub tally: Tally,
    /// The failures that were found.
    pub failures: Vec<Failure>,
}

impl Tally {
    fn add(&mut self, played: &Played) {
        self.scenarios += 1;
        self.calls += played.calls;
        self.pushes += played.pushes;
        self.streams += played.streams;
        self.stream_waves += played.stream_waves;
        self.mirrored += played.mirrored;
        self.simulated_s += played.simulated.as_millis_f64() / 1_000.0;
        self.steps += played.steps;
        for (kind, count) in &played.faults {
            *self.faults.entry(kind).or_default() += count;
        }
    }
}

/// The state that the threads of a hunt share.
struct Board {
    hunt: Hunt,
    until: Instant,
    next: AtomicU64,
    is_over: AtomicBool,
    found: Mutex<Found>,
    /// For each thread, its seed and the time at which it began.
    playing: Vec<Mutex<Option<(u64, Instant)>>>,
}

/// The results of a hunt so far.
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

    /// Plays seeds on one thread until the hunt is over.
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
            // Another thread may have found the same failure in the meantime.
            let failure = failure.filter(|failure| !found.knows(&failure.violation));
            found.failures.extend(failure);
            self.is_over.fetch_or(found.failures.len() >= self.hunt.failures_max, Ordering::Relaxed);
        }
        self.is_at(thread, None);
    }

    /// Reports a failure for each thread that is stuck in a scenario, because core is in an endless loop.
    fn look_for_circles(&self) {
        for playing in &self.playing {
            let mut playing = playing.lock().unwrap_or_else(PoisonError::into_inner);
            let Some((seed, _)) = playing.take_if(|(_, since)| since.elapsed() > CIRCLES_AFTER) else {
                continue;
            };
            let what = format!("the scenario did not end within {} s", CIRCLES_AFTER.as_secs());
            let invariant = "comes_to_an_end".into();
            let violation = Violation { invariant, what, ..Violation::default() };
            let failure = Failure { seed, violation, scenario: draw(seed), timeline: Vec::new() };
            self.found().failures.push(failure);
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

impl Hunt {
    /// Runs the hunt. `tell` is called from time to time with the counts and the number of failures.
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
            // These are not scoped threads, because a scope would wait for a thread in an endless loop.
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

/// Plays one scenario and reports it like a hunt. A failing scenario is shrunk for at most `shrink_for`; its
/// timeline has at most `lines` lines.
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

/// Shrinks a failing scenario and records the timeline of its failure.
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

/// Tells whether two violations are of the same invariant and, for panics, at the same line.
fn is_same(a: &Violation, b: &Violation) -> bool {
    a.invariant == b.invariant && (a.invariant != PANICS || line_of(&a.what) == line_of(&b.what))
}

fn line_of(what: &str) -> Option<&str> {
    what.rsplit_once(AT).map(|(_, line)| line)
}

/// The name of panics among the invariants.
const PANICS: &str = "panics";
/// Separates a panic's message from its location.
const AT: &str = " at ";

thread_local! {
    /// The message of this thread's last panic, while panics are caught.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether this thread catches panics.
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Plays a scenario and turns a panic into a violation.
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
            mirrored: 0,
            faults: BTreeMap::new(),
            simulated: treefold_core::time::Duration::ZERO,
            steps: 0,
            trace_hash: 0,
        }
    })
}

/// Installs a hook that records the panics of threads that catch them, and does not print them.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHES.get() {
                return usual(info);
            }
            let text = info.payload_as_str().unwrap_or("a panic without a message");
            let line = info.location().map_or_else(String::new, ToString::to_string);
            CAUGHT.set(Some(format!("{text}{AT}{line}")));
        }));
    });
}
