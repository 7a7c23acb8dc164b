//! `treefold sql`: a query over the tables of all partitions.

use crate::args::At;
use crate::args::Output;
use crate::exit::{Failure, Verdict};
use crate::parse;
use crate::sql::{self, Query, SERVICE};
use clap::Args;
use std::time::Duration;

/// Ask one SQL query over the tables of all partitions
///
/// The query is a select over one table with aggregates or groups: count, sum, min, max, avg, stddev, variance,
/// approx_count_distinct, approx_quantile, with where, group by, having, order by and limit. Each partition
/// aggregates its own rows, nodes fold the groups on their way up, and this process computes the rest of the query. A
/// query that can't be divided is refused with the reason.
///
/// The table goes to standard output, and the coverage to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Sql {
    /// The query
    #[arg(value_name = "QUERY")]
    query: String,

    #[command(flatten)]
    at: At,

    /// Deadline of the answer, with its unit: 200ms, 1.5s, 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::deadline, allow_hyphen_values = true)]
    deadline: Duration,

    /// Minimum coverage: the least share of partitions that makes an answer, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse::min_coverage, allow_hyphen_values = true)]
    min_coverage: f64,

    /// Name of the service that has the tables
    #[arg(long, value_name = "NAME", default_value = SERVICE)]
    service: String,

    /// Print how the query is divided instead of the answer
    #[arg(long)]
    plan: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Exit codes:
  0 full, 3 partial but at or above the minimum coverage, 4 below it, 5 no node reached or no provider in sight, 2 refused

Examples:
  treefold sql 'select count(*) from lineitem' --at 127.0.0.1:7700
  treefold sql 'select host, avg(ms), stddev(ms) from requests group by host order by 2 desc limit 10' --at 127.0.0.1:7700
  treefold sql 'select approx_quantile(ms, 0.99) from requests' --at 127.0.0.1:7700 --min-coverage 0.9 -o csv";

impl Sql {
    pub(crate) fn run(self, output: Output) -> Result<Verdict, Failure> {
        sql::ask(&Query {
            sql: self.query,
            at: self.at.to_vec(),
            service: self.service,
            cluster: self.cluster,
            deadline: self.deadline,
            min_coverage: self.min_coverage,
            output: match output {
                Output::Text => "text",
                Output::Json => "json",
                Output::Csv => "csv",
            },
            plan: self.plan,
        })
    }
}
