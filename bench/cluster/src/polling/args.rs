//! Parameters of a run, and which values are valid.

use super::balancer::TowerLoad;
use super::series::{Chooser, Series};
use super::simulated;
use clap::Args;
use std::time::Duration;
use treefold::CallError;
use treefold_cli::exit::Failure;
use treefold_cli::parse;
use treefold_sim::experiment::polling::workload::Workload;

/// Measure policies that choose one of a partition's replicas, under load, on emulated processors
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchPolling {
    /// Number of servers; each is one process with one emulated processor and holds the partition that calls ask
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=SERVERS_MAX))]
    pub(super) servers: u32,

    /// Number of fronts for each poll timeout; each is one process, and calls are made at them in turn
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=FRONTS_MAX))]
    pub(super) fronts: u32,

    /// Requests, separated by commas: medium-grain, poisson-exp, fine-grain
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "medium-grain,poisson-exp,fine-grain", value_parser = workload)]
    pub(super) workload: Vec<Workload>,

    /// Policies, separated by commas: those of `treefold call --policy`, ideal (the server with the fewest open calls),
    /// manager (the same server, named by a process that each call asks), and tower:pending and tower:peak_ewma (tower's
    /// balancer in each client)
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "random,polled:2,polled:3,polled:4,polled:8,ideal", value_parser = chooser)]
    policy: Vec<Chooser>,

    /// How long a call waits for answers to its polls; of several, separated by commas, each is measured
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_value = "60s", value_parser = poll_timeout)]
    pub(super) poll_timeout: Vec<Duration>,

    /// Loads, separated by commas: shares of the rate at which one server answers 98 % of its requests within two
    /// seconds
    #[arg(long, value_name = "SHARE", value_delimiter = ',', default_value = "0.5,0.6,0.7,0.8,0.9", value_parser = load)]
    pub(super) load: Vec<f64>,

    /// Duration of the measurement of each point, per round, in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = parse::seconds)]
    pub(super) seconds: f64,

    /// Time that calls are made before they are measured, in seconds
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = parse::warm_up)]
    pub(super) warm_up: f64,

    /// Number of rounds, each with a seed of its own; policies take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    pub(super) rounds: u32,

    /// Deadline of each call, with its unit
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse::deadline)]
    pub(super) deadline: Duration,

    /// Seed of everything that is drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(super) seed: u64,

    /// Let each server spin the processor in a control group with this share of one processor, in place of emulated
    /// processors; needs root's rights
    #[arg(long, value_name = "SHARE", value_parser = spin)]
    pub(super) spin: Option<f64>,

    /// Simulate each point too, except tower's and manager's, with the same core and workload, and polls that cost nothing
    #[arg(long)]
    pub(super) simulate: bool,
}

const EXAMPLES: &str = "\
The random polling paper's measurements (figure 6, table 2). Every server holds partition 0, and each also holds one
partition of its own, which ideal asks: the caller keeps the number of open calls of each server. manager asks the
paper's load index manager for this server, a process, over TCP. Service times and gaps have the statistics of the paper's table 1; they are log-normal for
the two traces. All policies get the same arrivals and service times. Every answer is checked. With -o json, an
array of points:
  {workload, series, poll_timeout_ms, load, busy, rate_per_s, rounds,
   response_ms: {mean, p95, p99, mean_low, mean_high}, to_ideal: {the same}, simulated: {mean_ms, to_ideal},
   choosing: {ms_mean, ms_idle, polling_ms, later_than_10ms, later_than_20ms, inquiry_us, inquiry_us_idle},
   local_ms, calls: {made, answered, lost, refused},
   cost: {servers_us, servers_busy, fronts_us, cpu_busy, cpu_own, late_us_mean, sent_late_us_mean}}
Response times are for answered calls and count from the planned instant of a call. Each is the mean over the
rounds; mean_low and mean_high are the 95 % interval by the bootstrap, from three rounds on, else null. to_ideal has
the same as multiples of ideal's in the same round, or of manager's without ideal, and is null without both. busy is
the share of time in which a server's processor works without polls. choosing is the time of a call outside of its
server: polls, and the way there and back; its shares are of calls, and ms_idle is of calls without work, one at a
time. polling_ms is the part of ms_mean that polls take: the rest is that of ideal's or manager's calls. inquiry_us is
the time until the manager has named a server. local_ms is the time that a request's work has taken. servers_us and fronts_us are the real processor time of a call, cpu_busy and cpu_own shares
of this machine's processors. If cpu_busy is not well below 1, the figures measure the machine. Polls take no
emulated processor time.

