//! `bench-mirrors joins` and `bench-mirrors rate`: side by side with other systems.

use crate::Problem;
use crate::report::{Output, Row, print};
use crate::system::System;
use crate::trial::{Load, Plan, Stage, word};
use crate::work::Work;
use clap::Args;

/// The measurements that are repeated, and their form.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rounds {
    /// Rounds; all systems alternate, and medians are reported
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 2.0)]
    pub(crate) seconds: f64,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// Measure regular readers' delay while others join, and the joins
#[derive(Debug, Args)]
pub(crate) struct JoinsArgs {
    /// Systems, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "treefold,treefold-http,redis,redis-scan,jetstream,jetstream-always,nats"
    )]
    systems: Vec<System>,
    /// Numbers of keys
    #[arg(long, value_delimiter = ',', default_values_t = [6_000, 100_000])]
    keys: Vec<u32>,
    /// Bytes of an event's body
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    bytes: Vec<usize>,
    /// Events per second; `max` is as many as may be
    #[arg(long, value_delimiter = ',', default_value = "5000,max", value_parser = rate)]
    rates: Vec<Rate>,
    /// Joins per second; `max` is eight joiners that join again and again
    #[arg(long, value_delimiter = ',', default_value = "0,4,40", value_parser = rate)]
    joins: Vec<Rate>,
    /// Processes of regular readers
    #[arg(long, default_value_t = 2)]
    readers: u32,
    #[command(flatten)]
    rounds: Rounds,
}

/// A rate; `None` is as much as may be.
pub(crate) type Rate = Option<f64>;

/// Reads a rate.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    match text {
        "max" => Ok(None),
        text => match text.parse() {
            Ok(rate) if rate >= 0.0 => Ok(Some(rate)),
            _ => Err(format!("expected a rate per second or max, found {text:?}")),
        },
    }
}

/// Measure events per second to mirrors, or to subscribers that keep the last body of each key
#[derive(Debug, Args)]
pub(crate) struct RateArgs {
    /// Systems, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "treefold,redis,jetstream,nats")]
    systems: Vec<System>,
    /// Numbers of mirrors
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    mirrors: Vec<u32>,
    /// Numbers of keys
    #[arg(long, value_delimiter = ',', default_values_t = [6_000])]
    keys: Vec<u32>,
    /// Bytes of an event's body
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000])]
    bytes: Vec<usize>,
    #[command(flatten)]
    rounds: Rounds,
}

pub(crate) fn run_joins(args: &JoinsArgs) -> Result<(), Problem> {
    let mut cases = Vec::new();
    for &keys in &args.keys {
        for &bytes in &args.bytes {
            cases.extend(args.systems.iter().map(|&system| (system, Work { keys, bytes })));
        }
    }
    // Loads at a fixed rate come first, so that nothing of a saturated one is left.
    let mut rates = args.rates.clone();
    rates.sort_by_key(Option::is_none);
    let loads: Vec<Load> =
        rates.iter().flat_map(|&rate| args.joins.iter().map(move |&joins| Load { rate, joins })).collect();
    rounds(&cases, &args.rounds, |&(system, work)| {
        let plan =
            Plan { readers: args.readers, has_joiner: system.has_snapshots(), ..Plan::new(system, work) };
        let mut stage = Stage::start(&plan)?;
        let mut rows = Vec::new();
        for &load in &loads {
            if load.joins != Some(0.0) && !system.has_snapshots() {
                continue;
            }
            let case = vec![
                ("system", system.to_string()),
                ("keys", work.keys.to_string()),
                ("bytes", work.bytes.to_string()),
                ("rate", word(load.rate)),
                ("joins", word(load.joins)),
            ];
            rows.push(Row::of_point(case, &stage.measure(load, args.rounds.seconds)?));
        }
        Ok(rows)
    })
}

pub(crate) fn run_rate(args: &RateArgs) -> Result<(), Problem> {
    let mut cases = Vec::new();
    for &keys in &args.keys {
        for &bytes in &args.bytes {
            for &mirrors in &args.mirrors {
                cases.extend(args.systems.iter().map(|&system| (system, Work { keys, bytes }, mirrors)));
            }
        }
    }
    rounds(&cases, &args.rounds, |&(system, work, mirrors)| {
        let plan = if system.is_treefold() {
            Plan { mirrors, ..Plan::new(system, work) }
        } else {
            Plan { readers: mirrors, keeps_state: true, ..Plan::new(system, work) }
        };
        let mut stage = Stage::start(&plan)?;
        let point = stage.measure(Load { rate: None, joins: Some(0.0) }, args.rounds.seconds)?;
        let case = vec![
            ("system", system.to_string()),
            ("keys", work.keys.to_string()),
            ("bytes", work.bytes.to_string()),
            ("mirrors", mirrors.to_string()),
        ];
        Ok(vec![Row::of_point(case, &point)])
    })
}

/// Measures all cases in turn, round by round, and prints the medians. A round that fails is told and left out.
pub(crate) fn rounds<C>(
    cases: &[C],
    rounds: &Rounds,
    mut measure: impl FnMut(&C) -> Result<Vec<Row>, Problem>,
) -> Result<(), Problem> {
    let mut measured: Vec<Vec<Vec<Row>>> = cases.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds.rounds {
        for (at, (case, of_case)) in cases.iter().zip(&mut measured).enumerate() {
            match measure(case) {
                Ok(rows) => {
                    let name = rows.first().map_or_else(String::new, |row| {
                        row.case.iter().map(|(name, value)| format!(" {name} {value}")).collect()
                    });
                    eprintln!("round {round} of {}, {} of {}:{name}", rounds.rounds, at + 1, cases.len());
                    of_case.push(rows);
                }
                Err(problem) if problem.to_string() == "interrupted" => return Err(problem),
                Err(problem) => eprintln!("bench-mirrors: left out a round: {problem}"),
            }
        }
    }
    let mut medians = Vec::new();
    for of_case in &measured {
        let rows = of_case.first().map_or(0, Vec::len);
        for at in 0..rows {
            let same: Vec<Row> = of_case.iter().map(|rows| rows[at].clone()).collect();
            medians.extend(Row::medians(&same));
        }
    }
    print(&medians, rounds.output);
    Ok(())
}
