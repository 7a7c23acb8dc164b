//! Round trips with one call in flight, then calls per second with many in flight.
//!
//! The phases are those of `treefold bench call`: answers must be exact for two seconds, then calls are made one after the
//! other, then the pipeline is measured while it is full.

use crate::Problem;
use crate::work::{Kind, NODES_MAX};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use treefold_bench_down::clock::cpu_time;
use treefold_bench_down::part::Part;
use treefold_figures::quantile;

/// Deadline of each call. No call is to miss it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// Limit on the time until answers are exact.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for which answers must have been exact before the first call is measured.
const STEADY_FOR: Duration = Duration::from_secs(2);
/// Pause after a call that failed before answers are exact.
const PAUSE: Duration = Duration::from_millis(2);
/// Time that the pipeline runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// Sizes and durations of a measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Number of servers; each is a process
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    pub(crate) nodes: u32,
    /// Kinds of partials that servers return
    #[arg(long, value_delimiter = ',', default_value = "int,topk")]
    pub(crate) partials: Vec<Kind>,
    /// Number of calls made one after another
    #[arg(long, value_name = "R", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of calls in flight while throughput is measured
    #[arg(long, value_name = "D", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16384))]
    in_flight: u32,
    /// Duration of the throughput measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
}

/// Makes calls and checks the answers.
pub(crate) trait Caller: Send + Sync + 'static {
    /// Makes one call.
    fn call(&self, kind: Kind) -> impl Future<Output = Result<(), Problem>> + Send;
}

/// The measured figures, in the words of `treefold bench call`.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    peer: &'static str,
    mode: String,
    partial: Kind,
    nodes: u32,
    in_flight: u32,
    rounds: u32,
    roundtrip_us_p50: f64,
    roundtrip_us_p99: f64,
    roundtrip_cpu_us: f64,
    client_roundtrip_cpu_us: f64,
    calls_per_s: f64,
    cpu_us_per_call: f64,
    client_cpu_us_per_call: f64,
}

/// Measures each kind of partial, and prints a line for each.
pub(crate) async fn measure(
    (peer, mode): (&'static str, String),
    plan: &Plan,
    caller: Arc<impl Caller>,
    servers: &[Part],
) -> Result<(), Problem> {
    for &kind in &plan.partials {
        await_exact_answers(&*caller, kind).await?;
        let before = Moment::of(servers, 0)?;
        let mut took = Vec::with_capacity(plan.rounds as usize);
        for _ in 0..plan.rounds {
            let asked_at = Instant::now();
            caller.call(kind).await?;
            took.push(asked_at.elapsed());
        }
        let single = before.until(&Moment::of(servers, u64::from(plan.rounds))?)?;
        took.sort_unstable();
        let pipelined = pipeline(plan, kind, &caller, servers).await?;
        let at = |share| quantile(&took, share).map_or(0.0, |took: Duration| took.as_secs_f64() * 1e6);
        let figures = Figures {
            peer,
            mode: mode.clone(),
            partial: kind,
            nodes: plan.nodes,
            in_flight: plan.in_flight,
            rounds: plan.rounds,
            roundtrip_us_p50: at(0.5),
            roundtrip_us_p99: at(0.99),
            roundtrip_cpu_us: single.cpu_us,
            client_roundtrip_cpu_us: single.client_cpu_us,
            calls_per_s: pipelined.per_s,
            cpu_us_per_call: pipelined.cpu_us,
            client_cpu_us_per_call: pipelined.client_cpu_us,
        };
        println!("{}", serde_json::to_string(&figures)?);
    }
    Ok(())
}

async fn await_exact_answers(caller: &impl Caller, kind: Kind) -> Result<(), Problem> {
    let (began_at, mut steady_since) = (Instant::now(), Instant::now());
    while steady_since.elapsed() < STEADY_FOR {
        if let Err(problem) = caller.call(kind).await {
            if began_at.elapsed() > FIRST_ANSWER_TIMEOUT {
                return Err(problem);
            }
            tokio::time::sleep(PAUSE).await;
            steady_since = Instant::now();
        }
    }
    Ok(())
}

/// Keeps calls in flight and measures in the middle.
async fn pipeline(
    plan: &Plan,
    kind: Kind,
    caller: &Arc<impl Caller>,
    servers: &[Part],
) -> Result<Span, Problem> {
    let (calls, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for _ in 0..plan.in_flight {
        let (caller, calls, stop) = (Arc::clone(caller), Arc::clone(&calls), Arc::clone(&stop));
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                caller.call(kind).await?;
                calls.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Problem>(())
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let before = Moment::of(servers, calls.load(Ordering::Relaxed))?;
    tokio::time::sleep(Duration::from_secs_f64(plan.seconds)).await;
    let after = Moment::of(servers, calls.load(Ordering::Relaxed))?;
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    before.until(&after)
}

/// Calls and processor time up to one moment.
struct Moment {
    at: Instant,
    calls: u64,
    servers_cpu: Duration,
    own_cpu: Duration,
}

/// Figures between two moments.
struct Span {
    per_s: f64,
    cpu_us: f64,
    client_cpu_us: f64,
}

impl Moment {
    fn of(servers: &[Part], calls: u64) -> Result<Self, Problem> {
        let own_cpu = cpu_time(std::process::id())?;
        let servers_cpu = servers.iter().map(Part::cpu_time).sum::<Result<_, _>>()?;
        Ok(Self { at: Instant::now(), calls, servers_cpu, own_cpu })
    }

    fn until(&self, later: &Self) -> Result<Span, Problem> {
        let calls = later.calls - self.calls;
        if calls == 0 {
            return Err("no call ended while throughput was measured; increase --seconds".into());
        }
        let per_call_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / calls as f64;
        let own_cpu = later.own_cpu - self.own_cpu;
        Ok(Span {
            per_s: calls as f64 / (later.at - self.at).as_secs_f64(),
            cpu_us: per_call_us(later.servers_cpu - self.servers_cpu + own_cpu),
            client_cpu_us: per_call_us(own_cpu),
        })
    }
}
