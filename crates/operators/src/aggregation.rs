//! What an author of a service writes: a local and a reduce.
//!
//! The pair is all that a tree needs (DAC §3.1): `local` makes one partition's partial result, `reduce` makes
//! one partial of two. Which partials meet, where, and in which order is decided per call and differs between
//! calls, so `reduce` must be associative and commutative; [`merge`](crate::merge) has partials that are.
//! Parameters are given to both, since a reduce often needs them too (how many of the top?).
//!
//! An operator may be called again for the same partition (a retry on a replica, a straggler asked twice): it
//! must not matter. It may fail or panic: that is its partition's loss alone.

use crate::codec::Body;
use crate::error::{OperatorError, Result};
use std::any::{Any, type_name};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use treefold_core::id::PartitionId;

/// One partition of a service as an operator sees it; a clone shares the data.
#[derive(Clone)]
pub struct Partition {
    /// The service it belongs to.
    pub service: Arc<str>,
    /// Its number, below `total`.
    pub id: PartitionId,
    /// How many partitions the service has in all.
    pub total: u32,
    data: Arc<dyn Any + Send + Sync>,
}

impl Partition {
    /// Partition `id` of the `total` of `service`, holding `data`, the value it was registered with.
    pub fn new(service: Arc<str>, id: PartitionId, total: u32, data: Arc<dyn Any + Send + Sync>) -> Self {
        Self { service, id, total, data }
    }

    /// Its data, if that is a `T`.
    pub fn data<T: Any>(&self) -> Option<&T> {
        self.data.downcast_ref()
    }

    /// Its data as a `T`, for whoever registered nothing else.
    ///
    /// # Errors
    /// When it is something else; the error names the partition and the type.
    pub fn data_as<T: Any>(&self) -> Result<&T> {
        self.data().ok_or_else(|| self.not_a::<T>())
    }

    /// Its data as a `T` to keep beyond the call, for futures and threads.
    ///
    /// # Errors
    /// As [`data_as`](Self::data_as).
    pub fn data_shared<T: Any + Send + Sync>(&self) -> Result<Arc<T>> {
        Arc::clone(&self.data).downcast().map_err(|_| self.not_a::<T>())
    }

    #[cold]
    fn not_a<T>(&self) -> OperatorError {
        let (service, id) = (&self.service, self.id);
        OperatorError::new(format!("the data of {service}, partition {id}, is no {}", type_name::<T>()))
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{} of {}]", self.service, self.id, self.total)
    }
}

/// Where an aggregation's operators run: a worker costs a hand-over of some microseconds, the loop costs
/// whoever else waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// Always on a worker.
    #[default]
    Pool,
    /// On the node's loop: the author's word that local and reduce never block and take microseconds.
    Inline,
    /// Locals on a worker; reduces on the loop for as long as their measured cost stays below some ten
    /// microseconds.
    Measured,
}

/// The named pair of a local and a reduce, with the types of parameters and partial.
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
    /// What the caller gives.
    type Params: Body + Sync;
    /// What travels up the tree, and what the caller gets.
    type Partial: Body;

    /// One partition's partial result.
    ///
    /// # Errors
    /// Any error makes this partition missing from the answer, with the error as the reason.
    fn local(&self, partition: &Partition, params: &Self::Params) -> Result<Self::Partial>;

    /// Two partials as one; associative and commutative.
    ///
    /// # Errors
    /// Any error loses what both partials held.
    fn reduce(&self, a: Self::Partial, b: Self::Partial, params: &Self::Params) -> Result<Self::Partial>;

    /// What the caller makes of the last partial, once; by default nothing.
    ///
    /// # Errors
    /// Any error becomes the call's.
    fn finish(&self, partial: Self::Partial, params: &Self::Params) -> Result<Self::Partial> {
        let _ = params;
        Ok(partial)
    }

    /// Where local and reduce run.
    fn placement(&self) -> Placement {
        Placement::Pool
    }

    /// True when partials can be cut by key, so that a call may fold its slices side by side: see [`split`](Self::split).
    fn is_sliceable(&self) -> bool {
        false
    }

    /// A partial cut by key into `slices` parts, some of them empty perhaps. What a key belongs to depends on the key and
    /// on `slices` alone, so that folding the parts of the same number and joining what comes of it is folding the whole:
    /// `join(reduce(aᵢ, bᵢ) for each i) = reduce(a, b)`.
    ///
    /// # Errors
    /// Any error is the local's. By default nothing can be cut.
    fn split(
        &self,
        partial: Self::Partial,
        slices: u32,
        params: &Self::Params,
    ) -> Result<Vec<Self::Partial>> {
        let _ = (partial, params);
        Err(OperatorError::new(format!("its partials can't be cut into {slices} slices")))
    }

    /// The parts that [`split`](Self::split) made, in order and each folded, as one; by default by reducing them.
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
/// They run as tasks, not on workers, so what they must not do is block a thread.
pub trait AsyncAggregation: Send + Sync + 'static {
    /// What the caller gives.
    type Params: Body + Sync;
    /// What travels up the tree, and what the caller gets.
    type Partial: Body;

    /// One partition's partial result; as [`Aggregation::local`]. Dropped when the answer is no longer
    /// wanted.
    fn local(
        &self,
        partition: Partition,
        params: Arc<Self::Params>,
    ) -> impl Future<Output = Result<Self::Partial>> + Send;

    /// Two partials as one; as [`Aggregation::reduce`].
    fn reduce(
        &self,
        a: Self::Partial,
        b: Self::Partial,
        params: Arc<Self::Params>,
    ) -> impl Future<Output = Result<Self::Partial>> + Send;

    /// What the caller makes of the last partial, once; by default nothing.
    ///
    /// # Errors
    /// Any error becomes the call's.
    fn finish(&self, partial: Self::Partial, params: &Self::Params) -> Result<Self::Partial> {
        let _ = params;
        Ok(partial)
    }

    /// True when an operator that waits takes one of the node's processors all the same, so that the load
    /// index and the queue count it as work; false when any number may wait side by side.
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
        assert_eq!(refused, "the data of words, partition 3, is no alloc::string::String");
        assert_eq!(
            partition.data_shared::<u8>().unwrap_err().to_string(),
            refused.replace("alloc::string::String", "u8")
        );
    }
}
