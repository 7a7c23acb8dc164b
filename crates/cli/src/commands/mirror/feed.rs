//! `treefold mirror feed`: the origin of a feed, with its sources.

use super::functions::{self, FunctionFile, function_file};
use super::journal::JournalArgs;
use super::origin_node::OriginNode;
use super::report::Reports;
use super::rules::{Rules, warn_of_state};
use super::sources::{Counted, SourceArgs, Sources};
use super::take_over::TakeOverArgs;
use crate::args::At;
use crate::endings::Endings;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use clap::Args;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use treefold_feed::promotion::Won;
use treefold_feed::{Acknowledged, Origin, OriginDesk, OriginOptions, OriginStatus, origin_service};
use treefold_mirror::rules::RuleFile;
use treefold_sources::Stopper;

/// Time between two questions whether the mirrors have all events.
const VOTES_EVERY: Duration = Duration::from_millis(50);

/// Feed events to the mirrors of a feed
///
/// The command is the feed's origin: it takes the events of its sources, applies the rules, and sends the chosen events
/// to all mirrors. Its process is a node of the cluster, so `treefold mirror set` reaches it. Files end; the other sources run until Ctrl-C. Then the command takes no further events, and ends when
/// the mirrors have all of them. A feed has one origin an epoch; another one needs a later epoch, and its mirrors begin
/// with an empty state, unless it continues the journal of the last one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Feed {
    /// Feed: the name of its mirrors' service
    #[arg(value_name = "FEED")]
    feed: String,

    /// Sources of events: FILE.csv, another file with a line of JSON each, - for standard input, tcp:ADDR, http:ADDR,
    /// nats:SERVER/SUBJECT, jetstream:SERVER/STREAM. tcp-public:ADDR and http-public:ADDR may have addresses that other
    /// machines can reach, whose peers are not authenticated
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,

    #[command(flatten)]
    at: At,

    /// Address at which this process answers `mirror set` and `mirror status`
    /// [default: a free port of the address that faces the cluster]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Listen beyond this machine without a token: any program that reaches this process may do everything
    #[arg(long)]
    insecure: bool,

    /// File of rules [default: every event is mirrored]
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,

    /// Function that rules name, as a WebAssembly module; may be repeated
    #[arg(long = "function", value_name = "NAME=FILE", value_parser = function_file)]
    functions: Vec<FunctionFile>,

    /// Epoch of this origin. A journal that has events counts on from its last epoch
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    epoch: u32,

    /// Time that the mirrors have, after the last event, to confirm all of them
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse::duration)]
    timeout: Duration,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,

    /// Print the state of the origin at this interval: its place, its mode, and the acknowledged events
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    report: Option<Duration>,

    #[command(flatten)]
    keeping: JournalArgs,

    #[command(flatten)]
    settings: SourceArgs,

    #[command(flatten)]
    taking_over: TakeOverArgs,
}

const EXAMPLES: &str = "\
Exit codes: 0 if all mirrors that take part have all chosen events, 4 if no mirror takes part, 1 if an event was refused
(one that the origin had already is not), the mirrors do not confirm them in time, the rules or a line of a file are
invalid, or a source fails, 5 if no node answers.

Examples:
  treefold node --listen 127.0.0.1:7700 --serve mirror=flights:partitions=0/2 &
  treefold node --listen 127.0.0.1:7701 --join 127.0.0.1:7700 --serve mirror=flights:partitions=1/2 &
  treefold mirror flights --events 100000 > flights.jsonl
  treefold mirror feed flights flights.jsonl --rules rules.toml --at 127.0.0.1:7700
  treefold mirror feed flights tcp:127.0.0.1:7800 --journal flights.journal --at 127.0.0.1:7700
  treefold mirror feed flights tcp:127.0.0.1:7800 http:127.0.0.1:7801 --epoch 2 --at 127.0.0.1:7700
  treefold mirror feed flights tcp:127.0.0.1:7800 --copies 2 --take-over --at 127.0.0.1:7700
  treefold mirror feed flights tcp:127.0.0.1:7800 --take-over --without-majority --at 127.0.0.1:7700
  treefold mirror set flights --overwrite position=40 --at 127.0.0.1:7700
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
    sources: Vec<Counted>,
}

