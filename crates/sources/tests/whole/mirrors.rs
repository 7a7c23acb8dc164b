//! Ten thousand events through each source to a real mirror, with acknowledgements of a real origin.

use crate::broker::Broker;
use crate::files::recording;
use crate::recorder::{line, until};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use treefold::Node;
use treefold_feed::{Mirror, MirrorOptions, Origin, OriginOptions, mirror};
use treefold_mirror::Name;
use treefold_mirror::fields::Value;
use treefold_mirror::rules::RuleFile;
use treefold_sources::jetstream::{JetStreamOptions, JetStreamSource};
use treefold_sources::nats::{NatsOptions, NatsSource, Server};
use treefold_sources::recording::Format;
use treefold_sources::replay::{Pace, replay};
use treefold_sources::tcp::TcpSource;
use treefold_sources::{Feeder, Reach, SourceLimits, Stopper, Tally, http};

const EVENTS: u64 = 10_000;

struct Feed {
    mirror: Mirror,
    feeder: Feeder<Origin>,
    _stopper: Stopper,
    _node: Node,
}

async fn start() -> Feed {
    let (service, unstarted) = mirror(MirrorOptions::new("flights", 0, 1));
    let node = Node::builder().service(service).start().await.unwrap();
    let mirror = unstarted.start(node.client());
    let options = OriginOptions::new(RuleFile::default());
    let origin = Origin::start(&node.client(), "flights", options).await.unwrap();
    let (stopper, stop) = Stopper::new();
    let feeder = Feeder {
        intake: Arc::new(origin),
        stop,
        tally: Arc::new(Tally::default()),
        stream: None,
        limits: Arc::new(SourceLimits::DEFAULT),
    };
    Feed { mirror, feeder, _stopper: stopper, _node: node }
}

fn lines() -> String {
    (1..=EVENTS).map(|number| line("faa", number) + "\n").collect()
}

impl Feed {
    /// Each event has arrived once and in order: there are as many as were sent, none was refused, and each key has
    /// its last value.
    async fn check(&self) {
        self.check_stream("faa").await;
    }

    async fn check_stream(&self, stream: &str) {
        let counts = self.feeder.tally.counts();
        assert_eq!((counts.offered, counts.refused, counts.repeated), (EVENTS, 0, 0));
        until("the mirror has all events", || self.mirror.cut().position == EVENTS).await;
        for key in 0..100 {
            let row = self.mirror.read(|_, state| state.value(&format!("DL{key}"))).unwrap();
            let last = if key == 0 { EVENTS } else { EVENTS - 100 + key };
            assert_eq!(row.fields.value("at"), Some(Value::Integer(last.into())), "DL{key}");
        }
        let acknowledged = self.feeder.intake.acknowledged();
        until("all events are acknowledged", || acknowledged.borrow().of(stream) == Some(EVENTS)).await;
    }
}

#[tokio::test]
async fn json_lines_reach_the_mirror() {
    let feed = start().await;
    let recording = recording(std::io::Cursor::new(lines()), Format::JsonLines);
    replay(&feed.feeder, recording, Pace::Unpaced, |_, one| panic!("{one:?}")).await.unwrap();
    feed.check().await;
}

#[tokio::test]
async fn csv_reaches_the_mirror() {
    let feed = start().await;
    let row = |number: u64| format!("faa,{number},DL{},position,{number}\n", number % 100);
    let text = "stream,number,key,type,at\n".to_owned() + &(1..=EVENTS).map(row).collect::<String>();
    let recording = recording(std::io::Cursor::new(text), Format::Csv);
    replay(&feed.feeder, recording, Pace::Unpaced, |_, one| panic!("{one:?}")).await.unwrap();
    feed.check().await;
}

#[tokio::test]
async fn tcp_reaches_the_mirror() {
    let feed = start().await;
    let source = TcpSource::bind("127.0.0.1:0", Reach::Local).await.unwrap();
    let addr = source.local_addr().unwrap();
    tokio::spawn(source.run(feed.feeder.clone()));
    let (mut read, mut write) = TcpStream::connect(addr).await.unwrap().into_split();
    let writing = tokio::spawn(async move {
        write.write_all(lines().as_bytes()).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let mut answers = String::new();
    read.read_to_string(&mut answers).await.unwrap();
    writing.await.unwrap();
    assert_eq!(answers.lines().last(), Some(format!(r#"{{"acknowledged":{{"faa":{EVENTS}}}}}"#).as_str()));
    feed.check().await;
}

#[tokio::test]
async fn http_reaches_the_mirror() {
    let feed = start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (feeder, routes) = (feed.feeder.clone(), http::routes("flights", feed.feeder.clone()));
    tokio::spawn(async move { http::serve(listener, routes, &feeder.limits, feeder.stop.clone()).await });
    let body = lines();
    let request = format!(
        "POST /v1/feeds/flights/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains(&format!("\"accepted\":{EVENTS},")), "{answer}");
    assert!(answer.contains(&format!("\"acknowledged\":{{\"faa\":{EVENTS}}}")), "{answer}");
    feed.check().await;
}

#[tokio::test]
async fn nats_reaches_the_mirror() {
    let Some(broker) = Broker::start().await else { return };
    let feed = start().await;
    let client = Server { url: broker.url(), credentials: None }.connect().await.unwrap();
    let source = NatsSource::subscribe(&client, "flights", NatsOptions::default()).await.unwrap();
    tokio::spawn(source.run(feed.feeder.clone()));
    let publisher = async_nats::connect(broker.url()).await.unwrap();
    for number in 1..=EVENTS {
        publisher.publish("flights", line("faa", number).into()).await.unwrap();
        // NATS waits for nobody, so the publisher does.
        if number % 1_000 == 0 {
            publisher.flush().await.unwrap();
            until("they are read", || feed.feeder.tally.counts().offered >= number).await;
        }
    }
    feed.check().await;
}

#[tokio::test]
async fn jetstream_reaches_the_mirror() {
    let Some(broker) = Broker::start().await else { return };
    let mut feed = start().await;
    feed.feeder.stream = Some(Name::new("FLIGHTS").unwrap());
    let context = async_nats::jetstream::new(async_nats::connect(broker.url()).await.unwrap());
    let config = async_nats::jetstream::stream::Config {
        name: "FLIGHTS".to_owned(),
        subjects: vec!["flights".to_owned()],
        ..Default::default()
    };
    let mut looks = 0;
    while let Err(error) = context.create_stream(config.clone()).await {
        looks += 1;
        assert!(looks < 500, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let unnumbered =
        |number: u64| line("faa", number).replace(&format!("\"stream\":\"faa\",\"number\":{number},"), "");
    let mut sent = Vec::new();
    for number in 1..=EVENTS {
        sent.push(context.publish("flights", unnumbered(number).into()).await.unwrap());
        if sent.len() == 500 {
            for one in sent.drain(..) {
                one.await.unwrap();
            }
        }
    }
    let options = JetStreamOptions { feed: "flights".to_owned(), ..JetStreamOptions::default() };
    let server = Server { url: broker.url(), credentials: None };
    let source = JetStreamSource::open(&server, "FLIGHTS", options).await.unwrap();
    tokio::spawn(source.run(feed.feeder.clone()));
    let tally = Arc::clone(&feed.feeder.tally);
    until("all messages are read", || tally.counts().offered == EVENTS).await;
    feed.check_stream("FLIGHTS").await;
}
