//! What is sent: jobs whose partial results can be aggregated, and flows between others (NetAgg §4.1).
//!
//! From the paper: sizes are Pareto with a mean of 100 KB and a shape of 1.05; 46 % of the flows are aggregatable; 61 % of
//! the jobs have fewer than ten workers, by a power law; workers are near each other; flows are as many as make a load of
//! 15 % at the edge; all start at once, but for stragglers.
//!
//! What the paper leaves open, and what is taken here:
//!
//! - *Load in which time?* Where all flows start at once, a load is a time to work off. [`Workload::window_s`] says of how
//!   long a time 15 % are sent. Flows are drawn until their bytes are that many: with a shape of 1.05 the mean of any
//!   number of draws that fits here is far below 100 KB, so they are about twice as many as load and mean give.
//! - *The power law.* At least two workers (one has nothing to aggregate), at most a worker on all servers but one; the
//!   61 % then give the exponent.
//! - *Where masters are.* Anywhere, as only of workers is it said that they are near each other; [`Masters`].
//! - *The other flows* are between any two servers.
//! - *Stragglers.* How many is varied. How late one is follows what Mantri (the paper's reference 8) reports of tasks that
//!   take long, as far as we know it: four in five up to 2.5 times a task's usual time, the others up to ten times. The
//!   usual time is `USUAL_S`.

use super::placement::Placer;
use super::topology::{Fabric, GBPS};
use treefold_core::random::Random;

/// The workload of a run as a plain value.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The share of all servers' links that is sent, in `window_s` at 1 Gbit/s each.
    pub load: f64,
    /// For how long that load is, in seconds.
    pub window_s: f64,
    /// The share of the flows that can be aggregated.
    pub aggregatable: f64,
    /// The share of a job's workers that start late.
    pub stragglers: f64,
    /// Where masters are.
    pub masters: Masters,
}

/// Where a job's master is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masters {
    /// At any server.
    Anywhere,
    /// As near to its workers as they are to each other.
    Near,
}

impl Workload {
    /// NetAgg's (§4.1).
    pub const PAPER: Self =
        Self { load: 0.15, window_s: 0.05, aggregatable: 0.46, stragglers: 0.0, masters: Masters::Anywhere };
}

/// The mean and the shape of flow sizes.
const MEAN_BYTES: f64 = 100e3;
const SHAPE: f64 = 1.05;

/// The least workers of a job, and the share of jobs with fewer than [`FEW`].
const WORKERS_MIN: f64 = 2.0;
const FEW: f64 = 10.0;
const SHARE_OF_FEW: f64 = 0.61;

/// What stragglers are late by, in parts of [`USUAL_S`]: most within the first bounds, the others within the second.
const MOST: f64 = 0.8;
const LATE: (f64, f64) = (0.5, 1.5);
const VERY_LATE: (f64, f64) = (1.5, 9.0);

/// The usual time of a task, of which stragglers take a multiple.
const USUAL_S: f64 = 0.1;

/// One worker's partial result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worker {
    /// Where it is.
    pub server: u32,
    /// How large its partial result is.
    pub bytes: f64,
    /// When it starts to send it.
    pub starts_s: f64,
}

/// Partial results and where they are to meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Names it among the run's jobs.
    pub number: u64,
    /// Where its result is wanted.
    pub master: u32,
    /// What is aggregated: at least two, each at another server.
    pub workers: Vec<Worker>,
}

impl Job {
    /// The bytes of all partial results.
    pub fn bytes(&self) -> f64 {
        self.workers.iter().map(|worker| worker.bytes).sum()
    }
}

/// A flow that nothing can be done about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Other {
    /// From this server.
    pub from: u32,
    /// To this one, which is another.
    pub to: u32,
    /// Its size.
    pub bytes: f64,
}

/// All that is sent in a run.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// What can be aggregated.
    pub jobs: Vec<Job>,
    /// What cannot.
    pub others: Vec<Other>,
}

