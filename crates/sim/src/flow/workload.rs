//! The traffic: jobs whose partial results can be aggregated, and other flows (NetAgg §4.1).
//!
//! The paper gives: sizes are Pareto with a mean of 100 KB and a shape of 1.05; 46 % of the flows are
//! aggregatable; 61 % of the jobs have fewer than ten workers, by a power law; workers are near each other;
//! the number of flows makes a load of 15 % at the edge; all flows start at once, except for stragglers.
//!
//! The paper leaves some points open. The assumptions here are:
//!
//! - *The time of the load.* If all flows start at once, a load means a time for finishing them.
//!   [`Workload::window_s`] is the time in which the edge could send the bytes at a load of 15 %. The number
//!   of flows follows from load and mean size. The paper had nearly the same times with flows that arrive one
//!   after the other ([`Starts::OverTime`]). So few of its flows were live at once, and the time is short
//!   here.
//! - *The size.* A size belongs to a job: each of its workers sends as much as the others, like workers that
//!   answer the same request over equal parts of the data. If every partial result were drawn on its own
//!   ([`Partials::Each`]), a large job would wait for its largest partial result, which takes equally long
//!   with every strategy. The paper's gains would then be impossible. So the paper's figures, and not its
//!   words, decide here.
//! - *The power law.* A job has at least two workers (one has nothing to aggregate), and at most one on all
//!   servers but one. The 61 % then determine the exponent.
//! - *Masters* are anywhere, because the paper says only of workers that they are near each other; see
//!   [`Masters`].
//! - *The other flows* are between any two servers.
//! - *Stragglers.* Their number varies. Their delay follows Mantri's report on slow tasks (the paper's
//!   reference 8), as far as we know it: four in five take up to 2.5 times a task's usual time, the others up
//!   to ten times. The usual time is `USUAL_S`.

use super::placement::Placer;
use super::topology::{Fabric, GBPS};
use treefold_core::random::Random;

/// The workload of a run as a plain value. The number of flows follows from the load and the mean size.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The load, as a share of all servers' links of 1 Gbit/s over `window_s`.
    pub load: f64,
    /// The time of the load, in seconds.
    pub window_s: f64,
    /// The share of the flows that can be aggregated.
    pub aggregatable: f64,
    /// Most workers of a job, if there are more servers.
    pub workers_max: u32,
    /// The share of a job's workers that start late.
    pub stragglers: f64,
    /// The places of masters.
    pub masters: Masters,
    /// The sizes of a job's partial results.
    pub partials: Partials,
    /// The start times of jobs and other flows.
    pub starts: Starts,
}

/// Whether a job's partial results have equal sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partials {
    /// One size is drawn for each job.
    Alike,
    /// A size is drawn for each partial result.
    Each,
}

/// The start times of jobs and other flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// All start at zero.
    AtOnce,
    /// Each starts at a drawn time within [`Workload::window_s`].
    OverTime,
}

/// The place of a job's master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masters {
    /// Any server.
    Anywhere,
    /// A server as near to the workers as they are to each other.
    Near,
}

impl Workload {
    /// NetAgg's workload (§4.1).
    pub const PAPER: Self = Self {
        load: 0.15,
        window_s: 0.02,
        aggregatable: 0.46,
        workers_max: u32::MAX,
        stragglers: 0.0,
        masters: Masters::Anywhere,
        partials: Partials::Alike,
        starts: Starts::AtOnce,
    };
}

/// The mean and the shape of flow sizes.
const MEAN_BYTES: f64 = 100e3;
const SHAPE: f64 = 1.05;

/// The least number of workers of a job, and the share of jobs with fewer than [`FEW`] workers.
const WORKERS_MIN: f64 = 2.0;
const FEW: f64 = 10.0;
const SHARE_OF_FEW: f64 = 0.61;

/// Delays of stragglers as multiples of [`USUAL_S`]. The share [`MOST`] is within the first bounds, the rest
/// within the second.
const MOST: f64 = 0.8;
const LATE: (f64, f64) = (0.5, 1.5);
const VERY_LATE: (f64, f64) = (1.5, 9.0);

/// The usual time of a task. Stragglers take a multiple of it.
const USUAL_S: f64 = 0.1;

/// One worker's partial result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// The worker's server.
    pub server: u32,
    /// The size of its partial result.
    pub bytes: f64,
    /// Its start relative to its job's start.
    pub late_s: f64,
}

/// Partial results and the place where their result is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Number of the job in the run.
    pub number: u64,
    /// The server that receives the result.
    pub master: u32,
    /// Its start time.
    pub starts_s: f64,
    /// The workers, each on another server than the others and the master.
    pub workers: Vec<Worker>,
}

