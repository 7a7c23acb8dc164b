//! The traits that the author of a service implements: a local and a reduce.
//!
//! The tree needs only this pair (DAC §3.1): `local` computes one partition's partial result, and `reduce`
//! merges two partials into one. The shape of the tree, and so the order in which partials are merged, is
//! chosen per call and differs between calls. `reduce` must therefore be associative and commutative; the
//! partials in [`merge`](crate::merge) are. Both functions receive the parameters, because a reduce often
//! needs them too (the k of a top-k, for example).
//!
//! An operator may run more than once for the same partition (a retry on a replica, a second request to a
//! straggler), and a repeated run must do no harm. If an operator fails or panics, only its partition is
//! lost.

use crate::codec::Body;
use crate::declared::Declared;
use crate::erased::taken;
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use std::any::{Any, type_name};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use treefold_core::id::PartitionId;
use treefold_core::wave::slice::Slice;

/// One partition of a service as an operator sees it; a clone shares the data.
#[derive(Clone)]
pub struct Partition {
    /// The service that the partition belongs to.
    pub service: Arc<str>,
    /// The partition's number, below `total`.
    pub id: PartitionId,
    /// The number of partitions of the service.
    pub total: u32,
    data: Arc<dyn Any + Send + Sync>,
}

impl Partition {
    /// Creates partition `id` of the `total` partitions of `service`. `data` is the value it was registered
    /// with.
    pub fn new(service: Arc<str>, id: PartitionId, total: u32, data: Arc<dyn Any + Send + Sync>) -> Self {
        Self { service, id, total, data }
    }

    /// Returns the partition's data if it is a `T`.
    pub fn data<T: Any>(&self) -> Option<&T> {
        self.data.downcast_ref()
    }

    /// Returns the partition's data as a `T`, for a service that registers only values of this type.
    ///
    /// # Errors
    /// If the data has another type; the error names the partition and the type.
    pub fn data_as<T: Any>(&self) -> Result<&T> {
        self.data().ok_or_else(|| self.not_a::<T>())
    }

    /// Returns the partition's data as a shared `T`, which futures and threads can keep beyond the call.
    ///
    /// # Errors
    /// As [`data_as`](Self::data_as).
    pub fn data_shared<T: Any + Send + Sync>(&self) -> Result<Arc<T>> {
        Arc::clone(&self.data).downcast().map_err(|_| self.not_a::<T>())
    }

    #[cold]
    fn not_a<T>(&self) -> OperatorError {
        let (service, id) = (&self.service, self.id);
        OperatorError::new(format!(
            "the data of partition {id} of {service} is not of type {}",
            type_name::<T>()
        ))
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{} of {}]", self.service, self.id, self.total)
    }
}

/// The place where an aggregation's operators run.
///
/// Handing work to a worker costs some microseconds. Work on the node's loop delays everything else that the
/// loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// Always on a worker.
    #[default]
    Pool,
    /// On the node's loop. The author promises that local and reduce never block and take only microseconds.
    Inline,
    /// Locals on a worker. Reduces run on the loop while their measured cost stays below about ten
    /// microseconds.
    Measured,
}

