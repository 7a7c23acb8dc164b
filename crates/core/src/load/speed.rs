//! How fast other nodes are, apart from how busy they are.
//!
//! A node that is slow has no queue while nobody asks it, so load figures alone would choose it again as soon as it is idle. So a
//! front also keeps, for each aggregation, the time of one partition's local at each node:
//!
//! ```text
//!   usual  = the lower median of the nodes' times
//!   excess = max(0, time − slow_factor·usual − standard error of the time)
//! ```
//!
//! The excess is added to a node's load where replicas are compared and where trees are formed. While no node is apart from the
//! others, it is zero for all of them, and loads alone decide, as in the papers. If all nodes are slow alike, the usual time rises,
//! and none is slow. A median does that; a mean would follow the one node that is apart.
//!
//! **Times are of elapsed time**, so that a local which waits, on a disk, a process or another service, is known for what it
//! takes. A failed local is no sample: failures are fast. A node that a replica has beaten takes at least the time that was waited.
//! It may only have been busy, so such times count from the second in a row on; they add up until one of its locals ends, because
//! a node of which only the quick locals are waited for would seem quick.
//!
//! **A node that is avoided gives no samples.** So its figure is *rechecked*: after [`RECHECK`] without a sample, one call treats
//! the node as an average one that is one local ahead of its equals, so that it is asked; other calls go on to avoid it. The next
//! sample replaces the old figure. While the node proves slow, the pause between rechecks doubles, up to [`RECHECK_MAX`]. Three
//! quarters to all of a pause are drawn, so that fronts do not ask together.

use crate::hash::IdHash;
use crate::id::NodeId;
use crate::load::cost::Ewma;
use crate::load::figure::Took;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// Aggregations whose times are kept. The one that was used longest ago makes room.
pub const NAMES_MAX: usize = 32;

/// The first pause before a slow node is rechecked.
pub const RECHECK: Duration = Duration::from_secs(10);

/// The longest pause.
pub const RECHECK_MAX: Duration = Duration::from_secs(40);

/// With this factor, no node is slow.
const NEVER_SLOW: f64 = 1_000.0;

/// The least share of a pause that is drawn.
const PAUSE_LEAST: f64 = 0.75;

/// A node that was beaten so many times since one of its locals has ended is not just busy.
const BEATEN_LEAST: u32 = 2;

/// The weight of the newest sample.
const WEIGHT: f64 = 0.1;

/// A mean with this weight has the error of so many even samples.
const EVEN_SAMPLES: f64 = 2.0 / WEIGHT - 1.0;

/// The deviation that is assumed at least, as a share of the mean. With it, a node is slow by its first sample if that is more than
/// eight times the usual time, and by many if their mean is more than 2.4 times that.
const DEVIATION_LEAST: f64 = 0.75;

/// The excess of each slow node in ms, for one aggregation. It is empty as long as no node is apart. Below zero, it is that of a
/// node which the call rechecks.
pub type Excess = BTreeMap<NodeId, f64>;

/// The times of nodes, by aggregation.
#[derive(Clone, Debug)]
pub struct Speeds {
    by_name: BTreeMap<Arc<str>, OfName>,
    slow_factor: f64,
    peers_max: usize,
    seed: u64,
    moves: u64,
}

/// A node that is slow for one aggregation.
#[derive(Clone, Copy, Debug)]
pub struct Slow<'a> {
    /// The aggregation, or the place of a relay.
    pub name: &'a Arc<str>,
    /// The node.
    pub node: NodeId,
    /// The mean of its times.
    pub time: Duration,
    /// The lower median of all nodes' times.
    pub usual: Duration,
    /// When it became slow.
    pub since: Instant,
}

/// The nodes' times for one aggregation.
#[derive(Clone, Debug)]
struct OfName {
    rows: HashMap<NodeId, Row, IdHash>,
    /// By the rows, unless they have changed since.
    excess: Excess,
    usual_ms: f64,
    is_stale: bool,
    used_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    time: Ewma,
    /// How often it was beaten since a local has ended, and the sum of the times that were waited.
    beaten: (u32, Duration),
    sampled_at: Instant,
    /// Set while the node is slow.
    recheck: Option<Recheck>,
}

#[derive(Clone, Copy, Debug)]
struct Recheck {
    /// Since when the node is slow.
    since: Instant,
    at: Instant,
    pause: Duration,
    /// A call asks the node although it is slow: the next sample replaces the figure.
    is_open: bool,
}

