//! Invalid requests and messages: they are refused with the field and the limit.

use crate::clusters::cluster::{Cluster, Plan, addr, assert_honest};
use treefold_core::call::{CallOptions, Status};
use treefold_core::error::{CallError, Reason};
use treefold_core::id::{NodeId, Tag, WaveId};
use treefold_core::input::Input;
use treefold_core::message::{Call, CallTimes, Message, Partial, Request};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;
use treefold_sim::world::ink::Ink;

fn refusal(cluster: &mut Cluster, name: &str, options: CallOptions) -> CallError {
    let request = cluster.call_named(0, name, options);
    let outcome = cluster.outcome(0, request).expect("a refusal comes at once");
    match outcome.status {
        Status::Rejected(error) => error,
        status => panic!("not refused: {status:?}"),
    }
}

#[test]
fn an_unknown_service_is_refused() {
    let mut cluster = Cluster::new(&Plan::default());
    let error = refusal(&mut cluster, "t/sum", CallOptions::default());
    assert_eq!(error, CallError::UnknownService { service: "t".into() });
    assert!(
        refusal(&mut cluster, "nonsense", CallOptions::default()).to_string().contains("service/aggregation")
    );
}

#[test]
fn an_unknown_aggregation_is_reported() {
    let mut cluster = Cluster::new(&Plan::default());
    let request = cluster.call_named(0, "s/product", CallOptions::default());
    cluster.run_for(Duration::from_millis(100));
    let outcome = cluster.outcome(0, request).expect("said at once");
    assert_eq!(outcome.status, Status::Insufficient);
    assert!(outcome.missing.iter().any(|loss| loss.reason == Reason::UnknownAggregation), "{outcome:?}");
}

#[test]
fn a_partition_beyond_the_service_is_refused() {
    let mut cluster = Cluster::new(&Plan::default());
    let partitions = Some([3, 99].into_iter().collect());
    let error = refusal(&mut cluster, "s/sum", CallOptions { partitions, ..CallOptions::default() });
    assert_eq!(error.to_string(), "partitions is 3,99; allowed: 0-15");
}

#[test]
fn a_service_that_has_lost_all_of_its_nodes_is_known_and_missing() {
    let plan = Plan { nodes: 3, partitions: 8, relays: 1, ..Plan::default() };
    let mut cluster = Cluster::new(&plan);
    (0..3).for_each(|node| cluster.kill(node));
    cluster.run_for(Duration::from_secs(60));
    let outcome = cluster.ask(3, CallOptions::default());
    assert_eq!((outcome.status, outcome.asked.len()), (Status::Insufficient, 8));
    let missing = PartitionSet::union_of(outcome.missing.iter().map(|loss| &loss.partitions));
    assert_eq!(missing, PartitionSet::first(8));
    assert!(outcome.missing.iter().all(|loss| loss.reason == Reason::NoReplica), "{:?}", outcome.missing);
}

#[test]
fn a_partition_without_a_replica_is_reported_missing() {
    let plan = Plan { nodes: 3, partitions: 8, ..Plan::default() };
    let mut cluster = Cluster::new(&plan);
    cluster.kill(2);
    cluster.run_for(Duration::from_secs(5));
    let outcome = cluster.ask(0, CallOptions { min_coverage: 0.5, ..CallOptions::default() });
    assert_eq!(outcome.status, Status::Partial);
    assert_eq!(outcome.missing.len(), 1);
    assert_eq!(outcome.missing[0].partitions.to_string(), "2,5");
    assert_eq!((&outcome.missing[0].reason, outcome.missing[0].node), (&Reason::NoReplica, None));
}

fn stray(branch: u32) -> Tag {
    Tag { wave: WaveId { origin: 77, sequence: 1 }, branch }
}

#[test]
fn answers_to_nothing_are_counted_and_dropped() {
    let mut cluster = Cluster::new(&Plan::default());
    let from = cluster.id(1);
    let partial = Partial {
        tag: stray(0),
        payload: Some(Ink::params(1, 1.0)),
        contributors: PartitionSet::first(3),
        missing: Vec::new(),
        last: true,
        load: Default::default(),
        own: None,
        served: None,
        loads: Vec::new(),
        given_up: Vec::new(),
        cost: Default::default(),
        report: None,
    };
    for message in [
        Message::Partial(Box::new(partial)),
        Message::Cancel { tag: stray(0) },
        Message::Grant { tag: stray(0) },
        Message::Offer { tag: stray(0), bytes: u64::MAX },
        Message::CancelRequest { id: 9 },
    ] {
        cluster.hear(0, from, message);
    }
    assert_eq!(cluster.node(0).status(cluster.now()).counters.waves.partials_late, 1);
    assert_eq!(cluster.node(0).open_work(), Default::default());
}

/// A call of one partition at `root`, from an unknown node.
fn stray_call(root: NodeId) -> Call<Ink> {
    Call {
        tag: stray(0),
        name: "s/sum".into(),
        params: Some(Ink::params(1, 1.0).into()),
        times: CallTimes {
            deadline_left: Duration::from_secs(1),
            answer_left: Duration::from_secs(1),
            sign_after: None,
        },
        waiting: Waiting::Staged,
        losses_max: 0,
        spare: 0,
        hedge: false,
        tree: Tree::leaf(root, PartitionSet::first(1)),
        explain: false,
        loads_wanted: false,
        slice: Slice::WHOLE,
        push: None,
        in_flight: 0,
        whole: false,
    }
}

