//! `hosts`: measurements of this host, for calls and for streams.
//!
//! Calls and streams share one [`Watch`], so that a host is measured at most five times a second, however
//! many readers there are, and not at all without readers. Reading the system's counters takes about a
//! millisecond and may block, so it never happens on the node's event loop: locals of calls run on workers,
//! and streams are served by a separate thread, which sleeps until a sample is due.

use super::kind::Offer;
use super::words::Words;
use super::{Opened, chain, with_operators};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use treefold::endpoint::{Acceptor, EndpointStream, accept};
use treefold::{Body, CallError, Operator, PartitionSet, Service};
use treefold_hosts::SERVICE;
use treefold_hosts::sample::{NodeStreams, Sample};
use treefold_hosts::{Host, Pace, Watch};

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn keys(&self) -> &'static [&'static str] {
        &["name"]
    }

    fn form(&self) -> &'static str {
        "hosts with one partition, which is this host, as in hosts:partitions=3/100"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        words.without_subject()?;
        // A process has one host; with two partitions, it would be counted twice.
        if words.partitions()?.0.len() != 1 {
            return Err(words.refuse(self.form()));
        }
        Ok(Arc::new(ThisHost(words.of("name").map(str::to_owned))))
    }

    fn operators(&self) -> Vec<(&'static str, Arc<dyn Operator>)> {
        treefold_hosts::aggregations()
    }

    fn filtering(&self) -> Option<Service> {
        Some(filtering())
    }

    fn check_endpoint_params(&self, params: &Bytes) -> Result<(), String> {
        Pace::read(params).map(drop).map_err(|error| error.to_string())
    }
}

fn empty() -> Service {
    with_operators(filtering(), SERVICE, treefold_hosts::aggregations())
}

fn filtering() -> Service {
    Service::new(SERVICE).filter(treefold_hosts::FILTER, treefold_hosts::folding())
}

/// This host, under this name; `None` for the system's name.
#[derive(Debug)]
struct ThisHost(Option<String>);

impl Offer for ThisHost {
    fn name(&self) -> &str {
        SERVICE
    }

    fn may_block(&self) -> bool {
        true
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        let name = self.0.clone().unwrap_or_else(treefold_hosts::sampler::host_name);
        let service = partitions.iter().try_fold(empty().total(total), |service, partition| {
            let watch = Arc::new(Watch::start(Host::new(partition, &name)).map_err(|error| chain(&error))?);
            let (accepting, acceptor) = accept();
            tell(acceptor, Arc::clone(&watch))?;
            Ok::<_, String>(service.partition_arc(partition, watch).endpoints([partition], accepting))
        })?;
        Ok(service.into())
    }
}

/// Starts the thread that serves streams.
///
/// It ends with the node.
fn tell(acceptor: Acceptor, watch: Arc<Watch>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("can't start the runtime of hosts' streams: {error}"))?;
    let serve_all = async move {
        while let Some(stream) = acceptor.accept().await {
            tokio::spawn(tell_stream(stream, Arc::clone(&watch)));
        }
    };
    let thread = std::thread::Builder::new().name("tf-hosts".to_owned());
    let started = thread.spawn(move || runtime.block_on(serve_all));
    started.map(drop).map_err(|error| format!("can't start the thread of hosts' streams: {error}"))
}

/// Sends the host's samples, at the pace that the stream requests, until the stream is over.
///
/// If a stream is slow, it gets fewer samples but never old ones, because a skipped sample is not measured.
async fn tell_stream(mut stream: EndpointStream, watch: Arc<Watch>) {
    let mut ticks = interval(pace_of(&stream));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            // Packets from the front-end have no meaning here; their end is the end of the stream.
            packet = stream.recv() => if packet.is_none() { return },
            _ = ticks.tick() => {
                let node = streams_of_node(&stream).await;
                let sample = watch.now().map(|sample| Sample { node, ..sample });
                let sample = sample.map_err(|error| chain(&error));
                let sent = match sample.and_then(|sample| sample.encode().map_err(|error| error.to_string())) {
                    Ok(sample) => stream.send(sample).await,
                    Err(problem) => {
                        tracing::warn!(problem, "this host can't be measured; its streams get no sample");
                        Ok(())
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
        }
    }
}

/// Returns the streams of this host's node, including the one that asks.
async fn streams_of_node(stream: &EndpointStream) -> Option<NodeStreams> {
    let open = stream.node_status().await.ok()?.open;
    Some(NodeStreams { streams: open.streams as u64, bytes: open.stream_bytes as u64 })
}

/// Returns the requested pace.
///
/// If the parameters are invalid, the default pace is used, because an endpoint can't refuse a stream.
fn pace_of(stream: &EndpointStream) -> Duration {
    let opening = stream.opening();
    let pace = Pace::read(&opening.spec.params).unwrap_or_else(|error| {
        tracing::warn!(stream = %opening.stream, %error, "invalid parameters of a stream of hosts; using defaults");
        Pace::default()
    });
    pace.interval()
}
