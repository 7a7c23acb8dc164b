//! Formed trees are used again, until something changes on which they depend.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, whole};
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold_core::call::{CallOptions, Status};
use treefold_core::id::NodeId;
use treefold_core::membership::card::MemberCard;
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;

/// Jobs of microseconds, so that a call moves no load.
fn plan() -> Plan {
    Plan { local: Duration::from_micros(20), reduce: Duration::from_micros(5), ..Plan::default() }
}

/// A cluster and a client of it.
fn cluster_and_client(plan: &Plan) -> (Cluster, u32) {
    let mut cluster = Cluster::new(plan);
    let client = cluster.start_client(plan);
    (cluster, client)
}

fn shaped(shape: Shape) -> CallOptions {
    let deadline = Duration::from_millis(400);
    CallOptions { shape, deadline, min_coverage: 0.5, ..CallOptions::default() }
}

/// Makes a call and returns its tree. The answer must be exact, and full.
fn asked(cluster: &mut Cluster, client: u32, options: CallOptions) -> Tree {
    let outcome = cluster.ask(client, options);
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full, "{outcome:?}");
    cluster.last_tree(client)
}

fn nodes(tree: &Tree) -> Vec<NodeId> {
    tree.seats().iter().map(|seat| seat.node).collect()
}

#[test]
fn a_tree_is_used_again_until_a_member_dies_or_comes() {
    for shape in [Shape::KAry(3), Shape::Chain] {
        let plan = plan();
        let (mut cluster, client) = cluster_and_client(&plan);
        let first = asked(&mut cluster, client, shaped(shape));
        assert!(asked(&mut cluster, client, shaped(shape)).is_same(&first), "{shape}");
        let other = asked(&mut cluster, client, shaped(Shape::KAry(2)));
        assert!(!other.is_same(&first) && asked(&mut cluster, client, shaped(shape)).is_same(&first));

        let victim = cluster.id(7);
        cluster.kill(7);
        cluster.run_until(|cluster| !cluster.node(client).view().contains(&victim));
        let outcome = cluster.ask(client, shaped(shape));
        assert_honest(&outcome);
        assert_eq!(outcome.missing.len(), 1, "its partitions are missing: {outcome:?}");
        let without = cluster.last_tree(client);
        assert!(!nodes(&without).contains(&victim));
        cluster.ask(client, shaped(shape));
        assert!(cluster.last_tree(client).is_same(&without), "partitions without a node do not matter");

        let newcomer = cluster.join(&plan, 7, [7, 15].into_iter().collect());
        let with = asked(&mut cluster, client, shaped(shape));
        assert!(nodes(&with).contains(&cluster.id(newcomer)));
        assert!(asked(&mut cluster, client, shaped(shape)).is_same(&with));
    }
}

#[test]
fn a_changed_total_or_a_moved_partition_gives_a_new_tree() {
    let (mut cluster, client) = cluster_and_client(&plan());
    let first = asked(&mut cluster, client, shaped(Shape::KAry(3)));
    // All declare a partition more, which no node holds.
    let card_of = |i| {
        let view = cluster.node(client).view();
        let mut card = MemberCard::clone(view.card(&cluster.id(i)).expect("all are known"));
        card.version += 1;
        card.services.values_mut().for_each(|service| service.total = 17);
        Arc::new(card)
    };
    let cards: Vec<Arc<MemberCard>> = (0..8).map(card_of).collect();
    let from = cluster.id(0);
    cluster.hear(client, from, Message::Cards(cards.clone().into()));
    let outcome = cluster.ask(client, shaped(Shape::KAry(3)));
    assert_honest(&outcome);
    assert_eq!((outcome.asked.len(), counted(&outcome)), (17, whole(16)), "{outcome:?}");
    let second = cluster.last_tree(client);
    assert!(!second.is_same(&first));

    // A node says that it holds a partition no more: the next call does not ask it.
    let mut card = MemberCard::clone(&cards[3]);
    card.version += 1;
    for service in card.services.values_mut() {
        service.partitions = service.partitions.difference(&PartitionSet::from_range(11..12));
    }
    cluster.hear(client, from, Message::Cards(vec![Arc::new(card)].into()));
    let outcome = cluster.ask(client, shaped(Shape::KAry(3)));
    assert_honest(&outcome);
    assert!(!outcome.contributed.contains(11) && outcome.contributed.len() == 15, "{outcome:?}");
    assert!(!cluster.last_tree(client).is_same(&second));
}

#[test]
fn drawn_trees_are_used_in_turn_and_every_node_is_a_root() {
    for shape in [Shape::Flat, Shape::Binomial] {
        let (mut cluster, client) = cluster_and_client(&plan());
        let mut roots: BTreeMap<NodeId, Vec<Tree>> = BTreeMap::new();
        for _ in 0..24 {
            let tree = asked(&mut cluster, client, shaped(shape));
            roots.entry(tree.root().node).or_default().push(tree);
        }
        assert_eq!(roots.len(), 8, "{shape}");
        for trees in roots.values() {
            assert_eq!(trees.len(), 3, "{shape}: each as often");
            assert!(trees.iter().all(|tree| tree.is_same(&trees[0])), "{shape}");
        }
    }
}

#[test]
fn callers_do_not_choose_the_same_root() {
    for shape in [Shape::Adaptive, Shape::EarliestReady, Shape::Flat] {
        let plan = plan();
        let mut cluster = Cluster::new(&plan);
        let clients: Vec<u32> = (0..12).map(|_| cluster.start_client(&plan)).collect();
        let root = |client| asked(&mut cluster, client, shaped(shape)).root().node;
        let roots: std::collections::BTreeSet<NodeId> = clients.into_iter().map(root).collect();
        assert!(roots.len() >= 4, "{shape}: {} roots of 12 callers", roots.len());
    }
}

