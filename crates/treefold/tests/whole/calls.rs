//! Calls over an embedded cluster: with every tree, client and placement, the answer is that of a single
//! process.

use crate::figures::{Gate, PATIENCE, Tricks, Tricky, cluster, figure, total};
use std::sync::Arc;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::{CallError, Client, Error, PartitionSet, Raw, Shape, Status, Waiting};

const NODES: usize = 7;

fn sum_of_all() -> Option<Sum> {
    Some(Sum(total(NODES as u32)))
}

async fn clients(cluster: &treefold::Cluster) -> [(&'static str, Client); 3] {
    // With the aggregations, this client can also be the root of a base tree.
    let direct = Client::builder().at([cluster.nodes()[0].addr()]).direct(true);
    let direct =
        direct.service(crate::figures::service([], NODES as u32, &Arc::default())).connect().await.unwrap();
    [("in process", cluster.client(2)), ("front", cluster.connect().await.unwrap()), ("direct", direct)]
}

#[tokio::test]
async fn every_shape_client_and_placement_gives_the_same_sum() {
    let cluster = cluster(NODES, 1, &Arc::default()).start().await.unwrap();
    let shapes = [
        Shape::Base,
        Shape::Flat,
        Shape::Chain,
        Shape::KAry(2),
        Shape::Binomial,
        Shape::Adaptive,
        Shape::EarliestReady,
    ];
    for (way, client) in clients(&cluster).await {
        for shape in shapes {
            for waiting in [Waiting::Staged, Waiting::Uniform] {
                let reply = client
                    .call::<Sum>("figures/sum", &())
                    .shape(shape)
                    .waiting(waiting)
                    .deadline(PATIENCE)
                    .await
                    .unwrap();
                assert_eq!(reply.value, sum_of_all(), "{way} {shape:?} {waiting:?}: {reply:?}");
                assert_eq!((reply.status, reply.missing.len()), (Status::Full, 0), "{way} {shape:?}");
                assert_eq!(reply.contributed, PartitionSet::first(NODES as u32));
            }
        }
        for placed in ["figures/sum-inline", "figures/sum-pool"] {
            let reply = client.call::<Sum>(placed, &()).deadline(PATIENCE).await.unwrap();
            assert_eq!(reply.value, sum_of_all(), "{way} {placed}");
        }
        let tripled = client.call::<i64>("figures/waiting", &3i64).deadline(PATIENCE).await.unwrap();
        assert_eq!(tripled.value, Some(3 * total(NODES as u32)), "{way}, asynchronous");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn many_calls_at_once_each_get_their_own_answer() {
    let cluster = cluster(NODES, 1, &Arc::default()).start().await.unwrap();
    for (way, client) in clients(&cluster).await {
        let calls: Vec<_> = (0..200u32)
            .map(|i| {
                let asked = PartitionSet::from_range(i % 5..NODES as u32);
                let call = client.call::<Sum>("figures/sum-inline", &()).partitions(asked.clone());
                let call = call.deadline(PATIENCE).into_future();
                (asked, tokio::spawn(call))
            })
            .collect();
        for (asked, call) in calls {
            let reply = call.await.unwrap().unwrap();
            assert_eq!(reply.value, Some(Sum(asked.iter().map(figure).sum())), "{way} {asked}");
            assert_eq!(reply.asked, asked);
        }
    }
}

#[tokio::test]
async fn an_explained_reply_shows_every_node_of_the_tree() {
    let cluster = cluster(NODES, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.connect().await.unwrap();
    let call = client.call::<Sum>("figures/sum", &()).shape(Shape::KAry(2)).explain(true);
    let reply = call.deadline(PATIENCE).await.unwrap();
    fn nodes(report: &treefold_core::message::Report) -> usize {
        1 + report.children.iter().map(nodes).sum::<usize>()
    }
    assert!(nodes(reply.explain().expect("it was asked for")) >= NODES);
    let unexplained = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
    assert!(unexplained.explain().is_none());
}

#[tokio::test]
async fn finish_is_applied_once_at_the_caller() {
    let cluster = cluster(3, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.connect().await.unwrap();
    let reply =
        client.aggregate("figures/tricky", &Tricky, &Tricks::default()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(-total(3)));
    let unfinished =
        client.call::<i64>("figures/tricky", &Tricks::default()).deadline(PATIENCE).await.unwrap();
    assert_eq!(unfinished.value, Some(total(3)));
}

#[tokio::test]
async fn invalid_call_is_refused_with_reason() {
    let cluster = cluster(2, 1, &Arc::default()).start().await.unwrap();
    for (way, client) in clients_of_two(&cluster).await {
        let unknown = client.call::<i64>("nowhere/sum", &()).await.unwrap_err();
        assert!(matches!(unknown, Error::Rejected(CallError::UnknownService { .. })), "{way}: {unknown}");
        let beyond = client.call::<i64>("figures/sum", &()).min_coverage(2.0).await.unwrap_err();
        assert!(matches!(beyond, Error::Rejected(CallError::BadField { .. })), "{way}: {beyond}");
        let reply = client.call::<String>("figures/sum", &()).deadline(PATIENCE).await.unwrap_err();
        assert!(matches!(reply, Error::Body(_)), "{way}: {reply}");
        let no_operator = client.call::<i64>("figures/median", &()).deadline(PATIENCE).await.unwrap_err();
        let is_unknown =
            matches!(&no_operator, Error::UnknownAggregation { kind, .. } if &**kind == "figures/median");
        assert!(is_unknown, "{way}: {no_operator}");
        let wrong =
            client.call::<i64>("figures/sum", &"two".to_string()).deadline(PATIENCE).await.unwrap_err();
        assert!(matches!(wrong, Error::InvalidParams { .. }), "{way}: {wrong}");
        let no_slice = client.call::<i64>("figures/sum", &()).slices(0).await.unwrap_err();
        assert!(matches!(no_slice, Error::Rejected(CallError::BadField { .. })), "{way}: {no_slice}");
    }
}

async fn clients_of_two(cluster: &treefold::Cluster) -> [(&'static str, Client); 2] {
    [("in process", cluster.client(0)), ("front", cluster.connect().await.unwrap())]
}

#[tokio::test]
async fn direct_client_without_aggregation_cannot_use_base_shape() {
    let cluster = cluster(3, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.connect_direct().await.unwrap();
    let reply = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(3))));
    let refused = client.call::<Sum>("figures/sum", &()).shape(Shape::Base).await.unwrap_err();
    assert!(refused.to_string().starts_with("shape is base"), "{refused}");
}

#[tokio::test]
async fn raw_parameters_and_answers_are_plain_bytes() {
    use treefold::Body;
    let cluster = cluster(2, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.connect().await.unwrap();
    let Raw(bytes) =
        client.call_raw("figures/sum", Default::default()).deadline(PATIENCE).await.unwrap().value.unwrap();
    assert_eq!(Sum::decode(&bytes).unwrap(), Sum(total(2)));
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_its_front_and_below() {
    let gate = Arc::<Gate>::default();
    let cluster = cluster(3, 1, &gate).start().await.unwrap();
    for (way, client) in [("in process", cluster.client(0)), ("front", cluster.connect().await.unwrap())] {
        let hang = Tricks::at(1, crate::figures::Trick::Hang);
        let call = client.call::<i64>("figures/tricky", &hang).deadline(PATIENCE).into_future();
        let given_up = tokio::time::timeout(Duration::from_millis(50), call).await;
        assert!(given_up.is_err(), "{way}: partition 1 hangs");
        for node in cluster.nodes() {
            crate::figures::eventually("the wave is dropped", || async {
                let open = node.status().await.unwrap().open;
                open.calls == 0 && open.waves == 0
            })
            .await;
        }
    }
    gate.open();
}

#[tokio::test]
async fn status_shows_the_node_and_its_members() {
    let cluster = cluster(3, 1, &Arc::default()).start().await.unwrap();
    let front = cluster.connect().await.unwrap();
    let status = front.status().await.unwrap();
    assert_eq!(Some(status.card.node.addr), front.front());
    assert_eq!(status.members.len(), 2, "the others");
    front.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(front.status().await.unwrap().counters.calls.full, 1);
}

#[tokio::test]
async fn nodes_that_dial_each_other_at_the_same_moment_lose_nothing() {
    for _ in 0..5 {
        let cluster = cluster(6, 1, &Arc::default()).start().await.unwrap();
        let calls: Vec<_> = (0..60)
            .map(|i| {
                let call = cluster.client(i % 6).call::<Sum>("figures/sum-inline", &()).deadline(PATIENCE);
                tokio::spawn(call.into_future())
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().value, Some(Sum(total(6))));
        }
        for node in cluster.nodes() {
            assert_eq!(node.status().await.unwrap().counters.waves.repairs, 0, "no link was lost");
        }
    }
}
