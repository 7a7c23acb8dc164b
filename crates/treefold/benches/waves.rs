//! Instructions and allocations of a wave at one node: `cargo bench -p treefold --bench waves`.
//!
//! A wave comes as bytes and leaves as bytes: frames are decoded, core decides, jobs run at once, and frames are encoded, as
//! in a node, but without its sockets and its runtime. Valgrind counts the instructions, so the figures do not depend on how
//! fast or how busy the machine is, and a change of one per cent shows. Allocations are counted by the program itself. The calls
//! of a place come over one connection: all but the first two name their tree, as a caller's later calls do.
//!
//! Waves come one at a time, or sixteen together, as under load: the calls of sixteen waves, then the sixteen partials of each
//! child, and then one write to each peer.
//!
//! `waves PLACE TOGETHER COUNT` runs the waves of one place alone, for a profile:
//! `valgrind --tool=callgrind --toggle-collect='*counted*' target/release/deps/waves-… inner 16 1000`.

#![allow(unsafe_code, reason = "an allocator that counts")]

use bytes::Bytes;
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::env;
use std::io::IoSlice;
use std::ops::RangeInclusive;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as Clock;
use treefold::parts::wire::{Hello, Inbox, Incoming, Outbox};
use treefold_core::call::{CallOptions, Status};
use treefold_core::config::{Kind, NodeConfig, Placement, Tuning};
use treefold_core::effect::{Effect, Event, Work};
use treefold_core::id::{NodeId, RequestId, Tag, WaveId};
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::membership::card::{MemberCard, ServiceCard};
use treefold_core::message::{Call, CallTimes, Message, Partial};
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;
use treefold_operators::codec::short::copied;

/// Waves before the counted ones: tables have grown by then, and kept answers expire as fast as new ones come.
const WARM_UP: u32 = 2_500;
/// Waves that are counted.
const COUNTED: u32 = 512;
/// The numbers of waves that come together.
const TOGETHER: [u32; 2] = [1, 16];
/// Time between two waves.
const PACE: Duration = Duration::from_micros(400);
/// The deadline of each call.
const DEADLINE: Duration = Duration::from_millis(800);
/// The numbers of a wave in a frame's prefix: its sequence.
const SEQUENCE_AT: std::ops::Range<usize> = 18..26;

const PLACES: [(&str, &str); 4] = [
    ("caller", "a client that calls a tree of 64 nodes itself, kary:8"),
    ("leaf", "a leaf"),
    ("inner", "an inner node with 8 leaves"),
    ("root", "the root of 73 nodes, with 8 children that have 8 leaves each"),
];

/// Counts allocations, and passes them on to the system.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [place, together, count] = &args[..] {
        let [together, count] = [together, count].map(|number| number.parse().expect("a number of waves"));
        Place::new(place).run(together, count);
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<62} {:>8} {:>13} {:>12} {:>8} {:>8}",
        "a wave at", "together", "instructions", "allocations", "bytes", "ns"
    );
    for (together, (place, meaning)) in TOGETHER.into_iter().flat_map(|n| PLACES.map(|place| (n, place))) {
        let instructions = instructions(place, together);
        let warm = Place::new(place).run(together, COUNTED);
        let each = |sum: u64| sum as f64 / f64::from(COUNTED);
        println!(
            "{meaning:<62} {together:>8} {:>13} {:>12.1} {:>8.0} {:>8.0}",
            instructions.map_or("-".into(), |sum| format!("{:.0}", each(sum))),
            each(warm.allocations),
            each(warm.bytes),
            each(warm.ns)
        );
    }
    ExitCode::SUCCESS
}

/// The instructions of the counted waves; `None` without valgrind.
fn instructions(place: &str, together: u32) -> Option<u64> {
    let me = env::current_exe().expect("the program's path");
    let valgrind = process::Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted*", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args([place, &together.to_string(), &COUNTED.to_string()])
        .output();
    let Ok(output) = valgrind else {
        eprintln!("waves: without valgrind, instructions are not counted");
        return None;
    };
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    let collected = report.lines().find_map(|line| line.split_once("Collected :"));
    Some(collected.expect("valgrind says how many").1.trim().parse().expect("a number"))
}

