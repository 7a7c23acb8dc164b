//! A node of the measurement: this program, run again, with an endpoint that answers with its rows.

use crate::foreign::guests;
use crate::top_k::TopK;
use bytes::Bytes;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use treefold::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use treefold::operators::filter::{Filter, FilterKind, Wave};
use treefold::{Node, OperatorError, Placement, Service};
use treefold_guest::Reduce;

/// Rows of each endpoint.
const ROWS: u32 = 100;
/// Number of best rows requested.
pub(crate) const K: u32 = 10;
/// The environment variable of a node process: its number, the number of nodes, and the address to join.
const PLACE: &str = "TREEFOLD_BENCH_NODE";

type Failure = Box<dyn std::error::Error>;

/// The number of a node process and its cluster.
pub(crate) struct Place {
    at: u32,
    total: u32,
    join: Option<String>,
}

impl Place {
    /// Reads it from the environment; `None` in the measuring process.
    pub(crate) fn of_environment() -> Option<Self> {
        let text = std::env::var(PLACE).ok()?;
        let mut words = text.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (at, total) = (number()?, number()?);
        Some(Self { at, total, join: words.next().filter(|join| !join.is_empty()).map(str::to_owned) })
    }
}

/// A node in a separate process, which ends when this is dropped.
pub(crate) struct NodeProcess {
    child: Child,
    _stdin: ChildStdin,
    pub(crate) addr: String,
}

impl NodeProcess {
    /// Starts node `at` of `total` and waits until it has joined its cluster.
    pub(crate) fn start(at: u32, total: u32, join: Option<String>) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(PLACE, format!("{at} {total} {}", join.unwrap_or_default()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut addr = String::new();
        BufReader::new(child.stdout.take().ok_or("no standard output")?).read_line(&mut addr)?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        Ok(Self { child, _stdin: stdin, addr: addr.trim().to_owned() })
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // If it has ended already, these calls fail harmlessly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the service with the filters built into the nodes and into the front-end, which folds too.
pub(crate) fn service() -> Service {
    Service::new("figures")
        .filter("top-k", BuiltIn(Placement::Inline))
        .filter("top-k-on-worker", BuiltIn(Placement::Pool))
}

/// Runs as a node until its standard input is closed.
pub(crate) async fn serve(place: Place) -> Result<(), Failure> {
    let service =
        service().endpoints([place.at], |opening: &Opening| Rows(rows(opening.endpoint))).total(place.total);
    let node = Node::builder().join(place.join).service(service).foreign(guests()).start().await?;
    if !node.members_at_least(place.at as usize + 1, Duration::from_secs(30)).await {
        return Err("the other nodes were not found within 30 s".into());
    }
    println!("{}", node.addr());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}

/// Returns an endpoint's rows, best first. No two endpoints have the same scores.
fn rows(endpoint: u32) -> Bytes {
    let number = u64::from(endpoint).to_le_bytes();
    let score = |row: u32| f64::from((ROWS - row) * 1_000 + endpoint).to_le_bytes();
    (0..ROWS).flat_map(|row| [score(row), number]).flatten().collect()
}

struct Rows(Bytes);

impl Endpoint for Rows {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        outlet.send_tagged(packet.tag, self.0.clone()).expect("invariant: few waves are open at a time");
        Took::Now
    }
}

/// The guest's code, compiled into the node.
struct BuiltIn(Placement);

impl FilterKind for BuiltIn {
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>, OperatorError> {
        Ok(Box::new(Folds { params: params.clone() }))
    }

    fn placement(&self) -> Placement {
        self.0
    }
}

struct Folds {
    params: Bytes,
}

impl Filter for Folds {
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<(), OperatorError> {
        let mut pieces = wave.pieces.iter().map(|piece| piece.payload.clone());
        let Some(mut folded) = pieces.next() else { return Ok(()) };
        for piece in pieces {
            let mut next = Vec::new();
            let reduced = TopK::reduce(&folded, &piece, &self.params, &mut next);
            reduced.map_err(|_| OperatorError::new("the payload is not a list of rows"))?;
            folded = next.into();
        }
        out.push(folded);
        Ok(())
    }
}
