//! Record batches as parameters and as answers, in Arrow's own format.

use crate::world::{ARROW, JSON, World, batch, post};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use bytes::Bytes;
use treefold::Body;
use treefold::operators::codec::Batch;

const ACCEPT: (&str, &str) = ("accept", "application/vnd.apache.arrow.stream");

fn numbers(body: &[u8]) -> Vec<i64> {
    let Batch(batch) = Batch::decode(&Bytes::copy_from_slice(body)).unwrap();
    let mut numbers = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn batches_go_in_and_come_out_as_they_travel() {
    let world = World::usual().await;
    let answer = post(world.addr(), "/v1/call/sums/rows", &[ACCEPT], b"").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(ACCEPT.1)), "{answer:?}");
    assert_eq!(answer.header("treefold-coverage"), Some("4/4"));
    assert_eq!(numbers(&answer.body), [0, 1, 2, 3]);
    let given = batch(&[70, 80]).encode().unwrap();
    let answer = post(world.addr(), "/v1/call/sums/rows?partitions=1", &[ACCEPT, ARROW], &given).await;
    assert_eq!((answer.status, numbers(&answer.body)), (200, vec![1, 70, 80]));
}

#[tokio::test]
async fn other_bodies_and_values_are_refused() {
    let world = World::usual().await;
    let given = batch(&[70]).encode().unwrap();
    let cut = post(world.addr(), "/v1/call/sums/rows", &[ACCEPT, ARROW], &given[..20]).await;
    assert_eq!((cut.status, cut.problem().as_str()), (400, "bad_body"));
    // A sum is no batch, and its call is made before that is known.
    let sum = post(world.addr(), "/v1/call/sums/sum", &[ACCEPT, JSON], b"null").await;
    assert_eq!((sum.status, sum.problem().as_str()), (406, "not_acceptable"));
    assert_eq!((&sum.json()["field"], &sum.json()["given"]), (&"accept".into(), &ACCEPT.1.into()));
    let shown = post(world.addr(), "/v1/call/sums/rows", &[], b"").await;
    assert!(shown.json()["value"].as_str().unwrap().starts_with("/////"), "base64 in JSON: {shown:?}");
}