/// The cost of the counted waves.
struct Cost {
    allocations: u64,
    bytes: u64,
    ns: u64,
}

/// A node between the peers of its place.
struct Place {
    node: Node<Bytes>,
    now: Instant,
    /// The peers, the parent first, each with its inbox, which is taken out while its frames are read.
    peers: Vec<(NodeId, Option<Box<Inbox>>)>,
    outboxes: BTreeMap<NodeId, Outbox>,
    /// The frames of the first calls and of all later ones; a caller gets no call.
    calls: Vec<Vec<u8>>,
    /// The frames of the children's partials, in the order of the peers.
    partials: Vec<Vec<u8>>,
    name: Arc<str>,
    params: Bytes,
    sequence: u64,
    /// Room for the bytes that a peer has sent.
    read: Vec<u8>,
    /// Bytes that the last waves sent.
    sent_bytes: usize,
}

fn node_id(number: u32) -> NodeId {
    let [.., high, low] = number.to_be_bytes();
    NodeId::new(([10, 0, high, low], 7_700).into(), 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number.into()) | 1)
}

const PARENT: u32 = 1_000;
/// Nodes that the client calls.
const CALLED: u32 = 64;
/// The origin of all waves: the client's generation.
const CLIENT: u64 = 0xdead_beef_0123_4567;

impl Place {
    fn new(place: &str) -> Self {
        let leaf = |number: u32| Tree::leaf(node_id(number), PartitionSet::from_range(number..number + 1));
        let inner = |number: u32, below: &[Tree]| {
            Tree::join(node_id(number), PartitionSet::from_range(number..number + 1), below)
        };
        let children: Vec<Tree> = match place {
            "leaf" => Vec::new(),
            "inner" => (1..9).map(leaf).collect(),
            "root" => (0..8)
                .map(|at| {
                    let first = 1 + 9 * at;
                    inner(first, &(first + 1..first + 9).map(leaf).collect::<Vec<_>>())
                })
                .collect(),
            "caller" => return Self::caller(),
            other => panic!("no place is called {other:?}; there are caller, leaf, inner and root"),
        };
        let tree = inner(0, &children);
        let partials: Vec<(NodeId, Vec<u8>)> =
            children.iter().map(|child| (child.root().node, frame(&partial(child.partitions())))).collect();
        let node = Node::new(config(tree.seats().len() as u32), Instant::START);
        Self::among(node, &partials, calls(tree))
    }

    /// A client that has heard the cards of 64 nodes with a partition each.
    fn caller() -> Self {
        let of_client = NodeConfig {
            card: MemberCard::new(NodeId::new(([0, 0, 0, 0], 0).into(), CLIENT)),
            kinds: Vec::new(),
            ..config(CALLED)
        };
        let mut client = Node::new(of_client, Instant::START);
        let cards: Vec<_> = (0..CALLED).map(|number| Arc::new(card(number, CALLED))).collect();
        let heard = Input::Message { from: node_id(0), message: Message::Cards(cards.into()) };
        client.handle_input(Instant::START, Input::Connected { peer: node_id(0) });
        client.handle_input(Instant::START, heard);
        assert_eq!(client.view().partitions_total("s"), CALLED, "it sees all nodes");
        let answer = frame(&partial(PartitionSet::first(CALLED)));
        Self::among(client, &[(node_id(0), answer)], Vec::new())
    }

    fn among(node: Node<Bytes>, partials: &[(NodeId, Vec<u8>)], calls: Vec<Vec<u8>>) -> Self {
        let mut this = Self {
            node,
            now: Instant::START,
            peers: Vec::new(),
            outboxes: BTreeMap::new(),
            calls,
            partials: partials.iter().map(|(_, frame)| frame.clone()).collect(),
            name: "s/sum".into(),
            params: Bytes::from(vec![7; 32]),
            sequence: 0,
            read: Vec::new(),
            sent_bytes: 0,
        };
        for peer in [node_id(PARENT)].into_iter().chain(partials.iter().map(|(child, _)| *child)) {
            let mut outbox = Outbox::new(Limits::DEFAULT);
            outbox.push_hello(&Hello::new("bench", peer)).expect("a greeting is within its limits");
            let mut inbox = Inbox::new(Limits::DEFAULT);
            inbox.put(&written(&mut outbox));
            assert!(matches!(inbox.next(), Ok(Some(Incoming::Hello(_)))), "each begins with its greeting");
            outbox.keep_trees(inbox.peer_trees());
            this.peers.push((peer, Some(Box::new(inbox))));
            this.outboxes.insert(peer, outbox);
            this.node.handle_input(this.now, Input::Connected { peer });
        }
        while this.node.poll_effect().is_some() {}
        this
    }

