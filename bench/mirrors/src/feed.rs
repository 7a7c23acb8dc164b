//! Treefold's parts of a trial: mirrors as nodes in processes of their own, the origin beside its source, and readers.

use crate::Problem;
use crate::source::Sink;
use crate::system::SystemArgs;
use crate::tally::Counter;
use crate::work::{KIND, STREAM, due_ns, rules};
use bytes::Bytes;
use bytestring::ByteString;
use clap::Args;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use treefold::{Client, ClusterOptions, Limits, Node};
use treefold_bench_down::clock::now_ns;
use treefold_bench_down::part::{resident_bytes, say, unknown};
use treefold_feed::{
    HttpOptions, Mirror, MirrorOptions, OfferError, Origin, OriginOptions, Reader, Update, mirror,
};
use treefold_mirror::origin::{Numbers, Refusal};
use treefold_mirror::{Event, Fields, MirrorLimits, Name};

pub(crate) const FEED: &str = "bench";
/// Time limit until all mirrors take part.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Events that the source hands over together.
const BATCH: usize = 256;
/// Bytes of events that wait at the origin, as the other systems' windows.
const READY_BYTES: usize = 1 << 20;
/// Time that a source waits for a busy origin.
const BUSY: Duration = Duration::from_micros(200);

#[derive(Debug, Args)]
pub(crate) struct MirrorArgs {
    #[arg(long)]
    join: Option<String>,
    #[arg(long)]
    number: u32,
    #[arg(long)]
    of: u32,
}

fn cluster() -> ClusterOptions {
    ClusterOptions::new("bench-mirrors")
}

