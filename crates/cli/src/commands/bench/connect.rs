//! `treefold bench connect`: connections per second to one node, greeting included.
//!
//! Clients connect to a node one after another, on several tasks, and each asks nothing. The figures are the price of a
//! connection: of the greeting alone, or with a token or keys in the environment that of a TLS session too.

use super::moment::Moment;
use crate::commands::connect;
use crate::exit::{Failure, Verdict};
use crate::fleet::{Fleet, Placement};
use crate::output::{Format, print, print_json, rounded};
use crate::parse;
use crate::trust::Trust;
use clap::Args;
use serde::Serialize;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, spawn_local};

/// Measure connections to one node process: connections per second, processor time per connection
///
/// With keys or a token in the environment, each connection has a TLS session.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchConnect {
    /// Number of clients that connect at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,

    /// Duration of the measurement, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = parse::seconds)]
    seconds: f64,
}

const EXAMPLES: &str = "\
With -o json, one line: {trust, clients, connections_per_s, cpu_us_per_connection, client_cpu_us_per_connection}
cpu_us_per_connection counts both processes; client_cpu_us_per_connection is the part of the clients.

Examples:
  treefold bench connect
  TREEFOLD_TOKEN=$(openssl rand -hex 16) treefold bench connect -o json";

#[derive(Serialize)]
struct Figures {
    trust: &'static str,
    clients: u32,
    #[serde(serialize_with = "rounded")]
    connections_per_s: f64,
    #[serde(serialize_with = "rounded")]
    cpu_us_per_connection: f64,
    #[serde(serialize_with = "rounded")]
    client_cpu_us_per_connection: f64,
}

/// Time that clients connect before it counts.
const WARM_UP: Duration = Duration::from_millis(500);

impl BenchConnect {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let trust = match Trust::of_environment()? {
            Trust::Open => "none",
            Trust::Token(_) => "token",
            Trust::Keys(_) => "keys",
        };
        let fleet = Fleet::start(Placement::one_each(1)).await?;
        let span = LocalSet::new().run_until(self.measure(&fleet)).await;
        fleet.end().await;
        let span = span?;
        let figures = Figures {
            trust,
            clients: self.clients,
            connections_per_s: span.waves_per_s(),
            cpu_us_per_connection: span.cpu_us_per_wave(),
            client_cpu_us_per_connection: span.own_cpu_us_per_wave(),
        };
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(format_args!(
                "{:.0} connections/s with {} clients (trust: {trust}); {:.0} µs of processor time each, {:.0} µs of it at \
                 the client",
                figures.connections_per_s,
                figures.clients,
                figures.cpu_us_per_connection,
                figures.client_cpu_us_per_connection
            )),
        }
        Ok(Verdict::Full)
    }

    async fn measure(&self, fleet: &Fleet) -> Result<super::moment::Span, Failure> {
        let made = Rc::new(Cell::new(0));
        let until = Instant::now() + WARM_UP + Duration::from_secs_f64(self.seconds);
        let tasks: Vec<_> = (0..self.clients)
            .map(|_| {
                let (made, at) = (Rc::clone(&made), vec![fleet.first_addr().to_owned()]);
                let cluster = fleet.cluster().to_owned();
                spawn_local(async move {
                    while Instant::now() < until {
                        drop(connect(&at, false, &cluster).await?);
                        made.set(made.get() + 1);
                    }
                    Ok::<_, Failure>(())
                })
            })
            .collect();
        tokio::time::sleep(WARM_UP).await;
        let processes = fleet.processes();
        let before = Moment::of(&processes, made.get())?;
        tokio::time::sleep(Duration::from_secs_f64(self.seconds)).await;
        let after = Moment::of(&processes, made.get())?;
        for task in tasks {
            task.await.map_err(|error| Failure::failed(format!("a client died: {error}")))??;
        }
        before.until(&after)
    }
}
