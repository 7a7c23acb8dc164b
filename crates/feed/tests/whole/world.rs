//! Nodes, mirrors and origins that the tests share.

use std::time::Duration;
use treefold::{Client, Node};
use treefold_feed::{Mirror, MirrorOptions, Origin, OriginOptions, mirror};
use treefold_mirror::keyed::KeyValue;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::{Event, MirrorLimits};

const LOOKS_MAX: u32 = 2_000;

pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..LOOKS_MAX {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still not so: {what}");
}

pub async fn start_mirror(number: u32, total: u32, seed: Option<&Node>) -> (Node, Mirror) {
    start_mirror_with(MirrorOptions::new("flights", number, total), seed).await
}

pub async fn start_mirror_with(options: MirrorOptions, seed: Option<&Node>) -> (Node, Mirror) {
    let (service, unstarted) = mirror(options);
    let node = Node::builder().join(seed.map(Node::addr)).service(service).start().await.unwrap();
    let mirror = unstarted.start(node.client());
    (node, mirror)
}

pub async fn start_origin(client: &Client, rules: &str) -> Origin {
    start_origin_of(1, client, rules).await
}

pub async fn start_origin_of(epoch: u32, client: &Client, rules: &str) -> Origin {
    let mut options = OriginOptions::new(RuleFile::read(rules).unwrap());
    options.epoch = epoch;
    Origin::start(client, "flights", options).await.unwrap()
}

pub fn event(number: u64) -> Event {
    event_of(number, number % 100)
}

pub fn event_of(number: u64, key: u64) -> Event {
    let json = format!(
        r#"{{"stream":"faa","number":{number},"key":"DL{key}","type":"position","fields":{{"at":{number}}}}}"#
    );
    Event::from_json(&json, None, &MirrorLimits::DEFAULT).unwrap()
}

pub async fn offer(origin: &Origin, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        origin.offer(event(number)).await.unwrap();
    }
}

pub fn sorted(mut rows: Vec<KeyValue>) -> Vec<KeyValue> {
    rows.sort_by(|a: &KeyValue, b| a.key.cmp(&b.key));
    rows
}

pub fn rows(mirror: &Mirror) -> Vec<KeyValue> {
    sorted(mirror.read(|_, state| state.iter().collect()))
}
