//! Floods of connections: silent, idle, or with frames that never end.

use super::Attack;
use crate::cluster::{Cluster, TIMEOUT, Tally};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::meter::Meter;
use crate::wire::{Peer, beginning_of, client_name};
use bytes::Bytes;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use treefold_core::call::CallOptions;
use treefold_core::message::{Message, Request};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "silent-connections",
        about: "holds 2,000 connections that never greet, and opens each again when it is closed",
        play: stay_silent,
    },
    Attack {
        name: "unfinished-frames",
        about: "200 greeted connections with 4 MB each of a frame or of chunks that never end",
        play: never_finish,
    },
    Attack { name: "idle-clients", about: "4,094 greeted clients that ask for nothing", play: stay_idle },
];

const NODES: usize = 3;
const SILENT: usize = 2_000;
/// A legitimate peer must be connected within this time.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Legitimate clients that connect during a flood, and their calls.
const CLIENTS: usize = 10;
const CALLS: usize = 3;

const UNFINISHED: usize = 200;
const UNFINISHED_BYTES: usize = 4 << 20;
/// The memory that a node may spend on all unfinished frames together, with what their reading costs besides.
const UNFINISHED_GROWTH_MAX_MIB: f64 = 320.0;

const IDLE: usize = 4_094;

/// How legitimate clients fare that connect one after the other.
struct Arrivals {
    tally: Tally,
    connected: usize,
    slowest: Duration,
    problem: Option<String>,
}

