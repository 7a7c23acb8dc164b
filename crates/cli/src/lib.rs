//! The `treefold` command: a thin skin over the library, for people and for scripts.
//!
//! It decides nothing that a call depends on; every command is a few lines of [`treefold`]'s public API between
//! arguments and print-out, so that it doubles as the library's example. A map of the code:
//!
//! - [`args`]: what can be said on the command line; [`parse`] reads the values, [`config`] the same from a file.
//! - [`commands`]: one file each, with its flags and its help beside what it does.
//! - [`serve`]: the services that `--serve` can name.
//! - `foreign`: operators in WebAssembly, unless it is built without the feature `wasm`.
//! - [`output`]: answers as JSON, as tables, as trees.
//! - [`exit`]: how a command can end, and the exit code that says so.
//!
//! It is a library so that the experiments in `bench/cluster` start and measure nodes with the same code.
//!
//! Standard output bears the answer and nothing else; errors go to standard error as one line that says what to do
//! (with `-o json` also to standard output, as `{"error": …}`, since that is where a script looks).

#![allow(missing_docs, reason = "the library of a command, for this repository's own experiments")]

pub mod args;
pub mod commands;
mod config;
mod echo;
pub mod exit;
#[cfg(feature = "wasm")]
pub mod foreign;
pub mod output;
pub mod parse;
pub mod serve;

use args::{Cli, Command, Output};
use clap::error::ErrorKind;
use exit::{Failure, Verdict};
use output::Format;
use std::process::ExitCode;

/// The `treefold` command: runs this process's command line to its end and returns its exit code.
pub fn treefold() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    answer(Cli::read(&words), |cli| cli.output, run)
}

/// Runs a parsed command line to its end. Refused arguments and failures are reported in the form that the command
/// line asks for.
pub fn answer<C>(
    cli: Result<C, clap::Error>,
    output: impl FnOnce(&C) -> Output,
    run: impl FnOnce(C) -> Result<Verdict, Failure>,
) -> ExitCode {
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    log_to_stderr();
    let format = output(&cli).for_failures();
    match run(cli) {
        Ok(verdict) => verdict.into(),
        Err(failure) => failure.report(format),
    }
}

fn run(cli: Cli) -> Result<Verdict, Failure> {
    if let Command::Sim(sim) = cli.command {
        return sim.run(cli.output);
    }
    let format = cli.output.for_answers()?;
    match cli.command {
        Command::Sim(_) => unreachable!("invariant: it has returned"),
        // These need no runtime.
        Command::Tree(tree) => tree.run(format),
        Command::Topology(topology) => topology.run(format),
        Command::Completions(completions) => completions.run(),
        Command::Replay(replay) => replay.run(format),
        Command::Demo(demo) => on_runtime(demo.run(format)),
        Command::Node(node) => on_runtime(node.run(format)),
        Command::Call(call) => on_runtime(call.run(format)),
        Command::Up(up) => on_runtime(up.run(format)),
        Command::Status(status) => on_runtime(status.run(format)),
        Command::Stream(stream) => on_runtime(stream.run(format)),
        Command::Top(top) => on_runtime(top.run(format)),
        Command::Shares(shares) => on_runtime(shares.run(format)),
        Command::Operator(operator) => on_runtime(operator.run(format)),
        Command::Push(push) => on_runtime(push.run(format)),
        Command::Bench(bench) => on_runtime(bench.run(format)),
    }
}

/// Runs a command on one thread: a node's loop wakes nobody else, and operators have workers of their own.
pub fn on_runtime(command: impl Future<Output = Result<Verdict, Failure>>) -> Result<Verdict, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("can't start the runtime: {error}")))?;
    let verdict = runtime.block_on(command);
    // A thread that sits in a blocking read (the prompt's) must not hold up the end.
    runtime.shutdown_background();
    verdict
}

/// What clap refused: help and version as clap has them, a value out of its limits in the words that the library
/// has for it, and as JSON where the arguments asked for that.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::print(error.render().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let wanted = Format::asked_for_in(std::env::args().skip(1));
    match Failure::from_arguments(error) {
        Some(failure) => failure.report(wanted),
        None if wanted == Format::Json => Failure::usage(first_line(error)).report(wanted),
        None => {
            // Usage and suggestions included: who mistyped a flag wants more than one line.
            // Where standard error is closed there is nobody to tell.
            let _ = error.print();
            Verdict::USAGE.into()
        }
    }
}

fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("TREEFOLD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(output::style::Style::of_stderr().is_on())
        .init();
}
