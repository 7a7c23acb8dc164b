//! The mean, as what it is made of: means of means would weigh partitions by nothing.

use super::{Merge, MergeError};
use serde::{Deserialize, Serialize};

/// A sum and how many it is of. The sum rounds as [`FloatSum`](super::FloatSum) does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Average {
    /// The sum of the values.
    pub sum: f64,
    /// How many values.
    pub count: u64,
}

impl Average {
    /// The mean; `None` of no values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Default for Average {
    fn default() -> Self {
        Self { sum: super::FloatSum::default().0, count: 0 }
    }
}

impl Merge for Average {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.sum += other.sum;
        self.count = self.count.checked_add(other.count).ok_or(MergeError::Overflow { figure: "count" })?;
        Ok(())
    }
}

impl FromIterator<f64> for Average {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        values
            .into_iter()
            .fold(Self::default(), |so_far, value| Self { sum: so_far.sum + value, count: so_far.count + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::laws::{self, hold_to_the_laws};
    use proptest::prelude::*;

    // Whole numbers, on which floating-point sums are exact.
    fn average() -> impl Strategy<Value = Average> {
        (-1_000_000i32..1_000_000, 0u64..1 << 50)
            .prop_map(|(sum, count)| Average { sum: f64::from(sum), count })
    }

    hold_to_the_laws!(laws_of_average, average());

    #[test]
    fn weighs_values_and_not_partitions() {
        let (many, one): (Average, Average) =
            ([1.0, 1.0, 1.0].into_iter().collect(), [5.0].into_iter().collect());
        assert_eq!(laws::merged(many, one).mean(), Some(2.0));
        assert_eq!(Average::default().mean(), None);
    }

    #[test]
    fn overflow_is_an_error() {
        let mut most = Average { sum: 0.0, count: u64::MAX };
        let refused = most.merge(Average { sum: 0.0, count: 1 });
        assert_eq!(refused, Err(MergeError::Overflow { figure: "count" }));
    }
}