#[test]
fn a_call_for_another_node_or_without_parameters_starts_nothing() {
    let mut cluster = Cluster::new(&Plan::default());
    let (me, from) = (cluster.id(0), NodeId::new(addr(99), 5));
    for call in [stray_call(cluster.id(3)), Call { params: None, ..stray_call(me) }] {
        cluster.hear(0, from, Message::Call(Box::new(call)));
        assert_eq!(cluster.node(0).open_work(), Default::default());
    }
}

#[test]
fn a_call_whose_tree_seats_a_node_twice_starts_nothing() {
    let mut cluster = Cluster::new(&Plan::default());
    cluster.write_effects();
    let (me, from) = (cluster.id(0), NodeId::new(addr(99), 5));
    let leaf = |i: u32, partition: u32| Tree::leaf(cluster.id(i), [partition].into_iter().collect());
    let twice = [
        Tree::join(me, PartitionSet::first(1), &[leaf(0, 1)]),
        Tree::join(me, PartitionSet::first(1), &[leaf(2, 2), leaf(3, 3), leaf(2, 4)]),
    ];
    for (count, tree) in (1..).zip(twice) {
        let call = Call { tree, ..stray_call(me) };
        cluster.hear(0, from, Message::Call(Box::new(call)));
        assert_eq!(cluster.node(0).open_work(), Default::default());
        assert_eq!(cluster.node(0).status(cluster.now()).counters.bad_messages, count);
        let named =
            |line: &&String| line.contains("call.tree: the node") && line.contains("more than one seat");
        assert_eq!(cluster.effects().iter().filter(named).count() as u64, count, "{:?}", cluster.effects());
    }
}

#[test]
fn a_slice_of_a_wave_that_no_call_can_have_starts_nothing() {
    let mut cluster = Cluster::new(&Plan::default());
    let (me, from) = (cluster.id(0), NodeId::new(addr(99), 5));
    for (sequence, index) in [(2, 5), (u64::MAX - 1, 0), (u64::MAX, 7)] {
        let wave = WaveId { sequence, ..stray(0).wave };
        let slice = Slice::new(index, 8).expect("it is one of eight");
        let call = Call { tag: Tag { wave, branch: 0 }, slice, ..stray_call(me) };
        cluster.hear(0, from, Message::Call(Box::new(call)));
        cluster.run_for(Duration::from_millis(100));
        assert_eq!(cluster.node(0).open_work(), Default::default(), "{sequence} {index}");
    }
}

#[test]
fn a_partial_of_unrequested_partitions_is_dropped() {
    let mut cluster = Cluster::new(&Plan { nodes: 2, partitions: 2, ..Plan::default() });
    let request = cluster.call(0, CallOptions { min_coverage: 0.0, ..CallOptions::default() });
    let me = cluster.id(0);
    // Whichever node is the root, one of these senders is its child, and claims more partitions than were
    // asked.
    for sender in [cluster.id(0), cluster.id(1)] {
        let wave = WaveId { origin: me.generation, sequence: 1 };
        let partial = Partial {
            tag: Tag { wave, branch: 0 },
            payload: Some(Ink::of(9, &Ink::params(1, 1.0), 1)),
            contributors: PartitionSet::from_range(5..10),
            missing: Vec::new(),
            last: true,
            load: Default::default(),
            own: None,
            served: None,
            loads: Vec::new(),
            given_up: Vec::new(),
            cost: Default::default(),
            report: None,
        };
        cluster.hear(0, sender, Message::Partial(Box::new(partial)));
    }
    cluster.run_for(Duration::from_secs(2));
    let outcome = cluster.outcome(0, request).expect("the deadline has passed");
    assert_honest(&outcome);
}

/// A client's request 7, sent twice to node 0, whose locals are slow; and the replies of node 0.
fn asked_twice() -> (Cluster, NodeId, impl Fn(&Cluster) -> Vec<String>) {
    let plan = Plan::default();
    let mut cluster = Cluster::new(&plan);
    cluster.set_local(Duration::from_millis(50));
    cluster.write_effects();
    let client = cluster.start_client(&plan);
    for _ in 0..2 {
        let params = Ink::params(1, 1.0);
        let request =
            Request { id: 7, name: "s/sum".into(), params: params.into(), options: CallOptions::default() };
        cluster.world.say(client as usize, 0, Message::Request(Box::new(request)));
    }
    let replies = |cluster: &Cluster| {
        cluster.effects().iter().filter(|line| line.contains("Reply { id: 7")).cloned().collect()
    };
    cluster.run_for(Duration::from_millis(1));
    let client = cluster.id(client);
    (cluster, client, replies)
}

#[test]
fn a_second_request_under_an_open_number_is_refused() {
    let (mut cluster, _, replies) = asked_twice();
    assert_eq!(cluster.node(0).open_work().calls, 1, "the second was not started");
    let refused = replies(&cluster);
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("Rejected(BadField { field: \"request.id\", given: \"7\""), "{refused:?}");
    cluster.run_for(Duration::from_millis(500));
    let replies = replies(&cluster);
    assert_eq!(replies.len(), 2);
    assert!(replies[1].contains("status: Full"), "{replies:?}");
}

#[test]
fn a_reused_request_number_outlives_neither_cancel_nor_client() {
    let over: [fn(NodeId) -> Input<Ink>; 2] = [
        |client| Input::Message { from: client, message: Message::CancelRequest { id: 7 } },
        |client| Input::Lost { peer: client },
    ];
    for over in over {
        let (mut cluster, client, replies) = asked_twice();
        cluster.input(0, over(client));
        assert_eq!(cluster.node(0).open_work().calls, 0);
        cluster.run_for(Duration::from_millis(500));
        assert_eq!(replies(&cluster).len(), 1, "the refusal alone");
        assert!(cluster.nodes().all(|node| node.open_work().waves == 0));
    }
}