impl Job {
    /// Returns the bytes of all partial results.
    pub fn bytes(&self) -> f64 {
        self.workers.iter().map(|worker| worker.bytes).sum()
    }
}

/// A flow that cannot be aggregated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Other {
    /// The sending server.
    pub from: u32,
    /// The receiving server, which differs from `from`.
    pub to: u32,
    /// Its size in bytes.
    pub bytes: f64,
    /// Its start time.
    pub starts_s: f64,
}

/// All traffic of a run.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// The jobs, which can be aggregated.
    pub jobs: Vec<Job>,
    /// The flows that cannot be aggregated.
    pub others: Vec<Other>,
}

impl Workload {
    /// Draws the traffic of `seed`. Of the fabric, only the servers and their racks and pods matter.
    pub fn draw(&self, fabric: &Fabric, seed: u64) -> Traffic {
        let flows_wanted = self.load * f64::from(fabric.servers()) * GBPS * self.window_s / MEAN_BYTES;
        let mut draw = Draw::new(self, fabric, seed);
        let (mut traffic, mut in_jobs) = (Traffic::default(), 0_u32);
        loop {
            let flows = f64::from(in_jobs + traffic.others.len() as u32);
            if flows >= flows_wanted {
                return traffic;
            }
            if f64::from(in_jobs) <= self.aggregatable * flows && self.aggregatable > 0.0 {
                let job = draw.job(traffic.jobs.len() as u64);
                in_jobs += job.workers.len() as u32;
                traffic.jobs.push(job);
            } else {
                traffic.others.push(draw.other());
            }
        }
    }
}

/// The state for drawing traffic.
struct Draw<'a> {
    workload: &'a Workload,
    fabric: &'a Fabric,
    placer: Placer<'a>,
    random: Random,
    /// Separate generators, so that stragglers and start times do not change the drawn jobs.
    late: Random,
    start: Random,
}

impl<'a> Draw<'a> {
    fn new(workload: &'a Workload, fabric: &'a Fabric, seed: u64) -> Self {
        Self {
            workload,
            fabric,
            placer: Placer::new(fabric),
            random: Random::new(seed),
            late: Random::new(seed ^ 0x6c61_7465),
            start: Random::new(seed ^ 0x7374_6172),
        }
    }

    fn job(&mut self, number: u64) -> Job {
        let servers = self.fabric.servers();
        let so_many = workers(self.workload.workers_max.min(servers - 1), &mut self.random);
        let mut servers_of_job = self.placer.place(so_many, &mut self.random);
        let anywhere = below(&mut self.random, servers);
        let master = match self.workload.masters {
            Masters::Anywhere => anywhere,
            Masters::Near => servers_of_job[0],
        };
        servers_of_job.retain(|&server| server != master);
        let alike = size_bytes(&mut self.random);
        let worker = |server| {
            let bytes = match self.workload.partials {
                Partials::Alike => alike,
                Partials::Each => size_bytes(&mut self.random),
            };
            Worker { server, bytes, late_s: late_s(self.workload.stragglers, &mut self.late) }
        };
        let workers = servers_of_job.into_iter().map(worker).collect();
        Job { number, master, starts_s: self.starts_s(), workers }
    }

    fn other(&mut self) -> Other {
        let servers = self.fabric.servers();
        let (from, apart) = (below(&mut self.random, servers), 1 + below(&mut self.random, servers - 1));
        let bytes = size_bytes(&mut self.random);
        Other { from, to: (from + apart) % servers, bytes, starts_s: self.starts_s() }
    }

    fn starts_s(&mut self) -> f64 {
        match self.workload.starts {
            Starts::AtOnce => 0.0,
            Starts::OverTime => self.workload.window_s * self.start.unit(),
        }
    }
}

/// Draws a worker's delay, if the share `stragglers` of the workers is late.
fn late_s(stragglers: f64, late: &mut Random) -> f64 {
    let (straggles, most, by) = (late.unit(), late.unit(), late.unit());
    if straggles >= stragglers {
        return 0.0;
    }
    let (least, longest) = if most < MOST { LATE } else { VERY_LATE };
    USUAL_S * (least + (longest - least) * by)
}

fn below(random: &mut Random, so_many: u32) -> u32 {
    random.below(so_many as usize) as u32
}

/// Draws from a Pareto distribution by inversion.
fn size_bytes(random: &mut Random) -> f64 {
    let least = MEAN_BYTES * (SHAPE - 1.0) / SHAPE;
    least * (1.0 - random.unit()).powf(-1.0 / SHAPE)
}