#[test]
fn an_adaptive_tree_is_used_again_until_a_load_moves() {
    for shape in [Shape::Adaptive, Shape::EarliestReady, Shape::Auto] {
        let (mut cluster, client) = cluster_and_client(&plan());
        (0..5).for_each(|_| drop(asked(&mut cluster, client, shaped(shape))));
        let first = asked(&mut cluster, client, shaped(shape));
        cluster.run_for(Duration::from_millis(15));
        assert!(asked(&mut cluster, client, shaped(shape)).is_same(&first), "{shape}");
        // On an idle cluster, there are a few trees.
        let mut trees: Vec<Tree> = Vec::new();
        for _ in 0..40 {
            cluster.run_for(Duration::from_millis(60));
            let tree = asked(&mut cluster, client, shaped(shape));
            if !trees.iter().any(|known| known.is_same(&tree)) {
                trees.push(tree);
            }
        }
        assert!((2..=8).contains(&trees.len()), "{shape}: {} trees", trees.len());

        // Node 2 learns what its locals cost now, and gets many of them while the client's call is open.
        cluster.set_local(Duration::from_millis(20));
        let busy = CallOptions { partitions: Some([2, 10].into_iter().collect()), ..shaped(shape) };
        (0..20).for_each(|_| drop(cluster.ask(0, busy.clone())));
        let request = cluster.call(client, shaped(shape));
        cluster.run_for(Duration::from_millis(1));
        for _ in 0..6 {
            cluster.call(0, busy.clone());
        }
        cluster.run_for(Duration::from_millis(60));
        assert_eq!(counted(&cluster.outcome(client, request).expect("it has ended")), whole(16));
        let before = cluster.last_tree(client);
        let after = asked(&mut cluster, client, shaped(shape));
        assert!(!trees.iter().any(|known| known.is_same(&after)) && !after.is_same(&before), "{shape}");
        let busy = cluster.id(2);
        let seat = after.seats().iter().find(|seat| seat.node == busy).expect("it is asked");
        assert_eq!(seat.size, 1, "{shape}: a busy node is a leaf");
    }
}

#[test]
fn coarse_calls_form_adaptive_trees_each_time() {
    let (mut cluster, client) = cluster_and_client(&Plan::default());
    for _ in 0..4 {
        asked(&mut cluster, client, shaped(Shape::Adaptive));
    }
    let last = asked(&mut cluster, client, shaped(Shape::Adaptive));
    assert!(!asked(&mut cluster, client, shaped(Shape::Adaptive)).is_same(&last));
}

#[test]
fn a_tree_over_relays_is_used_again_until_a_relay_is_passed_over() {
    let plan = Plan { racks: 2, relays: 2, ..plan() };
    let (mut cluster, client) = cluster_and_client(&plan);
    let first = asked(&mut cluster, client, shaped(Shape::Auto));
    assert!(asked(&mut cluster, client, shaped(Shape::Auto)).is_same(&first));
    let relay = cluster.id(9);
    assert!(nodes(&first).contains(&relay));
    cluster.stop(9);
    let mut with_it = 0;
    while nodes(&cluster.last_tree(client)).contains(&relay) {
        let outcome = cluster.ask(client, shaped(Shape::Auto));
        assert_honest(&outcome);
        with_it += 1;
        assert!(with_it < 9, "a silent relay is passed over after five calls");
    }
    assert!(cluster.node(client).view().contains(&relay), "the view has not changed");
    let without = asked(&mut cluster, client, shaped(Shape::Auto));
    assert!(!nodes(&without).contains(&relay));
}

#[test]
fn relays_that_are_drawn_serve_calls_in_any_turn() {
    let plan = Plan { racks: 1, relays: 4, ..plan() };
    let (mut cluster, client) = cluster_and_client(&plan);
    let roots: std::collections::BTreeSet<NodeId> =
        (0..40).map(|_| asked(&mut cluster, client, shaped(Shape::Auto)).root().node).collect();
    assert_eq!(roots.len(), 4, "calls are spread over all relays");
}

#[test]
fn kinds_that_were_used_longest_ago_are_evicted() {
    let plan = Plan { partitions: 40, ..plan() };
    let (mut cluster, client) = cluster_and_client(&plan);
    let of = |partition| CallOptions {
        partitions: Some(PartitionSet::from_range(partition..partition + 1)),
        ..shaped(Shape::KAry(8))
    };
    let (first, second) = (asked(&mut cluster, client, of(0)), asked(&mut cluster, client, of(1)));
    (2..32).for_each(|partition| drop(asked(&mut cluster, client, of(partition))));
    assert!(asked(&mut cluster, client, of(0)).is_same(&first), "32 kinds have room");
    asked(&mut cluster, client, of(32));
    assert!(asked(&mut cluster, client, of(0)).is_same(&first), "it was used lately");
    assert!(!asked(&mut cluster, client, of(1)).is_same(&second), "it was evicted");
}

#[test]
fn a_choice_of_replicas_is_made_for_each_call() {
    let (mut cluster, client) = cluster_and_client(&Plan { replicas: 2, ..plan() });
    let first = asked(&mut cluster, client, shaped(Shape::KAry(8)));
    assert!(!asked(&mut cluster, client, shaped(Shape::KAry(8))).is_same(&first));
}
