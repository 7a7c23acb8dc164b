//! `treefold gateway`: the tokens of the gateway's callers.
//!
//! - [`token`]: makes a token.

mod token;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Make tokens for the callers of a gateway
///
/// A node with --gateway takes calls over HTTP (docs/gateway.md). With --gateway-tokens it takes them only from callers
/// with a token in its file, which has a hash of each token, its services, rights and limits.
#[derive(Debug, Args)]
pub(crate) struct GatewayCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Token(token::TokenArgs),
}

impl GatewayCommand {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Token(token) => token.run(format),
        }
    }
}
