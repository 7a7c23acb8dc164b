//! Nodes that fold for services which they do not have: they learn the ready-made reduces from the members that have them.

use crate::figures::eventually;
use crate::names::Names;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use treefold::operators::merge::Count;
use treefold::operators::packet::{Packet, Row};
use treefold::operators::{Raw, ready};
use treefold::{Aggregation, Node, OperatorError, Partition, Reason, Reply, Service, Status};

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

/// Texts that only a module folds: the operator has no reduce of its own.
struct Lines;

impl Aggregation for Lines {
    type Params = Raw;
    type Partial = Raw;

    fn local(&self, partition: &Partition, _: &Raw) -> Result<Raw, OperatorError> {
        Ok(Raw(format!("all\t1\npartition {}\t1\n", partition.id).into()))
    }

    fn reduce(&self, _: Raw, _: Raw, _: &Raw) -> Result<Raw, OperatorError> {
        Err(OperatorError::new("the module folds"))
    }
}

fn lines(module: &'static str) -> Service {
    Service::new("lines").aggregation("all", Lines).reduce_module(module).total(TOTAL)
}

#[tokio::test]
async fn relay_fetches_the_module_of_a_service_that_it_has_never_heard_of() {
    let foreign: Arc<Names> = Arc::default();
    let start = async |service: Option<Service>, partition: u32, seed: Option<&Node>| {
        let builder = Node::builder().join(seed.iter().map(|seed| seed.addr())).foreign(foreign.clone());
        let builder = match service {
            Some(service) => builder.service(service.partition(partition, ())),
            None => builder.relay(),
        };
        builder.start().await.unwrap()
    };
    let mut members = vec![start(Some(lines("sum-lines")), 0, None).await];
    for partition in 1..TOTAL {
        members.push(start(Some(lines("sum-lines")), partition, members.first()).await);
    }
    let without = Node::builder().join([members[0].addr()]).relay().start().await.unwrap();
    let relay = start(None, 0, members.first()).await;
    folds(&relay, &members[0], "lines").await;
    let ask = async |front: &Node| {
        let reply: Reply<Raw> =
            front.client().call_raw("lines/all", Bytes::new()).explain(true).await.unwrap();
        let inner: Vec<_> = reply.report.as_ref().unwrap().children.iter().map(|child| child.node).collect();
        (reply.status, reply.value.map(|value| String::from_utf8(value.0.to_vec()).unwrap()), inner)
    };
    let whole: String = (0..TOTAL).map(|partition| format!("partition {partition}\t1\n")).collect();
    let whole = format!("all\t{TOTAL}\n{whole}");
    for front in &members {
        let (status, value, _) = ask(front).await;
        assert_eq!((status, value.as_deref()), (Status::Full, Some(&*whole)));
    }
    let status = members[0].status().await.unwrap();
    let card = |node: &Node| {
        status.members.iter().find(|member| member.card.node == node.id()).unwrap().card.clone()
    };
    assert!(!card(&without).services.contains_key("lines"), "it can't load modules");
    assert_eq!(relay.client().operators().await.unwrap().len(), 1);

    // A module that is no reduce, bytes that are no module, and a node that loads none.
    for (module, foreign, says) in [
        ("identity", Some(foreign.clone()), "is a filter; a reduce is needed"),
        ("nonsense", Some(foreign.clone()), "is no filter"),
        ("sum-lines", None, "without support for modules"),
    ] {
        let builder = Node::builder().service(lines(module).partition(0, ()));
        let builder = match foreign {
            Some(foreign) => builder.foreign(foreign),
            None => builder,
        };
        let refused = builder.start().await.unwrap_err().to_string();
        assert!(refused.contains(says) && refused.contains("\"all\""), "{refused}");
    }
}
