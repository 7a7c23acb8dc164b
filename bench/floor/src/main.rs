//! `treefold-floor`: measures the cost of a wave with the kernel alone, in three kinds of trees.
//!
//! All have one process per node, loopback sockets without Nagle's delay, no deadline and no membership: 32 bytes
//! go down a k-ary tree, and the 8 bytes of a sum come up. Every sum is checked.
//!
//! - The blocking tree is the least that any middleware over TCP could cost on the same machine for this shape:
//!   blocking reads, no framing, the launcher as the root.
//! - The told tree is the blocking one, but the root sends the 32 bytes to every node itself, as a multicast would.
//! - The event-driven tree is the least for a server that must handle many peers at once: a readiness loop (epoll,
//!   so Linux only), waves by number, and a client that is a process of its own.
//!
//! Treefold's figures are divided by these. (`bench/run.sh` runs all in one session; figures of different
//! sessions are not compared.)
//!
//! - [`options`]: the command line, of the launcher and of the processes it starts.
//! - [`tree`]: parents and children by number, and the two messages.
//! - [`branches`]: starts, connects and ends children.
//! - [`root`] and [`node`]: the blocking and the told tree, the launcher's part and that of every other process.
//! - [`event`]: the event-driven tree.
//! - [`measure`]: start-up, round trips, waves in flight, CPU.
//! - [`report`]: the figures as text or JSON.

mod branches;
mod event;
mod measure;
mod node;
mod options;
mod report;
mod root;
mod tree;

use options::{Kind, Options, Part};
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Exit status for an invalid command line.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let part = match options::parse(std::env::args().skip(1)) {
        Ok(part) => part,
        Err(reason) => {
            eprintln!("treefold-floor: {reason}\n\n{}", options::USAGE);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let outcome = match part {
        Part::Help => {
            println!("{}", options::USAGE);
            Ok(())
        }
        Part::Seat(seat) => {
            let blocks = matches!(seat.kind, Kind::Blocking | Kind::Told);
            let serve = if blocks { node::serve } else { event::serve };
            serve(&seat).or_else(silent_when_cut_off)
        }
        Part::Launcher(options) => launch(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("treefold-floor: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ignores an error of a lost connection in a child process.
///
/// A lost connection ends every process of the tree. Only the launcher reports it.
fn silent_when_cut_off(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::ConnectionReset
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof
        | ErrorKind::NotConnected => Ok(()),
        _ => Err(error),
    }
}

/// Measures all requested trees, one after the other, each with new processes.
fn launch(options: &Options) -> io::Result<()> {
    let mut figures = Vec::new();
    for &nodes in &options.nodes {
        for &fanout in &options.fanouts {
            for &kind in &options.kinds {
                figures.push(measure::measure(nodes, fanout, kind, options)?);
            }
        }
    }
    print!("{}", if options.json { report::json(&figures) } else { report::text(&figures) });
    Ok(())
}
