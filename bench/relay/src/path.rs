//! The way over the network: leaves that answer with bulky partials, a relay that folds them, and beside it a plain sink.

use crate::partials::Kind;
use crate::process::{Part, Played};
use crate::{Failure, gb_per_s, median};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::operators::Body;
use treefold::{Client, Status};

/// How long each is measured for in each round.
const ROUND: Duration = Duration::from_secs(2);
/// Calls on their way at a time: while one is folded, the next is coming.
const CALLS_OPEN: usize = 3;
const DEADLINE: Duration = Duration::from_secs(20);

/// What a relay takes in from so many leaves.
#[derive(Serialize)]
pub(crate) struct Figure {
    kind: Kind,
    leaves: u32,
    /// Bytes of partials that the relay took in.
    gb_per_s: f64,
    /// What a sink took in from as many writers, in the same rounds.
    sink_gb_per_s: f64,
    of_sink: f64,
}

/// Measures every kind over the network.
pub(crate) fn measure(partial_bytes: usize, leaves: u32, rounds: u32) -> Result<Vec<Figure>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let relay = Played::start(&Part::Relay { leaves })?;
    let join = || relay.addr.clone();
    let processes: Vec<Played> = (0..leaves)
        .map(|at| Played::start(&Part::Leaf { at, leaves, bytes: partial_bytes, join: join() }))
        .collect::<Result<_, _>>()?;
    let client = runtime.block_on(Client::builder().at([join()]).direct(true).connect())?;
    let mut sinks = Vec::new();
    let mut rates = vec![Vec::new(); Kind::ALL.len()];
    for round in 0..=rounds {
        let sink = sink_rate(leaves)?;
        for kind in Kind::ALL {
            let rate = runtime.block_on(relay_rate(&client, kind, partial_bytes, leaves))?;
            // The first round warms up.
            if round > 0 {
                rates[kind as usize].push(rate);
            }
        }
        if round > 0 {
            sinks.push(sink);
        }
    }
    drop(processes);
    let sink_gb_per_s = median(sinks);
    let figure = |(kind, rates)| {
        let gb_per_s = median(rates);
        Figure { kind, leaves, gb_per_s, sink_gb_per_s, of_sink: gb_per_s / sink_gb_per_s }
    };
    Ok(Kind::ALL.into_iter().zip(rates).map(figure).collect())
}

fn sink_rate(writers: u32) -> Result<f64, Failure> {
    let mut sink = Played::start(&Part::Sink)?;
    let to = sink.addr.clone();
    let _writers: Vec<Played> =
        (0..writers).map(|_| Played::start(&Part::Writer { to: to.clone() })).collect::<Result<_, _>>()?;
    std::thread::sleep(ROUND / 10);
    let (before, began_at) = (sink.bytes()?, Instant::now());
    std::thread::sleep(ROUND);
    let bytes = sink.bytes()? - before;
    Ok(gb_per_s(bytes as usize, began_at.elapsed().as_secs_f64()))
}

async fn relay_rate(client: &Client, kind: Kind, partial_bytes: usize, leaves: u32) -> Result<f64, Failure> {
    let began_at = Instant::now();
    let lane = || async {
        let mut bytes = 0;
        while began_at.elapsed() < ROUND {
            let name = format!("bulk/{}", kind.name());
            let params = (kind as u32).encode()?;
            let reply = client.call_raw(&name, params).deadline(DEADLINE).await?;
            if reply.status != Status::Full {
                return Err(format!("{kind:?}: {:?}", reply.missing).into());
            }
            bytes += partial_bytes * leaves as usize;
        }
        Ok::<usize, Failure>(bytes)
    };
    let lanes: Vec<_> = (0..CALLS_OPEN).map(|_| lane()).collect();
    let mut bytes = 0;
    for ended in join_all(lanes).await {
        bytes += ended?;
    }
    Ok(gb_per_s(bytes, began_at.elapsed().as_secs_f64()))
}

/// All of them side by side.
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
