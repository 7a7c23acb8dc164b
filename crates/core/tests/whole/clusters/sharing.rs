//! One node with one processor, two services whose locals take 34 ms and 2 ms, and callers with endless work.
//! The tests compare how much time each service gets, by the node's own accounts, while requests set the
//! shares.

use crate::clusters::cluster::addr;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use treefold_core::call::CallOptions;
use treefold_core::config::{Kind, NodeConfig, Placement, Tuning};
use treefold_core::effect::{Effect, Event, Job};
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::limits::Limits;
use treefold_core::membership::card::{MemberCard, ServiceCard};
use treefold_core::message::Message;
use treefold_core::node::Node;
use treefold_core::partitions::PartitionSet;
use treefold_core::schedule::share::{BATCH_PART, Class, ShareSetting, SharesReport};
use treefold_core::time::{Duration, Instant};

const COSTS_MS: [u64; 2] = [34, 2];
/// Calls of each service that are open at any time.
const CALLERS: usize = 10;

struct Busy {
    node: Node<Bytes>,
    now: Instant,
    jobs: VecDeque<Job<Bytes>>,
    ended: Vec<RequestId>,
    replies: Vec<Result<Box<SharesReport>, Arc<str>>>,
    requests: u64,
}

impl Busy {
    fn new(limits: Limits) -> Self {
        let mut card = MemberCard::new(NodeId::new(addr(1), 1));
        card.processors = 1;
        for service in ["a", "b"] {
            let partitions = PartitionSet::first(1);
            card.services
                .insert(service.into(), ServiceCard { partitions, total: 1, declared: true, placed: None });
        }
        let kind = |name: &str| Kind {
            name: name.into(),
            placement: Placement::Pool,
            is_sliceable: false,
            gives_slices: false,
            folds_in_pairs: false,
        };
        let config = NodeConfig {
            card,
            kinds: vec![kind("a/long"), kind("b/short")],
            tuning: Tuning::LAN,
            limits,
            shares: [("a".to_owned(), 1.0.into())].into(),
            pushed: Default::default(),
            placed: Default::default(),
            seed: 1,
        };
        let node = Node::new(config, Instant::START);
        let (jobs, ended, replies) = Default::default();
        Self { node, now: Instant::START, jobs, ended, replies, requests: 0 }
    }

    fn input(&mut self, input: Input<Bytes>) {
        self.node.handle_input(self.now, input);
        while let Some(effect) = self.node.poll_effect() {
            match effect {
                Effect::Run(job) => self.jobs.push_back(job),
                Effect::Deliver(Event::CallDone { request, .. }) => self.ended.push(request),
                Effect::Send { message: Message::SharesReply { result, .. }, .. } => {
                    self.replies.push(result);
                }
                _ => {}
            }
        }
    }

    /// Calls with even numbers belong to the first service.
    fn call(&mut self, which: u64) {
        self.requests += 2;
        let request = RequestId(self.requests + which);
        let name = ["a/long", "b/short"][which as usize].into();
        let options = CallOptions { deadline: Duration::from_secs(60), ..CallOptions::default() };
        self.input(Input::Command(Command::Call { request, name, params: Bytes::new().into(), options }));
    }

    fn fill(&mut self) {
        (0..CALLERS).for_each(|_| (0..2).for_each(|which| self.call(which)));
    }

    /// The first service's part of the time in the node's accounts during this period.
    fn part_over(&mut self, seconds: u64) -> f64 {
        let used = |busy: &Self| {
            let report = busy.node.shares_report(busy.now);
            [0, 1].map(|at| report.services[at].used.as_secs_f64() * 1e3)
        };
        let (before, until) = (used(self), self.now + Duration::from_secs(seconds));
        while self.now < until {
            let job = self.jobs.pop_front().expect("there is always a job waiting");
            let cost = Duration::from_millis(COSTS_MS[job.kind as usize]);
            self.now = self.now + cost;
            self.input(Input::JobDone { job: job.id, result: Ok(Bytes::new()), cost });
            for request in std::mem::take(&mut self.ended) {
                self.call(request.0 % 2);
            }
        }
        let after = used(self);
        let had = |at: usize| after[at] - before[at];
        had(0) / (had(0) + had(1))
    }

