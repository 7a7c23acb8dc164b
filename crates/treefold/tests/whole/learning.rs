//! Nodes that fold for services which they do not have: they learn the ready-made reduces from the members that have them.

use crate::figures::eventually;
use std::collections::BTreeMap;
use treefold::operators::merge::Count;
use treefold::operators::packet::{Packet, Row};
use treefold::operators::{Raw, ready};
use treefold::{Node, Partition, Reason, Reply, Service};

const TOTAL: u32 = 4;

/// Four partitions with 100 numbers each, of which a call keeps the greatest `k`.
fn greatest(k: u32) -> Service {
    let params = BTreeMap::from([("k".to_owned(), k)]);
    let sample = |partition: &Partition, (): &()| {
        let numbers: Vec<f64> = (0..100).map(|n| f64::from(n * TOTAL + partition.id)).collect();
        let names: Vec<String> = numbers.iter().map(f64::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(Row::new().f64s(&numbers).strs(&names).packet())
    };
    let top = ready::sampled("top-k", &params, sample).unwrap();
    Service::new("numbers").operator("greatest", top).total(TOTAL)
}

/// A member with one partition of `service`.
async fn member(service: Service, partition: u32, seed: Option<&Node>) -> Node {
    let join: Vec<String> = seed.iter().map(|seed| seed.addr().to_string()).collect();
    Node::builder().join(&join).service(service.partition(partition, ())).start().await.unwrap()
}

/// The greatest numbers, none without full coverage, and the nodes that had children.
async fn ask(front: &Node, name: &str) -> (Vec<f64>, Vec<String>) {
    let reply: Reply<Raw> = front.client().call(name, &()).explain(true).await.unwrap();
    let mut inner = Vec::new();
    let mut open = vec![reply.report.as_ref().unwrap()];
    while let Some(report) = open.pop() {
        if !report.children.is_empty() {
            inner.push(report.node.addr.to_string());
        }
        open.extend(&report.children);
    }
    // There is no value while a partition is on no node.
    let numbers = |value: Raw| Packet::read(&value.0).unwrap().f64s(0).unwrap().iter().collect();
    (reply.value.map(numbers).unwrap_or_default(), inner)
}

async fn folds(relay: &Node, front: &Node, service: &str) {
    let knows = || async {
        let status = front.status().await.unwrap();
        let of_relay = status.members.iter().find(|member| member.card.node == relay.id());
        of_relay.is_some_and(|member| member.card.services.contains_key(service))
    };
    eventually("the relay says that it folds for the service", knows).await;
}

#[tokio::test]
async fn relay_folds_for_a_service_that_it_has_never_heard_of_and_by_its_latest_reduce() {
    let first = member(greatest(2), 0, None).await;
    let relay = Node::builder().join([first.addr().to_string()]).relay().start().await.unwrap();
    let mut members = vec![first];
    for partition in 1..TOTAL {
        members.push(member(greatest(2), partition, members.first()).await);
    }
    folds(&relay, &members[0], "numbers").await;
    let asked = || ask(&members[0], "numbers/greatest");
    eventually("all are in the tree", || async { asked().await.0 == [399.0, 398.0] }).await;
    let (greatest_two, inner) = asked().await;
    assert_eq!((greatest_two, inner), (vec![399.0, 398.0], vec![relay.addr().to_string()]));

    // The service is started anew with another reduce, one member after the other.
    for partition in 0..TOTAL {
        members.remove(0).leave().await;
        members.push(member(greatest(3), partition, members.first()).await);
    }
    let by_three = || async {
        let (numbers, inner) = ask(&members[0], "numbers/greatest").await;
        numbers == [399.0, 398.0, 397.0] && inner == [relay.addr().to_string()]
    };
    eventually("the relay keeps three", by_three).await;

    // It is started anew with a reduce of its own, which the relay does not have: no answer of the old one is given.
    for partition in 0..TOTAL {
        members.remove(0).leave().await;
        let own = treefold::operators::merging("greatest", |_: &Partition, (): &()| Ok(Count(1)));
        let service = Service::new("numbers").aggregation("greatest", own).total(TOTAL);
        members.push(member(service, partition, members.first()).await);
    }
    let refuses = || async {
        let call = members[0].client().call_raw("numbers/greatest", bytes::Bytes::from_static(&[0xc0]));
        let reply: Reply<Raw> = call.min_coverage(0.0).await.unwrap();
        reply
            .missing
            .iter()
            .any(|loss| matches!(&loss.reason, Reason::ReduceFailed(text) if text.contains("another reduce")))
    };
    eventually("the relay refuses", refuses).await;
}
