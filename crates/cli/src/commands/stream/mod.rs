//! `treefold stream`: opens a stream from the command line until the command ends.
//!
//! The command is the front-end: it forms the tree, holds its root, and folds the last step itself. It
//! therefore needs the filter's code. It has the filters that every node has, and the filters of the services
//! that `treefold node --serve` can name.
//!
//! - [`front_end`](super::front_end) makes a client that can be one. [`filters`]: the output of `--list-filters`.
//! - [`send`]: packets down. [`shown`]: prints waves and changes of the tree.

mod filters;
mod send;
mod shown;

use super::call::read_json;
use super::failure_of;
use super::front_end::front_end;
use crate::args::At;
use crate::endings::Endings;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use crate::parse;
use crate::serve::check_endpoint_params;
use bytes::Bytes;
use clap::Args;
use send::Sends;
pub(crate) use send::packet_given;
use shown::{Shown, verdict};
use std::pin::pin;
use std::time::Duration;
use treefold::{
    CallError, Client, PartitionSet, Raw, Shape, Stream, StreamEvent, StreamWave, Synchronisation,
};
use treefold_core::stream::tags::TagRuns;
use treefold_forms::stream;

/// Limit on the time until all nodes of a stream have been sent its end.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Time that the event loop is given to write its last messages.
const CLOSE_LINGER: Duration = Duration::from_millis(20);

/// Open a stream to the endpoints of a service, and print its waves
///
/// A stream is a tree that stays: packets go down it to all endpoints, and the endpoints' packets come up it
/// in waves, folded by a filter at every node. Each wave is printed with its tag, its contributors, and its
/// missing endpoints with reasons. Changes of the tree (endpoints that join or go away) are reported on
/// standard error. Ctrl-C closes the stream.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("at", |at| at.required(false).required_unless_present("list_filters")))]
pub(crate) struct StreamArgs {
    /// Service to whose endpoints the stream is opened
    #[arg(value_name = "SERVICE", required_unless_present = "list_filters")]
    service: Option<String>,

    #[command(flatten)]
    at: At,

    /// Filter that folds waves on their way up [default: none, packets come unchanged]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    filter: String,

    /// Filter that packets pass on their way down [default: none]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    down_filter: String,

    /// Parameters of the filters: JSON, @FILE to read them from a file, or - to read standard input; hex:…
    /// for raw bytes
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    filter_params: Option<String>,

    /// Parameters of the endpoints: JSON, @FILE, or -
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,

    /// Rule that completes a wave: wait-for-all, time-out:MS, do-not-wait
    #[arg(long, value_name = "MODE", default_value = "wait-for-all", value_parser = stream::synchronisation, allow_hyphen_values = true)]
    sync: Synchronisation,

    /// Shape of the tree: auto (the topology in a network started from one, over relays if there are any,
    /// else kary:8), topology, on-path, kary:K, binomial, adaptive, chain, …
    #[arg(long, value_name = "SHAPE", default_value = "auto", value_parser = parse::shape)]
    shape: Shape,

    /// Endpoints of the stream, as in 0-9,12 [default: all of the service, including later ones]
    #[arg(long, value_name = "IDS", value_parser = stream::endpoints, allow_hyphen_values = true)]
    endpoints: Option<PartitionSet>,

    /// Packet to send down: a text, JSON (a typed packet if it has `format` and `values`, else a MessagePack
    /// value), @FILE for a file's bytes, or - for each line of standard input (a line that is not UTF-8 is sent as
    /// it is)
    #[arg(long, value_name = "WHAT", allow_hyphen_values = true)]
    send: Option<String>,

    /// Time between repetitions of --send, with its unit; without --send, an empty packet is sent
    #[arg(long, value_name = "TIME", value_parser = every, allow_hyphen_values = true)]
    every: Option<Duration>,

    /// Number of waves after which to end [default: when all sent packets are answered, or never]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Size of each node's window in bytes: sent up and not yet printed [default: the nodes' limit]
    #[arg(long, value_name = "BYTES", value_parser = stream::window, allow_hyphen_values = true)]
    window: Option<u64>,

