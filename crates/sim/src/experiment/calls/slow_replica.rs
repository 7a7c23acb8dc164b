//! Makes one of two replicas of a partition twenty times as slow and lets it recover: how much calls suffer, and how
//! soon the node has its share again. Later a third replica comes, of which nothing is known yet.
//!
//! An idle slow node has no queue, so a front that looks at loads alone chooses it again and again. *By time* adds what
//! fronts know of each node's times ([`treefold_core::load::speed`]). `ours` is Treefold with its defaults: it also asks a
//! replica if a leaf takes too long, so that the calls do not suffer by which the front learns.

use super::cluster::{Cluster, Scheme};
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{RESPONSE_MEAN, RESPONSE_P99, find, mean};
use crate::experiment::trial::{Deed, Ended, Trial};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use crate::world::place::Spec;
use crate::world::{Setting, World};
use std::cell::RefCell;
use std::rc::Rc;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

/// The slow node.
const SLOW: usize = 1;
/// Factor of its work times.
const SLOWNESS: f64 = 20.0;
/// The first and the last second in which it is slow.
const SPELL_S: [u64; 2] = [10, 40];
/// Seconds that a figure covers.
const WINDOW_S: u64 = 5;
/// The second in which another replica of the slow node's partition comes.
const NEWCOMER_S: u64 = 100;
/// The last second of the charts.
const END_S: u64 = 110;
/// Requests per second, hardly more than one at a time or half of the capacity, and the fronts that share them.
const LOADS: [(&str, f64, usize); 3] =
    [("one at a time", 5.0, 1), ("half loaded", 67.0, 1), ("six fronts", 67.0, 6)];
/// The word that says which.
const LOAD: &str = "load";

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "slow-replica",
    about: "24 nodes with 12 partitions of two replicas each; node 1 is twenty times as slow from second 10 to 40, \
            and its partition gets a third replica in second 100: response times, and shares of the partition, over windows \
            of 5 s",
    paper: "no paper: DAC §5.5 makes nodes slow that have no replicas (unresponsive)",
    charts: &[
        chart("slow-replica-idle", "one at a time", Measure::ResponseMean),
        chart("slow-replica-idle-share", "one at a time", SHARE).labelled("share of the partition's locals"),
        chart("slow-replica-busy", "half loaded", Measure::ResponseMean),
        chart("slow-replica-busy-share", "half loaded", SHARE).labelled("share of the partition's locals"),
    ],
    cost_s: 60.0,
    run,
    findings,
};

const fn chart(file: &'static str, load: &'static str, y: Measure) -> Chart {
    Chart::new(file, "One of two replicas twenty times as slow: 10–40 s", "second", y).only(LOAD, load)
}

/// The slow node's share of the locals of its partition.
const SHARE_OF_NODE: &str = "share_of_node";
const SHARE: Measure = Measure::More(SHARE_OF_NODE);
/// The third replica's share.
const SHARE_OF_NEWCOMER: &str = "share_of_newcomer";
/// Partitions that were asked for twice, as a share of all.
const ASKED_TWICE: &str = "asked_twice";

/// The series of a cluster in which no node becomes slow.
const HEALTHY: &str = "healthy";
/// Treefold with its defaults.
const OURS: &str = "ours";

fn schemes() -> Vec<Scheme> {
    let scheme = |name, slow_factor, hedge_share| {
        let mut scheme = Scheme::new(name, Shape::Adaptive).still();
        (scheme.tuning.slow_factor, scheme.tuning.hedge_share) = (slow_factor, hedge_share);
        scheme
    };
    vec![
        scheme(HEALTHY, 2.0, 0.05),
        scheme("by load", 1_000.0, 0.0),
        scheme("by time", 2.0, 0.0),
        scheme(OURS, 2.0, 0.05),
    ]
}

/// Counters at the end of a window: locals of the slow node, of the other replica and of the newcomer, all locals, and hedges.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    slow: u64,
    other: u64,
    newcomer: u64,
    all: u64,
    hedges: u64,
}