impl Recheck {
    fn after(pause: Duration, now: Instant, random: &mut Random) -> Self {
        let share = PAUSE_LEAST + (1.0 - PAUSE_LEAST) * random.unit();
        Self { since: now, at: now + pause.mul_f64(share), pause, is_open: false }
    }
}

impl Row {
    fn observe(&mut self, took: Took, now: Instant) {
        let is_rechecked = self.recheck.as_mut().is_some_and(|recheck| core::mem::take(&mut recheck.is_open));
        if is_rechecked && !took.at_least {
            self.time = Ewma::new(WEIGHT);
        }
        if let Some(recheck) = &mut self.recheck {
            recheck.at = recheck.at.max(now + recheck.pause.mul_f64(PAUSE_LEAST));
        }
        if took.at_least {
            let (times, waited) = (self.beaten.0.saturating_add(1), self.beaten.1 + took.time);
            self.beaten = (times, waited);
            if times >= BEATEN_LEAST {
                let mean = self.time.mean_ms().map(Duration::from_millis_f64).unwrap_or_default();
                self.time.observe(waited.max(mean));
            }
        } else {
            self.beaten = Default::default();
            self.time.observe(took.time);
        }
        self.sampled_at = now;
    }

    fn excess_ms(&self, usual_ms: f64, slow_factor: f64) -> f64 {
        let Some(mean_ms) = self.time.mean_ms() else { return 0.0 };
        // A few samples say little about their deviation.
        let deviation_ms = self.time.deviation_ms().unwrap_or(0.0).max(DEVIATION_LEAST * mean_ms);
        let error_ms = deviation_ms / libm::sqrt(f64::from(self.time.count()).min(EVEN_SAMPLES));
        (mean_ms - slow_factor * usual_ms - error_ms).max(0.0)
    }
}

impl Speeds {
    /// Nothing is known. A time is apart if it is more than `slow_factor` times the usual one.
    pub fn new(slow_factor: f64, peers_max: usize, seed: u64) -> Self {
        Self { by_name: BTreeMap::new(), slow_factor, peers_max: peers_max.max(1), seed, moves: 0 }
    }

    /// One partition's local has taken `took` at `node`.
    pub fn learn(&mut self, name: &Arc<str>, node: NodeId, took: Took, now: Instant) {
        let (peers_max, seed) = (self.peers_max, self.seed);
        if !self.by_name.contains_key(name) && self.by_name.len() >= NAMES_MAX {
            let oldest =
                self.by_name.iter().min_by_key(|(_, of)| of.used_at).map(|(name, _)| Arc::clone(name));
            oldest.map(|name| self.by_name.remove(&name));
        }
        let of = self.by_name.entry(Arc::clone(name)).or_insert_with(|| OfName {
            rows: HashMap::with_hasher(IdHash::new(seed)),
            excess: Excess::new(),
            usual_ms: 0.0,
            is_stale: false,
            used_at: now,
        });
        if of.rows.len() >= peers_max && !of.rows.contains_key(&node) {
            let oldest = of.rows.iter().min_by_key(|(_, row)| row.sampled_at).map(|(&node, _)| node);
            oldest.map(|node| (of.rows.remove(&node), of.excess.remove(&node)));
        }
        let fresh =
            || Row { time: Ewma::new(WEIGHT), beaten: Default::default(), sampled_at: now, recheck: None };
        of.rows.entry(node).or_insert_with(fresh).observe(took, now);
        of.is_stale = true;
        of.used_at = now;
    }

    /// A number that rises whenever some node becomes slow or ceases to be.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// True if some node is slow for some aggregation, as far as this was settled.
    pub fn are_some_slow(&self) -> bool {
        self.by_name.values().any(|of| !of.excess.is_empty())
    }

    /// Finds out who is slow.
    pub fn settle(&mut self, name: &str, now: Instant, random: &mut Random) {
        if let Some(of) = self.by_name.get_mut(name) {
            self.moves += u64::from(of.settle(self.slow_factor, now, random));
        }
    }

    /// The excess of each slow node.
    pub fn of(&mut self, name: &str, now: Instant, random: &mut Random) -> Option<&Excess> {
        self.settle(name, now, random);
        let of = self.by_name.get_mut(name)?;
        of.used_at = now;
        (!of.excess.is_empty()).then_some(&of.excess)
    }