fn arrive(cluster: &Cluster<'_>, at: usize) -> Arrivals {
    let mut arrivals =
        Arrivals { tally: Tally::default(), connected: 0, slowest: Duration::ZERO, problem: None };
    for _ in 0..CLIENTS {
        let began_at = Instant::now();
        let client = cluster.client(at);
        arrivals.slowest = arrivals.slowest.max(began_at.elapsed());
        match client {
            Ok(client) => {
                arrivals.connected += 1;
                arrivals.tally.add(cluster.calls_of(&client, CALLS));
            }
            Err(error) => {
                arrivals.problem.get_or_insert(error.to_string());
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
    arrivals
}

impl Arrivals {
    fn is_well(&self) -> bool {
        self.connected == CLIENTS && self.slowest <= CONNECT_MAX && self.tally.is_full()
    }

    fn text(&self) -> String {
        let problem = self.problem.as_ref().map(|problem| format!(" (the first problem: {problem})"));
        format!(
            "{} of {CLIENTS} clients connected{}, the slowest after {} ms; {}",
            self.connected,
            problem.unwrap_or_default(),
            self.slowest.as_millis(),
            self.tally.text()
        )
    }
}

fn stay_silent(lab: &Lab) -> Result<Finding, Setback> {
    lab.has_many_files()?;
    let cluster = Cluster::start(lab, NODES)?;
    let (addr, meter) = (cluster.nodes[0].addr, Meter::start(cluster.nodes[0].process)?);
    let (is_over, opened) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood = {
        let (is_over, opened) = (Arc::clone(&is_over), Arc::clone(&opened));
        thread::spawn(move || hold_silent(addr, &is_over, &opened))
    };
    let began_at = Instant::now();
    while opened.load(Ordering::Relaxed) < SILENT && began_at.elapsed() < 4 * TIMEOUT {
        thread::sleep(Duration::from_millis(10));
    }
    let standing = opened.load(Ordering::Relaxed);
    let arrivals = arrive(&cluster, 0);
    is_over.store(true, Ordering::Relaxed);
    flood.join().map_err(|_| Setback::new("the flood's thread has panicked"))?;
    if standing < SILENT {
        return Err(Setback::new(format!("only {standing} of {SILENT} silent connections could be opened")));
    }
    let seen = format!(
        "beside {SILENT} silent connections, which were opened {} times, {}",
        opened.load(Ordering::Relaxed),
        arrivals.text()
    );
    Ok(Finding::new(arrivals.is_well(), seen).at_cost(meter.read()?))
}

/// Keeps silent connections open until told to end.
fn hold_silent(addr: SocketAddr, is_over: &AtomicBool, opened: &AtomicUsize) {
    let mut held: Vec<TcpStream> = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        held.retain(is_open);
        while held.len() < SILENT && !is_over.load(Ordering::Relaxed) {
            let Ok(stream) = TcpStream::connect_timeout(&addr, TIMEOUT) else { break };
            if stream.set_nonblocking(true).is_ok() {
                held.push(stream);
                opened.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// True if the other side has not closed a nonblocking connection.
fn is_open(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn never_finish(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let (addr, meter) = (cluster.nodes[0].addr, Meter::start(cluster.nodes[0].process)?);
    let request = Message::Request(Box::new(Request {
        id: 1,
        name: "micro/sum".into(),
        params: Bytes::from(vec![0; 32 << 20]).into(),
        options: CallOptions::default(),
    }));
    let parts = [whole_frame(), beginning_of(&request, UNFINISHED_BYTES)];
    let (mut held, mut failed) = (Vec::new(), 0);
    for at in 0..UNFINISHED {
        let greeted = Peer::greeted(addr, &cluster.name, client_name(1_000 + at as u64));
        let (mut peer, _) = greeted.map_err(Setback::doing("greet as a client"))?;
        // The node may stop reading, or close the connection. Both are good defences.
        failed += usize::from(peer.send_bytes(&parts[at % parts.len()]).is_err());
        held.push(peer);
    }
    let arrivals = arrive(&cluster, 0);
    let (cost, in_sight) = (meter.read()?, cluster.members_least());
    drop(held);
    let seen = format!(
        "{UNFINISHED} connections sent {} MiB each of unfinished frames, of which {failed} were stopped; allowed: \
        {UNFINISHED_GROWTH_MAX_MIB} \
         MiB; {in_sight} of {NODES} nodes are in sight; {}",
        UNFINISHED_BYTES >> 20,
        arrivals.text()
    );
    let refused = arrivals.is_well() && cost.victim_growth_mib <= UNFINISHED_GROWTH_MAX_MIB;
    Ok(Finding::new(refused, seen).at_cost(cost))
}

/// The beginning of a frame that announces 32 MiB: a request, whose header and payload do not end.
fn whole_frame() -> Vec<u8> {
    const REQUEST: u8 = 32;
    const FLAG_PAYLOAD: u8 = 1;
    let mut frame = (32_u32 << 20).to_le_bytes().to_vec();
    frame.extend_from_slice(&[REQUEST, FLAG_PAYLOAD]);
    frame.resize(UNFINISHED_BYTES, 0);
    frame
}

fn stay_idle(lab: &Lab) -> Result<Finding, Setback> {
    lab.has_many_files()?;
    let cluster = Cluster::start(lab, NODES)?;
    let (addr, meter) = (cluster.nodes[0].addr, Meter::start(cluster.nodes[0].process)?);
    let (mut held, mut first_refused) = (Vec::new(), None);
    for at in 0..IDLE {
        match Peer::greeted(addr, &cluster.name, client_name(1_000 + at as u64)) {
            Ok((peer, _)) => held.push(peer),
            Err(error) => {
                first_refused.get_or_insert_with(|| error.to_string());
            }
        }
    }
    // A node may close idle connections only when it needs room, so the clients arrive while all stand.
    let arrivals = arrive(&cluster, 0);
    let cost = meter.read()?;
    let seen = format!(
        "{} of {IDLE} idle clients were greeted{}; {}",
        held.len(),
        first_refused.map(|reason| format!(" (the others: {reason})")).unwrap_or_default(),
        arrivals.text()
    );
    drop(held);
    Ok(Finding::new(arrivals.is_well(), seen).at_cost(cost))
}
