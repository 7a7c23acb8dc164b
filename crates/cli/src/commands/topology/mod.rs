//! `treefold topology`: topology files made, checked, drawn and counted.
//!
//! - [`generate`]: the layouts `flat`, `kary`, `binomial`, `balanced`; [`places`] has the flags that they share.
//! - [`from_ssh_config`]: any of them over the hosts that `ssh` knows.
//! - [`check`], [`draw`], [`stats`]: what a file says.
//! - [`source`] reads files; [`shown`] is what scripts see.

mod check;
mod draw;
mod from_ssh_config;
mod generate;
mod places;
mod shown;
pub(crate) mod source;
mod stats;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Make, check and draw topology files: which processes a stream network is made of, and where they run
#[derive(Debug, Args)]
pub(crate) struct TopologyArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Flat(generate::Flat),
    Kary(generate::Kary),
    Binomial(generate::Binomial),
    Balanced(generate::Balanced),
    FromSshConfig(from_ssh_config::FromSshConfig),
    Check(check::Check),
    Draw(draw::Draw),
    Stats(stats::StatsArgs),
}

impl TopologyArgs {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Flat(flat) => flat.run(format),
            What::Kary(kary) => kary.run(format),
            What::Binomial(binomial) => binomial.run(format),
            What::Balanced(balanced) => balanced.run(format),
            What::FromSshConfig(from_ssh_config) => from_ssh_config.run(format),
            What::Check(check) => check.run(format),
            What::Draw(draw) => draw.run(format),
            What::Stats(stats) => stats.run(format),
        }
    }
}
