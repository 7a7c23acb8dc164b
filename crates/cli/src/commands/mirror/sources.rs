//! The sources of `treefold mirror feed`: their names on the command line, and their start.

use super::nats::NatsArgs;
use super::trace;
use crate::exit::Failure;
use clap::Args;
use serde::Serialize;
use std::sync::Arc;
use tokio::task::JoinSet;
use treefold_feed::Origin;
use treefold_mirror::Name;
use treefold_mirror::origin::Refusal;
use treefold_sources::feeder::Refused;
use treefold_sources::listen::{ListenError, listen};
use treefold_sources::recording::Types;
use treefold_sources::replay::{Pace, replay};
use treefold_sources::tcp::TcpSource;
use treefold_sources::{Counts, Feeder, Reach, SourceLimits, Stop, Tally, http};

/// Refused events that are reported one by one.
const REPORTED_MAX: u64 = 20;

/// Settings of sources.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// Stream of events that name none
    #[arg(long, value_name = "NAME", value_parser = name)]
    stream: Option<Name>,

    /// Offer events of files at the times of their recording, instead of as soon as the mirrors take them
    #[arg(long)]
    as_recorded: bool,

    /// Offer events of files at the times of their recording, divided by this factor
    #[arg(long, value_name = "FACTOR", value_parser = crate::parse::positive, conflicts_with = "as_recorded")]
    speed: Option<f64>,

    #[command(flatten)]
    pub(super) nats: NatsArgs,
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text.to_owned()).map_err(|error| error.to_string())
}

/// A source as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    File(String),
    Tcp(String, Reach),
    Http(String, Reach),
    Nats { url: String, subject: String },
    JetStream { url: String, stream: String },
}

impl Kind {
    fn read(text: &str) -> Result<Self, Failure> {
        let addressed = |prefix: &str| {
            let rest = text.strip_prefix(prefix)?;
            Some(rest.strip_prefix("//").unwrap_or(rest).to_owned())
        };
        let at_server = |prefix: &str| text.strip_prefix(prefix).map(|rest| server(text, rest));
        for (tcp, http, reach) in
            [("tcp:", "http:", Reach::Local), ("tcp-public:", "http-public:", Reach::Public)]
        {
            if let Some(addr) = addressed(tcp) {
                return Ok(Self::Tcp(addr, reach));
            }
            if let Some(addr) = addressed(http) {
                return Ok(Self::Http(addr.trim_end_matches('/').to_owned(), reach));
            }
        }
        if let Some(found) = at_server("nats:") {
            return found.map(|(url, subject)| Self::Nats { url, subject });
        }
        if let Some(found) = at_server("jetstream:") {
            return found.map(|(url, stream)| Self::JetStream { url, stream });
        }
        Ok(Self::File(text.to_owned()))
    }
}

/// Divides `URL/NAME`.
fn server(source: &str, rest: &str) -> Result<(String, String), Failure> {
    let (scheme, rest) = match rest.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("nats", rest.strip_prefix("//").unwrap_or(rest)),
    };
    match rest.split_once('/') {
        Some((addr, name)) if !addr.is_empty() && !name.is_empty() => {
            Ok((format!("{scheme}://{addr}"), name.to_owned()))
        }
        _ => Err(Failure::usage(format!(
            "source `{source}` has no address or no name; expected SERVER/NAME, as in nats:127.0.0.1:4222/flights"
        ))),
    }
}

/// The counts of a source, as printed in JSON.
#[derive(Serialize)]
pub(super) struct Counted {
    source: String,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

/// The sources of one feed.
pub(super) struct Sources {
    feed: String,
    settings: SourceArgs,
    types: Types,
    origin: Arc<Origin>,
    stop: Stop,
    tallies: Vec<(String, Arc<Tally>)>,
    running: JoinSet<Result<(), Failure>>,
}

impl Sources {
    pub(super) fn new(
        feed: &str,
        settings: SourceArgs,
        types: Types,
        origin: Arc<Origin>,
        stop: Stop,
    ) -> Self {
        let (tallies, running) = (Vec::new(), JoinSet::new());
        Self { feed: feed.to_owned(), settings, types, origin, stop, tallies, running }
    }

    /// Starts a source. Listeners and subscriptions are there when this returns.
    pub(super) async fn start(&mut self, source: &str) -> Result<(), Failure> {
        let kind = Kind::read(source)?;
        let tally = Arc::new(Tally::default());
        self.tallies.push((source.to_owned(), Arc::clone(&tally)));
        let feeder = Feeder {
            intake: Arc::clone(&self.origin),
            stop: self.stop.clone(),
            tally,
            stream: self.settings.stream.clone(),
            limits: Arc::new(SourceLimits::DEFAULT),
        };
        match kind {
            Kind::File(path) => self.start_file(&path, feeder),
            Kind::Tcp(addr, reach) => self.start_tcp(&addr, reach, feeder).await,
            Kind::Http(addr, reach) => self.start_http(&addr, reach, feeder).await,
            Kind::Nats { url, subject } => {
                let running = self.settings.nats.subscribe(url, &subject, feeder).await?;
                self.running.spawn(running);
                Ok(())
            }
            Kind::JetStream { url, stream } => {
                let running = self.settings.nats.consume(url, &stream, &self.feed, feeder).await?;
                self.running.spawn(running);
                Ok(())
            }
        }
    }

