//! The source of the demo: generates flights at a steady rate, sends them to the origin over TCP, and keeps each event
//! until the origin has acknowledged it. When the origin returns, it sends the kept events again.

use super::news::{News, Sent};
use super::values::Truth;
use bytes::{Buf, BytesMut};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use treefold_flights::{Flights, Options, Timed};
use treefold_mirror::Event;
use treefold_mirror::event::write_json;

/// Interval at which events that are due are generated.
const TICK: Duration = Duration::from_millis(10);
/// Ticks between two reports.
const TICKS_A_REPORT: u32 = 20;
/// Pause between two attempts to reach an origin that is away.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// Events that may wait for their acknowledgement. Above it, the source generates no further ones.
const WAITING_MAX: usize = 200_000;
/// Bytes that are written at a time.
const OUT_BYTES_MAX: usize = 64 << 10;

/// A line that the origin sends.
#[derive(Deserialize)]
struct Answer {
    acknowledged: Option<BTreeMap<String, u64>>,
}

/// The source.
pub(super) struct Source {
    flights: std::iter::Peekable<Flights>,
    began: Instant,
    /// Events that are not acknowledged, in their order.
    waiting: VecDeque<Event>,
    /// Number of them that were written to the present connection.
    written: usize,
    /// Number of them that were written to an earlier one.
    written_before: usize,
    truth: Truth,
    sent: Sent,
    news: mpsc::Sender<News>,
    /// True once no further events are wanted.
    is_ending: watch::Receiver<bool>,
}

impl Source {
    pub(super) fn new(options: Options, news: mpsc::Sender<News>, is_ending: watch::Receiver<bool>) -> Self {
        Self {
            flights: Flights::new(options).peekable(),
            began: Instant::now(),
            waiting: VecDeque::new(),
            written: 0,
            written_before: 0,
            truth: Truth::default(),
            sent: Sent::default(),
            news,
            is_ending,
        }
    }

    /// Sends events until no further ones are wanted and all are acknowledged. Returns the values that readers must have.
    pub(super) async fn run(mut self, origin: SocketAddr) -> (Truth, Sent) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut ticked = 0_u32;
        self.began = Instant::now();
        let mut connection: Option<Connection> = None;
        let mut connecting = Box::pin(connect(origin));
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    self.generate();
                    ticked = ticked.wrapping_add(1);
                    if ticked.is_multiple_of(TICKS_A_REPORT) {
                        self.report().await;
                    }
                }
                connected = &mut connecting, if connection.is_none() => {
                    connecting.set(connect(origin));
                    connection = Some(connected);
                    self.sent.written = 0;
                    self.written_before = self.written_before.max(self.written);
                    self.written = 0;
                }
                alive = exchange(&mut connection) => match alive {
                    Ok(Some(line)) => self.take(&line),
                    Ok(None) => {}
                    Err(()) => connection = None,
                },
            }
            if let Some(connection) = &mut connection {
                self.write_into(&mut connection.out);
            }
            if *self.is_ending.borrow() && self.waiting.is_empty() {
                self.report().await;
                return (self.truth, self.sent);
            }
        }
    }

    /// Generates the events that are due.
    fn generate(&mut self) {
        if *self.is_ending.borrow() {
            return;
        }
        let now_ms = self.began.elapsed().as_secs_f64() * 1e3;
        while self.waiting.len() < WAITING_MAX
            && let Some(Timed { event, .. }) = self.flights.next_if(|timed| timed.at_ms <= now_ms)
        {
            self.truth.apply(&event);
            self.waiting.push_back(event);
            self.sent.generated += 1;
        }
    }

    fn write_into(&mut self, out: &mut BytesMut) {
        let mut line = Vec::new();
        while out.len() < OUT_BYTES_MAX
            && let Some(event) = self.waiting.get(self.written)
        {
            line.clear();
            write_json(event, &mut line);
            line.push(b'\n');
            out.extend_from_slice(&line);
            self.sent.repeated += u64::from(self.written < self.written_before);
            self.written += 1;
            self.sent.written += 1;
        }
    }

    /// Forgets the events that a line acknowledges.
    fn take(&mut self, line: &str) {
        let Ok(Answer { acknowledged: Some(numbers) }) = serde_json::from_str(line) else { return };
        let is_acknowledged =
            |event: &Event| numbers.get(event.stream.as_str()).is_some_and(|&number| event.number <= number);
        let (written, before) = (self.written, self.written_before);
        let mut place = 0;
        self.waiting.retain(|event| {
            let is_kept = !is_acknowledged(event);
            self.written -= usize::from(!is_kept && place < written);
            self.written_before -= usize::from(!is_kept && place < before);
            place += 1;
            is_kept
        });
    }

    async fn report(&mut self) {
        self.sent.unacknowledged = self.waiting.len() as u64;
        self.sent.is_over = *self.is_ending.borrow() && self.written == self.waiting.len();
        // Without a board, the demo is ending.
        let _ = self.news.send(News::Source(self.sent)).await;
    }
}

/// A connection to the origin.
struct Connection {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    out: BytesMut,
}

/// Connects as soon as the origin listens.
async fn connect(origin: SocketAddr) -> Connection {
    loop {
        if let Ok(stream) = TcpStream::connect(origin).await {
            let (read, write) = stream.into_split();
            return Connection { lines: BufReader::new(read).lines(), write, out: BytesMut::new() };
        }
        sleep(RETRY_AFTER).await;
    }
}

/// Writes what waits, and reads a line. An error means that the connection is over. Cancel safe.
async fn exchange(connection: &mut Option<Connection>) -> Result<Option<String>, ()> {
    let Some(Connection { lines, write, out }) = connection else { return std::future::pending().await };
    tokio::select! {
        line = lines.next_line() => match line {
            Ok(Some(line)) => Ok(Some(line)),
            Ok(None) | Err(_) => Err(()),
        },
        written = write.write(out.chunk()), if !out.is_empty() => match written {
            Ok(bytes @ 1..) => {
                out.advance(bytes);
                Ok(None)
            }
            Ok(0) | Err(_) => Err(()),
        },
    }
}
