//! Events per second of each kind of source into an origin with one mirror, over loopback, until the last event is
//! acknowledged.
//!
//! `cargo bench --profile lean -p treefold-sources --bench throughput -- [EVENTS] [RUNS]`. The mirror, the origin with
//! its source, and the peer that sends have a thread each; a NATS server is a process. Prints the median of the runs,
//! which take turns.
#![allow(clippy::unwrap_used, reason = "an experiment that can't go on has failed")]

#[path = "../tests/whole/broker.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests use all of it")]
mod broker;

use broker::Broker;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use treefold::{Client, Node};
use treefold_feed::{MirrorOptions, Origin, OriginOptions, mirror};
use treefold_mirror::rules::RuleFile;
use treefold_mirror::{MirrorLimits, Name};
use treefold_sources::jetstream::{JetStreamOptions, JetStreamSource};
use treefold_sources::nats::{NatsOptions, NatsSource, Server};
use treefold_sources::recording::{Format, Recording, RecordingOptions};
use treefold_sources::replay::{Pace, replay};
use treefold_sources::tcp::TcpSource;
use treefold_sources::{Feeder, Reach, SourceLimits, Stopper, Tally, http};

/// Messages of NATS on their way, because its publisher has to wait for the source.
const NATS_WINDOW: u64 = 2_000;

