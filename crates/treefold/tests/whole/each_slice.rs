//! Calls whose slices are read one after another, over real sockets: results larger than every limit, readers that are slow or
//! gone, and nodes that are killed or stand still in the middle.

use crate::figures::{Gate, PATIENCE, eventually};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use treefold::operators::merge::{CONCATENATE_BYTES_MAX, Concatenate, GroupCount, Sum, VectorSum};
use treefold::operators::{merging, ready};
use treefold::{
    CallError, Client, Cluster, ClusterOptions, EachSlice, Error, Limits, Partition, PartitionSet, Raw,
    Reason, Service, Slice, Status, slice_range,
};

const MEMBERS: u32 = 4;
/// Of each vector: 32 MiB.
const ENTRIES: usize = 8 << 20;
const KIB: usize = 1 << 10;

fn entry(partition: u32, at: usize) -> f32 {
    ((partition + 1) as usize * (at % 1_000)) as f32
}

/// Counts the slices that locals make, and holds up those from a slice on.
#[derive(Default)]
struct Locals {
    begun: AtomicU32,
    gate: Gate,
    held_from: AtomicU32,
}

impl Locals {
    fn begin(&self, slice: Slice) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let held_from = self.held_from.load(Ordering::SeqCst);
        if held_from > 0 && slice.index() >= held_from {
            self.gate.pass();
        }
    }

    fn begun(&self) -> u32 {
        self.begun.load(Ordering::SeqCst)
    }
}

/// Vectors whose locals make one slice alone.
fn service(locals: &Arc<Locals>) -> Service {
    let entries = |partition: &Partition, slice: Slice| {
        let range = slice_range(ENTRIES, slice);
        VectorSum::new(range.map(|at| entry(partition.id, at)))
    };
    let (whole, counted) = (entries, Arc::clone(locals));
    let vectors =
        merging("vectors", move |partition: &Partition, (): &()| Ok(whole(partition, Slice::WHOLE)))
            .in_slices(move |partition, (), slice| {
                counted.begin(slice);
                Ok(entries(partition, slice))
            });
    // One slice alone is cut out of the whole.
    let words = merging("words", |partition: &Partition, (): &()| {
        let mut counts = GroupCount::default();
        (0..500_u32)
            .try_for_each(|word| counts.add(format!("word-{word}"), u64::from(partition.id + word)))?;
        Ok(counts)
    });
    // Concatenation cannot be cut, but its rows can be dealt out.
    let rows = |partition: &Partition, slice: Slice| {
        let rows = slice_range(100, slice).map(|at| ((partition.id, at), at as u64));
        Ok(Concatenate::of(CONCATENATE_BYTES_MAX, rows)?)
    };
    let table = merging("table", move |partition: &Partition, (): &()| rows(partition, Slice::WHOLE))
        .in_slices(move |partition, (), slice| rows(partition, slice));
    // A ready-made reduce folds sorted runs, each of a range of keys.
    let run = ready::sampled_in_slices("merge-lines", &(), |partition: &Partition, (): &(), slice: Slice| {
        let line = |key: usize| format!("{key:05} of {}\n", partition.id);
        Ok(Raw(slice_range(1_000, slice).map(line).collect::<String>().into()))
    });
    let total = merging("total", |partition: &Partition, (): &()| Ok(Sum(partition.id.into())));
    Service::new("bulk")
        .aggregation("vectors", vectors)
        .aggregation("words", words)
        .aggregation("table", table)
        .operator("lines", run.unwrap())
        .aggregation("total", total)
        .total(MEMBERS)
}

/// Much less than a vector's size.
fn limits() -> Limits {
    // Answers are kept for the slices of a window, so that they can be asked for again.
    let (payload_bytes_max, held_bytes_max, kept_bytes_max) = (1_024 * KIB, 4_096 * KIB, 8_192 * KIB);
    Limits { payload_bytes_max, held_bytes_max, kept_bytes_max, ..Limits::default() }
}

