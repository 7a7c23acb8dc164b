//! Events over TCP: answers, limits, back-pressure, and sources that die.

use crate::recorder::{Recorder, feeder, line, until};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use treefold_sources::tcp::TcpSource;
use treefold_sources::{Reach, SourceLimits, Stopper, Tally};

struct Served {
    addr: std::net::SocketAddr,
    intake: Arc<Recorder>,
    tally: Arc<Tally>,
    stopper: Stopper,
    running: JoinHandle<()>,
}

async fn serve(limits: SourceLimits) -> Served {
    let source = TcpSource::bind("127.0.0.1:0", Reach::Local).await.unwrap();
    let addr = source.local_addr().unwrap();
    let (feeder, stopper) = feeder(limits);
    let (intake, tally) = (Arc::clone(&feeder.intake), Arc::clone(&feeder.tally));
    Served { addr, intake, tally, stopper, running: tokio::spawn(source.run(feeder)) }
}

struct Peer {
    lines: tokio::io::Lines<BufReader<tokio::net::tcp::OwnedReadHalf>>,
    write: tokio::net::tcp::OwnedWriteHalf,
}

impl Peer {
    async fn connect(served: &Served) -> Self {
        let (read, write) = TcpStream::connect(served.addr).await.unwrap().into_split();
        Self { lines: BufReader::new(read).lines(), write }
    }

