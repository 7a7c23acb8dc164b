//! Tests the allocator with networks whose rates are computed by hand, with an independent slow allocator,
//! and with the definition of max–min fairness.

use super::*;
use crate::flow::topology::Link;
use proptest::prelude::*;

fn flow(links: &[Link]) -> Demand {
    Demand { path: Path::new(links.iter().copied()), into: None, fed: None }
}

fn fed(links: &[Link], stock_per_s: f64, ratio: f64) -> Demand {
    Demand { fed: Some(Fed { stock_per_s, ratio }), ..flow(links) }
}

fn into(into: u32, mut demand: Demand) -> Demand {
    demand.into = Some(into);
    demand
}

fn rates(capacity: &[f64], demands: &[Demand]) -> Vec<f64> {
    let live: Vec<u32> = (0..demands.len() as u32).rev().collect();
    let mut rates = vec![0.0; demands.len()];
    Allocator::new(capacity, demands, &live).allocate(demands, &live, &mut rates);
    rates
}

fn assert_near(found: &[f64], expected: &[f64]) {
    let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6 * (1.0 + b.abs()));
    assert!(is_near && found.len() == expected.len(), "{found:?}, not {expected:?}");
}

/// Computes the rates by definition, in rounds: the link with the least capacity left per waiting flow fixes
/// their rates.
fn slow(capacity: &[f64], demands: &[Demand]) -> Vec<f64> {
    let mut rates = vec![None; demands.len()];
    while rates.contains(&None) {
        let left_for_each = |link: usize| {
            let across =
                || demands.iter().zip(&rates).filter(|(demand, _)| demand.path.links().any(|at| at == link));
            let taken: f64 = across().filter_map(|(_, rate)| *rate).sum();
            let waiting = across().filter(|(_, rate)| rate.is_none()).count();
            (waiting > 0).then(|| (capacity[link] - taken) / waiting as f64)
        };
        let shares = (0..capacity.len()).filter_map(|link| Some((left_for_each(link)?, link)));
        let (share, tightest) =
            shares.min_by(|a, b| a.0.total_cmp(&b.0)).expect("every waiting flow crosses a link");
        for (demand, rate) in demands.iter().zip(&mut rates) {
            if rate.is_none() && demand.path.links().any(|link| link == tightest) {
                *rate = Some(share);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

/// Raises the level in many small steps. Every rate is the smaller of the level and the rate that the flow is
/// fed.
fn in_small_steps(capacity: &[f64], demands: &[Demand], step: f64, steps: u32) -> Vec<f64> {
    let mut rates = vec![0.0; demands.len()];
    let mut is_fixed = vec![false; demands.len()];
    for level in (1..=steps).map(|nth| f64::from(nth) * step) {
        for flow in (0..demands.len()).rev().filter(|&flow| !is_fixed[flow]).collect::<Vec<_>>() {
            let inputs = demands.iter().zip(&rates).filter(|(other, _)| other.into == Some(flow as u32));
            let received: f64 = inputs.map(|(_, rate)| rate).sum();
            let limit = demands[flow].fed.map_or(f64::INFINITY, |fed| fed.stock_per_s + fed.ratio * received);
            rates[flow] = level.min(limit);
        }
        for (link, &capacity) in capacity.iter().enumerate() {
            let crosses = |flow: &usize| demands[*flow].path.links().any(|at| at == link);
            let across: Vec<usize> = (0..demands.len()).filter(crosses).collect();
            if across.iter().map(|&flow| rates[flow]).sum::<f64>() >= capacity {
                across.into_iter().for_each(|flow| is_fixed[flow] = true);
            }
        }
    }
    rates
}

#[test]
fn flows_limited_elsewhere_leave_capacity_to_others() {
    // Two flows share the first link. One of them shares the second link, which is wider, with a third flow.
    assert_near(&rates(&[1.0, 4.0], &[flow(&[0]), flow(&[0, 1]), flow(&[1])]), &[0.5, 0.5, 3.5]);
    assert_near(&rates(&[6.0], &[flow(&[0]), flow(&[0]), flow(&[0])]), &[2.0, 2.0, 2.0]);
}

#[test]
fn an_aggregation_sends_no_more_than_it_is_fed() {
    // Two inputs of 1 each, of which a tenth goes on. The other flow of link 2 gets the rest.
    let demands = [fed(&[2], 0.0, 0.1), into(0, flow(&[0])), into(0, flow(&[1])), flow(&[2])];
    assert_near(&rates(&[1.0, 1.0, 2.0], &demands), &[0.2, 1.0, 1.0, 1.8]);
    // With enough stock the aggregation gets its fair share.
    let demands = [fed(&[2], 5.0, 0.1), into(0, flow(&[0])), into(0, flow(&[1])), flow(&[2])];
    assert_near(&rates(&[1.0, 1.0, 2.0], &demands), &[1.0, 1.0, 1.0, 1.0]);
    // With a small stock it gets the stock's rate and the rate that it is fed.
    let demands = [fed(&[2], 0.3, 0.1), into(0, flow(&[0])), into(0, flow(&[1])), flow(&[2])];
    assert_near(&rates(&[1.0, 1.0, 2.0], &demands), &[0.5, 1.0, 1.0, 1.5]);
}

#[test]
fn a_chain_is_as_fast_as_its_slowest_earlier_part() {
    let demands = [
        fed(&[0], 0.0, 1.0),
        into(0, fed(&[1], 0.0, 1.0)),
        into(1, fed(&[2], 0.0, 2.0)),
        into(2, flow(&[3])),
    ];
    assert_near(&rates(&[9.0, 5.0, 9.0, 1.0], &demands), &[2.0, 2.0, 2.0, 1.0]);
    assert_near(&rates(&[9.0, 1.5, 9.0, 1.0], &demands), &[1.5, 1.5, 2.0, 1.0]);
}

#[test]
fn finished_flows_get_no_rate() {
    let demands = [flow(&[0]), flow(&[0]), flow(&[0])];
    let mut allocator = Allocator::new(&[6.0], &demands, &[2, 1, 0]);
    let mut rates = vec![0.0; 3];
    allocator.allocate(&demands, &[2, 0], &mut rates);
    assert_near(&rates, &[3.0, 0.0, 3.0]);
}

const LINKS: usize = 6;

fn path() -> impl Strategy<Value = Path> {
    proptest::collection::btree_set(0..LINKS as Link, 1..4).prop_map(Path::new)
}

fn capacities() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(0.5..10.0, LINKS)
}

/// Returns flows of which some are fed by flows with higher numbers.
fn coupled() -> impl Strategy<Value = Vec<Demand>> {
    let one = (path(), any::<proptest::sample::Index>(), any::<bool>(), 0.0..2.0_f64, 0.05..1.5_f64);
    proptest::collection::vec(one, 1..14).prop_map(|all| {
        let mut demands: Vec<Demand> = Vec::new();
        for (path, place, is_input, stock, ratio) in all {
            let into = (is_input && !demands.is_empty()).then(|| place.index(demands.len()) as u32);
            if let Some(into) = into {
                // A stock of zero is the usual case.
                let fed = Fed { stock_per_s: (stock - 1.0).max(0.0), ratio };
                demands[into as usize].fed.get_or_insert(fed);
            }
            demands.push(Demand { path, into, fed: None });
        }
        demands
    })
}

fn load(demands: &[Demand], rates: &[f64], link: usize) -> f64 {
    let across = demands.iter().zip(rates).filter(|(demand, _)| demand.path.links().any(|at| at == link));
    across.map(|(_, rate)| rate).sum()
}

proptest! {
    #[test]
    fn rates_equal_the_slow_allocators(
        capacity in capacities(),
        paths in proptest::collection::vec(path(), 1..30),
    ) {
        let demands: Vec<Demand> = paths.into_iter().map(|path| Demand { path, into: None, fed: None }).collect();
        assert_near(&rates(&capacity, &demands), &slow(&capacity, &demands));
    }

    #[test]
    fn every_flow_below_its_limit_crosses_a_full_link(capacity in capacities(), demands in coupled()) {
        let found = rates(&capacity, &demands);
        for (link, &capacity) in capacity.iter().enumerate() {
            prop_assert!(load(&demands, &found, link) <= capacity * (1.0 + 1e-6));
        }
        for (at, demand) in demands.iter().enumerate() {
            let received: f64 = (demands.iter().zip(&found))
                .filter(|(other, _)| other.into == Some(at as u32)).map(|(_, rate)| rate).sum();
            let limit = demand.fed.map_or(f64::INFINITY, |fed| fed.stock_per_s + fed.ratio * received);
            prop_assert!(found[at] <= limit * (1.0 + 1e-6) + 1e-9, "flow {at} sends more than it has: {found:?}");
            let is_held_up = demand.path.links().any(|link| load(&demands, &found, link) > capacity[link] * (1.0 - 1e-6));
            prop_assert!(is_held_up || found[at] > limit - 1e-6 * (1.0 + limit), "flow {at} could have a higher rate: {found:?}");
        }
    }

    #[test]
    fn rates_of_fed_flows_match_small_steps(capacity in capacities(), demands in coupled()) {
        let (found, expected) = (rates(&capacity, &demands), in_small_steps(&capacity, &demands, 2e-3, 15_000));
        let off = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        prop_assert!(off < 0.1, "{found:?}, in small steps {expected:?}");
    }
}
