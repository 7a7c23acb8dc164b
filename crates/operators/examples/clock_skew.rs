//! Compares clock skews found hop by hop with skews found by asking each endpoint directly, in simulated
//! time.
//!
//! ```text
//! cargo run -p treefold-operators --example clock_skew
//! ```

#[path = "../tests/clock_skew/network.rs"]
mod network;

use network::Network;

const ROUNDS: usize = 16;

fn main() {
    println!("mean over all endpoints, us     found by the tree   its bound   asked directly   its bound");
    for (levels, fan_out) in [(1, 64), (2, 8), (3, 4), (6, 2)] {
        let mut network = Network::new(levels, fan_out, 1);
        let last = (0..ROUNDS).map(|_| network.round()).last().unwrap_or_default();
        let mut means = [0.0f64; 4];
        for skew in &last {
            let truly_ns = network.true_skew_ns(skew.endpoint);
            let rounds = (0..ROUNDS).map(|_| network.direct(skew.endpoint));
            let (direct_ns, delay_ns) = rounds.min_by_key(|(_, delay_ns)| *delay_ns).unwrap_or_default();
            let figures =
                [skew.skew_ns.abs_diff(truly_ns), skew.error_ns, direct_ns.abs_diff(truly_ns), delay_ns / 2];
            for (mean, figure_ns) in means.iter_mut().zip(figures) {
                *mean += figure_ns as f64 / 1e3 / last.len() as f64;
            }
        }
        let [tree, tree_bound, direct, direct_bound] = means;
        println!(
            "{levels} levels, fan-out {fan_out:>2}, {:>2} endpoints {tree:>14.1} {tree_bound:>11.1} {direct:>16.1} {direct_bound:>11.1}",
            network.leaves().count()
        );
    }
}
