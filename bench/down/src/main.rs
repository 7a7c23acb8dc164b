//! `bench-down`: packets down a stream, from one front-end process to endpoint processes that only count.
//!
//! It is a program of its own because it needs only the library, and so builds in seconds.
//!
//! ```console
//! $ cargo run --profile lean -p treefold-bench-down -- --endpoints 1,4,8 --bytes 100,1000 --redis
//! $ cargo run --profile lean -p treefold-bench-down -- --endpoints 8 --bytes 1000 --rate 5000 --fault stop --lag-bytes 524288
//! ```
//!
//! A *trial* is one run of one system, in processes of its own. Trials of all systems and sizes alternate, round by
//! round, and medians are reported, because the machine may be shared. `--beside` names another build of this program,
//! so that a change can be measured in one sitting.
//!
//! - [`trial`]: one run, and its figures. [`peer`]: a process that counts, and the pipe to it.
//! - [`front`] and [`endpoint`]: the two ends of a stream. [`redis`]: the same with Redis PUBLISH and a bare client.
//! - [`clock`]: the system's clocks. [`pace`]: when packets are due.

mod endpoint;
mod front;
mod peer;
mod redis;
mod trial;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use treefold_bench_down::{clock, pace};
use trial::{Figures, Problem, TrialArgs};

/// Measure packets down a stream, from a front-end process to endpoint processes
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,

    #[command(flatten)]
    bench: Bench,
}

/// The roles that this program has in its own trials.
#[derive(Debug, Subcommand)]
enum Role {
    /// Run one trial and print its figures as JSON
    Trial(TrialArgs),
    /// Count the packets of a stream
    Endpoint(endpoint::EndpointArgs),
    /// Count the messages of a Redis channel
    RedisSubscriber(redis::SubscriberArgs),
}

#[derive(Debug, Args)]
struct Bench {
    /// Numbers of endpoint processes, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 8], value_parser = clap::value_parser!(u32).range(1..=64))]
    endpoints: Vec<u32>,

    /// Sizes of a packet in bytes, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000], value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
    bytes: Vec<u32>,

    /// Rounds; all trials alternate, and medians are reported
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Measure another build of this program in the same rounds; may be given several times
    #[arg(long, value_name = "PROGRAM")]
    beside: Vec<PathBuf>,

    /// Measure Redis PUBLISH in the same rounds; needs redis-server
    #[arg(long)]
    redis: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,

    #[command(flatten)]
    load: trial::Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.role {
        Some(Role::Trial(args)) => trial::run(&args).map(|figures| println!("{}", trial::line(&figures))),
        Some(Role::Endpoint(args)) => endpoint::run(&args),
        Some(Role::RedisSubscriber(args)) => redis::subscribe(&args),
        None => bench(&cli.bench),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-down: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// A system to measure: the program that runs its trials, and the trials' arguments.
struct System {
    name: String,
    program: PathBuf,
    words: Vec<String>,
}

fn bench(bench: &Bench) -> Result<(), Problem> {
    let own = std::env::current_exe()?;
    let mut systems = vec![System { name: "treefold".to_owned(), program: own.clone(), words: Vec::new() }];
    for program in &bench.beside {
        let name = program.display().to_string();
        systems.push(System { name, program: program.clone(), words: Vec::new() });
    }
    if bench.redis {
        let words = vec!["--system".to_owned(), "redis".to_owned()];
        systems.push(System { name: "redis".to_owned(), program: own, words });
    }
    let cases: Vec<(u32, u32)> =
        bench.bytes.iter().flat_map(|&bytes| bench.endpoints.iter().map(move |&n| (bytes, n))).collect();
    let mut runs: Vec<Vec<Figures>> = (0..cases.len() * systems.len()).map(|_| Vec::new()).collect();
    for _ in 0..bench.rounds {
        for (case, &(bytes, endpoints)) in cases.iter().enumerate() {
            for (at, system) in systems.iter().enumerate() {
                let figures = run_trial(system, bytes, endpoints, &bench.load)?;
                runs[case * systems.len() + at].push(figures);
            }
        }
    }
    for (case, &(bytes, endpoints)) in cases.iter().enumerate() {
        for (at, system) in systems.iter().enumerate() {
            let figures = trial::medians(&runs[case * systems.len() + at]);
            match bench.output {
                Output::Json => println!("{}", trial::row(&system.name, bytes, endpoints, &figures)),
                Output::Text => println!("{}", trial::text(&system.name, bytes, endpoints, &figures)),
            }
        }
    }
    Ok(())
}

fn run_trial(system: &System, bytes: u32, endpoints: u32, load: &trial::Load) -> Result<Figures, Problem> {
    let mut command = Command::new(&system.program);
    command.arg("trial").args(&system.words).args(load.words());
    command.args(["--bytes", &bytes.to_string(), "--endpoints", &endpoints.to_string()]);
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("a trial of {} failed: {}", system.name, output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
