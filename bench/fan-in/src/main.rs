//! Measures one root over up to 10,000 children: does its work grow linearly or quadratically with the
//! children?
//!
//! ```console
//! $ cargo run --profile lean -p treefold-bench-fan-in -- core
//! $ cargo run --profile lean -p treefold-bench-fan-in -- stream
//! $ cargo run --profile lean -p treefold-bench-fan-in -- network
//! $ cargo run --profile lean -p treefold-bench-fan-in -- terms --children 1000,10000
//! ```
//!
//! - [`call`]: core alone, without a driver. A root asks n children and takes their partials, in several
//!   patterns.
//! - [`stream`]: the same for a stream: opening it, waves that wait for all, and packets down.
//! - [`network`]: over the network. A [`root`] process with the real driver folds the partials of n
//!   connections. This process holds the other ends.
//!
//! - [`terms`]: a terms aggregation over the network, whose partials grow when they are folded: flat, and with a tree of
//!   [`root`] processes.
//!
//! Except in `terms`, a figure is the processor time of the root per partial. If the work is linear in the number of children,
//! the figure is the same for 1,000 and for 10,000. Sizes and patterns alternate round by round, and medians
//! are reported, because the machine may be shared.

mod call;
mod clock;
mod network;
mod peer;
mod root;
mod stream;
mod terms;

use call::Pattern;
use clap::{Parser, Subcommand, ValueEnum};
use network::Dials;
use serde::Serialize;

/// Measure one root over many children
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    part: Part,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text, global = true)]
    output: Output,

    /// Children of the root; several, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000], global = true,
          value_parser = clap::value_parser!(u32).range(1..=16_000))]
    children: Vec<u32>,

    /// Rounds; all cases alternate, and medians are reported
    #[arg(long, default_value_t = 5, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Measure a root of core alone, with simulated inputs
    Core {
        /// Patterns; several, separated by commas
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = Pattern::ALL)]
        patterns: Vec<Pattern>,
    },
    /// Measure a root of core alone in a stream, with simulated inputs
    Stream {
        /// Patterns; several, separated by commas
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = stream::Pattern::ALL)]
        patterns: Vec<stream::Pattern>,
    },
    /// Measure a root process with the real driver; this process is its parent and its children, on separate
    /// connections
    Network {
        /// Side that opens the connections
        #[arg(long, value_enum, default_value_t = Dials::Children)]
        dials: Dials,
    },
    /// Measure a terms aggregation over many shards, flat and with a tree of relays; --children is the number of shards
    Terms {
        #[command(flatten)]
        case: terms::Case,
    },
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Processor time of the root, medians over the rounds.
#[derive(Serialize)]
struct Figure {
    pattern: &'static str,
    children: u32,
    /// Per child that is asked.
    ask_ns: f64,
    /// Per partial.
    partial_ns: f64,
    /// For the whole call.
    call_ms: f64,
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_possible_value().map_or("", |_| self.name()).replace(' ', "-").as_str())
    }
}

/// Processor time of the root of a stream, medians over the rounds.
#[derive(Serialize)]
struct StreamFigure {
    pattern: &'static str,
    children: u32,
    /// Per child, until all have reported that they take part.
    open_ns: f64,
    /// Per lost child, if any are lost.
    lose_ns: Option<f64>,
    /// Per packet of a child.
    up_ns: f64,
    /// Per child that gets a packet and acknowledges it.
    down_ns: f64,
}

impl std::fmt::Display for stream::Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name().replace(' ', "-"))
    }
}

/// Returns the median, or NaN if there are no values.
fn median(values: Vec<f64>) -> f64 {
    treefold_figures::median(values).unwrap_or(f64::NAN)
}

/// Measures every pattern with every number of children. The cases alternate, round by round.
fn take_turns<K: Copy, T: Clone>(
    patterns: &[K],
    sizes: &[u32],
    rounds: u32,
    measure: fn(K, u32) -> T,
) -> Vec<((K, u32), Vec<T>)> {
    let cases = patterns.iter().flat_map(|&pattern| sizes.iter().map(move |&children| (pattern, children)));
    let mut cases: Vec<((K, u32), Vec<T>)> = cases.map(|case| (case, Vec::new())).collect();
    for _ in 0..rounds {
        for ((pattern, children), times) in &mut cases {
            // Small calls are too short to be measured once per round.
            for _ in 0..(1_000 / *children).max(1) {
                times.push(measure(*pattern, *children));
            }
        }
    }
    cases
}

/// Returns the median of one part of the measured times, in nanoseconds.
fn median_ns<T>(times: &[T], part: impl Fn(&T) -> std::time::Duration) -> f64 {
    median(times.iter().map(|times| part(times).as_nanos() as f64).collect())
}

