//! An aggregation from one closure: the closure computes one partition's partial, and a ready type merges two
//! partials.
//!
//! ```
//! use std::sync::Arc;
//! use treefold_operators::merge::Count;
//! use treefold_operators::{Aggregation, Partition, merging};
//!
//! let lines = merging("lines", |partition: &Partition, word: &String| {
//!     let lines = partition.data_as::<Vec<String>>()?;
//!     Ok(Count(lines.iter().filter(|line| line.contains(word)).count() as u64))
//! });
//!
//! let shard = Partition::new("logs".into(), 0, 1, Arc::new(vec!["an error".to_string(), "fine".to_string()]));
//! assert_eq!(lines.local(&shard, &"error".to_string()).unwrap(), Count(1));
//! ```

use crate::aggregation::{Aggregation, Partition, Placement};
use crate::codec::Body;
use crate::error::{OperatorError, Result};
use crate::fold::Merge;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;

/// An aggregation whose local is a closure and whose reduce is the partial's own [`Merge`]; see [`merging`].
pub struct Mergeable<F, P, M> {
    name: &'static str,
    placement: Placement,
    local: F,
    types: PhantomData<fn(&P) -> M>,
}

/// Creates an aggregation that calls `local` on each partition and merges the results.
///
/// Its errors begin with `name`. Locals go to a worker; merges stay on the loop while they are measured to be
/// cheap ([`Placement::Measured`]).
pub fn merging<F, P, M>(name: &'static str, local: F) -> Mergeable<F, P, M>
where
    F: Fn(&Partition, &P) -> Result<M> + Send + Sync + 'static,
    P: Body + Sync,
    M: Body + Merge,
{
    Mergeable { name, placement: Placement::Measured, local, types: PhantomData }
}

impl<F, P, M> Mergeable<F, P, M> {
    /// Returns the name with which its errors begin.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the place where it runs.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }
}

impl<F, P, M> Aggregation for Mergeable<F, P, M>
where
    F: Fn(&Partition, &P) -> Result<M> + Send + Sync + 'static,
    P: Body + Sync,
    M: Body + Merge,
{
    type Params = P;
    type Partial = M;

    fn local(&self, partition: &Partition, params: &P) -> Result<M> {
        (self.local)(partition, params).map_err(|error| error.context(self.name))
    }

    fn reduce(&self, mut a: M, b: M, _: &P) -> Result<M> {
        a.merge(b).map_err(|error| OperatorError::from(error).context(self.name))?;
        Ok(a)
    }

    fn reduce_all(&self, parts: Vec<M>, _: &P) -> Result<M> {
        let mut parts = parts.into_iter();
        let mut total = parts.next().ok_or_else(|| OperatorError::new("there is no partial to merge"))?;
        total.merge_all(parts.collect()).map_err(|error| OperatorError::from(error).context(self.name))?;
        Ok(total)
    }

    fn reduce_encoded(&self, parts: &[Bytes], _: &P) -> Option<Bytes> {
        M::merge_encoded(parts)
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn is_sliceable(&self) -> bool {
        M::IS_SLICEABLE
    }

    fn split(&self, partial: M, slices: u32, _: &P) -> Result<Vec<M>> {
        partial.split(slices).map_err(|error| OperatorError::from(error).context(self.name))
    }

    fn join(&self, parts: Vec<M>, _: &P) -> Result<M> {
        M::join(parts).map_err(|error| OperatorError::from(error).context(self.name))
    }
}

impl<F, P, M> fmt::Debug for Mergeable<F, P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mergeable").field("name", &self.name).field("placement", &self.placement).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erased::erase;
    use crate::fold::Sum;
    use std::sync::Arc;

    fn partition(figure: i64) -> Partition {
        Partition::new("figures".into(), 0, 1, Arc::new(figure))
    }

    #[test]
    fn a_service_is_one_closure() {
        let total = erase(merging("total", |partition: &Partition, (): &()| Ok(Sum(*partition.data_as()?))));
        let local = |figure| total.local(&partition(figure), &Bytes::new()).now().unwrap().unwrap();
        let sum = total.reduce(local(40), local(2), &Bytes::new()).now().unwrap().unwrap();
        assert_eq!(Sum::decode(&sum), Ok(Sum(42)));
        assert_eq!(total.placement(), Placement::Measured);
    }

    #[test]
    fn errors_begin_with_its_name() {
        let total = merging("total", |partition: &Partition, (): &()| Ok(Sum(*partition.data_as()?)));
        let refused = total.reduce(Sum(i64::MAX), Sum(1), &()).unwrap_err().to_string();
        assert_eq!(refused, "total: overflow: the sum does not fit into 64 bits");
        let no_figure = Partition::new("figures".into(), 0, 1, Arc::new("text"));
        assert!(
            total
                .local(&no_figure, &())
                .unwrap_err()
                .to_string()
                .starts_with("total: the data of partition 0 of figures")
        );
    }
}