impl Counted {
    fn of(world: &World) -> Self {
        let counters = |at: usize| world.place(at).node().status(world.now()).counters.waves;
        let mut counted = Self::default();
        for at in 0..world.places() {
            let waves = counters(at);
            counted.all += waves.locals_run;
            counted.hedges += waves.hedges;
        }
        let replica = SLOW + Cluster::HOMOGENEOUS.nodes() as usize / 2;
        (counted.slow, counted.other) = (counters(SLOW).locals_run, counters(replica).locals_run);
        let nodes = Cluster::HOMOGENEOUS.nodes() as usize;
        let newcomer = (nodes..world.places()).find(|&at| counters(at).locals_run > 0);
        counted.newcomer = newcomer.map_or(0, |at| counters(at).locals_run);
        counted
    }

    fn since(self, before: Self) -> Self {
        Self {
            slow: self.slow - before.slow,
            other: self.other - before.other,
            newcomer: self.newcomer - before.newcomer,
            all: self.all - before.all,
            hedges: self.hedges - before.hedges,
        }
    }

    /// The shares of the slow node and of the newcomer, and that of partitions asked twice.
    fn shares(self) -> [f64; 3] {
        let part = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let all = self.slow + self.other + self.newcomer;
        [part(self.slow, all), part(self.newcomer, all), part(self.hedges, self.all)]
    }
}

fn holding(scheme: &Scheme, partition: u32) -> Spec {
    Spec { tuning: scheme.tuning.clone(), ..Spec::holding([partition].into_iter().collect()) }
}

fn trial(scheme: &Scheme, seed: u64, per_s: f64, fronts: usize) -> Trial {
    let nodes = Cluster::HOMOGENEOUS.nodes();
    let setting = Setting::micro(seed, nodes / 2);
    let mut world = World::new(setting.clone());
    for at in 0..nodes {
        world.start(holding(scheme, at % (nodes / 2)));
    }
    let front = || Spec { tuning: scheme.tuning.clone(), ..Spec::front() };
    let fronts: Vec<usize> = (0..fronts).map(|_| world.start(front())).collect();
    // A parent asks a replica only if it knows it.
    world.introduce_all();
    let mut trial = Trial::poisson(world, &setting, fronts, per_s, END_S as f64);
    trial.options = scheme.options();
    trial
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let jobs: Vec<(Scheme, Load)> =
        schemes().into_iter().flat_map(|scheme| LOADS.map(|load| (scheme.clone(), load))).collect();
    let one = |(scheme, load): &(Scheme, Load), seed| measure(scheme, *load, seed);
    runs::compared(plan, progress, &jobs, one, with_spells)
}

