//! Workers of an application, at the places that the tests choose: each attaches to one node, and stays away
//! if its connection breaks until it is told to attach again.

use super::Cluster;
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::call::CallOptions;
use treefold_core::partitions::PartitionSet;
use treefold_core::push::PushRequest;
use treefold_core::push::message::PushMessage;
use treefold_core::time::Duration;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::workers::{Worker, WorkerSpec};

/// The application of these tests.
pub const APPLICATION: &str = "app";
/// Workers may keep any number of bytes.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// The workers of a cluster.
#[derive(Default)]
pub struct Workers {
    /// Worker → its number in the world.
    numbers: BTreeMap<u32, usize>,
    /// Workers that ignore the window.
    flooding: BTreeSet<u32>,
    /// (worker, request) → number of pieces that it has been given.
    given: BTreeMap<(u32, u64), u32>,
}

/// A piece of a worker's result, numbered from 1. The first one counts as the worker.
pub fn piece(worker: u32, request: u64, number: u32, bytes: u32) -> Ink {
    // Each piece has its own mark, independent of later pieces.
    let sizes = vec![bytes; number as usize];
    if number == 1 {
        return Ink::piece(worker, request, 0, &sizes);
    }
    Ink::piece(worker, request, number as usize - 1, &sizes)
}

/// All pieces of a request's results in one value, as `(worker, count)`.
pub fn pieces(request: u64, of: impl IntoIterator<Item = (u32, u32)>) -> Option<(u128, u32)> {
    let all = of.into_iter().flat_map(|(worker, count)| (1..=count).map(move |number| (worker, number)));
    let sum = all
        .map(|(worker, number)| piece(worker, request, number, 1))
        .reduce(|sum, piece| sum.folded(&piece))?;
    Some((sum.marks, sum.count))
}

/// An announcement of request 7 to workers `0..expected`.
pub fn announced(expected: u32) -> CallOptions {
    let push = Some(PushRequest { request: 7, patience: Duration::from_millis(400) });
    CallOptions {
        deadline: Duration::from_secs(2),
        partitions: Some(PartitionSet::first(expected)),
        push,
        ..CallOptions::default()
    }
}

impl Cluster {
    /// The worker attaches to node `i`.
    pub fn attach(&mut self, worker: u32, i: u32) {
        self.attach_as(worker, i, APPLICATION, worker);
    }

    /// As [`attach`](Self::attach), with another number or for another application.
    pub fn attach_as(&mut self, worker: u32, i: u32, application: &str, number: u32) {
        let way = vec![i as usize];
        if let Some(&known) = self.workers.numbers.get(&worker) {
            return self.world.lead_worker(known, way);
        }
        let spec = WorkerSpec {
            application: application.into(),
            number,
            way,
            kept_bytes_max: KEPT_BYTES_MAX,
            floods: self.workers.flooding.contains(&worker),
        };
        let started = self.world.start_worker(spec);
        self.workers.numbers.insert(worker, started);
    }

    /// Lets the worker, which has not attached yet, ignore the window.
    pub fn let_flood(&mut self, worker: u32) {
        self.workers.flooding.insert(worker);
    }

    /// The worker's connection breaks.
    pub fn cut(&mut self, worker: u32) {
        self.world.lead_worker(self.workers.numbers[&worker], Vec::new());
    }

    /// Gives the worker this many pieces for a request, of so many bytes each, including pieces that it has
    /// pushed.
    pub fn give(&mut self, worker: u32, request: u64, pieces: u32, bytes: u32) {
        self.give_of(worker, request, pieces, bytes, true);
    }

    /// As [`give`](Self::give), with more to follow.
    pub fn give_some(&mut self, worker: u32, request: u64, pieces: u32, bytes: u32) {
        self.give_of(worker, request, pieces, bytes, false);
    }

    fn give_of(&mut self, worker: u32, request: u64, pieces: u32, bytes: u32, is_all: bool) {
        let given = self.workers.given.entry((worker, request)).or_default();
        let new = *given + 1..=pieces;
        *given = pieces;
        for number in new {
            let last = is_all && number == pieces;
            let piece = piece(worker, request, number, bytes);
            self.world.push(self.workers.numbers[&worker], request, piece, last);
        }
    }

    /// The number of pieces that the worker has been given for a request.
    pub fn given(&self, worker: u32, request: u64) -> u32 {
        self.workers.given.get(&(worker, request)).copied().unwrap_or(0)
    }

    /// Notes pieces that the test pushes itself for the worker.
    pub fn note_given(&mut self, worker: u32, request: u64, pieces: u32) {
        self.workers.given.insert((worker, request), pieces);
    }

    /// Sends any message to the worker's node.
    pub fn say_as(&mut self, worker: u32, message: PushMessage<Ink>) {
        self.world.say_as_worker(self.workers.numbers[&worker], message);
    }

    pub fn worker(&self, worker: u32) -> &Worker {
        &self.world.workers()[self.workers.numbers[&worker]]
    }

    pub fn workers(&self) -> impl Iterator<Item = (u32, &Worker)> {
        self.workers.numbers.iter().map(|(&worker, &at)| (worker, &self.world.workers()[at]))
    }
}
