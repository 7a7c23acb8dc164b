//! One root of core over n children in a call, without a driver.
//!
//! The root gets a call with a tree of n leaves from its parent. It asks the leaves, takes their partials,
//! folds them and answers its parent. The benchmark measures the processor time of the root's four methods; a
//! fold costs nothing here.

use crate::clock::Clock;
use bytes::Bytes;
use std::time::Duration as Elapsed;
use treefold_core::config::{Kind, NodeConfig, Placement, Tuning};
use treefold_core::effect::{Effect, Work};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::input::Input;
use treefold_core::limits::Limits;
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::membership::card::MemberCard;
use treefold_core::message::{Call, CallTimes, Message, Partial};
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::Tree;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

/// Partitions of each child, in the pattern with several partitions per child.
const INTERLEAVED: u32 = 4;
/// One partial in this many is sent twice.
const REPEATED_IN: u32 = 10;
/// One child in this many is lost.
const LOST_IN: u32 = 100;
/// One child in this many is silent.
const SILENT_IN: u32 = 10;
/// Most timers until a root whose deadline has passed has answered.
const TIMERS_MAX: usize = 100_000;

/// The partitions of the children, and the order of their answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pattern {
    /// One partition each, answered in the order of the partitions
    InOrder,
    /// One partition each, answered in a scattered order: the root holds many ranges
    Scattered,
    /// Four non-adjacent partitions each, answered in a scattered order
    Interleaved,
    /// As scattered, and one partial in ten is sent twice
    Repeated,
    /// As scattered, and one child in a hundred is lost
    Lost,
    /// As scattered, in a call that may give up a tenth of its partitions
    Spare,
    /// As lost and spare combined
    SpareLost,
    /// As scattered, and one child in ten is silent until the deadline
    Silent,
}

impl Pattern {
    pub(crate) const ALL: [Self; 8] = [
        Self::InOrder,
        Self::Scattered,
        Self::Interleaved,
        Self::Repeated,
        Self::Lost,
        Self::Spare,
        Self::SpareLost,
        Self::Silent,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Scattered => "scattered",
            Self::Interleaved => "interleaved",
            Self::Repeated => "repeated",
            Self::Lost => "lost",
            Self::Spare => "spare",
            Self::SpareLost => "spare lost",
            Self::Silent => "silent",
        }
    }

    /// Returns the partitions of a child among `children`.
    fn partitions(self, child: u32, children: u32) -> PartitionSet {
        match self {
            Self::Interleaved => (0..INTERLEAVED).map(|row| row * children + child).collect(),
            _ => PartitionSet::from_range(child..child + 1),
        }
    }
}

/// Yields the children in the order in which they answer.
pub(crate) fn order(children: u32, is_scattered: bool) -> impl Iterator<Item = u32> {
    // A step near the golden section scatters most evenly. It must be coprime to the number of children.
    let golden = (f64::from(children) * 0.618) as u32;
    let step = (golden.max(1)..).find(|step| gcd(*step, children) == 1).unwrap_or(1);
    let step = if is_scattered { u64::from(step) } else { 1 };
    (0..u64::from(children)).map(move |at| ((at * step) % u64::from(children)) as u32)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Processor time of one call at its root.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// Until all children have been asked.
    pub(crate) asking: Elapsed,
    /// From the first partial until the answer.
    pub(crate) taking: Elapsed,
}

/// Returns the id of a node by number; children are numbered from 2.
pub(crate) fn node_id(number: u32) -> NodeId {
    let [_, a, b, c] = number.to_be_bytes();
    NodeId::new(([10, a, b, c], 7700).into(), 1 << 16 | u64::from(number))
}

/// The first child's number. The root is 1 and the parent is 0.
pub(crate) const FIRST_CHILD: u32 = 2;

/// Returns the configuration of a node that folds inline.
pub(crate) fn config(number: u32) -> NodeConfig {
    NodeConfig {
        card: MemberCard::new(node_id(number)),
        kinds: vec![Kind {
            name: "fan/sum".into(),
            placement: Placement::Inline,
            is_sliceable: false,
            gives_slices: false,
            folds_in_pairs: false,
        }],
        tuning: Tuning::LAN,
        limits: Limits::DEFAULT,
        shares: Default::default(),
        pushed: Default::default(),
        placed: Default::default(),
        seed: 1,
    }
}

/// A root with its clock.
struct Root {
    node: Node<Bytes>,
    now: Instant,
    asked: u32,
    /// Partitions it has sent to its parent. It sends some before its answer if it waits in vain for the
    /// rest.
    given: PartitionSet,
    is_answered: bool,
}