/// Four members of a rack, with `replicas` of each partition, and two relays.
async fn cluster(replicas: u32, locals: &Arc<Locals>) -> Cluster {
    let locals = Arc::clone(locals);
    Cluster::embedded(6)
        .service(move |at| {
            let at = at as u32;
            let held = (0..replicas).filter(|_| at < MEMBERS).map(|replica| (at + replica) % MEMBERS);
            vec![held.fold(service(&locals), |service, partition| service.partition(partition, ()))]
        })
        .configure(|at, node| {
            let node = node.rack("r0").cluster(ClusterOptions::default().limits(limits()));
            if at < MEMBERS as usize { node } else { node.relay() }
        })
        .start()
        .await
        .unwrap()
}

fn vectors(client: &Client, slices: u32) -> EachSlice<VectorSum> {
    client.call::<VectorSum>("bulk/vectors", &()).slices(slices).deadline(3 * PATIENCE).each_slice()
}

/// Checks a slice's entries, which are those of these partitions.
fn check(sum: &VectorSum, index: u32, slices: u32, partitions: impl Iterator<Item = u32> + Clone) {
    let range = slice_range(ENTRIES, Slice::alone(index, slices).unwrap());
    assert_eq!(sum.len(), range.len());
    let factor: u32 = partitions.map(|partition| partition + 1).sum();
    let is_right = |(entry, at): (f32, usize)| entry == (factor as usize * (at % 1_000)) as f32;
    assert!(sum.entries().zip(range).all(is_right), "slice {index}");
}

/// Waits until no node holds anything of a call.
async fn is_forgotten(cluster: &Cluster) {
    for node in cluster.nodes().iter().filter(|node| node.is_running()) {
        eventually("the node has forgotten the call", || async {
            let open = node.status().await.unwrap().open;
            (open.calls, open.waves, open.held_bytes, open.jobs_queued, open.jobs_running) == (0, 0, 0, 0, 0)
        })
        .await;
    }
}