    /// The excess of each slow node for one call, which may be the one that asks a slow node again.
    pub fn for_call(&mut self, name: &str, now: Instant, random: &mut Random) -> Option<Excess> {
        let mut excess = self.of(name, now, random)?.clone();
        let of = self.by_name.get_mut(name)?;
        let due = excess
            .keys()
            .copied()
            .find(|node| of.rows[node].recheck.is_some_and(|recheck| recheck.at <= now));
        if let Some(node) = due {
            let row = of.rows.get_mut(&node).expect("invariant: a slow node has a row");
            let before = row.recheck.expect("invariant: only a slow node is due");
            let pause = before.pause.mul_f64(2.0).min(RECHECK_MAX);
            let next = Recheck::after(pause, now, random);
            row.recheck = Some(Recheck { since: before.since, is_open: true, ..next });
            excess.insert(node, -of.usual_ms);
        }
        Some(excess)
    }

    /// The slow nodes by name, each with its time, the usual time, and since when it is slow.
    pub fn slow(&self) -> impl Iterator<Item = Slow<'_>> {
        self.by_name.iter().flat_map(|(name, of)| {
            of.excess.keys().filter_map(move |&node| {
                let row = of.rows.get(&node)?;
                let time = Duration::from_millis_f64(row.time.mean_ms()?);
                let usual = Duration::from_millis_f64(of.usual_ms);
                Some(Slow { name, node, time, usual, since: row.recheck?.since })
            })
        })
    }

    /// Forgets a node that has left or died.
    pub fn forget(&mut self, node: NodeId) {
        for of in self.by_name.values_mut() {
            of.excess.remove(&node);
            of.is_stale |= of.rows.remove(&node).is_some();
        }
    }
}

impl OfName {
    /// Returns true if other nodes are slow than before.
    fn settle(&mut self, slow_factor: f64, now: Instant, random: &mut Random) -> bool {
        if !core::mem::take(&mut self.is_stale) {
            return false;
        }
        let before = core::mem::take(&mut self.excess);
        self.find_slow(slow_factor, now, random);
        !before.keys().eq(self.excess.keys())
    }