    fn set(
        &mut self,
        service: &str,
        share: f64,
        class: Option<Class>,
    ) -> Result<Box<SharesReport>, Arc<str>> {
        let from = NodeId::new(addr(9), 9);
        let settings = vec![ShareSetting { service: service.into(), share, class }];
        self.input(Input::Message { from, message: Message::SharesRequest { id: 7, settings } });
        self.replies.pop().expect("every request is answered")
    }
}

fn close(part: f64, due: f64) {
    assert!((part - due).abs() < 0.02, "{part} where {due} is due");
}

#[test]
fn shares_set_by_a_request_hold_within_a_second() {
    let mut busy = Busy::new(Limits::DEFAULT);
    busy.fill();
    busy.part_over(1);
    close(busy.part_over(20), 0.5);
    let report = busy.set("a", 3.0, None).expect("the node has it");
    assert_eq!(report.services[0].share.share, 3.0);
    close(busy.part_over(1), 0.75);
    close(busy.part_over(20), 0.75);
    busy.set("a", 1.0, Some(Class::Batch)).expect("the node has it");
    busy.part_over(1);
    close(busy.part_over(20), BATCH_PART);
    let refused = busy.set("c", 1.0, None).expect_err("the node has no such service");
    assert_eq!(&*refused, "the node has no service c; it has: a, b, *");
    busy.part_over(1);
    close(busy.part_over(20), BATCH_PART);
}

#[test]
fn a_service_that_is_learned_has_an_account_of_its_own() {
    let mut busy = Busy::new(Limits::DEFAULT);
    busy.fill();
    busy.part_over(1);
    for name in ["c/mid", "c/other", "a/more"] {
        let kind = Kind {
            name: name.into(),
            placement: Placement::Inline,
            is_sliceable: false,
            gives_slices: false,
            folds_in_pairs: false,
        };
        busy.input(Input::Command(Command::Learn { kind }));
    }
    let report = busy.set("c", 3.0, None).expect("it is known by now");
    let shares: Vec<_> = report.services.iter().map(|it| (&*it.service, it.share.share)).collect();
    assert_eq!(shares, [("a", 1.0), ("b", 1.0), ("c", 3.0), ("*", 1.0)]);
    close(busy.part_over(20), 0.5);
}

#[test]
fn a_full_line_leaves_the_others_free_and_is_named() {
    let mut busy = Busy::new(Limits { jobs_queued_max: 20, ..Limits::DEFAULT });
    (0..60).for_each(|_| busy.call(0));
    let report = busy.node.shares_report(busy.now);
    let [a, b] = [&report.services[0], &report.services[1]];
    assert_eq!((a.jobs_queued, b.jobs_queued, b.refused), (10, 0, 0), "half of the room");
    assert_eq!(a.refused, 49, "ten wait, and one is at work");
    busy.ended.clear();
    (0..10).for_each(|_| busy.call(1));
    let report = busy.node.shares_report(busy.now);
    assert_eq!((report.services[1].jobs_queued, report.services[1].refused), (10, 0));
    assert!(busy.ended.is_empty(), "none of them was turned away");
}

#[test]
fn a_call_is_late_by_its_own_queue_and_not_by_another_s() {
    let mut busy = Busy::new(Limits::DEFAULT);
    busy.fill();
    busy.part_over(2);
    (0..1_000).for_each(|_| busy.call(0));
    let refused =
        |busy: &Busy| busy.node.shares_report(busy.now).services.iter().map(|it| it.refused).sum::<u64>();
    assert_eq!(refused(&busy), 0);
    let options = CallOptions { deadline: Duration::from_millis(500), ..CallOptions::default() };
    for (number, name) in [(1 << 40, "b/short"), ((1 << 40) + 1, "a/long")] {
        let (request, name) = (RequestId(number), name.into());
        let options = options.clone();
        busy.input(Input::Command(Command::Call { request, name, params: Bytes::new().into(), options }));
    }
    let report = busy.node.shares_report(busy.now);
    assert_eq!(
        (report.services[1].refused, report.services[0].refused),
        (0, 1),
        "34 seconds of it are in line"
    );
}
