//! Tests clock skews over trees of nodes with known clocks and delays.

mod network;

use network::Network;
use std::collections::BTreeMap;

#[test]
fn every_estimate_is_within_its_own_bound() {
    for seed in 0..40 {
        for (levels, fan_out) in [(1, 6), (2, 3), (4, 2)] {
            let mut network = Network::new(levels, fan_out, seed);
            for round in 0..10 {
                let skews = network.round();
                let mut endpoints: Vec<u32> = skews.iter().map(|skew| skew.endpoint).collect();
                endpoints.sort_unstable();
                assert_eq!(
                    endpoints,
                    network.leaves().collect::<Vec<_>>(),
                    "every endpoint must answer once"
                );
                for skew in skews {
                    let off_ns = skew.skew_ns.abs_diff(network.true_skew_ns(skew.endpoint));
                    let told = skew.error_ns;
                    assert!(
                        off_ns <= told,
                        "seed {seed}, round {round}: error {off_ns} ns, reported bound {told} ns"
                    );
                }
            }
        }
    }
}

#[test]
fn bounds_shrink_as_rounds_are_repeated() {
    let mut network = Network::new(3, 2, 7);
    let told: Vec<BTreeMap<u32, u64>> = (0..16)
        .map(|_| network.round().into_iter().map(|skew| (skew.endpoint, skew.error_ns)).collect())
        .collect();
    for (before, after) in told.iter().zip(&told[1..]) {
        assert!(before.iter().all(|(endpoint, error_ns)| after[endpoint] <= *error_ns));
    }
}

/// MRNet's skews were about as good as asking each endpoint directly (§4.2.1). With the same number of
/// rounds, the filter's skews must not be worse.
#[test]
fn errors_are_no_worse_than_by_asking_directly() {
    let (mut by_tree, mut directly) = (0, 0);
    for seed in 0..20 {
        let mut network = Network::new(3, 3, seed);
        let last = (0..16).map(|_| network.round()).last().expect("sixteen rounds");
        for skew in last {
            by_tree += skew.skew_ns.abs_diff(network.true_skew_ns(skew.endpoint));
            let best = (0..16).map(|_| network.direct(skew.endpoint)).min_by_key(|(_, delay_ns)| *delay_ns);
            let (direct_ns, _) = best.expect("sixteen rounds");
            directly += direct_ns.abs_diff(network.true_skew_ns(skew.endpoint));
        }
    }
    assert!(by_tree <= directly, "{by_tree} ns by the tree, {directly} ns directly");
}