#[tokio::test]
async fn result_larger_than_every_limit_passes_slice_by_slice() {
    let locals = Arc::default();
    let cluster = cluster(1, &locals).await;
    let slices = 64;
    for client in [cluster.client(0), cluster.connect_direct().await.unwrap()] {
        let mut each = vectors(&client, slices);
        let (mut bytes, mut held_most) = (0, 0);
        while let Some(sum) = each.next().await.unwrap() {
            check(&sum, each.taken() - 1, slices, 0..MEMBERS);
            bytes += 4 * sum.len();
            for node in cluster.nodes() {
                let open = node.status().await.unwrap().open;
                held_most = held_most.max(open.held_bytes + open.kept_bytes);
            }
        }
        assert!(each.is_complete());
        assert_eq!((each.taken(), each.so_far().status.clone()), (slices, Status::Full));
        assert_eq!(each.so_far().contributed, PartitionSet::first(MEMBERS));
        assert_eq!(bytes, 4 * ENTRIES);
        let allowed = limits().held_bytes_max + limits().kept_bytes_max;
        assert!(held_most <= allowed && 2 * allowed < bytes, "{held_most} bytes were held");
        assert!(each.next().await.unwrap().is_none(), "it stays over");
    }
    assert_eq!(locals.begun(), 2 * slices * MEMBERS, "each local made each slice once");
    is_forgotten(&cluster).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn every_way_of_folding_gives_the_whole_in_slices() {
    let cluster = cluster(1, &Arc::default()).await;
    let client = cluster.connect().await.unwrap();
    for slices in [1, 7, 300] {
        let mut words = BTreeMap::new();
        let mut each = client
            .call::<GroupCount<String>>("bulk/words", &())
            .slices(slices)
            .deadline(PATIENCE)
            .each_slice();
        while let Some(counts) = each.next().await.unwrap() {
            for (word, count) in counts.into_groups() {
                assert_eq!(words.insert(word, count), None, "a word is in one slice");
            }
        }
        let wanted = (0..500).map(|word| (format!("word-{word}"), u64::from(4 * word + 6_u32))).collect();
        assert_eq!(words, wanted, "{slices} slices");
        assert_eq!((each.taken(), each.is_complete()), (slices, true));
    }
    let mut rows = Vec::new();
    let table = client.call::<Concatenate<(u32, usize), u64>>("bulk/table", &());
    let mut each = table.slices(9).deadline(PATIENCE).each_slice().window(1);
    while let Some(some) = each.next().await.unwrap() {
        rows.extend(some.into_entries());
    }
    rows.sort_unstable();
    let wanted: Vec<_> = (0..MEMBERS).flat_map(|id| (0..100).map(move |at| ((id, at), at as u64))).collect();
    assert_eq!(rows, wanted);
    let mut lines = Vec::new();
    let mut each =
        client.call_raw("bulk/lines", bytes::Bytes::new()).slices(13).deadline(PATIENCE).each_slice();
    while let Some(Raw(run)) = each.next().await.unwrap() {
        lines.extend_from_slice(&run);
    }
    let wanted: String =
        (0..1_000).flat_map(|key| (0..MEMBERS).map(move |id| format!("{key:05} of {id}\n"))).collect();
    assert_eq!(
        String::from_utf8(lines).unwrap(),
        wanted,
        "slices of key ranges are sorted one after another"
    );
    cluster.shutdown().await;
}

#[tokio::test]
async fn slow_reader_holds_up_the_slices_behind_its_window() {
    let locals = Arc::<Locals>::default();
    let cluster = cluster(1, &locals).await;
    let client = cluster.connect().await.unwrap();
    let (slices, window) = (64, 2);
    let mut each = vectors(&client, slices).window(window);
    for taken in 1..=4 {
        assert!(each.next().await.unwrap().is_some());
        let allowed = MEMBERS * (taken + window);
        eventually("the window is full", || async { locals.begun() == allowed }).await;
        for _ in 0..10 {
            let total = client.call::<Sum>("bulk/total", &()).deadline(PATIENCE).await.unwrap();
            assert_eq!(total.value, Some(Sum(6)), "others are not held up");
        }
        assert_eq!(locals.begun(), allowed, "no slice begins before one is taken");
    }
    assert!(!each.is_complete());
    cluster.shutdown().await;
}

#[tokio::test]
async fn reader_that_goes_away_leaves_nothing_behind() {
    for is_direct in [false, true] {
        let locals = Arc::<Locals>::default();
        locals.held_from.store(3, Ordering::SeqCst);
        let cluster = cluster(1, &locals).await;
        let client =
            if is_direct { cluster.connect_direct().await } else { cluster.connect().await }.unwrap();
        let mut each = vectors(&client, 64);
        for _ in 0..3 {
            assert!(each.next().await.unwrap().is_some());
        }
        eventually("further slices are being made", || async { locals.begun() > 3 * MEMBERS }).await;
        if is_direct {
            // The whole client vanishes.
            drop((each, client));
        } else {
            drop(each);
        }
        for node in cluster.nodes() {
            eventually("the waves have ended", || async {
                let open = node.status().await.unwrap().open;
                (open.calls, open.waves) == (0, 0)
            })
            .await;
        }
        locals.gate.open();
        is_forgotten(&cluster).await;
        cluster.shutdown().await;
    }
}

#[tokio::test]
async fn with_replicas_a_killed_or_stalled_node_costs_no_slice() {
    for (victim, kills) in [(2, true), (2, false), (5, true), (5, false)] {
        let cluster = cluster(2, &Arc::default()).await;
        let client = cluster.connect().await.unwrap();
        let slices = 32;
        // A root that is stalled costs a large part of the deadline.
        let call = client.call::<VectorSum>("bulk/vectors", &()).slices(slices);
        let mut each = call.deadline(PATIENCE).each_slice();
        while let Some(sum) = each.next().await.unwrap() {
            check(&sum, each.taken() - 1, slices, 0..MEMBERS);
            match each.taken() {
                8 if kills => cluster.kill(victim),
                8 => cluster.nodes()[victim].stall(true),
                _ => {}
            }
        }
        assert!(each.is_complete());
        assert_eq!(each.so_far().status, Status::Full, "{victim} {kills}: {:?}", each.so_far().missing);
        if !kills {
            cluster.nodes()[victim].stall(false);
        }
    }
}

#[tokio::test]
async fn without_replicas_the_partition_of_a_killed_node_is_missing_from_the_whole() {
    for min_coverage in [1.0, 0.5] {
        let cluster = cluster(1, &Arc::default()).await;
        let client = cluster.connect().await.unwrap();
        let slices = 32;
        let call = client.call::<VectorSum>("bulk/vectors", &()).slices(slices).deadline(PATIENCE);
        let mut each = call.min_coverage(min_coverage).each_slice();
        for index in 0..8 {
            check(&each.next().await.unwrap().unwrap(), index, slices, 0..MEMBERS);
        }
        assert_eq!(each.so_far().status, Status::Full);
        cluster.kill(2);
        let others = [0, 1, 3].into_iter();
        let ended = loop {
            match each.next().await {
                Ok(Some(sum)) => {
                    let index = each.taken() - 1;
                    // Slices that were there before the fault are whole.
                    if each.so_far().status == Status::Full {
                        check(&sum, index, slices, 0..MEMBERS);
                    } else {
                        check(&sum, index, slices, others.clone());
                    }
                }
                ended => break ended,
            }
        };
        let so_far = each.so_far();
        assert!(so_far.missing.iter().any(|missing| missing.partitions.contains(2)), "{:?}", so_far.missing);
        if min_coverage < 1.0 {
            assert_eq!(so_far.contributed, others.collect::<PartitionSet>());
            assert!(matches!(ended, Ok(None)), "{ended:?}");
            assert_eq!((each.is_complete(), so_far.status.clone()), (true, Status::Partial));
        } else {
            assert!(matches!(ended, Err(Error::NoValue { .. })), "{ended:?}");
            assert_eq!((each.is_complete(), so_far.status.clone()), (false, Status::Insufficient));
            assert!((8..slices).contains(&each.taken()));
            assert!(each.next().await.unwrap().is_none());
        }
    }
}

#[tokio::test]
async fn deadline_ends_the_slices_of_a_reader_that_is_too_slow() {
    let locals = Arc::<Locals>::default();
    locals.held_from.store(6, Ordering::SeqCst);
    let cluster = cluster(1, &locals).await;
    let client = cluster.connect().await.unwrap();
    let deadline = PATIENCE / 10;
    let call = client.call::<VectorSum>("bulk/vectors", &()).slices(64).deadline(deadline);
    let mut each = call.each_slice();
    let ended = loop {
        match each.next().await {
            Ok(Some(_)) => {}
            ended => break ended,
        }
    };
    let Err(Error::NoValue { missing, .. }) = ended else { panic!("{ended:?}") };
    assert!(missing.iter().any(|missing| missing.reason == Reason::Late), "{missing:?}");
    assert!(each.taken() <= 6 && !each.is_complete());
    locals.gate.open();
    is_forgotten(&cluster).await;
}

#[tokio::test]
async fn calls_that_cannot_be_read_in_slices_are_refused_by_name() {
    let cluster = cluster(1, &Arc::default()).await;
    let client = cluster.client(0);
    let refused = async |aggregation: &str, slices, window| {
        let call = client.call_raw(&format!("bulk/{aggregation}"), bytes::Bytes::new()).slices(slices);
        match call.deadline(PATIENCE).each_slice().window(window).next().await {
            Err(Error::Rejected(error @ CallError::BadField { .. })) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert!(refused("total", 2, 4).await.contains("does not make its partials in slices"));
    assert!(refused("vectors", 0, 4).await.contains("slices is 0; allowed: 1 to 1048576"));
    assert!(refused("vectors", (1 << 20) + 1, 4).await.contains("1 to 1048576"));
    assert!(refused("vectors", 8, 0).await.contains("window is 0; allowed: 1 to 256"));
    // A front that lacks the aggregation asks all the same: the nodes say it.
    let direct = cluster.connect_direct().await.unwrap();
    let mut each = direct.call::<Sum>("bulk/total", &()).slices(2).deadline(PATIENCE).each_slice();
    let Err(Error::NoValue { missing, .. }) = each.next().await else { panic!("a sum has no slices") };
    let says = "can't be cut into 2 slices";
    assert!(missing.iter().any(|lost| lost.reason.to_string().contains(says)), "{missing:?}");
    // A joined call needs more: its front folds.
    let joined = client.call_raw("bulk/table", bytes::Bytes::new()).slices(2).deadline(PATIENCE).await;
    assert!(joined.unwrap_err().to_string().contains("does not split its partials"));
    cluster.shutdown().await;
}