With --spin, a request of a second spins SHARE of a second, and polls and requests wait for the same processor.
servers_busy is the used part of all quotas. The work beside spinning is measured first, with calls without work, and
counts as service time for the rate of a load. Servers are pinned to processors, and fronts, manager and caller run
before them.

Examples:
  bench-cluster polling
  bench-cluster polling --workload fine-grain --load 0.9 --rounds 5 --simulate -o json
  bench-cluster polling --policy polled:3,ideal --poll-timeout 60s,10ms --load 0.9
  bench-cluster polling --spin 0.1 --workload fine-grain --policy random,polled:1,polled:3,polled:8,manager --load 0.5,0.9
  bench-cluster polling --policy random,round_robin,announced,peak_ewma,prequal,polled:3,ideal --load 0.7,0.9
  bench-cluster polling --policy tower:pending,tower:peak_ewma,peak_ewma,prequal,polled:3,ideal --load 0.7,0.9";

/// Largest number of servers.
const SERVERS_MAX: i64 = 64;
/// Largest number of fronts for each poll timeout.
const FRONTS_MAX: i64 = 64;
/// Largest number of poll timeouts in one run; each has processes of its own.
const TIMEOUTS_MAX: usize = 4;
/// Largest poll timeout, as in a node's configuration.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// Largest number of rounds.
const ROUNDS_MAX: i64 = 1_000;
/// Least share of a processor that a server may have.
const SPIN_MIN: f64 = 0.01;
/// Largest part of this machine's processors that spinning servers may have together; fronts need the rest.
const SPIN_ALL_MAX: f64 = 0.9;
/// Largest load. Queues grow without end from about 1 on.
const LOAD_MAX: f64 = 1.2;

impl BenchPolling {
    /// Checks the combination of the arguments.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let timeouts = self.poll_timeout.len();
        if timeouts > TIMEOUTS_MAX {
            return Err(Failure::usage(format!(
                "poll_timeout lists {timeouts} times; give at most {TIMEOUTS_MAX}, since each has fronts of its own"
            )));
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let spun = self.spin.map_or(0.0, |share| share * f64::from(self.servers));
        if spun > processors * SPIN_ALL_MAX {
            return Err(Failure::usage(format!(
                "{} servers would spin {spun:.2} of {processors} processors, and fronts need a tenth: choose a smaller share \
                 for --spin, or fewer servers",
                self.servers
            )));
        }
        if self.simulate && !simulated::has(self.servers, self.fronts) {
            return Err(Failure::usage(
                "the simulator has 16 servers and 6 fronts: leave out --simulate, or --servers and --fronts",
            ));
        }
        Ok(())
    }

    /// Returns the series: each policy, and those that poll once for each timeout.
    pub(super) fn series(&self) -> Vec<Series> {
        let of = |&chooser: &Chooser| {
            let crews = if chooser.polls() { self.poll_timeout.len() } else { 1 };
            (0..crews).map(move |crew| Series { chooser, crew })
        };
        self.policy.iter().flat_map(of).collect()
    }

    /// Returns the calls per second of a load, and the share of time in which it keeps the processors busy. Each call takes a
    /// server `beside_ms` beside its service time.
    pub(super) fn rate_per_s(&self, workload: &Workload, beside_ms: f64, load: f64) -> (f64, f64) {
        let busy = load * workload.full_load;
        (busy * f64::from(self.servers) * 1e3 / (workload.mean_ms() + beside_ms), busy)
    }

    /// Returns the duration of one trial in seconds.
    pub(super) fn trial_s(&self) -> f64 {
        self.warm_up + self.seconds
    }
}

fn workload(text: &str) -> Result<Workload, CallError> {
    let named = Workload::ALL.into_iter().find(|workload| workload.name == text);
    named.ok_or_else(|| CallError::bad_field("workload", text, "medium-grain, poisson-exp, fine-grain"))
}

fn chooser(text: &str) -> Result<Chooser, CallError> {
    let tower = TowerLoad::ALL.into_iter().find(|load| load.name() == text).map(Chooser::Tower);
    match tower {
        Some(chooser) => Ok(chooser),
        None if text == "ideal" => Ok(Chooser::Ideal),
        None if text == "manager" => Ok(Chooser::Manager),
        None => parse::policy(text).map(Chooser::Policy),
    }
}

fn poll_timeout(text: &str) -> Result<Duration, CallError> {
    let timeout = parse::duration(text)?;
    if timeout > TIMEOUT_MAX {
        return Err(CallError::bad_field("poll_timeout", text, "at most 3600s"));
    }
    Ok(timeout)
}