fn stream_figures(patterns: &[stream::Pattern], sizes: &[u32], rounds: u32) -> Vec<StreamFigure> {
    let measured = take_turns(patterns, sizes, rounds, stream::measure);
    let figure = |((pattern, children), times): ((stream::Pattern, u32), Vec<stream::Times>)| {
        let (each, lost) = (f64::from(children), stream::lost(pattern, children));
        StreamFigure {
            pattern: pattern.name(),
            children,
            open_ns: median_ns(&times, |times| times.opening) / each,
            lose_ns: (lost > 0).then(|| median_ns(&times, |times| times.losing) / f64::from(lost)),
            up_ns: median_ns(&times, |times| times.up) / each / stream::turns(),
            down_ns: median_ns(&times, |times| times.down) / each / stream::turns(),
        }
    };
    measured.into_iter().map(figure).collect()
}

fn core(patterns: &[Pattern], sizes: &[u32], rounds: u32) -> Vec<Figure> {
    let measured = take_turns(patterns, sizes, rounds, call::measure);
    let figure = |((pattern, children), times): ((Pattern, u32), Vec<call::Times>)| {
        let (asking, taking) =
            (median_ns(&times, |times| times.asking), median_ns(&times, |times| times.taking));
        Figure {
            pattern: pattern.name(),
            children,
            ask_ns: asking / f64::from(children),
            partial_ns: taking / f64::from(children),
            call_ms: (asking + taking) / 1e6,
        }
    };
    measured.into_iter().map(figure).collect()
}

fn main() -> Result<(), Failure> {
    if let Some(played) = root::play_if_asked() {
        return played;
    }
    let args = Args::parse();
    match args.part {
        Part::Core { patterns } => {
            let figures = core(&patterns, &args.children, args.rounds);
            if args.output == Output::Json {
                println!("{}", serde_json::to_string(&figures)?);
                return Ok(());
            }
            println!(
                "{:<12} {:>8} {:>9} {:>12} {:>9}",
                "pattern", "children", "ask ns", "partial ns", "call ms"
            );
            for Figure { pattern, children, ask_ns, partial_ns, call_ms } in figures {
                println!("{pattern:<12} {children:>8} {ask_ns:>9.0} {partial_ns:>12.0} {call_ms:>9.2}");
            }
        }
        Part::Stream { patterns } => {
            let figures = stream_figures(&patterns, &args.children, args.rounds);
            if args.output == Output::Json {
                println!("{}", serde_json::to_string(&figures)?);
                return Ok(());
            }
            println!(
                "{:<12} {:>8} {:>9} {:>9} {:>9} {:>9}",
                "pattern", "children", "open ns", "up ns", "down ns", "lose ns"
            );
            for StreamFigure { pattern, children, open_ns, lose_ns, up_ns, down_ns } in figures {
                let lose = lose_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
                println!("{pattern:<12} {children:>8} {open_ns:>9.0} {up_ns:>9.0} {down_ns:>9.0} {lose:>9}");
            }
        }
        Part::Network { dials } => {
            let figures = network::measure(&args.children, args.rounds, dials)?;
            if args.output == Output::Json {
                println!("{}", serde_json::to_string(&figures)?);
                return Ok(());
            }
            println!(
                "{:>8} {:>10} {:>14} {:>10} {:>6} {:>10} {:>12} {:>15}",
                "children",
                "connect us",
                "connection KiB",
                "first came",
                "calls",
                "latency ms",
                "root ms/call",
                "root us/partial"
            );
            for figure in figures {
                println!(
                    "{:>8} {:>10.1} {:>14.1} {:>10} {:>6} {:>10.2} {:>12.2} {:>15.2}",
                    figure.children,
                    figure.connect_us,
                    figure.connection_kib,
                    figure.first_came,
                    figure.calls,
                    figure.latency_ms,
                    figure.root_call_ms,
                    figure.root_partial_us
                );
            }
        }
        Part::Terms { case } => {
            let figures = terms::measure(&args.children, args.rounds, &case)?;
            if args.output == Output::Json {
                println!("{}", serde_json::to_string(&figures)?);
                return Ok(());
            }
            println!(
                "{:<5} {:>7} {:>7} {:>9} {:>11} {:>11} {:>9} {:>9} {:>9}",
                "shape",
                "shards",
                "relays",
                "sent MiB",
                "answer MiB",
                "latency ms",
                "root ms",
                "path ms",
                "root MiB"
            );
            for figure in figures {
                println!(
                    "{:<5} {:>7} {:>7} {:>9.1} {:>11.2} {:>11.1} {:>9.1} {:>9.1} {:>9.1}",
                    figure.shape.to_string(),
                    figure.shards,
                    figure.relays,
                    figure.sent_mib,
                    figure.answer_mib,
                    figure.latency_ms,
                    figure.root_ms,
                    figure.path_ms,
                    figure.root_mib
                );
            }
        }
    }
    Ok(())
}
