//! Ready waves, in the order in which they go to the filter or up.
//!
//! Waves of all endpoints ([`GATHERED`](super::lane::GATHERED)) go in the order in which they became ready. In
//! do-not-wait mode each endpoint has a lane of its own, and each of its packets is a wave. While the window is full,
//! packets wait here: up to a window from each own endpoint, and up to a window from each child, no matter how many
//! endpoints are below it. If the first to come were the first to go, a child with a hundred endpoints would get as
//! much of the way up as one endpoint, and at each further level as little again.
//!
//! So lanes share the way up by start-time fair queueing, as applications share processors
//! ([`schedule::fair`](crate::schedule::fair)), here by bytes. The next wave is the one with the least *start*. A
//! lane's waves start one after the other, and none starts before the *virtual time*, the latest start of a wave that
//! went, less a credit. A lane from below is often without a packet here, because its packets wait for room below. The
//! credit lets it have its due when one comes.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

/// The ready waves of a stream at a node.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Each wave's start, the number of its arrival, its lane and its key.
    waves: BinaryHeap<Reverse<(u64, u64, u32, u64)>>,
    virtual_bytes: u64,
    arrived: u64,
}

impl Ready {
    /// Adds a wave of a lane and key. `finish` is the end of its lane's last wave.
    pub(crate) fn push(
        &mut self,
        (lane, key): (u32, u64),
        bytes: usize,
        credit_bytes: usize,
        finish: &mut u64,
    ) {
        let start = self.virtual_bytes.saturating_sub(credit_bytes as u64).max(*finish);
        *finish = start.saturating_add(bytes as u64);
        self.arrived += 1;
        self.waves.push(Reverse((start, self.arrived, lane, key)));
    }

    /// Removes the wave whose turn it is: its lane and its key.
    pub(crate) fn pop(&mut self) -> Option<(u32, u64)> {
        let Reverse((start, _, lane, key)) = self.waves.pop()?;
        self.virtual_bytes = self.virtual_bytes.max(start);
        Some((lane, key))
    }

    /// Forgets all waves.
    pub(crate) fn clear(&mut self) {
        self.waves.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn waves_of_one_lane_keep_their_order() {
        let (mut ready, mut finish) = (Ready::default(), 0);
        [5, 3, 9].into_iter().for_each(|key| ready.push((0, key), 100, 0, &mut finish));
        let went: Vec<u64> = core::iter::from_fn(|| ready.pop()).map(|(_, key)| key).collect();
        assert_eq!(went, [5, 3, 9]);
    }

    #[test]
    fn a_lane_that_was_idle_has_a_bounded_credit() {
        let (mut ready, mut finishes) = (Ready::default(), [0; 2]);
        (0..20).for_each(|key| ready.push((1, key), 100, 300, &mut finishes[0]));
        (0..10).for_each(|_| assert_eq!(ready.pop().map(|(lane, _)| lane), Some(1)));
        (0..9).for_each(|key| ready.push((2, key), 100, 300, &mut finishes[1]));
        let next: Vec<u32> = core::iter::from_fn(|| ready.pop()).map(|(lane, _)| lane).take(8).collect();
        assert_eq!(next, [2, 2, 2, 2, 1, 2, 1, 2], "three waves ahead, then in turn");
    }

    #[test]
    fn a_lane_with_few_waves_does_not_wait_behind_one_with_many() {
        let (mut ready, mut finishes) = (Ready::default(), [0; 2]);
        (0..10).for_each(|key| ready.push((1, key), 100, 0, &mut finishes[0]));
        (0..3).for_each(|_| assert_eq!(ready.pop().map(|(lane, _)| lane), Some(1)));
        ready.push((2, 0), 100, 0, &mut finishes[1]);
        let next = [ready.pop(), ready.pop()].map(|wave| wave.map(|(lane, _)| lane));
        assert!(next.contains(&Some(2)), "{next:?}");
    }

    proptest! {
        /// Lanes that always have a wave here get the same number of bytes, up to their largest waves.
        #[test]
        fn lanes_get_equal_bytes(sizes in proptest::collection::vec(1usize..2_000, 2..8)) {
            let (mut ready, mut finishes) = (Ready::default(), alloc::vec![0; sizes.len()]);
            let mut went: BTreeMap<usize, u64> = BTreeMap::new();
            let mut push = |ready: &mut Ready, lane: usize| {
                ready.push((lane as u32, 0), sizes[lane], 0, &mut finishes[lane]);
            };
            (0..sizes.len()).for_each(|lane| push(&mut ready, lane));
            for _ in 0..500 {
                let (lane, _) = ready.pop().expect("each lane has a wave");
                let lane = lane as usize;
                *went.entry(lane).or_default() += sizes[lane] as u64;
                push(&mut ready, lane);
            }
            let most = went.values().max().copied().unwrap_or(0);
            let least = (0..sizes.len()).map(|lane| went.get(&lane).copied().unwrap_or(0)).min().unwrap_or(0);
            let largest = sizes.iter().max().copied().unwrap_or(0) as u64;
            prop_assert!(most - least <= 2 * largest, "{most} and {least}, waves up to {largest}");
        }
    }
}
