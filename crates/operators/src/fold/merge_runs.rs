//! A merge of many sorted runs in one pass. [`side_by_side`](super::side_by_side()) merges two.
//!
//! A tournament decides which run has the next entry. Each inner node of a binary tree remembers the run that lost there, so a
//! step compares the next entry of one run with one other entry for each level: three times for eight runs. An entry is moved
//! once, whereas merges in pairs move it once for each level.

use std::cmp::Ordering;

/// Walks runs that are sorted by `order` together, least entry first. Of equal entries, those of earlier runs come first.
///
/// ```
/// use treefold_operators::fold::merge_runs;
///
/// let all: Vec<u32> = merge_runs([vec![1, 4], vec![], vec![2, 4, 5]], u32::cmp).collect();
/// assert_eq!(all, [1, 2, 4, 4, 5]);
/// ```
pub fn merge_runs<T, R: IntoIterator<Item = T>>(
    runs: impl IntoIterator<Item = R>,
    order: impl Fn(&T, &T) -> Ordering,
) -> impl Iterator<Item = T> {
    let mut runs: Vec<R::IntoIter> = runs.into_iter().map(R::into_iter).collect();
    let mut tournament = Tournament::of(runs.iter_mut().map(Iterator::next).collect(), order);
    std::iter::from_fn(move || {
        let winner = tournament.losers.first().copied()?;
        tournament.replace(winner, runs[winner].next())
    })
}

struct Tournament<T, F> {
    /// The next entry of each run; `None` for a run that has ended.
    heads: Vec<Option<T>>,
    /// The winner, and behind it the loser at each inner node. The children of node n are 2n and 2n + 1, and the leaves follow
    /// the inner nodes.
    losers: Vec<usize>,
    order: F,
}

impl<T, F: Fn(&T, &T) -> Ordering> Tournament<T, F> {
    fn of(heads: Vec<Option<T>>, order: F) -> Self {
        let runs = heads.len();
        let mut tournament = Self { heads, losers: vec![0; runs], order };
        let mut winners: Vec<usize> = (0..2 * runs).map(|node| node.saturating_sub(runs)).collect();
        for node in (1..runs).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if tournament.beats(b, a) { (b, a) } else { (a, b) };
            (winners[node], tournament.losers[node]) = (winner, loser);
        }
        if let Some(first) = tournament.losers.first_mut() {
            *first = winners[1];
        }
        tournament
    }

    /// True if run `a` has the next entry, of these two.
    #[inline]
    fn beats(&self, a: usize, b: usize) -> bool {
        match (&self.heads[a], &self.heads[b]) {
            (Some(ours), Some(theirs)) => (self.order)(ours, theirs).then(a.cmp(&b)).is_lt(),
            (ours, _) => ours.is_some(),
        }
    }

    /// Replaces the winner's entry by its run's next one, and returns it.
    #[inline]
    fn replace(&mut self, winner: usize, next: Option<T>) -> Option<T> {
        let entry = std::mem::replace(&mut self.heads[winner], next);
        let mut winner = winner;
        let mut node = (self.heads.len() + winner) / 2;
        while node > 0 {
            let rival = self.losers[node];
            if self.beats(rival, winner) {
                (self.losers[node], winner) = (winner, rival);
            }
            node /= 2;
        }
        self.losers[0] = winner;
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each entry is of a run and a position there, so equal entries are told apart.
        #[test]
        fn every_entry_comes_once_in_order_and_equal_ones_by_run(
            runs in proptest::collection::vec(proptest::collection::vec(0u8..9, 0..9), 0..20),
        ) {
            let mut runs = runs;
            runs.iter_mut().for_each(|run| run.sort_unstable());
            let named = |(at, run): (usize, &Vec<u8>)| run.iter().map(move |&entry| (entry, at)).collect::<Vec<_>>();
            let runs: Vec<Vec<(u8, usize)>> = runs.iter().enumerate().map(named).collect();
            let mut sorted = runs.concat();
            sorted.sort_by_key(|&(entry, _)| entry);
            let merged: Vec<_> = merge_runs(runs, |a, b| a.0.cmp(&b.0)).collect();
            prop_assert_eq!(merged, sorted);
        }
    }
}
