//! `treefold mirror feed`: the origin of a feed, whose events are a trace.

use super::rules::Rules;
use super::trace::Trace;
use crate::commands::stream::front_end::front_end;
use crate::commands::top::Endings;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use treefold_core::time;
use treefold_feed::origin::StartError;
use treefold_feed::{OfferError, Origin, OriginOptions, OriginStatus};
use treefold_mirror::Event;
use treefold_mirror::origin::Refusal;
use treefold_mirror::rules::RuleFile;

/// Events that were read and not offered yet.
const READ_AHEAD_MAX: usize = 64;
/// Time after which a busy origin is asked again.
const BUSY_RETRY: Duration = Duration::from_millis(5);
/// Time between two questions whether the mirrors have all events.
const VOTES_EVERY: Duration = Duration::from_millis(50);
/// Refused events that are reported one by one.
const REPORTED_MAX: u64 = 20;

/// Feed the events of a trace to the mirrors of a feed
///
/// The command is the feed's origin: it applies the rules, sends the chosen events to all mirrors, and ends when
/// these have them, after the last event or Ctrl-C. A feed has one origin an epoch; another one needs a later epoch, and its mirrors begin with an
/// empty state.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Feed {
    /// Feed: the name of its mirrors' service
    #[arg(value_name = "FEED")]
    feed: String,

    /// Trace with the events, a line of JSON each; - for standard input
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Addresses of nodes of the cluster, separated by commas; the first that answers is asked
    #[arg(long, value_name = "ADDR", required = true, value_delimiter = ',')]
    at: Vec<String>,

    /// File of rules [default: every event is mirrored]
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,

    /// Epoch of this origin
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    epoch: u32,

    /// Offer events at the times of the trace, instead of as soon as the mirrors take them
    #[arg(long)]
    as_recorded: bool,

    /// Time that the mirrors have, after the last event, to confirm all of them
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    timeout: Duration,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Exit codes: 0 if all mirrors that take part have all chosen events, 4 if no mirror takes part, 1 if the mirrors
do not confirm them in time, or the rules or a line of the trace are invalid, 5 if no node answers.

Examples:
  treefold node --listen 127.0.0.1:7700 --serve mirror=flights:partitions=0/2 &
  treefold node --listen 127.0.0.1:7701 --join 127.0.0.1:7700 --serve mirror=flights:partitions=1/2 &
  treefold mirror flights --events 100000 > flights.jsonl
  treefold mirror feed flights flights.jsonl --rules rules.toml --at 127.0.0.1:7700
  treefold call flights/get --at 127.0.0.1:7700 --params '{\"keys\": [\"DL146\"]}'";

/// The result, as printed in JSON.
#[derive(Serialize)]
struct Fed {
    feed: String,
    offered: u64,
    refused: u64,
    mirrored: u64,
    committed: u64,
    mirrors: usize,
    elapsed_ms: u64,
}

impl Feed {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let rules = match &self.rules {
            Some(path) => Rules::read(path)?.valid()?,
            None => RuleFile::default(),
        };
        let mut endings = Endings::catch()?;
        let client = front_end(&self.at, &self.cluster).await?;
        let mut options = OriginOptions::new(rules);
        options.after.epoch = self.epoch;
        let origin = match Origin::start(&client, &self.feed, options).await {
            Ok(origin) => origin,
            Err(StartError::Stream(error)) => return Err(crate::commands::failure_of(error)),
            Err(error) => return Err(Failure::failed(error.to_string())),
        };
        let began = Instant::now();
        let (offered, refused) = self.offer_all(&origin, began, &mut endings).await?;
        let status = tokio::select! {
            status = self.confirmed(&origin) => status?,
            () = endings.next() => return Err(Failure::failed("stopped before the mirrors confirmed all events")),
        };
        let fed = Fed {
            feed: self.feed,
            offered,
            refused,
            mirrored: status.cut.position,
            committed: status.committed,
            mirrors: status.mirrors.len() as usize,
            elapsed_ms: began.elapsed().as_millis() as u64,
        };
        match format {
            Format::Json => print_json(&fed),
            Format::Text => print(format_args!(
                "{} of {} events are at {} mirror{}, {} were refused",
                fed.committed,
                fed.offered,
                fed.mirrors,
                if fed.mirrors == 1 { "" } else { "s" },
                fed.refused
            )),
        }
        Ok(if fed.mirrors == 0 { Verdict::Insufficient } else { Verdict::Full })
    }

    /// Offers all events of the trace. Returns their number, and that of the refused ones.
    async fn offer_all(
        &self,
        origin: &Origin,
        began: Instant,
        endings: &mut Endings,
    ) -> Result<(u64, u64), Failure> {
        let (sender, mut events) = mpsc::channel(READ_AHEAD_MAX);
        let path = self.trace.clone();
        // A thread, because reading may block for ever, also when the command ends.
        std::thread::spawn(move || {
            if let Err(failure) = read(&path, &sender) {
                // If nobody receives it, the command has ended.
                let _ = sender.blocking_send(Err(failure));
            }
        });
        let (mut offered, mut refused) = (0, 0);
        loop {
            let Some(read) = (tokio::select! {
                biased;
                () = endings.next() => None,
                read = events.recv() => read,
            }) else {
                return Ok((offered, refused));
            };
            let (at, event) = read?;
            if self.as_recorded {
                tokio::select! {
                    () = sleep_until(began + Duration::from(at.since(time::Instant::START))) => {}
                    () = endings.next() => return Ok((offered, refused)),
                }
            }
            offered += 1;
            if let Err(refusal) = offer(origin, event).await? {
                refused += 1;
                if refused <= REPORTED_MAX {
                    eprintln!("treefold: event {offered} is refused: {refusal}");
                }
            }
        }
    }

    /// Waits until all mirrors that take part have all chosen events.
    async fn confirmed(&self, origin: &Origin) -> Result<OriginStatus, Failure> {
        let give_up_at = Instant::now() + self.timeout;
        loop {
            origin.flush().await;
            sleep(VOTES_EVERY).await;
            let status = origin.status().await.ok_or_else(ended)?;
            let is_confirmed = status.mirrors.is_empty() || status.committed == status.cut.position;
            if status.is_idle && is_confirmed {
                return Ok(status);
            }
            if Instant::now() >= give_up_at {
                let OriginStatus { cut, committed, .. } = status;
                return Err(Failure::failed(format!(
                    "the mirrors confirm {committed} of {} events within {:?}; `treefold call {}/status` shows them",
                    cut.position, self.timeout, self.feed
                )));
            }
        }
    }
}

type Read = Result<(time::Instant, Event), Failure>;

fn read(path: &str, to: &mpsc::Sender<Read>) -> Result<(), Failure> {
    // Events without a time are offered at once, one after the other.
    let mut trace = Trace::open(path, f64::INFINITY)?;
    while let Some(event) = trace.next()? {
        if to.blocking_send(Ok(event)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Offers an event until the origin takes it, or refuses it for good.
async fn offer(origin: &Origin, event: Event) -> Result<Result<(), Refusal>, Failure> {
    loop {
        match origin.offer(event.clone()).await {
            Ok(()) => return Ok(Ok(())),
            Err(OfferError::Refused(Refusal::Busy { .. })) => sleep(BUSY_RETRY).await,
            Err(OfferError::Refused(refusal)) => return Ok(Err(refusal)),
            Err(OfferError::Ended) => return Err(ended()),
        }
    }
}

fn ended() -> Failure {
    Failure::failed("the stream to the mirrors is over")
}
