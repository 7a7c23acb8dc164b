//! Vectors from files: every split gives the same answer, graphs are kept, and invalid data and parameters are refused.

use crate::called;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use treefold_operators::{Aggregation, Body, Partition};
use treefold_vectors::filter::{Condition, Value};
use treefold_vectors::generate::Generated;
use treefold_vectors::rows::npy;
use treefold_vectors::{
    Count, CountParams, Filter, Get, GetParams, GraphOptions, Index, Metric, Nearest, NearestOf,
    NearestParams, Neighbour, OpenError, SERVICE, Source, aggregations,
};

const DIMENSIONS: usize = 24;
const ROWS: usize = 1_500;
const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Ip, Metric::L2];

const GENERATED: Generated = Generated { rows: ROWS, dimensions: DIMENSIONS, groups: 12, seed: 4, skip: 0 };

/// A file of vectors with attributes.
fn written(metric: Metric) -> (TempDir, Source) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("v.npy");
    let attributes = GENERATED.write(&file).unwrap();
    let source = Source {
        attributes: Some(attributes),
        data: Some(directory.path().join("graphs")),
        ..Source::new(file, metric)
    };
    (directory, source)
}

fn opened(source: &Source, total: u32) -> Result<Vec<Partition>, OpenError> {
    let ids: Vec<u32> = (0..total).collect();
    let shards = source.open(&ids, total, &|_, _| {})?;
    Ok(shards
        .into_iter()
        .map(|(id, shard)| Partition::new(SERVICE.into(), id, total, Arc::new(shard)))
        .collect())
}

fn queries() -> Vec<Vec<f32>> {
    let generated = Generated { rows: 20, skip: ROWS, ..GENERATED };
    generated.vectors().0.chunks(DIMENSIONS).map(<[f32]>::to_vec).collect()
}

fn group(name: &str) -> Filter {
    Filter([("group".to_owned(), Condition::Is(Value::Text(name.to_owned())))].into())
}

/// The parts of an answer that must not depend on the split.
fn seen(answer: &Nearest) -> Vec<(u32, String, u64)> {
    answer.neighbours.iter().map(|near| (near.distance.to_bits(), near.id.clone(), near.row)).collect()
}

#[test]
fn every_split_gives_the_answer_of_the_whole_to_the_last_bit() {
    for metric in METRICS {
        let (_directory, source) = written(metric);
        let splits = [1, 4, 16].map(|total| opened(&source, total).unwrap());
        for (number, vector) in queries().into_iter().enumerate() {
            let filter = if number % 2 == 0 { Filter::default() } else { group("g3") };
            let params = NearestParams { filter, k: 15, ..NearestParams::new(vector) };
            let [whole, four, sixteen] =
                splits.each_ref().map(|split| called(&NearestOf, split, &params).unwrap());
            assert_eq!(whole.neighbours.len(), 15);
            assert_eq!(seen(&whole), seen(&four));
            assert_eq!(seen(&whole), seen(&sixteen));
            assert_eq!(whole.compared, sixteen.compared);
        }
    }
}

#[test]
fn exact_neighbours_are_those_of_a_plain_sort() {
    let (_directory, source) = written(Metric::L2);
    let (values, groups) = GENERATED.vectors();
    let split = opened(&source, 4).unwrap();
    for vector in queries() {
        let distance = |row: usize| {
            let pairs = values[row * DIMENSIONS..][..DIMENSIONS].iter().zip(&vector);
            pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
        };
        let mut rows: Vec<usize> = (0..ROWS).filter(|row| groups[*row] == 3).collect();
        rows.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        let params = NearestParams { filter: group("g3"), ..NearestParams::new(vector.clone()) };
        let found = called(&NearestOf, &split, &params).unwrap();
        let ids: Vec<String> = rows[..10].iter().map(|row| format!("v{row}")).collect();
        assert_eq!(found.neighbours.iter().map(|near| near.id.clone()).collect::<Vec<_>>(), ids);
        assert!((f64::from(found.neighbours[0].distance) - distance(rows[0])).abs() < 1e-4);
        assert_eq!(found.compared as usize, rows.len());
    }
}

