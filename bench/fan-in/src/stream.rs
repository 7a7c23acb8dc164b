//! One root of core over n children in a stream, without a driver.
//!
//! The parent gives the root its place over n leaves. The root opens the stream with them, takes waves of one
//! packet from each, and passes packets down, which each leaf acknowledges. Its filter costs nothing here.
//! The benchmark measures the processor time of the root's four methods.

use crate::call::{FIRST_CHILD, config, node_id, order};
use crate::clock::Clock;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration as Elapsed;
use treefold_core::config::Placement;
use treefold_core::effect::{Effect, FilterEffect};
use treefold_core::input::Input;
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::right::Rights;
use treefold_core::stream::message::{
    StreamDown, StreamMessage, StreamNews, StreamOpen, StreamSettled, StreamUp,
};
use treefold_core::stream::places::Places;
use treefold_core::stream::spec::{FilterRun, FilterWork, Filtered};
use treefold_core::stream::tags::TagRuns;
use treefold_core::stream::{StreamId, StreamSpec, Synchronisation};
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::Tree;

/// Waves, and packets down, of one measurement.
const WAVES: u64 = 4;
/// One child in this many is lost, in the pattern with lost children.
const LOST_IN: u32 = 100;
/// One child in this many is late for a wave, in the pattern with late children.
const LATE_IN: u32 = 10;
/// Time-out of a wave, in the pattern with time-outs.
const WAIT: Duration = Duration::from_millis(50);
const STREAM: StreamId = StreamId { origin: 1, sequence: 1 };
const PARENT: u32 = 0;

/// The order in which the children answer, and the children that do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pattern {
    /// Answered in the order of the endpoints
    InOrder,
    /// Answered in a scattered order: the root holds many ranges
    Scattered,
    /// As scattered, and one child in a hundred is lost before the waves
    Lost,
    /// As scattered, and one child in ten sends after the wave has timed out
    Late,
}

impl Pattern {
    pub(crate) const ALL: [Self; 4] = [Self::InOrder, Self::Scattered, Self::Lost, Self::Late];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Scattered => "scattered",
            Self::Lost => "lost",
            Self::Late => "late",
        }
    }
}

/// Processor time of a stream at its root.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// From the parent's message until the root has reported that the stream is open.
    pub(crate) opening: Elapsed,
    /// For all children that are lost.
    pub(crate) losing: Elapsed,
    /// For all waves.
    pub(crate) up: Elapsed,
    /// For all packets down.
    pub(crate) down: Elapsed,
}

struct Root {
    node: Node<Bytes>,
    now: Instant,
    asked: u32,
    is_open: bool,
    /// Contributors of the packets that have gone up, by wave.
    sent: Vec<(u64, usize)>,
    taken: u64,
}

