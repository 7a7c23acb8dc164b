//! Recall of graphs over generated vectors, filters, duplicates, and cancellation.

use super::*;
use crate::draw::Draw;
use crate::metric::Metric;
use crate::near::scan;
use std::collections::BTreeSet;
use treefold_operators::cancel::Cancellation;

const DIMENSIONS: usize = 24;

fn vectors(rows: usize, seed: u64) -> Vec<f32> {
    let mut draw = Draw::new(seed);
    (0..rows * DIMENSIONS).map(|_| draw.normal() as f32).collect()
}

fn graph(space: Space<'_>) -> Graph {
    build(space, GraphOptions::default(), &|_| {}).unwrap()
}

fn recall(space: Space<'_>, graph: &Graph, accept: impl Fn(u32) -> bool + Copy) -> f64 {
    let queries = vectors(40, 99);
    let mut found = 0;
    for query in queries.chunks(DIMENSIONS) {
        let mut query = query.to_vec();
        assert!(space.metric.prepare(&mut query));
        let rows = 0..space.rows() as u32;
        let (exact, _) = scan(space, &query, 10, rows.filter(|at| accept(*at))).unwrap();
        let exact: BTreeSet<u32> = exact.iter().map(|near| near.at).collect();
        let (nearly, compared) = graph.search(space, &query, (10, 64), accept).unwrap();
        assert!(compared < space.rows() as u64);
        found += nearly.iter().filter(|near| exact.contains(&near.at)).count();
    }
    found as f64 / 400.0
}

#[test]
fn graphs_find_nearly_all_neighbours_with_every_metric() {
    for metric in [Metric::Cosine, Metric::Ip, Metric::L2] {
        let mut values = vectors(3_000, 1);
        for row in values.chunks_mut(DIMENSIONS) {
            assert!(metric.prepare(row));
        }
        let space = Space { metric, dimensions: DIMENSIONS, values: &values };
        let graph = graph(space);
        let (all, half) = (recall(space, &graph, |_| true), recall(space, &graph, |at| at % 2 == 0));
        assert!(all > 0.9 && half > 0.9, "{metric:?}: {all} {half}");
    }
}

#[test]
fn same_rows_give_the_same_graph() {
    let values = vectors(400, 1);
    let space = Space { metric: Metric::L2, dimensions: DIMENSIONS, values: &values };
    assert_eq!(graph(space), graph(space));
}

#[test]
fn duplicates_do_not_cut_the_graph() {
    // Half of the rows are the same vector.
    let mut values = vectors(2_000, 1);
    values[..1_000 * DIMENSIONS].fill(0.5);
    let space = Space { metric: Metric::L2, dimensions: DIMENSIONS, values: &values };
    let graph = graph(space);
    for at in (1_000..2_000).step_by(53) {
        let (found, _) = graph.search(space, space.row(at), (1, 64), |_| true).unwrap();
        assert_eq!(found.first().map(|near| near.at), Some(at));
    }
    let (found, _) = graph.search(space, space.row(3), (5, 64), |_| true).unwrap();
    assert!(found.iter().all(|near| near.distance == 0.0) && found.len() == 5, "{found:?}");
}

#[test]
fn small_graphs_are_complete() {
    for rows in [0, 1, 2, 30] {
        let values = vectors(rows, 5);
        let space = Space { metric: Metric::L2, dimensions: DIMENSIONS, values: &values };
        let query = vectors(1, 6);
        let (found, _) = graph(space).search(space, &query, (50, 50), |_| true).unwrap();
        assert_eq!(found, scan(space, &query, 50, 0..rows as u32).unwrap().0);
    }
}

#[test]
fn cancelled_walk_ends() {
    let values = vectors(2_000, 1);
    let space = Space { metric: Metric::L2, dimensions: DIMENSIONS, values: &values };
    let graph = graph(space);
    let run = Cancellation::default();
    run.cancel();
    let ended = run.during(|| graph.search(space, space.row(0), (500, 1_000), |_| true));
    assert!(ended.unwrap_err().to_string().contains("nobody waits"));
}
