//! `treefold vectors recall`: the recall of an index, and the time of its answers.

use super::asked::{Asked, median_ms, quantile_ms, read_rows, recall};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use treefold_vectors::limits::{EF_DEFAULT, EF_MAX, K_DEFAULT, K_MAX};
use treefold_vectors::{Nearest, NearestParams};

/// Ask queries through the index and exactly, and report the share of neighbours that the index finds
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Recall {
    #[command(flatten)]
    asked: Asked,

    /// A .npy or .fvecs file of queries
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,

    /// Number of queries, from the first row on
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rows: u64,

    /// Number of neighbours
    #[arg(short, value_name = "N", default_value_t = K_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(K_MAX)))]
    k: u32,

    /// Breadth of the search in the index
    #[arg(long, value_name = "N", default_value_t = EF_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(EF_MAX)))]
    ef: u32,

    /// Also measure calls per second, with this many calls in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    in_flight: Option<u32>,

    /// Duration of the measurement of calls per second, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = crate::parse::seconds)]
    seconds: f64,
}

const EXAMPLES: &str = "\
Every query must be answered by all partitions. With -o json, one line:
  {queries, k, ef, recall, index_ms_p50, index_ms_p99, exact_ms_p50, index_compared, exact_compared, calls_per_s}
calls_per_s, of the index, is there with --in-flight.

Examples:
  treefold vectors recall --at 127.0.0.1:7700 --queries queries.npy -k 10
  treefold vectors recall --at 127.0.0.1:7700 --queries queries.npy --rows 1000 --ef 200 --in-flight 16 -o json";

/// The measured figures.
#[derive(Serialize)]
struct Figures {
    queries: usize,
    k: u32,
    ef: u32,
    recall: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    index_ms_p50: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    index_ms_p99: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    exact_ms_p50: f64,
    /// Distances for each query.
    index_compared: u64,
    exact_compared: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_per_s: Option<f64>,
}

const KIND: &str = "vectors/nearest";

impl Recall {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let queries = read_rows(&self.queries, 0, self.rows)?;
        let asking = Rc::new(self.asked.connect().await?);
        let (k, ef) = (self.k, self.ef);
        let of = |exact| -> Vec<NearestParams> {
            let params =
                |vector: &Vec<f32>| NearestParams { k, ef, exact, ..NearestParams::new(vector.clone()) };
            queries.iter().map(params).collect()
        };
        let indexed = Rc::new(of(false));
        let (found, mut index_times) = asking.each::<Nearest>(KIND, &indexed).await?;
        let (exact, exact_times) = asking.each::<Nearest>(KIND, &of(true)).await?;
        let calls_per_s = match self.in_flight {
            Some(in_flight) => {
                let during = Duration::from_secs_f64(self.seconds);
                Some(asking.throughput::<Nearest>(KIND, &indexed, in_flight, during).await?)
            }
            None => None,
        };
        let (mut hits, mut all) = (0, 0);
        for (found, exact) in found.iter().zip(&exact) {
            let (of_this, of_all) = recall(rows(exact).iter(), &rows(found));
            (hits, all) = (hits + of_this, all + of_all);
        }
        let compared = |answers: &[Nearest]| {
            answers.iter().map(|answer| answer.compared).sum::<u64>() / answers.len().max(1) as u64
        };
        let figures = Figures {
            queries: queries.len(),
            k,
            ef,
            recall: if all == 0 { 1.0 } else { hits as f64 / all as f64 },
            index_ms_p50: quantile_ms(&mut index_times, 0.5),
            index_ms_p99: quantile_ms(&mut index_times, 0.99),
            exact_ms_p50: median_ms(exact_times),
            index_compared: compared(&found),
            exact_compared: compared(&exact),
            calls_per_s,
        };
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        Ok(Verdict::Full)
    }
}

fn rows(answer: &Nearest) -> Vec<(u64, u32)> {
    answer.neighbours.iter().map(|near| (near.row, near.partition)).collect()
}

fn render(figures: &Figures) -> String {
    let Figures { queries, k, ef, recall, index_ms_p50, index_ms_p99, exact_ms_p50, .. } = figures;
    let throughput = figures
        .calls_per_s
        .map_or_else(String::new, |calls| format!("\n  {calls:.0} calls/s through the index"));
    format!(
        "{queries} queries, k {k}, ef {ef}\n  recall@{k} {recall:.4}\n  index {index_ms_p50:.2} ms median, {index_ms_p99:.2} ms at \
         the 99th percentile, {} distances a query\n  exact {exact_ms_p50:.2} ms median, {} distances a query{throughput}",
        figures.index_compared, figures.exact_compared
    )
}
