//! Measures how soon a pushed operator works in a running cluster, and its cost beside the same code built
//! in.
//!
//! ```console
//! $ cargo run --profile lean -p treefold-bench-operators > operators.json
//! ```
//!
//! There are sixteen nodes, each a process, with one endpoint each that holds 100 rows. A stream connects
//! them as a tree of fan-out 4. The example guest `top_k` folds the rows into the best 10. The first figures
//! are the times from the push at the front-end until the stream is open at all nodes, and until its first
//! wave has arrived. They include fetching and compiling at 16 processes at once. Then come waves per second
//! with several waves in flight, and the round trip of a single wave, for the same Rust code as three
//! filters: built into the nodes and run on their loops; built in and run on their workers, where guests run
//! too; and sent as a guest.

#[path = "../../../crates/cli/src/foreign.rs"]
#[allow(unreachable_pub, reason = "it is part of a library, too")]
mod foreign;
mod node;

/// The example guest, compiled natively.
#[path = "../../../crates/guest/examples/top_k.rs"]
#[allow(unreachable_pub, reason = "elsewhere it is a separate crate")]
mod top_k;

use bytes::Bytes;
use node::{K, NodeProcess};
use serde::Serialize;
use std::time::{Duration, Instant};
use treefold::foreign::filter_name;
use treefold::operators::Raw;
use treefold::{Client, Error, Shape, Stream};

/// The guest in the form in which it is sent.
const GUEST: &[u8] = include_bytes!("../../../crates/wasm/fixtures/top_k.wasm");
/// Node processes, with one endpoint each.
const NODES: u32 = 16;
/// Children of each inner node.
const FAN_OUT: u32 = 4;
/// Waves in flight.
const WAVES_OPEN: usize = 64;
/// Time for which waves are counted in each round.
const ROUND: Duration = Duration::from_secs(2);
/// Rounds. The filters alternate, and the best round of each is reported.
const ROUNDS: usize = 5;
/// Round trips of single waves in each round.
const ROUND_TRIPS: usize = 500;

/// The report, printed as one line of JSON.
#[derive(Serialize)]
struct Report {
    nodes: u32,
    fan_out: u32,
    guest_bytes: usize,
    /// Time until the front-end had accepted the guest: checked and compiled it.
    push_ms: f64,
    /// Time from the start of the push until the stream was open at all nodes.
    opened_ms: f64,
    /// Time from the start of the push until the first wave arrived.
    first_wave_ms: f64,
    filters: Vec<Figures>,
}

/// The figures of a filter.
#[derive(Serialize)]
struct Figures {
    filter: &'static str,
    waves_per_s: f64,
    round_trip_us_p50: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match node::Place::of_environment() {
        Some(place) => runtime.block_on(node::serve(place)),
        None => {
            let report = runtime.block_on(measure())?;
            println!("{}", serde_json::to_string(&report)?);
            Ok(())
        }
    }
}

async fn measure() -> Result<Report, Box<dyn std::error::Error>> {
    let mut nodes: Vec<NodeProcess> = Vec::new();
    for at in 0..NODES {
        let first = nodes.first().map(|first| first.addr.clone());
        nodes.push(NodeProcess::start(at, NODES, first)?);
    }
    let builder = Client::builder().at([&nodes[0].addr]).direct(true);
    let client = builder.service(node::service()).foreign(foreign::guests()).connect().await?;
    while open(&client, "").await?.endpoints().len() < NODES as usize {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let started = Instant::now();
    let pushed = client.operator_push(GUEST).await?;
    let push_ms = ms_since(started);
    let mut sent = open(&client, &filter_name(pushed.id)).await?;
    let opened_ms = ms_since(started);
    round_trip(&mut sent).await?;
    let first_wave_ms = ms_since(started);

    let mut streams = [
        ("built in, on the loop", open(&client, "figures/top-k").await?),
        ("built in, on a worker", open(&client, "figures/top-k-on-worker").await?),
        ("sent, on a worker", sent),
    ];
    let mut filters = Vec::new();
    for (filter, _) in &streams {
        filters.push(Figures { filter, waves_per_s: 0.0, round_trip_us_p50: f64::INFINITY });
    }
    for _ in 0..ROUNDS {
        for ((_, stream), best) in streams.iter_mut().zip(&mut filters) {
            best.waves_per_s = best.waves_per_s.max(waves_per_s(stream).await?);
            best.round_trip_us_p50 = best.round_trip_us_p50.min(round_trip_us_p50(stream).await?);
        }
    }
    let (nodes, fan_out, guest_bytes) = (NODES, FAN_OUT, GUEST.len());
    Ok(Report { nodes, fan_out, guest_bytes, push_ms, opened_ms, first_wave_ms, filters })
}

async fn open(client: &Client, filter: &str) -> Result<Stream, Error> {
    let k = Raw(Bytes::copy_from_slice(&K.to_le_bytes()));
    client.stream("figures").up_filter(filter).filter_params(&k).shape(Shape::KAry(FAN_OUT)).open().await
}

/// Sends a packet and checks that its wave is complete and correct.
async fn round_trip(stream: &mut Stream) -> Result<(), Error> {
    stream.send(Bytes::new()).await?;
    check(stream).await
}

async fn check(stream: &mut Stream) -> Result<(), Error> {
    let wave = stream.wave().await?;
    assert_eq!(wave.contributors.len(), NODES as usize, "missing: {:?}", wave.missing);
    assert_eq!(
        wave.packets.iter().map(Bytes::len).sum::<usize>(),
        16 * K as usize,
        "expected the best rows of all endpoints"
    );
    Ok(())
}

async fn waves_per_s(stream: &mut Stream) -> Result<f64, Error> {
    let started = Instant::now();
    for _ in 0..WAVES_OPEN {
        stream.send(Bytes::new()).await?;
    }
    let mut waves = 0_u32;
    while started.elapsed() < ROUND {
        check(stream).await?;
        waves += 1;
        stream.send(Bytes::new()).await?;
    }
    let figure = f64::from(waves) / started.elapsed().as_secs_f64();
    for _ in 0..WAVES_OPEN {
        check(stream).await?;
    }
    Ok(figure)
}

async fn round_trip_us_p50(stream: &mut Stream) -> Result<f64, Error> {
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let started = Instant::now();
        round_trip(stream).await?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    Ok(times[ROUND_TRIPS / 2].as_secs_f64() * 1e6)
}

fn ms_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}
