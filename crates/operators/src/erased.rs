//! Aggregations as functions of bytes, which is the form that a driver runs.
//!
//! A node holds aggregations of many types and moves payloads without types. So each typed operator is
//! wrapped in decode, call, encode. Parameters are decoded at each invocation: they are small compared with
//! the work, and a cache of decoded parameters would need to know when their last use was. An error says
//! which bytes could not be read: the caller's parameters or another node's partial.
//!
//! Nothing here catches a panic. The driver decides where an operator runs and how it handles a panic.

use crate::aggregation::{AsyncAggregation, Partition, Placement};
use crate::codec::{Body, Codec};
use crate::declared::Declared;
use crate::error::{OperatorError, Result};
use crate::separate::SeparateAggregation;
use bytes::Bytes;
use std::any::{TypeId, type_name};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use treefold_core::wave::slice::Slice;

/// A future of a partial.
pub type Pending = Pin<Box<dyn Future<Output = Result<Bytes>> + Send>>;

/// The result of running an operator: its partial, or a future of it.
pub enum Outcome {
    /// The partial, or the error.
    Now(Result<Bytes>),
    /// An operator that waits. Dropping the future ends it.
    Later(Pending),
}

impl Outcome {
    /// Returns the partial of an operator that doesn't wait, or `None` for one that does.
    pub fn now(self) -> Option<Result<Bytes>> {
        match self {
            Self::Now(result) => Some(result),
            Self::Later(_) => None,
        }
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(result) => f.debug_tuple("Now").field(result).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// An aggregation with its types erased.
pub trait Operator: Send + Sync {
    /// Computes one partition's partial.
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome;

    /// Merges two partials into one.
    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome;

    /// Merges partials into one. The result must be that of reducing them in pairs.
    ///
    /// A node gives all partials of a wave that it has when it begins, up to sixteen. If that fails, it reduces them in pairs,
    /// and blames the partial with which a pair fails. The default implementation reduces each with the result of those before
    /// it, and fails if a reduce returns [`Outcome::Later`].
    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        let reduced = parts.into_iter().map(Ok).reduce(|a, b| match self.reduce(a?, b?, params) {
            Outcome::Now(result) => result,
            Outcome::Later(_) => {
                Err(OperatorError::new("this aggregation can't merge several partials at once"))
            }
        });
        Outcome::Now(reduced.unwrap_or_else(|| Err(OperatorError::new("there is no partial to merge"))))
    }

    /// Returns true if a node must not call [`reduce_all`](Self::reduce_all). An operator returns true if its
    /// [`reduce`](Self::reduce) returns [`Outcome::Later`].
    fn reduces_in_pairs(&self) -> bool {
        false
    }

    /// Turns the last partial into the call's result.
    ///
    /// # Errors
    /// The error of the author's `finish`, or a body that could not be read.
    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes>;

    /// Returns the place where local and reduce run. Ignored for an operator that returns [`Outcome::Later`].
    fn placement(&self) -> Placement;

    /// Returns true if running the operator occupies one of the node's processors. False only for one that
    /// merely waits.
    fn holds_processor(&self) -> bool;

    /// Returns true if its partials can be cut into slices and joined again.
    fn is_sliceable(&self) -> bool {
        false
    }

    /// Computes one partition's partial, cut into `slices`.
    ///
    /// # Errors
    /// The error of the author's `local` or `split`. The default implementation always fails.
    fn local_sliced(&self, partition: &Partition, slices: u32, params: &Bytes) -> Result<Vec<Bytes>> {
        let _ = (partition, params);
        Err(OperatorError::new(format!("this aggregation can't cut its partials into {slices} slices")))
    }

    /// Returns true if [`local_slice`](Self::local_slice) makes a slice alone.
    fn gives_slices(&self) -> bool {
        self.is_sliceable()
    }

    /// Computes one slice of one partition's partial, and no other; the whole is slice 0 of 1. `reduce` are the parameters of
    /// the call's reduce, for an operator that brings a sample into its form.
    ///
    /// The default implementation cuts the whole partial, and ignores `reduce`.
    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, reduce: &Bytes) -> Outcome {
        let _ = reduce;
        if slice.is_whole() {
            return self.local(partition, params);
        }
        let parts = self.local_sliced(partition, slice.of(), params);
        Outcome::Now(parts.and_then(|parts| taken(parts, slice)))
    }

