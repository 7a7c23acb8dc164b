//! Calls whose trees the connections keep: with more trees than a connection keeps, and while members die,
//! return, and callers connect again, every answer is that of a single process.

use crate::figures::{Gate, PATIENCE, cluster, eventually, figure, total};
use crate::strangers::Stranger;
use std::sync::Arc;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::parts::wire::{Incoming, Outbox};
use treefold::{Body, Client, Limits, Node, NodeId, PartitionSet, Shape, Status};
use treefold_core::id::{Tag, WaveId};
use treefold_core::message::{Call, CallTimes, Message};
use treefold_core::tree::Tree;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

const NODES: usize = 7;
/// More than the trees that a connection keeps.
const TREES: usize = 24;

/// A caller that keeps its trees, and sends calls to the root of each.
struct Caller {
    peer: Stranger,
    outbox: Outbox,
    generation: u64,
    sequence: u64,
    /// Bytes of the last call.
    sent_bytes: usize,
}

impl Caller {
    async fn connect(root: &Node, generation: u64) -> Self {
        let peer = Stranger::greeted(root, generation).await;
        let mut outbox = Outbox::new(Limits::default());
        outbox.keep_trees(peer.inbox.peer_trees());
        Self { peer, outbox, generation, sequence: 0, sent_bytes: 0 }
    }

    /// Calls down a tree, and returns the contributors and their sum.
    async fn call(&mut self, tree: &Tree) -> (PartitionSet, i64) {
        self.sequence += 1;
        let wave = WaveId { origin: self.generation, sequence: self.sequence };
        let left = treefold_core::time::Duration::from_secs(10);
        let call = Call {
            tag: Tag { wave, branch: 0 },
            name: "figures/sum".into(),
            params: Some(().encode().unwrap().into()),
            times: CallTimes { deadline_left: left, answer_left: left, sign_after: None },
            waiting: Waiting::Staged,
            losses_max: NODES as u32,
            spare: 0,
            hedge: false,
            tree: tree.clone(),
            explain: false,
            loads_wanted: false,
            slice: Slice::WHOLE,
            push: None,
            in_flight: 0,
            whole: false,
        };
        self.outbox.push(&Message::Call(Box::new(call))).unwrap();
        self.sent_bytes = self.peer.send(&mut self.outbox).await;
        // A root that waits in vain gives what it has before its last partial.
        let (mut contributors, mut sum) = (PartitionSet::new(), 0);
        loop {
            let heard = self.peer.hear().await.expect("the root has closed the connection");
            let Incoming::Message(Message::Partial(partial)) = heard else { continue };
            if partial.tag.wave != wave {
                continue;
            }
            assert!(!contributors.intersects(&partial.contributors), "{partial:?} counts twice");
            contributors.union_with(&partial.contributors);
            sum += partial.payload.as_ref().map_or(0, |payload| Sum::decode(payload).unwrap().0);
            if partial.last {
                return (contributors, sum);
            }
        }
    }

    /// Calls down a tree, and checks that exactly these partitions are missing.
    async fn call_without(&mut self, tree: &Tree, lost: &[u32]) {
        let others = (0..NODES as u32).filter(|partition| !lost.contains(partition));
        let expected = total(NODES as u32) - lost.iter().copied().map(figure).sum::<i64>();
        assert_eq!(self.call(tree).await, (others.collect(), expected), "{tree:?}");
    }

    /// Calls down a tree with the former node of a partition: no other partition may be missing.
    async fn call_with_former(&mut self, tree: &Tree, partition: u32) {
        let (contributors, sum) = self.call(tree).await;
        let all = PartitionSet::first(NODES as u32);
        assert!(all.difference(&contributors).is_subset(&PartitionSet::from_range(partition..partition + 1)));
        assert_eq!(sum_of(&contributors), Sum(sum), "{tree:?}: {contributors:?}");
    }
}

/// Different trees over the same nodes, all with node 0 at the root.
fn trees(nodes: &[NodeId]) -> Vec<Tree> {
    let own = |at: usize| PartitionSet::from_range(at as u32..at as u32 + 1);
    /// The seat of the first of `order`, over the others, which are divided among `arity` children.
    fn over(nodes: &[NodeId], order: &[usize], arity: usize, own: &dyn Fn(usize) -> PartitionSet) -> Tree {
        let (first, below) = order.split_first().unwrap();
        let share = below.len().div_ceil(arity).max(1);
        let children: Vec<Tree> = below.chunks(share).map(|part| over(nodes, part, arity, own)).collect();
        Tree::join(nodes[*first], own(*first), &children)
    }
    let shapes = [1, 2, 3, 6].into_iter().flat_map(|arity| (0..6).map(move |turn| (arity, turn)));
    let tree = |(arity, turn): (usize, usize)| {
        let mut order: Vec<usize> = (1..nodes.len()).collect();
        order.rotate_left(turn);
        order.insert(0, 0);
        over(nodes, &order, arity, &own)
    };
    shapes.map(tree).collect()
}

fn ids(cluster: &treefold::Cluster) -> Vec<NodeId> {
    cluster.nodes().iter().map(Node::id).collect()
}