/// A named pair of a local and a reduce, with the types of its parameters and its partial.
///
/// ```
/// use treefold_operators::{Aggregation, Partition, Result};
///
/// /// Counts the lines that contain a word.
/// struct Matching;
///
/// impl Aggregation for Matching {
///     type Params = String;
///     type Partial = u64;
///
///     fn local(&self, partition: &Partition, word: &String) -> Result<u64> {
///         let lines = partition.data_as::<Vec<String>>()?;
///         Ok(lines.iter().filter(|line| line.contains(word)).count() as u64)
///     }
///
///     fn reduce(&self, a: u64, b: u64, _: &String) -> Result<u64> {
///         Ok(a + b)
///     }
/// }
/// ```
pub trait Aggregation: Send + Sync + 'static {
    /// Parameters that the caller passes.
    type Params: Body + Sync;
    /// Type of the partial results that travel up the tree, and of the result that the caller gets.
    type Partial: Body;

    /// Computes one partition's partial result.
    ///
    /// A local that takes long should ask [`cancelled`](crate::cancelled) now and then, and return
    /// [`OperatorError::cancelled`](crate::OperatorError::cancelled) if the answer is no longer wanted.
    ///
    /// # Errors
    /// Any error makes this partition missing from the answer, with the error as the reason.
    fn local(&self, partition: &Partition, params: &Self::Params) -> Result<Self::Partial>;

    /// Merges two partials into one; must be associative and commutative.
    ///
    /// # Errors
    /// Any error loses the contributions of both partials.
    fn reduce(&self, a: Self::Partial, b: Self::Partial, params: &Self::Params) -> Result<Self::Partial>;

    /// Merges several partials into one. The result must be that of [`reduce`](Self::reduce) in any order.
    ///
    /// A node that is busy folds all partials of a wave that have come meanwhile, up to sixteen. The default reduces each with
    /// the result of those before it. If partials are large, merge them in one pass instead: of eight sorted runs, merged in
    /// pairs, each entry is read and written up to seven times.
    ///
    /// # Errors
    /// After any error, the node reduces the same partials in pairs.
    fn reduce_all(&self, parts: Vec<Self::Partial>, params: &Self::Params) -> Result<Self::Partial> {
        let reduced = parts.into_iter().map(Ok).reduce(|a, b| self.reduce(a?, b?, params));
        reduced.unwrap_or_else(|| Err(OperatorError::new("there is no partial to merge")))
    }

    /// Merges encoded partials into one that is encoded, without decoding them whole. Returns `None` if it can't, which is the
    /// default; the node then decodes the partials and reduces them.
    ///
    /// The result must be that of [`reduce_all`](Self::reduce_all), encoded. It may leave unread what the result does not need:
    /// of eight lists of the best k entries, seven eighths.
    /// [`codec::in_place`](crate::codec::in_place) reads MessagePack in this way.
    fn reduce_encoded(&self, parts: &[Bytes], params: &Self::Params) -> Option<Bytes> {
        let _ = (parts, params);
        None
    }

    /// Turns the last partial into the result. The caller runs it once; the default returns the partial
    /// unchanged.
    ///
    /// # Errors
    /// Any error becomes the error of the call.
    fn finish(&self, partial: Self::Partial, params: &Self::Params) -> Result<Self::Partial> {
        let _ = params;
        Ok(partial)
    }

    /// Returns the place where local and reduce run.
    fn placement(&self) -> Placement {
        Placement::Pool
    }

    /// Returns true if partials can be cut by key. A call may then fold its slices side by side: see
    /// [`split`](Self::split).
    fn is_sliceable(&self) -> bool {
        false
    }

    /// Cuts a partial by key into `slices` parts; some may be empty.
    ///
    /// A key's part may depend only on the key and on `slices`. Folding the parts with the same number and
    /// joining the results must give the same result as folding the whole: `join(reduce(aᵢ, bᵢ) for each i) =
    /// reduce(a, b)`.
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

    /// Returns true if [`local_slice`](Self::local_slice) makes a slice of a partial alone. By default, this is
    /// [`is_sliceable`](Self::is_sliceable).
    fn gives_slices(&self) -> bool {
        self.is_sliceable()
    }

    /// Computes one slice of one partition's partial, and no other.
    ///
    /// A caller may ask for one slice after another. A partial that is larger than memory then passes in slices, if this
    /// function reads and makes no more than the slice. The default computes the whole partial, cuts it and keeps the slice:
    /// right, but with the work and the memory of the whole for each slice. [`slice_range`](crate::slice_range) and
    /// [`slice_of`](crate::merge::slice_of) say which rows and keys a slice has.
    ///
    /// The slices of all partitions with the same number are folded with [`reduce`](Self::reduce). They are not joined.
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

    /// Joins the folded parts of [`split`](Self::split), given in order, into one partial. The default
    /// reduces them.
    ///
    /// # Errors
    /// Any error loses the call's answer.
    fn join(&self, parts: Vec<Self::Partial>, params: &Self::Params) -> Result<Self::Partial> {
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or_else(|| OperatorError::new("there are no slices to join"))?;
        parts.try_fold(first, |joined, part| self.reduce(joined, part, params))
    }
}

/// An [`Aggregation`] whose operators wait for something (a disk, another server) instead of computing.
///
/// Its operators run as tasks, not on workers, so they must not block a thread.
pub trait AsyncAggregation: Send + Sync + 'static {
    /// Parameters that the caller passes.
    type Params: Body + Sync;
    /// Type of the partial results that travel up the tree, and of the result that the caller gets.
    type Partial: Body;

    /// Computes one partition's partial result; as [`Aggregation::local`]. The future is dropped when the
    /// answer is no longer wanted.
    fn local(
        &self,
        partition: Partition,
        params: Arc<Self::Params>,
    ) -> impl Future<Output = Result<Self::Partial>> + Send;

    /// Returns true if [`local_slice`](Self::local_slice) makes a slice of a partial alone.
    fn gives_slices(&self) -> bool {
        false
    }

    /// Computes one slice of one partition's partial; as [`Aggregation::local_slice`]. The default fails.
    fn local_slice(
        &self,
        partition: Partition,
        slice: Slice,
        params: Arc<Self::Params>,
    ) -> impl Future<Output = Result<Self::Partial>> + Send {
        let _ = (partition, params);
        async move {
            let of = slice.of();
            Err(OperatorError::new(format!("this aggregation can't make one of {of} slices alone")))
        }
    }

    /// Merges two partials into one; as [`Aggregation::reduce`].
    fn reduce(
        &self,
        a: Self::Partial,
        b: Self::Partial,
        params: Arc<Self::Params>,
    ) -> impl Future<Output = Result<Self::Partial>> + Send;

    /// Turns the last partial into the result; as [`Aggregation::finish`].
    ///
    /// # Errors
    /// Any error becomes the error of the call.
    fn finish(&self, partial: Self::Partial, params: &Self::Params) -> Result<Self::Partial> {
        let _ = params;
        Ok(partial)
    }

    /// Returns the ready-made reduce that this reduce is, if it is one; as
    /// [`Operator::declared`](crate::erased::Operator::declared).
    fn declared(&self) -> Option<Declared> {
        None
    }

    /// Returns true if a waiting operator still occupies one of the node's processors.
    ///
    /// If true, the load index and the queue count it as work. If false, any number of operators may wait at
    /// the same time.
    fn holds_processor(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_another_type_is_an_error_that_names_partition_and_type() {
        let partition = Partition::new("words".into(), 3, 8, Arc::new(vec![1u8, 2]));
        assert_eq!(partition.data::<Vec<u8>>(), Some(&vec![1, 2]));
        assert_eq!(*partition.data_shared::<Vec<u8>>().unwrap(), [1, 2]);
        let refused = partition.data_as::<String>().unwrap_err().to_string();
        assert_eq!(refused, "the data of partition 3 of words is not of type alloc::string::String");
        assert_eq!(
            partition.data_shared::<u8>().unwrap_err().to_string(),
            refused.replace("alloc::string::String", "u8")
        );
    }
}