    /// Joins the slices of a value into one.
    ///
    /// # Errors
    /// The error of the author's `join`. The default implementation always fails.
    fn join(&self, parts: Vec<Bytes>, params: &Bytes) -> Result<Bytes> {
        let _ = params;
        Err(OperatorError::new(format!("this aggregation can't join {} slices", parts.len())))
    }

    /// Returns the ready-made reduce that folds its partials, if it is one: any node can then fold them, also one without
    /// the service.
    fn declared(&self) -> Option<Declared> {
        None
    }

    /// Returns the codecs of its parameters and of its partial, in this order.
    fn codecs(&self) -> (Codec, Codec);

    /// Returns the types of its parameters and of its partial, in this order, with their names; `None` if it has an
    /// encoding of its own.
    fn types(&self) -> Option<[(TypeId, &'static str); 2]> {
        None
    }
}

fn types_of<P: 'static, T: 'static>() -> Option<[(TypeId, &'static str); 2]> {
    Some([(TypeId::of::<P>(), type_name::<P>()), (TypeId::of::<T>(), type_name::<T>())])
}

/// An [`Aggregation`](crate::Aggregation) as an [`Operator`].
#[derive(Clone, Copy, Debug)]
pub struct Erased<A>(pub A);

/// An [`AsyncAggregation`] as an [`Operator`]. It is shared, because a future outlives the call that created
/// it.
#[derive(Debug)]
pub struct ErasedAsync<A>(pub Arc<A>);

/// Erases the types of `aggregation`.
pub fn erase(aggregation: impl SeparateAggregation) -> Arc<dyn Operator> {
    Arc::new(Erased(aggregation))
}

/// Erases the types of `aggregation`.
pub fn erase_async(aggregation: impl AsyncAggregation) -> Arc<dyn Operator> {
    Arc::new(ErasedAsync(Arc::new(aggregation)))
}

pub(crate) fn params_of<P: Body>(params: &Bytes) -> Result<P> {
    P::decode(params).map_err(OperatorError::invalid_params)
}

/// Decodes a partial and drops its bytes. A partial that shares them may then own them alone and be folded in
/// place.
#[expect(clippy::needless_pass_by_value, reason = "the bytes must be dropped here")]
fn partial_from<P: Body>(partial: Bytes) -> Result<P> {
    partial_of(&partial)
}

/// One of a partial's slices.
pub(crate) fn taken<T>(parts: Vec<T>, slice: Slice) -> Result<T> {
    let (made, of) = (parts.len(), slice.of());
    let part = parts.into_iter().nth(slice.index() as usize).filter(|_| made == of as usize);
    part.ok_or_else(|| OperatorError::new(format!("split made {made} slices of {of}")))
}

fn in_a(error: OperatorError) -> OperatorError {
    error.in_partial(0)
}

fn in_b(error: OperatorError) -> OperatorError {
    error.in_partial(1)
}

fn partial_of<P: Body>(partial: &Bytes) -> Result<P> {
    P::decode(partial).map_err(|error| OperatorError::caused_by("partial", error))
}

impl<A: SeparateAggregation> Operator for Erased<A> {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        let run = || Ok(self.0.local(partition, &params_of(params)?)?.encode()?);
        Outcome::Now(run())
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        let run = move || {
            let (params, parts) = (params_of(params)?, [a, b]);
            if let Some(merged) = self.0.reduce_encoded(&parts, &params) {
                return Ok(merged);
            }
            let [a, b] = parts;
            let (a, b) = (partial_from(a).map_err(in_a)?, partial_from(b).map_err(in_b)?);
            Ok(self.0.reduce(a, b, &params)?.encode()?)
        };
        Outcome::Now(run())
    }

    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        let run = || {
            let params = params_of(params)?;
            if let Some(merged) = self.0.reduce_encoded(&parts, &params) {
                return Ok(merged);
            }
            let parts = parts.into_iter().map(partial_from).collect::<Result<Vec<_>>>()?;
            Ok(self.0.reduce_all(parts, &params)?.encode()?)
        };
        Outcome::Now(run())
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        Ok(self.0.finish(partial_of(&partial)?, &params_of(params)?)?.encode()?)
    }

