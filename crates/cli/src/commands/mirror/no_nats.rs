//! The place of [`nats`](super) in a build without the feature `full`: every use of a NATS server is refused.

use crate::exit::Failure;
use clap::Args;
use std::future::Ready;
use treefold_feed::Origin;
use treefold_journal::Journal;
use treefold_sources::Feeder;

/// Settings of NATS servers: none.
#[derive(Debug, Args)]
pub(super) struct NatsArgs {}

type Absent = Ready<Result<(), Failure>>;

impl NatsArgs {
    pub(super) async fn subscribe(&self, _: String, _: &str, _: Feeder<Origin>) -> Result<Absent, Failure> {
        Err(absent())
    }

    pub(super) async fn consume(
        &self,
        _: String,
        _: &str,
        _: &str,
        _: Feeder<Origin>,
    ) -> Result<Absent, Failure> {
        Err(absent())
    }

    pub(super) fn journal(&self, _: String, _: String, _: usize) -> Result<Box<dyn Journal>, Failure> {
        Err(absent())
    }
}

fn absent() -> Failure {
    Failure::usage("this build of treefold leaves out NATS; `make release` builds it with everything")
}
