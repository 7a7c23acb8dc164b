//! The network part: leaves answer with large partials, a relay folds them, and a plain sink runs for
//! comparison.

use crate::partials::Kind;
use crate::process::{BLOCK, Part, Played};
use crate::{Failure, gb_per_s, median};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::operators::Body;
use treefold::{Client, Status};

/// Measuring time of each case in each round.
const ROUND: Duration = Duration::from_secs(2);
/// Calls in flight: while one is folded, the next is arriving.
const CALLS_OPEN: usize = 3;
const DEADLINE: Duration = Duration::from_secs(20);

/// The rate at which a relay receives partials from a number of leaves.
#[derive(Serialize)]
pub(crate) struct Figure {
    kind: Kind,
    leaves: u32,
    /// Bytes of partials that the relay received.
    gb_per_s: f64,
    /// Rate of a sink with as many writers, in the same rounds.
    sink_gb_per_s: f64,
    of_sink: f64,
    /// Rate of a sink that keeps as much data as a relay, with writers that send as much as leaves.
    keeping_sink_gb_per_s: f64,
    of_keeping_sink: f64,
    /// Processor seconds of the relay's process per GB received, including passing results on.
    cpu_s_per_gb: f64,
    /// Processor seconds of the sinks' processes per GB received.
    sink_cpu_s_per_gb: f64,
    keeping_sink_cpu_s_per_gb: f64,
}

/// The rate of a process in one round.
#[derive(Clone, Copy)]
struct Rate {
    gb_per_s: f64,
    cpu_s_per_gb: f64,
}

impl Rate {
    fn of(bytes: usize, seconds: f64, cpu_seconds: f64) -> Self {
        Self { gb_per_s: gb_per_s(bytes, seconds), cpu_s_per_gb: cpu_seconds / (bytes as f64 / 1e9) }
    }

    /// Returns the median of each figure.
    fn median(rates: &[Self]) -> Self {
        let of = |value: fn(&Self) -> f64| median(rates.iter().map(value).collect());
        Self { gb_per_s: of(|rate| rate.gb_per_s), cpu_s_per_gb: of(|rate| rate.cpu_s_per_gb) }
    }
}

/// Measures every kind over the network.
pub(crate) fn measure(
    kinds: &[Kind],
    partial_bytes: usize,
    leaves: u32,
    rounds: u32,
) -> Result<Vec<Figure>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let relay = Played::start(&Part::Relay { leaves })?;
    let join = || relay.addr.clone();
    let processes: Vec<Played> = (0..leaves)
        .map(|at| Played::start(&Part::Leaf { at, leaves, bytes: partial_bytes, join: join() }))
        .collect::<Result<_, _>>()?;
    let client = runtime.block_on(Client::builder().at([join()]).direct(true).connect())?;
    let (mut sinks, mut keeping_sinks) = (Vec::new(), Vec::new());
    let mut rates = vec![Vec::new(); kinds.len()];
    for round in 0..=rounds {
        let sink = sink_rate(leaves, BLOCK, BLOCK)?;
        let keeping_sink = sink_rate(leaves, CALLS_OPEN * partial_bytes, partial_bytes)?;
        for (&kind, rates) in kinds.iter().zip(&mut rates) {
            let rate =
                runtime.block_on(relay_rate(&client, &relay, kind, partial_bytes * leaves as usize))?;
            // The first round is a warm-up.
            if round > 0 {
                rates.push(rate);
            }
        }
        if round > 0 {
            sinks.push(sink);
            keeping_sinks.push(keeping_sink);
        }
    }
    drop(processes);
    let (sink, keeping_sink) = (Rate::median(&sinks), Rate::median(&keeping_sinks));
    let figure = |(&kind, rates): (&Kind, Vec<Rate>)| {
        let rate = Rate::median(&rates);
        Figure {
            kind,
            leaves,
            gb_per_s: rate.gb_per_s,
            sink_gb_per_s: sink.gb_per_s,
            of_sink: rate.gb_per_s / sink.gb_per_s,
            keeping_sink_gb_per_s: keeping_sink.gb_per_s,
            of_keeping_sink: rate.gb_per_s / keeping_sink.gb_per_s,
            cpu_s_per_gb: rate.cpu_s_per_gb,
            sink_cpu_s_per_gb: sink.cpu_s_per_gb,
            keeping_sink_cpu_s_per_gb: keeping_sink.cpu_s_per_gb,
        }
    };
    Ok(kinds.iter().zip(rates).map(figure).collect())
}

/// Measures a sink with `writers` writers, each of which sends the same `bytes` bytes repeatedly.
fn sink_rate(writers: u32, keeps: usize, bytes: usize) -> Result<Rate, Failure> {
    let mut sink = Played::start(&Part::Sink { keeps })?;
    let writer = Part::Writer { bytes, to: sink.addr.clone() };
    let _writers: Vec<Played> = (0..writers).map(|_| Played::start(&writer)).collect::<Result<_, _>>()?;
    std::thread::sleep(ROUND / 10);
    let (bytes, cpu, began_at) = (sink.bytes()?, sink.processor_seconds()?, Instant::now());
    std::thread::sleep(ROUND);
    let (bytes, cpu) = (sink.bytes()? - bytes, sink.processor_seconds()? - cpu);
    Ok(Rate::of(bytes as usize, began_at.elapsed().as_secs_f64(), cpu))
}

/// Measures calls in which the relay receives `bytes_of_call` bytes each.
async fn relay_rate(
    client: &Client,
    relay: &Played,
    kind: Kind,
    bytes_of_call: usize,
) -> Result<Rate, Failure> {
    let (cpu, began_at) = (relay.processor_seconds()?, Instant::now());
    let caller = || async {
        let mut bytes = 0;
        while began_at.elapsed() < ROUND {
            let name = format!("bulk/{}", kind.name());
            let params = (kind as u32).encode()?;
            let reply = client.call_raw(&name, params).deadline(DEADLINE).await?;
            if reply.status != Status::Full {
                return Err(format!("{kind:?}: {:?}", reply.missing).into());
            }
            bytes += bytes_of_call;
        }
        Ok::<usize, Failure>(bytes)
    };
    let callers: Vec<_> = (0..CALLS_OPEN).map(|_| caller()).collect();
    let mut bytes = 0;
    for ended in join_all(callers).await {
        bytes += ended?;
    }
    Ok(Rate::of(bytes, began_at.elapsed().as_secs_f64(), relay.processor_seconds()? - cpu))
}

/// Runs all futures concurrently.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut ended: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, ended) in futures.iter_mut().zip(&mut ended) {
            if ended.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *ended = Some(output);
            }
        }
        if ended.iter().all(Option::is_some) {
            return std::task::Poll::Ready(ended.iter_mut().filter_map(Option::take).collect());
        }
        std::task::Poll::Pending
    })
    .await
}