fn line(number: u64, has_number: bool) -> String {
    let number_of = if has_number { format!(r#""stream":"faa","number":{number},"#) } else { String::new() };
    format!(
        r#"{{{number_of}"key":"DL{}","type":"position","fields":{{"lat":28.0661,"lon":-101.1356,"altitude_ft":33033,"speed_kt":{}}}}}"#,
        number % 6_000,
        number % 500
    )
}

fn lines(events: u64) -> String {
    (1..=events).map(|number| line(number, true) + "\n").collect()
}

fn csv(events: u64) -> String {
    let row = |number: u64| {
        format!("faa,{number},DL{},position,28.0661,-101.1356,33033,{}\n", number % 6_000, number % 500)
    };
    "stream,number,key,type,lat,lon,altitude_ft,speed_kt\n".to_owned()
        + &(1..=events).map(row).collect::<String>()
}

/// A mirror on a thread of its own.
fn start_mirror() -> SocketAddr {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (service, unstarted) = mirror(MirrorOptions::new("flights", 0, 1));
            let node = Node::builder().service(service).start().await.unwrap();
            let _mirror = unstarted.start(node.client());
            sender.send(node.addr()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

async fn feeder(events_stream: &str) -> (Feeder<Origin>, Stopper) {
    let client = Client::builder().at([start_mirror()]).direct(true).connect().await.unwrap();
    let options = OriginOptions::new(RuleFile::default());
    let origin = Origin::start(&client, "flights", options).await.unwrap();
    while origin.status().await.unwrap().mirrors.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (stopper, stop) = Stopper::new();
    let feeder = Feeder {
        intake: Arc::new(origin),
        stop,
        tally: Arc::new(Tally::default()),
        stream: Some(Name::new(events_stream.to_owned()).unwrap()),
        limits: Arc::new(SourceLimits::DEFAULT),
    };
    (feeder, stopper)
}

async fn acknowledged(feeder: &Feeder<Origin>, stream: &str, events: u64) {
    let mut numbers = feeder.intake.acknowledged();
    numbers.wait_for(|numbers| numbers.of(stream) == Some(events)).await.unwrap();
    assert_eq!(feeder.tally.counts().refused, 0);
}

async fn file(events: u64, format: Format) -> f64 {
    let (feeder, _stopper) = feeder("faa").await;
    let mut stored = tempfile::NamedTempFile::new().unwrap();
    let text = if format == Format::Csv { csv(events) } else { lines(events) };
    stored.write_all(text.as_bytes()).unwrap();
    let options = RecordingOptions {
        name: "trace".to_owned(),
        stream: None,
        per_second: f64::INFINITY,
        types: Default::default(),
        limits: MirrorLimits::DEFAULT,
        line_bytes_max: 16 << 20,
    };
    let recording = Recording::new(Box::new(stored.reopen().unwrap()), format, options);
    let began = Instant::now();
    replay(&feeder, recording, Pace::Unpaced, |_, one| panic!("{one:?}")).await.unwrap();
    acknowledged(&feeder, "faa", events).await;
    events as f64 / began.elapsed().as_secs_f64()
}

async fn tcp(events: u64) -> f64 {
    let (feeder, _stopper) = feeder("faa").await;
    let source = TcpSource::bind("127.0.0.1:0", Reach::Local).await.unwrap();
    let addr = source.local_addr().unwrap();
    tokio::spawn(source.run(feeder.clone()));
    let text = lines(events);
    let began = Instant::now();
    std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        let mut answers = stream.try_clone().unwrap();
        std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
        stream.write_all(text.as_bytes()).unwrap();
    });
    acknowledged(&feeder, "faa", events).await;
    events as f64 / began.elapsed().as_secs_f64()
}

async fn over_http(events: u64) -> f64 {
    let (feeder, _stopper) = feeder("faa").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (served, routes) = (feeder.clone(), http::routes("flights", feeder.clone()));
    tokio::spawn(async move { http::serve(listener, routes, &served.limits, served.stop.clone()).await });
    let body = lines(events);
    let began = Instant::now();
    let asking = tokio::task::spawn_blocking(move || {
        let head = format!(
            "POST /v1/feeds/flights/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = std::net::TcpStream::connect(addr).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = asking.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    events as f64 / began.elapsed().as_secs_f64()
}

async fn nats(events: u64, broker: &Broker) -> f64 {
    let (feeder, _stopper) = feeder("faa").await;
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let source = NatsSource::subscribe(&client, "core", NatsOptions::default()).await.unwrap();
    tokio::spawn(source.run(feeder.clone()));
    let (url, tally) = (broker.url(), Arc::clone(&feeder.tally));
    let began = Instant::now();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let publisher = async_nats::connect(url).await.unwrap();
            for number in 1..=events {
                publisher.publish("core", line(number, true).into()).await.unwrap();
                while number >= tally.counts().offered + NATS_WINDOW {
                    publisher.flush().await.unwrap();
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
            }
            publisher.flush().await.unwrap();
        });
    });
    acknowledged(&feeder, "faa", events).await;
    events as f64 / began.elapsed().as_secs_f64()
}

/// Reads a stream that is there already.
async fn jetstream(events: u64, broker: &Broker) -> f64 {
    let context = async_nats::jetstream::new(async_nats::connect(broker.url()).await.unwrap());
    let config = async_nats::jetstream::stream::Config {
        name: "FLIGHTS".to_owned(),
        subjects: vec!["flights".to_owned()],
        ..Default::default()
    };
    while context.create_stream(config.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut sent = Vec::new();
    for number in 1..=events {
        sent.push(context.publish("flights", line(number, false).into()).await.unwrap());
        if sent.len() == 1_000 || number == events {
            for one in sent.drain(..) {
                one.await.unwrap();
            }
        }
    }
    let (feeder, _stopper) = feeder("FLIGHTS").await;
    let server = Server { url: broker.url(), credentials: None };
    let options = JetStreamOptions { feed: "flights".to_owned(), ..Default::default() };
    let source = JetStreamSource::open(&server, "FLIGHTS", options).await.unwrap();
    let began = Instant::now();
    tokio::spawn(source.run(feeder.clone()));
    acknowledged(&feeder, "FLIGHTS", events).await;
    let rate = events as f64 / began.elapsed().as_secs_f64();
    context.delete_stream("FLIGHTS").await.unwrap();
    rate
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (events, runs) = (numbers.first().copied().unwrap_or(100_000), numbers.get(1).copied().unwrap_or(5));
    let kinds = ["JSON lines", "CSV", "TCP", "HTTP", "NATS", "JetStream"];
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..runs {
        for (kind, rates) in rates.iter_mut().enumerate() {
            // Each run has an origin, a mirror and a runtime of its own.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            rates.extend(runtime.block_on(async {
                Some(match kind {
                    0 => file(events, Format::JsonLines).await,
                    1 => file(events, Format::Csv).await,
                    2 => tcp(events).await,
                    3 => over_http(events).await,
                    4 => nats(events, &Broker::start().await?).await,
                    _ => jetstream(events, &Broker::start().await?).await,
                })
            }));
            runtime.shutdown_background();
        }
    }
    println!("{events} events, median of {runs} runs, events/s (least to greatest)");
    for (kind, rates) in kinds.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        if let (Some(least), Some(median), Some(most)) =
            (rates.first(), rates.get(rates.len() / 2), rates.last())
        {
            println!("{kind:<11}{median:>9.0} ({least:.0} to {most:.0})");
        }
    }
}
