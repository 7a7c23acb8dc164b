//! A stranger who takes a member's name on its connections.

use super::Attack;
use crate::cluster::Cluster;
use crate::finding::{Finding, Setback};
use crate::lab::Lab;
use crate::wire::{Peer, is_pause};
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use treefold::NodeId;
use treefold::operators::Body;
use treefold::operators::merge::Sum;
use treefold::parts::wire::Incoming;
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::message::{Call, Message, Partial};

pub(super) const ATTACKS: &[Attack] = &[Attack {
    name: "impersonate",
    about: "greets under a member's name and generation over TCP, and answers its calls with wrong partials",
    play: impersonate,
}];

const NODES: usize = 3;
const VICTIM: usize = 2;
/// The sum that the stranger claims for the victim's partition.
const WRONG: i64 = 1_000_000;
const ATTACK_TIME: Duration = Duration::from_secs(6);
/// Pause between two greetings.
const PAUSE: Duration = Duration::from_millis(50);

/// Counts of the stranger.
#[derive(Default)]
struct Counts {
    greetings_taken: AtomicUsize,
    calls_answered: AtomicUsize,
    is_over: AtomicBool,
}

fn impersonate(lab: &Lab) -> Result<Finding, Setback> {
    let cluster = Cluster::start(lab, NODES)?;
    let victim = cluster.id(VICTIM)?;
    let counts = Arc::new(Counts::default());
    let strangers: Vec<_> = [0, 1]
        .map(|at| {
            let (addr, name, counts) = (cluster.nodes[at].addr, cluster.name.clone(), Arc::clone(&counts));
            thread::spawn(move || {
                while !counts.is_over.load(Ordering::Relaxed) {
                    // The node may close the connection. Then the stranger tries again.
                    let _ = answer_as(victim, addr, &name, &counts);
                    thread::sleep(PAUSE);
                }
            })
        })
        .into();
    let tally = cluster.calls_for(ATTACK_TIME, Duration::from_millis(20), &[0, 1]);
    counts.is_over.store(true, Ordering::Relaxed);
    for stranger in strangers {
        stranger.join().map_err(|_| Setback::new("the stranger's thread has panicked"))?;
    }
    let [taken, answered] =
        [&counts.greetings_taken, &counts.calls_answered].map(|count| count.load(Ordering::Relaxed));
    let seen = format!(
        "{taken} greetings in the name of a living member were taken, and {answered} of its calls answered; {}",
        tally.text()
    );
    Ok(Finding::new(tally.is_full() && answered == 0, seen))
}

/// Greets a node under the victim's name, and answers every call that comes.
fn answer_as(victim: NodeId, addr: SocketAddr, cluster: &str, counts: &Counts) -> io::Result<()> {
    let (mut peer, _) = Peer::greeted(addr, cluster, victim)?;
    counts.greetings_taken.fetch_add(1, Ordering::Relaxed);
    while !counts.is_over.load(Ordering::Relaxed) {
        match peer.next() {
            Ok(Incoming::Message(Message::Call(call))) => {
                peer.send(&Message::Partial(Box::new(wrong_partial(&call))))?;
                counts.calls_answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wrong_partial(call: &Call<Bytes>) -> Partial<Bytes> {
    Partial {
        tag: call.tag,
        payload: Sum(WRONG).encode().ok(),
        contributors: call.tree.partitions(),
        missing: Vec::new(),
        last: true,
        load: LoadFigure::default(),
        own: None,
        served: None,
        loads: Vec::new(),
        cost: CostFigure::default(),
        given_up: Vec::new(),
        report: None,
    }
}
