//! Calls whose partitions get parameters of their own, over real sockets.

use std::time::Duration;
use treefold::operators::merge::Concatenate;
use treefold::operators::merging;
use treefold::{CallError, Client, Cluster, Error, OperatorError, Partition, Service, Shape, Status};

const PATIENCE: Duration = Duration::from_secs(20);
const MEMBERS: u32 = 6;

type Told = Concatenate<u32, String>;

/// Each partition returns its number and its parameters.
fn service(at: usize) -> Vec<Service> {
    let told = merging("told", |partition: &Partition, words: &String| {
        if words == "fail" {
            return Err(OperatorError::new("fails as told"));
        }
        Ok(Concatenate::of(1 << 20, [(partition.id, words.clone())])?)
    });
    let at = u32::try_from(at).unwrap();
    // Each partition has a replica at the next member.
    let echo = Service::new("echo").aggregation("told", told).total(MEMBERS);
    vec![echo.partition(at, ()).partition((at + 1) % MEMBERS, ())]
}

async fn cluster() -> Cluster {
    Cluster::embedded(MEMBERS as usize).service(service).start().await.unwrap()
}

async fn told(client: &Client, shape: Shape) -> Vec<(u32, String)> {
    let call = client.call::<Told>("echo/told", &"all".to_owned()).shape(shape).deadline(PATIENCE);
    let reply = call.params_for(4, &"four".to_owned()).params_for(1, &"one".to_owned()).await.unwrap();
    assert_eq!(reply.status, Status::Full, "{:?}", reply.missing);
    reply.value.unwrap().into_entries()
}

fn expected() -> Vec<(u32, String)> {
    let words = ["all", "one", "all", "all", "four", "all"];
    (0..).zip(words.map(str::to_owned)).collect()
}

#[tokio::test]
async fn partitions_get_their_own_parameters_in_every_shape_and_after_a_death() {
    let cluster = cluster().await;
    for client in [cluster.client(0), cluster.connect().await.unwrap()] {
        for shape in [Shape::Flat, Shape::Chain, Shape::KAry(2), Shape::Base, Shape::Adaptive] {
            assert_eq!(told(&client, shape).await, expected(), "{shape}");
        }
    }
    // The replicas of the dead member's partitions are asked with the same parameters.
    cluster.kill(4);
    assert_eq!(told(&cluster.client(0), Shape::Chain).await, expected());
    cluster.shutdown().await;
}

#[tokio::test]
async fn one_partition_can_be_told_to_fail() {
    let cluster = cluster().await;
    let client = cluster.client(2);
    let reply = client
        .call::<Told>("echo/told", &"all".to_owned())
        .params_for(3, &"fail".to_owned())
        .min_coverage(0.5)
        .deadline(PATIENCE)
        .await
        .unwrap();
    assert_eq!(reply.status, Status::Partial);
    assert_eq!(reply.missing.iter().map(|missing| missing.partitions.to_string()).collect::<Vec<_>>(), ["3"]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn mistakes_are_refused_by_field() {
    let cluster = cluster().await;
    for client in [cluster.client(1), cluster.connect().await.unwrap()] {
        let call = || client.call::<Told>("echo/told", &"all".to_owned()).deadline(PATIENCE);
        let words = "words".to_owned();
        let long = "x".repeat(1 << 20);
        for (call, says) in [
            (call().params_for(6, &words), "params_for is 6; allowed: 0-5"),
            (
                call().params_for(2, &words).partitions([1, 3].into_iter().collect()),
                "params_for is 2; allowed: 1,3",
            ),
            (
                call().params_for(2, &words).params_for(2, &words),
                "params_for is 2; allowed: one entry for each partition",
            ),
            (
                call().params_for(2, &long),
                "params_for is 1048597 bytes; allowed: at most 1048576 bytes (own_params_bytes_max)",
            ),
        ] {
            let error = call.await.unwrap_err();
            assert!(matches!(&error, Error::Rejected(CallError::BadField { .. })), "{error:?}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
    cluster.shutdown().await;
}
