//! Sources and journals at NATS servers.

use super::journal::not_opened;
use crate::exit::Failure;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use treefold_feed::Origin;
use treefold_journal::Journal;
use treefold_mirror::Name;
use treefold_nats::{StreamJournal, StreamOptions};
use treefold_sources::jetstream::{JetStreamOptions, JetStreamSource};
use treefold_sources::nats::{NatsOptions, NatsSource, Server};
use treefold_sources::{Feeder, Key};

/// Settings of NATS servers.
#[derive(Debug, Args)]
pub(super) struct NatsArgs {
    /// Source of the key of NATS and JetStream messages
    #[arg(long, value_enum, default_value_t)]
    nats_key: KeyName,

    /// Number NATS messages without a number as they arrive; lost messages are then not noticed
    #[arg(long)]
    nats_number_received: bool,

    /// File with the credentials for NATS
    #[arg(long, value_name = "FILE")]
    nats_credentials: Option<PathBuf>,

    /// Read JetStream streams from their first message, instead of behind the last acknowledged one
    #[arg(long)]
    jetstream_from_start: bool,
}

/// Sources of keys by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum KeyName {
    /// The payload is an event in JSON, and has its key
    #[default]
    Field,
    /// The payload is opaque, and the subject is the key
    Subject,
}

impl NatsArgs {
    /// Subscribes to a subject. The future feeds its messages until the source ends.
    pub(super) async fn subscribe(
        &self,
        url: String,
        subject: &str,
        mut feeder: Feeder<Origin>,
    ) -> Result<impl Future<Output = Result<(), Failure>> + use<>, Failure> {
        let number_received = self.nats_number_received;
        let options = NatsOptions { key: self.key(), number_received };
        if options.key == Key::Subject && !number_received {
            let message = "NATS messages have no numbers: --nats-key subject needs --nats-number-received";
            return Err(Failure::usage(message));
        }
        feeder.stream = feeder.stream.or_else(|| Name::new(subject.to_owned()).ok());
        let client = self.server(url).connect().await.map_err(failed)?;
        let source = NatsSource::subscribe(&client, subject, options).await.map_err(failed)?;
        Ok(async move { source.run(feeder).await.map_err(failed) })
    }

    /// Opens a JetStream stream. The future feeds its messages until the source ends.
    pub(super) async fn consume(
        &self,
        url: String,
        stream: &str,
        feed: &str,
        mut feeder: Feeder<Origin>,
    ) -> Result<impl Future<Output = Result<(), Failure>> + use<>, Failure> {
        let options = JetStreamOptions {
            key: self.key(),
            feed: feed.to_owned(),
            from_start: self.jetstream_from_start,
        };
        feeder.stream = feeder.stream.or_else(|| Name::new(stream.to_owned()).ok());
        let source = JetStreamSource::open(&self.server(url), stream, options).await.map_err(failed)?;
        Ok(async move { source.run(feeder).await.map_err(failed) })
    }

    /// Opens a journal in a JetStream stream, which is made if it is absent.
    pub(super) fn journal(
        &self,
        url: String,
        stream: String,
        replicas: usize,
    ) -> Result<Box<dyn Journal>, Failure> {
        let server = self.server(url);
        let journal = StreamJournal::open(StreamOptions { server, stream, replicas });
        Ok(Box::new(journal.map_err(|error| not_opened(&error))?))
    }

    fn server(&self, url: String) -> Server {
        Server { url, credentials: self.nats_credentials.clone() }
    }

    fn key(&self) -> Key {
        match self.nats_key {
            KeyName::Field => Key::Field,
            KeyName::Subject => Key::Subject,
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error.to_string())
}
