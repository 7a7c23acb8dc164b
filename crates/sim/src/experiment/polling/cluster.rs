//! The cluster that all polling experiments share: 16 servers of one processor, 6 fronts, one partition that every
//! server holds (random polling §2, §4), and one run of a workload on it.
//!
//! A call asks for the one partition, so its tree is one node: the replica that the policy chose. Membership stands
//! still; nobody fails unless an experiment says so.

use super::workload::Workload;
use crate::experiment::Point;
use crate::experiment::trial::{Ledger, Trial, still};
use crate::world::distribution::Distribution;
use crate::world::network::Links;
use crate::world::place::{Operators, Spec};
use crate::world::{Polling, Setting, World};
use treefold_core::call::CallOptions;
use treefold_core::config::{Placement, Tuning};
use treefold_core::partitions::PartitionSet;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::Duration;

/// Servers, as in all of the paper's experiments.
pub const SERVERS: usize = 16;
/// Client nodes, as in its measurements (§4).
pub const FRONTS: usize = 6;

/// No call of these experiments is to end by its deadline, however long a queue has grown.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Served before counting begins, by what is counted.
const WARM_UP_SHARE: f64 = 0.25;

/// Waits for the answers of all polls, however late.
pub const ALL_POLLS: Duration = Duration::from_secs(60);

/// How a front chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// As in production.
    Policy(ReplicaPolicy),
    /// The least loaded of all, by their loads at the very moment of the call.
    Ideal,
}

impl Chooser {
    /// What a series is called in the experiments: `2` for two polls, `ideal`, or a policy by its own name.
    ///
    /// # Panics
    ///
    /// When no policy is called so; series are written in this crate.
    pub fn named(series: &str) -> Self {
        if series == "ideal" {
            return Self::Ideal;
        }
        if let Ok(polls) = series.parse() {
            return Self::Policy(ReplicaPolicy::Polled { polls });
        }
        Self::Policy(series.parse().expect("invariant: a series is named by its policy"))
    }

    fn policy(self) -> ReplicaPolicy {
        match self {
            Self::Policy(policy) => policy,
            Self::Ideal => ReplicaPolicy::AnnouncedRaw,
        }
    }
}

/// One point's run: all that is fixed but the seed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The point's series.
    pub series: String,
    /// Where on the x axis.
    pub x: f64,
    /// The point's additions that say what was run.
    pub words: Vec<(&'static str, String)>,
    /// What is asked.
    pub workload: Workload,
    /// How busy the processors are with it, 0 to 1, beside what polls take.
    pub busy: f64,
    /// How fronts choose.
    pub chooser: Chooser,
    /// What polls cost.
    pub polling: Polling,
    /// How the servers behave.
    pub server: Tuning,
    /// How the fronts behave.
    pub front: Tuning,
    /// How many calls are counted.
    pub calls: f64,
}

impl Case {
    /// A case at the papers' defaults: free polls, all of them waited for.
    pub fn new(series: &str, x: f64, workload: &Workload, busy: f64, calls: f64) -> Self {
        let tuning = Tuning { poll_timeout: ALL_POLLS.into(), ..still() };
        Self {
            series: series.into(),
            x,
            words: vec![("workload", workload.name.into())],
            workload: workload.clone(),
            busy,
            chooser: Chooser::named(series),
            polling: Polling::FREE,
            server: tuning.clone(),
            front: tuning,
            calls,
        }
    }

    /// Runs it.
    pub fn run(&self, seed: u64) -> Ledger {
        let setting = setting(seed, self.workload.service.clone(), self.polling);
        let per_s = self.busy * SERVERS as f64 * 1_000.0 / self.workload.mean_ms();
        let mut world = World::new(setting.clone());
        let server =
            Spec { processors: 1, tuning: self.server.clone(), ..Spec::holding(PartitionSet::first(1)) };
        for _ in 0..SERVERS {
            world.start(server.clone());
        }
        let fronts = start_fronts(&mut world, &self.front);
        let mut trial = trial(world, &setting, fronts, per_s, self.calls);
        trial.arrivals = self.workload.arrivals(seed, per_s, trial.world.now());
        choose_by(&mut trial, self.chooser);
        trial.run()
    }

    /// Its point.
    pub fn point(&self, seed: u64) -> Point {
        self.point_of(&self.run(seed))
    }

    /// The ledger of a run of it as its point.
    pub fn point_of(&self, ledger: &Ledger) -> Point {
        let point = ledger.point(self.series.as_str(), self.x);
        self.words.iter().fold(point, |point, (name, word)| point.with(name, word.as_str()))
    }
}

/// A world of one aggregation whose locals take `service`, on the paper's network.
pub fn setting(seed: u64, service: Distribution, polling: Polling) -> Setting {
    let operators = Operators {
        name: "s/access".into(),
        local: service,
        reduce: Distribution::Fixed(0.0),
        join: Distribution::Fixed(0.0),
        partial_bytes: 100,
        placement: Placement::Pool,
    };
    Setting {
        seed,
        workload_seed: seed,
        links: Links::POLLING,
        operators: vec![operators],
        partitions: 1,
        polling,
        sabotage: None,
    }
}

/// Starts the fronts, and makes them and the servers known to each other.
pub fn start_fronts(world: &mut World, tuning: &Tuning) -> Vec<usize> {
    let front = Spec { tuning: tuning.clone(), ..Spec::front() };
    let fronts: Vec<usize> = (0..FRONTS).map(|_| world.start(front.clone())).collect();
    world.introduce_fronts(&fronts);
    fronts
}

/// A trial long enough to count `calls` calls, with a warm-up before them.
pub fn trial(world: World, setting: &Setting, fronts: Vec<usize>, per_s: f64, calls: f64) -> Trial {
    let seconds = calls / per_s;
    let mut trial = Trial::poisson(world, setting, fronts, per_s, seconds);
    trial.warm_up = Duration::from_millis_f64(1_000.0 * seconds * WARM_UP_SHARE);
    trial.options = CallOptions { deadline: DEADLINE, ..CallOptions::default() };
    trial
}

/// Has the trial's calls choose so.
pub fn choose_by(trial: &mut Trial, chooser: Chooser) {
    trial.options.policy = Some(chooser.policy());
    if chooser == Chooser::Ideal {
        trial.before_call = Some(World::tell_truth);
    }
}
