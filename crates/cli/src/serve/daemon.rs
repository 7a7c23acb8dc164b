//! Emulated daemons of a parallel tool, as endpoints of streams, many in one process.
//!
//! The content of a daemon's messages comes from [`treefold_daemon`]; this module sends them at the right
//! times. Each endpoint of each stream is a task that plays the part named in the stream's `params`: it
//! answers requests, answers probes of its clock after injected delays, or sends samples when they are due.
//! The daemons of a process keep their state across streams, as a separate process would.

use super::Opened;
use super::kind::Offer;
use super::words::Words;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use treefold::endpoint::{Acceptor, EndpointStream, accept};
use treefold::{Body, CallError, Error, PartitionSet, Service};
use treefold_daemon::clock::Delays;
use treefold_daemon::skew::{self, EmulatedClockSkew};
use treefold_daemon::{Clock, Daemon, Injected, Part, Request, SERVICE, Sampler, Sampling};

/// The shortest valid parameters of a daemon.
pub(super) const PARAMS: &str = r#"{"Answer":{"seed":1}}"#;

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn numbered_by(&self) -> &'static str {
        "endpoints"
    }

    fn form(&self) -> &'static str {
        "daemon with endpoints, as in daemon:endpoints=0-31/512"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        words.without_subject()?;
        Ok(Arc::new(Daemons))
    }

    fn filtering(&self) -> Option<Service> {
        Some(empty(None))
    }

    fn check_endpoint_params(&self, params: &Bytes) -> Result<(), String> {
        let part = Part::decode(params).map(drop);
        part.map_err(|error| format!("{error}; a part is Answer, Clock or Sample, as in {PARAMS}"))
    }
}

/// The service without endpoints: only its filter, with the clock of this host.
fn empty(host: Option<u32>) -> Service {
    Service::new(SERVICE).filter(skew::FILTER, EmulatedClockSkew { host })
}

#[derive(Debug)]
struct Daemons;

impl Offer for Daemons {
    fn name(&self) -> &str {
        SERVICE
    }

    /// Must be called within a runtime, because the daemons run from now on.
    fn open(&self, endpoints: &PartitionSet, total: u32) -> Result<Opened, String> {
        let (accepting, acceptor) = accept();
        tokio::spawn(play_all(acceptor));
        Ok(empty(endpoints.least()).total(total).endpoints(endpoints.iter(), accepting).into())
    }
}

/// Returns the true time in ns since the Unix epoch.
///
/// Injected skews are relative to it.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

async fn play_all(acceptor: Acceptor) {
    let troupe = Arc::new(Troupe::default());
    while let Some(stream) = acceptor.accept().await {
        tokio::spawn(play(stream, Arc::clone(&troupe)));
    }
}

/// The daemons of this process.
///
/// They all have the seed of the latest request.
#[derive(Default)]
struct Troupe(Mutex<Known>);

#[derive(Default)]
struct Known {
    seed: u64,
    programs: Vec<Arc<treefold_daemon::executable::Executable>>,
    daemons: BTreeMap<u32, Daemon>,
}

impl Troupe {
    fn answer(&self, seed: u64, endpoint: u32, request: Request) -> Bytes {
        // The state is valid even if a task panicked while it held the lock, because answering changes one
        // field at once.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.programs.is_empty() || known.seed != seed {
            *known = Known { seed, programs: Daemon::programs(seed), daemons: BTreeMap::new() };
        }
        let Known { programs, daemons, .. } = &mut *known;
        let daemon = daemons.entry(endpoint).or_insert_with(|| Daemon::new(seed, endpoint, programs));
        daemon.answer(request)
    }
}

/// Plays one daemon's part in one stream until the stream ends.
///
/// Unknown parts are not answered.
async fn play(stream: EndpointStream, troupe: Arc<Troupe>) {
    let ended = match Part::decode(&stream.opening().spec.params) {
        Ok(Part::Answer { seed }) => answer(stream, &troupe, seed).await,
        Ok(Part::Clock(injected)) => show_clock(stream, &injected).await,
        Ok(Part::Sample(sampling)) => sample(stream, &sampling).await,
        Err(error) => return crate::tell!("treefold: a daemon's part is invalid: {error}"),
    };
    // A send that fails because the stream is over is its normal end.
    drop(ended);
}

async fn answer(mut stream: EndpointStream, troupe: &Troupe, seed: u64) -> Result<(), Error> {
    let endpoint = stream.opening().endpoint;
    while let Some(packet) = stream.recv().await {
        match Request::decode(&packet.payload) {
            Ok(request) => stream.send_tagged(packet.tag, troupe.answer(seed, endpoint, request)).await?,
            Err(error) => crate::tell!("treefold: a daemon received an invalid request: {error}"),
        }
    }
    Ok(())
}

async fn show_clock(mut stream: EndpointStream, injected: &Injected) -> Result<(), Error> {
    let endpoint = stream.opening().endpoint;
    let clock = Clock::of_daemon(injected, endpoint);
    let mut delays = Delays::of(injected, endpoint);
    while let Some(packet) = stream.recv().await {
        delay(delays.next_delay()).await;
        let shown_ns = clock.reading_ns(now_ns());
        delay(delays.next_delay()).await;
        match skew::reply(endpoint, &packet.payload, shown_ns, shown_ns) {
            Ok(reply) => stream.send_tagged(packet.tag, reply).await?,
            Err(error) => crate::tell!("treefold: a daemon received an invalid probe: {error}"),
        }
    }
    Ok(())
}

async fn delay(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Sends samples, each when it is due.
///
/// If the window is full, the daemon waits and then sends all samples that are due: under too much load
/// samples come late, but none is left out.
async fn sample(stream: EndpointStream, sampling: &Sampling) -> Result<(), Error> {
    let mut sampler = match Sampler::new(sampling, stream.opening().endpoint) {
        Ok(sampler) => sampler,
        Err(error) => {
            crate::tell!("treefold: a daemon can't send the requested samples: {error}");
            return Ok(());
        }
    };
    loop {
        delay(Duration::from_nanos(sampler.due_ns().saturating_sub(now_ns()))).await;
        match sampler.next_sample().encode() {
            Ok(sample) => stream.send(sample).await?,
            Err(error) => {
                crate::tell!("treefold: can't encode a sample: {error}");
                return Ok(());
            }
        }
    }
}