impl Root {
    /// Advances the clock, feeds one input, and performs the resulting effects.
    fn feed(&mut self, passes: Duration, input: Input<Bytes>) {
        self.now = self.now + passes;
        if self.node.poll_timeout().is_some_and(|at| at <= self.now) {
            self.node.handle_timeout(self.now);
        }
        self.node.handle_input(self.now, input);
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Send { message: Message::Stream(message), .. } => self.note(*message),
                Effect::Filter(FilterEffect::Open { stream, .. }) => {
                    let opened = Input::FilterOpened { stream, result: Ok(Placement::Inline) };
                    self.node.handle_input(self.now, opened);
                }
                Effect::Filter(FilterEffect::Run(FilterRun { stream, run, work, .. })) => {
                    let packets = match work {
                        FilterWork::Up(mut packets) => {
                            packets.pop().into_iter().map(|(_, packet)| packet).collect()
                        }
                        FilterWork::Down(packet) => vec![packet],
                    };
                    let (result, cost) =
                        (Ok(Filtered { packets, holds_from: None }), Duration::from_nanos(100));
                    self.node.handle_input(self.now, Input::Filtered { stream, run, result, cost });
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, message: StreamMessage<Bytes>) {
        match message {
            StreamMessage::Open(_) => self.asked += 1,
            StreamMessage::News(_) => self.is_open = true,
            StreamMessage::Up(up) => self.sent.push((up.tag, up.contributors.len())),
            StreamMessage::Taken { upto, .. } => self.taken = upto,
            _ => {}
        }
    }

    fn hear(&mut self, from: u32, message: StreamMessage<Bytes>) {
        self.feed(Duration::from_micros(1), from_peer(from, message));
    }
}

fn from_peer(from: u32, message: StreamMessage<Bytes>) -> Input<Bytes> {
    Input::Message { from: node_id(from), message: Message::Stream(Box::new(message)) }
}

fn endpoint(child: u32) -> PartitionSet {
    PartitionSet::from_range(child..child + 1)
}

fn up(tag: u64, child: u32) -> StreamMessage<Bytes> {
    StreamMessage::Up(StreamUp {
        stream: STREAM,
        lane: 0,
        tag,
        serial: 0,
        payload: Some(Bytes::from_static(&[0; 8])),
        more: false,
        urgent: false,
        contributors: endpoint(child),
        missing: Vec::new(),
        holds_from: None,
    })
}

fn open(pattern: Pattern, children: u32) -> StreamMessage<Bytes> {
    let synchronisation = match pattern {
        Pattern::Late => Synchronisation::TimeOut(WAIT.into()),
        _ => Synchronisation::WaitForAll,
    };
    let spec = StreamSpec {
        service: "fan".into(),
        up_filter: "first".into(),
        down_filter: "".into(),
        filter_params: Bytes::new(),
        synchronisation,
        params: Bytes::new(),
        lag_bytes_max: None,
        opener: Rights::ALL,
    };
    let leaves: Vec<Tree> =
        (0..children).map(|child| Tree::leaf(node_id(FIRST_CHILD + child), endpoint(child))).collect();
    let tree = Tree::join(node_id(1), PartitionSet::new(), &leaves);
    StreamMessage::Open(StreamOpen {
        stream: STREAM,
        spec: Arc::new(spec),
        places: Places::beginning(tree, 1),
        epoch: 1,
        levels: 1,
        window_bytes: 64 << 20,
        first_tag: 1,
        packets_before: 0,
        takes_unfiltered: false,
    })
}

/// Opens a stream at a root with `children` children, and sends packets through it.
pub(crate) fn measure(pattern: Pattern, children: u32) -> Times {
    let now = Instant::START + Duration::from_secs(1);
    let node = Node::new(config(1), Instant::START);
    let mut root = Root { node, now, asked: 0, is_open: false, sent: Vec::new(), taken: 0 };
    let in_order: Vec<u32> = order(children, pattern != Pattern::InOrder).collect();

    let (clock, message) = (Clock::start(), open(pattern, children));
    root.hear(PARENT, message);
    assert_eq!(root.asked, children, "the root must ask each of its children once");
    for &child in &in_order {
        let (joined, away) = (vec![(endpoint(child), 0)], Vec::new());
        let news = StreamNews {
            stream: STREAM,
            place: 1,
            epoch: 1,
            received: 0,
            joined,
            away,
            hears_missed: false,
            unfiltered: false,
        };
        root.hear(FIRST_CHILD + child, StreamMessage::News(news));
    }
    let opening = clock.elapsed();
    assert!(root.is_open, "the root must report that all children take part");

    let mut there = Vec::new();
    let clock = Clock::start();
    for (at, &child) in (0..).zip(&in_order) {
        if pattern == Pattern::Lost && is_in(at, LOST_IN) {
            root.feed(Duration::from_micros(1), Input::Lost { peer: node_id(FIRST_CHILD + child) });
        } else {
            there.push(child);
        }
    }
    let losing = clock.elapsed();
    let clock = Clock::start();
    for tag in 1..=WAVES {
        let mut late = Vec::new();
        for (at, &child) in (0..).zip(&there) {
            match pattern == Pattern::Late && is_in(at, LATE_IN) {
                true => late.push(child),
                false => root.hear(FIRST_CHILD + child, up(tag, child)),
            }
        }
        let mut passes = WAIT + WAIT;
        for child in late {
            root.feed(passes, from_peer(FIRST_CHILD + child, up(tag, child)));
            passes = Duration::from_micros(1);
        }
        let mut runs = TagRuns::new();
        runs.insert(tag);
        root.hear(PARENT, StreamMessage::Settled(StreamSettled { stream: STREAM, lanes: vec![(0, runs)] }));
    }
    let up = clock.elapsed();
    for tag in 1..=WAVES {
        let came: usize = root.sent.iter().filter(|sent| sent.0 == tag).map(|sent| sent.1).sum();
        assert_eq!(came, there.len(), "all live children must be in wave {tag}");
    }

    let clock = Clock::start();
    for sequence in 1..=WAVES {
        let payload = Some(Bytes::from_static(&[0; 8]));
        let packet = StreamDown { stream: STREAM, sequence, tag: sequence, to: None, payload, more: false };
        root.hear(PARENT, StreamMessage::Down(packet));
        for &child in &there {
            root.hear(FIRST_CHILD + child, StreamMessage::Taken { stream: STREAM, upto: sequence });
        }
    }
    // The root reports to its parent with its next beat.
    root.feed(Duration::from_millis(300), from_peer(PARENT, StreamMessage::Beat { stream: STREAM }));
    let down = clock.elapsed();
    assert_eq!(root.taken, WAVES, "the root must report that all packets were acknowledged");
    Times { opening, losing, up, down }
}

/// Returns the number of lost children.
pub(crate) fn lost(pattern: Pattern, children: u32) -> u32 {
    if pattern == Pattern::Lost { (0..children).filter(|&at| is_in(at, LOST_IN)).count() as u32 } else { 0 }
}

/// Returns whether `at` is selected when one in `every` is.
fn is_in(at: u32, every: u32) -> bool {
    at % every == every / 2
}

/// Returns how often each child sends or acknowledges within [`Times::up`] and [`Times::down`].
pub(crate) fn turns() -> f64 {
    WAVES as f64
}