type Load = (&'static str, f64, usize);

fn measure(scheme: &Scheme, (load, per_s, fronts): Load, seed: u64) -> Vec<Point> {
    let mut trial = trial(scheme, seed, per_s, fronts);
    let counted = Rc::new(RefCell::new(Vec::new()));
    let at = |second: u64| trial.warm_up + Duration::from_secs(second);
    let mut script: Vec<(Duration, Deed)> = Vec::new();
    for second in (0..END_S).step_by(WINDOW_S as usize) {
        let counted = Rc::clone(&counted);
        script.push((at(second), Box::new(move |world| counted.borrow_mut().push(Counted::of(world)))));
    }
    if scheme.name != HEALTHY {
        script.push((at(SPELL_S[0]), Box::new(|world| world.slow_down(SLOW, SLOWNESS))));
        script.push((at(SPELL_S[1]), Box::new(|world| world.slow_down(SLOW, 1.0))));
    }
    let newcomer = holding(scheme, SLOW as u32);
    let comes = move |world: &mut World| {
        world.start(newcomer.clone());
        world.introduce_all();
    };
    script.push((at(NEWCOMER_S), Box::new(comes)));
    script.sort_by_key(|&(at, _)| at);
    trial.script = script;
    let ledger = trial.run();
    let counted = counted.borrow();
    let window = |(number, pair): (usize, &[Counted])| {
        let from = number as u64 * WINDOW_S;
        let (from, until) = (Duration::from_secs(from), Duration::from_secs(from + WINDOW_S));
        let ended: Vec<f64> = ledger.ended_between(from, until).map(Ended::response_ms).collect();
        let coverage: Vec<f64> = ledger.ended_between(from, until).map(|call| call.coverage).collect();
        let [share, newcomer, twice] = pair[1].since(pair[0]).shares();
        let per_s = ended.len() as f64 / WINDOW_S as f64;
        Point::of_calls(scheme.name, until.as_millis_f64() / 1_000.0, ended, per_s, mean(&coverage))
            .with(LOAD, load)
            .with(SHARE_OF_NODE, share)
            .with(SHARE_OF_NEWCOMER, newcomer)
            .with(ASKED_TWICE, twice)
    };
    counted.windows(2).enumerate().map(window).collect()
}

/// Spells, each with the end of its first and of its last window.
const SPELLS: [(&str, f64, f64); 4] = [
    ("the first 5 s", 15.0, 15.0),
    ("from then on", 20.0, 40.0),
    ("recovered for 45 s", 90.0, 95.0),
    (NEWCOMER, 105.0, 105.0),
];
const NEWCOMER: &str = "the newcomer's first 5 s";

fn spell(name: &str, figure: &str) -> String {
    format!("{figure}: {name}")
}

/// Adds the mean of each figure in each spell to the first point of its series, and compares.
fn with_spells(mut points: Vec<Point>) -> Vec<Point> {
    for (load, ..) in LOADS {
        for scheme in schemes() {
            for (name, first, last) in SPELLS {
                for figure in [RESPONSE_MEAN, RESPONSE_P99, SHARE_OF_NODE, SHARE_OF_NEWCOMER, ASKED_TWICE] {
                    let is_in = |point: &&Point| {
                        point.series == scheme.name
                            && point.word(LOAD) == Some(load)
                            && (first..=last).contains(&point.x)
                    };
                    let figures = points.iter().filter(is_in).filter_map(|point| point.figure(figure));
                    let figures: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
                    let is_first = |point: &&mut Point| {
                        point.series == scheme.name
                            && point.word(LOAD) == Some(load)
                            && point.x == WINDOW_S as f64
                    };
                    if let Some(point) = points.iter_mut().find(is_first) {
                        point.more.insert(spell(name, figure), mean(&figures).into());
                    }
                }
            }
        }
    }
    for (name, _, _) in SPELLS {
        for figure in [RESPONSE_MEAN, RESPONSE_P99] {
            for scheme in schemes().into_iter().filter(|scheme| scheme.name != HEALTHY) {
                compare(&mut points, [scheme.name, HEALTHY], &spell(name, figure), &[LOAD]);
            }
        }
    }
    points
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (load, per_s, fronts) in LOADS {
        for scheme in schemes().into_iter().filter(|scheme| scheme.name != HEALTHY) {
            let Some(point) = find(points, scheme.name, WINDOW_S as f64, &[(LOAD, load)]) else { continue };
            for (name, _, _) in SPELLS {
                // The others are in the points.
                if scheme.name != OURS && (fronts > 1 || name == NEWCOMER) {
                    continue;
                }
                let change = |figure| shown::change(point, &change_name(&spell(name, figure), HEALTHY));
                let share = |figure| shown::share(point, &spell(name, figure), 1);
                let figures = change(RESPONSE_MEAN).zip(change(RESPONSE_P99));
                let shares = share(SHARE_OF_NODE).zip(share(SHARE_OF_NEWCOMER)).zip(share(ASKED_TWICE));
                let Some(((mean, p99), ((node, newcomer), twice))) = figures.zip(shares) else { continue };
                let what = format!(
                    "{} at {per_s}/s ({load}), {name}: mean and 99th percentile against healthy; the node's share, the \
                     newcomer's; asked twice",
                    scheme.name
                );
                findings.push(Finding::new(what, "–", format!("{mean}; {p99}; {node}, {newcomer}; {twice}")));
            }
        }
    }
    findings
}
