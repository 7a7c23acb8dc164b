//! Aggregations whose reduce has parameters of another type than the local.

use crate::aggregation::{Aggregation, Partition, Placement};
use crate::codec::Body;
use crate::erased::taken;
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use treefold_core::wave::slice::Slice;

/// An [`Aggregation`] whose reduce has parameters of its own type (`I_LOCAL` and `I_REDUCE`, DAC §3.2).
///
/// Callers give the local's parameters as those of the call, and the reduce's with `reduce_params`. If they give none, the reduce
/// reads the call's parameters, so a type that reads both keeps old callers working. Every [`Aggregation`] is such an aggregation,
/// with one type for both.
///
/// ```
/// use treefold_operators::{Partition, Result, SeparateAggregation};
///
/// /// The greatest products of a vector and the rows of each partition.
/// struct Greatest;
///
/// impl SeparateAggregation for Greatest {
///     type Params = Vec<f32>;
///     /// The number of products to keep.
///     type ReduceParams = usize;
///     type Partial = Vec<f32>;
///
///     fn local(&self, partition: &Partition, query: &Vec<f32>) -> Result<Vec<f32>> {
///         let rows = partition.data_as::<Vec<Vec<f32>>>()?;
///         Ok(rows.iter().map(|row| row.iter().zip(query).map(|(a, b)| a * b).sum()).collect())
///     }
///
///     fn reduce(&self, mut a: Vec<f32>, b: Vec<f32>, k: &usize) -> Result<Vec<f32>> {
///         a.extend(b);
///         a.sort_by(|x, y| y.total_cmp(x));
///         a.truncate(*k);
///         Ok(a)
///     }
/// }
/// ```
pub trait SeparateAggregation: Send + Sync + 'static {
    /// Parameters that the caller passes for the local.
    type Params: Body + Sync;
    /// Parameters that the caller passes for the reduce.
    type ReduceParams: Body + Sync;
    /// Type of the partial results that travel up the tree, and of the result that the caller gets.
    type Partial: Body;

    /// Computes one partition's partial result; as [`Aggregation::local`].
    ///
    /// # Errors
    /// Any error makes this partition missing from the answer, with the error as the reason.
    fn local(&self, partition: &Partition, params: &Self::Params) -> Result<Self::Partial>;

    /// Merges two partials into one; as [`Aggregation::reduce`].
    ///
    /// # Errors
    /// Any error loses the contributions of both partials.
    fn reduce(
        &self,
        a: Self::Partial,
        b: Self::Partial,
        params: &Self::ReduceParams,
    ) -> Result<Self::Partial>;

    /// Merges several partials into one; as [`Aggregation::reduce_all`].
    ///
    /// # Errors
    /// After any error, the node reduces the same partials in pairs.
    fn reduce_all(&self, parts: Vec<Self::Partial>, params: &Self::ReduceParams) -> Result<Self::Partial> {
        let reduced = parts.into_iter().map(Ok).reduce(|a, b| self.reduce(a?, b?, params));
        reduced.unwrap_or_else(|| Err(OperatorError::new("there is no partial to merge")))
    }

    /// Merges encoded partials into one that is encoded; as [`Aggregation::reduce_encoded`].
    fn reduce_encoded(&self, parts: &[Bytes], params: &Self::ReduceParams) -> Option<Bytes> {
        let _ = (parts, params);
        None
    }

    /// Turns the last partial into the result; as [`Aggregation::finish`], with the parameters of the reduce.
    ///
    /// # Errors
    /// Any error becomes the error of the call.
    fn finish(&self, partial: Self::Partial, params: &Self::ReduceParams) -> Result<Self::Partial> {
        let _ = params;
        Ok(partial)
    }

    /// Returns the place where local and reduce run.
    fn placement(&self) -> Placement {
        Placement::Pool
    }

    /// Returns true if partials can be cut by key; as [`Aggregation::is_sliceable`].
    fn is_sliceable(&self) -> bool {
        false
    }

    /// Cuts a local's partial by key; as [`Aggregation::split`].
    ///
    /// # Errors
    /// Any error is reported as the local's error. The default implementation always fails.
    fn split(
        &self,
        partial: Self::Partial,
        slices: u32,
        params: &Self::Params,
    ) -> Result<Vec<Self::Partial>> {
        let _ = (partial, params);
        Err(OperatorError::new(format!("this aggregation can't cut its partials into {slices} slices")))
    }

    /// Returns true if [`local_slice`](Self::local_slice) makes a slice of a partial alone.
    fn gives_slices(&self) -> bool {
        self.is_sliceable()
    }

    /// Computes one slice of one partition's partial, and no other; as [`Aggregation::local_slice`].
    ///
    /// # Errors
    /// As [`local`](Self::local).
    fn local_slice(
        &self,
        partition: &Partition,
        slice: Slice,
        params: &Self::Params,
    ) -> Result<Self::Partial> {
        let partial = self.local(partition, params)?;
        taken(self.split(partial, slice.of(), params)?, slice)
    }

    /// Joins the folded parts of [`split`](Self::split); as [`Aggregation::join`].
    ///
    /// # Errors
    /// Any error loses the call's answer.
    fn join(&self, parts: Vec<Self::Partial>, params: &Self::ReduceParams) -> Result<Self::Partial> {
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or_else(|| OperatorError::new("there are no slices to join"))?;
        parts.try_fold(first, |joined, part| self.reduce(joined, part, params))
    }
}

impl<A: Aggregation> SeparateAggregation for A {
    type Params = A::Params;
    type ReduceParams = A::Params;
    type Partial = A::Partial;

    fn local(&self, partition: &Partition, params: &A::Params) -> Result<A::Partial> {
        Aggregation::local(self, partition, params)
    }

    fn reduce(&self, a: A::Partial, b: A::Partial, params: &A::Params) -> Result<A::Partial> {
        Aggregation::reduce(self, a, b, params)
    }

    fn reduce_all(&self, parts: Vec<A::Partial>, params: &A::Params) -> Result<A::Partial> {
        Aggregation::reduce_all(self, parts, params)
    }

    fn reduce_encoded(&self, parts: &[Bytes], params: &A::Params) -> Option<Bytes> {
        Aggregation::reduce_encoded(self, parts, params)
    }

    fn finish(&self, partial: A::Partial, params: &A::Params) -> Result<A::Partial> {
        Aggregation::finish(self, partial, params)
    }

    fn placement(&self) -> Placement {
        Aggregation::placement(self)
    }

    fn is_sliceable(&self) -> bool {
        Aggregation::is_sliceable(self)
    }

    fn split(&self, partial: A::Partial, slices: u32, params: &A::Params) -> Result<Vec<A::Partial>> {
        Aggregation::split(self, partial, slices, params)
    }

    fn gives_slices(&self) -> bool {
        Aggregation::gives_slices(self)
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &A::Params) -> Result<A::Partial> {
        Aggregation::local_slice(self, partition, slice, params)
    }

    fn join(&self, parts: Vec<A::Partial>, params: &A::Params) -> Result<A::Partial> {
        Aggregation::join(self, parts, params)
    }
}