impl Feed {
    pub(super) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let rules = match &self.rules {
            Some(path) => Rules::read(path)?.valid()?,
            None => RuleFile::default(),
        };
        warn_of_state(&rules);
        let mut endings = Endings::catch()?;
        let mut options = OriginOptions::new(rules);
        options.epoch = self.epoch;
        options.functions = functions::load(&self.functions, &options.rules)?;
        self.keeping.apply(&self.settings.nats, &mut options)?;
        let (mut at, mut standing_by) = (self.at.to_vec(), None);
        if self.taking_over.is_standby() {
            let node = OriginNode::start(&at, &self.cluster, None, self.insecure, None).await?;
            let won = self.taking_over.win(node.client(), &self.feed, &options, &mut endings).await?;
            // The nodes of the command line may have died meanwhile.
            at.insert(0, node.addr().to_string());
            standing_by = Some((node, won));
        }
        let (standing_by, won) = standing_by.unzip();
        let (service, desk) = origin_service(&self.feed, functions::loader());
        let node =
            OriginNode::start(&at, &self.cluster, self.listen.as_deref(), self.insecure, Some(service))
                .await?;
        let fed = self.feed_from(&node, (desk, won), options, format, &mut endings).await;
        node.shutdown().await;
        if let Some(node) = standing_by {
            node.shutdown().await;
        }
        let fed = fed?;
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
        if fed.mirrors == 0 {
            return Ok(Verdict::Insufficient);
        }
        // Repeated events are at the mirrors, so a feed that starts again is not at fault.
        match fed.sources.iter().map(|one| one.counts.refused).sum::<u64>() {
            0 => Ok(Verdict::Full),
            1 => Err(Failure::Told("1 event was refused".to_owned())),
            count => Err(Failure::Told(format!("{count} events were refused"))),
        }
    }

    /// Runs the origin until the mirrors have all events of its sources.
    async fn feed_from(
        self,
        node: &OriginNode,
        (desk, won): (OriginDesk, Option<Won>),
        options: OriginOptions,
        format: Format,
        endings: &mut Endings,
    ) -> Result<Fed, Failure> {
        let types = options.rules.types.clone();
        let origin = self.taking_over.start(node.client(), &self.feed, options, won).await?;
        let origin = Arc::new(origin);
        desk.attend(&origin);
        let (began, before) = (Instant::now(), origin.status().await.map_or(0, |status| status.cut.position));
        let (stopper, stop) = Stopper::new();
        let (names, settings) = (self.sources, self.settings);
        let mut sources = Sources::new(&self.feed, settings, types, Arc::clone(&origin), stop);
        for name in &names {
            tokio::select! {
                started = sources.start(name) => started?,
                // A server may not answer.
                () = endings.next() => return Err(Failure::failed("stopped before all sources had started")),
            }
        }
        let mut reports = Reports::every(self.report, format);
        let run = run_all(&mut sources, &stopper, &origin, endings, &mut reports).await;
        // Sources fail because the origin has ended, and not the other way round.
        run.map_err(|failure| origin.end_reason().map_or(failure, |why| Failure::failed(why.to_string())))?;
        let status = tokio::select! {
            status = confirmed(&origin, &self.feed, self.timeout) => status?,
            () = endings.next() => return Err(Failure::failed("stopped before the mirrors confirmed all events")),
        };
        let sources = sources.counted();
        let fed = Fed {
            feed: self.feed,
            offered: sources.iter().map(|one| one.counts.offered).sum(),
            refused: sources.iter().map(|one| one.counts.refused + one.counts.repeated).sum(),
            mirrored: status.cut.position - before,
            committed: status.committed.saturating_sub(before),
            mirrors: status.mirrors.len() as usize,
            elapsed_ms: began.elapsed().as_millis() as u64,
            sources,
        };
        if let Some(origin) = Arc::into_inner(origin) {
            origin.end().await;
        }
        Ok(fed)
    }
}

/// Waits until all sources have ended. A signal stops them, and so does the failure of one.
async fn run_all(
    sources: &mut Sources,
    stopper: &Stopper,
    origin: &Origin,
    endings: &mut Endings,
    reports: &mut Reports,
) -> Result<(), Failure> {
    let (mut is_stopping, mut failure) = (false, None);
    let mut acknowledged = origin.acknowledged();
    loop {
        tokio::select! {
            ended = sources.ended() => match ended {
                None => return failure.map_or(Ok(()), Err),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    stopper.stop();
                    is_stopping = true;
                    failure = failure.or(Some(error));
                }
            },
            () = endings.next() => {
                if is_stopping {
                    return Err(Failure::failed("stopped before all sources had their acknowledgements"));
                }
                stopper.stop();
                is_stopping = true;
            }
            // Live sources would go on to refuse all events.
            () = ended(&mut acknowledged) => {
                return Err(failure.unwrap_or_else(|| Failure::failed("the origin has ended; see its log")));
            }
            () = reports.due() => {
                let counts = sources.counted();
                if let Some(status) = origin.status().await {
                    reports.print(&status, &acknowledged.borrow_and_update(), &counts);
                }
            }
            // Sources wait for the acknowledgement of events that rules hold back.
            () = sleep(VOTES_EVERY), if is_stopping => origin.flush().await,
        }
    }
}

/// Waits until the origin has ended by itself.
async fn ended(acknowledged: &mut watch::Receiver<Acknowledged>) {
    while acknowledged.changed().await.is_ok() {}
}

/// Waits until all mirrors that take part have all chosen events.
async fn confirmed(origin: &Origin, feed: &str, within: Duration) -> Result<OriginStatus, Failure> {
    let give_up_at = Instant::now() + within;
    loop {
        origin.flush().await;
        sleep(VOTES_EVERY).await;
        let ended = || {
            let why = origin.end_reason().map(ToString::to_string);
            Failure::failed(why.unwrap_or_else(|| "the stream to the mirrors is over".to_owned()))
        };
        let status = origin.status().await.ok_or_else(ended)?;
        let is_confirmed = status.mirrors.is_empty() || status.committed == status.cut.position;
        if status.is_idle && is_confirmed {
            return Ok(status);
        }
        if Instant::now() >= give_up_at {
            let OriginStatus { cut, committed, shortage, .. } = status;
            let reason = shortage.map(|shortage| format!(": {shortage}")).unwrap_or_default();
            return Err(Failure::failed(format!(
                "the mirrors confirm {committed} of {} events within {within:?}{reason}; `treefold mirror status {feed}` \
                 shows them",
                cut.position
            )));
        }
    }
}
