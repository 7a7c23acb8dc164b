//! Indexes a folder and searches it in one process, to show the service's results and its cost.
//!
//! `cargo run --release -p treefold-search --example folder -- FOLDER PARTITIONS QUERY…`

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;
use treefold_operators::{Aggregation, Partition};
use treefold_search::{Bar, IndexOptions, SERVICE, Shard, Terms, TermsParams, TopK, TopKParams, index};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, partitions, words @ ..] = arguments.as_slice() else {
        return Err("usage: folder FOLDER PARTITIONS QUERY…".into());
    };
    let total = partitions.parse()?;
    let report = index(folder, &IndexOptions::new(total), &Bar::new())?;
    println!("{report:#?}");

    let opened_at = Instant::now();
    let mut partitions = Vec::new();
    for id in 0..total {
        let shard = Shard::open(&report.directory, id, total)?;
        partitions.push(Partition::new(SERVICE.into(), id, total, Arc::new(shard)));
    }
    println!("opened in {:?}", opened_at.elapsed());

    let query = words.join(" ");
    let asked_at = Instant::now();
    let statistics = fold(&Terms, &partitions, &TermsParams::new(query.clone()))?;
    println!("terms in {:?}", asked_at.elapsed());
    let asked_at = Instant::now();
    let params = TopKParams { statistics: Some(statistics), ..TopKParams::new(query) };
    let found = fold(&TopK, &partitions, &params)?;
    println!(
        "topk in {:?}, one partition after the other\n\n{} documents match",
        asked_at.elapsed(),
        found.matched
    );
    for hit in &found.hits {
        println!("\n{:7.3} {} ({})\n        {}", hit.score, hit.path, hit.title, hit.marked("[", "]"));
    }
    Ok(())
}

/// Folds all partials, as a tree of one node does.
fn fold<A: Aggregation>(
    aggregation: &A,
    partitions: &[Partition],
    params: &A::Params,
) -> Result<A::Partial, Box<dyn Error>> {
    let local = |partition| aggregation.local(partition, params).map_err(|error| error.to_string());
    let mut partials = partitions.iter().map(local);
    let first = partials.next().ok_or("there are no partitions; give at least one")??;
    let last = partials
        .try_fold(first, |a, b| aggregation.reduce(a, b?, params).map_err(|error| error.to_string()))?;
    Ok(aggregation.finish(last, params).map_err(|error| error.to_string())?)
}