    /// Waits until a source ends. `None` if all have ended.
    pub(super) async fn ended(&mut self) -> Option<Result<(), Failure>> {
        let ended = self.running.join_next().await?;
        Some(ended.unwrap_or_else(|error| Err(Failure::failed(format!("a source has ended: {error}")))))
    }

    /// The counts of each source.
    pub(super) fn counted(&self) -> Vec<Counted> {
        let counted = |(source, tally): &(String, Arc<Tally>)| Counted {
            source: source.clone(),
            counts: tally.counts(),
        };
        self.tallies.iter().map(counted).collect()
    }

    fn start_file(&mut self, path: &str, feeder: Feeder<Origin>) -> Result<(), Failure> {
        let pace = match self.settings.speed.or(self.settings.as_recorded.then_some(1.0)) {
            Some(speed) => Pace::Recorded(speed),
            None => Pace::Unpaced,
        };
        let stream = self.settings.stream.clone();
        // Events without a time are offered at once, one after the other.
        let (recording, bar) = trace::open(path, f64::INFINITY, self.types.clone(), stream)?;
        self.running.spawn(async move {
            let mut told = 0;
            let replayed = replay(&feeder, recording, pace, |place, Refused { refusal, .. }| {
                // A file begins again with its first event, so repetitions are expected. They are counted.
                if matches!(refusal, Refusal::Repeated { .. }) {
                    return;
                }
                told += 1;
                if told <= REPORTED_MAX {
                    bar.suspend(|| crate::tell!("treefold: event {place} is refused: {refusal}"));
                }
            });
            let replayed = replayed.await;
            bar.finish_and_clear();
            replayed.map_err(|error| Failure::failed(error.to_string()))
        });
        Ok(())
    }

    async fn start_tcp(&mut self, addr: &str, reach: Reach, feeder: Feeder<Origin>) -> Result<(), Failure> {
        let source =
            TcpSource::bind(addr, reach).await.map_err(|error| cannot_listen("tcp", addr, &error))?;
        tell("tcp", source.local_addr().map_err(failed)?);
        self.running.spawn(async move {
            source.run(feeder).await;
            Ok(())
        });
        Ok(())
    }

    async fn start_http(&mut self, addr: &str, reach: Reach, feeder: Feeder<Origin>) -> Result<(), Failure> {
        let listener = listen(addr, reach).await.map_err(|error| cannot_listen("http", addr, &error))?;
        tell("http", listener.local_addr().map_err(failed)?);
        let (limits, stop) = (Arc::clone(&feeder.limits), self.stop.clone());
        let routes = http::routes(&self.feed, feeder);
        self.running.spawn(async move {
            http::serve(listener, routes, &limits, stop).await;
            Ok(())
        });
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error.to_string())
}

fn cannot_listen(kind: &str, addr: &str, error: &ListenError) -> Failure {
    match error {
        ListenError::Public { .. } => Failure::usage(format!(
            "{addr} can be reached from other machines, and sources are not authenticated; {kind}-public:{addr} allows it"
        )),
        error @ ListenError::Io { .. } => Failure::failed(error.to_string()),
    }
}

/// Tells where a source listens.
fn tell(kind: &str, addr: std::net::SocketAddr) {
    crate::tell!("treefold: events are taken at {kind}:{addr}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sources_are_read() {
        let read = |text: &str| Kind::read(text).ok();
        let text = str::to_owned;
        assert_eq!(read("-"), Some(Kind::File(text("-"))));
        assert_eq!(read("a/b.csv"), Some(Kind::File(text("a/b.csv"))));
        assert_eq!(read("tcp:127.0.0.1:7"), Some(Kind::Tcp(text("127.0.0.1:7"), Reach::Local)));
        assert_eq!(read("http://127.0.0.1:7/"), Some(Kind::Http(text("127.0.0.1:7"), Reach::Local)));
        assert_eq!(read("tcp-public:0.0.0.0:7"), Some(Kind::Tcp(text("0.0.0.0:7"), Reach::Public)));
        assert_eq!(read("http-public:[::]:7"), Some(Kind::Http(text("[::]:7"), Reach::Public)));
        let nats = |url: &str, subject: &str| Some(Kind::Nats { url: text(url), subject: text(subject) });
        for name in ["nats:127.0.0.1:4222/a.>", "nats://127.0.0.1:4222/a.>", "nats:nats://127.0.0.1:4222/a.>"]
        {
            assert_eq!(read(name), nats("nats://127.0.0.1:4222", "a.>"), "{name}");
        }
        assert_eq!(read("nats:tls://one:1,two:2/a"), nats("tls://one:1,two:2", "a"));
        let stream = Some(Kind::JetStream { url: text("nats://one:1"), stream: text("S") });
        assert_eq!(read("jetstream:one:1/S"), stream);
        assert_eq!((read("jetstream:one:1"), read("nats:/a")), (None, None));
    }
}
