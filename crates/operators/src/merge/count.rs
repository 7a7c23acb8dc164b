//! How many there are.

use super::{Merge, MergeError};
use serde::{Deserialize, Serialize};

/// A number of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Count(pub u64);

impl Merge for Count {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.0 = self.0.checked_add(other.0).ok_or(MergeError::Overflow { figure: "count" })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::laws::hold_to_the_laws;
    use proptest::prelude::*;

    hold_to_the_laws!(laws_of_count, (0u64..1 << 58).prop_map(Count));

    #[test]
    fn overflow_is_an_error() {
        assert_eq!(Count(u64::MAX).merge(Count(1)), Err(MergeError::Overflow { figure: "count" }));
    }
}