    /// Runs `count` waves, so many together.
    fn run(mut self, together: u32, count: u32) -> Cost {
        (0..WARM_UP / together).for_each(|_| warming(&mut self, together));
        let before = [&ALLOCATIONS, &BYTES].map(|sum| sum.load(Ordering::Relaxed));
        let began = Clock::now();
        counted(&mut self, together, count);
        let ns = began.elapsed().as_nanos() as u64;
        let after = [&ALLOCATIONS, &BYTES].map(|sum| sum.load(Ordering::Relaxed));
        Cost { allocations: after[0] - before[0], bytes: after[1] - before[1], ns }
    }

    /// Waves that come together: their calls come, then the partials of each child, and the answers go.
    fn waves(&mut self, together: u32) {
        self.now = self.now + PACE.mul_f64(together.into());
        if self.node.poll_timeout().is_some_and(|at| at <= self.now) {
            self.node.handle_timeout(self.now);
            self.perform();
        }
        let first = self.sequence + 1;
        self.sequence += u64::from(together);
        for sequence in first..=self.sequence {
            match self.calls.pop() {
                Some(call) => {
                    self.hear(0, &call, sequence..=sequence);
                    if self.calls.is_empty() {
                        self.calls.push(call);
                    }
                }
                None => self.ask(sequence),
            }
        }
        let partials = std::mem::take(&mut self.partials);
        for (child, frame) in partials.iter().enumerate() {
            self.hear(1 + child, frame, first..=self.sequence);
        }
        self.partials = partials;
        self.flush();
    }

    /// A user of the client calls.
    fn ask(&mut self, sequence: u64) {
        let options = CallOptions { deadline: DEADLINE, shape: Shape::KAry(8), ..CallOptions::default() };
        let command = Command::Call {
            request: RequestId(sequence),
            name: Arc::clone(&self.name),
            params: self.params.clone().into(),
            options,
        };
        self.node.handle_input(self.now, Input::Command(command));
        self.perform();
    }

    /// The frame of a peer comes, once for each wave.
    fn hear(&mut self, peer: usize, frame: &[u8], sequences: RangeInclusive<u64>) {
        let from = self.peers[peer].0;
        let mut inbox = self.peers[peer].1.take().expect("its frames are not being read");
        let mut read = std::mem::take(&mut self.read);
        for sequence in sequences {
            let at = read.len();
            read.extend_from_slice(frame);
            read[at..][SEQUENCE_AT].copy_from_slice(&sequence.to_le_bytes());
        }
        inbox.put(&read);
        read.clear();
        self.read = read;
        while let Some(incoming) = inbox.next().expect("whole frames came") {
            let Incoming::Message(message) = incoming else { panic!("{incoming:?} is no message") };
            self.node.handle_input(self.now, Input::Message { from, message });
            self.perform();
        }
        self.peers[peer].1 = Some(inbox);
    }

    fn perform(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Send { to, message } => {
                    let outbox = self.outboxes.get_mut(&to).expect("it knows its neighbours only");
                    outbox.push(&message).expect("it is within its limits");
                }
                Effect::Run(job) => {
                    let result = match job.work {
                        Work::Local { .. } => Bytes::from_static(&[0xd3, 0, 0, 0, 0, 0, 0, 0, 7]),
                        Work::Reduce { parts, .. } => copied(&parts[0]),
                        other => panic!("{other:?} is not part of a plain call"),
                    };
                    let done =
                        Input::JobDone { job: job.id, result: Ok(result), cost: Duration::from_nanos(150) };
                    self.node.handle_input(self.now, done);
                }
                Effect::Deliver(Event::CallDone { outcome, .. }) => {
                    assert_eq!(outcome.status, Status::Full, "the root gives everything");
                }
                _ => {}
            }
        }
    }

    /// Writes what waits for each peer.
    fn flush(&mut self) {
        self.sent_bytes = 0;
        for outbox in self.outboxes.values_mut() {
            while !outbox.is_empty() {
                let mut slices = [IoSlice::new(&[]); 8];
                let filled = outbox.fill_slices(&mut slices);
                let bytes = slices[..filled].iter().map(|slice| slice.len()).sum();
                outbox.advance(bytes);
                self.sent_bytes += bytes;
            }
        }
        assert!(self.sent_bytes > 0, "every wave is answered");
    }
}