impl Workload {
    /// The traffic that `seed` names. It depends on nothing of the fabric but how many servers there are and where.
    pub fn draw(&self, fabric: &Fabric, seed: u64) -> Traffic {
        let mut random = Random::new(seed);
        // A generator of its own, so that the same jobs straggle more or less.
        let mut late = Random::new(seed ^ 0x6c61_7465);
        let mut placer = Placer::new(fabric);
        let bytes_wanted = self.load * f64::from(fabric.servers()) * GBPS * self.window_s;
        let (mut bytes, mut in_jobs) = (0.0, 0_u32);
        let mut traffic = Traffic::default();
        while bytes < bytes_wanted {
            let flows = in_jobs + traffic.others.len() as u32;
            if f64::from(in_jobs) <= self.aggregatable * f64::from(flows) && self.aggregatable > 0.0 {
                let number = traffic.jobs.len() as u64;
                let job = self.job(number, fabric, &mut placer, &mut random, &mut late);
                (bytes, in_jobs) = (bytes + job.bytes(), in_jobs + job.workers.len() as u32);
                traffic.jobs.push(job);
            } else {
                let (from, apart) =
                    (below(&mut random, fabric.servers()), 1 + below(&mut random, fabric.servers() - 1));
                let other =
                    Other { from, to: (from + apart) % fabric.servers(), bytes: size_bytes(&mut random) };
                bytes += other.bytes;
                traffic.others.push(other);
            }
        }
        traffic
    }

    fn job(
        &self,
        number: u64,
        fabric: &Fabric,
        placer: &mut Placer<'_>,
        random: &mut Random,
        late: &mut Random,
    ) -> Job {
        let mut servers = placer.place(workers(fabric.servers() - 1, random), random);
        let anywhere = below(random, fabric.servers());
        let master = match self.masters {
            Masters::Anywhere => anywhere,
            Masters::Near => servers[0],
        };
        servers.retain(|&server| server != master);
        let worker = |server| Worker { server, bytes: size_bytes(random), starts_s: self.starts_s(late) };
        Job { number, master, workers: servers.into_iter().map(worker).collect() }
    }

    fn starts_s(&self, late: &mut Random) -> f64 {
        let (straggles, most, by) = (late.unit(), late.unit(), late.unit());
        if straggles >= self.stragglers {
            return 0.0;
        }
        let (least, longest) = if most < MOST { LATE } else { VERY_LATE };
        USUAL_S * (least + (longest - least) * by)
    }
}

fn below(random: &mut Random, so_many: u32) -> u32 {
    random.below(so_many as usize) as u32
}

/// A Pareto draw by inversion.
fn size_bytes(random: &mut Random) -> f64 {
    let least = MEAN_BYTES * (SHAPE - 1.0) / SHAPE;
    least * (1.0 - random.unit()).powf(-1.0 / SHAPE)
}

/// How many workers a job has: a power law, drawn again where they are more than `most`.
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

    /// Of half a second: enough for shares to be near what they are to be.
    fn traffic(workload: &Workload) -> Traffic {
        Workload { window_s: 0.5, ..workload.clone() }.draw(&Fabric::PAPER, 3)
    }

    #[test]
    fn the_load_and_the_share_that_can_be_aggregated_are_the_papers() {
        let traffic = traffic(&Workload::PAPER);
        let in_jobs: usize = traffic.jobs.iter().map(|job| job.workers.len()).sum();
        let share = in_jobs as f64 / (in_jobs + traffic.others.len()) as f64;
        assert!((share - 0.46).abs() < 0.01, "{share}");
        let jobs: f64 = traffic.jobs.iter().map(Job::bytes).sum();
        let bytes = jobs + traffic.others.iter().map(|other| other.bytes).sum::<f64>();
        let wanted = 0.15 * 0.5 * 1_024.0 * GBPS;
        assert!((1.0..1.5).contains(&(bytes / wanted)), "{bytes} of {wanted}");
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
    fn the_same_seed_draws_the_same_and_stragglers_change_nothing_but_starts() {
        let (calm, late) =
            (traffic(&Workload::PAPER), traffic(&Workload { stragglers: 0.3, ..Workload::PAPER }));
        let starts = |traffic: &Traffic| -> Vec<f64> {
            traffic.jobs.iter().flat_map(|job| job.workers.iter().map(|worker| worker.starts_s)).collect()
        };
        assert!(starts(&calm).iter().all(|&s| s == 0.0));
        let straggling =
            starts(&late).iter().filter(|&&s| s > 0.0).count() as f64 / starts(&late).len() as f64;
        assert!((0.27..0.33).contains(&straggling), "{straggling}");
        let bytes = |traffic: &Traffic| traffic.jobs.iter().map(Job::bytes).sum::<f64>();
        assert_eq!(bytes(&calm), bytes(&late));
    }
}
