//! Clients that ask one thing after another, as many at a time as there are, and what they saw.
//!
//! Each rack's clients sit on their own host and talk to one front, as a search service's users do. Every answer must be
//! full: one that is not ends the measurement.

use crate::bed::{Bed, connect};
use crate::usage::{Moment, Usage};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use treefold::{Client, PartitionSet, Shape, Status};
use treefold_search::{Categorise, CategoriseParams, Sample, SampleParams};

/// Long enough for whatever waits behind everybody else's partials at a slow link.
const DEADLINE: Duration = Duration::from_secs(120);

/// Between two looks at whether it is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// What goes before a measurement, as a part of its length, at least. It also lasts until there have been as many answers
/// as there are clients: at a slow link the first come too soon, when nobody else waits yet.
const WARM_UP: f64 = 0.6;

/// A measurement, too, lasts until each client has had so many answers on the average: behind a slow link they come in
/// bunches, one from each client, and less than a bunch or two would be no rate.
const ANSWERS_MIN: u64 = 2;

/// How long either may take for that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Words of a query, as in the paper.
const QUERY_WORDS: usize = 3;

/// Documents that a partition gives, and how much of each: some 32 KB together, so that at a fortieth of the paper's
/// speed an answer takes as long as there.
const DOCUMENTS: u32 = 8;
const TEXT_BYTES: u32 = 4 << 10;

/// How long links are given to fall silent after a measurement.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    /// Whole texts, of which this share is kept.
    Sample { ratio: f64 },
    /// Whole texts, which folds read.
    Categorise,
}

/// Clients of one front.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    /// Front and clients' host have this number.
    pub(crate) front: usize,
    pub(crate) clients: u32,
    pub(crate) partitions: PartitionSet,
}

/// Everything that asks at a time.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) work: Work,
    pub(crate) shape: Shape,
    pub(crate) deployments: Vec<Deployment>,
}

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Answer {
    at: Instant,
    took: Duration,
    /// Text that partitions gave for it.
    given_bytes: u64,
}

/// What clients saw, and what it took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answers_per_s: f64,
    /// Text of partial results that became answers.
    pub(crate) folded_mbit: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) usage: Usage,
}

impl Load {
    /// Lets the clients ask, and looks at what comes in the middle.
    pub(crate) fn measure(
        &self,
        bed: &Bed,
        words: &[String],
        seconds: f64,
        seed: u64,
    ) -> Result<Seen, String> {
        let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        let clients = self.deployments.iter().map(|deployment| u64::from(deployment.clients)).sum();
        let (window, answers) = std::thread::scope(|scope| {
            let lanes: Vec<_> = self
                .deployments
                .iter()
                .map(|deployment| scope.spawn(|| self.ask(bed, deployment, words, seed, (&stop, &answered))))
                .collect();
            let window = watch(bed, seconds, &stop, clients, &answered);
            stop.store(true, Ordering::Relaxed);
            let answers: Result<Vec<Vec<Answer>>, String> =
                lanes.into_iter().map(|lane| lane.join().map_err(|_| "a client's thread died")?).collect();
            (window, answers)
        });
        let (before, after) = window.map_err(|error| error.to_string())?;
        let answers: Vec<Answer> = answers?.into_iter().flatten().collect();
        await_silence(bed)?;
        Ok(seen(&answers, &before, &after, bed))
    }

