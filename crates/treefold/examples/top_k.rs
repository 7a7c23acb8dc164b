//! The best of all partitions: each local ranks its own, and the tree keeps the best ten of any two.
//!
//! ```text
//! cargo run --example top_k
//! ```

use serde::{Deserialize, Serialize};
use std::time::Duration;
use treefold::operators::Result;
use treefold::{Aggregation, Cluster, Partition, Service};

/// The parameters of a caller.
#[derive(Clone, Serialize, Deserialize)]
struct Near {
    point: [f32; 2],
    k: usize,
}

/// The partial, which travels up: the nearest points, the nearest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Nearest(Vec<Found>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Found {
    distance: f32,
    partition: u32,
    row: u32,
}

struct ByDistance;

impl Nearest {
    /// Ties are broken by partition and row, so that every tree gives the same answer.
    fn cut(mut self, k: usize) -> Self {
        let order = |a: &Found, b: &Found| {
            a.distance.total_cmp(&b.distance).then((a.partition, a.row).cmp(&(b.partition, b.row)))
        };
        self.0.sort_by(order);
        self.0.truncate(k);
        self
    }
}

impl Aggregation for ByDistance {
    type Params = Near;
    type Partial = Nearest;

    fn local(&self, partition: &Partition, near: &Near) -> Result<Nearest> {
        let points = partition.data_as::<Vec<[f32; 2]>>()?;
        let distance = |point: &[f32; 2]| (point[0] - near.point[0]).hypot(point[1] - near.point[1]);
        let found = points.iter().zip(0..).map(|(point, row)| Found {
            distance: distance(point),
            partition: partition.id,
            row,
        });
        Ok(Nearest(found.collect()).cut(near.k))
    }

    fn reduce(&self, mut a: Nearest, b: Nearest, near: &Near) -> Result<Nearest> {
        a.0.extend(b.0);
        Ok(a.cut(near.k))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    // Eight nodes in this process, each with 1,000 points on a spiral.
    let points = |node: usize| {
        let at = |row: usize| (row * 8 + node) as f32 / 100.0;
        let points: Vec<[f32; 2]> =
            (0..1_000).map(|row| [at(row) * at(row).cos(), at(row) * at(row).sin()]).collect();
        let service = Service::new("points").aggregation("nearest", ByDistance).total(8);
        vec![service.partition(node as u32, points)]
    };
    let cluster = Cluster::embedded(8).service(points).start().await?;
    let near = Near { point: [3.0, 4.0], k: 10 };
    let call = cluster.client(0).call::<Nearest>("points/nearest", &near);
    let reply = call.deadline(Duration::from_secs(1)).await?;
    println!("{} of {} partitions in {:?}", reply.contributed.len(), reply.asked.len(), reply.elapsed);
    for Found { distance, partition, row } in reply.into_value()?.0 {
        println!("{distance:.4}  partition {partition}, row {row}");
    }
    cluster.shutdown().await;
    Ok(())
}
