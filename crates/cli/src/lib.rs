//! The `treefold` command: a thin layer over the library, for people and for scripts.
//!
//! No code that affects a call's result is here. Every command is a few lines of the library's public API
//! between its arguments and its output, so that it is also an example of the library. The modules:
//!
//! - [`args`]: the command line; [`parse`]: reads the values; `config`: the same settings from a file.
//! - [`commands`]: one file for each command, with its flags, help texts and implementation.
//! - [`serve`]: the services that `--serve` can name. [`sql`]: what a program with an SQL engine lends to this one.
//! - `foreign`: operators in WebAssembly; absent if built without the feature `wasm`.
//! - [`output`]: answers as JSON, as tables, as trees.
//! - `log`: the log on standard error. `reaper`: the command as process 1.
//! - [`exit`]: how a command ends, and its exit code.
//!
//! This is a library so that the experiments in `bench/cluster` start and measure nodes with the same code.
//!
//! Standard output has only the answer. Errors go to standard error as one line that says what to do. With
//! `-o json` they also go to standard output, as `{"error": …}`, because scripts read that.
#![allow(missing_docs, reason = "the library of a command, for this repository's own experiments")]
// Foreign text must not reach a terminal raw: `output::safe`.
#![warn(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "left-out commands need what the others leave unused")
)]

pub mod args;
pub mod commands;
mod config;
#[cfg(feature = "mirrors")]
mod endings;
pub mod exit;
#[cfg(feature = "mirrors")]
pub mod fleet;
#[cfg(feature = "wasm")]
pub mod foreign;
mod log;
pub mod output;
#[cfg(target_os = "linux")]
mod reaper;
#[cfg(feature = "mirrors")]
mod screen;
pub mod serve;
pub mod sql;
#[cfg(feature = "mirrors")]
mod text;
mod trust;

pub use treefold_forms::parse;

use args::{Cli, Command, Output};
use clap::error::ErrorKind;
use exit::{Failure, Verdict};
use log::LogFormat;
use output::Format;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

/// The file of this program, if it is not the process's own.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The file that starts this program again.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |program| Ok(program.clone()))
}

/// The `treefold` command: runs this process's command line to its end and returns its exit code.
pub fn treefold() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    all_of(&words)
}

/// As [`treefold()`], for a program whose process is another program's, such as a script of an interpreter. The first of `words` is the
/// program's name, `program` is the file that starts it again, and `engine` is the other program's SQL engine.
pub fn treefold_of(program: PathBuf, words: &[OsString], engine: sql::Host) -> ExitCode {
    sql::lend(engine);
    // The first one stays. A process runs one command line.
    let _ = PROGRAM.set(program);
    all_of(words)
}

fn all_of(words: &[OsString]) -> ExitCode {
    #[cfg(target_os = "linux")]
    if reaper::inherits_orphans() {
        match own_program().and_then(|program| reaper::run_apart(&program, words)) {
            Ok(code) => return code,
            Err(error) => {
                crate::tell!("treefold: processes that commands leave behind will stay defunct: {error}");
            }
        }
    }
    answer_to(words, Cli::read(words), |cli| (cli.output.output, cli.log.log_format), run)
}

/// Runs a parsed command line to its end. Refused arguments and failures are reported in the form that the command
/// line asks for.
pub fn answer<C>(
    cli: Result<C, clap::Error>,
    output: impl FnOnce(&C) -> Output,
    run: impl FnOnce(C) -> Result<Verdict, Failure>,
) -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    answer_to(&words, cli, |cli| (output(cli), None), run)
}

fn answer_to<C>(
    words: &[OsString],
    cli: Result<C, clap::Error>,
    formats: impl FnOnce(&C) -> (Output, Option<LogFormat>),
    run: impl FnOnce(C) -> Result<Verdict, Failure>,
) -> ExitCode {
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(words, &error),
    };
    let (output, log_format) = formats(&cli);
    log::to_stderr(log_format);
    match run(cli) {
        Ok(verdict) => verdict.into(),
        Err(failure) => failure.report(output.for_failures()),
    }
}

fn run(cli: Cli) -> Result<Verdict, Failure> {
    let output = cli.output.output;
    match cli.command {
        Command::Demo(demo) => on_runtime(demo.run(output.for_answers()?)),
        Command::Node(node) => on_runtime(node.run(output.for_answers()?)),
        Command::Call(call) => on_runtime(call.run(output.for_answers()?)),
        Command::Status(status) => on_runtime(status.run(output.for_answers()?)),
        #[cfg(feature = "mirrors")]
        Command::Mirror(mirror) => mirror.run(output.for_answers()?),
        #[cfg(feature = "full")]
        Command::More(more) => more.run(output),
        #[cfg(not(feature = "full"))]
        Command::Absent(words) => Err(Failure::usage(format!(
            "this build has no command {}: it has what the demo shows; `make release` builds it with everything",
            words[0].to_string_lossy()
        ))),
    }
}

/// Runs a command on one thread.
///
/// A node's event loop needs no other thread, and operators have their own workers.
pub fn on_runtime(command: impl Future<Output = Result<Verdict, Failure>>) -> Result<Verdict, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("can't start the runtime: {error}")))?;
    let verdict = runtime.block_on(command);
    // A thread in a blocking read (the prompt's) must not delay the end.
    runtime.shutdown_background();
    verdict
}

/// Reports an error of clap.
///
/// Help and version are printed as clap renders them. A value out of its range is reported with the library's
/// own message, as JSON if the arguments request it.
fn refuse_arguments(words: &[OsString], error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::print(error.render().to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    let wanted = Format::asked_for_in(words.iter().skip(1).map(|word| word.to_string_lossy().into_owned()));
    match Failure::from_arguments(error) {
        Some(failure) => failure.report(wanted),
        None if wanted == Format::Json => Failure::usage(first_paragraph(error)).report(wanted),
        None => {
            // This includes usage and suggestions, because a mistyped flag needs more than one line. If
            // standard error is closed, the message can't be printed, and the exit code is enough.
            let _ = error.print();
            Verdict::USAGE.into()
        }
    }
}

/// The first paragraph of clap's message, which may list arguments on lines of their own, as one line.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").trim_start_matches("error: ").to_owned()
}