    async fn send(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next answer; `None` if the connection is closed.
    async fn answer(&mut self) -> Option<serde_json::Value> {
        let line = tokio::time::timeout(Duration::from_secs(30), self.lines.next_line());
        let line = line.await.expect("an answer, or the end").ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }
}

#[tokio::test]
async fn answers_acknowledge_events_and_name_the_expected_number() {
    let served = serve(SourceLimits::DEFAULT).await;
    served.intake.acknowledge(&[("faa", 4)]);
    served.intake.is_prompt.store(false, Ordering::Relaxed);
    let mut peer = Peer::connect(&served).await;
    peer.send("{\"stream\":\"faa\"}\n").await;
    assert_eq!(peer.answer().await.unwrap()["acknowledged"]["faa"], 4, "the source knows where to go on");
    peer.send("{\"number\":5,\"key\":\"k\",\"type\":\"t\"}\n").await;
    until("the event is taken", || served.intake.numbers("faa") == [5]).await;
    served.intake.acknowledge(&[("faa", 5)]);
    assert_eq!(peer.answer().await.unwrap()["acknowledged"]["faa"], 5);

    let jumps = format!("{}\n{}\n", line("faa", 7), line("faa", 8));
    peer.send(&jumps).await;
    let refused = peer.answer().await.unwrap()["refused"].take();
    let is = |name: &str| refused[name].clone();
    assert_eq!(
        (is("problem"), is("number"), is("expected")),
        ("jump".into(), 7.into(), 6.into()),
        "{refused}"
    );
    assert_eq!((is("line"), is("events")), (3.into(), 2.into()), "both events in one answer");

    for (wrong, problem) in [
        ("garbage", "syntax"),
        ("{\"key\":\"k\",\"type\":\"t\"}", "missing"),
        ("{\"stream\":\"later\"}", "missing"),
        ("{\"number\":0,\"key\":\"k\",\"type\":\"t\"}", "invalid"),
    ] {
        peer.send(&format!("{wrong}\n")).await;
        let answer = peer.answer().await.unwrap();
        assert_eq!(answer["refused"]["problem"], problem, "{wrong}: {answer}");
    }
    peer.send(&format!("{}\n{}\n", line("faa", 5), line("faa", 6))).await;
    let refused = peer.answer().await.unwrap()["refused"].take();
    assert_eq!((&refused["problem"], &refused["expected"]), (&"repeated".into(), &6.into()));
    until("the connection goes on", || served.intake.numbers("faa") == [5, 6]).await;
    let counts = served.tally.counts();
    assert_eq!((counts.offered, counts.refused, counts.repeated), (9, 6, 1));
}

#[tokio::test]
async fn acknowledgements_of_many_events_share_lines_and_the_last_one_comes_before_the_end() {
    let served = serve(SourceLimits::DEFAULT).await;
    let mut peer = Peer::connect(&served).await;
    let all: String = (1..=10_000).map(|number| line("faa", number) + "\n").collect();
    peer.send(&all).await;
    peer.write.shutdown().await.unwrap();
    let (mut answers, mut last) = (0, 0);
    while let Some(answer) = peer.answer().await {
        let number = answer["acknowledged"]["faa"].as_u64().unwrap();
        assert!(number > last, "{number} after {last}");
        (answers, last) = (answers + 1, number);
    }
    assert_eq!(last, 10_000);
    assert!(answers < 5_000, "{answers} answers");
    assert_eq!(served.intake.numbers("faa"), (1..=10_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn input_that_is_no_text_or_has_no_end_ends_its_connection_alone() {
    let limits = SourceLimits {
        line_bytes_max: 100_000,
        line_within: Duration::from_millis(200),
        ..SourceLimits::DEFAULT
    };
    let served = serve(limits).await;
    let mut good = Peer::connect(&served).await;
    let long = "x".repeat(200_000);
    for (input, problem) in
        [(&b"\xff\xfe\x00\n"[..], "binary"), (long.as_bytes(), "length"), (b"{\"number\"", "slow")]
    {
        let mut peer = Peer::connect(&served).await;
        // The connection may be closed before the last byte is written.
        let _ = peer.write.write_all(input).await;
        if let Some(answer) = peer.answer().await {
            assert_eq!(answer["error"]["problem"], problem, "{answer}");
            assert!(peer.answer().await.is_none());
        } else {
            assert_eq!(problem, "length", "a reset connection may lose its last answer");
        }
    }
    good.send(&(line("faa", 1) + "\n")).await;
    assert_eq!(good.answer().await.unwrap()["acknowledged"]["faa"], 1);
}

#[tokio::test]
async fn silent_connections_and_those_above_the_limit_are_closed() {
    let limits =
        SourceLimits { connections_max: 1, idle_within: Duration::from_millis(300), ..SourceLimits::DEFAULT };
    let served = serve(limits).await;
    let mut first = Peer::connect(&served).await;
    first.send(&(line("faa", 1) + "\n")).await;
    assert_eq!(first.answer().await.unwrap()["acknowledged"]["faa"], 1);
    let mut second = Peer::connect(&served).await;
    assert_eq!(second.answer().await.unwrap()["error"]["problem"], "connections");
    assert_eq!(first.answer().await.unwrap()["error"]["problem"], "idle");
    assert!(first.answer().await.is_none());
}

#[tokio::test]
async fn busy_origin_stops_the_reading_and_loses_nothing() {
    const EVENTS: u64 = 400_000;
    let served = serve(SourceLimits::DEFAULT).await;
    served.intake.is_busy.store(true, Ordering::Relaxed);
    let stream = TcpStream::connect(served.addr).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let writing = tokio::spawn(async move {
        let mut sent = 0_u64;
        for first in (1..=EVENTS).step_by(1000) {
            let block: String = (first..first + 1000).map(|number| line("faa", number) + "\n").collect();
            while tokio::time::timeout(Duration::from_secs(60), write.writable()).await.is_err() {}
            write.write_all(block.as_bytes()).await.unwrap();
            sent += 1000;
            SENT.store(sent, Ordering::Relaxed);
        }
        write.shutdown().await.unwrap();
    });
    static SENT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // The peer is stopped when nothing moves for a while.
    let mut before = u64::MAX;
    while before != SENT.load(Ordering::Relaxed) || before == 0 {
        before = SENT.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(before < EVENTS, "the peer could send all {EVENTS} events to a busy origin");
    assert_eq!(served.intake.events().len(), 0);
    served.intake.is_busy.store(false, Ordering::Relaxed);
    let mut answers = Vec::new();
    read.read_to_end(&mut answers).await.unwrap();
    writing.await.unwrap();
    assert_eq!(served.intake.numbers("faa"), (1..=EVENTS).collect::<Vec<_>>());
    let last = String::from_utf8(answers).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(last, format!(r#"{{"acknowledged":{{"faa":{EVENTS}}}}}"#));
}

#[tokio::test]
async fn source_killed_within_a_line_leaves_whole_events_and_another_goes_on() {
    let served = serve(SourceLimits::DEFAULT).await;
    let half = &line("faa", 3)[..20];
    let text = format!("{}\n{}\n{half}", line("faa", 1), line("faa", 2));
    let script =
        format!("exec 3<>/dev/tcp/127.0.0.1/{}; printf '%s' \"$0\" >&3; sleep 600", served.addr.port());
    let mut source = tokio::process::Command::new("bash")
        .args(["-c", &script, &text])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until("the whole lines are taken", || served.intake.numbers("faa") == [1, 2]).await;
    source.kill().await.unwrap();
    until("the half line is refused", || served.tally.counts().refused == 1).await;
    let mut peer = Peer::connect(&served).await;
    peer.send("{\"stream\":\"faa\"}\n").await;
    assert_eq!(peer.answer().await.unwrap()["acknowledged"]["faa"], 2);
    peer.send(&(line("faa", 3) + "\n")).await;
    assert_eq!(peer.answer().await.unwrap()["acknowledged"]["faa"], 3);
}

#[tokio::test]
async fn stopped_source_acknowledges_its_events_before_it_ends() {
    let served = serve(SourceLimits::DEFAULT).await;
    served.intake.is_prompt.store(false, Ordering::Relaxed);
    let mut peer = Peer::connect(&served).await;
    peer.send(&(line("faa", 1) + "\n")).await;
    until("the event is taken", || served.intake.numbers("faa") == [1]).await;
    served.stopper.stop();
    until("nobody can connect", || std::net::TcpStream::connect(served.addr).is_err()).await;
    assert!(!served.running.is_finished(), "it waits for the acknowledgement");
    served.intake.acknowledge(&[("faa", 1)]);
    assert_eq!(peer.answer().await.unwrap()["acknowledged"]["faa"], 1);
    assert!(peer.answer().await.is_none());
    served.running.await.unwrap();
}

#[tokio::test]
async fn peer_with_another_protocol_is_told_so_and_feeds_nothing() {
    let served = serve(SourceLimits::DEFAULT).await;
    let mut peer = Peer::connect(&served).await;
    // A page in a browser could post this.
    peer.send(&format!("POST / HTTP/1.1\r\nhost: a\r\n\r\n{}\n", line("faa", 1))).await;
    let answer = peer.answer().await.unwrap();
    assert_eq!((&answer["error"]["problem"], &answer["error"]["line"]), (&"protocol".into(), &1.into()));
    assert!(peer.answer().await.is_none());
    assert_eq!(served.intake.events().len(), 0);
}
