//! Emulated daemons of a parallel tool, as endpoints of streams, many in one process.
//!
//! What a daemon says is [`treefold_daemon`]'s; here is when. Each endpoint of each stream is a task that plays the
//! part that the stream's `params` name: it answers requests, answers probes of its clock after the delays that its
//! link is to have, or sends samples as they become due. Daemons of a process know their state across streams, as a
//! process of their own would.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use treefold::endpoint::{Acceptor, EndpointStream, accept};
use treefold::{Body, Error, PartitionSet, Service};
use treefold_daemon::clock::Delays;
use treefold_daemon::skew::{self, EmulatedClockSkew};
use treefold_daemon::{Clock, Daemon, Injected, Part, Request, SERVICE, Sampler, Sampling};

/// The service without endpoints: its filter only, with the clock of this host.
pub fn service(host: Option<u32>) -> Service {
    Service::new(SERVICE).filter(skew::FILTER, EmulatedClockSkew { host })
}

/// The service with these daemons, which run from now on. To be called within a runtime.
pub fn run(endpoints: &PartitionSet, total: u32) -> Service {
    let (accepting, acceptor) = accept();
    tokio::spawn(play_all(acceptor));
    service(endpoints.least()).total(total).endpoints(endpoints.iter(), accepting)
}

/// Now, in ns since the Unix epoch: the truth that all clocks are off from.
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

/// The daemons of this process, all of one seed: that of whoever asked last.
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
        // What a task left behind that panicked is whole: answering changes one field, at once.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.programs.is_empty() || known.seed != seed {
            *known = Known { seed, programs: Daemon::programs(seed), daemons: BTreeMap::new() };
        }
        let Known { programs, daemons, .. } = &mut *known;
        let daemon = daemons.entry(endpoint).or_insert_with(|| Daemon::new(seed, endpoint, programs));
        daemon.answer(request)
    }
}

/// One daemon's part in one stream. Ends with the stream; whom it doesn't understand it doesn't answer.
async fn play(stream: EndpointStream, troupe: Arc<Troupe>) {
    let ended = match Part::decode(&stream.opening().spec.params) {
        Ok(Part::Answer { seed }) => answer(stream, &troupe, seed).await,
        Ok(Part::Clock(injected)) => show_clock(stream, &injected).await,
        Ok(Part::Sample(sampling)) => sample(stream, &sampling).await,
        Err(error) => return eprintln!("treefold: a daemon's part makes no sense: {error}"),
    };
    // That the stream is over while something is being sent is how streams end.
    drop(ended);
}

async fn answer(mut stream: EndpointStream, troupe: &Troupe, seed: u64) -> Result<(), Error> {
    let endpoint = stream.opening().endpoint;
    while let Some(packet) = stream.recv().await {
        match Request::decode(&packet.payload) {
            Ok(request) => stream.send_tagged(packet.tag, troupe.answer(seed, endpoint, request)).await?,
            Err(error) => eprintln!("treefold: a daemon was asked what it doesn't understand: {error}"),
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
            Err(error) => eprintln!("treefold: a daemon got a probe that is none: {error}"),
        }
    }
    Ok(())
}

async fn delay(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Samples, each when it is due. Where the window is full the daemon waits, and then sends what has become due
/// meanwhile: under too much load samples come late, and are never left out.
async fn sample(stream: EndpointStream, sampling: &Sampling) -> Result<(), Error> {
    let mut sampler = match Sampler::new(sampling, stream.opening().endpoint) {
        Ok(sampler) => sampler,
        Err(error) => {
            eprintln!("treefold: a daemon was asked for what it can't send: {error}");
            return Ok(());
        }
    };
    loop {
        delay(Duration::from_nanos(sampler.due_ns().saturating_sub(now_ns()))).await;
        match sampler.next_sample().encode() {
            Ok(sample) => stream.send(sample).await?,
            Err(error) => {
                eprintln!("treefold: a sample can't be written: {error}");
                return Ok(());
            }
        }
    }
}
