//! The cluster that all polling experiments share, and one run of a workload on it.
//!
//! The cluster has 16 servers with one processor, 6 fronts, and one partition that every server holds (random
//! polling §2, §4). A call asks for this partition, so its tree is one node: the replica that the policy
//! chose. The membership does not change, and no node fails unless an experiment makes it fail.

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
/// Client nodes, as in the paper's measurements (§4).
pub const FRONTS: usize = 6;

/// A deadline that no call of these experiments reaches, even in a long queue.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Length of the warm-up as a share of the measured time.
const WARM_UP_SHARE: f64 = 0.25;

/// A poll timeout that waits for the answers of all polls, even late ones.
pub const ALL_POLLS: Duration = Duration::from_secs(60);

/// The way in which a front chooses a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// By a policy of production.
    Policy(ReplicaPolicy),
    /// By perfect knowledge: the least loaded of all servers at the time of the call.
    Ideal,
}

impl Chooser {
    /// Returns the chooser of a series: `2` for two polls, `ideal`, or the name of a policy.
    ///
    /// # Panics
    ///
    /// Panics if the series is not the name of a policy. All series are constants of this crate.
    pub fn named(series: &str) -> Self {
        if series == "ideal" {
            return Self::Ideal;
        }
        if let Ok(polls) = series.parse() {
            return Self::Policy(ReplicaPolicy::Polled { polls });
        }
        Self::Policy(series.parse().expect("invariant: a series is the name of a policy"))
    }

    fn policy(self) -> ReplicaPolicy {
        match self {
            Self::Policy(policy) => policy,
            Self::Ideal => ReplicaPolicy::AnnouncedRaw,
        }
    }
}

/// The run of one point: all settings except the seed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The point's series.
    pub series: String,
    /// The position on the x axis.
    pub x: f64,
    /// The words of the point, which describe the run.
    pub words: Vec<(&'static str, String)>,
    /// The requests.
    pub workload: Workload,
    /// The share of time for which the workload keeps processors busy, 0 to 1, without polls.
    pub busy: f64,
    /// The way in which fronts choose.
    pub chooser: Chooser,
    /// The cost of polls.
    pub polling: Polling,
    /// The settings of the servers.
    pub server: Tuning,
    /// The settings of the fronts.
    pub front: Tuning,
    /// The number of calls that are counted.
    pub calls: f64,
}

impl Case {
    /// Creates a case with the paper's defaults: polls cost nothing, and fronts wait for all of them.
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

    /// Runs the case.
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

    /// Runs the case and returns its point.
    pub fn point(&self, seed: u64) -> Point {
        self.point_of(&self.run(seed))
    }

    /// Converts the ledger of a run of this case to a point.
    pub fn point_of(&self, ledger: &Ledger) -> Point {
        let point = ledger.point(self.series.as_str(), self.x);
        self.words.iter().fold(point, |point, (name, word)| point.with(name, word.as_str()))
    }
}

/// Creates the setting of one aggregation whose locals take `service`, on the paper's network.
pub fn setting(seed: u64, service: Distribution, polling: Polling) -> Setting {
    let operators = Operators {
        name: "s/access".into(),
        local: service,
        reduce: Distribution::Fixed(0.0),
        join: Distribution::Fixed(0.0),
        partial_bytes: 100,
        placement: Placement::Pool,
        folds_in_pairs: true,
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

/// Starts the fronts, and makes the fronts and the servers known to each other.
pub fn start_fronts(world: &mut World, tuning: &Tuning) -> Vec<usize> {
    let front = Spec { tuning: tuning.clone(), ..Spec::front() };
    let fronts: Vec<usize> = (0..FRONTS).map(|_| world.start(front.clone())).collect();
    world.introduce_fronts(&fronts);
    fronts
}

/// Creates a trial that is long enough to count `calls` calls, with a warm-up before them.
pub fn trial(world: World, setting: &Setting, fronts: Vec<usize>, per_s: f64, calls: f64) -> Trial {
    let seconds = calls / per_s;
    let mut trial = Trial::poisson(world, setting, fronts, per_s, seconds);
    trial.warm_up = Duration::from_millis_f64(1_000.0 * seconds * WARM_UP_SHARE);
    trial.options = CallOptions { deadline: DEADLINE, ..CallOptions::default() };
    trial
}

/// Makes the trial's calls choose by `chooser`.
pub fn choose_by(trial: &mut Trial, chooser: Chooser) {
    trial.options.policy = Some(chooser.policy());
    if chooser == Chooser::Ideal {
        trial.before_call = Some(World::tell_truth);
    }
}
