//! Cheap folds are done by one job, and nothing is lost by waiting for it. `turns` has the folds on workers.

mod turns;

use super::{LOT_BYTES_MAX, LOT_PARTS_MAX};
use crate::config::{NodeConfig, Tuning};
use crate::effect::{Effect, Place, Work};
use crate::error::{JobError, Reason};
use crate::id::{JobId, NodeId, Tag, WaveId};
use crate::input::Input;
use crate::load::figure::{CostFigure, LoadFigure};
use crate::message::{Call, CallTimes, Message, Partial};
use crate::node::Node;
use crate::node::tests::summing;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;

const PARENT: u32 = 0;
const ROOT: u32 = 1;
const FIRST_CHILD: u32 = 2;
/// The cost of a fold that is cheap enough for the largest lot.
const CHEAP: Duration = Duration::from_nanos(150);
/// The payload that no fold accepts.
const FAULTY: u8 = 13;

fn node_id(number: u32) -> NodeId {
    let [.., a, b] = number.to_be_bytes();
    NodeId::new(([10, 0, a, b], 7700).into(), 1)
}

/// A node that sums, between its parent and its children. A partial is a list of figures, and a fold is their concatenation.
struct Inner {
    node: Node<Bytes>,
    now: Instant,
    cost: Duration,
    /// The most losses that the waiting rule may accept.
    spare: u32,
    wave: u64,
    /// Jobs on workers that have not ended, oldest first.
    at_work: Vec<(JobId, Vec<Bytes>)>,
    /// The number of parts of each fold.
    folds: Vec<usize>,
    /// The partials for the parent.
    answers: Vec<Partial<Bytes>>,
}

impl Inner {
    /// A node that has learned what a fold costs.
    fn new(cost: Duration) -> Self {
        let mut inner = Self::of(summing(node_id(ROOT)), cost);
        inner.call(2);
        (0..2).for_each(|child| inner.hear(child, &[1]));
        assert_eq!(
            (inner.folds.as_slice(), inner.answers.len()),
            ([2].as_slice(), 1),
            "unknown costs: a pair"
        );
        inner.forget();
        inner
    }

    fn of(config: NodeConfig, cost: Duration) -> Self {
        Self {
            node: Node::new(config, Instant::START),
            now: Instant::START,
            cost,
            spare: 0,
            wave: 0,
            at_work: Vec::new(),
            folds: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn forget(&mut self) {
        self.folds.clear();
        self.answers.clear();
    }

    /// The parent calls a tree of so many leaves.
    fn call(&mut self, children: u32) {
        self.wave += 1;
        let leaf = |child| Tree::leaf(node_id(FIRST_CHILD + child), PartitionSet::alone(child));
        let leaves: Vec<Tree> = (0..children).map(leaf).collect();
        let call = Call {
            tag: self.tag(),
            name: "s/sum".into(),
            params: Some(Bytes::new().into()),
            times: CallTimes {
                deadline_left: Duration::from_secs(2),
                answer_left: Duration::from_secs(1),
                sign_after: None,
            },
            waiting: if self.spare > 0 { Waiting::SLOPE } else { Waiting::Staged },
            losses_max: children,
            spare: self.spare,
            hedge: false,
            tree: Tree::join(node_id(ROOT), PartitionSet::new(), &leaves),
            explain: false,
            loads_wanted: false,
            slice: Slice::WHOLE,
            push: None,
            in_flight: 0,
            whole: false,
        };
        self.feed(Input::Message { from: node_id(PARENT), message: Message::Call(Box::new(call)) });
    }

    fn tag(&self) -> Tag {
        Tag { wave: WaveId { origin: 1, sequence: self.wave }, branch: 0 }
    }

    /// A child gives its partial.
    fn hear(&mut self, child: u32, payload: &[u8]) {
        let partial = Partial {
            tag: self.tag(),
            payload: Some(Bytes::copy_from_slice(payload)),
            contributors: PartitionSet::alone(child),
            missing: Vec::new(),
            last: true,
            load: LoadFigure::default(),
            loads: Vec::new(),
            own: None,
            served: None,
            cost: CostFigure::default(),
            given_up: Vec::new(),
            report: None,
        };
        let message = Message::Partial(Box::new(partial));
        self.feed(Input::Message { from: node_id(FIRST_CHILD + child), message });
    }

    fn feed(&mut self, input: Input<Bytes>) {
        self.node.handle_input(self.now, input);
        self.perform();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.node.handle_timeout(self.now);
        self.perform();
    }

    fn perform(&mut self) {
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Run(job) => {
                    let Work::Reduce { parts, .. } = job.work else { panic!("there are no locals") };
                    match job.place {
                        Place::Inline => self.fold(job.id, &parts),
                        _ => self.at_work.push((job.id, parts.into_vec())),
                    }
                }
                Effect::Send { message: Message::Partial(partial), .. } if partial.payload.is_some() => {
                    self.answers.push(*partial);
                }
                _ => {}
            }
        }
    }

