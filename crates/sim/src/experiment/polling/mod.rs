//! The experiments of the random polling paper (Shen, Yang, Chu: *Cluster Load Balancing for Fine-Grain
//! Network Services*), which choose a replica for each call, and the same comparison of all our policies.
//!
//! - [`load_inaccuracy`]: the error of a load figure by its age (§2.1, figure 2).
//! - [`broadcast`]: servers that announce their load from time to time (§2.2, figure 3).
//! - [`poll_size`]: fronts that ask a few servers before each call (§2.3, figure 4; §4.1, figure 6).
//! - [`poll_discard`]: fronts that do not wait for slow answers (§4.2, table 2).
//! - [`replica_policies`]: all policies, also on clusters that are not in the paper.
//! - [`slow_servers`]: the choice by time beside that by load, where half of the servers are slow.
//!
//! [`workload`] defines the requests, [`cluster`] the servers and fronts, [`cost`] the cost of polls.
//!
//! # Load index
//! The paper's index is the queue's length. Ours is the predicted work in the queue: the length times the
//! mean service time that each server has learned. This mean is an average over recent work, so it differs a
//! little from server to server.

pub mod broadcast;
pub mod cluster;
pub mod cost;
pub mod load_inaccuracy;
pub mod poll_discard;
pub mod poll_size;
pub mod replica_policies;
pub mod scene;
pub mod slow_servers;
pub mod workload;

use super::Point;
use super::point::find;

/// Name of a point's mean response time relative to that under perfect knowledge.
const NORMALISED: &str = "normalised";

/// Adds to each point its mean response time relative to the series `ideal` at the same x with the same
/// `words`.
pub(crate) fn normalise(points: &mut [Point], words: &[&str]) {
    let ideals: Vec<Point> = points.iter().filter(|point| point.series == "ideal").cloned().collect();
    for point in points {
        let of_point: Vec<(&str, &str)> =
            words.iter().filter_map(|&name| Some((name, point.word(name)?))).collect();
        if let Some(ideal) = find(&ideals, "ideal", point.x, &of_point) {
            let normalised = point.response_ms_mean / ideal.response_ms_mean;
            point.more.insert(NORMALISED.into(), normalised.into());
        }
    }
}