    /// List the filters with their parameters, and exit
    #[arg(long)]
    list_filters: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Exit codes are those of a call: 0 if every wave was full, 3 if a wave lacked endpoints, 4 if a wave had
no endpoints. With -o json, one line per wave:
  {tag, is_late, packets, contributors, coverage: {asked, contributed}, missing: [{partition, node, reason}]}

With `treefold node --listen 127.0.0.1:7700 --serve hosts:partitions=0/1`, and one more node for each further host:

Examples:
  treefold stream --list-filters
  treefold stream hosts --at 127.0.0.1:7700 --filter hosts/hosts --count 2
  treefold stream hosts --at 127.0.0.1:7700 --filter count --sync time-out:400 --count 2
  treefold stream hosts --at 127.0.0.1:7700 --filter count --params '{\"interval_ms\":500}' --count 2
  treefold stream hosts --at 127.0.0.1:7700 --filter count --count 2 -o json | jq .contributors";

impl StreamArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        if self.list_filters {
            filters::list(format);
            return Ok(Verdict::Full);
        }
        let service = self.service.as_deref().expect("invariant: clap requires it here");
        let sends = Sends::of(self.send.as_deref(), self.every)?;
        let read = |option, given: &Option<String>| {
            given.as_deref().map_or(Ok(Bytes::new()), |given| read_json(option, given))
        };
        let params = read("--params", &self.params)?;
        check_endpoint_params(service, &params)
            .map_err(|problem| Failure::usage(format!("--params: {problem}")))?;
        let filter_params = match self.filter_params.as_deref().and_then(|given| given.strip_prefix("hex:")) {
            Some(digits) => octets("filter_params", digits)?,
            None => read("--filter-params", &self.filter_params)?,
        };
        let mut endings = Endings::catch()?;
        let client = front_end(&self.at, &self.cluster).await?;
        let mut builder = client
            .stream(service)
            .up_filter(self.filter.as_str())
            .down_filter(self.down_filter.as_str())
            .filter_params(&Raw(filter_params))
            .params(&Raw(params))
            .synchronisation(self.sync)
            .shape(self.shape);
        if let Some(endpoints) = self.endpoints.clone() {
            builder = builder.endpoints(endpoints);
        }
        if let Some(bytes) = self.window {
            builder = builder.window_bytes(bytes);
        }
        let stream = tokio::select! {
            stream = builder.open() => stream.map_err(failure_of)?,
            () = endings.next() => return Ok(Verdict::Full),
        };
        shown::opened(stream.id(), stream.trees(), stream.endpoints(), stream.missing());
        let sending = sends.send(stream.sender(), self.every);
        let mut watching = Watching::of(&self, Shown::new(format, &self.filter), stream);
        let ended = watching.run(sending, &mut endings).await;
        let verdict = watching.verdict();
        close(&client, watching.stream).await;
        ended.map(|()| verdict)
    }
}

/// An open stream with its progress.
struct Watching {
    stream: Stream,
    shown: Shown,
    /// Number of waves after which to end.
    count: Option<u64>,
    /// End when all sent packets are answered.
    until_answered: bool,
    gathers: bool,
    waves: u64,
    tags: TagRuns,
    tags_count: u64,
    worst: Option<Verdict>,
    /// Endpoints that took part at the last printed change.
    seen: PartitionSet,
}

impl Watching {
    fn of(args: &StreamArgs, shown: Shown, stream: Stream) -> Self {
        Self {
            seen: stream.endpoints().clone(),
            stream,
            shown,
            count: args.count,
            until_answered: args.count.is_none() && args.send.is_some() && args.every.is_none(),
            gathers: args.sync != Synchronisation::DoNotWait,
            waves: 0,
            tags: TagRuns::new(),
            tags_count: 0,
            worst: None,
        }
    }

