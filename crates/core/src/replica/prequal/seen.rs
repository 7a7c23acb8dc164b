//! The numbers in flight of recent answers, and the quantile above which a node is hot.
//!
//! Hot is relative. In a busy hour every node has more in flight than the busiest one had at night, and some
//! nodes are still better than others. So the threshold is a quantile of the last answers of all nodes.

use alloc::vec::Vec;

/// The number of last answers that are used.
pub const SEEN_MAX: usize = 128;

/// A node above this quantile is hot. Prequal's experiments found 2^−0.25 good; 0.6 came close.
pub const HOT_QUANTILE: f64 = 0.840_896_415_253_714_6;

/// The numbers in flight of the last answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    numbers: Vec<u32>,
    /// The index that is replaced next, once there are [`SEEN_MAX`].
    next: usize,
}

impl Seen {
    /// No answers yet.
    pub const fn new() -> Self {
        Self { numbers: Vec::new(), next: 0 }
    }

    /// Records the number in flight of an answer.
    pub fn note(&mut self, in_flight: u32) {
        if self.numbers.len() < SEEN_MAX {
            self.numbers.push(in_flight);
        } else {
            self.numbers[self.next] = in_flight;
            self.next = (self.next + 1) % SEEN_MAX;
        }
    }

    /// A node with more in flight than this is hot. Before the first answer no node is.
    pub fn hot_above(&self) -> u32 {
        if self.numbers.is_empty() {
            return u32::MAX;
        }
        let mut sorted = self.numbers.clone();
        let at = (HOT_QUANTILE * (sorted.len() - 1) as f64) as usize;
        *sorted.select_nth_unstable(at).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(numbers: impl IntoIterator<Item = u32>) -> Seen {
        let mut seen = Seen::new();
        numbers.into_iter().for_each(|number| seen.note(number));
        seen
    }

    #[test]
    fn about_a_sixth_of_the_answers_is_hot() {
        let hot_above = seen((0..SEEN_MAX as u32).rev()).hot_above();
        assert_eq!(hot_above, 106);
    }

    #[test]
    fn equal_nodes_are_never_hot() {
        assert_eq!(seen([3; 40]).hot_above(), 3);
        assert_eq!(Seen::new().hot_above(), u32::MAX);
    }

    #[test]
    fn only_the_last_answers_count() {
        let mut seen = seen([1_000; 500]);
        (0..SEEN_MAX).for_each(|_| seen.note(2));
        assert_eq!((seen.hot_above(), seen.numbers.len()), (2, SEEN_MAX));
    }
}
