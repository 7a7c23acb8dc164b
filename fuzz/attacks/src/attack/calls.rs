//! Clients that take more than their part, within the protocol.

use super::Attack;
use crate::cluster::{Cluster, DEADLINE, Tally};
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::meter::Meter;
use crate::wire::{Peer, client_name, connect, hello_bytes, is_pause, message_bytes};
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use treefold::operators::Body;
use treefold::parts::wire::{Hello, Incoming};
use treefold::{Client, PartitionSet, Status};
use treefold_core::call::CallOptions;
use treefold_core::message::{Message, Request};
use treefold_micro::{Folded, Work};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "greedy-client",
        about: "one client opens 17,000 slow calls, more than a node has room for",
        play: take_all_slots,
    },
    Attack {
        name: "cancelled-holds",
        about: "calls that hold all processors for a minute, cancelled at once",
        play: cancel_holds,
    },
];

const NODES: usize = 3;
/// Slow calls of one client: more than `calls_open_max`.
const GREEDY: u64 = 17_000;
/// Calls that are sent before answers are read.
const BATCH: u64 = 500;
/// Holds of each partition that are cancelled.
const HOLDS: u64 = 16;
/// Time that each of the attackers' locals takes.
const SLOW_MS: f64 = 60_000.0;
/// The processors that each node claims to have.
const PROCESSORS: &str = "2";
const CALLS: usize = 20;
const OTHERS_HOLDS: usize = 8;

fn slow_call(id: u64, partitions: Option<PartitionSet>) -> Message<Bytes> {
    let work = Work { local_ms: SLOW_MS, ..Work::default() };
    let params = work.encode().expect("invariant: a mean of a minute is allowed");
    let deadline = Duration::from_secs(90).into();
    let options = CallOptions { deadline, partitions, ..CallOptions::default() };
    Message::Request(Box::new(Request { id, name: "micro/hold".into(), params: params.into(), options }))
}

/// A client whose reads end soon when nothing has come.
fn attacker(addr: SocketAddr, cluster: &str) -> io::Result<Peer> {
    let stream = connect(addr, DEADLINE)?;
    let reads = stream.try_clone()?;
    let mut peer = Peer::over(Box::new(stream));
    peer.send_bytes(&hello_bytes(&Hello::new(cluster, client_name(7))))?;
    loop {
        if let Incoming::Hello(_) = peer.next()? {
            break;
        }
    }
    reads.set_read_timeout(Some(Duration::from_millis(5)))?;
    Ok(peer)
}

fn take_all_slots(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_told(lab, NODES, None, &["--processors", PROCESSORS])?;
    let meter = Meter::start(cluster.nodes[0].process)?;
    let mut greedy =
        attacker(cluster.nodes[0].addr, &cluster.name).map_err(Setback::doing("greet as a client"))?;
    let client = cluster.client(0).map_err(Setback::doing("connect a legitimate client"))?;
    let (mut sent, mut rejected) = (0, 0);
    while sent < GREEDY {
        // One partition each, so that the calls cost little but their slots.
        let batch: Vec<u8> = (sent..sent + BATCH)
            .flat_map(|id| message_bytes(&slow_call(id, Some(PartitionSet::first(1)))))
            .collect();
        if greedy.send_bytes(&batch).is_err() {
            break;
        }
        sent += BATCH;
        rejected += rejections(&mut greedy);
    }
    let mut tally = cluster.calls_of(&client, CALLS);
    tally.add(cluster.calls(CALLS / 4, &cluster.places()));
    rejected += rejections(&mut greedy);
    let open = cluster.status(0).map(|status| status.open.calls);
    let seen = format!(
        "one client sent {sent} slow calls, of which {rejected} were answered at once, and {} are open; of the \
        others, {}",
        open.map_or("an unknown number".to_owned(), |open| open.to_string()),
        tally.text()
    );
    Ok(Finding::new(tally.is_full(), seen).at_cost(meter.read()?))
}

/// Reads the answers that have come. Slow calls have none yet, unless they were rejected.
fn rejections(peer: &mut Peer) -> usize {
    let mut rejected = 0;
    loop {
        match peer.next() {
            Ok(Incoming::Message(Message::Reply { outcome, .. })) => {
                rejected += usize::from(!matches!(outcome.status, Status::Full));
            }
            Ok(_) => {}
            Err(error) if is_pause(&error) => return rejected,
            Err(_) => return rejected,
        }
    }
}

fn cancel_holds(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start_told(lab, NODES, None, &["--processors", PROCESSORS])?;
    let client = cluster.client(0).map_err(Setback::doing("connect a legitimate client"))?;
    let control = holds(&cluster, &client, OTHERS_HOLDS);
    if !control.is_full() {
        return Err(Setback::new(format!(
            "calls of micro/hold do not work before the attack: {}",
            control.text()
        )));
    }
    let mut peer =
        attacker(cluster.nodes[0].addr, &cluster.name).map_err(Setback::doing("greet as a client"))?;
    for id in 0..HOLDS {
        peer.send(&slow_call(id, None)).map_err(Setback::doing("send a call"))?;
    }
    // The locals have begun by now.
    thread::sleep(Duration::from_millis(500));
    for id in 0..HOLDS {
        peer.send(&Message::CancelRequest { id }).map_err(Setback::doing("cancel a call"))?;
    }
    thread::sleep(Duration::from_millis(500));
    let tally = holds(&cluster, &client, OTHERS_HOLDS);
    let running: usize = cluster
        .places()
        .into_iter()
        .map(|at| cluster.status(at).map_or(0, |status| status.open.jobs_running + status.open.jobs_stuck))
        .sum();
    let seen = format!(
        "{HOLDS} calls of micro/hold were cancelled after half a second; {running} of their locals still run on \
        {NODES} nodes with \
         {PROCESSORS} processors each; of another client's calls of micro/hold, {}",
        tally.text()
    );
    Ok(Finding::new(tally.is_full(), seen))
}

/// Makes legitimate calls that need a processor for 5 ms.
fn holds(cluster: &Cluster<'_>, client: &Client, calls: usize) -> Tally {
    let work = Work { local_ms: 5.0, ..Work::default() };
    let mut tally = Tally::default();
    for _ in 0..calls {
        let began_at = Instant::now();
        let reply =
            cluster.wait(async { client.call::<Folded>("micro/hold", &work).deadline(DEADLINE).await });
        let outcome = match reply {
            Ok(reply) if reply.status == Status::Full => Ok(()),
            Ok(reply) => Err((false, format!("{}: {:?}", reply.status.name(), reply.missing.first()))),
            Err(error) => Err((false, error.to_string())),
        };
        tally.note(outcome, began_at.elapsed());
    }
    tally
}