    fn placement(&self) -> Placement {
        self.0.placement()
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn is_sliceable(&self) -> bool {
        self.0.is_sliceable()
    }

    fn local_sliced(&self, partition: &Partition, slices: u32, params: &Bytes) -> Result<Vec<Bytes>> {
        let params = params_of(params)?;
        let partial = self.0.local(partition, &params)?;
        let parts = self.0.split(partial, slices, &params)?;
        parts.into_iter().map(|part| Ok(part.encode()?)).collect()
    }

    fn gives_slices(&self) -> bool {
        self.0.gives_slices()
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, _: &Bytes) -> Outcome {
        if slice.is_whole() {
            return self.local(partition, params);
        }
        let run = || Ok(self.0.local_slice(partition, slice, &params_of(params)?)?.encode()?);
        Outcome::Now(run())
    }

    fn join(&self, parts: Vec<Bytes>, params: &Bytes) -> Result<Bytes> {
        let parts = parts.iter().map(partial_of).collect::<Result<Vec<_>>>()?;
        Ok(self.0.join(parts, &params_of(params)?)?.encode()?)
    }

    fn codecs(&self) -> (Codec, Codec) {
        (A::Params::CODEC, A::Partial::CODEC)
    }

    fn types(&self) -> Option<[(TypeId, &'static str); 2]> {
        types_of::<A::Params, A::Partial>()
    }
}

impl<A: AsyncAggregation> Operator for ErasedAsync<A> {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        let (aggregation, partition, params) = (Arc::clone(&self.0), partition.clone(), params.clone());
        Outcome::Later(Box::pin(async move {
            let params = Arc::new(params_of(&params)?);
            Ok(aggregation.local(partition, params).await?.encode()?)
        }))
    }

    fn gives_slices(&self) -> bool {
        self.0.gives_slices()
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, _: &Bytes) -> Outcome {
        if slice.is_whole() {
            return self.local(partition, params);
        }
        let (aggregation, partition, params) = (Arc::clone(&self.0), partition.clone(), params.clone());
        Outcome::Later(Box::pin(async move {
            let params = Arc::new(params_of(&params)?);
            Ok(aggregation.local_slice(partition, slice, params).await?.encode()?)
        }))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        let (aggregation, params) = (Arc::clone(&self.0), params.clone());
        Outcome::Later(Box::pin(async move {
            let params = Arc::new(params_of(&params)?);
            let (a, b) = (partial_of(&a).map_err(in_a)?, partial_of(&b).map_err(in_b)?);
            Ok(aggregation.reduce(a, b, params).await?.encode()?)
        }))
    }

    fn reduces_in_pairs(&self) -> bool {
        true
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        Ok(self.0.finish(partial_of(&partial)?, &params_of(params)?)?.encode()?)
    }

    fn placement(&self) -> Placement {
        Placement::Pool
    }

    fn holds_processor(&self) -> bool {
        self.0.holds_processor()
    }

    fn declared(&self) -> Option<Declared> {
        self.0.declared()
    }

    fn codecs(&self) -> (Codec, Codec) {
        (A::Params::CODEC, A::Partial::CODEC)
    }

    fn types(&self) -> Option<[(TypeId, &'static str); 2]> {
        types_of::<A::Params, A::Partial>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::Aggregation;
    use crate::codec::Raw;
    use std::task::{Context, Poll, Waker};

    fn partition(id: u32) -> Partition {
        Partition::new("scores".into(), id, 4, Arc::new(i64::from(id) * 10))
    }

    /// Sums the partitions' figures. The caller multiplies the sum by a factor once.
    struct Scaled;

    impl Aggregation for Scaled {
        type Params = i64;
        type Partial = i64;

        fn local(&self, partition: &Partition, _: &i64) -> Result<i64> {
            partition.data_as::<i64>().copied()
        }

        fn reduce(&self, a: i64, b: i64, _: &i64) -> Result<i64> {
            a.checked_add(b).ok_or_else(|| OperatorError::new("overflow"))
        }

        fn finish(&self, partial: i64, factor: &i64) -> Result<i64> {
            Ok(partial * factor)
        }
    }

    #[test]
    fn erased_aggregation_gives_the_same_result_as_the_typed_one() {
        let (operator, params) = (erase(Scaled), 3i64.encode().unwrap());
        let local = |id| operator.local(&partition(id), &params).now().unwrap().unwrap();
        let sum = operator.reduce(local(1), local(2), &params).now().unwrap().unwrap();
        assert_eq!(i64::decode(&sum), Ok(30));
        assert_eq!(i64::decode(&operator.finish(sum, &params).unwrap()), Ok(90));
        assert_eq!(operator.codecs(), (Codec::MessagePack, Codec::MessagePack));
        assert!(operator.holds_processor());
    }

    /// Sums texts of figures, up to a limit.
    struct Limited;

    impl SeparateAggregation for Limited {
        type Params = String;
        type ReduceParams = i64;
        type Partial = i64;

        fn local(&self, partition: &Partition, text: &String) -> Result<i64> {
            Ok(partition.data_as::<i64>()? + text.len() as i64)
        }

        fn reduce(&self, a: i64, b: i64, limit: &i64) -> Result<i64> {
            Ok((a + b).min(*limit))
        }
    }

    #[test]
    fn a_reduce_may_have_parameters_of_another_type() {
        let (operator, limit) = (erase(Limited), 25i64.encode().unwrap());
        let text = "five.".to_string().encode().unwrap();
        let local =
            |id| operator.local_slice(&partition(id), Slice::WHOLE, &text, &limit).now().unwrap().unwrap();
        let sum = operator.reduce(local(1), local(2), &limit).now().unwrap().unwrap();
        assert_eq!(i64::decode(&sum), Ok(25));
        assert_eq!(
            operator.reduce_all(vec![local(0), local(0)], &limit).now().unwrap().unwrap(),
            10i64.encode().unwrap()
        );
        assert_eq!(operator.join(vec![local(1), local(2)], &limit).unwrap(), limit);
        let refused = operator.reduce(local(1), local(2), &text).now().unwrap().unwrap_err();
        assert!(refused.is_of_params(), "{refused}");
    }

    #[test]
    fn an_error_says_whether_parameters_or_partial_were_unreadable() {
        let (operator, params) = (erase(Scaled), 3i64.encode().unwrap());
        let text = "text".to_string().encode().unwrap();
        let refused = |outcome: Outcome| outcome.now().unwrap().unwrap_err().to_string();
        assert!(refused(operator.local(&partition(1), &text)).starts_with("can't read i64"));
        assert!(
            refused(operator.reduce(text, params.clone(), &params)).starts_with("partial: can't read i64")
        );
    }

    #[test]
    fn partials_merged_at_once_give_the_same_as_in_pairs() {
        let (operator, none) = (erase(Scaled), 1i64.encode().unwrap());
        let figures = |figures: &[i64]| figures.iter().map(|figure| figure.encode().unwrap()).collect();
        let all = |parts: Vec<Bytes>| operator.reduce_all(parts, &none).now().unwrap();
        assert_eq!(i64::decode(&all(figures(&[1, 20, 300])).unwrap()), Ok(321));
        assert_eq!(i64::decode(&all(figures(&[1])).unwrap()), Ok(1));
        assert_eq!(all(figures(&[i64::MAX, 1, 2])).unwrap_err().to_string(), "overflow");
        assert_eq!(all(Vec::new()).unwrap_err().to_string(), "there is no partial to merge");
        let text = all(vec![1i64.encode().unwrap(), "text".to_string().encode().unwrap()]).unwrap_err();
        assert!(text.to_string().starts_with("partial: can't read i64"), "{text}");
    }

    /// Joins raw bytes, after it has yielded once.
    struct Joined;

    impl AsyncAggregation for Joined {
        type Params = ();
        type Partial = Raw;

        async fn local(&self, partition: Partition, _: Arc<()>) -> Result<Raw> {
            yield_once().await;
            Ok(Raw(Bytes::from(partition.id.to_string())))
        }

        async fn reduce(&self, a: Raw, b: Raw, _: Arc<()>) -> Result<Raw> {
            Ok(Raw([a.0, b.0].concat().into()))
        }

        fn holds_processor(&self) -> bool {
            false
        }
    }

    async fn yield_once() {
        let mut yielded = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut yielded, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn finished(outcome: Outcome) -> Result<Bytes> {
        let Outcome::Later(mut future) = outcome else {
            panic!("an asynchronous operator must return a future")
        };
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                return result;
            }
        }
    }

    #[test]
    fn an_asynchronous_aggregation_gives_owning_futures() {
        let operator = erase_async(Joined);
        let (one, two) =
            (operator.local(&partition(1), &Bytes::new()), operator.local(&partition(2), &Bytes::new()));
        let outcome = operator.reduce(finished(one).unwrap(), finished(two).unwrap(), &Bytes::new());
        let refused = operator.reduce_all(vec![Bytes::new(), Bytes::new()], &Bytes::new()).now().unwrap();
        assert!(refused.unwrap_err().to_string().contains("can't merge several partials at once"));
        assert!(operator.reduces_in_pairs());
        assert!(!operator.holds_processor());
        assert_eq!(operator.codecs(), (Codec::MessagePack, Codec::Raw));
        drop(operator);
        assert_eq!(finished(outcome).unwrap().as_ref(), b"12");
    }
}
