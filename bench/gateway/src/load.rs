//! Clients that make one request after the other, and what they saw.

use crate::Problem;
use crate::http::{Connection, post};
use crate::server::{NodeArgs, start_echo};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;
use treefold::operators::merge::Sum;
use treefold::{Client, Status};
use treefold_bench_down::part::Part;
use treefold_figures::{median, quantile};

/// Time in which every client must have its connection and its first answer.
const WARM_UP: Duration = Duration::from_secs(1);
/// Pause after a connection that was refused.
const PAUSE: Duration = Duration::from_millis(5);
/// Deadline of calls. None is to be late.
const DEADLINE: Duration = Duration::from_secs(30);

/// Measure calls, each client with one open at a time
#[derive(Debug, clap::Args)]
pub(crate) struct CallsArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Clients at a time, for each row
    #[arg(long, value_delimiter = ',', default_value = "1,64,1000")]
    clients: Vec<usize>,
    /// Seconds of a round
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Rounds of each server
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// A way to ask a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Native(SocketAddr),
    Gateway(SocketAddr),
    Echo(SocketAddr),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Native(_) => "native",
            Self::Gateway(_) => "gateway",
            Self::Echo(_) => "echo",
        }
    }
}

/// The figures of a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of the server for a request, in microseconds.
    pub(crate) cpu_us: f64,
    pub(crate) errors: usize,
}

impl CallsArgs {
    #[tokio::main]
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let ((node, addrs), (echo, echo_addrs)) = (self.node.start()?, start_echo()?);
        let native = addrs.native.ok_or("the node has no address")?;
        println!("clients  server     calls/s   p50 us   p99 us   server cpu us  errors");
        for &clients in &self.clients {
            let ways = [
                (Way::Native(native), &node),
                (Way::Gateway(addrs.http), &node),
                (Way::Echo(echo_addrs.http), &echo),
            ];
            let mut rounds = [const { Vec::new() }; 3];
            for _ in 0..self.rounds {
                for ((way, part), rounds) in ways.into_iter().zip(&mut rounds) {
                    rounds.push(round(way, part, clients, Duration::from_secs_f64(self.seconds)).await?);
                }
            }
            for ((way, _), rounds) in ways.into_iter().zip(&rounds) {
                let middle =
                    |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect()).unwrap_or(0.0);
                println!(
                    "{clients:>7}  {:<8} {:>9.0} {:>8.0} {:>8.0} {:>15.1} {:>7}",
                    way.name(),
                    middle(|round| round.per_s),
                    middle(|round| round.p50_us),
                    middle(|round| round.p99_us),
                    middle(|round| round.cpu_us),
                    rounds.iter().map(|round| round.errors).sum::<usize>()
                );
            }
        }
        Ok(())
    }
}

/// Lets clients ask for a time, after a warm-up.
pub(crate) async fn round(way: Way, part: &Part, clients: usize, lasts: Duration) -> Result<Round, Problem> {
    let begin = Instant::now() + WARM_UP;
    let end = begin + lasts;
    let mut tasks = JoinSet::new();
    match way {
        Way::Native(addr) => {
            let client = Client::connect(addr).await?;
            (0..clients).for_each(|_| drop(tasks.spawn(call(client.clone(), begin, end))));
        }
        Way::Gateway(addr) => {
            let path = "/v1/call/figures/total?deadline=30s";
            (0..clients).for_each(|_| drop(tasks.spawn(post_all(addr, path, begin, end))));
        }
        Way::Echo(addr) => {
            (0..clients).for_each(|_| drop(tasks.spawn(post_all(addr, "/echo", begin, end))));
        }
    }
    tokio::time::sleep_until(begin.into()).await;
    let cpu_before = part.cpu_time()?;
    tokio::time::sleep_until(end.into()).await;
    let cpu = part.cpu_time()?.saturating_sub(cpu_before);
    let (mut took, mut errors) = (Vec::new(), 0);
    while let Some(seen) = tasks.join_next().await {
        let (some, failed) = seen?;
        took.extend(some);
        errors += failed;
    }
    took.sort_unstable();
    let at = |share| quantile(&took, share).map_or(0.0, |took: Duration| took.as_secs_f64() * 1e6);
    Ok(Round {
        per_s: took.len() as f64 / lasts.as_secs_f64(),
        p50_us: at(0.5),
        p99_us: at(0.99),
        cpu_us: cpu.as_secs_f64() * 1e6 / took.len().max(1) as f64,
        errors,
    })
}

/// The durations of the answered requests of a client within the time, and the number of failed ones.
type Seen = (Vec<Duration>, usize);

async fn call(client: Client, begin: Instant, end: Instant) -> Seen {
    let mut tally = Tally { begin, end, seen: Seen::default() };
    while Instant::now() < end {
        let asked_at = Instant::now();
        let reply = client.call::<Sum>("figures/total", &()).deadline(DEADLINE).await;
        tally.note(asked_at, reply.is_ok_and(|reply| reply.status == Status::Full));
    }
    tally.seen
}

async fn post_all(addr: SocketAddr, path: &'static str, begin: Instant, end: Instant) -> Seen {
    let mut tally = Tally { begin, end, seen: Seen::default() };
    let request = post(path, "null");
    while Instant::now() < end {
        let asked_at = Instant::now();
        let Ok(mut connection) = Connection::open(addr).await else {
            tally.note(asked_at, false);
            sleep(PAUSE).await;
            continue;
        };
        while Instant::now() < end {
            let asked_at = Instant::now();
            let status = connection.ask(&request).await;
            tally.note(asked_at, matches!(status, Ok(200)));
            if status.is_err() {
                break;
            }
        }
    }
    tally.seen
}

/// The requests of a client that began and ended in the time.
struct Tally {
    begin: Instant,
    end: Instant,
    seen: Seen,
}

impl Tally {
    fn note(&mut self, asked_at: Instant, is_answered: bool) {
        let now = Instant::now();
        if asked_at < self.begin || now > self.end {
            return;
        }
        let (took, errors) = &mut self.seen;
        if is_answered { took.push(now - asked_at) } else { *errors += 1 }
    }
}
