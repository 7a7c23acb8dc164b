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
use crate::erased::taken;
use crate::error::{OperatorError, Result};
use crate::fold::Merge;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;
use treefold_core::wave::slice::Slice;

/// An aggregation whose local is a closure and whose reduce is the partial's own [`Merge`]; see [`merging`].
pub struct Mergeable<F, P, M> {
    name: &'static str,
    placement: Placement,
    local: F,
    in_slices: Option<Box<InSlices<P, M>>>,
    types: PhantomData<fn(&P) -> M>,
}

/// Computes one slice of a partition's partial.
type InSlices<P, M> = dyn Fn(&Partition, &P, Slice) -> Result<M> + Send + Sync;

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
    Mergeable { name, placement: Placement::Measured, local, in_slices: None, types: PhantomData }
}

impl<F, P, M> Mergeable<F, P, M> {
    /// Returns the name with which its errors begin.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the closure that computes one slice of a partition's partial, as [`Aggregation::local_slice`] does.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold_operators::merge::{CONCATENATE_BYTES_MAX, Concatenate};
    /// use treefold_operators::{Aggregation, OperatorError, Partition, Result, Slice, merging, slice_range};
    ///
    /// /// Some rows of a partition, with the place of each.
    /// fn rows(partition: &Partition, range: std::ops::Range<usize>) -> Result<Concatenate<(u32, usize), u64>> {
    ///     let rows = &partition.data_as::<Vec<u64>>()?[range.clone()];
    ///     let entries = range.zip(rows).map(|(at, row)| ((partition.id, at), *row));
    ///     Ok(Concatenate::of(CONCATENATE_BYTES_MAX, entries)?)
    /// }
    ///
    /// let length = |partition: &Partition| Ok::<_, OperatorError>(partition.data_as::<Vec<u64>>()?.len());
    /// let all = merging("rows", move |partition: &Partition, (): &()| rows(partition, 0..length(partition)?))
    ///     .in_slices(move |partition, (), slice| rows(partition, slice_range(length(partition)?, slice)));
    ///
    /// let shard = Partition::new("table".into(), 0, 1, Arc::new(vec![5_u64, 6, 7, 8, 9]));
    /// let last = all.local_slice(&shard, Slice::alone(1, 2).unwrap(), &()).unwrap();
    /// assert_eq!(last.into_entries(), [((0, 2), 7), ((0, 3), 8), ((0, 4), 9)]);
    /// ```
    #[must_use]
    pub fn in_slices(
        mut self,
        slice: impl Fn(&Partition, &P, Slice) -> Result<M> + Send + Sync + 'static,
    ) -> Self {
        self.in_slices = Some(Box::new(slice));
        self
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

    fn gives_slices(&self) -> bool {
        M::IS_SLICEABLE || self.in_slices.is_some()
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &P) -> Result<M> {
        let Some(in_slices) = &self.in_slices else {
            return taken(self.split(self.local(partition, params)?, slice.of(), params)?, slice);
        };
        in_slices(partition, params, slice).map_err(|error| error.context(self.name))
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
