//! Tests networks that are small enough to compute by hand, and conditions that hold in all networks.

use super::*;
use crate::flow::topology::Link;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

fn flow(links: &[Link], bytes: f64) -> Flow {
    Flow { path: Path::new(links.iter().copied()), bytes, starts_s: 0.0, into: None }
}

fn into(into: u32, mut flow: Flow) -> Flow {
    flow.into = Some(into);
    flow
}

fn ends(capacity: &[f64], flows: &[Flow]) -> Vec<f64> {
    run(capacity, flows, 0.0).at_s
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-3 * (1.0 + b.abs()));
    assert!(is_near && found.len() == expected.len(), "{found:?}, not {expected:?}");
}

#[test]
fn a_flow_gets_the_whole_link_when_the_others_have_ended() {
    // Both flows send at 5/s until the smaller one ends at 2 s. Then the other sends its last 20 bytes at
    // 10/s.
    assert_near(&ends(&[10.0], &[flow(&[0], 10.0), flow(&[0], 30.0)]), &[2.0, 4.0]);
}

#[test]
fn a_late_flow_shares_the_link_from_its_start() {
    let late = Flow { starts_s: 1.0, ..flow(&[0], 10.0) };
    // 10 of 30 bytes are sent when the second flow starts. Each then sends 10 bytes at 5/s, and the last 10
    // go at 10/s.
    assert_near(&ends(&[10.0], &[flow(&[0], 30.0), late]), &[4.0, 3.0]);
}

#[test]
fn an_aggregation_ends_when_its_last_input_does() {
    // Two inputs of 10 bytes at 1/s each. Of their 20 bytes, 2 go on over a link that is never full.
    let flows = [flow(&[2], 2.0), into(0, flow(&[0], 10.0)), into(0, flow(&[1], 10.0))];
    assert_near(&ends(&[1.0, 1.0, 9.0], &flows), &[10.0, 10.0, 10.0]);
    // Over a slower link, the 2 bytes take 20 s, counted from the beginning.
    assert_near(&ends(&[1.0, 1.0, 0.1], &flows), &[20.0, 10.0, 10.0]);
}

#[test]
fn a_chain_takes_the_time_of_its_slowest_part_not_the_sum() {
    let flows = [flow(&[0], 10.0), into(0, flow(&[1], 10.0)), into(1, flow(&[2], 10.0))];
    assert_near(&ends(&[4.0, 2.0, 4.0], &flows), &[5.0, 5.0, 2.5]);
}

/// Returns flows over a few links. Some of them are inputs of others.
fn networks() -> impl Strategy<Value = (Vec<f64>, Vec<Flow>)> {
    let path = proptest::collection::btree_set(0..5 as Link, 1..4).prop_map(Path::new);
    let one = (path, 1.0..50.0_f64, any::<proptest::sample::Index>(), any::<bool>(), 0.0..3.0_f64);
    let flows = proptest::collection::vec(one, 1..40).prop_map(|all| {
        let mut flows: Vec<Flow> = Vec::new();
        for (path, bytes, place, is_input, starts_s) in all {
            let into = (is_input && !flows.is_empty()).then(|| place.index(flows.len()) as u32);
            // Only flows that neither feed nor are fed start late.
            flows.push(Flow { path, bytes, into, starts_s: if into.is_none() { starts_s } else { 0.0 } });
        }
        let fed: Vec<u32> = flows.iter().filter_map(|flow| flow.into).collect();
        fed.into_iter().for_each(|into| flows[into as usize].starts_s = 0.0);
        flows
    });
    (proptest::collection::vec(1.0..20.0, 5), flows)
}

proptest! {
    #[test]
    fn all_bytes_arrive_and_no_link_carries_more_than_it_can(
        (capacity, flows) in networks(),
        step_share in 0.0..0.1_f64,
    ) {
        let ended = run(&capacity, &flows, step_share);
        for (flow, &end) in flows.iter().zip(&ended.at_s) {
            let narrowest = flow.path.links().map(|link| capacity[link]).fold(f64::INFINITY, f64::min);
            prop_assert!(end - flow.starts_s >= flow.bytes / narrowest * (1.0 - 1e-6));
            if let Some(into) = flow.into {
                prop_assert!(ended.at_s[into as usize] >= end, "a fed flow ends before its input");
            }
        }
        for (link, &capacity) in capacity.iter().enumerate() {
            let across = || flows.iter().zip(&ended.at_s).filter(|(flow, _)| flow.path.links().any(|at| at == link));
            let bytes: f64 = across().map(|(flow, _)| flow.bytes).sum();
            let last = across().map(|(_, &end)| end).fold(0.0, f64::max);
            prop_assert!(bytes <= capacity * last * (1.0 + 1e-6), "{bytes} bytes by {last} s at {capacity}/s");
        }
    }
}

#[test]
fn larger_steps_change_the_times_little() {
    // Chance decides which flows end in one step, and these networks have few flows. So the test has limits
    // for shares of the networks and not for each.
    let off_by = |(capacity, flows): &(Vec<f64>, Vec<Flow>)| {
        let last_s = |step_share| run(capacity, flows, step_share).at_s.iter().copied().fold(0.0, f64::max);
        (last_s(0.05) / last_s(0.0) - 1.0).abs()
    };
    let mut runner = TestRunner::deterministic();
    let network = |_| networks().new_tree(&mut runner).expect("a network").current();
    let mut off: Vec<f64> = (0..1000).map(network).map(|network| off_by(&network)).collect();
    off.sort_by(f64::total_cmp);
    assert!(off[500] < 0.001 && off[900] < 0.02 && off[990] < 0.08, "{} {} {}", off[500], off[900], off[990]);
}
