//! The paper's properties of the load-adaptive tree, as far as they hold.

use super::*;
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::tree::Seat;
use alloc::collections::BTreeMap;
use alloc::string::String;
use proptest::prelude::*;
use std::string::ToString;

/// The tree if no delay is known.
fn form(row: Vec<Candidate>) -> Tree {
    super::form(row, 0.0)
}

pub(crate) fn node(number: usize) -> NodeId {
    NodeId::new(([10, 0, (number >> 8) as u8, number as u8], 7700).into(), 1)
}

/// A candidate that holds the partition of its own number.
pub(crate) fn candidate(number: usize, load_ms: f64, local_ms: f64, reduce_ms: f64) -> Candidate {
    let partitions = PartitionSet::from_range(number as u32..number as u32 + 1);
    Candidate { node: node(number), partitions, load_ms, local_ms, reduce_ms }
}

/// A cluster of identical idle nodes, with the DAC paper's MICRO costs.
pub(crate) fn idle(count: usize) -> Vec<Candidate> {
    (0..count).map(|number| candidate(number, 0.0, 25.0, 5.0)).collect()
}

/// Up to `max` nodes whose loads and costs all differ.
pub(crate) fn candidates(max: usize) -> impl Strategy<Value = Vec<Candidate>> {
    let figures = (0.0..200.0, 0.0..50.0, 0.001..20.0);
    prop::collection::vec(figures, 1..max)
        .prop_map(|row| row.into_iter().enumerate().map(|(i, (l, s, a))| candidate(i, l, s, a)).collect())
}

/// As [`candidates`], with any figures that a float can hold.
pub(crate) fn any_candidates(max: usize) -> impl Strategy<Value = Vec<Candidate>> {
    let figure = prop_oneof![
        any::<f64>(),
        0.0..50.0,
        Just(0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY)
    ];
    prop::collection::vec((figure.clone(), figure.clone(), figure), 1..max)
        .prop_map(|row| row.into_iter().enumerate().map(|(i, (l, s, a))| candidate(i, l, s, a)).collect())
}

/// Nodes that differ only in load, with few distinct loads, so that equal ones are common.
fn equally_fast(max: usize) -> impl Strategy<Value = Vec<Candidate>> {
    (
        prop::collection::vec(prop_oneof![(0_u32..6).prop_map(f64::from), 0.0..100.0], 1..max),
        0.0..9.0,
        0.01..9.0,
    )
        .prop_map(|(loads, s, a)| loads.into_iter().enumerate().map(|(i, l)| candidate(i, l, s, a)).collect())
}

/// Nodes whose loads make step 1 deal any row of `δ`, including lopsided ones.
fn dealt_anyhow(max: usize) -> impl Strategy<Value = Vec<Candidate>> {
    (prop::collection::vec(0.0_f64..1.0, 0..max), 1_i32..9).prop_map(|(draws, skew)| {
        let mut wanted = vec![0_u32; draws.len() + 1];
        for draw in draws {
            let at = draw.powi(skew) * wanted.len() as f64;
            wanted[at as usize] += 1;
        }
        let most = wanted.iter().max().copied().unwrap_or(0);
        let load_ms = |wanted: u32| f64::from(most - wanted);
        wanted.iter().enumerate().map(|(i, &wanted)| candidate(i, load_ms(wanted), 0.0, 1.0)).collect()
    })
}

/// The tree as nested brackets of node numbers, `A(B(C) D)` for nodes 0, 1, 2, 3.
fn lettered(tree: &Tree) -> String {
    let NodeId { addr: core::net::SocketAddr::V4(addr), .. } = tree.root().node else { unreachable!() };
    let mut text = char::from(b'A' + addr.ip().octets()[3]).to_string();
    let below: Vec<String> = tree.children().map(|child| lettered(&child)).collect();
    if !below.is_empty() {
        text = text + "(" + &below.join(" ") + ")";
    }
    text
}