fn recall(found: &Nearest, exact: &Nearest) -> usize {
    let rows: BTreeSet<u64> = exact.neighbours.iter().map(|near| near.row).collect();
    found.neighbours.iter().filter(|near| rows.contains(&near.row)).count()
}

#[test]
fn graphs_find_nearly_all_and_are_kept_on_disk() {
    for metric in METRICS {
        let (directory, source) = written(metric);
        let source = Source { index: Index::Hnsw(GraphOptions::default()), ..source };
        let split = opened(&source, 2).unwrap();
        let files = || -> BTreeSet<_> {
            let entries = std::fs::read_dir(directory.path().join("graphs")).unwrap();
            entries
                .map(|entry| entry.unwrap())
                .map(|entry| (entry.file_name(), entry.metadata().unwrap().modified().unwrap()))
                .collect()
        };
        let first = files();
        assert_eq!(first.len(), 2);
        let again = opened(&source, 2).unwrap();
        assert_eq!(files(), first, "the graphs were read and not built again");
        let mut hits = 0;
        for vector in queries() {
            let params = NearestParams::new(vector);
            let found = called(&NearestOf, &split, &params).unwrap();
            assert_eq!(called(&NearestOf, &again, &params).unwrap(), found);
            let exact = called(&NearestOf, &split, &NearestParams { exact: true, ..params }).unwrap();
            assert_eq!(exact.compared as usize, ROWS);
            hits += recall(&found, &exact);
        }
        assert!(hits >= 190, "{metric:?}: {hits} of 200");
    }
}

#[test]
fn a_rare_filter_is_searched_exactly_in_spite_of_a_graph() {
    let (_directory, source) = written(Metric::Cosine);
    let source = Source { index: Index::Hnsw(GraphOptions::default()), ..source };
    let split = opened(&source, 2).unwrap();
    for vector in queries() {
        let params = NearestParams { filter: group("g5"), ..NearestParams::new(vector) };
        let exact = called(&NearestOf, &split, &NearestParams { exact: true, ..params.clone() }).unwrap();
        assert_eq!(called(&NearestOf, &split, &params).unwrap(), exact);
    }
}

#[test]
fn stored_vectors_are_found_by_id_and_counted() {
    let (_directory, source) = written(Metric::L2);
    for total in [1, 4] {
        let split = opened(&source, total).unwrap();
        let ids = ["v7", "v1499", "v7", "v1500", "7"].map(str::to_owned).to_vec();
        let found = called(&Get, &split, &GetParams { ids }).unwrap();
        assert_eq!(found.vectors.iter().map(|stored| stored.row).collect::<Vec<_>>(), [7, 1_499]);
        assert_eq!(found.vectors[0].vector, GENERATED.vectors().0[7 * DIMENSIONS..][..DIMENSIONS]);
        assert_eq!(found.vectors[0].attributes["year"], "2007");
        let all = called(&Count, &split, &None).unwrap();
        assert_eq!((all.vectors, all.matched, all.dimensions), (1_500, 1_500, 24));
        let some = called(&Count, &split, &Some(CountParams { filter: group("g3") })).unwrap();
        assert_eq!(some.matched as usize, GENERATED.vectors().1.iter().filter(|group| **group == 3).count());
    }
    // Without a file of attributes, rows are ids.
    let bare = Source { attributes: None, ..source };
    let found = called(
        &Get,
        &opened(&bare, 4).unwrap(),
        &GetParams { ids: vec!["7".into(), "x".into(), "1500".into()] },
    );
    let found = found.unwrap().vectors;
    assert_eq!((found.len(), found[0].row, found[0].id.as_str()), (1, 7, "7"));
}