fn load(text: &str) -> Result<f64, CallError> {
    let load = text.parse::<f64>().ok().filter(|load| *load > 0.0 && *load <= LOAD_MAX);
    load.ok_or_else(|| CallError::bad_field("load", text, format_args!("above 0, at most {LOAD_MAX}")))
}

fn spin(text: &str) -> Result<f64, CallError> {
    let share = text.parse::<f64>().ok().filter(|share| (SPIN_MIN..=1.0).contains(share));
    share.ok_or_else(|| CallError::bad_field("spin", text, format_args!("{SPIN_MIN} to 1")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        polling: BenchPolling,
    }

    fn parsed(line: &str) -> Result<BenchPolling, String> {
        let words = std::iter::once("polling").chain(line.split_whitespace());
        let polling = Alone::try_parse_from(words).map_err(|error| error.to_string())?.polling;
        polling.check().map_err(|failure| failure.to_string())?;
        Ok(polling)
    }

    #[test]
    fn defaults_are_the_papers_measurements() {
        let paper = parsed("").unwrap();
        assert_eq!((paper.servers, paper.fronts, paper.workload.as_slice()), (16, 6, &Workload::ALL[..]));
        let names: Vec<String> = paper.series().iter().map(|series| series.chooser.to_string()).collect();
        assert_eq!(names, ["random", "polled:2", "polled:3", "polled:4", "polled:8", "ideal"]);
        let (per_s, busy) = paper.rate_per_s(&Workload::POISSON_EXP, 0.0, 0.9);
        assert!((per_s - 259.8).abs() < 0.1 && (busy - 0.8118).abs() < 1e-9, "{per_s} {busy}");
        let (per_s, same) = paper.rate_per_s(&Workload::POISSON_EXP, 50.0, 0.9);
        assert!((per_s - 129.9).abs() < 0.1 && same.total_cmp(&busy).is_eq(), "{per_s} {same}");
    }

    #[test]
    fn only_policies_that_poll_are_measured_with_each_timeout() {
        let both = parsed("--policy random,polled:3,ideal --poll-timeout 60s,10ms").unwrap();
        let crews: Vec<usize> = both.series().iter().map(|series| series.crew).collect();
        assert_eq!(crews, [0, 0, 1, 0]);
    }

    #[test]
    fn towers_balancer_is_a_policy_with_each_of_its_loads() {
        let peers = parsed("--policy tower:pending,tower:peak_ewma,peak_ewma").unwrap();
        let names: Vec<String> = peers.series().iter().map(|series| series.chooser.to_string()).collect();
        assert_eq!(names, ["tower:pending", "tower:peak_ewma", "peak_ewma"]);
    }

    #[test]
    fn towers_balancer_and_the_manager_alone_are_not_simulated() {
        let all =
            parsed("--policy tower:pending,tower:peak_ewma,manager,random,polled:3,peak_ewma,prequal,ideal")
                .unwrap();
        let series = all.series().into_iter();
        let simulated: Vec<_> = series.filter(|series| series.chooser.is_simulated()).collect();
        assert_eq!(simulated.len(), 5);
        for series in simulated {
            simulated::of(series, Duration::from_secs(1), &Workload::ALL[0], 0.5);
        }
    }

    #[test]
    fn invalid_arguments_are_refused_with_the_valid_range() {
        for (line, complaint) in [
            ("--servers 1", "1 is not in 2..="),
            ("--workload coarse", "allowed: medium-grain, poisson-exp, fine-grain"),
            ("--policy best", "policy is best"),
            ("--policy tower:p2c", "policy is tower:p2c"),
            ("--policy polled:17", "D from 1 to 16"),
            ("--poll-timeout 5", "duration is 5"),
            ("--poll-timeout 2h", "poll_timeout is 2h"),
            ("--poll-timeout 3601s", "at most 3600s"),
            ("--poll-timeout 1ms,2ms,3ms,4ms,5ms", "lists 5 times; give at most 4"),
            ("--load 1.3", "above 0, at most 1.2"),
            ("--load NaN", "above 0, at most 1.2"),
            ("--rounds 0", "0 is not in 1..="),
            ("--spin 0", "0.01 to 1"),
            ("--spin 1.5", "0.01 to 1"),
            ("--spin 1 --servers 64", "64 servers would spin 64.00 of"),
            ("--simulate --servers 8", "the simulator has 16 servers and 6 fronts"),
        ] {
            let refused = parsed(line).unwrap_err();
            assert!(refused.contains(complaint), "{line}: {refused}");
        }
    }
}
