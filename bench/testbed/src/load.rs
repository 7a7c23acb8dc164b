//! Clients that make calls in a closed loop, and the figures they observe.
//!
//! Each rack's clients run on a separate host and talk to one front, as the users of a search service do.
//! Every answer must be full; any other answer ends the measurement.

use crate::bed::{Bed, connect};
use crate::usage::{Moment, Usage};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::LocalSet;
use treefold::{Client, PartitionSet, Reply, Shape, Status};
use treefold_micro::{Folded, Work as MicroWork};
use treefold_search::{Categorise, CategoriseParams, Sample, SampleParams};

/// Long enough to wait behind all other partials at a slow link.
const DEADLINE: Duration = Duration::from_secs(120);

/// Interval of checking for the end.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Least length of the warm-up, as a part of the measurement's length.
///
/// The warm-up also lasts until there have been as many answers as clients. At a slow link, the first answers
/// come too soon, because no other client is waiting yet.
const WARM_UP: f64 = 0.6;

/// Least answers per client, on average, in a measurement.
///
/// Behind a slow link, answers come in bunches, one from each client. Fewer than one or two bunches would not
/// give a rate.
const ANSWERS_MIN: u64 = 2;

/// Most time that the warm-up and the measurement may each take for that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Words of a query, as in the paper.
const QUERY_WORDS: usize = 3;

/// Documents from each partition, and bytes of each: about 32 KB together. At a fortieth of the paper's
/// speed, an answer then takes as long as in the paper.
const DOCUMENTS: u32 = 8;
const TEXT_BYTES: u32 = 4 << 10;

/// Most time for links to become idle after a measurement.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// The request of the clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    /// Whole texts, of which a share is kept.
    Sample { ratio: f64 },
    /// Whole texts, which the folds read.
    Categorise,
    /// Partials of a size, which a fold keeps, and which cost almost nothing to compute and to fold.
    Bulky { bytes: u64 },
    /// Small partials. Each local and each fold takes this time of its node's one processor.
    Dear { ms: f64 },
}

/// The clients of one front.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    /// The number of the front, and of the clients' host.
    pub(crate) front: usize,
    pub(crate) clients: u32,
    pub(crate) partitions: PartitionSet,
}

/// All concurrent clients, with their request.
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
    /// Bytes of text that the partitions sent for it.
    given_bytes: u64,
}

/// The figures that clients observed, and the resources used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answers_per_s: f64,
    /// Text of the partial results that became answers.
    pub(crate) folded_mbit: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) usage: Usage,
}

impl Load {
    /// Runs the clients, and evaluates the answers after the warm-up.
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
            let requesters: Vec<_> = self
                .deployments
                .iter()
                .map(|deployment| scope.spawn(|| self.ask(bed, deployment, words, seed, (&stop, &answered))))
                .collect();
            let window = watch(bed, seconds, &stop, clients, &answered);
            stop.store(true, Ordering::Relaxed);
            let answers: Result<Vec<Vec<Answer>>, String> = requesters
                .into_iter()
                .map(|requester| requester.join().map_err(|_| "a client's thread died")?)
                .collect();
            (window, answers)
        });
        let (before, after) = window.map_err(|error| error.to_string())?;
        let answers: Vec<Answer> = answers?.into_iter().flatten().collect();
        await_silence(bed)?;
        Ok(seen(&answers, &before, &after, bed))
    }

    /// Runs one deployment's clients until `stop` is set.
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
                self.requesters(&client, deployment, words, seed, (stop, answered)).await
            };
            let asked = runtime.block_on(LocalSet::new().run_until(asked));
            stop.fetch_or(asked.is_err(), Ordering::Relaxed);
            asked
        };
        host.space.run(inside).map_err(|error| error.to_string())?
    }

    async fn requesters(
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
        let requesters: Vec<_> = (0..deployment.clients)
            .map(|requester| {
                let (client, words) = (client.clone(), Rc::clone(&words));
                let (answers, failed) = (Rc::clone(&answers), Rc::clone(&failed));
                let (load, partitions) = (self.clone(), deployment.partitions.clone());
                let mut draw =
                    Draw(seed ^ ((u64::from(requester) + 1) << 32) ^ ((deployment.front as u64) << 56));
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
        // Dropping a call cancels it in its whole tree.
        requesters.iter().for_each(tokio::task::JoinHandle::abort);
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
        let given_bytes = match self.work {
            Work::Sample { ratio } => {
                let params = SampleParams {
                    k: DOCUMENTS,
                    text_bytes: TEXT_BYTES,
                    ratio,
                    seed,
                    ..SampleParams::new(query)
                };
                let call = client.aggregate("search/sample", &Sample, &params);
                let call = call.shape(self.shape).partitions(partitions.clone()).deadline(DEADLINE);
                full(call.await.map_err(|error| error.to_string())?)?.given_bytes
            }
            Work::Categorise => {
                let params =
                    CategoriseParams { k: DOCUMENTS, text_bytes: TEXT_BYTES, ..CategoriseParams::new(query) };
                let call = client.aggregate("search/categorise", &Categorise, &params);
                let call = call.shape(self.shape).partitions(partitions.clone()).deadline(DEADLINE);
                full(call.await.map_err(|error| error.to_string())?)?.given_bytes
            }
            Work::Bulky { bytes } => {
                let payload_bytes = bytes;
                let work =
                    MicroWork { local_ms: 0.0, reduce_ms: 0.0, payload_bytes, seed, ..MicroWork::default() };
                self.micro(client, "micro/spin", partitions, &work).await?
            }
            Work::Dear { ms } => {
                let work = MicroWork { local_ms: ms, reduce_ms: ms, seed, ..MicroWork::default() };
                self.micro(client, "micro/hold", partitions, &work).await?
            }
        };
        Ok(Answer { at: Instant::now(), took: began.elapsed(), given_bytes })
    }

    /// Calls an aggregation of MICRO. Returns the bytes of all partitions' partials.
    async fn micro(
        &self,
        client: &Client,
        name: &str,
        partitions: &PartitionSet,
        work: &MicroWork,
    ) -> Result<u64, String> {
        let call = client.call::<Folded>(name, work).shape(self.shape).partitions(partitions.clone());
        full(call.deadline(DEADLINE).await.map_err(|error| error.to_string())?)?;
        Ok(work.payload_bytes * partitions.len() as u64)
    }
}

/// The value of an answer that must be full.
fn full<T>(reply: Reply<T>) -> Result<T, String> {
    let first = reply.missing.first();
    let why = first.map(|missing| format!("; {}: {}", missing.partitions, missing.reason));
    let found =
        || format!("expected a full answer, found {}{}", reply.status.name(), why.unwrap_or_default());
    reply.value.filter(|_| reply.status == Status::Full).ok_or_else(found)
}

/// Waits for the warm-up, takes the first moment, waits for the measurement, takes the second. Ends early if
/// the clients do.
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

/// Waits until the fronts' links are idle, so that leftover traffic of one measurement does not count in the
/// next.
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

/// SplitMix64: gives the same queries for every shape of one repeat.
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
    fn quantiles_are_measured_values() {
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