#[test]
fn each_partition_may_have_a_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    for partition in 0..3u8 {
        let row = |offset: f32| f32::from(partition) * 10.0 + offset;
        std::fs::write(directory.path().join(format!("{partition}.npy")), npy(&[row(0.0), row(1.0)], 1))
            .unwrap();
        let lines = format!("id,kind\na{partition},x\nb{partition},y\n");
        std::fs::write(directory.path().join(format!("{partition}.csv")), lines).unwrap();
    }
    let source = Source {
        attributes: Some(directory.path().join("{partition}.csv")),
        ..Source::new(directory.path().join("{partition}.npy"), Metric::L2)
    };
    let params = NearestParams { k: 3, attributes: vec!["kind".into()], ..NearestParams::new(vec![10.6]) };
    let found = called(&NearestOf, &opened(&source, 3).unwrap(), &params).unwrap();
    let ids: Vec<_> = found
        .neighbours
        .iter()
        .map(|near| (near.id.as_str(), near.partition, &near.attributes["kind"][..]))
        .collect();
    assert_eq!(ids, [("b1", 1, "y"), ("a1", 1, "x"), ("a2", 2, "x")]);
    assert!(opened(&source, 4).unwrap_err().to_string().contains("3.npy"), "a missing file is named");
}

#[test]
fn invalid_parameters_are_refused_by_name_with_their_limit() {
    let (_directory, source) = written(Metric::Cosine);
    let split = opened(&source, 2).unwrap();
    let good = NearestParams::new(vec![1.0; DIMENSIONS]);
    let with = |at: usize, value: f32| {
        let mut vector = good.vector.clone();
        vector[at] = value;
        NearestParams::new(vector)
    };
    for (params, problem) in [
        (NearestParams { k: 0, ..good.clone() }, "k is 0; it must be 1 to 1000"),
        (NearestParams { k: u32::MAX, ..good.clone() }, "k is 4294967295; it must be 1 to 1000"),
        (NearestParams { ef: 0, ..good.clone() }, "ef is 0; it must be 1 to 10000"),
        (NearestParams::new(vec![1.0; 3]), "vector has 3 numbers; the vectors of this service have 24"),
        (NearestParams::new(Vec::new()), "vector has 0 numbers"),
        (with(5, f32::NAN), "vector has NaN at position 5; only finite numbers are allowed"),
        (with(0, f32::INFINITY), "vector has inf at position 0"),
        (
            NearestParams::new(vec![0.0; DIMENSIONS]),
            "vector is all zeros; the metric cosine needs a direction",
        ),
        (
            NearestParams { attributes: vec!["colour".into()], ..good.clone() },
            "attributes names the attribute \"colour\"; allowed: group, year",
        ),
        (
            NearestParams {
                filter: Filter([("colour".into(), Condition::Any(Vec::new()))].into()),
                ..good.clone()
            },
            "filter names the attribute \"colour\"; allowed: group, year",
        ),
    ] {
        let refused = called(&NearestOf, &split, &params).unwrap_err();
        assert!(
            refused.is_of_params() && refused.to_string().contains(problem),
            "expected {problem:?}: {refused}"
        );
    }
    let many = GetParams { ids: vec!["1".into(); 101] };
    let refused = called(&Get, &split, &many).unwrap_err();
    assert!(refused.is_of_params() && refused.to_string() == "ids has 101 entries; at most 100 are allowed");
    let long = GetParams { ids: vec!["x".repeat(1_025)] };
    assert!(called(&Get, &split, &long).unwrap_err().to_string().contains("an entry of 1025 bytes"));
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let refused = |source: &Source, total| opened(source, total).unwrap_err().to_string();
    std::fs::write(path("v.npy"), npy(&[1.0, 0.0, 0.0, 0.0, 2.0, 3.0], 2)).unwrap();
    let source = Source::new(path("v.npy"), Metric::Cosine);
    assert!(refused(&source, 2).contains("row 1 is all zeros"));
    assert_eq!(refused(&source, 0), "0 partitions: it must be 1 to 4096");
    assert!(refused(&source, 4_097).contains("1 to 4096"));
    let l2 = Source::new(path("v.npy"), Metric::L2);
    for (lines, problem) in
        [("a\n1\n2\n", "2 rows; there are 3 vectors"), ("a\n1\n2\n3\n4\n", "more than 3 rows")]
    {
        std::fs::write(path("v.csv"), lines).unwrap();
        let refused = refused(&Source { attributes: Some(path("v.csv")), ..l2.clone() }, 2);
        assert!(refused.contains(problem), "{refused}");
    }
    std::fs::write(path("large.npy"), npy(&vec![1.0; 1 << 20], 1 << 10)).unwrap();
    let small = Source { memory_bytes_max: 1 << 20, ..Source::new(path("large.npy"), Metric::L2) };
    let refused = refused(&small, 2);
    assert!(refused.contains("about 4 MiB") && refused.contains("memory is 1 MiB"), "{refused}");
    // A quarter of the rows fits.
    assert_eq!(small.open(&[3], 4, &|_, _| {}).unwrap()[&3].vectors(), 256);
    let nowhere = Source::new(Path::new("/nowhere/v.npy"), Metric::L2);
    assert!(opened(&nowhere, 1).is_err_and(|error| matches!(error, OpenError::File { .. })));
}

