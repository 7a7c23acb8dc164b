//! A guest for a custom typed partial: the least, the greatest and the number of some figures.

use serde::{Deserialize, Serialize};
use treefold_guest::{Reduce, export_reduce};
use treefold_operators::fold::{Count, Max, Merge, MergeError, Min};
use treefold_operators::folding;

#[derive(Serialize, Deserialize)]
struct Spread {
    least: Min<f64>,
    greatest: Max<f64>,
    count: Count,
}

impl Merge for Spread {
    fn merge(&mut self, other: Self) -> Result<(), MergeError> {
        self.least.merge(other.least)?;
        self.greatest.merge(other.greatest)?;
        self.count.merge(other.count)
    }
}

struct Spreads;

impl Reduce for Spreads {
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> treefold_guest::Result {
        treefold_guest_operators::reduce(&folding::<Spread>("spread"), a, b, params, out)
    }
}

export_reduce!(Spreads);