    fn find_slow(&mut self, slow_factor: f64, now: Instant, random: &mut Random) {
        let mut times: Vec<f64> = self.rows.values().filter_map(|row| row.time.mean_ms()).collect();
        if times.is_empty() || slow_factor >= NEVER_SLOW {
            return;
        }
        let middle = (times.len() - 1) / 2;
        let (_, &mut usual_ms, _) = times.select_nth_unstable_by(middle, f64::total_cmp);
        self.usual_ms = usual_ms;
        for (&node, row) in &mut self.rows {
            let excess_ms = row.excess_ms(usual_ms, slow_factor);
            if excess_ms > 0.0 {
                self.excess.insert(node, excess_ms);
                if row.recheck.is_none() {
                    row.recheck = Some(Recheck::after(RECHECK, now, random));
                }
            } else {
                row.recheck = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeId {
        NodeId::new(([10, 0, 0, number], 7700).into(), 1)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    /// Samples of nodes, in ms, all at one time.
    struct Front {
        speeds: Speeds,
        name: Arc<str>,
        random: Random,
    }

    impl Front {
        fn new() -> Self {
            Self { speeds: Speeds::new(2.0, 16, 7), name: "s/a".into(), random: Random::new(1) }
        }

        fn learn(&mut self, now: u64, millis: &[(u8, u64)]) {
            for &(number, took) in millis {
                let took = Took::all(Duration::from_millis(took));
                self.speeds.learn(&self.name, node(number), took, at(now));
            }
        }

        /// The nodes that a call avoids.
        fn avoided(&mut self, now: u64) -> Vec<NodeId> {
            let excess = self.speeds.for_call("s/a", at(now), &mut self.random);
            excess.into_iter().flatten().filter(|&(_, ms)| ms > 0.0).map(|(node, _)| node).collect()
        }
    }

    #[test]
    fn only_a_node_that_is_apart_is_slow_and_nobody_if_all_are_slow_alike() {
        let mut front = Front::new();
        assert!(front.avoided(0).is_empty());
        front.learn(0, &[(1, 3), (2, 300)]);
        assert_eq!(front.avoided(0), [node(2)], "of two nodes the quicker one is usual");
        front.learn(0, &[(3, 3), (4, 4), (5, 20)]);
        assert_eq!(front.avoided(0), [node(2)], "one sample of five times the usual time says nothing");
        for _ in 0..9 {
            front.learn(0, &[(5, 20), (4, 4), (1, 3)]);
        }
        assert_eq!(front.avoided(0), [node(2), node(5)], "ten samples do");
        let mut alike = Front::new();
        for _ in 0..9 {
            alike.learn(0, &[(1, 300), (2, 310), (3, 290)]);
        }
        assert!(alike.avoided(0).is_empty());
    }

    #[test]
    fn with_the_greatest_factor_no_node_is_slow() {
        let mut front = Front::new();
        front.speeds.slow_factor = NEVER_SLOW;
        front.learn(0, &[(1, 1), (2, 1), (3, 100_000)]);
        assert!(front.avoided(0).is_empty());
    }

    #[test]
    fn one_call_at_a_time_finds_out_whether_a_slow_node_has_recovered() {
        let mut front = Front::new();
        front.learn(0, &[(1, 3), (2, 300)]);
        let asks_at = |front: &mut Front, from: u64| {
            (from..).step_by(100).find(|&now| front.avoided(now).is_empty()).expect("it is asked again")
        };
        let mut last = 0;
        for (least, most) in [(7_500, 10_000), (15_000, 20_000), (30_000, 40_000), (30_000, 40_000)] {
            let asked = asks_at(&mut front, last);
            assert!((least..=most + 200).contains(&(asked - last)), "{last} and {asked}");
            assert_eq!(front.avoided(asked), [node(2)], "other calls avoid it until the sample comes");
            front.learn(asked, &[(2, 300)]);
            assert_eq!(front.avoided(asked), [node(2)]);
            last = asked;
        }
        let asked = asks_at(&mut front, last);
        front.learn(asked, &[(2, 4)]);
        assert!(front.avoided(asked).is_empty(), "its new time counts alone");
        front.learn(asked, &[(2, 300), (2, 300), (2, 300)]);
        let again = asks_at(&mut front, asked);
        assert!(again - asked <= 10_200, "the pauses begin anew");
    }

    #[test]
    fn a_node_that_nobody_waits_for_to_the_end_is_slow_and_stays_so() {
        let mut front = Front::new();
        front.learn(0, &[(1, 3), (2, 3)]);
        let waited = Took::at_least(Duration::from_millis(20));
        front.speeds.learn(&front.name, node(2), waited, at(0));
        assert!(front.avoided(0).is_empty(), "it may have been busy");
        for call in 1..4 {
            front.speeds.learn(&front.name, node(2), waited, at(call));
        }
        assert_eq!(front.avoided(4), [node(2)], "60 and 80 ms");
        assert!(front.avoided(10_010).is_empty(), "it is rechecked");
        front.speeds.learn(&front.name, node(2), waited, at(10_020));
        assert_eq!(
            front.avoided(10_020),
            [node(2)],
            "a time that was cut short is no proof that it is quick"
        );
        front.learn(40_000, &[(2, 3)]);
        assert_eq!(front.avoided(40_000), [node(2)], "this was no recheck");
        assert!(front.avoided(60_000).is_empty());
        front.learn(60_010, &[(2, 3)]);
        assert!(front.avoided(60_010).is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let mut speeds = Speeds::new(2.0, 2, 7);
        let took = Took::all(Duration::from_millis(3));
        for name in 0..2 * NAMES_MAX as u64 {
            let text: Arc<str> = alloc::format!("s/{name}").into();
            (0..9).for_each(|number| speeds.learn(&text, node(number), took, at(name)));
        }
        assert!(speeds.slow().next().is_none());
        let (latest, slow) =
            (Arc::clone(speeds.by_name.keys().last().expect("some")), Took::all(Duration::from_secs(9)));
        speeds.learn(&latest, node(7), slow, at(99));
        speeds.settle(&latest, at(99), &mut Random::new(1));
        assert_eq!(
            speeds.slow().map(|slow| (slow.node, slow.since)).collect::<Vec<_>>(),
            [(node(7), at(99))]
        );
        (10..12).for_each(|number| speeds.learn(&latest, node(number), took, at(100)));
        assert!(speeds.slow().next().is_none(), "it had to make room");
        (7..9).for_each(|number| speeds.learn(&latest, node(number), took, at(100)));
        assert_eq!(speeds.by_name.len(), NAMES_MAX);
        assert!(speeds.by_name.values().all(|of| of.rows.len() == 2));
        assert!(!speeds.by_name.contains_key("s/0"));
        speeds.forget(node(8));
        assert!(speeds.by_name.values().all(|of| !of.rows.contains_key(&node(8))));
    }
}
