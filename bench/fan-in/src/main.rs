//! One root over up to 10,000 children: does its work grow with the children, or with their square?
//!
//! ```console
//! $ cargo run --profile lean -p treefold-bench-fan-in -- core
//! $ cargo run --profile lean -p treefold-bench-fan-in -- stream
//! $ cargo run --profile lean -p treefold-bench-fan-in -- network
//! ```
//!
//! - [`call`]: in core alone, without a driver. A root asks n children and takes their partials, in several patterns.
//! - [`stream`]: the same for a stream: opening it, waves that wait for all, and packets down.
//! - [`network`]: over the network. A [`root`] process with the real driver folds the partials of n connections, whose other
//!   ends this process holds.
//!
//! A figure is the processor time of the root for each partial. If the work is linear in the children, the figure is the
//! same for 1,000 and for 10,000. Sizes and patterns take turns, round by round, and medians count, since the machine is
//! shared.

mod call;
mod clock;
mod network;
mod root;
mod stream;

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

    /// Rounds; what is measured takes turns, and medians count
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
    /// A root of core alone, fed by hand
    Core {
        /// Patterns; several, separated by commas
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = Pattern::ALL)]
        patterns: Vec<Pattern>,
    },
    /// A root of core alone that is in a stream, fed by hand
    Stream {
        /// Patterns; several, separated by commas
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = stream::Pattern::ALL)]
        patterns: Vec<stream::Pattern>,
    },
    /// A root process with the real driver, and this process as its parent and its children, each on a connection of its own
    Network {
        /// Who makes the connections
        #[arg(long, value_enum, default_value_t = Dials::Children)]
        dials: Dials,
    },
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Processor time of the root, medians over the rounds.
#[derive(Serialize)]
struct Figure {
    pattern: &'static str,
    children: u32,
    /// For each child that is asked.
    ask_ns: f64,
    /// For each partial.
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
    /// For each child, until all have said that they take part.
    open_ns: f64,
    /// For each child that is lost, if some are.
    lose_ns: Option<f64>,
    /// For each packet of a child.
    up_ns: f64,
    /// For each child that is sent a packet and acknowledges it.
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

/// Measures every pattern with every number of children; they take turns, round by round.
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
            // small calls are over too soon to be measured alone
            for _ in 0..(1_000 / *children).max(1) {
                times.push(measure(*pattern, *children));
            }
        }
    }
    cases
}

/// The median of one part of what was measured, in nanoseconds.
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
    }
    Ok(())
}