#[test]
fn eight_nodes_of_which_one_is_idle() {
    // As in figure 10: seven reductions over eight servers, four of them to A. (The text gives no figures.)
    let loads = [0.0, 10.0, 15.0, 21.0, 26.0, 30.0, 34.0, 40.0];
    let row: Vec<Candidate> =
        loads.iter().enumerate().map(|(i, &load)| candidate(i, load, 10.0, 5.0)).collect();
    assert_eq!(reductions(&row), [4, 2, 1, 0, 0, 0, 0, 0]);
    assert_eq!(lettered(&form(row)), "A(B(F E) C(D) H G)");
}

#[test]
fn an_idle_cluster_gets_a_binomial_tree() {
    let sizes: Vec<u32> = form(idle(8)).seats().iter().map(|seat| seat.size).collect();
    assert_eq!(sizes, [8, 4, 2, 1, 1, 2, 1, 1], "step 2 makes a list of eight, and step 3 replaces it");
    assert_eq!(form(idle(1024)).height(), 10);
}

#[test]
fn an_idle_cluster_of_unknown_cost_is_no_star() {
    let unknown = |count| (0..count).map(|number| candidate(number, 0.0, 0.0, 0.0).sane()).collect();
    assert_eq!(form(unknown(16)).height(), 4);
}

#[test]
fn one_idle_node_among_busy_ones_folds_all() {
    let row =
        (0..6).map(|number| candidate(number, if number == 3 { 0.0 } else { 1_000.0 }, 1.0, 1.0)).collect();
    assert_eq!(lettered(&form(row)).chars().next(), Some('D'));
}

#[test]
fn a_list_is_replaced_with_its_least_loaded_node_on_top() {
    // The root is dealt two reductions and seven others one each: two lists hang below it.
    let mut row = idle(10);
    row.iter_mut().for_each(|who| who.load_ms = 6.0);
    row[0].load_ms = 0.0;
    row[4].load_ms = 5.0;
    let tree = form(row);
    assert_eq!(lettered(&tree).chars().next(), Some('A'));
    assert_eq!(tree.children().count(), 2);
    assert!(tree.height() <= 3);
    let under = tree.children().find(|child| child.seats().iter().any(|seat| seat.node == node(4)));
    assert_eq!(under.expect("every candidate has a seat").root().node, node(4));
}

#[test]
fn one_two_and_ten_thousand() {
    assert_eq!(lettered(&form(idle(1))), "A");
    assert_eq!(lettered(&form(idle(2))), "A(B)");
    let many = form((0..10_000).map(|i| candidate(i, (i * 7_919 % 10_007) as f64, 3.0, 1.0)).collect());
    assert_eq!(many.seats().len(), 10_000);
    assert!(many.height() <= height_max(10_000));
}

fn height_max(count: usize) -> usize {
    count.ilog2() as usize + 1
}

/// Steps 1 and 2 only.
fn before_adjustment(candidates: Vec<Candidate>) -> Tree {
    let seated = seat_by_reductions(candidates);
    let mut parents = vec![None; seated.len()];
    let mut free = 1;
    for (at, &(_, dealt)) in seated.iter().enumerate() {
        parents[free..free + dealt as usize].fill(Some(at));
        free += dealt as usize;
    }
    plant(seated.into_iter().map(|(candidate, _)| candidate).collect(), &parents)
}

/// Node → (depth, height of its subtree).
fn levels(tree: &Tree) -> BTreeMap<NodeId, (usize, usize)> {
    fn walk(tree: &Tree, depth: usize, levels: &mut BTreeMap<NodeId, (usize, usize)>) {
        levels.insert(tree.root().node, (depth, tree.height()));
        tree.children().for_each(|child| walk(&child, depth + 1, levels));
    }
    let mut levels = BTreeMap::new();
    walk(tree, 0, &mut levels);
    levels
}

fn seat_degrees(tree: &Tree) -> BTreeMap<NodeId, usize> {
    fn walk(tree: &Tree, degrees: &mut BTreeMap<NodeId, usize>) {
        degrees.insert(tree.root().node, tree.children().count());
        tree.children().for_each(|child| walk(&child, degrees));
    }
    let mut degrees = BTreeMap::new();
    walk(tree, &mut degrees);
    degrees
}