#[tokio::test]
async fn named_trees_stay_exact_while_members_and_callers_come_and_go() {
    let mut cluster = cluster(NODES, 1, &Arc::<Gate>::default()).start().await.unwrap();
    let before = trees(&ids(&cluster));
    assert_eq!(before.len(), TREES);
    let mut caller = Caller::connect(&cluster.nodes()[0], 1).await;
    for tree in &before {
        let mut bytes = Vec::new();
        for _ in 0..6 {
            caller.call_without(tree, &[]).await;
            bytes.push(caller.sent_bytes);
        }
        assert!(bytes[1] > bytes[0] && bytes[2..].iter().all(|&named| named < bytes[0] / 2), "{bytes:?}");
    }
    for tree in before.iter().cycle().take(3 * TREES) {
        caller.call_without(tree, &[]).await;
    }

    // A member dies: its partition is missing, and no other one, whether its tree is kept or not.
    cluster.kill(3);
    for tree in before.iter().chain(&before[TREES - 8..]) {
        caller.call_without(tree, &[3]).await;
    }

    // A new one comes in its place. The former one is lost in trees that contain it, and its parent may find the new one.
    cluster.restart(3).await.unwrap();
    let after = trees(&ids(&cluster));
    for (old, new) in before.iter().zip(&after) {
        for _ in 0..4 {
            caller.call_without(new, &[]).await;
        }
        caller.call_with_former(old, 3).await;
        caller.call_without(new, &[]).await;
    }

    // The caller connects again: the tables of its new connection are empty.
    let generation = caller.generation;
    drop(caller);
    let mut caller = Caller::connect(&cluster.nodes()[0], generation).await;
    caller.sequence = 1_000_000;
    for tree in after.iter().cycle().take(2 * TREES) {
        caller.call_without(tree, &[]).await;
    }
    for _ in 0..4 {
        caller.call_without(&after[0], &[]).await;
    }
    drop(caller);

    // The root is replaced too.
    cluster.restart(0).await.unwrap();
    let last = trees(&ids(&cluster));
    let mut caller = Caller::connect(&cluster.nodes()[0], generation).await;
    caller.sequence = 2_000_000;
    for tree in last.iter().flat_map(|tree| [tree; 4]) {
        caller.call_without(tree, &[]).await;
    }
    cluster.shutdown().await;
}

/// The figures of some partitions.
fn sum_of(partitions: &PartitionSet) -> Sum {
    Sum(partitions.iter().map(figure).sum())
}

/// Waits until a client's calls are sent to these nodes. An answer does not show it: a caller that does not know a
/// restarted node yet may get its partition from a node that does.
async fn knows(client: &Client, nodes: &[NodeId]) {
    eventually("the client knows the nodes", || async {
        let status = client.status().await.unwrap();
        let known: Vec<NodeId> = status.members.iter().map(|member| member.card.node).collect();
        nodes.iter().all(|node| known.contains(node) || *node == status.card.node)
    })
    .await;
}

#[tokio::test]
async fn clients_with_more_trees_than_are_kept_get_exact_answers() {
    let mut cluster = cluster(NODES, 1, &Arc::<Gate>::default()).start().await.unwrap();
    let shapes = [Shape::KAry(1), Shape::KAry(2), Shape::KAry(3), Shape::KAry(8)];
    let all = NODES as u32;
    let parts = (0..=all).map(|left_out| (0..all).filter(|&id| id != left_out).collect::<PartitionSet>());
    let asked: Vec<(Shape, PartitionSet)> =
        parts.flat_map(|part| shapes.map(|shape| (shape, part.clone()))).collect();
    for round in 0..3 {
        let at = cluster.nodes()[0].addr();
        let direct = Client::builder().at([at]).direct(true);
        let own = crate::figures::service([], all, &Arc::default());
        for client in [Client::connect(at).await.unwrap(), direct.service(own).connect().await.unwrap()] {
            // A direct client hears of a restarted node by itself, perhaps later than the front of the other client.
            knows(&client, &ids(&cluster)).await;
            for (shape, part) in asked.iter().chain(&asked) {
                for _ in 0..3 {
                    let call = client.call::<Sum>("figures/sum", &()).shape(*shape).deadline(PATIENCE);
                    let reply = call.partitions(part.clone()).await.unwrap();
                    let expected = (Status::Full, part.clone(), Some(sum_of(part)));
                    assert_eq!(
                        (reply.status, reply.contributed, reply.value),
                        expected,
                        "round {round}, {shape:?}"
                    );
                }
            }
            if round < 2 {
                // While its partition is gone, every answer says so.
                cluster.kill(5);
                let others: PartitionSet = (0..all).filter(|&id| id != 5).collect();
                for _ in 0..6 {
                    let call = client.call::<Sum>("figures/sum", &()).shape(Shape::KAry(2));
                    let reply = call.min_coverage(0.5).deadline(Duration::from_secs(1)).await.unwrap();
                    let expected = (others.clone(), Some(sum_of(&others)));
                    assert_eq!((reply.contributed, reply.value), expected, "round {round}");
                }
                cluster.restart(5).await.unwrap();
                knows(&client, &ids(&cluster)).await;
            }
        }
    }
    cluster.shutdown().await;
}