/// Draws a job's number of workers from a power law, again if it is above `most`.
fn workers(most: u32, random: &mut Random) -> u32 {
    let exponent = (1.0 - SHARE_OF_FEW).ln() / (WORKERS_MIN / FEW).ln();
    loop {
        let drawn = WORKERS_MIN * (1.0 - random.unit()).powf(-1.0 / exponent);
        if drawn < f64::from(most) + 1.0 {
            return drawn as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws traffic of half a second, enough for shares near their expected values.
    fn traffic(workload: &Workload) -> Traffic {
        Workload { window_s: 0.5, ..workload.clone() }.draw(&Fabric::PAPER, 3)
    }

    #[test]
    fn number_and_aggregatable_share_of_flows_match_the_paper() {
        let traffic = traffic(&Workload::PAPER);
        let in_jobs: usize = traffic.jobs.iter().map(|job| job.workers.len()).sum();
        let flows = (in_jobs + traffic.others.len()) as f64;
        let share = in_jobs as f64 / flows;
        assert!((share - 0.46).abs() < 0.02, "{share}");
        let wanted = 0.15 * 0.5 * 1_024.0 * GBPS / 100e3;
        assert!((1.0..1.02).contains(&(flows / wanted)), "{flows} of {wanted}");
    }

    #[test]
    fn partial_results_of_a_job_are_equal_unless_each_is_drawn() {
        let are_alike = |partials| {
            let traffic = traffic(&Workload { partials, ..Workload::PAPER });
            let mut jobs = traffic.jobs.iter().filter(|job| job.workers.len() > 1);
            jobs.all(|job| job.workers.iter().all(|worker| worker.bytes == job.workers[0].bytes))
        };
        assert!(are_alike(Partials::Alike));
        assert!(!are_alike(Partials::Each));
    }

    #[test]
    fn starts_over_time_do_not_change_the_traffic() {
        let over_time = Workload { starts: Starts::OverTime, ..Workload::PAPER };
        let starts = |traffic: &Traffic| -> Vec<f64> {
            let jobs = traffic.jobs.iter().map(|job| job.starts_s);
            jobs.chain(traffic.others.iter().map(|other| other.starts_s)).collect()
        };
        let (mut at_once, mut spread) = (traffic(&Workload::PAPER), traffic(&over_time));
        assert!(starts(&at_once).iter().all(|&s| s == 0.0));
        let starts = starts(&spread);
        let mean_s = starts.iter().sum::<f64>() / starts.len() as f64;
        assert!((0.24..0.26).contains(&mean_s) && starts.iter().all(|s| (0.0..0.5).contains(s)), "{mean_s}");
        for traffic in [&mut at_once, &mut spread] {
            traffic.jobs.iter_mut().for_each(|job| job.starts_s = 0.0);
            traffic.others.iter_mut().for_each(|other| other.starts_s = 0.0);
        }
        assert_eq!((at_once.jobs, at_once.others), (spread.jobs, spread.others));
    }

    #[test]
    fn most_jobs_are_small_and_sizes_have_a_heavy_tail() {
        let mut random = Random::new(7);
        let few = (0..20_000).filter(|_| workers(1_023, &mut random) < 10).count() as f64 / 20_000.0;
        assert!((0.60..0.65).contains(&few), "{few}");
        let mut sizes: Vec<f64> = (0..20_000).map(|_| size_bytes(&mut random)).collect();
        sizes.sort_by(f64::total_cmp);
        let (median, p99) = (sizes[10_000], sizes[19_800]);
        assert!((9_000.0..9_500.0).contains(&median), "{median}");
        assert!((330e3..450e3).contains(&p99), "{p99}");
    }

    #[test]
    fn stragglers_change_only_the_start_times_of_traffic() {
        let (calm, some_late) =
            (traffic(&Workload::PAPER), traffic(&Workload { stragglers: 0.3, ..Workload::PAPER }));
        let late = |traffic: &Traffic| -> Vec<f64> {
            traffic.jobs.iter().flat_map(|job| job.workers.iter().map(|worker| worker.late_s)).collect()
        };
        assert!(late(&calm).iter().all(|&s| s == 0.0));
        let straggling =
            late(&some_late).iter().filter(|&&s| s > 0.0).count() as f64 / late(&some_late).len() as f64;
        assert!((0.27..0.33).contains(&straggling), "{straggling}");
        let bytes = |traffic: &Traffic| traffic.jobs.iter().map(Job::bytes).sum::<f64>();
        assert_eq!(bytes(&calm), bytes(&some_late));
    }
}
