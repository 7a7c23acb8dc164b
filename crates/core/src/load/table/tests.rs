//! Figures that are learned, brought up to date and evicted, and launches that are settled late.

use super::*;
use crate::load::launches::{LAUNCHES_MAX, Share};
use alloc::sync::Arc;
use proptest::prelude::*;

fn node(number: u8) -> NodeId {
    NodeId::new(([10, 0, 0, number], 7700).into(), 1)
}

fn figure(queued_ms: u64) -> LoadFigure {
    LoadFigure {
        queued: Duration::from_millis(queued_ms),
        in_flight: 1,
        processors: 2,
        ..LoadFigure::default()
    }
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

impl LoadTable {
    /// Places this work on one node and settles the table.
    fn anticipate(&mut self, node: NodeId, work: Duration, processors: impl FnOnce() -> u32, at: Instant) {
        let shares = [Share { node, locals: 1, reductions: 0 }].into();
        self.launched(Launch { at, local: work, reduce: Duration::ZERO, shares });
        let processors = processors();
        self.settle(|_| processors);
    }
}

#[test]
fn the_newer_figure_counts() {
    let mut table = LoadTable::new(8, 7);
    table.learn(node(1), figure(10), at(5));
    table.learn(node(1), figure(99), at(4));
    assert_eq!(table.of(node(1)), Some(Known { figure: figure(10), as_of: at(5) }));
    table.learn(node(1), figure(20), at(6));
    assert_eq!(
        table.load_ms(node(1), at(6), &mut Random::new(1)),
        Some(10.0),
        "a fresh figure is not corrected"
    );
    let stale = table.load_ms(node(1), at(8), &mut Random::new(1));
    assert_ne!(stale, Some(8.0), "a stale figure is corrected");
    assert_eq!(
        table.load_ms(node(1), at(900), &mut Random::new(1)),
        Some(0.0),
        "the queue has emptied by then"
    );
    table.forget(node(1));
    assert!(table.is_empty());
    assert_eq!(table.load_ms(node(1), at(6), &mut Random::new(1)), None);
}

#[test]
fn a_new_node_evicts_the_row_that_was_updated_longest_ago() {
    let mut table = LoadTable::new(2, 7);
    table.learn(node(1), figure(1), at(1));
    table.learn(node(2), figure(2), at(2));
    table.learn(node(1), figure(1), at(3));
    table.learn(node(3), figure(3), at(4));
    assert!(table.of(node(2)).is_none());
    assert!(table.of(node(1)).is_some() && table.of(node(3)).is_some());
}

#[test]
fn evictions_in_a_row_spare_rows_that_were_updated() {
    let mut table = LoadTable::new(64, 7);
    for number in 0..64 {
        table.learn(node(number), figure(1), at(u64::from(number)));
    }
    table.learn(node(100), figure(1), at(100));
    table.learn(node(1), figure(1), at(101));
    table.learn(node(102), figure(1), at(102));
    let gone: Vec<u8> = (0..64).filter(|&number| table.of(node(number)).is_none()).collect();
    assert_eq!((gone, table.len()), (alloc::vec![0, 2], 64));
}

fn queued_ms(table: &LoadTable, millis: u64) -> u64 {
    table.figure(node(1), at(millis)).map_or(0, |figure| figure.queued.as_millis())
}

#[test]
fn queued_work_drains_and_placed_work_is_added() {
    let mut table = LoadTable::new(8, 7);
    table.learn(node(1), figure(40), at(0));
    assert_eq!(queued_ms(&table, 5), 30, "two processors");
    table.anticipate(node(1), Duration::from_millis(20), || 2, at(5));
    assert_eq!((queued_ms(&table, 5), queued_ms(&table, 10)), (50, 40));
    assert_eq!(queued_ms(&table, 90), 0);
    table.anticipate(node(1), Duration::from_millis(20), || 2, at(90));
    assert_eq!(queued_ms(&table, 95), 10, "an idle queue does not fall below zero");
    assert_eq!(table.of(node(1)).map(|known| known.figure), Some(figure(40)), "the figure itself is kept");
}

#[test]
fn a_figure_includes_only_work_placed_before_it() {
    let mut table = LoadTable::new(8, 7);
    table.learn(node(1), figure(10), at(0));
    table.anticipate(node(1), Duration::from_millis(20), || 2, at(2));
    table.anticipate(node(1), Duration::from_millis(30), || 2, at(6));
    table.learn(node(1), figure(26), at(4));
    assert_eq!(queued_ms(&table, 6), 22 + 30);
}

#[test]
fn a_table_as_told_does_not_update_figures() {
    let mut table = LoadTable::new(8, 7).as_told();
    table.learn(node(1), figure(40), at(0));
    table.anticipate(node(1), Duration::from_millis(20), || 2, at(5));
    assert_eq!(queued_ms(&table, 900), 40);
}

#[test]
fn a_node_without_figure_is_unknown_again_after_its_work() {
    let mut table = LoadTable::new(8, 7);
    table.anticipate(node(1), Duration::from_millis(20), || 1, at(0));
    assert_eq!(table.load_ms(node(1), at(5), &mut Random::new(1)), Some(15.0));
    assert_eq!(table.figure(node(1), at(20)), None);
}

#[test]
fn a_figure_moves_by_more_than_a_tenth_and_half_a_millisecond() {
    let mut table = LoadTable::new(8, 7);
    let heard = [(0, 0), (1, 0), (40, 1), (42, 1), (44, 1), (46, 2), (2, 3)];
    for (millis, (queued_ms, moves)) in (1..).zip(heard) {
        table.learn(node(1), figure(queued_ms), at(millis));
        assert_eq!(table.moves(), moves, "{queued_ms} ms, on two processors");
    }
}

#[test]
fn a_table_says_when_launches_must_be_settled() {
    let mut table = LoadTable::new(8, 7);
    let shares: Arc<[Share]> = [Share { node: node(1), locals: 1, reductions: 2 }].into();
    let (local, reduce) = (Duration::from_micros(10), Duration::from_micros(5));
    for number in 1..=LAUNCHES_MAX {
        let launch = Launch { at: at(0), local, reduce, shares: Arc::clone(&shares) };
        assert_eq!(table.launched(launch), number == LAUNCHES_MAX);
    }
    assert_eq!(queued_ms(&table, 0), 0, "it is not settled");
    table.settle(|_| 1);
    assert_eq!(queued_ms(&table, 0), 20 * LAUNCHES_MAX as u64 / 1_000);
}

/// A launch: the microseconds since the one before, its row of shares, and its cost.
fn any_launches() -> impl Strategy<Value = Vec<(u64, usize, u64)>> {
    prop::collection::vec((0_u64..400, 0_usize..3, 0_u64..90), 0..PLACED_MAX)
}

proptest! {
    #[test]
    fn launches_settled_late_tell_the_same(
        launches in any_launches(),
        rows in prop::collection::vec(prop::collection::btree_map(0_u8..6, 0_u32..4, 0..6), 3),
        settled_each in 1_usize..40,
        heard in prop::collection::vec((0_u8..6, 0_u64..40, 0_usize..PLACED_MAX), 0..8),
    ) {
        let share = |(&number, &locals): (&u8, &u32)| Share { node: node(number), locals, reductions: 1 };
        let rows: Vec<Arc<[Share]>> = rows.iter().map(|row| row.iter().map(share).collect()).collect();
        let (mut at_once, mut late) = (LoadTable::new(8, 7), LoadTable::new(8, 7));
        let mut now = at(1);
        for (number, (pause_us, row, cost_us)) in launches.into_iter().enumerate() {
            now = now + Duration::from_micros(pause_us);
            let local = Duration::from_micros(cost_us);
            let launch = Launch { at: now, local, reduce: local, shares: Arc::clone(&rows[row]) };
            at_once.launched(launch.clone());
            at_once.settle(|_| 2);
            late.launched(launch);
            for &(of, queued_ms, _) in heard.iter().filter(|heard| heard.2 == number) {
                at_once.learn(node(of), figure(queued_ms), now);
                late.learn(node(of), figure(queued_ms), now);
            }
            if number % settled_each == 0 {
                late.settle(|_| 2);
            }
        }
        late.settle(|_| 2);
        let later = now + Duration::from_micros(70);
        for number in 0..6 {
            prop_assert_eq!(at_once.figure(node(number), later), late.figure(node(number), later));
        }
    }

    #[test]
    fn it_never_outgrows_its_bound(heard: Vec<(u8, u16)>, peers_max in 0_usize..9) {
        let mut table = LoadTable::new(peers_max, 7);
        for (number, millis) in heard {
            table.learn(node(number), figure(1), at(u64::from(millis)));
            table.anticipate(node(number / 2), Duration::from_millis(1), || 1, at(u64::from(millis)));
            prop_assert!(table.len() <= peers_max.max(1));
        }
    }
}
