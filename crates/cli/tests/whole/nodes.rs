//! Nodes whose endpoints answer with rows, in separate processes: this same program, run again.

use bytes::Bytes;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use treefold::endpoint::{Endpoint, Opening, Outlet, Packet, Took};
use treefold::foreign::Foreign;
use treefold::{Node, Service};

/// Number of rows of each endpoint.
pub(crate) const ROWS: u32 = 100;
/// Number of best rows requested.
pub(crate) const K: u32 = 10;

/// Environment variable of a node's process: its number, the number of nodes, and the address to join.
const PLACE: &str = "TREEFOLD_TEST_NODE";

/// Returns an endpoint's scores, best first.
///
/// No two endpoints have an equal score.
pub(crate) fn scores(endpoint: u32) -> impl Iterator<Item = f64> {
    (0..ROWS).map(move |row| f64::from((ROWS - row) * 1_000 + endpoint))
}

/// Reads rows in the guest's format: a score and a number.
pub(crate) fn rows_of(packet: &Bytes) -> Vec<f64> {
    let score = |row: &[u8]| f64::from_le_bytes(row[..8].try_into().expect("16 bytes"));
    packet.chunks(16).map(score).collect()
}

struct Rows(Bytes);

impl Endpoint for Rows {
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        outlet.send_tagged(packet.tag, self.0.clone()).expect("few packets are in flight");
        Took::Now
    }
}

/// Makes the service with one of its endpoints.
pub(crate) fn figures(at: u32, total: u32) -> Service {
    let kind = |opening: &Opening| {
        let number = u64::from(opening.endpoint).to_le_bytes();
        let rows = scores(opening.endpoint).flat_map(|score| [score.to_le_bytes(), number]);
        Rows(rows.flatten().collect())
    };
    Service::new("figures").endpoints([at], kind).total(total)
}

/// A node in a separate process.
///
/// It ends when this is dropped.
pub(crate) struct StreamNode {
    child: Child,
    _stdin: ChildStdin,
    pub(crate) addr: String,
}

impl StreamNode {
    /// Runs this program again, as node `at` of `total`, and waits until it listens.
    pub(crate) fn start(args: &[&str], at: u32, total: u32, join: Option<String>) -> Self {
        let program = std::env::current_exe().expect("the program's path is known");
        let mut child = Command::new(program)
            .args(args)
            .env(PLACE, format!("{at} {total} {}", join.unwrap_or_default()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let addr = stdout
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("listening on ").map(|(_, addr)| addr.to_owned()));
        let stdin = child.stdin.take().expect("a pipe");
        Self { child, _stdin: stdin, addr: addr.expect("it prints its address") }
    }
}

impl Drop for StreamNode {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the node that the environment describes, until its standard input is closed.
pub(crate) async fn serve_until_stdin_ends(foreign: Arc<dyn Foreign>) {
    let place = std::env::var(PLACE).expect("it is started by a test");
    let mut place = place.split(' ');
    let mut number = || place.next().and_then(|text| text.parse::<u32>().ok()).expect("a number");
    let (at, total) = (number(), number());
    let join = place.next().filter(|join| !join.is_empty()).map(str::to_owned);
    let node = Node::builder().join(join).service(figures(at, total)).foreign(foreign);
    let node = node.start().await.expect("it starts");
    let met = node.members_at_least(at as usize + 1, Duration::from_secs(30)).await;
    assert!(met, "it finds the nodes that were started before it");
    println!("listening on {}", node.addr());
    let wait = || {
        // The node ends at the end of its input, with or without data or an error.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    };
    tokio::task::spawn_blocking(wait).await.expect("waiting does not panic");
}