    fn fold(&mut self, job: JobId, parts: &[Bytes]) {
        self.folds.push(parts.len());
        let faulty = parts.iter().position(|part| part.contains(&FAULTY));
        let result = match faulty {
            None => Ok(Bytes::from(parts.concat())),
            Some(0) => Err(JobError::RefusedA("is 13".into())),
            Some(1) => Err(JobError::RefusedB("is 13".into())),
            Some(_) => Err(JobError::Failed("one is 13".into())),
        };
        let cost = Duration::from_nanos(self.cost.as_nanos() * (parts.len() as u64 - 1));
        self.node.handle_input(self.now, Input::JobDone { job, result, cost });
    }

    /// The partitions and the number of figures in the only answer.
    fn answered(&self) -> (usize, usize) {
        let [answer] = &self.answers[..] else { panic!("one answer is expected: {:?}", self.answers) };
        (answer.contributors.len(), answer.payload.as_ref().map_or(0, Bytes::len))
    }
}

#[test]
fn cheap_folds_wait_for_the_last_child() {
    let mut inner = Inner::new(CHEAP);
    inner.call(8);
    (0..7).for_each(|child| inner.hear(child, &[1]));
    assert!(inner.folds.is_empty() && inner.answers.is_empty());
    inner.hear(7, &[1]);
    assert_eq!((&inner.folds[..], inner.answered()), (&[8][..], (8, 8)));
    assert_eq!(inner.node.status(inner.now).counters.waves.reductions_run, 1 + 7, "each fold counts");
}

#[test]
fn dear_folds_begin_at_once() {
    let mut inner = Inner::new(Duration::from(Tuning::LAN.inline_cost_max));
    inner.call(4);
    (0..4).for_each(|child| inner.hear(child, &[1]));
    assert_eq!((&inner.folds[..], inner.answered()), (&[2, 2, 2][..], (4, 4)));
}

#[test]
fn root_of_many_children_folds_as_they_come() {
    let mut inner = Inner::new(CHEAP);
    inner.call(200);
    (0..200).for_each(|child| inner.hear(child, &[1]));
    assert_eq!(inner.answered(), (200, 200));
    assert!(inner.folds.iter().all(|&parts| parts <= LOT_PARTS_MAX));
    let folds: usize = inner.folds.iter().map(|parts| parts - 1).sum();
    assert_eq!(folds, 199);
    assert!(inner.folds.len() < 199 / 10, "{:?}", inner.folds);
}

#[test]
fn many_bytes_do_not_wait() {
    let mut inner = Inner::new(CHEAP);
    inner.call(4);
    let large = [1; LOT_BYTES_MAX / 2 + 1];
    inner.hear(0, &large);
    assert!(inner.folds.is_empty(), "one partial has no other to be folded with");
    inner.hear(1, &large);
    assert_eq!(inner.folds, [2]);
}

#[test]
fn partials_that_wait_are_folded_when_time_is_up() {
    let mut inner = Inner::new(CHEAP);
    inner.call(9);
    (0..8).for_each(|child| inner.hear(child, &[1]));
    assert!(inner.folds.is_empty() && inner.answers.is_empty());
    inner.pass(Duration::from_secs(1));
    assert_eq!((&inner.folds[..], inner.answered()), (&[8][..], (8, 8)));
}

#[test]
fn partial_that_no_fold_accepts_is_missing_alone() {
    let mut inner = Inner::new(CHEAP);
    inner.call(6);
    (0..6).for_each(|child| inner.hear(child, &[if child == 3 { FAULTY } else { 1 }]));
    assert_eq!(inner.folds[0], 6, "the lot fails");
    assert!(inner.folds[1..].iter().all(|&parts| parts == 2), "then pairs are folded: {:?}", inner.folds);
    assert_eq!(inner.answered(), (5, 5));
    let [missing] = &inner.answers[0].missing[..] else { panic!("one partition is missing") };
    assert_eq!(missing.partitions, PartitionSet::alone(3));
    assert!(matches!(&missing.reason, Reason::ReduceFailed(text) if text.contains("13")));
}