#[inline(never)]
fn counted(place: &mut Place, together: u32, count: u32) {
    (0..count / together).for_each(|_| place.waves(together));
}

#[inline(never)]
fn warming(place: &mut Place, together: u32) {
    place.waves(together);
}

/// The card of a node with one partition.
fn card(number: u32, total: u32) -> MemberCard {
    let mut card = MemberCard::new(node_id(number));
    card.processors = 2;
    let partitions = PartitionSet::from_range(number..number + 1);
    card.services.insert("s".into(), ServiceCard { partitions, total, declared: true, placed: None });
    card
}

fn config(partitions: u32) -> NodeConfig {
    NodeConfig {
        card: card(0, partitions),
        kinds: vec![Kind {
            name: "s/sum".into(),
            placement: Placement::Inline,
            is_sliceable: false,
            gives_slices: false,
            folds_in_pairs: false,
        }],
        tuning: Tuning::LAN,
        limits: Limits::DEFAULT,
        pushed: Default::default(),
        placed: Default::default(),
        shares: BTreeMap::new(),
        seed: 1,
    }
}

const ANY_TAG: Tag = Tag { wave: WaveId { origin: CLIENT, sequence: 0 }, branch: 0 };

fn call(tree: Tree) -> Message<Bytes> {
    Message::Call(Box::new(Call {
        tag: ANY_TAG,
        name: "s/sum".into(),
        params: Some(Bytes::from(vec![7; 32]).into()),
        times: CallTimes { deadline_left: DEADLINE, answer_left: DEADLINE, sign_after: None },
        waiting: Waiting::Staged,
        spare: 0,
        hedge: false,
        losses_max: 0,
        tree,
        explain: false,
        push: None,
        loads_wanted: false,
        in_flight: 1,
        whole: false,
        slice: Slice::WHOLE,
    }))
}

fn partial(contributors: PartitionSet) -> Message<Bytes> {
    Message::Partial(Box::new(Partial {
        tag: ANY_TAG,
        payload: Some(Bytes::from(vec![7; 9])),
        contributors,
        missing: Vec::new(),
        last: true,
        load: LoadFigure {
            queued: Duration::from_micros(15),
            in_flight: 1,
            processors: 2,
            latency: Duration::from_micros(90),
        },
        own: None,
        served: None,
        loads: Vec::new(),
        given_up: Vec::new(),
        cost: CostFigure { local: Some(Duration::from_nanos(310)), reduce: Some(Duration::from_nanos(200)) },
        report: None,
    }))
}

/// The frames of the calls that a parent sends over one connection, the last first. The first two have the tree, and the
/// third names it, as all later ones do.
fn calls(tree: Tree) -> Vec<Vec<u8>> {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.keep_trees(u32::MAX);
    let call = call(tree);
    let mut frames: Vec<Vec<u8>> = (0..3)
        .map(|_| {
            outbox.push(&call).expect("the call is within its limits");
            written(&mut outbox)
        })
        .collect();
    assert!(frames[2].len() < frames[1].len(), "the third call names the tree");
    frames.reverse();
    frames
}

/// A message as bytes.
fn frame(message: &Message<Bytes>) -> Vec<u8> {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push(message).expect("the message is within its limits");
    written(&mut outbox)
}

fn written(outbox: &mut Outbox) -> Vec<u8> {
    let mut out = Vec::new();
    while !outbox.is_empty() {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = outbox.fill_slices(&mut slices);
        slices[..filled].iter().for_each(|slice| out.extend_from_slice(slice));
        let bytes = slices[..filled].iter().map(|slice| slice.len()).sum();
        outbox.advance(bytes);
    }
    out
}