impl Root {
    /// Feeds one input, performs the resulting effects, and advances the clock by a microsecond.
    fn feed(&mut self, input: Input<Bytes>) {
        self.now = self.now + Duration::from_micros(1);
        if self.node.poll_timeout().is_some_and(|at| at <= self.now) {
            self.node.handle_timeout(self.now);
        }
        self.node.handle_input(self.now, input);
        self.perform();
    }

    /// Advances the clock until the root has answered.
    fn wait(&mut self) {
        for _ in 0..TIMERS_MAX {
            let (false, Some(at)) = (self.is_answered, self.node.poll_timeout()) else { return };
            self.now = self.now.max(at);
            self.node.handle_timeout(self.now);
            self.perform();
        }
    }

    fn perform(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                // A silent child is asked once more, without parameters.
                Effect::Send { message: Message::Call(call), .. } => {
                    self.asked += u32::from(call.params.is_some());
                }
                Effect::Send { message: Message::Partial(partial), .. } => {
                    self.given.union_with(&partial.contributors);
                    self.is_answered |= partial.last;
                }
                Effect::Run(job) => {
                    let Work::Reduce { mut parts, .. } = job.work else { continue };
                    let (result, cost) = (Ok(parts.swap_remove(0)), Duration::from_nanos(100));
                    self.node.handle_input(self.now, Input::JobDone { job: job.id, result, cost });
                }
                _ => {}
            }
        }
    }
}

/// Returns the partial that a child sends.
fn partial_of(tag: Tag, child: u32, contributors: PartitionSet) -> Input<Bytes> {
    let partial = Partial {
        tag,
        payload: Some(Bytes::from_static(&[0; 8])),
        contributors,
        missing: Vec::new(),
        last: true,
        load: LoadFigure { processors: 2, ..LoadFigure::default() },
        own: None,
        served: None,
        loads: Vec::new(),
        cost: CostFigure::default(),
        given_up: Vec::new(),
        report: None,
    };
    Input::Message { from: node_id(FIRST_CHILD + child), message: Message::Partial(Box::new(partial)) }
}

/// Measures one call of a root with `children` children.
pub(crate) fn measure(pattern: Pattern, children: u32) -> Times {
    let mut root = Root {
        node: Node::new(config(1), Instant::START),
        now: Instant::START + Duration::from_secs(1),
        asked: 0,
        given: PartitionSet::new(),
        is_answered: false,
    };
    let held: Vec<PartitionSet> = (0..children).map(|child| pattern.partitions(child, children)).collect();
    let leaf = |child: u32| Tree::leaf(node_id(FIRST_CHILD + child), held[child as usize].clone());
    let leaves: Vec<Tree> = (0..children).map(leaf).collect();
    let tag = Tag { wave: WaveId { origin: 1, sequence: 1 }, branch: 0 };
    let partial = |child: u32| partial_of(tag, child, held[child as usize].clone());
    let call = Call {
        tag,
        name: "fan/sum".into(),
        params: Some(Bytes::new().into()),
        times: CallTimes {
            deadline_left: Duration::from_secs(60),
            answer_left: Duration::from_secs(50),
            sign_after: None,
        },
        waiting: Waiting::Staged,
        losses_max: children / 2,
        spare: if matches!(pattern, Pattern::Spare | Pattern::SpareLost) { children / 10 } else { 0 },
        hedge: false,
        tree: Tree::join(node_id(1), PartitionSet::new(), &leaves),
        explain: false,
        loads_wanted: false,
        slice: Slice::WHOLE,
        push: None,
        in_flight: 0,
        whole: false,
    };
    let mut answers = Vec::new();
    let mut lost = PartitionSet::new();
    for (at, child) in (0..).zip(order(children, pattern != Pattern::InOrder)) {
        if pattern == Pattern::Silent && at % SILENT_IN == SILENT_IN / 2 {
            lost.union_with(&held[child as usize]);
            continue;
        }
        if matches!(pattern, Pattern::Lost | Pattern::SpareLost) && at % LOST_IN == LOST_IN / 2 {
            lost.union_with(&held[child as usize]);
            answers.push(Input::Lost { peer: node_id(FIRST_CHILD + child) });
            continue;
        }
        answers.push(partial(child));
        if pattern == Pattern::Repeated && at % REPEATED_IN == 0 {
            answers.push(partial(child));
        }
    }

    let clock = Clock::start();
    root.feed(Input::Message { from: node_id(0), message: Message::Call(Box::new(call)) });
    let asking = clock.elapsed();
    assert_eq!(root.asked, children, "the root must ask each of its children once");
    let clock = Clock::start();
    answers.into_iter().for_each(|answer| root.feed(answer));
    root.wait();
    let taking = clock.elapsed();
    let all: usize = held.iter().map(PartitionSet::len).sum();
    let came = (root.is_answered, root.given.len());
    assert_eq!(came, (true, all - lost.len()), "the root must answer with all partials that arrived");
    Times { asking, taking }
}