fn one_thread() -> Result<Runtime, Problem> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Runs a mirror's node. Its first line has its addresses.
pub(crate) fn run_mirror(args: &MirrorArgs) -> Result<(), Problem> {
    // As `treefold node` does, before other threads start.
    let _ = treefold::memory::keep_freed(Limits::DEFAULT.held_bytes_max);
    one_thread()?.block_on(async {
        let (service, unstarted) = mirror(MirrorOptions::new(FEED, args.number, args.of));
        let node = Node::builder().cluster(cluster()).join(&args.join).service(service).start().await?;
        let mirror = unstarted.start(node.client());
        let listener = mirror.listen(HttpOptions::new("127.0.0.1:0".parse()?)).await?;
        say(&json!({ "node": node.addr().to_string(), "http": listener.addr().to_string() }))?;
        let (asked, mut asks) = tokio::sync::mpsc::channel(1);
        std::thread::spawn(move || {
            for line in BufReader::new(std::io::stdin()).lines().map_while(Result::ok) {
                if asked.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        while let Some(line) = asks.recv().await {
            say(&answer(&mirror, &line).unwrap_or_else(|problem| json!({ "problem": problem.to_string() })))?;
        }
        Ok(())
    })
}

fn answer(mirror: &Mirror, line: &str) -> Result<Value, Problem> {
    match line {
        "report" => Ok(json!({
            "position": mirror.cut().position,
            "keys": mirror.read(|_, state| state.len()),
            "readers": mirror.readers(),
            "resident_bytes": resident_bytes(std::process::id())?,
        })),
        _ => unknown(&[line]),
    }
}

/// The origin, in the process of its source.
pub(crate) struct Feeder {
    runtime: Runtime,
    origin: Origin,
    _node: Node,
    names: (Name, Name),
    batch: VecDeque<Event>,
}

impl Feeder {
    pub(crate) fn start(args: &SystemArgs, has_rules: bool) -> Result<Self, Problem> {
        // The source's thread runs the origin too, as in a program with one runtime. The origin therefore runs whenever an
        // event is due.
        let runtime = one_thread()?;
        let (node, origin) = runtime.block_on(async {
            let node = Node::builder().cluster(cluster()).join([&args.at]).start().await?;
            if !node.members_at_least(args.mirrors as usize + 1, START_TIMEOUT).await {
                return Err(Problem::from("the mirrors' nodes did not join"));
            }
            let mut options = OriginOptions::new((*rules(has_rules, args.every_events)?).clone());
            options.limits = MirrorLimits { ready_bytes_max: READY_BYTES, ..MirrorLimits::DEFAULT };
            let origin = Origin::start(&node.client(), FEED, options).await?;
            let status = origin.status().await.ok_or("the origin has ended")?;
            if status.mirrors.len() as u32 != args.mirrors {
                return Err(format!("only mirrors {} take part", status.mirrors).into());
            }
            Ok((node, origin))
        })?;
        let names = (Name::new(STREAM)?, Name::new(KIND)?);
        Ok(Self { runtime, origin, _node: node, names, batch: VecDeque::with_capacity(BATCH) })
    }
}

impl Sink for Feeder {
    fn put(&mut self, key: &ByteString, number: u64, body: &[u8]) -> Result<(), Problem> {
        let (stream, kind) = self.names.clone();
        let body = Bytes::copy_from_slice(body);
        self.batch.push_back(Event {
            stream,
            number,
            key: key.clone(),
            kind,
            fields: Fields::default(),
            body,
        });
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Problem> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (origin, batch) = (&self.origin, &mut self.batch);
        self.runtime.block_on(async {
            loop {
                match origin.offer_all(batch, Numbers::Consecutive).await {
                    Ok(()) => return Ok(()),
                    Err(OfferError::Refused(Refusal::Busy { .. })) => tokio::time::sleep(BUSY).await,
                    Err(error) => return Err(error.into()),
                }
            }
        })
    }

    fn settle(&mut self) -> Result<(), Problem> {
        self.flush()?;
        let origin = &self.origin;
        self.runtime.block_on(async {
            origin.flush().await;
            loop {
                let status = origin.status().await.ok_or("the origin has ended")?;
                if status.is_idle && status.committed == status.cut.position {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    }

    fn sent(&mut self) -> Result<Option<u64>, Problem> {
        let status = self.runtime.block_on(self.origin.status());
        Ok(Some(status.ok_or("the origin has ended")?.cut.position))
    }
}

pub(crate) async fn connect(at: &str) -> Result<Client, Problem> {
    Ok(Client::builder().cluster(cluster()).at([at]).direct(true).connect().await?)
}

/// Follows a feed, and counts its events.
pub(crate) fn follow(at: &str, counter: &Counter, ready: impl FnOnce()) -> Result<(), Problem> {
    one_thread()?.block_on(async {
        let client = connect(at).await?;
        let mut reader = Reader::connect(&client, FEED).start().await?;
        let mut ready = Some(ready);
        let mut now = 0;
        loop {
            let arrived = !reader.has_updates();
            let update = reader.next().await?;
            if arrived {
                now = now_ns();
            }
            match update {
                Update::Event { event, .. } => counter.note(now, std::iter::once(due_ns(&event.body))),
                Update::Complete(_) => {
                    if let Some(ready) = ready.take() {
                        ready();
                    }
                }
                Update::Lagging(_) => counter.note_lag(),
                _ => {}
            }
        }
    })
}

/// Joins once over a stream with a client of its own, as a program that starts. Returns the number of rows.
pub(crate) fn join(at: &str) -> Result<u64, Problem> {
    one_thread()?.block_on(async {
        let client = connect(at).await?;
        snapshot(&client).await
    })
}

/// Joins once over a stream with the client that all readers of this program share.
pub(crate) fn join_shared(at: &str) -> Result<u64, Problem> {
    static CLIENT: Mutex<Option<Client>> = Mutex::new(None);
    one_thread()?.block_on(async {
        let known = CLIENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let client = match known {
            Some(client) => client,
            None => {
                let client = connect(at).await?;
                CLIENT.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(client).clone()
            }
        };
        snapshot(&client).await
    })
}

async fn snapshot(client: &Client) -> Result<u64, Problem> {
    let mut reader = Reader::connect(client, FEED).start().await?;
    let mut rows = 0;
    loop {
        match reader.next().await? {
            Update::Begins(_) => rows = 0,
            Update::Row(_) => rows += 1,
            Update::Complete(_) => return Ok(rows),
            _ => {}
        }
    }
}

/// Joins once over HTTP, and returns the number of rows.
pub(crate) fn join_http(at: &str) -> Result<u64, Problem> {
    let mut stream = TcpStream::connect(at)?;
    write!(stream, "GET /v1/feeds/{FEED}/events HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let (mut lines, mut line, mut rows) = (BufReader::with_capacity(256 << 10, stream), Vec::new(), 0);
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Err("the listener closed the connection".into());
        }
        match &line[..] {
            line if line.starts_with(b"{\"row\"") => rows += 1,
            line if line.starts_with(b"{\"begins\"") => rows = 0,
            line if line.starts_with(b"{\"complete\"") => return Ok(rows),
            line if line.starts_with(b"HTTP/1.1 ") && !line.starts_with(b"HTTP/1.1 200") => {
                return Err(String::from_utf8_lossy(line).trim().to_owned().into());
            }
            _ => {}
        }
    }
}
