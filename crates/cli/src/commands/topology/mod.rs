//! `treefold topology`: makes, checks, draws and counts topology files.
//!
//! - [`generate`]: the layouts `flat`, `kary`, `binomial`, `balanced`; [`places`]: the flags that they share.
//! - [`from_ssh_config`]: any of the layouts over the hosts of an ssh configuration.
//! - [`check`], [`draw`], [`stats`]: commands that read a file.
//! - [`source`]: reads files; [`shown`]: topologies as printed in JSON.

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

/// Make, check and draw topology files: the processes of a stream network and their hosts
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