    /// One deployment's clients, until they are told to stop.
    fn ask(
        &self,
        bed: &Bed,
        deployment: &Deployment,
        words: &[String],
        seed: u64,
        (stop, answered): (&AtomicBool, &AtomicU64),
    ) -> Result<Vec<Answer>, String> {
        let address = bed.front(deployment.front);
        let host = bed.network.host(&format!("client{}", deployment.front));
        let inside = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            let asked = async {
                let client = connect(&address, &bed.cluster).await?;
                self.lanes(&client, deployment, words, seed, (stop, answered)).await
            };
            let asked = runtime.block_on(LocalSet::new().run_until(asked));
            stop.fetch_or(asked.is_err(), Ordering::Relaxed);
            asked
        };
        host.space.run(inside).map_err(|error| error.to_string())?
    }

    async fn lanes(
        &self,
        client: &Client,
        deployment: &Deployment,
        words: &[String],
        seed: u64,
        (stop, answered): (&AtomicBool, &AtomicU64),
    ) -> Result<Vec<Answer>, String> {
        let answers = Rc::new(RefCell::new(Vec::new()));
        let failed = Rc::new(RefCell::new(None));
        let words: Rc<[String]> = words.into();
        let lanes: Vec<_> = (0..deployment.clients)
            .map(|lane| {
                let (client, words) = (client.clone(), Rc::clone(&words));
                let (answers, failed) = (Rc::clone(&answers), Rc::clone(&failed));
                let (load, partitions) = (self.clone(), deployment.partitions.clone());
                let mut draw = Draw(seed ^ ((u64::from(lane) + 1) << 32) ^ ((deployment.front as u64) << 56));
                tokio::task::spawn_local(async move {
                    loop {
                        match load.one(&client, &partitions, &words, &mut draw).await {
                            Ok(answer) => answers.borrow_mut().push(answer),
                            Err(problem) => {
                                failed.borrow_mut().get_or_insert(problem);
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        let mut counted = 0;
        while !stop.load(Ordering::Relaxed) && failed.borrow().is_none() {
            answered.fetch_add(answers.borrow().len() as u64 - counted, Ordering::Relaxed);
            counted = answers.borrow().len() as u64;
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        // Dropping a call cancels it throughout its tree.
        lanes.iter().for_each(tokio::task::JoinHandle::abort);
        match failed.borrow_mut().take() {
            Some(problem) => Err(problem),
            None => Ok(answers.take()),
        }
    }

    async fn one(
        &self,
        client: &Client,
        partitions: &PartitionSet,
        words: &[String],
        draw: &mut Draw,
    ) -> Result<Answer, String> {
        let query: Vec<&str> = (0..QUERY_WORDS).map(|_| draw.of(words)).collect();
        let (query, seed, began) = (query.join(" "), draw.next(), Instant::now());
        let (status, given_bytes) = match self.work {
            Work::Sample { ratio } => {
                let params = SampleParams {
                    k: DOCUMENTS,
                    text_bytes: TEXT_BYTES,
                    ratio,
                    seed,
                    ..SampleParams::new(query)
                };
                let call = client.aggregate(&Sample, "search/sample", &params);
                let call = call.shape(self.shape).partitions(partitions.clone()).deadline(DEADLINE);
                let reply = call.await.map_err(|error| error.to_string())?;
                (reply.status, reply.value.map(|value| value.given_bytes))
            }
            Work::Categorise => {
                let params =
                    CategoriseParams { k: DOCUMENTS, text_bytes: TEXT_BYTES, ..CategoriseParams::new(query) };
                let call = client.aggregate(&Categorise, "search/categorise", &params);
                let call = call.shape(self.shape).partitions(partitions.clone()).deadline(DEADLINE);
                let reply = call.await.map_err(|error| error.to_string())?;
                (reply.status, reply.value.map(|value| value.given_bytes))
            }
        };
        match (status, given_bytes) {
            (Status::Full, Some(given_bytes)) => {
                Ok(Answer { at: Instant::now(), took: began.elapsed(), given_bytes })
            }
            (status, _) => Err(format!("an answer was {}", status.name())),
        }
    }
}

/// Waits, looks, waits, looks; sooner over when the clients are.
fn watch(
    bed: &Bed,
    seconds: f64,
    stop: &AtomicBool,
    clients: u64,
    answered: &AtomicU64,
) -> std::io::Result<(Moment, Moment)> {
    let wait = |seconds: f64, answers: u64| {
        let (began, least) = (Instant::now(), Duration::from_secs_f64(seconds));
        let is_over = || {
            let waited = began.elapsed();
            waited >= least && (answered.load(Ordering::Relaxed) >= answers || waited >= PATIENCE)
        };
        while !is_over() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_INTERVAL);
        }
    };
    wait(seconds * WARM_UP, clients);
    let (before, counted) = (Moment::of(bed)?, answered.load(Ordering::Relaxed));
    wait(seconds, counted + ANSWERS_MIN * clients);
    Ok((before, Moment::of(bed)?))
}

/// Returns once nothing comes to a front any more: what one measurement left on its way must not count in the next.
fn await_silence(bed: &Bed) -> Result<(), String> {
    let give_up_at = Instant::now() + SILENCE_TIMEOUT;
    let mut before = Moment::of(bed).map_err(|error| error.to_string())?;
    while Instant::now() < give_up_at {
        std::thread::sleep(Duration::from_millis(100));
        let after = Moment::of(bed).map_err(|error| error.to_string())?;
        if before.until(&after, bed).fullest_percent < 5.0 {
            break;
        }
        before = after;
    }
    Ok(())
}

fn seen(answers: &[Answer], before: &Moment, after: &Moment, bed: &Bed) -> Seen {
    let usage = before.until(after, bed);
    let within = answers.iter().filter(|answer| (before.at..after.at).contains(&answer.at));
    let mut took: Vec<Duration> = within.clone().map(|answer| answer.took).collect();
    took.sort_unstable();
    let bytes: u64 = within.map(|answer| answer.given_bytes).sum();
    Seen {
        answers_per_s: took.len() as f64 / usage.seconds,
        folded_mbit: bytes as f64 * 8.0 / 1e6 / usage.seconds,
        p50_ms: quantile_ms(&took, 0.50),
        p99_ms: quantile_ms(&took, 0.99),
        usage,
    }
}

/// Returns the nearest-rank quantile of ascending durations in milliseconds, or 0 if there are none.
pub(crate) fn quantile_ms(ascending: &[Duration], share: f64) -> f64 {
    treefold_figures::quantile(ascending, share).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}

/// SplitMix64: the same queries for every shape of one repeat.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = self.0;
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^ (drawn >> 31)
    }

    fn of<'a>(&mut self, words: &'a [String]) -> &'a str {
        &words[(self.next() % words.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let all: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(quantile_ms(&all, 0.50).round(), 50.0);
        assert_eq!(quantile_ms(&all, 0.99).round(), 99.0);
        assert_eq!(quantile_ms(&[], 0.99), 0.0);
    }

    #[test]
    fn one_seed_draws_the_same_words() {
        let words: Vec<String> = (0..50).map(|word| word.to_string()).collect();
        let drawn = |seed| -> Vec<String> {
            let mut draw = Draw(seed);
            (0..20).map(|_| draw.of(&words).to_owned()).collect()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }
}
