//! `treefold operator`: sends operators to a running cluster, lists them, and inspects them.
//!
//! - [`push`]: sends a module to a node; the streams that name it find it there.
//! - [`list`]: lists the operators that were pushed to a node.
//! - [`inspect`]: describes a module, without any cluster.
//! - [`shown`]: operators as printed in JSON.

#[cfg(feature = "wasm")]
mod inspect;
mod list;
mod push;
mod shown;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Send operators compiled to WebAssembly to a running cluster, list them, inspect them
///
/// A stream names such an operator as its filter by the SHA-256 of the module: wasm:ID. The module is pushed
/// once, and every node of the stream that lacks it fetches it along the stream's tree. docs/wasm.md
/// describes how to write one.
#[derive(Debug, Args)]
pub(crate) struct OperatorArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Push(push::Push),
    List(list::List),
    #[cfg(feature = "wasm")]
    Inspect(inspect::Inspect),
}

impl OperatorArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Push(push) => push.run(format).await,
            What::List(list) => list.run(format).await,
            #[cfg(feature = "wasm")]
            What::Inspect(inspect) => inspect.run(format),
        }
    }
}

/// Reads a module.
fn read(file: &std::path::Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| Failure::failed(format!("can't read {}: {error}", file.display())))
}