    /// Prints waves until the end condition holds or a signal arrives.
    async fn run(
        &mut self,
        sending: impl Future<Output = Result<u64, Failure>>,
        endings: &mut Endings,
    ) -> Result<(), Failure> {
        let mut sending = pin!(sending);
        let mut sent = None;
        while !self.is_enough(sent) {
            tokio::select! {
                event = self.stream.next() => self.take(event.map_err(failure_of)?),
                done = &mut sending, if sent.is_none() => sent = Some(done?),
                () = endings.next() => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_enough(&self, sent: Option<u64>) -> bool {
        if let Some(count) = self.count {
            return self.waves >= count;
        }
        match sent {
            Some(sent) if self.until_answered && self.gathers => self.tags_count >= sent,
            Some(sent) if self.until_answered => self.waves >= sent * self.stream.endpoints().len() as u64,
            _ => false,
        }
    }

    fn take(&mut self, event: StreamEvent<Bytes>) {
        match event {
            StreamEvent::Wave(wave) => self.take_wave(&wave),
            StreamEvent::Changed { trees, endpoints, away } => {
                shown::changed(&self.seen, &trees, &endpoints, &away);
                self.seen = endpoints;
            }
            StreamEvent::Opened { .. } | StreamEvent::Taken { .. } | StreamEvent::Closed(_) => {}
        }
    }

    fn take_wave(&mut self, wave: &StreamWave<Bytes>) {
        let is_late = self.gathers && self.tags.contains(wave.tag);
        if !self.tags.contains(wave.tag) {
            self.tags.insert(wave.tag);
            self.tags_count += 1;
        }
        if !is_late {
            self.waves += 1;
            let verdict = verdict(&wave.contributors, &wave.missing);
            self.worst = self.worst.max(Some(verdict));
        }
        self.shown.wave(wave, is_late);
    }

    /// Returns the worst verdict so far; before any wave, the verdict on the stream's endpoints.
    fn verdict(&self) -> Verdict {
        self.worst.unwrap_or_else(|| verdict(self.stream.endpoints(), self.stream.missing()))
    }
}

/// Closes the stream at all its nodes, and waits until the close is sent.
///
/// If a node only lost its front-end, it would also end its share, but it would report a loss to its
/// endpoints instead of a close.
async fn close(client: &Client, stream: Stream) {
    stream.close();
    let gone = async {
        while client.status().await.is_ok_and(|status| status.open.streams > 0) {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(CLOSE_LINGER).await;
    };
    // Nodes that do not receive the close notice the loss of the front-end.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, gone).await;
}

/// Parses an option's parameters in hexadecimal.
///
/// A guest defines its own format, which need not be a MessagePack value.
pub(crate) fn octets(option: &str, digits: &str) -> Result<Bytes, Failure> {
    let octet = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2 && !text.starts_with('+'))?;
        u8::from_str_radix(text, 16).ok()
    };
    let octets: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(octet).collect();
    octets.map(Bytes::from).ok_or_else(|| {
        let limit = "hex: and pairs of hexadecimal digits, as in hex:0a000000";
        Failure::Rejected(CallError::bad_field(option, format_args!("hex:{digits}"), limit))
    })
}

/// Parses the rule that completes a wave.
fn every(text: &str) -> Result<Duration, CallError> {
    stream::every(text, EVERY_MIN)
}

/// Shortest interval that the timer supports.
const EVERY_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_params_accept_raw_bytes_in_hex() {
        let octets = |digits| octets("filter_params", digits);
        assert_eq!(octets("0a000000").unwrap(), [10, 0, 0, 0][..]);
        assert_eq!(octets("FFfe").unwrap(), [255, 254][..]);
        assert_eq!(octets("").unwrap(), Bytes::new());
        for senseless in ["0", "0a0", "0g", "+1", "0x0a", "é"] {
            let refused = octets(senseless).unwrap_err().to_string();
            assert!(refused.starts_with("filter_params is hex:") && refused.contains("pairs"), "{refused}");
        }
    }
}