proptest! {
    #[test]
    fn all_reductions_are_dealt(row in any_candidates(60)) {
        let row: Vec<Candidate> = row.into_iter().map(Candidate::sane).collect();
        prop_assert_eq!(reductions(&row).iter().sum::<u32>() as usize, row.len() - 1);
    }

    #[test]
    fn the_less_loaded_is_dealt_at_least_as_many(row in equally_fast(40)) {
        let dealt = reductions(&row);
        for (a, b) in (0..row.len()).flat_map(|a| (0..row.len()).map(move |b| (a, b))) {
            if row[a].load_ms < row[b].load_ms {
                prop_assert!(dealt[a] >= dealt[b], "{a} has {} and {b} has {}", dealt[a], dealt[b]);
            }
        }
    }

    #[test]
    fn dealing_balances(row in candidates(40)) {
        // No reduction could move to another node and lower the larger of the two totals.
        let dealt = reductions(&row);
        let total = |at: usize, extra: f64| {
            row[at].own_ready_ms() + (f64::from(dealt[at]) + extra) * row[at].reduce_ms
        };
        for (from, to) in (0..row.len()).flat_map(|from| (0..row.len()).map(move |to| (from, to))) {
            if from != to && dealt[from] > 0 {
                prop_assert!(total(to, 1.0) >= total(from, 0.0));
            }
        }
    }

    #[test]
    fn step_two_gives_each_the_children_it_was_dealt(row in candidates(40)) {
        let dealt: BTreeMap<NodeId, usize> =
            row.iter().map(|who| who.node).zip(reductions(&row).into_iter().map(|d| d as usize)).collect();
        prop_assert_eq!(seat_degrees(&before_adjustment(row)), dealt);
    }

    #[test]
    fn at_equal_depth_more_reductions_mean_a_deeper_subtree(row in candidates(40)) {
        let dealt: BTreeMap<NodeId, u32> = row.iter().map(|who| who.node).zip(reductions(&row)).collect();
        let levels = levels(&before_adjustment(row));
        for (a, &(depth_a, height_a)) in &levels {
            for (b, &(depth_b, height_b)) in &levels {
                if depth_a == depth_b && dealt[a] > dealt[b] {
                    prop_assert!(height_a >= height_b, "{a} and {b}");
                }
            }
        }
    }

    #[test]
    fn the_root_is_the_least_loaded_node_with_most_reductions(row in equally_fast(40)) {
        let dealt = reductions(&row);
        let most = dealt.iter().max().copied().unwrap_or(0);
        let contenders = row.iter().zip(&dealt).filter(|&(_, &d)| d == most).map(|(who, _)| who);
        let least = contenders.map(|who| who.load_ms).fold(f64::INFINITY, f64::min);
        let root = before_adjustment(row.clone()).root().node;
        let root = row.iter().find(|who| who.node == root).expect("the root is one of them");
        prop_assert_eq!(root.load_ms, least);
    }

    #[test]
    fn the_height_is_logarithmic(row in prop_oneof![candidates(300), equally_fast(300), dealt_anyhow(600)]) {
        let count = row.len();
        prop_assert!(form(row).height() <= height_max(count));
    }

    #[test]
    fn no_list_of_three_is_left(row in prop_oneof![candidates(120), equally_fast(120), dealt_anyhow(120)]) {
        let tree = form(row);
        let is_list = |seats: &[Seat]| {
            seats.iter().enumerate().all(|(i, seat)| seat.size as usize == seats.len() - i)
        };
        for at in 0..tree.seats().len() {
            let subtree = &tree.seats()[at..at + tree.seats()[at].size as usize];
            prop_assert!(subtree.len() < 3 || !is_list(subtree), "{tree:?}");
        }
    }

    #[test]
    fn the_same_candidates_give_the_same_tree(row in candidates(60)) {
        prop_assert_eq!(form(row.clone()), form(row));
    }
}