#[test]
fn more_partitions_than_rows_leave_some_empty() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("v.npy");
    std::fs::write(&file, npy(&[1.0, 2.0, 3.0], 1)).unwrap();
    for index in [Index::Exact, Index::Hnsw(GraphOptions::default())] {
        let source = Source { index, data: Some(directory.path().into()), ..Source::new(&file, Metric::L2) };
        let found = called(&NearestOf, &opened(&source, 5).unwrap(), &NearestParams::new(vec![2.2])).unwrap();
        assert_eq!(found.neighbours.iter().map(|near| near.row).collect::<Vec<_>>(), [1, 2, 0]);
    }
}

#[test]
fn service_has_its_aggregations_by_name() {
    assert_eq!(aggregations().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["nearest", "get", "count"]);
}

/// Distances from a few values, so that ties are frequent.
fn partial(partition: u32, rows: u32, k: usize) -> Nearest {
    let near = |row: u32| Neighbour {
        distance: ((partition * 7 + row * 3) % 4) as f32,
        id: format!("{row}"),
        row: u64::from(row * 9 + partition),
        partition,
        attributes: Default::default(),
    };
    let mut neighbours: Vec<Neighbour> = (0..rows).map(near).collect();
    neighbours.sort_by(Neighbour::order);
    neighbours.truncate(k);
    Nearest { neighbours, compared: u64::from(rows) }
}

proptest! {
    #[test]
    fn reducing_is_associative_and_commutative_with_identity(
        (a, b, c) in (0u32..9, 0u32..9, 0u32..9), k in 1u32..12,
    ) {
        let params = NearestParams { k, ..NearestParams::new(Vec::new()) };
        let [a, b, c] = [(0, a), (1, b), (2, c)].map(|(id, rows)| partial(id, rows, k as usize));
        let reduce = |a: &Nearest, b: &Nearest| NearestOf.reduce(a.clone(), b.clone(), &params).unwrap();
        prop_assert_eq!(reduce(&a, &b), reduce(&b, &a));
        prop_assert_eq!(reduce(&reduce(&a, &b), &c), reduce(&a, &reduce(&b, &c)));
        prop_assert_eq!(reduce(&a, &Nearest::default()), a.clone());
        let encoded = [&a, &b, &c].map(|partial| partial.encode().unwrap());
        let whole = NearestOf.reduce_all(vec![a, b, c], &params).unwrap().encode().unwrap();
        prop_assert_eq!(NearestOf.reduce_encoded(&encoded, &params), Some(whole));
    }
}
