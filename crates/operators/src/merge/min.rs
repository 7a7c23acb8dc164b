//! The least.

use super::{Merge, MergeError};
use serde::{Deserialize, Serialize};

/// The least of some values, or none of none. What compares equal must be equal to the byte, since of equals
/// either may stay; floating-point numbers compare as [`TotalF64`](super::TotalF64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Min<T>(pub Option<T>);

impl<T> Min<T> {
    /// The least of one.
    pub fn of(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Default for Min<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Ord> Merge for Min<T> {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        // Spelled out, because `None` must lose on both sides.
        if self.0.is_none() || other.0.is_some() && other.0 < self.0 {
            self.0 = other.0;
        }
        Ok(())
    }
}

impl<T: Ord> FromIterator<T> for Min<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::TotalF64;
    use crate::merge::laws::hold_to_the_laws;
    use proptest::prelude::*;

    hold_to_the_laws!(laws_over_numbers, any::<Option<i64>>().prop_map(Min));
    hold_to_the_laws!(laws_over_texts, "[ab]{0,3}".prop_map(Min::of));
    hold_to_the_laws!(laws_over_floats, any::<f64>().prop_map(|x| Min::of(TotalF64(x))));

    #[test]
    fn is_the_least() {
        assert_eq!([3, 1, 2].into_iter().collect::<Min<i32>>(), Min::of(1));
        assert_eq!([0i32; 0].into_iter().collect::<Min<i32>>(), Min::default());
    }
}
